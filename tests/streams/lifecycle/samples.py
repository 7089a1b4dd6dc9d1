"""Random histories: exits as the store and the topic have them, and companions about them."""

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from schemas.companions import COMPANIONS, ReviewEvent
from sinks.rows import FLAT, ClassificationRow

NOW = 1_764_489_600_000_000
MINUTE = 60_000_000
TENANTS = ("acme", "über'\\")
OPERATIONS = (None, "op-1", "op-2")
COMPONENTS = (None, "tax", "weather")
DIGESTS = ("sha256:a", "sha256:b")
QUEUES = ("effects", "judgement")

moments = st.integers(-8, 8).map(lambda n: NOW + n * MINUTE)
maybe_moments = st.none() | moments


def row_of(exit_):
    """The row of an exit, whose topic leaves out what the classification's table does not have either."""
    return ClassificationRow(exit_, tuple(map(exit_.get, FLAT)), 0, None, exit_["classified_at"])


def review_packet_id(event_id):
    return f"rp-of-{event_id}"


def envelope(kind, draw, event_id, occurred_at):
    common = {"kind": kind, "reason_code": "some_reason", "retry": "never", "side_effects": []}
    if kind == "partial":
        omitted = draw(st.lists(st.tuples(st.sampled_from(COMPONENTS), st.booleans()), min_size=1, max_size=3))
        return common | {
            "result_ref": None, "completed": ["base"], "completeness": "partial", "retry": "enrich_only",
            "omitted": [{"component": name, "reason_code": None, "retryable": can} for name, can in omitted],
        }  # fmt: skip
    if kind == "human_queue":
        return common | {
            "queue": draw(st.sampled_from(QUEUES)), "owner": "ops", "review_packet_id": review_packet_id(event_id),
            "allowed_decisions": draw(st.lists(st.sampled_from(["compensate", "reconcile", "close"]), unique=True)),
            "deadline": occurred_at + draw(st.integers(1, 10)) * MINUTE, "explanation": "words",
        }  # fmt: skip
    if kind == "refusal":
        return common | {"policy_id": None, "explanation": "words"}
    return None


@st.composite
def exits(draw, tenant, run):
    """A classification of one of three events of a run, as ``streams.exit_message`` has it."""
    event = draw(st.sampled_from("123"))
    event_id, kind = f"{run}-{event}", draw(st.sampled_from(["partial", "human_queue", "refusal", "completed"]))
    # Evidence belongs to the event: a function of its id, whatever classifies it.
    occurred_at, segment = NOW + (ord(event) - ord("2")) * MINUTE, {"1": None, "2": 0, "3": 1}[event]
    duties = st.builds(
        lambda action, operation: {"action": action, "operation_id": operation},
        st.sampled_from(["reconcile", "compensate"]), st.sampled_from(OPERATIONS),
    )  # fmt: skip
    return {
        "tenant": tenant, "event_id": event_id, "run_id": run, "segment": segment,
        "agent_id": "invoice-agent", "workflow": None, "occurred_at": occurred_at, "kind": kind,
        "reason_code": "some_reason", "rule_id": "some_rule", "verified": False, "prohibited": [],
        "obligations": [] if kind == "completed" else draw(st.lists(duties, max_size=2)),
        "evidence_gaps": [], "findings": [], "facts": [],
        "table": {"id": "default", "version": "1", "digest": draw(st.sampled_from(DIGESTS))},
        "classifier_version": "0.1.0", "evidence_digest": "sha256:e", "content_digest": "sha256:c",
        "envelope": envelope(kind, draw, event_id, occurred_at), "classified_at": draw(moments),
    }  # fmt: skip


@st.composite
def companions(draw, tenant, run):
    """A companion record in its canonical form, naming an event of a run, a segment of it, or nothing."""
    kind = draw(st.sampled_from(["recovery_action", "review_event", "review_event", "enrichment"]))
    by = draw(st.sampled_from(["event", "event", "event", "segment", "nothing"]))
    given = {
        "type": kind, "version": 1, "tenant": tenant,
        "event_id": f"{run}-{draw(st.sampled_from('33321'))}" if by == "event" else None,
        "run_id": run if by == "segment" else None,
        "segment": draw(st.sampled_from([None, 0, 1, 1])) if by == "segment" else None,
    }  # fmt: skip
    given |= {"at": draw(maybe_moments)} | draw(_FIELDS[kind])
    given["record_id"] = f"{run}-{draw(st.integers(0, 10**6))}"
    return COMPANIONS[kind].model_validate(given).model_dump()


_FIELDS = {
    "recovery_action": st.fixed_dictionaries({
        "action": st.sampled_from(["compensated", "reconciled", "approved", "closed", "retried", "escalated", None]),
        "operation_id": st.sampled_from(OPERATIONS),
    }),
    "review_event": st.fixed_dictionaries({
        "event": st.sampled_from(
            ["opened", "claimed", "paused", "resumed", "decided", "expired", "reassigned", "unknown", None]
        ),
        "decision": st.sampled_from([None, "accept_effect", "close"]),
        "queue": st.sampled_from([None, *QUEUES]),
        "deadline": maybe_moments,
        "reviewer": st.sampled_from([None, "anna", "bert"]),
    }),
    "enrichment": st.fixed_dictionaries({
        "component": st.sampled_from(COMPONENTS),
        "state": st.sampled_from(["completed", "failed", "superseded", None]),
        "reverses_result": st.sampled_from([None, True, False]),
    }),
}  # fmt: skip


@st.composite
def courses(draw, tenant, run):
    """A review and a long course of it."""
    exit_ = draw(exits(tenant, run).filter(lambda exit_: exit_["kind"] == "human_queue" or exit_["obligations"]))
    steps = draw(st.lists(st.sampled_from(_STEPS), min_size=5, max_size=9))
    records = []
    for number, step in enumerate(steps):
        fields = draw(_FIELDS["review_event"]) | {"event": step, "at": NOW + number * MINUTE + draw(st.integers(-1, 1))}
        given = {"type": "review_event", "version": 1, "tenant": tenant, "event_id": exit_["event_id"], **fields}
        records.append(ReviewEvent.model_validate(given | {"record_id": f"{run}-{number}"}).model_dump())
    return [exit_, *records]


_STEPS = ["paused", "paused", "resumed", "opened", "decided", "reassigned", "claimed", "expired"]


def by_identity(records):
    """One record of each identity, as the store keeps them: the first one's content."""
    kept = {}
    for record in records:
        if "envelope" in record:
            key = (record["tenant"], record["event_id"], record["table"]["digest"])
        else:
            key = (record["type"], record["tenant"], record["record_id"])
        kept.setdefault(key, record)
    return list(kept.values())


@st.composite
def histories(draw, most_runs=8, prefix="r"):
    """Exits and companions of a few runs, each identity once, in any order."""
    records = []
    for number in range(draw(st.integers(1, most_runs))):
        tenant, run = draw(st.sampled_from(TENANTS)), f"{prefix}{number}"
        if draw(st.booleans()):
            records += draw(courses(tenant, run))
            continue
        records += draw(st.lists(exits(tenant, run), min_size=1, max_size=4))
        records += draw(st.lists(companions(tenant, run), max_size=12))
    return draw(st.permutations(by_identity(records)))


def drawn(strategy, count):
    """Some values of a strategy, always the same ones, for tests too slow to be run on many."""
    found = []

    @settings(max_examples=count, database=None, derandomize=True, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(strategy)
    def collect(value):
        found.append(value)

    collect()
    return found


def shifted(records, by):
    """The same records, all times later by that many microseconds."""
    names = ("occurred_at", "classified_at", "at", "deadline")
    return [
        {
            name: shifted([value], by)[0] if name == "envelope" and value
            else value + by if name in names and value is not None else value
            for name, value in record.items()
        }
        for record in records
    ]  # fmt: skip
