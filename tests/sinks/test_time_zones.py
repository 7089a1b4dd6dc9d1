"""The host's time zone shifts nothing: the same rows in another zone, written and read by another process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sinks.rows import encode_classifications, encode_events, encode_ledger
from tests.sinks.samples import NOW, classification, classification_row, event, event_row, ledger_row

ROUND_TRIP = """
import json, sys, time
from pathlib import Path
from sinks.store import open_store
from tests.sinks.test_time_zones import store_all, read_all
with open_store(Path(sys.argv[1]), holder="test", lock_timeout_s=0, now=lambda: 0, wait=time.sleep) as store:
    store.migrate()
    store_all(store)
    print(json.dumps(read_all(store)))
"""
# The server is elsewhere than whoever asks it.
ROUND_TRIP_TO_SERVER = """
import json, os, sys
from pathlib import Path
from sinks.double import start_double
from sinks.server import Server, open_server
from tests.sinks.test_time_zones import store_all, read_all
os.environ["TZ"] = sys.argv[2]
with start_double(Path(sys.argv[1])) as double, open_server(Server(double.url), lambda: 0) as store:
    store.migrate()
    store_all(store)
    print(json.dumps(read_all(store)))
"""
# Clocks in Los Angeles were set back at 09:00 UTC, so that this local hour came twice.
MOMENT = 1_762_074_000_000_001


def store_all(store):
    record = event("zone", tenant="zone", occurred_at=MOMENT, tool_calls=[{"started_at": MOMENT}])
    verdict = classification(record)
    store.insert("terminal_events", encode_events([event_row(record, ingested_at=NOW)]))
    store.insert("exit_classifications", encode_classifications([classification_row(record, verdict)]))
    store.insert("ingest_ledger", encode_ledger([ledger_row(0, partition="zone")]))


def read_all(store):
    (stored,) = [e for page in store.scan_events(MOMENT, MOMENT + 1) for e in page]
    texts = [
        store.query(
            "SELECT occurred_at, tool_calls.started_at, ingested_at FROM v_events WHERE tenant = 'zone'", "CSV"
        ),
        store.query("SELECT occurred_at, deadline, classified_at FROM v_exits WHERE tenant = 'zone'", "CSV"),
        store.query("SELECT first_recorded_at FROM v_ledger WHERE partition = 'zone'", "CSV"),
        store.query("SELECT count() FROM v_events WHERE occurred_at = '2025-11-02 09:00:00.000001'", "CSV"),
        store.query(
            "SELECT toHour(occurred_at), toHour(toDateTime('2025-11-02 09:00:00')) FROM v_events LIMIT 1", "CSV"
        ),
    ]
    deadline = store.classification("zone", "zone")["envelope"]["deadline"]
    return [*(text.decode() for text in texts), stored.ingested_at, deadline]


@pytest.mark.parametrize(
    ("code", "zone", "elsewhere"),
    [
        *((ROUND_TRIP, zone, "UTC") for zone in ("UTC", "America/Los_Angeles", "Asia/Kolkata")),
        (ROUND_TRIP_TO_SERVER, "America/Los_Angeles", "Asia/Kolkata"),
        (ROUND_TRIP_TO_SERVER, "Asia/Kolkata", "America/Los_Angeles"),
    ],
)
def test_instants_survive_any_host_time_zone(tmp_path, code, zone, elsewhere):
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "store"), elsewhere],
        env=os.environ | {"TZ": zone}, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == [
        '"2025-11-02 09:00:00.000001","[\'2025-11-02 09:00:00.000001\']","2025-11-30 08:00:00.123457"\n',
        '"2025-11-02 09:00:00.000001","2025-11-30 08:00:00.123458","2025-11-30 08:00:00.123457"\n',
        '"2025-11-30 08:00:00.123457"\n',
        "1\n",
        "9,9\n",
        NOW,
        NOW + 1,
    ]
