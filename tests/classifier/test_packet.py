"""The review packet: what a reviewer finds in it, in which order, and how complete it is."""

import copy
from random import Random
from typing import Any

import pytest

from classifier import packet
from classifier.decide import reason_of
from classifier.packet import NEEDED, completeness
from classifier.view import View
from schemas.exits import Classification, ReviewPacket
from schemas.types import LATEST
from tests.classifier.answers import answer, at, decided, default_classifier, event, view
from tests.strategies import OCCURRED_AT, random_event

Event = dict[str, Any]


def _packet(given: Event) -> Event:
    table = default_classifier().table
    seen = View(given, table.thresholds)
    verdict = table.decide(seen.bits)
    return packet.build(seen, verdict, reason_of(seen, verdict), table)


FULL: Event = {
    "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
    "request": {
        "request_ref": "req-9",
        "goal": "pay",
        "actor": "user-17",
        "delegated_permissions": ["payments:create"],
    },
    "model": {"stop_class": "end"},
    "policy_decisions": [
        {
            "policy_id": "limits",
            "policy_version": "7",
            "source": "application",
            "effect": "allow",
            "decided_at": at(-90),
        }
    ],
    "tool_calls": [
        {
            "operation_id": "op-1",
            "tool": "pay",
            "access": "write",
            "outcome": "timeout",
            "error_class": "DeadlineExceeded",
            "arguments": '{"amount": "12.00"}',
        }
    ],
    "side_effects": [{"operation_id": "op-1", "tool": "pay", "status": "ambiguous", "target": "invoice:7"}],
}


def _without(*path: str | int) -> Event:
    """The full parts without one field."""
    parts = copy.deepcopy(FULL)
    place: Any = parts
    for part in path[:-1]:
        place = place[part]
    del place[path[-1]]
    return parts


def test_nothing_is_missing_where_everything_is_there():
    built = _packet(event(**FULL))
    assert (built["completeness"], built["missing"]) == (1.0, [])
    assert decided(**FULL).packet_completeness == 1.0


LACKING = {
    "request": [("request",)],
    "actor": [("request", "actor")],
    "permissions": [("request", "delegated_permissions")],
    "policy_versions": [("policy_decisions", 0, "policy_version"), ("policy_decisions", 0, "policy_id")],
    "tool_outputs": [("tool_calls", 0, "error_class")],
    "mutation_identity": [],
    "mutation_arguments": [("tool_calls", 0, "arguments")],
    "mutation_targets": [("side_effects", 0, "target"), ("side_effects",)],
    "stop": [("model", "stop_class")],
    "trace": [("trace_id",)],
}


def test_everything_needed_is_tried():
    assert list(LACKING) == list(NEEDED)


@pytest.mark.parametrize(("name", "path"), [(name, path) for name, paths in LACKING.items() for path in paths])
def test_what_is_missing_is_named(name, path):
    assert name in _packet(event(**_without(*path)))["missing"]


def test_a_mutation_without_operation_or_tool_is_not_identified():
    for field in ("operation_id", "tool"):
        write = {"operation_id": "op-1", "tool": "pay", "outcome": "timeout"} | {field: None}
        assert "mutation_identity" in _packet(event(tool_calls=[write]))["missing"]


def test_words_alone_are_carried_and_are_no_request_yet():
    built = _packet(event(request={"prose": "Please pay."}))
    assert built["request_text"] == "Please pay."
    assert "request" in built["missing"]


def test_completeness_is_the_share_that_is_there():
    built = _packet(event(**_without("trace_id")))
    assert (built["missing"], built["completeness"]) == (["trace"], 0.9)
    assert completeness(view(**_without("trace_id"))) == 0.9


def test_every_packet_keeps_its_contract_and_its_score():
    rng = Random(41)
    for _ in range(1_500):
        built = _packet(random_event(rng))
        assert ReviewPacket.model_validate(built).model_dump() == built
        assert built["completeness"] == pytest.approx(1 - len(built["missing"]) / len(NEEDED))


def test_mutations_are_ordered_committed_unknown_safely_ended():
    calls = [
        {"operation_id": "a", "tool": "pay", "outcome": "denied"},
        {"operation_id": "b", "tool": "pay", "outcome": "timeout"},
        {"operation_id": "d", "tool": "pay", "outcome": "ok"},
        {"operation_id": "c", "tool": "pay", "outcome": "ok"},
        {"operation_id": "e", "tool": "pay", "outcome": "ok"},
    ]
    entries = [{"operation_id": "e", "status": "compensated", "verified_by": "read_back"}]
    mutations = _packet(event(tool_calls=calls, side_effects=entries))["mutations"]
    assert [(m["operation_id"], m["status"]) for m in mutations] == [
        ("c", "confirmed"),
        ("d", "confirmed"),
        ("b", "ambiguous"),
        ("e", "compensated"),
        ("a", "not_started"),
    ]


def test_a_mutation_says_what_was_asked_for_and_of_what():
    (mutation,) = _packet(event(**FULL))["mutations"]
    assert mutation == {
        "operation_id": "op-1",
        "tool": "pay",
        "status": "ambiguous",
        "target": "invoice:7",
        "reversible": None,
        "verified_by": None,
        "arguments": ['{"amount": "12.00"}'],
    }


def test_what_is_confirmed_stands_apart_from_what_the_agent_says():
    parts = {
        "tool_calls": [{"operation_id": "op-2", "tool": "lookup", "access": "read", "outcome": "ok"}],
        "side_effects": [
            {"operation_id": "op-1", "tool": "pay", "status": "confirmed", "verified_by": "read_back"},
            {"operation_id": "op-3", "tool": "mail", "status": "confirmed", "verified_by": "none"},
        ],
        "components": [{"name": "summary", "state": "completed"}, {"name": "receipt", "state": "unknown"}],
        "decision": {"asserted": True, "value": "approve"},
        "completion": {"claimed": True, "predicate_id": "paid", "result": "unsatisfied"},
    }
    built = _packet(event(**parts))
    assert built["confirmed"] == [
        "component summary is completed",
        "lookup returned ok",
        "pay op-1 took effect (read_back)",
        "predicate paid is unsatisfied",
    ]
    assert built["proposed"] == ["the agent claims completion", "the agent asserts the decision approve"]


def test_the_reviewer_sees_request_policies_and_outputs():
    built = _packet(event(**FULL))
    assert (built["request_ref"], built["goal"], built["actor"]) == ("req-9", "pay", "user-17")
    assert built["permissions"] == ["payments:create"]
    assert [(d["policy_id"], d["policy_version"], d["effect"]) for d in built["policy_decisions"]] == [
        ("limits", "7", "allow")
    ]
    assert [(o["tool"], o["outcome"], o["error_class"]) for o in built["tool_outputs"]] == [
        ("pay", "timeout", "DeadlineExceeded")
    ]
    assert built["obligations"] == [{"action": "reconcile", "operation_id": "op-1"}]


def test_no_deadline_is_later_than_an_instant_can_be():
    given = decided(occurred_at=LATEST, children=[{"state": "running"}])
    Classification.model_validate(given.classification)
    built = _packet(event(occurred_at=LATEST, children=[{"state": "running"}]))
    ReviewPacket.model_validate(built)
    assert given.classification["envelope"]["deadline"] == built["deadline"] == LATEST


def test_queue_decisions_and_deadline_are_those_of_the_envelope():
    given, envelope = event(**FULL), answer(**FULL)["envelope"]
    built = _packet(given)
    for name in ("review_packet_id", "queue", "owner", "allowed_decisions", "deadline", "reason_code"):
        assert built[name] == envelope[name]
    assert built["deadline"] == OCCURRED_AT + 4 * 3_600_000_000


def test_an_exit_that_owes_something_goes_to_the_queue_of_effects():
    denied = {"policy_decisions": [{"source": "application", "operation_id": "op-1", "effect": "deny"}]}
    built = _packet(event(**FULL | denied))
    assert (built["queue"], built["reason_code"]) == ("effects", "blocking_denial")
    assert decided(**FULL | denied).packet_completeness is not None


def test_an_exit_that_owes_nothing_opens_no_packet():
    assert decided(completion={"claimed": True}).packet_completeness is None


def test_one_event_has_one_packet():
    ids = {_packet(event(**changes))["review_packet_id"] for changes in ({}, {"model": {"stop_class": "end"}}, FULL)}
    others = {_packet(event(**{name: "other"}))["review_packet_id"] for name in ("tenant", "event_id")}
    assert len(ids) == 1
    assert len(ids | others) == 3
