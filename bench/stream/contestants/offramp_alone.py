"""offramp on confluent-kafka, in one process."""

from on_offramp import run
from work import job

if __name__ == "__main__":
    run(job(batch=10_000), "confluent", processes=0)
