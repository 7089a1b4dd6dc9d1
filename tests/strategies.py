"""Generated terminal events in canonical dict form, built to hit every fact, and several troubles at once, often.

One description of an event, made of choice tables, is read in two ways: by hypothesis (:func:`events`, which shrinks
towards the first option of every table) and by a plain ``random.Random`` (:func:`random_event`, for volume). The pools
are small on purpose: facts are joins over operations, keys, policies and times, and only equal values join.

:func:`with_prose` and :func:`shuffled` are the changes of an event that must not change its classification.
"""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from random import Random
from typing import Any, Protocol

from hypothesis import strategies as st

from schemas import events as contract
from schemas.types import EnumMarker, to_micros

Event = dict[str, Any]
Options = tuple[Any, ...]
Pick = Callable[[Options], Any]
"""Takes one of the options."""


class Node(Protocol):
    """A description of a value that is not a plain choice."""

    def build(self, pick: Pick) -> Any:
        """A new value, all of its choices made by ``pick``."""


def _build(node: "Node | Options", pick: Pick) -> Any:
    return pick(node) if type(node) is tuple else node.build(pick)  # type: ignore[union-attr]


@dataclass(frozen=True)
class Block:
    """A record or map: one description per key."""

    fields: dict[str, Node | Options]

    def build(self, pick: Pick) -> dict[str, Any]:
        # The plain choice stands inline: it is nine of ten fields, and a call each would double the time per event.
        return {
            name: pick(node) if type(node) is tuple else node.build(pick)  # type: ignore[union-attr]
            for name, node in self.fields.items()
        }

    def but(self, **changes: Node | Options) -> "Block":
        """The same block with other descriptions for some of its fields."""
        if unknown := changes.keys() - self.fields.keys():
            raise KeyError(*unknown)
        return Block(self.fields | changes)


@dataclass(frozen=True)
class Many:
    """A list of independent items; its length is one of ``sizes``."""

    item: Node | Options
    sizes: tuple[int, ...]

    def build(self, pick: Pick) -> list[Any]:
        return [_build(self.item, pick) for _ in range(pick(self.sizes))]


@dataclass(frozen=True)
class Row:
    """A list with one item per description."""

    items: tuple[Node | Options, ...]

    def build(self, pick: Pick) -> list[Any]:
        return [_build(item, pick) for item in self.items]


@dataclass(frozen=True)
class Either:
    """One of several descriptions; what stands there twice is taken twice as often."""

    nodes: tuple[Node | Options, ...]

    def build(self, pick: Pick) -> Any:
        return _build(pick(self.nodes), pick)


def _symbols(enum: Any) -> Options:
    return next(marker.symbols for marker in enum.__metadata__ if isinstance(marker, EnumMarker))


def _open(enum: Any) -> Options:
    return (None, *_symbols(enum))


def _mostly(usual_first: Options) -> Options:
    usual, *others = usual_first
    return (usual,) * 14 * len(others) + (*others,)


def _either(*weighted: tuple[int, Node | Options]) -> Either:
    return Either(tuple(node for weight, node in weighted for _ in range(weight)))


_SECOND = 1_000_000
OCCURRED_AT = to_micros(datetime(2026, 11, 30, 8, tzinfo=UTC))
"""When every generated event occurred."""

_T20, _T10, _T0, _LATE = (OCCURRED_AT + offset * _SECOND for offset in (-20, -10, 0, 10))
_TIMES = (None, _T20, _T10, _T0, _LATE)
_FLAG = (None, False, True)
_OPERATIONS = (None, "op-1", "op-2", "op-3")
_KEYS = (None, "k-1", "k-2")
_TOKENS = (None, 17, 18, 19, 20)
_AGENTS = ("agent-1", "agent-2")
_APPROVERS = (None, "person-1", *_AGENTS)
_NAMES = (None, "part-a", "part-b", "part-c")
_TOOLS = (None, "create_payment", "lookup_rate")
_TEXTS = (None, "", "I have paid it.")
# Around the floor (0.6), the allowed fall (0.2) and the veto of a check (0.3), on both sides and exactly there.
_CONFIDENCES = (None, 0.0, 0.4, 0.59, 0.6, 0.61, 0.7, 0.79, 0.8, 0.81, 0.9, 1.0)
_CHECKS = (1.0, 0.31, 0.3, 0.29, 0.0)
_NOTHING = (None,)
_EMPTY = Many(_NOTHING, (0,))

_REQUEST = Block(
    {
        "request_ref": (None, "req-9"),
        "goal": (None, "pay_invoice"),
        "actor": (None, "user-17"),
        "delegated_permissions": Many(("payments:create", "payments:read"), (0, 1, 2)),
        "deadline": _TIMES,
        "prose": _TEXTS,
    }
)

_MODEL = Block(
    {
        "provider": (None, "anthropic"),
        "model": (None, "some-model"),
        "stop_signal": (None, "end_turn", "tool_use"),
        "stop_class": _open(contract.StopClass),
        "refusal_category": (None, "harm"),
        "input_tokens": (None, 0, 5120),
        "output_tokens": (None, 0, 310),
        "prose": _TEXTS,
    }
)
_MODEL_AT_END = _MODEL.but(stop_class=_mostly(("end", "truncated", "refused")), output_tokens=_mostly((310, 0)))
_MODEL_DECLINED = _MODEL.but(stop_class=("refused",))

_ATTEMPTED = Block({"tool": _TOOLS, "arguments": (None, '{"amount": "780.00"}')})
_APPROVAL = Block(
    {
        "state": _open(contract.ApprovalState),
        "approver": _APPROVERS,
        "operation_id": _OPERATIONS,
        "resolved_at": _TIMES,
        "expires_at": _TIMES,
    }
)
_GRANTED = _APPROVAL.but(
    state=("granted",),
    approver=_mostly(("person-1", *_AGENTS)),
    operation_id=_NOTHING,
    resolved_at=(_T20, _T10),
    expires_at=_mostly((None, _T20, _T0)),
)
_POLICY = Block(
    {
        "decision_id": (None, "d-1", "d-2", "d-3"),
        "policy_id": (None, "policy-1", "policy-2"),
        "policy_version": (None, "7"),
        "source": _open(contract.PolicySource),
        "operation_id": _OPERATIONS,
        "effect": _open(contract.PolicyEffect),
        "reason_code": (None, "amount_over_limit", "limit_checked"),
        "decided_at": _TIMES,
        "attempted_action": Either((_NOTHING, _ATTEMPTED)),
        "alternatives": Many(("pay 50.00", "escalate to billing"), (0, 1, 2)),
        "owner": (None, "billing"),
        "approval": Either((_NOTHING, _NOTHING, _NOTHING, _APPROVAL)),
    }
)
_ALLOWED = _POLICY.but(
    source=("application",), effect=("allow",), decided_at=(_T10, _T0), approval=_either((7, _NOTHING), (1, _GRANTED))
)
_DENIED = _POLICY.but(
    source=_symbols(contract.PolicySource), effect=("deny",), decided_at=(_T20, _T10, None), policy_id=("policy-1",)
)
_LIFTED = _ALLOWED.but(policy_id=("policy-1",), operation_id=_OPERATIONS, decided_at=(_T0, _T10))
_ASKED = _POLICY.but(
    source=("application",),
    operation_id=("op-1",),
    effect=("require_approval",),
    decided_at=(_T20,),
    approval=_either((3, _GRANTED), (1, _APPROVAL), (1, _NOTHING)),
)

_CALL = Block(
    {
        "call_id": (None, "c-1", "c-2", "c-3"),
        "operation_id": _OPERATIONS,
        "tool": _TOOLS,
        "tool_version": (None, "3"),
        "access": _open(contract.Access),
        "required": _FLAG,
        "attempt": (None, 1, 2, 3),
        "idempotency_key": _KEYS,
        "fencing_token": _TOKENS,
        "arguments": (None, '{"amount": "12.00"}'),
        "outcome": _open(contract.Outcome),
        "error_class": (None, "DeadlineExceeded", "UNAUTHENTICATED", "PERMISSION_DENIED"),
        "status_code": (None, 200, 401, 403, 504),
        "effect_possible": _FLAG,
        "response": (None, "", '{"rate": "0.19"}'),
        "response_digest": (None, "sha256:51"),
        "started_at": _TIMES,
        "duration_ms": (None, 0, 30_000),
    }
)
_OK_CALL = _CALL.but(
    access=("read", "read", "write"),
    outcome=_mostly(("ok", "error", "unknown")),
    error_class=_NOTHING,
    status_code=_mostly((None, 401)),
    fencing_token=_mostly((None, 17, 20)),
    started_at=(_T10, _T0, None),
)
_FAILURES = ("timeout", "unavailable", "circuit_open", "error", "malformed")
_FAILED_READ = _OK_CALL.but(
    operation_id=("op-2", "op-3"),
    access=("read",),
    required=_mostly((True, False, None)),
    attempt=(1,),
    outcome=_FAILURES,
)
_FIRST_WRITE = _OK_CALL.but(
    operation_id=("op-1",),
    access=("write", None, "unknown"),
    required=(True, None),
    attempt=(1,),
    idempotency_key=_mostly(("k-1", "k-2", None)),
    outcome=("timeout", "unknown", "cancelled", "unavailable", "malformed", "error", "ok"),
    effect_possible=(None, None, False, True),
)
_NEXT_WRITE = _FIRST_WRITE.but(attempt=(2,), outcome=(*_FAILURES, "ok", "ok", "ok"))

_EFFECT = Block(
    {
        "operation_id": _OPERATIONS,
        "tool": _TOOLS,
        "status": _open(contract.EffectStatus),
        "target": (None, "invoice:A-10442"),
        "reversible": _FLAG,
        "count": (None, 0, 1, 2),
        "verified_by": _open(contract.VerifiedBy),
    }
)
_SETTLED = _EFFECT.but(
    operation_id=("op-1", "op-2"),
    status=("confirmed", "compensated", "not_started"),
    count=_mostly((1, 2, None)),
    verified_by=_mostly(("provider_ack", "read_back", "status_lookup", "none")),
)

_TRIGGERS = _symbols(contract.Trigger)
_FALLBACK = Block(
    {
        "fallback_id": (None, "fallback-1", "fallback-2"),
        "version": (None, "4"),
        "source": _open(contract.FallbackSource),
        "triggers": Many(_TRIGGERS, (0, 1, 2, 3)),
        "access": _open(contract.Access),
        "operation_id": _OPERATIONS,
        "inputs_digest": (None, "sha256:1f"),
        "ruleset_version": (None, "rules-12"),
        "reference_data_version": (None, "rates-3"),
        "origin": (None, "tax-service"),
        "observed_at": _TIMES,
        "max_age_s": (None, 0, 10, 11, 3600),
        "shares_failed_dependency": _FLAG,
        "uses_model_judgement": _FLAG,
        "preconditions_met": _FLAG,
        "applied": _FLAG,
        "disclosed": _FLAG,
        "result_ref": (None, "result-2"),
    }
)
_USUAL_TRIGGERS = Row((("timeout",), ("unavailable",), ("error", "malformed", "model_declined", "budget_exhausted")))
_READY = _FALLBACK.but(
    fallback_id=("fallback-1", "fallback-2"),
    version=_mostly(("4", None)),
    source=("rules_engine", "cached", "default", "alternate_source"),
    triggers=_either((3, _USUAL_TRIGGERS), (1, Many(_TRIGGERS, (1, 2)))),
    access=_mostly(("read", "write", None)),
    operation_id=(None, None, None, "op-2"),
    inputs_digest=_mostly(("sha256:1f", None)),
    ruleset_version=_mostly(("rules-12", None)),
    reference_data_version=_mostly(("rates-3", None)),
    origin=_mostly(("tax-service", None)),
    observed_at=_mostly((_T20, _LATE, None)),
    max_age_s=_mostly((3600, 20, 10, None)),
    shares_failed_dependency=_mostly((False, True, None)),
    uses_model_judgement=_mostly((False, True, None)),
    preconditions_met=_mostly((True, False, None)),
    applied=(False, True, None),
    disclosed=_mostly((True, False, None)),
)
_RETRY = _READY.but(
    source=("idempotent_retry",), triggers=_USUAL_TRIGGERS, access=("write",), operation_id=("op-1",), applied=(False,)
)

_COMPONENT = Block(
    {
        "name": _NAMES,
        "required": _FLAG,
        "state": _open(contract.ComponentState),
        "reason_code": (None, "timeout", "no_data"),
        "retryable": _FLAG,
        "can_change_result": _open(contract.CanChangeResult),
    }
)
_DONE = _COMPONENT.but(name=("part-a",), state=("completed",))
_LEFT_OUT = _COMPONENT.but(
    name=("part-b", "part-c"),
    required=_mostly((False, True, None)),
    state=("omitted", "unknown", None),
    can_change_result=_mostly(("no", "yes", "unknown", None)),
)

_DECISION = Block(
    {
        "asserted": _FLAG,
        "value": (None, "approve"),
        "required_checks": Many(("part-a", "part-b", "part-c"), (0, 1, 2)),
    }
)
_SUPPORTED = _DECISION.but(required_checks=Many(("part-a",), (0, 1)))

_CONTRADICTION = Block(
    {
        "subject": (None, "invoice_total"),
        "sources": Many(("erp", "ocr", "bank"), (0, 1, 2, 3)),
        "resolved": _FLAG,
    }
)

_USAGE = Block({"used": (None, 0, 4, 10), "limit": (None, 4, 10)})
_MAYBE_USAGE = Either((_NOTHING, _USAGE))
_BUDGET = Block(
    {
        "turns": _MAYBE_USAGE,
        "tool_calls": _MAYBE_USAGE,
        "tokens": _MAYBE_USAGE,
        "cost_micros": _MAYBE_USAGE,
        "deadline_at": _TIMES,
        "exhausted": _either((3, _EMPTY), (1, Many(_symbols(contract.BudgetName), (1, 2)))),
    }
)

_STEP = Block(
    {
        "action_key": (None, "sha1:aa", "sha1:bb"),
        "confidence_before": _CONFIDENCES,
        "confidence_after": _CONFIDENCES,
        "advanced": _FLAG,
        "checks": _either(
            (4, Block({})), (2, Block({"format": _CHECKS})), (1, Block({"format": _CHECKS, "sum": _CHECKS}))
        ),
    }
)
_SURE_STEP = _STEP.but(
    action_key=("sha1:aa", "sha1:bb", "sha1:cc"),
    confidence_before=(0.9, 0.8, None),
    confidence_after=(0.9, 0.8, None),
    advanced=(True, None),
    checks=Either((Block({}), Block({"format": _mostly((1.0, 0.31, 0.3, 0.29))}))),
)
_SAME_STEP = _STEP.but(action_key=("sha1:aa",), confidence_before=_NOTHING, confidence_after=_NOTHING, checks=Block({}))
_IDLE_STEP = _STEP.but(advanced=_mostly((False, None, True)), confidence_before=_NOTHING, confidence_after=(None, 0.9))

_COMPLETION = Block(
    {
        "claimed": _FLAG,
        "predicate_id": (None, "invoice_paid"),
        "predicate_version": (None, "2"),
        "result": _open(contract.PredicateResult),
        "result_ref": (None, "result-1"),
    }
)
_CLAIMED = _COMPLETION.but(claimed=(True,), result=("satisfied", "not_evaluated", "satisfied", None))
_UNDONE = _COMPLETION.but(claimed=(False, None), result=("unsatisfied", "not_evaluated", None))

_ACK = Block({"operation_id": _OPERATIONS, "ack": _open(contract.Ack)})
_TAKEOVER = Block(
    {
        "state": _open(contract.TakeoverState),
        "fencing_token": _TOKENS,
        "acks": Many(_ACK, (0, 1, 2)),
    }
)
_NO_TAKEOVER = _TAKEOVER.but(state=("RUNNING", "CLOSED"), fencing_token=(None, 18, 19), acks=Many(_ACK, (0, 0, 1)))

_CHILD = Block({"run_id": (None, "run-2", "run-3"), "state": _open(contract.ChildState)})
_STOPPED = _CHILD.but(state=_mostly(("stopped", "running", "unknown")))


def _optional(usual: Node, wild: Node) -> Either:
    return _either((3, _NOTHING), (4, usual), (1, wild))


# Each part of a run is trouble-free more often than not, so that runs with no trouble, one and several are all common.
_PLAIN = Block(
    {
        "type": ("terminal_event",),
        "version": (1,),
        "event_id": ("event-1",),
        "run_id": ("run-1", "run-2"),
        "segment": (None, 0, 1),
        "fencing_token": _TOKENS,
        "tenant": ("acme", "globex"),
        "agent_id": _AGENTS,
        "agent_version": (None, "2026.11.3"),
        "workflow": (None, "pay_invoice"),
        "occurred_at": (OCCURRED_AT,),
        "trace_id": (None, "4bf92f3577b34da6a3ce929d0e0e4736"),
        "span_id": (None, "00f067aa0ba902b7"),
        "request": Either((_NOTHING, _REQUEST)),
        "model": _optional(_MODEL_AT_END, _MODEL),
        "policy_decisions": _either((3, _EMPTY), (3, Many(_ALLOWED, (1, 2)))),
        "tool_calls": _either((1, _EMPTY), (5, Many(_OK_CALL, (1, 2, 3)))),
        "side_effects": _either((3, _EMPTY), (2, Many(_SETTLED, (1, 2)))),
        "fallbacks": _either((5, _EMPTY), (1, Many(_READY, (1,)))),
        "components": _either((4, _EMPTY), (3, Many(_DONE, (1, 2)))),
        "decision": _either((3, _NOTHING), (1, _SUPPORTED)),
        "contradictions": _either((9, _EMPTY), (1, Many(_CONTRADICTION.but(resolved=(True,)), (1,)))),
        "budget": _either((3, _NOTHING), (1, _BUDGET)),
        "steps": _either((2, _EMPTY), (1, Many(_SURE_STEP, (1, 2, 3)))),
        "completion": _optional(_CLAIMED, _COMPLETION),
        "takeover": _either((5, _NOTHING), (1, _NO_TAKEOVER)),
        "children": _either((5, _EMPTY), (1, Many(_STOPPED, (1, 2)))),
        "extensions": Either((Block({}), Block({"vendor_field": ("1", '{"a": 2}')}))),
    }
)
_WITH_TROUBLES = _PLAIN.but(
    model=_either((3, _MODEL_AT_END), (1, _MODEL), (1, _NOTHING)),
    policy_decisions=_either(
        (8, _EMPTY),
        (4, Many(_ALLOWED, (1,))),
        (2, Many(_POLICY, (1, 2, 3))),
        (1, Row((_DENIED, _LIFTED))),
        (1, Row((_ASKED,))),
    ),
    tool_calls=_either(
        (3, _EMPTY), (3, Many(_OK_CALL, (1, 2))), (2, Many(_CALL, (1, 2, 3))), (2, Row((_FIRST_WRITE, _NEXT_WRITE)))
    ),
    side_effects=_either((6, _EMPTY), (4, Many(_SETTLED, (1, 2))), (2, Many(_EFFECT, (1, 2)))),
    fallbacks=_either((6, _EMPTY), (2, Many(_READY, (1, 2))), (1, Many(_FALLBACK, (1, 2))), (2, Row((_RETRY,)))),
    components=_either((6, _EMPTY), (2, Row((_DONE, _LEFT_OUT))), (1, Many(_COMPONENT, (1, 2, 3)))),
    decision=_either((6, _NOTHING), (2, _SUPPORTED), (1, _DECISION)),
    contradictions=_either((12, _EMPTY), (1, Many(_CONTRADICTION, (1, 2)))),
    steps=_either(
        (6, _EMPTY), (2, Many(_STEP, (1, 2, 3, 4))), (1, Many(_SAME_STEP, (2, 3, 4))), (1, Many(_IDLE_STEP, (2, 3, 4)))
    ),
    takeover=_either((10, _NOTHING), (1, _NO_TAKEOVER), (1, _TAKEOVER)),
    children=_either((10, _EMPTY), (1, Many(_STOPPED, (1, 2))), (1, Many(_CHILD, (1, 2)))),
)
_UNFINISHED = _PLAIN.but(
    tool_calls=_either((3, Many(_FAILED_READ, (1, 2))), (1, Many(_OK_CALL, (1, 2)))),
    side_effects=_EMPTY,
    completion=_optional(_UNDONE, _COMPLETION),
)
_SERVED = _UNFINISHED.but(fallbacks=_either((4, Many(_READY, (1, 2))), (1, Many(_FALLBACK, (1, 2)))))
_DECLINED = _SERVED.but(model=_MODEL_DECLINED, policy_decisions=Many(_ALLOWED, (0, 1)))
_REPEATED = _UNFINISHED.but(
    tool_calls=Row((_FIRST_WRITE, _NEXT_WRITE)),
    fallbacks=_either((3, Row((_RETRY,))), (1, _EMPTY)),
    side_effects=Many(_SETTLED.but(status=_open(contract.EffectStatus)), (0, 1)),
)
_BOUNDED = _PLAIN.but(
    components=Row((_DONE, _LEFT_OUT)),
    completion=_optional(_UNDONE, _COMPLETION),
    decision=_either((2, _NOTHING), (1, _SUPPORTED)),
)
_EVENT = _either(
    (2, _PLAIN), (8, _WITH_TROUBLES), (1, _UNFINISHED), (2, _SERVED), (1, _DECLINED), (2, _REPEATED), (2, _BOUNDED)
)


def random_event(rng: Random) -> Event:
    """One valid terminal event in canonical dict form, with its own ``event_id``; shares nothing with any other."""
    random = rng.random
    event: Event = _build(_EVENT, lambda options: options[int(random() * len(options))])
    event["event_id"] = f"event-{rng.getrandbits(64):016x}"
    return event


@cache
def _below(count: int) -> st.SearchStrategy[int]:
    return st.integers(0, count - 1)


@st.composite
def events(draw: st.DrawFn) -> Event:
    """Valid terminal events in canonical dict form, of the same distribution; all have the same ``event_id``."""
    event: Event = _build(_EVENT, lambda options: options[draw(_below(len(options)))])
    return event


PROSE: tuple[tuple[str, str], ...] = (("request", "prose"), ("model", "prose"))
"""Every prose field of an event: its block and its name."""

INDEPENDENT: tuple[str, ...] = (
    "request.delegated_permissions",
    "policy_decisions",
    "tool_calls",
    "side_effects",
    "fallbacks",
    "fallbacks.triggers",
    "components",
    "decision.required_checks",
    "contradictions",
    "contradictions.sources",
    "budget.exhausted",
    "takeover.acks",
    "children",
)
"""Every list whose order says nothing. The order of steps is time, that of a decision's alternatives is preference."""


def with_prose(event: Event, text: str | None) -> Event:
    """A copy whose prose fields all read ``text``. Absent blocks stay absent: a model block alone would be evidence."""
    changed = copy.deepcopy(event)
    for block, name in PROSE:
        if changed[block] is not None:
            changed[block][name] = text
    return changed


def shuffled(event: Event, rng: Random) -> Event:
    """A copy with every independent list in another order; equal in all that an event says."""
    changed = copy.deepcopy(event)
    for path in INDEPENDENT:
        for items in _lists(changed, path.split(".")):
            rng.shuffle(items)
    return changed


def _lists(node: Any, path: list[str]) -> Iterator[list[Any]]:
    if isinstance(node, list) and path:
        for item in node:
            yield from _lists(item, path)
    elif path and node is not None:
        yield from _lists(node[path[0]], path[1:])
    elif node is not None:
        yield node
