"""Coverage counts the records that say something, of those that were asked."""

import pytest

from classifier.coverage import MEASURES, measured
from tests.classifier.answers import at, event

WRITE = {"access": "write", "outcome": "ok", "operation_id": "op-1"}


def found(**parts):
    return {measure.evidence: (has, asked) for measure, has, asked in measured(event(**parts))}


def test_an_empty_event_has_nothing():
    assert {has for has, _ in found().values()} == {0}
    assert {name for name, (_, asked) in found().items() if asked} == {
        measure.evidence for measure in MEASURES if measure.asked == "events"
    }


@pytest.mark.parametrize(
    ("parts", "evidence", "expected"),
    [
        ({"model": {"stop_class": "end"}}, "model.stop_class", (1, 1)),
        ({"model": {"stop_class": "unknown"}}, "model.stop_class", (0, 1)),
        ({"model": {}}, "model.stop_class", (0, 1)),
        ({"request": {"actor": "a"}}, "request.actor", (1, 1)),
        ({"completion": {"result": "satisfied"}}, "completion.result", (1, 1)),
        ({"completion": {"result": "not_evaluated"}}, "completion.result", (0, 1)),
        ({"tool_calls": [WRITE, {"access": "read"}, {}]}, "tool_calls[].access", (2, 3)),
        ({"tool_calls": [WRITE, {"access": "read"}, {}]}, "tool_calls[].operation_id", (1, 2)),
        ({"tool_calls": [WRITE | {"idempotency_key": "k"}, WRITE]}, "tool_calls[].idempotency_key", (1, 2)),
        ({"tool_calls": [WRITE | {"started_at": at(-1)}, WRITE]}, "tool_calls[].started_at", (1, 2)),
        ({"tool_calls": [WRITE]}, "side_effects", (0, 1)),
        ({"tool_calls": [{"access": "read"}]}, "side_effects", (0, 0)),
        ({"tool_calls": [WRITE], "side_effects": [{}]}, "side_effects", (1, 1)),
        ({"side_effects": [{"verified_by": "none"}, {"verified_by": "read_back"}, {}]}, "side_effects[].verified_by",
         (1, 3)),
        ({"tool_calls": [{"outcome": "error"}], "fallbacks": [{}]}, "fallbacks", (1, 1)),
        ({"components": [{"state": "completed"}, {"state": "omitted", "can_change_result": "no"}, {}]},
         "components[].can_change_result", (1, 2)),
        ({"budget": {}}, "budget", (1, 1)),
        ({"policy_decisions": [{"source": "unknown"}, {"source": "validator"}]}, "policy_decisions[].source", (1, 2)),
    ],
)  # fmt: skip
def test_what_counts(parts, evidence, expected):
    assert found(**parts)[evidence] == expected


def test_every_measure_is_named_once():
    assert len({measure.evidence for measure in MEASURES}) == len(MEASURES)
