"""Why one pair disagrees: one cause, the first that holds, and the smallest change of evidence that would end it.

The change is found by experiment, as everything is that explains a classification: change the event, classify it again.
It says what the evidence would have had to be, never what it was.
"""

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations, islice
from typing import Any, NamedTuple

from classifier.change import Path, changed, path_text
from classifier.counterfactual import gaps_of
from classifier.decide import Classifier
from classifier.explain import Explanation
from classifier.fact import Event
from classifier.fields import FieldAt, fields_of, pieces_of
from classifier.run import CONTRADICTION
from schemas.events import TerminalEvent
from schemas.exits import KINDS
from schemas.types import to_iso
from shadow.accepted import Accepted
from shadow.disagreement import Verdict, judge, pair_of

MOST_TRIES = 2_000
"""So many single changes, and so many pairs of changes, are tried; those nearest to the decision come first."""
_ANSWER = ("dispatcher", "legacy_label", "legacy_http_status", "legacy_error_class", "legacy_queue")


class Cause(StrEnum):
    """Why a pair disagrees. The order is that in which they are asked."""

    ACCEPTED = "accepted"
    LATE = "late event"
    STOP_SIGNAL = "unmapped stop signal"
    CONTRADICTORY = "evidence contradictory"
    MISSING = "evidence missing"
    LOSSY = "legacy rule lossy"
    ROW = "table row"


class Step(NamedTuple):
    """One piece of evidence, changed. ``before`` is None where it was absent, ``after`` where it is left out; a piece
    that is added is a record. ``fills`` says that it was missing."""

    path: Path
    before: Any
    after: Any
    fills: bool
    is_instant: bool = False

    @property
    def text(self) -> str:
        """The change in words."""
        return f"{path_text(self.path)}: {self._said(self.after)} instead of {self._said(self.before)}"

    def _said(self, value: Any) -> str:
        if value is None:
            return "absent"
        if isinstance(value, dict):
            value = {name: each for name, each in value.items() if each not in (None, [])}
        return to_iso(value) if self.is_instant else json.dumps(value, ensure_ascii=False)


Change = tuple[Step, ...]


@dataclass(frozen=True)
class Diagnosis:
    """The cause of a disagreement with a sentence about it, and the smallest change that makes both agree.

    ``change`` is None if none was found among all single changes of the evidence, pairs of them, and everything that is
    missing together; ``exhausted`` says whether there were more of these than were tried.
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
        named = {column.removeprefix("legacy_"): self.legacy[column] for column in _ANSWER}
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
BESIDE_SQL = """
    SELECT kind, count() AS runs FROM v_comparison
    WHERE pairing = 'paired' AND tenant = {tenant:String} AND ifNull(dispatcher, '') = {dispatcher:String}
        AND ifNull(legacy_label, '') = {label:String} AND ifNull(legacy_http_status, -1) = {status:Int64}
        AND ifNull(legacy_error_class, '') = {error:String} AND ifNull(legacy_queue, '') = {queue:String}
    GROUP BY kind ORDER BY runs DESC, kind
"""
"""Kinds of all runs of a tenant that have one legacy answer, see :func:`beside_parameters`."""


def beside_parameters(legacy: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of :data:`BESIDE_SQL` for the answer in a row of ``v_comparison``."""
    dispatcher, label, status, error, queue = (legacy[column] for column in _ANSWER)
    texts = {"dispatcher": dispatcher, "label": label, "error": error, "queue": queue, "tenant": legacy["tenant"]}
    return {name: text or "" for name, text in texts.items()} | {"status": -1 if status is None else status}


def diagnose(pair: Pair, classifier: Classifier) -> Diagnosis:
    """The cause of a pair that disagrees, and the smallest change of evidence that would make both agree."""
    search = _Search(pair, classifier)
    cause, why = next(found for ask in _QUESTIONS if (found := ask(search)))
    return Diagnosis(cause, why, search.smallest, search.exhausted)


# --- the smallest change


class _Search:
    """Tries changes of one event. ``exhausted`` says whether some were left out, since there were too many."""

    def __init__(self, pair: Pair, classifier: Classifier) -> None:
        self.pair, self._classifier, self.exhausted = pair, classifier, False
        near = {evidence.path for fact in pair.explanation.deciding for evidence in fact.evidence}
        fields = sorted(_fields(pair.event), key=lambda field: field.path not in near)
        steps = [step for field in fields for step in _steps(field)]
        self._named = [*_gaps(pair.event, classifier), *_absent(pair.event)]
        self._missing = [*self._named, *(step for step in steps if step.fills)]
        self._near = [*self._missing, *(step for step in steps if not step.fills and step.path in near)]
        self._all = [*self._missing, *(step for step in steps if not step.fills)]

    def agrees(self, change: Iterable[Step]) -> bool:
        """Whether both sides would agree about the event with this change."""
        event = self.pair.event
        for step in change:
            event = changed(event, step.path, step.after)
        return self.pair.verdict(self._classifier.classify(event).classification).verdict == "agree"

    @functools.cached_property
    def filling(self) -> Change | None:
        """The smallest change that only adds what is missing."""
        return self._first(self._missing, self._missing) or self._all_named()

    @functools.cached_property
    def smallest(self) -> Change | None:
        """The smallest change that makes both agree, of equally small ones what is missing first."""
        if self.filling and len(self.filling) == 1:
            return self.filling
        return self._first(self._all, self._near) or self.filling

    def _first(self, alone: list[Step], together: list[Step]) -> Change | None:
        """The first change that makes both agree: of one step, else of two."""
        if self.pair.legacy["legacy_kind"] not in KINDS:
            return None  # nothing agrees with what is no exit
        apart = (two for two in combinations(together, 2) if two[0].path != two[1].path)
        return self._tried((step,) for step in alone) or self._tried(apart)

    def _tried(self, changes: Iterator[Change]) -> Change | None:
        found = next(filter(self.agrees, islice(changes, MOST_TRIES)), None)
        self.exhausted |= found is None and next(changes, None) is not None
        return found

    def _all_named(self) -> Change | None:
        """What cannot be left out of all that the classification itself misses; None if that is not enough."""
        _, denied = _records()
        kept = [step for step in self._named if step.after is not denied]
        if not self.agrees(kept):
            return None
        for step in kept[:MOST_TRIES]:
            fewer = [each for each in kept if each is not step]
            kept = fewer if self.agrees(fewer) else kept
        return tuple(kept)


def _fields(event: Event) -> list[FieldAt]:
    return [field for piece in pieces_of(event) for field in fields_of(event, piece)]


def _steps(field: FieldAt) -> Iterator[Step]:
    """Other values of a field that say something: symbols and truth values before leaving it out. A made-up text or
    number would say nothing to anybody."""
    for other in sorted(field.others, key=lambda other: other is None):
        if _says_something(other) or (other is None and field.value not in _SAYS_NOTHING):
            yield Step(field.path, field.value, other, field.value in _SAYS_NOTHING, field.is_instant)


_SAYS_NOTHING = (None, "unknown", "UNKNOWN", "not_evaluated")


def _says_something(other: Any) -> bool:
    return isinstance(other, bool) or (isinstance(other, str) and other.isascii() and other not in _SAYS_NOTHING)


def _gaps(event: Event, classifier: Classifier) -> Iterator[Step]:
    for gap in gaps_of(classifier, event):
        yield Step(gap.path, _at(event, gap.path), gap.best, fills=True, is_instant=gap.field in _INSTANTS)


def _at(place: Any, path: Path) -> Any:
    """The value at a path; None behind the end of a list."""
    for key in path:
        if isinstance(key, int) and key >= len(place):
            return None
        place = place[key]
    return place


def _absent(event: Event) -> Iterator[Step]:
    """Records that may never have been kept: an evaluated predicate, and a denial."""
    satisfied, denied = _records()
    if event["completion"] is None:
        yield Step(("completion",), None, satisfied, fills=True)
    yield Step(("policy_decisions", len(event["policy_decisions"])), None, denied, fills=True)


_INSTANTS = frozenset({"observed_at", "resolved_at", "decided_at"})
"""Fields of gaps that are instants."""


@functools.cache
def _records() -> tuple[Event, Event]:
    """A predicate that is satisfied, and a denial of the whole request, in memory form."""
    identity = dict.fromkeys(("event_id", "run_id", "tenant", "agent_id"), "-")
    said = {
        "completion": {"claimed": True, "result": "satisfied"},
        "policy_decisions": [{"effect": "deny", "source": "application"}],
    }
    head = {"type": "terminal_event", "version": 1, "occurred_at": "2026-01-01T00:00:00Z"}
    event = TerminalEvent.model_validate({**head, **identity, **said}).model_dump()
    return event["completion"], event["policy_decisions"][0]


# --- the causes, in order


def _is_accepted(search: _Search) -> tuple[Cause, str] | None:
    entry = search.pair.accepted
    if entry is None:
        return None
    return Cause.ACCEPTED, f"{entry.owner} accepted it until {entry.expires}: {entry.reason} ({entry.ticket})"


def _is_late(search: _Search) -> tuple[Cause, str] | None:
    decided, ended = search.pair.legacy["legacy_decided_at"], search.pair.event["occurred_at"]
    if decided is None or decided >= ended:
        return None
    return Cause.LATE, f"the legacy side decided at {to_iso(decided)}, before the run ended at {to_iso(ended)}"


def _is_unmapped_stop(search: _Search) -> tuple[Cause, str] | None:
    event = search.pair.event
    model = event["model"]
    if not model or not model["stop_signal"] or model["stop_class"] not in _SAYS_NOTHING:
        return None
    field = next(each for each in _fields(event) if each.path == ("model", "stop_class"))
    fitting = [step.after for step in _steps(field) if search.agrees([step])]
    if not fitting:
        return None
    classes = " or ".join(map(str, fitting))
    return Cause.STOP_SIGNAL, f"the stop signal {model['stop_signal']} has no class; as {classes} both would agree"


def _is_contradictory(search: _Search) -> tuple[Cause, str] | None:
    behind = [fact for fact in search.pair.explanation.deciding if fact.name == CONTRADICTION.name and fact.holds]
    return (Cause.CONTRADICTORY, behind[0].meaning) if behind else None


def _is_missing(search: _Search) -> tuple[Cause, str] | None:
    change = search.filling
    if change is None:
        return None
    return Cause.MISSING, f"both could agree if this were known: {'; '.join(path_text(s.path) for s in change)}"


def _is_lossy(search: _Search) -> tuple[Cause, str] | None:
    pair = search.pair
    legacy, ours = pair.legacy["legacy_kind"], pair.explanation.classification["kind"]
    if legacy not in KINDS:
        return Cause.LOSSY, f"the legacy answer ({pair.answer}) means {legacy}, which is no exit"
    if legacy == ours:
        return Cause.LOSSY, f"both say {ours}, and the legacy side retried {pair.legacy['legacy_retries']} times"
    if not pair.beside.get(legacy):
        return None
    return Cause.LOSSY, f"the legacy answer ({pair.answer}) is the same for {_counts(pair.beside)}"


def _is_row(search: _Search) -> tuple[Cause, str]:
    pair, row = search.pair, search.pair.explanation.row
    decided = f"row {row.number}, {row.rule_id}, decides otherwise on evidence that says enough"
    return Cause.ROW, f"{decided}; the legacy answer ({pair.answer}) stands beside {_counts(pair.beside)}"


def _counts(beside: Mapping[str, int]) -> str:
    return ", ".join(f"{kind} ({runs:,})" for kind, runs in beside.items())


_QUESTIONS: tuple[Callable[[_Search], tuple[Cause, str] | None], ...] = (
    _is_accepted,
    _is_late,
    _is_unmapped_stop,
    _is_contradictory,
    _is_missing,
    _is_lossy,
    _is_row,
)
