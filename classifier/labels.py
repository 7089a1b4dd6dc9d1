"""Labelled events: terminal events with the exit that each must get, and those that it must never get."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from classifier.fact import Event
from schemas.errors import MessageError
from schemas.json_form import canonical
from schemas.problems import WORDS
from schemas.types import AS_TEXT

_Kind = Literal["completed", "refusal", "fallback", "partial", "human_queue"]
_Text = Annotated[str, Field(min_length=1)]


class LabelError(ValueError):
    """A labelled event that cannot be used. The message names the place and says what is wrong."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Expectation(_Part):
    """What must be answered. ``reason_code`` None leaves the reason open; ``obligations`` are actions that must be
    among the answer's."""

    kind: _Kind
    reason_code: str | None = None
    verified: bool
    obligations: list[Literal["reconcile", "compensate"]] = []


class LabelledEvent(_Part):
    """A labelled event as it is written.

    It is named by ``id``, or by ``case`` and ``variant``. ``expect`` and ``prohibited`` are both null until somebody
    has labelled it. ``source``, ``why``, ``comment`` and ``unknown_values``, the places of values that are none of the
    contract's on purpose, are for people.
    """

    id: _Text | None = None
    case: _Text | None = None
    variant: _Text | None = None
    source: str | None = None
    title: str = ""
    event: dict[str, Any]
    expect: Expectation | None
    prohibited: list[_Kind] | None
    why: str | None = None
    unknown_values: list[str] = []
    comment: Any = None

    @property
    def name(self) -> str:
        """What it is called; empty if it has no name."""
        return self.id or "-".join(filter(None, (self.case, self.variant)))

    def agrees_with(self, other: "LabelledEvent") -> bool:
        """Whether both ask for the same, or one of them for nothing."""
        if self.expect is None or other.expect is None:
            return True
        return self.expect == other.expect and set(self.prohibited or ()) == set(other.prohibited or ())


class Mismatch(_Part):
    """One thing that was answered otherwise: a part of the answer, ``prohibited`` for an exit that the label rules out,
    ``ruled_out`` for exits that the facts leave open though the label does not."""

    what: str
    expected: Any
    actual: Any

    @property
    def text(self) -> str:
        """The mismatch as a sentence."""
        if self.what == "prohibited":
            return f"the exit {self.actual} is prohibited by the label"
        if self.what == "ruled_out":
            return f"the label prohibits {_said(self.expected)}; the facts rule out {_said(self.actual)}"
        return f"{self.what}: expected {_said(self.expected)}, got {_said(self.actual)}"


def read(raw: Any, name: str = "") -> tuple[LabelledEvent, Event]:
    """A labelled event and its event in memory form; ``name`` for one that has none. Raises LabelError."""
    try:
        labelled = LabelledEvent.model_validate(raw)
        event = canonical(labelled.event, context=AS_TEXT)
    except ValidationError as error:
        raise LabelError(_sentence(error.errors(include_input=False)[0])) from None
    except MessageError as error:
        raise LabelError(f"event: {error}") from None
    if event["type"] != "terminal_event":
        raise LabelError(f"event: the type {event['type']} has no exit")
    if (labelled.expect is None) is not (labelled.prohibited is None):
        raise LabelError("expect and prohibited: give both, or null for both until it is labelled")
    if labelled.expect and labelled.expect.kind in (labelled.prohibited or ()):
        raise LabelError(f"prohibited: rules out {labelled.expect.kind}, which is the kind that is expected")
    if not labelled.name and not name:
        raise LabelError("id: missing; so that a failing case can be named")
    return labelled.model_copy(update={"id": labelled.name or name}), event


def _sentence(problem: ErrorDetails) -> str:
    place = ".".join(map(str, problem["loc"])) or "a labelled event"
    return f"{place}: {_WORDS.get(problem['type'], problem['msg']).format(**problem.get('ctx', {}))}"


_WORDS = {
    **WORDS,
    "model_type": "must be a JSON object",
    "dict_type": "must be a JSON object",
    "string_type": "must be text",
}
"""What pydantic's kinds of problems mean to whoever labels events."""


def mismatches(labelled: LabelledEvent, classification: Mapping[str, Any]) -> Iterator[Mismatch]:
    """In what a classification differs from the label; nothing for an event that nobody has labelled."""
    expect, actual = labelled.expect, classification
    if expect is None:
        return
    for what in ("kind", "reason_code", "verified"):
        wanted = getattr(expect, what)
        if wanted is not None and wanted != actual[what]:
            yield Mismatch(what=what, expected=wanted, actual=actual[what])
    owed = sorted({owed["action"] for owed in actual["obligations"]})
    if not set(expect.obligations) <= set(owed):
        yield Mismatch(what="obligations", expected=expect.obligations, actual=owed)
    yield from _of_prohibited(labelled.prohibited or [], actual)


def _of_prohibited(never: list[_Kind], actual: Mapping[str, Any]) -> Iterator[Mismatch]:
    kind, ruled_out = actual["kind"], actual["prohibited"]
    if kind in never:
        yield Mismatch(what="prohibited", expected=never, actual=kind)
    if not set(never) <= {kind, *ruled_out}:
        yield Mismatch(what="ruled_out", expected=never, actual=ruled_out)


def _said(value: Any) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)
