"""Everything that is derived from one event, computed once: the facts as a bit set, and what is behind them."""

from classifier import run
from classifier.effects import AMBIGUOUS_EFFECT, Effects, Operation
from classifier.fact import Event
from classifier.handover import Fallbacks, component_facts
from classifier.paths import Paths
from classifier.policy import Policy

_ACTIONS = ("reconcile", "compensate")


class View:
    """One event and what follows from it. ``bits`` are its facts."""

    __slots__ = ("bits", "effects", "event", "fallbacks", "paths", "policy")

    def __init__(self, event: Event, thresholds: run.Thresholds) -> None:
        self.event = event
        self.effects = effects = Effects(event)
        self.policy = policy = Policy(event, effects)
        self.paths = paths = Paths(event)
        self.fallbacks = fallbacks = Fallbacks(event, effects, paths)
        bits = effects.bits | policy.bits | paths.bits | fallbacks.bits | run.run_facts(event, thresholds)
        for operation in effects.operations:
            if operation.contradicts_itself:
                bits |= run.CONTRADICTION.bit
        if event["components"] or event["decision"]:
            settled = not bits & AMBIGUOUS_EFFECT.bit
            bits |= component_facts(event, settled=settled, usable=not run.left_nothing(event, bits))
        self.bits: int = bits

    def findings(self) -> list[str]:
        """Codes of what is odd but decides nothing, sorted, each once."""
        found: list[str] = []
        if self.effects.operations:
            found += self.effects.collect_findings()
        if self.policy.denials:
            found += self.policy.collect_findings()
        if self.event["fallbacks"]:
            found += self.fallbacks.collect_findings()
        if self.event["budget"]:
            found += run.collect_findings(self.event)
        return sorted(set(found)) if found else found

    def obligations(self) -> list[dict[str, str | None]]:
        """What must still happen, whatever the exit: by operation, to reconcile before to compensate. They follow
        effects; nothing compensated is owed again."""
        owed: list[tuple[str, bool]] = []
        for operation in self.effects.operations:
            if operation.ambiguous:
                owed.append((operation.id or "", False))
            if not operation.is_compensated and self._must_be_compensated(operation):
                owed.append((operation.id or "", True))
        return [{"action": _ACTIONS[taken], "operation_id": id_ or None} for id_, taken in sorted(owed)]

    def _must_be_compensated(self, operation: Operation) -> bool:
        newest = self.effects.newest_token
        crossed = newest is not None and operation.crosses(newest)
        unapproved = operation in self.policy.unapproved
        return operation.is_duplicate or crossed or unapproved or self.policy.owes_compensation(operation)
