"""``offramp explain`` tells why a stored event, or one of a file, got its exit."""

import json

import pytest

from classifier.table import default_text
from schemas.exits import Classification, ReviewPacket
from tests.cases import load_cases
from tests.offramp.kit import as_lines, events, new_directory, run, run_alone, write_lines

BY_ID = {case.id: case for case in load_cases()}


def injected(name, kind):
    """The case of a failure injection that must end so."""
    return next(case for case in (BY_ID[f"{name}-base"], BY_ID[f"{name}-flip"]) if case.kind == kind)


MUTATION = injected("mutation_timeout_before_acknowledgement", "human_queue")
DENIED = injected("policy_denial", "refusal")
CONTRADICTED = injected("contradictory_evidence", "human_queue")


@pytest.fixture(scope="module")
def store():
    directory = new_directory()
    other = [{**events()[0], "tenant": "globex"}]
    path = write_lines(directory / "events.jsonl", [*events(), *other])
    assert run("classify", path, "--store", directory / "store").status == 0
    return directory / "store"


@pytest.fixture(scope="module")
def file():
    return write_lines(new_directory() / "events.jsonl", events())


def explained(case, *arguments):
    done = run("explain", case.event["event_id"], "--format", "json", *arguments)
    assert done.status == 0, done.err
    return json.loads(done.out)


def test_a_stored_event_is_explained_as_that_of_a_file_is(store, file):
    event_id = MUTATION.event["event_id"]
    from_store = json.loads(run("explain", event_id, "--store", store, "--format", "json").out)
    from_file = json.loads(run("explain", event_id, "--file", file, "--format", "json").out)
    assert from_store["stored"].pop("table") == from_store["classification"]["table"]
    assert from_store["stored_by_another"] is False
    from_store["stored"] = None
    assert from_store == from_file


def test_for_people_the_outcome_comes_first(store):
    done = run_alone("explain", MUTATION.event["event_id"], "--store", store, COLUMNS="80")
    lines = done.text.splitlines()
    assert lines[0] == "human_queue: ambiguous_side_effect"
    assert max(map(len, lines)) <= 80
    order = ["Decided by row 3, ambiguous_side_effect", "Earlier rows did not hold", "Also true, and did not decide",
             "Prohibited", "Must still happen, whatever the exit is", "Envelope"]  # fmt: skip
    assert [line for line in lines if line in order] == order
    assert "   1 blocking_denial: not standing_denial" in lines
    assert any(line.startswith("      tool_calls[0].outcome = ") for line in lines)
    assert any(line.startswith("Review packet, ") for line in lines)


def test_for_programs_everything_is_data():
    path = write_lines(new_directory() / "e", [DENIED.json])
    answer = explained(DENIED, "--file", path)
    Classification.model_validate_json(json.dumps(answer["classification"]))
    assert answer["row"]["rule_id"] == answer["classification"]["rule_id"] == "blocking_denial"
    [denial] = answer["deciding"]
    assert denial["name"] == "standing_denial"
    assert {"path": "policy_decisions[0].effect", "value": "deny"} in denial["evidence"]
    assert {ruled["kind"] for ruled in answer["ruled_out"]} == set(answer["classification"]["prohibited"])


def test_a_review_packet_is_the_contract(file):
    answer = explained(CONTRADICTED, "--file", file)
    packet = ReviewPacket.model_validate_json(json.dumps(answer["packet"]))
    assert packet.review_packet_id == answer["classification"]["envelope"]["review_packet_id"]
    assert packet.missing


def test_a_gap_says_what_it_would_have_earned(tmp_path):
    event = {**DENIED.json, "components": [
        {"name": "there", "state": "completed"}, {"name": "gone", "state": "omitted", "required": False},
    ], "completion": None, "policy_decisions": []}  # fmt: skip
    path = write_lines(tmp_path / "e", [event])
    answer = explained(DENIED, "--file", path)
    [gap] = [gap for gap in answer["gaps"] if gap["path"] == "components[1].can_change_result"]
    assert gap["text"] == "component gone: can_change_result missing"
    assert gap["earns"]["kind"] == "partial"
    shown = run("explain", event["event_id"], "--file", path).text
    assert "component gone: can_change_result missing: partial, partial" in shown


def test_an_answer_of_another_table_is_told_apart(store, tmp_path):
    table = tmp_path / "mine.toml"
    table.write_text(
        default_text().replace('unverified_completion = "completed"', 'unverified_completion = "human_queue"')
    )
    case = next(case for case in BY_ID.values() if case.kind == "completed" and not case.verified)
    event_id = case.event["event_id"]
    answer = json.loads(run("explain", event_id, "--store", store, "--table", table, "--format", "json").out)
    assert answer["classification"]["kind"] == "human_queue"
    assert (answer["stored"]["kind"], answer["stored_by_another"]) == ("completed", True)
    shown = run("explain", event_id, "--store", store, "--table", table).text
    assert "The store says completed: completion_unverified, by row completion_unverified" in shown


def test_an_unknown_event_is_a_failed_check_with_a_hint(store, file):
    event_id = events()[3]["event_id"]
    for place in (("--store", store), ("--file", file)):
        near = run("explain", event_id[:-1], *place)
        assert near.status == 1
        assert near.out == b""
        assert f"did you mean {event_id}" in near.err
        far = run("explain", "'\\ nothing like it", *place)
        assert far.status == 1
        assert f"offramp {'query' if place[0] == '--store' else 'validate'}" in far.err


def test_an_event_of_several_tenants_needs_a_name(store):
    event_id = events()[0]["event_id"]
    done = run("explain", event_id, "--store", store)
    assert done.status == 2
    assert "acme, globex" in done.err
    shown = run("explain", event_id, "--store", store, "--tenant", "globex")
    assert shown.status == 0
    assert "tenant globex" in " ".join(shown.text.split())
    both = as_lines([events()[0], {**events()[0], "tenant": "globex"}])
    assert run("explain", event_id, "--file", "-", stdin=both).status == 2
    assert run("explain", event_id, "--file", "-", "--tenant", "acme", stdin=both).status == 0
    assert run("explain", event_id, "--file", "-", "--tenant", "other", stdin=both).status == 1


def test_misuse_and_missing_places(tmp_path, file):
    assert run("explain", "e", "--file", file, "--store", tmp_path).status == 2
    assert run("explain", "e", "--file", tmp_path / "none").status == 2
    done = run("explain", "e", "--store", tmp_path / "none")
    assert done.status == 3
    assert list(tmp_path.iterdir()) == []


def test_a_secret_is_not_shown(tmp_path):
    secret = "AKIA" + "Q3EGRIFTZHK7XVNB"
    call = {"tool": "s3", "arguments": f'{{"key": "{secret}"}}', "outcome": "timeout"}
    for id_, status in (("op-1", 0), (secret, 1)):
        event = {**events()[0], "tool_calls": [{**call, "operation_id": id_}]}
        path = write_lines(tmp_path / "e", [event])
        for form in ("table", "json"):
            shown = run("explain", event["event_id"], "--file", path, "--format", form)
            assert shown.status == status
            assert secret not in shown.text + shown.err
    assert "would be refused: tool_calls[0].operation_id" in shown.err


def test_control_characters_do_not_reach_a_terminal(tmp_path):
    call = {"tool": "\x1b[2Jx", "outcome": "timeout", "operation_id": "op\x07"}
    event = {**events()[0], "tool_calls": [call]}
    path = write_lines(tmp_path / "e", [event])
    shown = run("explain", event["event_id"], "--file", path).text
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "\\x1b[2Jx" in shown


def test_a_terminal_of_one_column_ends_the_page_too(store):
    done = run("explain", MUTATION.event["event_id"], "--store", store, patches={"os.environ": {"COLUMNS": "1"}})
    assert done.status == 0
    assert max(map(len, done.text.splitlines())) <= 40
