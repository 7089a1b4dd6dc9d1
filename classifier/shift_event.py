"""An event that has some facts under one table's thresholds and others under another's.

Thresholds judge the steps of a run alone, so everything else is :func:`classifier.synthesis.event_for`'s. The steps are
tried out: confidences at and between the numbers of both tables. As there, nothing is trusted but what is read off.
"""

from collections.abc import Iterable, Iterator
from decimal import Decimal
from itertools import product

from classifier.fact import Event
from classifier.run import Thresholds
from classifier.synthesis import event_for
from classifier.table import Table
from classifier.table_diff import DRIVEN
from classifier.view import View
from schemas.events import Step

_JUDGED = sum(fact.bit for fact, _ in DRIVEN.values())
_Steps = list[dict[str, object]]


def shifting_event(bits_before: int, bits_after: int, old: Table, new: Table) -> Event | None:
    """A terminal event in memory form that has exactly these facts under the old table, and those under the new one.

    None if there is none among those tried, as where the thresholds leave no room. Equal questions give equal events.
    """
    sides = ((bits_before, old.thresholds), (bits_after, new.thresholds))
    plain = event_for(bits_before, old.thresholds)
    if plain is not None and _shows(plain, sides):
        return plain
    rest = event_for(bits_before & ~_JUDGED, old.thresholds)
    if rest is None:
        return None
    name = f"facts-{bits_before:x}-{bits_after:x}"
    events = (rest | {"event_id": name, "run_id": name, "steps": steps} for steps in _steps(old, new))
    return next((event for event in events if _shows(event, sides)), None)


def _shows(event: Event, sides: tuple[tuple[int, Thresholds], ...]) -> bool:
    return all(View(event, thresholds).bits == bits for bits, thresholds in sides)


def _steps(old: Table, new: Table) -> Iterator[_Steps]:
    """Steps whose last confidence is at a floor, nothing or everything, that fell by a decline, or not, or as far as
    can be; whose check is at a veto; and whose last actions are equal as often as either table asks, or not at all.

    That is one of every kind that the thresholds tell apart, those first whose confidences lie between 0 and 1. The
    contract has no others, but nothing refuses them.
    """
    yield from _within(old, new, Decimal(0), Decimal(1))
    yield from _within(old, new, Decimal(-1), Decimal(3))


def _within(old: Table, new: Table, least: Decimal, most: Decimal) -> Iterator[_Steps]:
    given = [table.file.thresholds for table in (old, new)]

    def levels(numbers: Iterable[str]) -> list[Decimal | None]:
        return [None, *sorted({least, *map(Decimal, numbers), most})]

    floors, falls = levels(each.confidence_floor for each in given), levels(each.confidence_decline for each in given)
    checks = levels(each.confidence_veto for each in given)
    repeats = sorted({1, *(each.progress_repeats for each in given)})
    for equal, check, last, fall in product(repeats, checks, floors, falls):
        before = None if last is None or fall is None else min(last + fall, most)
        yield _made(equal, before, last, check)


def _made(equal: int, before: Decimal | None, last: Decimal | None, check: Decimal | None) -> _Steps:
    """Steps of which the last ``equal`` have one action; those before the last are as sure as ``before``."""
    count = max(equal, 1 if before is None else 3)
    keys = [None] * (count - equal) + ["same" if equal > 1 else None] * equal
    steps: _Steps = [
        dict.fromkeys(Step.model_fields) | {"checks": {}, "action_key": key, "confidence_after": _float(before)}
        for key in keys
    ]
    steps[-1] |= {"confidence_after": _float(last), "checks": {} if check is None else {"check": float(check)}}
    return steps


def _float(value: Decimal | None) -> float | None:
    return None if value is None else float(value)
