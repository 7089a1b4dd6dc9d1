"""Why one pair disagrees: one cause, the first that holds, and the smallest change of evidence that would end it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import Any

from classifier.change import path_text
from classifier.decide import Classifier
from classifier.explain import Explanation
from classifier.fact import Event
from classifier.fields import Piece, fields_of
from classifier.run import CONTRADICTION
from schemas.exits import KINDS
from schemas.types import to_iso
from shadow.accepted import Accepted
from shadow.disagreement import Verdict, judge, pair_of
from shadow.evidence_change import SAYS_NOTHING, Change, Search, steps_of

_ANSWER = (
    ("dispatcher", "String"),
    ("legacy_label", "String"),
    ("legacy_http_status", "Int64"),
    ("legacy_error_class", "String"),
    ("legacy_queue", "String"),
)
"""What a legacy answer consists of: columns, and their types where they are given."""


class Cause(StrEnum):
    """Why a pair disagrees. The order is that in which they are asked."""

    ACCEPTED = "accepted"
    LATE = "late event"
    STOP_SIGNAL = "unmapped stop signal"
    CONTRADICTORY = "evidence contradictory"
    MISSING = "evidence missing"
    LOSSY = "legacy rule lossy"
    ROW = "table row"


@dataclass(frozen=True)
class Diagnosis:
    """The cause of a disagreement with a sentence about it, and the smallest change that makes both agree.

    ``change`` is None if none was found, ``exhausted`` whether there was more than was tried, see
    :class:`shadow.evidence_change.Search`.
    """

    cause: Cause
    why: str
    change: Change | None
    exhausted: bool


@dataclass(frozen=True)
class Pair:
    """A run that both sides decided: its event, why it got its exit, and what the legacy side says.

    ``legacy`` is a row of ``v_comparison``, ``beside`` how many paired runs have the same legacy answer, by our kind.
    ``accepted`` is the entry that stands and covers the pair.
    """

    event: Event
    explanation: Explanation
    legacy: Mapping[str, Any]
    beside: Mapping[str, int]
    accepted: Accepted | None = None

    def verdict(self, classification: Mapping[str, Any]) -> Verdict:
        """What would be said of both sides, were this the classification."""
        kind, facts = classification["kind"], frozenset(classification["facts"])
        return judge(pair_of(kind, facts, self.legacy["legacy_kind"], self.legacy["legacy_retries"]))

    @property
    def answer(self) -> str:
        """The legacy side's answer, in words."""
        named = {column.removeprefix("legacy_"): self.legacy[column] for column, _ in _ANSWER}
        given = [f"{name} {value}" for name, value in named.items() if value not in (None, "")]
        return ", ".join(given) or "without a label"


PAIR_SQL = """
    SELECT tenant, event_id, pairing, legacy_kind, legacy_label, legacy_http_status, legacy_error_class, legacy_retries,
        legacy_queue, legacy_user_visible, legacy_decided_at, legacy_records, legacy_contested, dispatcher,
        dispatcher_version, mapping_digest, actions, decisions, recovery, reversed
    FROM comparisons FINAL
    WHERE identity = cityHash64({tenant:String}, {run_id:String})
        AND tenant = {tenant:String} AND subject = {run_id:String} AND NOT unseen AND NOT gone
"""
"""The comparison of one run, by identity, which reads the table directly because it has a key for that."""


def beside_sql(legacy: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """SQL and its parameters: kinds of the paired runs of a tenant that have the legacy answer of this row of
    ``v_comparison``, with their numbers, ``kind`` and ``runs``."""
    # Plain comparisons, since a function around a column would cost a decoding of every row.
    same = [f"{name} = {{{name}:{kind}}}" if legacy[name] is not None else f"isNull({name})" for name, kind in _ANSWER]
    where = " AND ".join(["pairing = 'paired'", "tenant = {tenant:String}", *same])
    sql = f"SELECT kind, count() AS runs FROM v_comparison WHERE {where} GROUP BY kind ORDER BY runs DESC, kind"  # noqa: S608 -- names
    given = {name: legacy[name] for name, _ in _ANSWER if legacy[name] is not None}
    return sql, given | {"tenant": legacy["tenant"]}


def diagnose(pair: Pair, classifier: Classifier) -> Diagnosis:
    """The cause of a pair that disagrees, and the smallest change of evidence that would make both agree."""
    case = _Case(pair, classifier)
    cause, why = next(found for ask in _QUESTIONS if (found := ask(case)))
    return Diagnosis(cause, why, case.smallest, case.search.exhausted)


class _Case:
    """A pair and the search for what would make both agree, which nothing can with a legacy kind that is no exit."""

    def __init__(self, pair: Pair, classifier: Classifier) -> None:
        near = {evidence.path for fact in pair.explanation.deciding for evidence in fact.evidence}
        self.pair = pair
        self.search = Search(pair.event, classifier, near, lambda answer: pair.verdict(answer).verdict == "agree")
        self._possible = pair.legacy["legacy_kind"] in KINDS

    @property
    def smallest(self) -> Change | None:
        return self.search.smallest if self._possible else None

    @property
    def filling(self) -> Change | None:
        return self.search.filling if self._possible else None


# --- the causes, in order


def _is_accepted(case: _Case) -> tuple[Cause, str] | None:
    entry = case.pair.accepted
    if entry is None:
        return None
    return Cause.ACCEPTED, f"{entry.owner} accepted it until {entry.expires}: {entry.reason} ({entry.ticket})"


def _is_late(case: _Case) -> tuple[Cause, str] | None:
    decided, ended = case.pair.legacy["legacy_decided_at"], case.pair.event["occurred_at"]
    if decided is None or decided >= ended:
        return None
    return Cause.LATE, f"the legacy side decided at {to_iso(decided)}, before the run ended at {to_iso(ended)}"


def _is_unmapped_stop(case: _Case) -> tuple[Cause, str] | None:
    event = case.pair.event
    model = event["model"]
    if not model or not model["stop_signal"] or model["stop_class"] not in SAYS_NOTHING:
        return None
    classes = (field for field in fields_of(event, Piece("model", None)) if field.path == ("model", "stop_class"))
    fitting = [step.after for step in chain.from_iterable(map(steps_of, classes)) if case.search.holds([step])]
    if not fitting:
        return None
    as_one = " or ".join(map(str, fitting))
    return Cause.STOP_SIGNAL, f"the stop signal {model['stop_signal']} has no class; as {as_one} both would agree"


def _is_contradictory(case: _Case) -> tuple[Cause, str] | None:
    behind = [fact for fact in case.pair.explanation.deciding if fact.name == CONTRADICTION.name and fact.holds]
    return (Cause.CONTRADICTORY, behind[0].meaning) if behind else None


def _is_missing(case: _Case) -> tuple[Cause, str] | None:
    change = case.filling
    if change is None:
        return None
    return Cause.MISSING, f"both could agree if this were known: {'; '.join(path_text(s.path) for s in change)}"


def _is_lossy(case: _Case) -> tuple[Cause, str] | None:
    pair = case.pair
    legacy, ours = pair.legacy["legacy_kind"], pair.explanation.classification["kind"]
    if legacy not in KINDS:
        return Cause.LOSSY, f"the legacy answer ({pair.answer}) means {legacy}, which is no exit"
    if legacy == ours:
        return Cause.LOSSY, f"both say {ours}, and the legacy side retried {pair.legacy['legacy_retries']} times"
    if not pair.beside.get(legacy):
        return None
    return Cause.LOSSY, f"the legacy answer ({pair.answer}) is the same for {_counts(pair.beside)}"


def _is_row(case: _Case) -> tuple[Cause, str]:
    pair, row = case.pair, case.pair.explanation.row
    decided = f"row {row.number}, {row.rule_id}, decides otherwise on evidence that says enough"
    return Cause.ROW, f"{decided}; the legacy answer ({pair.answer}) stands beside {_counts(pair.beside)}"


def _counts(beside: Mapping[str, int]) -> str:
    return ", ".join(f"{kind} ({runs:,})" for kind, runs in beside.items())


_QUESTIONS: tuple[Callable[[_Case], tuple[Cause, str] | None], ...] = (
    _is_accepted,
    _is_late,
    _is_unmapped_stop,
    _is_contradictory,
    _is_missing,
    _is_lossy,
    _is_row,
)
