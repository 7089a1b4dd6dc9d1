"""A loop by hand on kafka-python; stores Arrow blocks, inserted as they are."""

from on_kafka_python import KafkaPython
from reading import run
from storing import Blocks
from work import Judge, job

if __name__ == "__main__":
    the_job = job(batch=5_000)
    run(the_job, KafkaPython(the_job), Judge().judge_all, Blocks(the_job.store))
