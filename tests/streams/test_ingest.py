"""The writer: order of stages, dispositions, refusals, conflicts, and runs that end at any insert."""

import io
import json
from collections import Counter

import pytest

from classifier.table import default_text, load
from schemas.canonical import content_digest
from schemas.companions import ReviewEvent
from schemas.redaction import Redactor
from sinks.errors import StoreUnavailable
from sinks.rows import Disposition
from streams import ingest
from streams.cut import Limits
from streams.files import SOURCE_KIND, chunks, open_source
from streams.ingest import Report, Writer
from streams.worker import Setup, Task, Worker
from tests.streams.memory_sink import MemorySink

TABLE = load(default_text())
OTHER = load(default_text().replace('version = "', 'version = "other-', 1))
REDACTOR = Redactor(b"a key of the tests, long enough")
EVENT = {"type": "terminal_event", "version": 1, "run_id": "r", "tenant": "acme", "agent_id": "a",
         "occurred_at": "2026-11-30T08:00:00Z"}  # fmt: skip
_WORKERS = {table.digest: Worker(Setup(table.text, REDACTOR)) for table in (TABLE, OTHER)}


def event(event_id, **fields):
    return EVENT | {"event_id": event_id} | fields


def companion(record_id, kind="enrichment", **fields):
    return {"type": kind, "version": 1, "record_id": record_id, "tenant": "acme"} | fields


LINES = [
    event("1"),
    event("2"),
    "nonsense",
    event("1"),
    companion("c"),
    event("2", agent_id="b"),
    event("3"),
    companion("c"),
    companion("c", component="x", extensions={"vendor": "y"}),
    event("3"),
    event("4"),
    "[]",
    event("2", agent_id="c"),
]
FATES = {
    ("terminal_event", Disposition.CLASSIFIED): 4,
    ("terminal_event", Disposition.DUPLICATE): 2,
    ("terminal_event", Disposition.CONFLICTING): 2,
    ("enrichment", Disposition.STORED): 1,
    ("enrichment", Disposition.DUPLICATE): 1,
    ("enrichment", Disposition.CONFLICTING): 1,
    ("", Disposition.DEAD_LETTERED): 2,
}


@pytest.fixture
def ingested(tmp_path, monkeypatch):
    """Run lines as one file through a worker into a sink, in chunks and batches of a size."""

    def run(sink, lines=LINES, *, size=100, table=TABLE, now=1_000):
        monkeypatch.setattr(ingest, "BATCH_RECORDS", size)
        text = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
        path = tmp_path / "lines"
        path.write_text(text)
        source, report = open_source(str(path), tmp_path, io.BytesIO()), Report()
        tasks = (
            Task(chunk, SOURCE_KIND, source.partition, now) for chunk in chunks(source, Limits(chunk_records=size))
        )
        writer = Writer(sink, table, lambda: now)
        recorded = writer.recorded_until(SOURCE_KIND, source.partition)
        for _ in writer.write(map(_WORKERS[table.digest].run, tasks), report, recorded):
            pass
        writer.activate()
        return report

    return run


def test_every_message_has_one_fate_and_they_add_up(ingested):
    sink = MemorySink()
    report = ingested(sink)
    assert report.fates == FATES
    assert report.read == len(LINES) == sum(report.dispositions.values())
    assert (report.events, report.errors) == (8, 2)
    ledger = Counter((row["record_type"], row["disposition"]) for row in sink.seen("ingest_ledger"))
    assert ledger == {(kind, fate.value): count for (kind, fate), count in FATES.items()}
    assert {table: len(rows) for table, rows in sink.tables.items() if rows} == {
        "terminal_events": 4, "exit_classifications": 4, "enrichments": 1, "conflicting_events": 3,
        "dead_letters": 2, "ingest_ledger": 13, "active_tables": 1,
    }  # fmt: skip


def test_evidence_comes_first_and_the_ledger_last(ingested):
    sink = MemorySink()
    ingested(sink, size=7)
    assert sink.log == [
        "active_tables",
        "terminal_events", "enrichments", "conflicting_events", "exit_classifications", "dead_letters", "ingest_ledger",
        "terminal_events", "conflicting_events", "exit_classifications", "dead_letters", "ingest_ledger",
    ]  # fmt: skip


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8])
def test_the_size_of_batches_changes_nothing(ingested, size):
    whole, pieces = MemorySink(), MemorySink()
    assert ingested(pieces, size=size) == ingested(whole)
    assert pieces.contents() == whole.contents()


@pytest.mark.parametrize("size", [1, 4, 100])
def test_running_again_writes_nothing(ingested, size):
    sink = MemorySink()
    first, log = ingested(sink), list(sink.log)
    assert ingested(sink, size=size, now=9_000) == first
    assert sink.log == log


@pytest.mark.parametrize("size", [2, 5, 100])
def test_a_run_that_ends_before_any_insert_is_finished_by_the_next(ingested, size):
    whole = MemorySink()
    ingested(whole, size=size)
    for number in range(1, len(whole.log) + 1):
        for again in (1, 3, 100):
            sink = MemorySink(ends_before=number)
            with pytest.raises(StoreUnavailable):
                ingested(sink, size=size)
            sink.ends_before = 0
            assert ingested(sink, size=again, now=2_000).fates == FATES
            assert sink.contents() == whole.contents(), (number, again)
            for table in ("terminal_events", "exit_classifications", "enrichments"):
                assert len(sink.tables[table]) == len(sink.seen(table)), (number, again, table)


def test_an_event_whose_classification_is_missing_is_classified_from_any_copy(ingested):
    sink = MemorySink(ends_before=3)
    with pytest.raises(StoreUnavailable):
        ingested(sink, [event("1"), "x", companion("c")])
    sink.ends_before = 0
    report = ingested(sink, ["y", event("1")])
    assert report.fates["terminal_event", Disposition.DUPLICATE] == 1
    assert len(sink.tables["exit_classifications"]) == 1


def test_lost_evidence_is_stored_again_and_recorded_again(ingested):
    sink = MemorySink()
    ingested(sink)
    before = sink.contents()
    sink.tables["terminal_events"].clear()
    ingested(sink)
    assert sink.contents() == before
    assert [table for table in sink.log if table == "ingest_ledger"] == ["ingest_ledger"] * 2


# --- refusals


@pytest.mark.parametrize("size", [1, 2, 100])
def test_a_refused_row_costs_only_itself(ingested, size):
    sink = MemorySink(refused=["2"])
    report = ingested(sink, [event("1"), event("2"), event("3"), event("1")], size=size)
    assert report.dispositions == {"classified": 2, "duplicate": 1, "dead_lettered": 1}
    assert report.errors == 1
    assert [row["event_id"] for row in sink.tables["exit_classifications"]] == ["1", "3"]
    (letter,) = sink.seen("dead_letters")
    assert (letter["offset"], letter["reason_code"], letter["message"]) == (1, "store_refused", "refused")
    assert json.loads(letter["raw"])["event_id"] == "2"


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_a_refused_record_is_known_to_nobody(ingested, size):
    sink = MemorySink(refused=["1"])
    lines = [event("1"), event("1"), event("1", agent_id="b"), companion("1"), companion("2")]
    report = ingested(sink, lines, size=size)
    assert report.dispositions == {"dead_lettered": 4, "stored": 1}
    letters = {row["offset"]: json.loads(row["raw"]) for row in sink.seen("dead_letters")}
    assert sorted(letters) == [0, 1, 2, 3]
    assert (letters[3]["type"], letters[3]["record_id"]) == ("enrichment", "1")
    assert sink.tables["exit_classifications"] == sink.tables["conflicting_events"] == []


def test_what_was_refused_is_stored_once_the_store_takes_it(ingested):
    sink, lines = MemorySink(refused=["1"]), [event("1"), event("2")]
    ingested(sink, lines)
    sink.refused.clear()
    assert ingested(sink, lines).dispositions == {"classified": 2}
    assert [row["disposition"] for row in sink.seen("ingest_ledger")] == ["classified"] * 2


def test_what_was_lost_and_is_refused_now_becomes_a_dead_letter(ingested):
    sink, lines = MemorySink(), [event("1"), event("2")]
    ingested(sink, lines)
    sink.tables["terminal_events"] = [row for row in sink.tables["terminal_events"] if row["event_id"] == "2"]
    sink.refused.add("1")
    assert ingested(sink, lines).dispositions == {"dead_lettered": 1, "classified": 1}
    assert [row["disposition"] for row in sink.seen("ingest_ledger")] == ["dead_lettered", "classified"]
    assert [row["offset"] for row in sink.seen("dead_letters")] == [0]


# --- conflicts


def test_a_conflict_keeps_the_whole_record_and_both_digests(ingested):
    sink = MemorySink()
    ingested(sink, [event("1"), event("1", agent_id="b"), companion("r", "review_event", event="opened"),
                    companion("r", "review_event", event="decided")])  # fmt: skip
    of_event, of_review = sorted(sink.seen("conflicting_events"), key=lambda row: -len(row["record_type"]))
    assert json.loads(of_event["text"])["agent_id"] == "b"
    review = ReviewEvent.model_validate_json(of_review["text"])
    assert content_digest(review.model_dump()) == of_review["content_digest"]
    assert review.event == "decided"
    (stored,) = sink.seen("terminal_events")
    assert (stored["agent_id"], stored["content_digest"]) == ("a", of_event["known_digest"])
    assert of_event["content_digest"] != of_event["known_digest"]


def test_the_first_content_stays_whatever_comes_later(ingested):
    sink = MemorySink()
    ingested(sink, [event("1")])
    ingested(sink, [event("1", agent_id="b"), event("1", agent_id="c")])
    report = ingested(sink, [event("1", agent_id="b")])
    assert report.dispositions == {"conflicting": 1}
    assert [row["agent_id"] for row in sink.tables["terminal_events"]] == ["a"]
    assert len(sink.seen("conflicting_events")) == 2
    assert len(sink.seen("exit_classifications")) == 1


# --- tables


def test_another_table_adds_classifications_and_no_evidence(ingested):
    sink = MemorySink()
    ingested(sink)
    ingested(sink, table=OTHER, now=2_000)
    assert len(sink.tables["terminal_events"]) == 4
    assert Counter(row["table_digest"] for row in sink.tables["exit_classifications"]) == {
        TABLE.digest: 4, OTHER.digest: 4,
    }  # fmt: skip
    assert len(sink.tables["ingest_ledger"]) == len(LINES)


def test_what_was_erased_comes_back_in_no_table(ingested):
    sink, lines = MemorySink(), [event("1", goal="x"), event("1", agent_id="b"), "nonsense", event("2")]
    ingested(sink, lines)
    other = sink.tables["conflicting_events"][0]["content_digest"]
    place = sink.tables["dead_letters"][0]
    sink.noted = {
        ("terminal_event", ("acme", "1")), ("conflict", ("acme", other)),
        ("dead_letter", ("", f"file {place['partition']} {place['offset']}")),
    }  # fmt: skip
    sink.tables["conflicting_events"].clear()
    sink.tables["dead_letters"].clear()
    # As after an end between two inserts: the ledger knows of nothing, and everything is done again.
    sink.tables["ingest_ledger"].clear()
    ingested(sink, lines, table=OTHER)
    assert [row["text"] for row in sink.tables["conflicting_events"]] == [b'{"type":"erased"}']
    assert sink.tables["dead_letters"] == []
    explained = {
        row["event_id"]: json.loads(row["envelope"])["explanation"]
        for row in sink.tables["exit_classifications"] if row["table_digest"] == OTHER.digest
    }  # fmt: skip
    assert explained["1"] == "[erased]" != explained["2"]
    assert Counter(row["disposition"] for row in sink.seen("ingest_ledger")) == {
        "classified": 2, "conflicting": 1, "dead_lettered": 1,
    }  # fmt: skip


class ErasedMeanwhile(MemorySink):
    """Somebody erases an event right after the events of a batch were inserted."""

    def insert(self, table, stream):
        super().insert(table, stream)
        if table == "terminal_events":
            self.noted.add(("terminal_event", ("acme", "1")))


@pytest.mark.parametrize("lines", [[event("1"), event("2")], [event("1"), event("2"), event("2")]])
def test_what_is_erased_while_its_batch_is_stored_gets_an_exit_without_words(ingested, lines):
    sink = ErasedMeanwhile()
    ingested(sink, lines)
    words = {row["event_id"]: json.loads(row["envelope"])["explanation"] for row in sink.tables["exit_classifications"]}
    assert words["1"] == "[erased]" != words["2"]
    assert len(sink.tables["exit_classifications"]) == len(sink.tables["terminal_events"]) == 2
    assert len(sink.tables["ingest_ledger"]) == len(lines)


def test_what_was_erased_and_has_expired_is_stored_without_its_evidence_when_it_comes_again(ingested):
    sink, review = MemorySink(), companion("c", "review_event", reason="x", extensions={"vendor": "y"})
    lines = [event("1", trace_id="t"), event("2", trace_id="t"), review, review | {"record_id": "d"}]
    sink.noted = {("terminal_event", ("acme", "1")), ("review_event", ("acme", "c"))}
    ingested(sink, lines)
    events = {row["event_id"]: row for row in sink.tables["terminal_events"]}
    assert (events["1"]["event"], events["1"]["trace_id"]) == (b'{"type":"erased"}', "")
    assert (b'"acme"' in events["2"]["event"], events["2"]["trace_id"]) == (True, "t")
    reviews = {row["record_id"]: row for row in sink.tables["review_events"]}
    left = [(row["reviewer"], row["reason"], dict(row["extensions"])) for row in (reviews["c"], reviews["d"])]
    assert left == [(None, "", {}), (None, "x", {"vendor": "y"})]
    words = {row["event_id"]: json.loads(row["envelope"])["explanation"] for row in sink.tables["exit_classifications"]}
    assert words["1"] == "[erased]" != words["2"]
    assert len(sink.tables["ingest_ledger"]) == len(lines)


def test_a_table_is_activated_once_until_another_is(ingested):
    sink = MemorySink()
    for table in (TABLE, TABLE, OTHER, OTHER, TABLE):
        ingested(sink, table=table)
    assert [row["table_digest"] for row in sink.tables["active_tables"]] == [TABLE.digest, OTHER.digest, TABLE.digest]


def test_a_clock_that_was_set_back_does_not_keep_the_former_table_current(ingested):
    sink = MemorySink()
    ingested(sink, table=TABLE, now=5_000)
    ingested(sink, table=OTHER, now=1_000)
    newest = max(sink.tables["active_tables"], key=lambda row: row["activated_at"])
    assert (newest["table_digest"], newest["activated_at"]) == (OTHER.digest, 5_001)


def test_an_empty_file_writes_no_row(ingested):
    sink = MemorySink()
    assert ingested(sink, []).read == 0
    assert sink.log == ["active_tables"]
