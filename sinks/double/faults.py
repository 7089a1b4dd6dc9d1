"""What goes wrong on purpose: a list of faults, each for some of the requests, changed while the double runs."""

import re
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class FaultKind(StrEnum):
    """What happens to a request."""

    REFUSE = "refuse"
    """The engine's error ``code``, nothing is applied: 252 too many parts, 241 memory, 159 timeout, 202 too many
    queries."""
    STATUS = "status"
    """The HTTP status ``code`` without a body, as a balancer answers; nothing is applied."""
    DELAY = "delay"
    """It is answered ``seconds`` later than it would be."""
    CUT_BEFORE = "cut_before"
    """The connection is reset before the body is read; nothing is applied."""
    CUT_AFTER = "cut_after"
    """It is applied, and the connection is reset before the answer."""
    CUT_WITHIN = "cut_within"
    """It is applied, and the connection is reset in the middle of the answer."""


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong: what, for which statements (a regular expression, found anywhere in the statement, in
    any case), after how many of them, and how often (None: until it is cleared)."""

    kind: FaultKind
    code: int = 0
    seconds: float = 0.0
    on: str = "^INSERT"
    after: int = 0
    times: int | None = 1

    def as_json(self) -> dict[str, Any]:
        """The fault as plain JSON."""
        return asdict(self)


def fault_from(given: Mapping[str, Any]) -> Fault:
    """The fault that :meth:`Fault.as_json` gave. Raises ValueError or TypeError for anything else."""
    return Fault(**{**given, "kind": FaultKind(given["kind"])})


class FaultPlan:
    """The faults that are due, in the order in which they were planned. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._planned: list[_Planned] = []

    def add(self, fault: Fault) -> None:
        """Plan one more."""
        with self._lock:
            self._planned.append(_Planned(fault))

    def clear(self) -> None:
        """Plan nothing."""
        with self._lock:
            self._planned.clear()

    def due_unread(self, statement: str) -> bool:
        """Whether the connection is cut before the body of this statement is read."""
        return any(fault.kind is FaultKind.CUT_BEFORE for fault in self._met(statement, unread=True))

    def due(self, statement: str) -> list[Fault]:
        """What happens to this statement once it was read: delays, and at most one other fault, the last in the
        list."""
        met = self._met(statement, unread=False)
        return sorted(met, key=lambda fault: fault.kind is not FaultKind.DELAY)

    def _met(self, statement: str, *, unread: bool) -> list[Fault]:
        """Faults that this statement meets, counted as met; one that ends the request leaves later ones for others."""
        found: list[Fault] = []
        with self._lock:
            for planned in self._planned:
                if (planned.fault.kind is FaultKind.CUT_BEFORE) is not unread:
                    continue
                delays = planned.fault.kind is FaultKind.DELAY
                if (delays or not _ended(found)) and planned.meets(statement):
                    found.append(planned.fault)
        return found


def _ended(faults: list[Fault]) -> bool:
    return any(fault.kind is not FaultKind.DELAY for fault in faults)


@dataclass
class _Planned:
    fault: Fault
    seen: int = 0

    def meets(self, statement: str) -> bool:
        if re.search(self.fault.on, statement, re.IGNORECASE) is None:
            return False
        self.seen += 1
        past = self.seen - self.fault.after
        return past > 0 and (self.fault.times is None or past <= self.fault.times)
