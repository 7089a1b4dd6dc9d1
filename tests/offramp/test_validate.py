"""``offramp validate`` tells a producer what is wrong, unknown and missing, and what saying more would earn."""

import gzip
import io
import json

import fastavro
import pytest

from offramp.validation import MOST_NAMES
from schemas.avro import avro_schema
from schemas.events import TerminalEvent
from schemas.exits import KINDS
from tests.classifier.answers import IDENTITY, default_classifier
from tests.offramp.kit import as_lines, companion, events, run, run_alone, write_lines


def looked_at(tmp_path, records, *arguments, status=0):
    path = write_lines(tmp_path / "events.jsonl", records)
    done = run("validate", path, "--format", "json", *arguments)
    assert done.status == status, done.err
    return json.loads(done.out)


def sent(number=0, **parts):
    """An event as a producer writes it."""
    named = {"event_id": f"event-{number}", "occurred_at": "2026-03-01T00:00:00Z"}
    return {**IDENTITY, **named, **parts}


THERE, GONE = {"name": "there", "state": "completed"}, {"name": "gone", "state": "omitted", "required": False}


# --- errors


def test_errors_are_counted_by_place_and_told_by_the_first(tmp_path):
    bad = [sent(tool_calls=[{}, {"attempt": word}]) for word in ("one", "two")]
    without = {name: value for name, value in sent().items() if name != "event_id"}
    answer = looked_at(tmp_path, [sent(), bad[0], "{nope", bad[1], without, sent()], status=1)
    assert answer["messages"] == 6
    assert answer["records"] == {"terminal_event": 2}
    file = tmp_path / "events.jsonl"
    assert [(each["code"], each["path"], each["count"], each["first"]) for each in answer["errors"]] == [
        ("bad_type", "tool_calls[].attempt", 2, f"{file}, line 2"),
        ("bad_json", "", 1, f"{file}, line 3"),
        ("missing_field", "event_id", 1, f"{file}, line 5"),
    ]
    assert all(each["reason"] for each in answer["errors"])


def test_for_people_errors_come_with_their_place(tmp_path):
    path = write_lines(tmp_path / "e", [sent(tool_calls=[{"attempt": "x"}])])
    done = run("validate", path)
    assert done.status == 1
    assert "1 bad_type: tool_calls[].attempt: must be an integer; first at" in done.text
    assert "No evidence is missing" not in done.text


def test_a_secret_where_none_may_be_is_an_error_and_is_not_shown(tmp_path):
    secret = "AKIA" + "Q3EGRIFTZHK7XVNB"
    records = [sent(event_id=secret), sent(**{secret: 1}), sent(tool_calls=[{"outcome": secret, "arguments": secret}])]
    path = write_lines(tmp_path / "e", records)
    for form in ("table", "json"):
        done = run("validate", path, "--format", form)
        assert done.status == 1
        assert secret not in done.text + done.err
    answer = looked_at(tmp_path, records, status=1)
    assert [each["code"] for each in answer["errors"]] == ["redaction_failed"]
    assert answer["secrets"] >= 1


def test_a_file_that_cannot_be_read_is_misuse(tmp_path):
    done = run("validate", tmp_path / "none")
    assert (done.status, done.out) == (2, b"")
    assert "none: No such file" in done.err


# --- unknown


def test_unknown_fields_and_values_are_notes_unless_strict(tmp_path):
    records = [sent(mood="x", tool_calls=[{"outcome": "sulked"}]), sent(1, tool_calls=[{"outcome": "sulked", "v": 1}])]
    answer = looked_at(tmp_path, records)
    assert [(each["path"], each["value"], each["count"]) for each in answer["unknown"]] == [
        ("tool_calls[].outcome", "sulked", 2),
        ("mood", None, 1),
        ("tool_calls[].v", None, 1),
    ]
    assert answer["errors"] == []
    looked_at(tmp_path, records, "--strict", status=1)
    looked_at(tmp_path, [sent(extensions={"mood": '"x"'})], "--strict", status=0)
    shown = run("validate", tmp_path / "events.jsonl").text
    assert "unknown" not in shown


def test_a_file_of_nothing_but_unknown_names_is_counted_in_bounded_memory(tmp_path):
    answer = looked_at(tmp_path, [sent(**{f"field_{number}": 1 for number in range(MOST_NAMES + 5)})])
    assert len(answer["unknown"]) == MOST_NAMES + 1
    assert answer["unknown"][0] == {
        "path": "(others)",
        "value": None,
        "count": 5,
        "first": answer["unknown"][0]["first"],
    }


def test_a_long_unknown_value_is_cut(tmp_path):
    [unknown] = looked_at(tmp_path, [sent(tool_calls=[{"outcome": "so " * 100}])])["unknown"]
    assert len(unknown["value"]) < 100
    assert unknown["value"].endswith("...")


# --- missing


def test_a_missing_field_is_worth_the_exits_that_it_would_have_earned(tmp_path):
    omitted = [sent(number, components=[THERE, GONE]) for number in range(3)]
    answer = looked_at(tmp_path, [*omitted, sent(9, components=[THERE, GONE | {"can_change_result": "no"}])])
    [lack] = [lack for lack in answer["missing"] if lack["path"] == "components[].can_change_result"]
    assert (lack["events"], lack["improved"], lack["kind"]) == (3, 3, "component")
    assert lack["moves"] == [
        {
            "from": {"kind": "human_queue", "reason_code": "omission_may_change_result"},
            "to": {"kind": "partial", "reason_code": "partial"},
            "events": 3,
        }
    ]
    exits = {(each["kind"], each["reason_code"]): (each["now"], each["at_best"]) for each in answer["exits"]}
    assert exits == {("human_queue", "omission_may_change_result"): (3, 0), ("partial", "partial"): (1, 4)}


def test_all_items_of_a_list_are_filled_at_once(tmp_path):
    gone = [GONE | {"name": name} for name in "ab"]
    [lack] = looked_at(tmp_path, [sent(components=[THERE, *gone])])["missing"]
    assert (lack["events"], lack["improved"]) == (1, 1)


def test_what_improves_most_events_comes_first(tmp_path):
    claims = [sent(number, completion={"claimed": True}) for number in range(2)]
    omitted = [sent(number, components=[THERE, GONE]) for number in range(2, 5)]
    answer = looked_at(tmp_path, [*claims, *omitted])
    improved = [lack["improved"] for lack in answer["missing"]]
    assert improved == sorted(improved, reverse=True) == [3, 2]


def test_the_labelled_cases_add_up(tmp_path):
    answer = looked_at(tmp_path, events())
    now = dict.fromkeys(KINDS, 0)
    best = dict(now)
    for each in answer["exits"]:
        now[each["kind"]] += each["now"]
        best[each["kind"]] += each["at_best"]
    assert sum(now.values()) == sum(best.values()) == len(events())
    assert best["human_queue"] < now["human_queue"]
    assert best["completed"] > now["completed"]
    assert all(lack["improved"] <= lack["events"] for lack in answer["missing"])


def test_a_table_of_ones_own_is_asked(tmp_path):
    table = tmp_path / "mine.toml"
    text = default_classifier().table.text
    table.write_text(text.replace('unverified_completion = "completed"', 'unverified_completion = "human_queue"'))
    record = sent(model={"stop_class": "end"}, completion={"claimed": True})
    moves = looked_at(tmp_path, [record], "--table", table)["missing"][0]["moves"]
    assert moves[0]["from"] == {"kind": "human_queue", "reason_code": "completion_unverified"}


# --- forms, companions, coverage


def _avro(records, schema):
    buffer = io.BytesIO()
    fastavro.writer(buffer, schema, records)
    return buffer.getvalue()


def test_every_form_of_a_file_gives_the_same_answer(tmp_path):
    lines = as_lines(events())
    parsed = [TerminalEvent.model_validate_json(line).model_dump() for line in lines.splitlines()]
    forms = {
        "lines": lines,
        "array": json.dumps(events()).encode(),
        "packed": gzip.compress(lines),
        "container": _avro(parsed, avro_schema(TerminalEvent)),
    }
    answers = {}
    for name, content in forms.items():
        (tmp_path / name).write_bytes(content)
        answers[name] = json.loads(run("validate", tmp_path / name, "--format", "json").out)
        unknown = [(each["path"], each["value"]) for each in answers[name].pop("unknown")]
        assert bool(unknown) is (name != "container")
    assert all(answer == answers["lines"] for answer in answers.values())
    assert json.loads(run("validate", "-", "--format", "json", stdin=lines).out)["exits"] == answers["lines"]["exits"]


def test_a_foreign_container_shows_what_its_writer_says(tmp_path):
    schema = avro_schema(TerminalEvent)
    fields = [field for field in schema["fields"] if field["name"] in IDENTITY] + [{"name": "mood", "type": "string"}]
    record = IDENTITY | {"mood": "sulky"}
    (tmp_path / "foreign").write_bytes(_avro([record, record], schema | {"fields": fields}))
    answer = json.loads(run("validate", tmp_path / "foreign", "--format", "json").out)
    assert [(each["path"], each["count"]) for each in answer["unknown"]] == [("mood", 2)]
    assert answer["unknown"][0]["first"].endswith("foreign, record 1")


def test_companions_are_validated_and_not_classified(tmp_path):
    answer = looked_at(tmp_path, [sent(), companion("recovery_action"), companion("legacy_exit", mood=1)])
    assert answer["records"] == {"terminal_event": 1, "recovery_action": 1, "legacy_exit": 1}
    assert [each["path"] for each in answer["unknown"]] == ["mood"]
    assert sum(each["now"] for each in answer["exits"]) == 1


def test_coverage_counts_over_all_events(tmp_path):
    records = [sent(0, model={"stop_class": "end"}), sent(1, tool_calls=[{"access": "write"}, {"access": "read"}])]
    coverage = {each["evidence"]: (each["with"], each["asked"]) for each in looked_at(tmp_path, records)["coverage"]}
    assert coverage["model.stop_class"] == (1, 2)
    assert coverage["tool_calls[].access"] == (2, 2)
    assert coverage["tool_calls[].idempotency_key"] == (0, 1)


def test_for_people_it_fits_the_terminal(tmp_path):
    path = write_lines(tmp_path / "e", events())
    done = run_alone("validate", path, COLUMNS="80")
    assert done.status == 0
    assert max(map(len, done.text.splitlines())) <= 80
    assert done.text.startswith(f"{len(events())} messages: {len(events())} terminal_event, 0 no valid record\n")
    assert "Missing evidence, and what it could have earned at best" in done.text
    assert "components[].can_change_result" in done.text


@pytest.mark.parametrize("name", ["\x1b[2J", "[red]bold[/red]"])
def test_foreign_names_do_not_reach_the_terminal_as_control(tmp_path, name):
    path = write_lines(tmp_path / "e", [sent(**{name: 1})])
    shown = run("validate", path).text
    assert "\x1b" not in shown
    assert name.replace("\x1b", "\\x1b") in shown


def test_messages_that_are_no_json_are_counted_by_what_is_wrong(tmp_path):
    answer = looked_at(tmp_path, ["{'a': 1}", '{"a": 1} x', '{"long": 1} x', '{"a"'], status=1)
    assert [(each["code"], each["count"]) for each in answer["errors"]] == [("bad_json", n) for n in (2, 1, 1)]
