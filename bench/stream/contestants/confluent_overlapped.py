"""A loop by hand on confluent-kafka; stores Arrow blocks in a thread while it judges the next batch."""

from on_confluent import Confluent
from reading import run_overlapped
from storing import Blocks
from work import Judge, job

if __name__ == "__main__":
    the_job = job(batch=5_000)
    run_overlapped(the_job, Confluent(the_job), Judge().judge_all, Blocks(the_job.store))
