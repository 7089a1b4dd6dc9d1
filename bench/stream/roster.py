"""Who takes part, and what was tuned for each."""

from dataclasses import dataclass

PROJECT = "project"
"""The environment of offramp itself."""


@dataclass(frozen=True)
class Contestant:
    """A script of ``contestants/`` in one of the environments. ``classifies`` is false for the floor alone."""

    name: str
    title: str
    environment: str
    classifies: bool = True


ROSTER = (
    Contestant("offramp_kafka_python", "**offramp** on kafka-python, its default", PROJECT),
    Contestant("offramp_confluent", "**offramp** on confluent-kafka", PROJECT),
    Contestant("offramp_alone", "**offramp** on confluent-kafka, in one process", PROJECT),
    Contestant("faust_take", "Faust, `take` batches", "faust"),
    Contestant("faust_single", "Faust, one at a time", "faust"),
    Contestant("quix", "Quix Streams, batching sink", "quix"),
    Contestant("kafka_python_rows", "by hand: kafka-python, rows", "clients"),
    Contestant("kafka_python_blocks", "by hand: kafka-python, raw blocks", "clients"),
    Contestant("confluent_rows", "by hand: confluent-kafka, rows", "clients"),
    Contestant("confluent_blocks", "by hand: confluent-kafka, raw blocks", "clients"),
    Contestant("confluent_overlapped", "by hand: confluent-kafka, raw blocks stored in a thread", "clients"),
    Contestant("confluent_processes", "by hand: confluent-kafka, raw blocks made by two processes", "clients"),
    Contestant("floor", "floor: consume, fastavro, raw Avro block", "clients", classifies=False),
)


def chosen(names: list[str]) -> tuple[Contestant, ...]:
    """The contestants of these names, all without any. Raises KeyError for an unknown name."""
    by_name = {contestant.name: contestant for contestant in ROSTER}
    return tuple(by_name[name] for name in names) if names else ROSTER
