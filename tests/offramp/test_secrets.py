"""Secrets planted in every text and in what is no record: none is in a table, an output, a message or a dead letter."""

import io
import json

import fastavro
import pytest

from schemas.avro import avro_schema
from schemas.contract import INCOMING
from schemas.json_form import to_json
from schemas.redaction import Role, text_paths
from tests.offramp.kit import TABLES, counts, run
from tests.schemas.samples import at, full, places, replaced
from tests.schemas.test_redaction import PLANTS


def generic(place):
    """A place as redaction names it."""
    return "".join("[]" if isinstance(step, int) else f".{step}" for step in place).removeprefix(".")


def planted(kind, number, secret, carrier):
    """A record of a type whose every text, but identities, carries a secret; map keys too."""
    text, roles = carrier.format(secret), text_paths(kind)
    record = full(kind)
    for place in places(kind, "string"):
        if roles.get(generic(place)) is Role.SCAN and isinstance(at(record, place), str):
            record = replaced(record, place, text)
    record["extensions"] = {"key": text, f"note {text}": "value"}
    record["event_id" if kind == "terminal_event" else "record_id"] = f"{kind}-{number}"
    return record


RECORDS = [
    planted(kind, number, secret, carrier) for kind in INCOMING for number, (_, secret, carrier) in enumerate(PLANTS)
]
# The few digits of a card's code are in any digest; they are looked for with what names them.
SECRETS = [secret if len(secret) > 4 else carrier.format(secret) for _, secret, carrier in PLANTS]
FORMS = tuple({form for secret in SECRETS for form in (secret, json.dumps(secret)[1:-1])})


def leaked(text):
    return sorted(form for form in FORMS if form in text)


def as_json():
    lines = [to_json(record, INCOMING[record["type"]]) for record in RECORDS]
    identities = [
        to_json(full("terminal_event") | {"event_id": carrier.format(secret)}, INCOMING["terminal_event"])
        for _, secret, carrier in PLANTS
    ]
    unknown_type = [json.dumps({"type": "nonsense", "prose": c.format(s)}).encode() for _, s, c in PLANTS]
    wrong_key = [
        to_json(full("terminal_event"), INCOMING["terminal_event"]).replace(
            b'"checks":{"key"', b'"checks":{' + json.dumps(c.format(s)).encode() + b':"x","key"'
        )
        for _, s, c in PLANTS
    ]
    unfinished = [line[:-2] for line in lines]
    return b"\n".join([*lines, *identities, *unknown_type, *wrong_key, *unfinished]) + b"\n"


def as_avro(kind, codec):
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(avro_schema(INCOMING[kind])),
                    [record for record in RECORDS if record["type"] == kind], codec=codec)  # fmt: skip
    return out.getvalue()


INPUTS = {
    "json": as_json,
    "avro": lambda: as_avro("terminal_event", "null"),
    "avro deflate": lambda: as_avro("terminal_event", "deflate"),
    "avro companions": lambda: as_avro("review_event", "null"),
    "cut avro": lambda: as_avro("terminal_event", "null")[:-1000],
}


def test_the_plants_are_there_to_be_found():
    text = as_json().decode()
    assert [secret for secret in SECRETS if json.dumps(secret)[1:-1] not in text] == []


@pytest.mark.parametrize("form", INPUTS)
def test_no_secret_is_kept_or_shown(tmp_path, form):
    path, store = tmp_path / "events", tmp_path / "store"
    path.write_bytes(INPUTS[form]())
    done = run("classify", path, "--store", store, "--format", "ndjson")
    assert leaked(done.out.decode()) == []
    assert leaked(done.err) == []
    seen = counts(store)
    assert sum(seen.values()) > len(PLANTS)
    for table in (table for table in TABLES if seen[table]):
        for fmt in ("json", "csv"):
            rows = run("query", f"SELECT * FROM {table}", "--format", fmt, "--store", store)  # noqa: S608 -- a name
            assert leaked(rows.out.decode(errors="replace")) == [], table


def test_refused_records_are_kept_masked(tmp_path):
    path, store = tmp_path / "events", tmp_path / "store"
    path.write_bytes(as_json())
    done = run("classify", path, "--store", store)
    assert done.status == 1
    assert f"{len(RECORDS) + 3 * len(PLANTS)} dead_lettered" in done.err
    sql = "SELECT reason_code, field_path, count() AS n FROM v_dead_letters WHERE masked GROUP BY ALL"
    rows = json.loads(run("query", sql, "--format", "json", "--store", store).out)
    assert {row["reason_code"] for row in rows} == {"redaction_failed", "unsupported_type", "bad_type", "bad_json"}
    assert {row["field_path"] for row in rows} <= {"", "type", "event_id", "steps[0].checks.*"}
    assert {row["n"] for row in rows if row["reason_code"] == "redaction_failed"} == {len(PLANTS)}
