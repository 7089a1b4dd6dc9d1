"""What a fact is. The facts themselves stand in the modules that establish them; :mod:`classifier.facts` lists them."""

from dataclasses import dataclass, field
from typing import Any

Event = dict[str, Any]
"""A terminal event in memory form: every field present, absent values None, instants as microseconds."""


@dataclass(frozen=True)
class Fact:
    """One boolean that is derived from the evidence.

    ``position`` is its bit in the stored bit set and never changes; ``meaning`` is its documentation, and says what
    absence of evidence concludes.
    """

    position: int
    name: str
    meaning: str
    bit: int = field(init=False)
    """The fact as a bit set of its own."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "bit", 1 << self.position)


@dataclass(frozen=True)
class Finding:
    """A stable code for what is odd but decides nothing."""

    code: str
    meaning: str
