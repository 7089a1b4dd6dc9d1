"""The course of one review through its queue: a fold over what happened, in order of time.

The clock of a review stands still while it is paused, and its deadline moves by as long. A deadline that is set anew
is moved by the pauses after that only.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from streams.lifecycle.records import Exit, Note


@dataclass(frozen=True)
class Course:
    """Where a review stands. Times in microseconds; ``decision`` is empty while it is not decided."""

    opened_at: int
    queue: str
    deadline: int | None
    decided: bool = False
    decision: str = ""
    claimed: bool = False
    reviewer: str = ""
    expired: bool = False
    paused_since: int | None = None
    paused_us: int = 0


def run_course(exit_: Exit, steps: Iterable[Note]) -> Course:
    """The course of the review of an exit. ``steps`` are in order; one dated before the run ended counts as then."""
    course = Course(exit_.occurred_at, exit_.queue, exit_.deadline)
    for step in steps:
        at = exit_.occurred_at if step.at is None else max(step.at, exit_.occurred_at)
        course = _STEPS.get(step.what, _nothing)(course, step, at)
    return course


def _nothing(course: Course, _step: Note, _at: int) -> Course:
    return course


def _opened(course: Course, step: Note, at: int) -> Course:
    """Opened for the first time it says where and until when; opened again it begins anew."""
    if course.decided:
        course = Course(at, course.queue, course.deadline)
    return _moved(course, step, at)


def _claimed(course: Course, step: Note, _at: int) -> Course:
    return course if course.decided else replace(course, claimed=True, reviewer=step.reviewer or course.reviewer)


def _paused(course: Course, _step: Note, at: int) -> Course:
    return course if course.paused_since is not None else replace(course, paused_since=at)


def _resumed(course: Course, _step: Note, at: int) -> Course:
    return replace(_settled(course, at), paused_since=None)


def _decided(course: Course, step: Note, at: int) -> Course:
    reviewer = step.reviewer or course.reviewer
    return replace(
        _resumed(course, step, at),
        decided=True,
        decision=step.decision,
        reviewer=reviewer,
        claimed=False,
        expired=False,
    )


def _expired(course: Course, _step: Note, _at: int) -> Course:
    return course if course.decided else replace(course, expired=True)


def _reassigned(course: Course, step: Note, at: int) -> Course:
    """Somebody else's from here on; a new deadline is a new chance."""
    expired = course.expired and step.deadline is None
    return replace(_moved(course, step, at), claimed=False, reviewer=step.reviewer, expired=expired)


def _moved(course: Course, step: Note, at: int) -> Course:
    course = replace(course, queue=step.queue or course.queue)
    return course if step.deadline is None else replace(_settled(course, at), deadline=step.deadline)


def _settled(course: Course, at: int) -> Course:
    """The same course, its present pause counted up to ``at`` and begun anew there."""
    if course.paused_since is None:
        return course
    lasted = at - course.paused_since
    deadline = None if course.deadline is None else course.deadline + lasted
    return replace(course, paused_since=at, paused_us=course.paused_us + lasted, deadline=deadline)


_STEPS: Mapping[str, Callable[[Course, Note, int], Course]] = {
    "opened": _opened,
    "claimed": _claimed,
    "paused": _paused,
    "resumed": _resumed,
    "decided": _decided,
    "expired": _expired,
    "reassigned": _reassigned,
}
