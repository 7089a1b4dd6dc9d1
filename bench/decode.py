"""The yardstick: decode an Avro container with fastavro alone, the plain way, and do nothing with the records.

``python bench/decode.py FILE``
"""

import sys
from pathlib import Path

import fastavro


def main() -> None:
    """Decode the file named on the command line; prints how many records it holds."""
    with Path(sys.argv[1]).open("rb") as file:
        print(sum(1 for _ in fastavro.reader(file)))


if __name__ == "__main__":
    main()
