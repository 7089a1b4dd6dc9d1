"""Accepted differences: a file in version control that says which disagreements are known, by whom, and until when.

An entry covers the disagreeing pairs that its predicate names. It stands until the beginning of the day on which it
expires, and while its pairs are at most its ceiling of the paired runs in its scope. Past either, its pairs are
disagreements again. Entries are judged each by itself, so their order means nothing, and a pair that several cover is
accepted where one of them stands.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from schemas.problems import WORDS
from schemas.types import to_micros
from shadow.alike import Runs
from shadow.disagreement import NAMES
from shadow.literal import literal
from shadow.scope import Select

DIFFERENCE = ("disagreement", "legacy_label", "kind", "reason_code")
"""Columns of ``v_comparison`` that say which difference an entry accepts; it names at least one of them."""
SCOPE = ("tenant", "agent_id", "workflow")
"""Columns that say of which runs; also of which paired runs the ceiling is a share."""


class AcceptedError(ValueError):
    """A file of accepted differences that cannot be used. ``problems`` are sentences, each with its place."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


_FINEST = -9
"""Decimal places of a ceiling; it is compared exactly."""


def _share(value: Any) -> Decimal:
    if isinstance(value, int) and not isinstance(value, bool):
        value = Decimal(value)
    if not isinstance(value, Decimal):
        raise ValueError("must be a number, such as 0.05")  # noqa: TRY004 -- pydantic collects ValueErrors
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int) or exponent < _FINEST or not 0 < value <= 1:
        raise ValueError(f"must be more than 0, at most 1, with at most {-_FINEST} decimal places")
    return value


def _day(value: Any) -> date:
    if type(value) is not date:
        raise ValueError("must be a date without quotes, such as 2026-12-31")
    return value


def _known(name: str) -> str:
    if name not in NAMES:
        raise ValueError(f"must be one of {', '.join(NAMES)}")
    return name


_Text = Annotated[str, Field(min_length=1, max_length=1000)]


class Accepted(BaseModel):
    """One accepted difference, as it is written. What it does not name, it does not ask about."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    disagreement: Annotated[str, AfterValidator(_known)] | None = None
    legacy_label: _Text | None = None
    kind: Literal["completed", "refusal", "fallback", "partial", "human_queue"] | None = None
    reason_code: _Text | None = None
    tenant: _Text | None = None
    agent_id: _Text | None = None
    workflow: _Text | None = None
    owner: _Text
    reason: _Text
    ticket: _Text
    expires: Annotated[date, BeforeValidator(_day)]
    ceiling: Annotated[Decimal, BeforeValidator(_share)]

    @property
    def predicate(self) -> dict[str, str]:
        """What it asks for, by column, the difference before the scope."""
        return self._given(DIFFERENCE) | self.scope

    @property
    def scope(self) -> dict[str, str]:
        """Of which runs, by column; empty for all."""
        return self._given(SCOPE)

    def _given(self, columns: Iterable[str]) -> dict[str, str]:
        asked = {column: getattr(self, column) for column in columns}
        return {column: value for column, value in asked.items() if value is not None}

    @property
    def text(self) -> str:
        """What it accepts, in words."""
        return ", ".join(f"{column} {value}" for column, value in self.predicate.items())

    @property
    def ceiling_text(self) -> str:
        """The ceiling in per cent, exactly."""
        digits = f"{self.ceiling * 100:f}"
        return f"{digits.rstrip('0').rstrip('.') if '.' in digits else digits}%"

    @property
    def expires_at(self) -> int:
        """The beginning of the day on which it expires, UTC, in microseconds."""
        return to_micros(datetime(self.expires.year, self.expires.month, self.expires.day, tzinfo=UTC))

    def covers(self, row: Mapping[str, Any]) -> bool:
        """Whether its predicate holds for a row of ``v_comparison``."""
        return row["verdict"] == "disagree" and all(row[name] == value for name, value in self.predicate.items())

    @property
    def sql(self) -> str:
        """The same as an expression over ``v_comparison``, never NULL."""
        return _all_of({"verdict": "disagree"} | self.predicate)

    @property
    def scope_sql(self) -> str:
        """Whether a row of ``v_comparison`` is a paired run in its scope, never NULL."""
        return _all_of({"pairing": "paired"} | self.scope)


def _all_of(wanted: Mapping[str, str]) -> str:
    return " AND ".join(f"ifNull({column} = {literal(value)}, 0)" for column, value in wanted.items())


# --- the file


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    accepted: list[Accepted] = []


def parse(text: str) -> tuple[Accepted, ...]:
    """The entries of a file, in its order. Raises AcceptedError with every problem found, each with its place."""
    try:
        content = tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        raise AcceptedError([f"not TOML: {error}"]) from None
    except RecursionError:
        raise AcceptedError(["nested too deeply"]) from None
    try:
        entries = tuple(_File.model_validate(content).accepted)
    except ValidationError as error:
        raise AcceptedError([_sentence(problem) for problem in error.errors(include_input=False)]) from None
    if problems := [*_problems(entries)]:
        raise AcceptedError(problems)
    return entries


def entry(fields: Mapping[str, Any]) -> Accepted:
    """One entry of its values by name, None or absent where it has none. Raises AcceptedError as :func:`parse` does."""
    try:
        made = Accepted.model_validate({name: value for name, value in fields.items() if value is not None})
    except ValidationError as error:
        raise AcceptedError([_sentence(problem) for problem in error.errors(include_input=False)]) from None
    if names_nothing := _names_nothing(made):
        raise AcceptedError([names_nothing])
    return made


def _problems(entries: Sequence[Accepted]) -> Iterable[str]:
    first: dict[str, int] = {}
    for number, each in enumerate(entries, 1):
        if names_nothing := _names_nothing(each):
            yield f"{place(number)}: {names_nothing}"
        earlier = first.setdefault(repr(each.predicate), number)
        if earlier != number:
            yield f"{place(number)}: accepts the same as {place(earlier)}; keep one of them"


def _names_nothing(entry: Accepted) -> str:
    """What is wrong with an entry that would accept every difference in its scope; empty if it names one."""
    names_one = entry.predicate.keys() & set(DIFFERENCE)
    return "" if names_one else f"names no difference; give at least one of {', '.join(DIFFERENCE)}"


def place(number: int) -> str:
    """How messages name an entry, counted from 1."""
    return f"entry {number}"


def _sentence(problem: Mapping[str, Any]) -> str:
    where = [str(part) for part in problem["loc"]]
    if len(where) > 1 and where[0] == "accepted" and where[1].isdigit():
        where[:2] = [place(int(where[1]) + 1)]
    words = _WORDS.get(problem["type"], problem["msg"]).format(**problem.get("ctx", {}))
    return f"{': '.join(where)}: {words}"


_WORDS = {
    **WORDS,
    "list_type": "must be entries, each under [[accepted]]",
    "model_type": "must be an entry under [[accepted]]",
    "model_attributes_type": "must be an entry under [[accepted]]",
}
"""What pydantic's kinds of problems mean to whoever writes the file."""

_NEEDS_ESCAPE = re.compile(r'[\x00-\x1f"\\\x7f]')


def as_toml(entry: Accepted) -> str:
    """An entry as the file has it, so that :func:`parse` gives it back."""
    texts = {name: _quoted(value) for name, value in entry.predicate.items()}
    texts |= {name: _quoted(getattr(entry, name)) for name in ("owner", "reason", "ticket")}
    texts |= {"expires": entry.expires.isoformat(), "ceiling": f"{entry.ceiling:f}"}
    return "[[accepted]]\n" + "".join(f"{name} = {text}\n" for name, text in texts.items())


def _quoted(text: str) -> str:
    return '"' + _NEEDS_ESCAPE.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + '"'


# --- judging


class State(StrEnum):
    """What becomes of the pairs that an entry covers; the first that holds."""

    EXPIRED = "expired"
    OVER_CEILING = "over ceiling"
    STANDS = "stands"


class Count(NamedTuple):
    """How many disagreeing pairs an entry covers, of so many paired runs in its scope."""

    pairs: int
    paired: int


@dataclass(frozen=True)
class Verdict:
    """An entry, what it covers, and whether that counts as accepted."""

    entry: Accepted
    count: Count
    state: State

    @property
    def stands(self) -> bool:
        """Whether its pairs are accepted."""
        return self.state is State.STANDS


def counts_sql(entries: Sequence[Accepted], runs: str = "1") -> str:
    """Columns of an aggregate over ``v_comparison``, or over groups of its rows with so many ``runs``: ``pairs`` and
    ``paired``, each a list in the entries' order. There must be an entry."""
    pairs = ", ".join(f"sumIf({runs}, {entry.sql})" for entry in entries)
    paired = ", ".join(f"sumIf({runs}, {entry.scope_sql})" for entry in entries)
    return f"[{pairs}] AS pairs, [{paired}] AS paired"


def verdicts(entries: Sequence[Accepted], counts: Sequence[Count], now: int) -> tuple[Verdict, ...]:
    """What each entry is worth, ``now`` in microseconds. ``counts`` are in the order of the entries."""
    return tuple(Verdict(entry, count, _state(entry, count, now)) for entry, count in zip(entries, counts, strict=True))


def judged(select: Select, runs: Runs, entries: Sequence[Accepted], now: int) -> tuple[Verdict, ...]:
    """The same of the runs of a scope."""
    if not entries:
        return ()
    columns = {"verdict", "pairing", *(column for entry in entries for column in entry.predicate)}
    groups = runs.alike(columns, {"counted": "count()"})
    sql = f"SELECT {counts_sql(entries, 'counted')} FROM {groups}"  # noqa: S608 -- quoted literals
    [row] = select(sql, runs.scope.parameters)
    return verdicts(entries, [*map(Count, row["pairs"], row["paired"])], now)


def _state(entry: Accepted, count: Count, now: int) -> State:
    if now >= entry.expires_at:
        return State.EXPIRED
    if count.pairs > Fraction(entry.ceiling) * count.paired:
        return State.OVER_CEILING
    return State.STANDS


class Standing(NamedTuple):
    """What the entries that stand cover: ``sql`` says whether a row of ``v_comparison`` is covered by one, never NULL,
    and ``0`` where none stands; ``columns`` are those that this asks for."""

    sql: str
    columns: frozenset[str]

    @classmethod
    def of(cls, judged: Iterable[Verdict]) -> Self:
        """Of entries that are judged."""
        standing = [verdict.entry for verdict in judged if verdict.stands]
        columns = {column for entry in standing for column in entry.predicate}
        sql = " OR ".join(f"({entry.sql})" for entry in standing)
        return cls(sql or "0", frozenset({"verdict", *columns} if standing else ()))


def standing(judged: Iterable[Verdict], row: Mapping[str, Any]) -> Accepted | None:
    """The first entry that stands and covers a row of ``v_comparison``."""
    return next((verdict.entry for verdict in judged if verdict.stands and verdict.entry.covers(row)), None)
