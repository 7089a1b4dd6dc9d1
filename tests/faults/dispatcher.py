"""A legacy dispatcher: decides about every terminal event that it reads, and commits. It knows nothing of offramp.

``python -m tests.faults.dispatcher SERVERS TOPIC GROUP FILE`` writes one line a message: partition, offset, decision,
and seconds since the broker took it.
"""

import json
import signal
import sys
import time
from pathlib import Path

from kafka import KafkaConsumer


def decision(value: bytes | None) -> str:
    """What users would see: whether the run is shown as done, by what it claims itself."""
    try:
        event = json.loads(value or b"")
    except ValueError:
        return "unreadable"
    completion = event.get("completion") or {}
    return "done" if completion.get("claimed") else "failed"


def main(servers: str, topic: str, group: str, file: str) -> None:
    """Until SIGTERM."""
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    consumer = KafkaConsumer(
        topic, bootstrap_servers=servers, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest"
    )
    with Path(file).open("a", encoding="utf-8", buffering=1) as out:
        while not told:
            for messages in consumer.poll(timeout_ms=200).values():
                for each in messages:
                    late = time.time() - each.timestamp / 1000
                    out.write(f"{each.partition} {each.offset} {decision(each.value)} {late:.3f}\n")
                consumer.commit()
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
