import json

import pytest

from schemas.errors import MessageError
from sources.base import Document, Options
from sources.registry import recognised
from sources.tau_bench import ADAPTER
from tests.sources.kit import (
    DATA,
    broken,
    errors,
    golden_lines,
    golden_path,
    read_file,
    read_json,
    records,
    reworded,
    without_words,
)

PATH = DATA / "tau_bench" / "airline.subset.json"
RUNS = json.loads(PATH.read_text(encoding="utf-8"))


def by_task():
    return {event["request"]["request_ref"]: event for event in records(read_json(ADAPTER, RUNS))}


def test_golden():
    assert golden_lines(ADAPTER, PATH) == golden_path(ADAPTER, PATH).read_text(encoding="utf-8")


def test_recognised():
    assert recognised(Document(PATH.name, PATH.read_bytes())) == (ADAPTER,)


def test_every_outcome_is_unknown_because_only_words_tell():
    calls = [call for event in by_task().values() for call in event.get("tool_calls", [])]
    assert {call["outcome"] for call in calls} == {"unknown"}
    assert {call["access"] for call in calls} >= {"read", "write"}


def test_run_cut_at_its_limit_was_not_evaluated():
    assert by_task()["9"]["completion"]["result"] == "not_evaluated"
    assert "budget" not in by_task()["9"]


@pytest.mark.parametrize(("reward", "result"), [(1.0, "satisfied"), (0.0, "unsatisfied"), (None, "not_evaluated")])
def test_reward_is_the_predicate(reward, result):
    evaluated = next(run for run in RUNS if run["info"]["reward_info"])
    (event,) = records(read_json(ADAPTER, [{**evaluated, "reward": reward}]))
    assert event["completion"] == {"predicate_id": "tau_bench.reward", "result": result}


def test_there_is_no_time_and_no_legacy_exit():
    items = read_file(ADAPTER, PATH, Options(occurred_at="2026-01-01T00:00:00Z"))
    assert records(items, "legacy_exit") == []
    assert {event["occurred_at"] for event in records(items)} == {"2026-01-01T00:00:00Z"}


def test_words_change_nothing():
    def facts(runs):
        events = [without_words(event) for event in records(read_json(ADAPTER, runs))]
        return [{key: event[key] for key in event if key not in ("event_id", "run_id")} for event in events]

    assert facts(reworded(RUNS, frozenset({"content"}))) == facts(RUNS)


def test_broken_run_costs_only_itself():
    items = read_json(ADAPTER, [{"traj": 1}, *RUNS])
    assert [error.path for error in errors(items)] == ["[0].traj"]
    assert len(items) == len(RUNS) + 1


def test_wrong_types_anywhere_are_errors_and_nothing_else():
    for value in broken(RUNS[:1]):
        assert read_json(ADAPTER, value) or not value


def test_truncated_or_foreign_file_is_one_error():
    data = PATH.read_bytes()
    for text in (b"", data[:10_000], b"{}", b"3", b"null"):
        (error,) = ADAPTER.read(Document("x", text))
        assert isinstance(error, MessageError)
