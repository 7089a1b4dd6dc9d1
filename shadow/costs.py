"""What a run costs by what the legacy dispatcher called it and what it was: a file that the user owns."""

import tomllib
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from schemas.problems import WORDS

_Legacy = Literal["completed", "refusal", "fallback", "partial", "human_queue", "error", "unmapped"]
_New = Literal["completed", "refusal", "fallback", "partial", "human_queue"]
_FINEST = -6
"""Decimal places of an amount; sums of them are exact."""


class CostsError(ValueError):
    """A file of costs that cannot be used. ``problems`` are sentences, each with its place."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def _amount(value: Any) -> Decimal:
    number = Decimal(value) if type(value) is int else value
    if not isinstance(number, Decimal):
        raise ValueError("must be a number, such as 12.50")  # noqa: TRY004 -- pydantic collects ValueErrors
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or exponent < _FINEST or not 0 <= number <= 10**9:
        raise ValueError(f"must be from 0 to 1000000000, with at most {-_FINEST} decimal places")
    # Minus nothing is nothing, and reads so.
    return abs(number)


class Cell(BaseModel):
    """The cost of one run that legacy called ``legacy`` and that is ``new``."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    legacy: _Legacy
    new: _New
    cost: Annotated[Decimal, BeforeValidator(_amount)]


class Costs(BaseModel):
    """A file of costs. ``unit`` is what amounts are in, such as EUR; no amount is converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    unit: Annotated[str, Field(min_length=1, max_length=20)]
    cells: list[Cell]


class Priced(NamedTuple):
    """Runs in one cell and what they cost together."""

    legacy: str
    new: str
    runs: int
    each: Decimal
    total: Decimal


class Bill(NamedTuple):
    """What the runs cost, cell by cell, the dearest first; ``unpriced`` runs disagree and their cell has no cost."""

    unit: str
    cells: tuple[Priced, ...]
    unpriced: int

    @property
    def total(self) -> Decimal:
        """Of all cells."""
        return sum((each.total for each in self.cells), Decimal(0))

    def text(self, amount: Decimal) -> str:
        """An amount for people, with as many decimal places as any cost has."""
        return f"{amount:,.{max((_places(each.each) for each in self.cells), default=0)}f}"


def _places(amount: Decimal) -> int:
    exponent = amount.as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def parse(text: str) -> Costs:
    """The costs in a file. Raises CostsError with every problem found, each with its place."""
    try:
        costs = Costs.model_validate(tomllib.loads(text, parse_float=Decimal))
    except tomllib.TOMLDecodeError as error:
        raise CostsError([f"not TOML: {error}"]) from None
    except RecursionError:
        raise CostsError(["nested too deeply"]) from None
    except ValidationError as error:
        raise CostsError([_sentence(problem) for problem in error.errors(include_input=False)]) from None
    if twice := [*_twice(costs.cells)]:
        raise CostsError(twice)
    return costs


def _twice(cells: Iterable[Cell]) -> Iterable[str]:
    first: dict[tuple[str, str], int] = {}
    for number, cell in enumerate(cells, 1):
        earlier = first.setdefault((cell.legacy, cell.new), number)
        if earlier != number:
            yield f"cell {number}: {cell.legacy} and {cell.new} have a cost in cell {earlier} already"


def _sentence(problem: Mapping[str, Any]) -> str:
    where = [str(part) for part in problem["loc"]]
    if len(where) > 1 and where[0] == "cells":
        where[:2] = [f"cell {int(where[1]) + 1}"]
    words = _WORDS.get(problem["type"], problem["msg"]).format(**problem.get("ctx", {}))
    return f"{': '.join(where)}: {words}"


_WORDS = {**WORDS, "list_type": "must be cells, each under [[cells]]", "model_type": "must be a cell under [[cells]]"}
"""What pydantic's kinds of problems mean to whoever writes the file."""


def bill(costs: Costs, cells: Mapping[tuple[str, str], int], disagreeing: Mapping[tuple[str, str], int]) -> Bill:
    """What paired runs cost. ``cells`` counts them by (legacy, new), ``disagreeing`` those of them that disagree."""
    priced = {(each.legacy, each.new): each.cost for each in costs.cells}
    found = [
        Priced(*cell, runs, priced[cell], runs * priced[cell])
        for cell, runs in cells.items()
        if cell in priced and runs
    ]
    unpriced = sum(runs for cell, runs in disagreeing.items() if cell not in priced)
    return Bill(costs.unit, tuple(sorted(found, key=lambda each: (-each.total, each.legacy, each.new))), unpriced)
