"""A loop by hand on confluent-kafka; stores Python values."""

from on_confluent import Confluent
from reading import run
from storing import Rows
from work import Judge, job

if __name__ == "__main__":
    the_job = job(batch=5_000)
    run(the_job, Confluent(the_job), Judge().judge_all, Rows(the_job.store))
