"""The decision table: read from a TOML file, checked, and evaluated with hit policy FIRST."""

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from classifier.condition import Condition, ConditionError, parse
from classifier.facts import BY_NAME
from classifier.run import PREDICATE_SATISFIED, Thresholds
from schemas.exits import KINDS
from schemas.problems import WORDS
from schemas.types import LATEST

ReasonSource = Literal["denial", "failure", "omission"]
Code = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=64)]


class TableError(ValueError):
    """A table file that cannot be used. ``problems`` are sentences, each with its place."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Queue(_Part):
    """Where people work: who owns it, what they may decide, by when."""

    owner: str = Field(min_length=1)
    deadline_hours: float = Field(gt=0, le=24 * 366)
    allowed_decisions: list[Code] = Field(min_length=1)

    @property
    def deadline_micros(self) -> int:
        """Time to the deadline in microseconds."""
        return round(self.deadline_hours * 3_600_000_000)

    def due(self, occurred_at: int) -> int:
        """When a decision about a run that ended at ``occurred_at`` is due; the last instant that there is at most."""
        return min(occurred_at + self.deadline_micros, LATEST)


class FinerReason(_Part):
    """A finer reason code, where its condition holds."""

    code: Code
    when: str


class Row(_Part):
    """One row: a condition over facts, and the exit where it is the first that holds."""

    id: Code
    when: str
    exit: str
    reason: Code | None = None
    reasons: list[FinerReason] = []
    reason_from: ReasonSource | None = None
    queue: str | None = None


_MOST_DIGITS = 15
"""Characters of a threshold. As many digits are told apart by the floats that they are compared as."""


def _confidence(value: Any) -> str:
    """A decimal as text: a binary fraction, which TOML makes of a number, would not be what was written."""
    try:
        if isinstance(value, str) and len(value) <= _MOST_DIGITS and 0 <= float(value) <= 1:
            return value
    except ValueError:
        pass
    raise ValueError('must be a decimal between 0 and 1 in quotes, such as "0.6"')


_Confidence = Annotated[str, BeforeValidator(_confidence)]


class _ThresholdsFile(_Part):
    confidence_floor: _Confidence
    confidence_decline: _Confidence
    confidence_veto: _Confidence
    progress_repeats: int = Field(ge=2, le=100)


class TableFile(_Part):
    """The content of a table file, as written."""

    id: Code
    version: str = Field(min_length=1, max_length=64)
    thresholds: _ThresholdsFile
    switches: dict[Code, str]
    queues: dict[Code, Queue]
    rows: list[Row] = Field(min_length=1)


@dataclass(frozen=True)
class Verdict:
    """What a table says about a set of facts: everything but the evidence's own reason codes."""

    row: Row
    kind: str
    reason: str
    queue: str | None
    verified: bool


@dataclass(frozen=True)
class CompiledRow:
    """A row with its conditions parsed and its exit resolved."""

    row: Row
    kind: str
    condition: Condition
    reasons: tuple[tuple[Condition, str], ...]

    def verdict(self, bits: int) -> Verdict:
        """What the row says for facts under which it holds."""
        finer = (code for condition, code in self.reasons if condition.holds(bits))
        reason = next(finer, self.row.reason or self.row.id)
        queue = self.row.queue if self.kind == "human_queue" else None
        verified = self.kind == "completed" and bool(bits & PREDICATE_SATISFIED.bit)
        return Verdict(self.row, self.kind, reason, queue, verified)


@dataclass(frozen=True)
class Table:
    """A usable table. ``digest`` covers everything but comments and layout; ``text`` is the file as read."""

    file: TableFile
    rows: tuple[CompiledRow, ...]
    digest: str
    text: str

    @property
    def ref(self) -> dict[str, str]:
        """The reference that every classification carries."""
        return {"id": self.file.id, "version": self.file.version, "digest": self.digest}

    @cached_property
    def thresholds(self) -> Thresholds:
        """The numbers that facts are judged by."""
        given = self.file.thresholds
        return Thresholds(
            floor=given.confidence_floor,
            decline=given.confidence_decline,
            veto=given.confidence_veto,
            repeats=given.progress_repeats,
        )

    def decide(self, bits: int) -> Verdict:
        """The first row that holds decides. The last row always holds, so there is one."""
        return next(row.verdict(bits) for row in self.rows if row.condition.holds(bits))


def default_text() -> str:
    """The default table's file."""
    return resources.files("classifier").joinpath("default.toml").read_text(encoding="utf-8")


def load(text: str) -> Table:
    """Read a table file. Raises TableError with every problem found, each with its place."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TableError([f"not TOML: {error}"]) from None
    except RecursionError:
        raise TableError(["nested too deeply"]) from None
    try:
        file = TableFile.model_validate(content)
    except ValidationError as error:
        raise TableError([_sentence(problem, content) for problem in error.errors()]) from None
    problems: list[str] = []
    rows = tuple(_compile(row, file, problems) for row in file.rows)
    problems += _structure_problems(file)
    if problems:
        raise TableError(problems)
    return Table(file, rows, _digest(content), text)


def _digest(content: Mapping[str, Any]) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"


def _compile(row: Row, file: TableFile, problems: list[str]) -> CompiledRow:
    place = f"row {row.id}"
    condition = _parse(row.when, f"{place}: when", problems)
    reasons = tuple((_parse(r.when, f"{place}: reason {r.code}: when", problems), r.code) for r in row.reasons)
    switch = row.exit.removeprefix("switches.")
    kind = row.exit if switch == row.exit else file.switches.get(switch, row.exit)
    problems += [f"{place}: {what}" for what in _row_problems(row, kind, file)]
    return CompiledRow(row, kind, condition, reasons)


def _parse(text: str, place: str, problems: list[str]) -> Condition:
    try:
        return parse(text, BY_NAME)
    except ConditionError as error:
        problems.append(f"{place}: {error}")
        return parse("true", BY_NAME)


def _row_problems(row: Row, kind: str, file: TableFile) -> list[str]:
    found = []
    if kind not in KINDS:
        switches = [f"switches.{name}" for name in file.switches]
        found.append(f"exit: must be one of {', '.join([*KINDS, *switches])}")
    if kind == "human_queue" and row.queue is None:
        found.append("queue: missing; a human_queue row names the queue that gets it")
    if row.queue is not None and row.queue not in file.queues:
        found.append(f"queue: {row.queue} is not among the queues: {', '.join(file.queues)}")
    if row.reason_from and row.reason_from != _REASON_SOURCE_OF.get(kind):
        found.append(f"reason_from: {row.reason_from} gives no reason for {kind}")
    return found


_REASON_SOURCE_OF = {"refusal": "denial", "fallback": "failure", "partial": "omission"}


def _structure_problems(file: TableFile) -> list[str]:
    ids = [row.id for row in file.rows]
    found = [f"row {id_}: the id stands twice" for id_ in sorted({id_ for id_ in ids if ids.count(id_) > 1})]
    found += [
        f"switches.{name}: must be one of {', '.join(KINDS)}"
        for name, kind in file.switches.items()
        if kind not in KINDS
    ]
    if file.rows[-1].when.strip() != "true":
        found.append(f'row {ids[-1]}: the last row must have when = "true", so that every run gets an exit')
    found += [f'row {row.id}: when = "true" may stand in the last row alone; what follows is never reached'
              for row in file.rows[:-1] if row.when.strip() == "true"]  # fmt: skip
    return found


def _sentence(problem: Mapping[str, Any], content: Mapping[str, Any]) -> str:
    """One pydantic problem as a sentence, a row by its id."""
    place = [str(part) for part in problem["loc"]]
    if len(place) > 1 and place[0] == "rows" and place[1].isdigit():
        place[:2] = [f"row {_row_id(content, int(place[1]))}"]
    if place[-1:] == ["[key]"]:
        place.pop()
    return f"{'.'.join(place)}: {_WORDS.get(problem['type'], problem['msg']).format(**problem.get('ctx', {}))}"


_WORDS = {
    **WORDS,
    "greater_than": "must be more than {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than_equal": "must be at most {le:g}",
}
"""What pydantic's kinds of problems mean to whoever writes a table."""


def _row_id(content: Mapping[str, Any], index: int) -> str:
    row = content["rows"][index]
    return str(row.get("id", index + 1)) if isinstance(row, Mapping) else str(index + 1)
