"""What a fact rests on, found by experiment: take evidence away, change what is left, see when the fact is gone.

So the answer follows from the fact itself, whatever it is, and no fact needs a second description that could be wrong.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from classifier.change import Path, changed
from classifier.effects import Operation
from classifier.fact import Event, Fact
from classifier.facts import FACTS
from classifier.fields import FieldAt, Piece, fields_of, pieces_of, reduced
from classifier.run import Thresholds
from classifier.view import View
from schemas.types import to_iso

MOST_CAUSES = 5
"""So many causes of one fact, each enough by itself, are looked for."""
MOST_PIECES = 64
"""In an event of more pieces, only causes that are enough by themselves are looked for; the rest costs too much."""


class Evidence(NamedTuple):
    """A field of an event and its value as the contract's JSON has it; None where it is absent."""

    path: Path
    value: Any


def behind(event: Event, thresholds: Thresholds) -> dict[str, list[Evidence]]:
    """For each fact that holds for the event: the fields that make it hold, in the event's order.

    A field is listed if another value of it would end the fact, in the event as it is or in the least of the event
    that is enough for the fact. Empty for a fact that holds because nothing is recorded.
    """
    whole, pieces = View(event, thresholds), pieces_of(event)
    facts = [fact for fact in FACTS if whole.bits & fact.bit]
    fields = [field for piece in pieces for field in fields_of(event, piece)]
    found: dict[str, set[Path]] = {fact.name: set() for fact in facts}
    for field in fields if len(pieces) <= MOST_PIECES else ():
        for name in _ended(event, field, thresholds, facts):
            found[name].add(field.path)
    for fact in facts:
        search = _Search(fact, whole, thresholds)
        found[fact.name].update(path for cause in search.causes(pieces) for path in search.decisive(cause))
    return {name: [_evidence(field) for field in fields if field.path in paths] for name, paths in found.items()}


def _evidence(field: FieldAt) -> Evidence:
    return Evidence(field.path, to_iso(field.value) if field.is_instant and field.value is not None else field.value)


def _ended(event: Event, field: FieldAt, thresholds: Thresholds, facts: Iterable[Fact]) -> set[str]:
    """Names of the facts that some other value of the field ends."""
    bits = [View(changed(event, field.path, other), thresholds).bits for other in field.others]
    return {fact.name for fact in facts if any(not other & fact.bit for other in bits)}


class _Search:
    """Looks for the least of an event that is enough for a fact."""

    def __init__(self, fact: Fact, whole: View, thresholds: Thresholds) -> None:
        self.fact, self.event, self.thresholds = fact, whole.event, thresholds
        self.conclusions = _conclusions(whole)

    def causes(self, pieces: list[Piece]) -> Iterator[list[Piece]]:
        """Yield parts of the event that are enough, none of which speaks of an operation of one before."""
        left = pieces
        for _ in range(MOST_CAUSES):
            if self._holds([]) or not self._holds(left):
                return
            cause = self._undefeated(left)
            yield cause
            if any(piece.name == "steps" for piece in cause):
                return  # the last step is what counts: without it another one would be cited in its place
            spoken_of = {self._operation(piece) for piece in cause} - {None}
            left = [piece for piece in left if piece not in cause and self._operation(piece) not in spoken_of]

    def decisive(self, cause: list[Piece]) -> Iterator[Path]:
        """Yield the fields of a cause that the fact rests on, when everything is blank that can be. Of a piece that
        matters by being there, whatever its fields say, the first that says anything."""
        part = self._blanked(reduced(self.event, cause))
        for piece, source in zip(pieces_of(part), cause, strict=True):
            ending = [field for field in fields_of(part, piece) if _ended(part, field, self.thresholds, [self.fact])]
            for field in ending or [field for field in fields_of(self.event, source) if field.value][:1]:
                yield (*source.path, *field.path[len(source.path) :])

    def _blanked(self, part: Event) -> Event:
        """Leave out fields that the fact does not need; of two that say the same, the later is kept."""
        for field in [field for piece in pieces_of(part) for field in fields_of(part, piece)]:
            without = changed(part, field.path, field.others[0]) if field.value else part
            if without is not part and self._follows(without):
                part = without
        return part

    def _holds(self, pieces: list[Piece]) -> bool:
        return self._follows(reduced(self.event, pieces))

    def _follows(self, part: Event) -> bool:
        """Whether the fact holds for a part of the event, and nothing is concluded that the whole does not say."""
        view = View(part, self.thresholds)
        return bool(view.bits & self.fact.bit) and _conclusions(view) <= self.conclusions

    def _operation(self, piece: Piece) -> str | None:
        record = self.event[piece.name]
        operation_id: str | None = None if piece.item is None else record[piece.item].get("operation_id")
        return operation_id

    def _undefeated(self, pieces: list[Piece]) -> list[Piece]:
        """The smallest part that no other piece speaks against: what was lifted or superseded is no cause."""
        context: set[Piece] = set()
        while True:
            cause = self._smallest(pieces, context)
            against = next((p for p in pieces if p not in cause and not self._holds([*cause, p])), None)
            if against is None:
                return self._smallest(cause, set())
            context.add(against)

    def _smallest(self, part: list[Piece], context: set[Piece]) -> list[Piece]:
        """Leave out what can be, in ever smaller slices, but for ``context``; what stands later is kept rather."""
        size = len(part)
        while size:
            before, start = part, 0
            while start < len(part):
                dropped = set(part[start : start + size]) - context
                fewer = [piece for piece in part if piece not in dropped] if dropped else part
                if dropped and self._holds(fewer):
                    part = fewer
                else:
                    start += size
            if size > 1 or part is before:
                size //= 2
        return part


def _conclusions(view: View) -> set[tuple[Any, ...]]:
    """What follows from an event piece by piece, to tell a part of its story from another story."""
    found: set[tuple[Any, ...]] = {("denial", d.decision_id, d.policy_id, d.operation_id) for d in view.policy.denials}
    found |= {("failure", *failure) for failure in (*view.paths.required, *view.paths.run_failures)}
    found |= {("unapproved", operation.id) for operation in view.policy.unapproved}
    return found | {("effect", op.id, said) for op in view.effects.operations for said in _said_of(op)}


def _said_of(operation: Operation) -> Iterator[str]:
    for name in ("ambiguous", "took_effect", "is_duplicate", "contradicts_itself"):
        if getattr(operation, name):
            yield name
