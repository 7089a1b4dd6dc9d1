"""Random histories of runs with all that is said about them, and what a settling must make of them, written naively."""

from collections import defaultdict

from hypothesis import strategies as st

from schemas.companions import COMPANIONS
from shadow.disagreement import Pair, judge
from shadow.mapping import LegacyWords
from shadow.recovery import recovery
from sinks.rows import (
    COMPANION_TABLES,
    FLAT,
    ClassificationRow,
    CompanionRow,
    Position,
    TableRow,
    encode_classifications,
    encode_companions,
    encode_tables,
)
from tests.streams.lifecycle.samples import DIGESTS, MINUTE, NOW, TENANTS, exits, maybe_moments

FACTS = ("ambiguous_effect", "idempotency_protected", "omission", "predicate_unsatisfied", "predicate_unverifiable")
LABELS = ("ok", "ERR_GENERIC", "denied", "partial", "it's \\'odd\\ ümlaut", "", None)
WRITTEN = ("exit_classifications", "active_tables", *COMPANION_TABLES.values())
SETTLED = ("comparisons", "settlings", "touched_runs")

activations = st.fixed_dictionaries({}, optional={digest: st.integers(NOW, NOW + 2) for digest in DIGESTS})


@st.composite
def _exit(draw, tenant, run):
    found = draw(exits(tenant, run))
    facts = draw(st.lists(st.sampled_from(FACTS), unique=True))
    prohibited = draw(st.lists(st.sampled_from(["completed", "partial"]), unique=True))
    gaps = draw(st.lists(st.sampled_from(["fallback tax not eligible: version missing", "π's"]), unique=True))
    return found | {"facts": sorted(facts), "prohibited": prohibited, "evidence_gaps": gaps}


@st.composite
def _companion(draw, tenant, run):
    kind = draw(st.sampled_from(["legacy_exit", "legacy_exit", "recovery_action", "review_event", "enrichment"]))
    by = draw(st.sampled_from(["event", "event", "segment", "both", "nothing", "empty"]))
    event = f"{run}-{draw(st.sampled_from('1233334'))}"  # the fourth is never seen
    given = {
        "type": kind, "version": 1, "tenant": tenant,
        "event_id": event if by in ("event", "both") else "" if by == "empty" else None,
        "run_id": run if by in ("segment", "both", "empty") else None,
        "segment": draw(st.sampled_from([None, 0, 1, 1, 2])) if by in ("segment", "both", "empty") else None,
    }  # fmt: skip
    given |= draw(_FIELDS[kind])
    given["record_id"] = f"{run}-{draw(st.integers(0, 10**6))}"
    return COMPANIONS[kind].model_validate(given).model_dump()


_FIELDS = {
    "legacy_exit": st.fixed_dictionaries({
        "dispatcher": st.sampled_from([None, "legacy", "tau2"]), "label": st.sampled_from(LABELS),
        "http_status": st.sampled_from([None, 200, 206, 403, 500, -1]), "retries": st.sampled_from([None, 0, 2, -1]),
        "error_class": st.sampled_from([None, "TimeoutError", "Odd'"]), "queue": st.sampled_from([None, "", "billing"]),
        "user_visible": st.sampled_from([None, True, False]), "decided_at": maybe_moments,
    }),
    "recovery_action": st.fixed_dictionaries({
        "action": st.sampled_from(["compensated", "approved", "closed", "retried", "rejected", "ignored", None]),
        "at": maybe_moments,
    }),
    "review_event": st.fixed_dictionaries({
        "event": st.sampled_from(["opened", "decided", "decided", "expired", None]),
        "decision": st.sampled_from([None, "accept_effect", "close", "own words"]),
        "overrode_proposal": st.sampled_from([None, True, False]), "at": maybe_moments,
    }),
    "enrichment": st.fixed_dictionaries({
        "component": st.just("tax"), "state": st.just("completed"),
        "reverses_result": st.sampled_from([None, True, False]), "at": maybe_moments,
    }),
}  # fmt: skip


@st.composite
def histories(draw, most_runs=6):
    """Records of a few runs, each identity once, in any order."""
    records = {}
    for number in range(draw(st.integers(1, most_runs))):
        tenant, run = draw(st.sampled_from(TENANTS)), f"r{number}"
        for record in [
            *draw(st.lists(_exit(tenant, run), max_size=4)),
            *draw(st.lists(_companion(tenant, run), max_size=10)),
        ]:
            records.setdefault(identity(record), record)
    return draw(st.permutations(list(records.values())))


def identity(record):
    """What tells a record from any other."""
    if "envelope" in record:
        return (record["tenant"], record["event_id"], record["table"]["digest"])
    return (record["type"], record["tenant"], record["record_id"])


def batches(data, history):
    """The history in a few parts, in which some records are delivered again."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(history)), max_size=3)))
    parts = [history[low:high] for low, high in zip([0, *cuts], [*cuts, len(history)], strict=True)]
    again = st.lists(st.sampled_from(history), max_size=3) if history else st.just([])
    return [[*part, *(data.draw(again) if number else [])] for number, part in enumerate(parts)]


# --- storing


def empty(store):
    for table in (*WRITTEN, *SETTLED):
        store.execute(f"TRUNCATE TABLE {table}")


def activate(store, activated):
    rows = [TableRow(digest, "0.1.0", "default", "1", "", at) for digest, at in activated.items()]
    if rows:
        store.insert("active_tables", encode_tables(rows))


def write(store, records, at):
    """Store records, stamped ``at``."""
    rows = [
        ClassificationRow(exit_, tuple(map(exit_.get, FLAT)), 5, 0.5, at)
        for exit_ in records if "envelope" in exit_
    ]  # fmt: skip
    if rows:
        store.insert("exit_classifications", encode_classifications(rows))
    for kind in COMPANIONS:
        of_kind = [record for record in records if record.get("type") == kind]
        if of_kind:
            stored = [CompanionRow(record, "sha256:c", Position("file", "p", 0), at) for record in of_kind]
            store.insert(COMPANION_TABLES[kind], encode_companions(kind, stored))


# --- what must come of it


def expected(parts, activated, mapping):
    """The rows of ``v_comparison`` by (tenant, run id, missing event), from scratch. ``parts`` are (time, records)."""
    stamped, records = {}, {}
    for at, part in parts:
        for record in part:
            stamped[identity(record)], records[identity(record)] = at, record
    exits_, notes = defaultdict(list), []
    for key, record in records.items():
        if "envelope" in record:
            exits_[record["tenant"], record["run_id"]].append((record, stamped[key]))
        else:
            notes.append((record, stamped[key]))
    seen = {(tenant, exit_["event_id"]) for (tenant, _), found in exits_.items() for exit_, _ in found}
    rows = {}
    for tenant, run in {*exits_, *_runs_of_legacy(notes)}:
        rows[tenant, run, ""] = _run((tenant, run), exits_.get((tenant, run), []), notes, activated, mapping)
    for record, _ in notes:
        key = (record["tenant"], record["event_id"])
        if record["type"] == "legacy_exit" and record["event_id"] and key not in seen:
            about = [note for note in notes if (note[0]["tenant"], note[0]["event_id"]) == key]
            rows[record["tenant"], "", record["event_id"]] = _row(None, None, 0, about, mapping)
    return rows


def _runs_of_legacy(notes):
    return {
        (note["tenant"], note["run_id"])
        for note, _ in notes if note["type"] == "legacy_exit" and not note["event_id"] and note["run_id"]
    }  # fmt: skip


def _run(key, found, notes, activated, mapping):
    tenant, run = key
    own = [note for note in notes if note[0]["tenant"] == tenant]
    by_segment = [note for note in own if not note[0]["event_id"] and note[0]["run_id"] == run]
    claimed = [note["segment"] or 0 for note, _ in by_segment if note["type"] == "legacy_exit"]
    events = {exit_["event_id"] for exit_, _ in found}
    if not found or max(claimed, default=-1) > max(exit_["segment"] or 0 for exit_, _ in found):
        segment = max(claimed)
        return _row(None, segment, len(events), [n for n in by_segment if (n[0]["segment"] or 0) == segment], mapping)
    head = max(found, key=lambda each: (each[0]["segment"] or 0, each[0]["occurred_at"], each[0]["event_id"]))[0]
    of_head = [each for each in found if each[0]["event_id"] == head["event_id"]]
    # Of equals the table whose digest is the least, so the list begins with it.
    of_head.sort(key=lambda each: each[0]["table"]["digest"])
    current = max(of_head, key=lambda each: (activated.get(each[0]["table"]["digest"], 0), each[1]))[0]
    about = [n for n in own if n[0]["event_id"] == head["event_id"]]
    about += [n for n in by_segment if (n[0]["segment"] or 0) == (head["segment"] or 0)]
    return _row(current, head["segment"], len(events) - 1, about, mapping)


def _row(exit_, segment, superseded, about, mapping):
    def of(kind, time):
        found = [(note, at) for note, at in about if note["type"] == kind]
        return sorted(found, key=lambda n: (-(10**18) if n[0][time] is None else n[0][time], n[0]["record_id"]))

    legacy = of("legacy_exit", "decided_at")
    kinds = [mapping.kind(LegacyWords(**{name: note[name] for name in LegacyWords._fields})) for note, _ in legacy]
    shown = legacy[-1][0] if legacy else {}
    reviews = [note for note, _ in of("review_event", "at") if note["event"] == "decided"]
    actions = [note["action"] or "unknown" for note, _ in of("recovery_action", "at")]
    decisions = [note["decision"] or "unknown" for note in reviews]
    overrode = any(note["overrode_proposal"] for note in reviews)
    kind, facts = (exit_["kind"], exit_["facts"]) if exit_ else ("", [])
    ambiguous = kind == "human_queue" and "ambiguous_effect" in facts and "idempotency_protected" not in facts
    premature = (
        kind == "human_queue" and "omission" not in facts
        and ("predicate_unsatisfied" in facts or "predicate_unverifiable" in facts)
    )  # fmt: skip
    pairing = "event_missing" if exit_ is None else "paired" if legacy else "legacy_missing"
    retried = (shown.get("retries") or 0) > 0
    verdict = (
        judge(Pair(kind, kinds[-1], retried, ambiguous, premature)) if pairing == "paired" else ("unpaired", "", "", "")
    )
    stored = max((at for _, at in legacy), default=None)
    decided = shown.get("decided_at")
    return {
        "event_id": exit_["event_id"] if exit_ else "", "segment": segment, "superseded": superseded,
        "agent_id": exit_["agent_id"] if exit_ else "", "kind": kind, "facts": facts,
        "occurred_at": exit_ and exit_["occurred_at"],
        "moment": exit_["occurred_at"] if exit_ else stored if decided is None else decided,
        "table_digest": exit_["table"]["digest"] if exit_ else "", "pairing": pairing,
        "prohibited": exit_["prohibited"] if exit_ else [], "evidence_gaps": exit_["evidence_gaps"] if exit_ else [],
        "obligations": len(exit_["obligations"]) if exit_ else 0, "ambiguous": ambiguous,
        "fact_bits": 5 if exit_ else 0, "packet_completeness": 0.5 if exit_ else None,
        "legacy_kind": kinds[-1] if kinds else "", "legacy_records": len(legacy),
        "legacy_contested": len(set(kinds)) > 1,
        **{f"legacy_{name}": shown.get(name) for name in _SHOWN}, "dispatcher": shown.get("dispatcher"),
        **dict(zip(("verdict", "disagreement", "owner", "harm"), verdict, strict=True)),
        "actions": actions, "decisions": decisions, "overrode": overrode,
        "recovery": recovery(kind, [*actions, *decisions, *(["overrode_proposal"] if overrode else [])]),
        "reversed": kind == "partial" and any(n["type"] == "enrichment" and n["reverses_result"] for n, _ in about),
    }  # fmt: skip


_SHOWN = ("label", "http_status", "error_class", "retries", "queue", "user_visible", "decided_at")


def compared(store, like):
    """The rows of ``v_comparison``, with the columns that are compared."""
    names = next(iter(like.values()), {})
    rows = store.select("SELECT * FROM v_comparison")
    found = {(r["tenant"], r["run_id"], r["missing_event_id"]): {name: r[name] for name in names} for r in rows}
    assert len(found) == len(rows)
    return found


def later(number):
    """The time of the part with that number, far from its neighbours'."""
    return NOW + 1000 * MINUTE * (number + 1)
