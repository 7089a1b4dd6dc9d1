"""The project's labelled terminal events: what each must be answered with, and which exits it must never get."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemas.events import TerminalEvent

_HERE = Path(__file__).parent

INJECTIONS: tuple[str, ...] = (
    "policy_denial",
    "dependency_timeout",
    "malformed_tool_output",
    "exhausted_tool_loop",
    "optional_data_loss",
    "mutation_timeout_before_acknowledgement",
    "contradictory_evidence",
)
"""Names of the failure injections; each is a case ``NAME-base`` and one ``NAME-flip``."""


@dataclass(frozen=True)
class Case:
    """One labelled event.

    ``json`` is the event as a producer sends it. ``reason`` None leaves the reason open. ``obligations`` are actions
    that must be among the answer's, ``prohibited`` kinds that must be among its prohibited ones. ``source`` is the
    public report that the symptom comes from, or ``own``.
    """

    id: str
    source: str
    title: str
    json: dict[str, Any]
    kind: str
    reason: str | None
    verified: bool
    obligations: frozenset[str]
    prohibited: frozenset[str]

    @property
    def event(self) -> dict[str, Any]:
        """The event in memory form, a new one each time."""
        return TerminalEvent.model_validate_json(json.dumps(self.json)).model_dump()


def load_cases() -> tuple[Case, ...]:
    """All cases: the labelled ones, those that cover the default table, then the failure injections."""
    return (*_labelled(), *_injections())


def _labelled() -> Iterator[Case]:
    for name in ("labelled.jsonl", "coverage.jsonl"):
        for line in (_HERE / name).read_text(encoding="utf-8").splitlines():
            content = json.loads(line)
            yield _case(content["id"], content["source"], content)


def _injections() -> Iterator[Case]:
    for name in INJECTIONS:
        variants = json.loads((_HERE / "injections" / f"{name}.json").read_text(encoding="utf-8"))
        for variant, content in variants.items():
            yield _case(f"{name}-{variant}", "own", content)


def _case(case_id: str, source: str, content: dict[str, Any]) -> Case:
    expect = content["expect"]
    return Case(
        id=case_id,
        source=source,
        title=content["title"],
        json=content["event"],
        kind=expect["kind"],
        reason=expect["reason_code"],
        verified=expect["verified"],
        obligations=frozenset(expect["obligations"]),
        prohibited=frozenset(content["prohibited"]),
    )
