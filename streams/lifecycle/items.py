"""What is open about one run: a pure function of its exits and of the notes about them, in whatever order they came.

A run is judged by its latest segment: an earlier partial or review is superseded by it. What an earlier segment owes
stays owed, because an obligation follows an effect and not an exit: it is closed by a deed, or restated by a later
segment, which then owns it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from streams.lifecycle.records import (
    ACCEPTED,
    COMPENSATED,
    DECIDING,
    DEEDS,
    RECONCILED,
    Duty,
    EventKey,
    Exit,
    Note,
    VersionKey,
)
from streams.lifecycle.review import Course, run_course


@dataclass(frozen=True)
class Item:
    """What every open item has: whose it is, and since when it is open (microseconds)."""

    tenant: str
    event_id: str
    run_id: str
    segment: int | None
    agent_id: str
    workflow: str
    kind: str
    reason_code: str
    opened_at: int

    @property
    def event(self) -> EventKey:
        """Identity of the terminal event."""
        return self.tenant, self.event_id


@dataclass(frozen=True)
class OpenPartial(Item):
    """A partial result that lacks components. All lists are sorted by name.

    ``missing`` are the components still to be added; ``failed`` and ``superseded`` those of them whose last enrichment
    ended so; ``final`` those of them that no enrichment may add. ``reverses_result``: an enrichment showed that the
    partial would have been different.
    """

    missing: tuple[str, ...]
    failed: tuple[str, ...]
    superseded: tuple[str, ...]
    final: tuple[str, ...]
    reverses_result: bool


@dataclass(frozen=True)
class OpenReview(Item):
    """What a person still owes: a decision, deeds, or both. One for each event, since it has one review packet.

    ``state`` is ``open``, ``claimed``, ``paused``, or ``decided`` where only deeds are owed. ``deadline`` is moved by
    the pauses that have ended; one that has not moves it as it lasts (see :mod:`streams.lifecycle.ageing`).
    ``paused_us`` is the time of ended pauses, ``paused_since`` the begin of the present one. ``expired``: the queue
    gave it up undecided.
    """

    queue: str
    owner: str
    review_packet_id: str
    deadline: int | None
    paused_since: int | None
    paused_us: int
    state: str
    reviewer: str
    expired: bool
    decision_owed: bool
    duties: tuple[Duty, ...]


class Reversal(NamedTuple):
    """An enrichment that showed an earlier partial to be wrong, whether the partial is still open or not."""

    tenant: str
    event_id: str
    run_id: str
    component: str
    record_id: str
    at: int


class RunItems(NamedTuple):
    """What is open about one run, and what was reversed; partials and reviews by rank of their events."""

    partials: tuple[OpenPartial, ...] = ()
    reviews: tuple[OpenReview, ...] = ()
    reversals: tuple[Reversal, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether anything is open."""
        return bool(self.partials or self.reviews)


def current(versions: Iterable[Exit], activations: Mapping[VersionKey, int]) -> Exit:
    """The classification of one event that counts: by the table that was activated last, then the newest.

    Raises ValueError without any. Source: the view ``v_classifications``.
    """
    return min(versions, key=lambda e: (-activations.get(e.version, 0), -e.classified_at, e.version))


def items_of(exits: Sequence[Exit], notes_on: Callable[[Exit], Sequence[Note]]) -> RunItems:
    """What is open about a run. ``exits`` are the current exits of its events, in any order; ``notes_on`` gives the
    notes about one, in any order."""
    ranked = sorted(exits, key=lambda exit_: exit_.rank)
    if not any(exit_.opens for exit_ in ranked):
        return RunItems()
    notes = {exit_.event_id: sorted(notes_on(exit_), key=lambda n: _order(n, exit_)) for exit_ in ranked}
    latest, owed = ranked[-1], _owed(ranked, notes)
    partial = _open_partial(latest, notes[latest.event_id]) if latest.kind == "partial" else None
    reviews = (_open_review(e, notes[e.event_id], owed[e.event_id], is_latest=e is latest) for e in ranked)
    return RunItems(
        () if partial is None else (partial,),
        tuple(review for review in reviews if review is not None),
        tuple(reversal for e in ranked if e.kind == "partial" for reversal in _reversals(e, notes[e.event_id])),
    )


def _order(note: Note, exit_: Exit) -> tuple[int, str, str]:
    """What is not dated comes first, so that anything dated overrules it."""
    return _moment(note, exit_), note.record_id, note.type


def _moment(note: Note, exit_: Exit) -> int:
    return exit_.occurred_at if note.at is None else note.at


# --- obligations


class _Deed(NamedTuple):
    rank: tuple[int, int, str]
    action: str
    operation_id: str | None


def _owed(ranked: Sequence[Exit], notes: Mapping[str, Sequence[Note]]) -> dict[str, list[Duty]]:
    """Duties that no deed has fulfilled, by the last event that states each."""
    owners = {duty: exit_ for exit_ in ranked for duty in exit_.duties}
    deeds = [
        _Deed(exit_.rank, note.what, note.target)
        for exit_ in ranked
        for note in notes[exit_.event_id]
        if note.type == "recovery_action" and note.what in DEEDS
    ]
    is_single = len({duty.operation_id for duty in owners}) == 1
    owed: dict[str, list[Duty]] = {exit_.event_id: [] for exit_ in ranked}
    for duty, owner in owners.items():
        if not any(_fulfils(deed, duty, owner, is_single=is_single) for deed in deeds):
            owed[owner.event_id].append(duty)
    return owed


def _fulfils(deed: _Deed, duty: Duty, owner: Exit, *, is_single: bool) -> bool:
    """Whether a deed did what is owed. One about an earlier segment cannot: the effect was still owed afterwards. What
    is compensated needs no reconciling. A deed that names no operation serves a run that owes for one alone."""
    if deed.rank < owner.rank:
        return False
    same = deed.operation_id == duty.operation_id or (deed.operation_id is None and is_single)
    return same and (deed.action == COMPENSATED or (deed.action == RECONCILED and duty.action == "reconcile"))


# --- reviews


def _open_review(exit_: Exit, notes: Sequence[Note], owed: Sequence[Duty], *, is_latest: bool) -> OpenReview | None:
    asks = is_latest and exit_.kind == "human_queue"
    if not asks and not owed:
        return None
    course = run_course(exit_, _steps(exit_, notes))
    duties = [] if course.decided and course.decision == ACCEPTED else owed
    decision_owed = asks and not course.decided
    if not decision_owed and not duties:
        return None
    return _review(exit_, course, duties, decision_owed=decision_owed)


def _steps(exit_: Exit, notes: Sequence[Note]) -> Iterable[Note]:
    """The notes that move a review, recovery actions that decide as the decision that they are."""
    for note in notes:
        if note.type == "review_event":
            yield note
        elif note.type == "recovery_action" and _decides(exit_, note.what):
            yield note._replace(what="decided", decision=note.what)


def _decides(exit_: Exit, action: str) -> bool:
    """Whether an action answers the review. A deed does where the packet offered it as a decision."""
    return action in DECIDING or DEEDS.get(action) in exit_.allowed_decisions


def _review(exit_: Exit, course: Course, duties: Sequence[Duty], *, decision_owed: bool) -> OpenReview:
    return OpenReview(
        **_whose(exit_),
        opened_at=course.opened_at,
        queue=course.queue,
        owner=exit_.owner if course.queue == exit_.queue else "",
        review_packet_id=exit_.review_packet_id,
        deadline=course.deadline,
        paused_since=course.paused_since,
        paused_us=course.paused_us,
        state=_state(course),
        reviewer=course.reviewer,
        expired=course.expired,
        decision_owed=decision_owed,
        duties=tuple(sorted(duties, key=lambda duty: (duty.action, duty.operation_id or ""))),
    )


def _state(course: Course) -> str:
    if course.paused_since is not None:
        return "paused"
    if course.decided:
        return "decided"
    return "claimed" if course.claimed else "open"


def _whose(exit_: Exit) -> dict[str, Any]:
    names = ("tenant", "event_id", "run_id", "segment", "agent_id", "workflow", "kind", "reason_code")
    return {name: getattr(exit_, name) for name in names}


# --- partials


def _open_partial(exit_: Exit, notes: Sequence[Note]) -> OpenPartial | None:
    """The partial, unless every component that it lacked was added. What was added stays added."""
    enrichments = [note for note in notes if note.type == "enrichment"]
    added = {note.target for note in enrichments if note.what == "completed"}
    missing = {one.component for one in exit_.omitted} - added
    if not missing:
        return None
    last = {note.target: note.what for note in enrichments}
    retryable = {one.component for one in exit_.omitted if one.retryable}
    return OpenPartial(
        **_whose(exit_),
        opened_at=exit_.occurred_at,
        missing=tuple(sorted(missing)),
        failed=tuple(sorted(name for name in missing if last.get(name) == "failed")),
        superseded=tuple(sorted(name for name in missing if last.get(name) == "superseded")),
        final=tuple(sorted(missing - retryable)),
        reverses_result=any(note.reverses for note in enrichments),
    )


def _reversals(exit_: Exit, notes: Sequence[Note]) -> Iterable[Reversal]:
    for note in notes:
        if note.type == "enrichment" and note.reverses:
            at = _moment(note, exit_)
            yield Reversal(exit_.tenant, exit_.event_id, exit_.run_id, note.target or "", note.record_id, at)
