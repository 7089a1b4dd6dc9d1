"""What a contestant left: ``python verify.py DIRECTORY`` prints the rows, the distinct events and the exits stored."""

import json
import sys
from pathlib import Path

from work import connect

_EXITS = """
    SELECT kind || ':' || reason_code AS exit, count() FROM exit_classifications FINAL GROUP BY exit ORDER BY exit
"""
_COUNTS = "SELECT count(), uniqExact(tenant, event_id), sum(length(event)) FROM terminal_events"

if __name__ == "__main__":
    client = connect(Path(sys.argv[1]))
    rows, distinct, size = client.query(_COUNTS).result_rows[0]
    exits = {str(row[0]): row[1] for row in client.query(_EXITS).result_rows}
    print(json.dumps({"rows": rows, "distinct": distinct, "text_bytes": size, "exits": exits}))
