"""Required paths: what the run needed and did not get, and what may have triggered a fallback."""

from typing import NamedTuple

from classifier.effects import is_auth_status
from classifier.fact import Event, Fact

AUTHORITY_MISSING = Fact(
    11, "authority_missing", "a required path was refused for lack of authority; none of it was ok"
)
REQUIRED_PATH_FAILED = Fact(27, "required_path_failed", "the last attempt of a required call is not ok")
DEPENDENCY_FAILED = Fact(28, "dependency_failed", "a required dependency failed, or the model call did")
MALFORMED_OBSERVATION = Fact(33, "malformed_observation", "the last answer on a required path cannot be read")
BUDGET_EXHAUSTED = Fact(31, "budget_exhausted", "a budget ended the run")
MODEL_DECLINED = Fact(12, "model_declined", "the model itself refused")
TRUNCATED = Fact(35, "truncated", "the output was cut")
FACTS: tuple[Fact, ...] = (
    AUTHORITY_MISSING, REQUIRED_PATH_FAILED, DEPENDENCY_FAILED, MALFORMED_OBSERVATION, BUDGET_EXHAUSTED,
    MODEL_DECLINED, TRUNCATED,
)  # fmt: skip

TRIGGERS = ("timeout", "unavailable", "error", "malformed", "truncated", "model_declined", "budget_exhausted")
"""Triggers in the order in which several failures name the reason."""

TRIGGER_BY_OUTCOME = {
    "timeout": "timeout",
    "unavailable": "unavailable",
    "circuit_open": "unavailable",
    "error": "error",
    "malformed": "malformed",
}
_DEPENDENCY = frozenset({"timeout", "unavailable", "error"})
_AUTH_NAMES = frozenset({
    "authentication", "permission", "unauthorized", "forbidden", "accessdenied", "invalidapikey", "unauthenticated",
    "permissiondenied",
})  # fmt: skip


class Failure(NamedTuple):
    """Something that went wrong: what it triggers (None: nothing), and on which operation (None: on none)."""

    trigger: str | None
    operation_id: str | None


_STOPS = frozenset({"error", "truncated", "refused"})
# Most runs have none of either; nobody adds to what is shared.
_NO_FAILURES: list[Failure] = []
_NO_CALLS: list[Event] = []


class Paths:
    """What failed: on required paths at their last attempt, and anywhere at any attempt."""

    __slots__ = ("any_attempt", "bits", "optional_failures", "required", "run_failures")

    def __init__(self, event: Event) -> None:
        self.bits = 0
        self.required = self.any_attempt = _NO_FAILURES
        self.optional_failures = _NO_CALLS
        calls: list[Event] = event["tool_calls"]
        for call in calls:
            if call["outcome"] != "ok":
                self._judge_calls(calls)
                break
        model: Event | None = event["model"]
        budget: Event | None = event["budget"]
        stop = model["stop_class"] if model else None
        exhausted = budget["exhausted"] if budget else None
        self.run_failures = self._failures_of_the_run(stop, exhausted) if exhausted or stop in _STOPS else _NO_FAILURES

    def _judge_calls(self, calls: list[Event]) -> None:
        self.any_attempt = [_failure(call) for call in calls if call["outcome"] != "ok"]
        self.required, self.optional_failures = [], []
        for path in group(calls):
            failed = [call for call in last_attempts(path) if call["outcome"] != "ok"]
            if all(call["required"] is False for call in path):
                self.optional_failures += failed
            else:
                self._judge_required(path, failed)

    def _judge_required(self, path: list[Event], failed: list[Event]) -> None:
        if not any(call["outcome"] == "ok" for call in path) and any(_lacks_authority(call) for call in path):
            self.bits |= AUTHORITY_MISSING.bit
        for call in failed:
            failure = _failure(call)
            self.required.append(failure)
            self.bits |= REQUIRED_PATH_FAILED.bit
            if failure.trigger == "malformed":
                self.bits |= MALFORMED_OBSERVATION.bit
            elif failure.trigger in _DEPENDENCY:
                self.bits |= DEPENDENCY_FAILED.bit

    def _failures_of_the_run(self, stop: str | None, exhausted: list[str] | None) -> list[Failure]:
        """Failures that belong to no call: of the model call, of its output, its refusal, a spent budget."""
        found = []
        if stop == "error":
            found.append(Failure("error", None))
            self.bits |= REQUIRED_PATH_FAILED.bit | DEPENDENCY_FAILED.bit
        elif stop == "truncated":
            found.append(Failure("truncated", None))
            self.bits |= TRUNCATED.bit
        elif stop == "refused":
            found.append(Failure("model_declined", None))
            self.bits |= MODEL_DECLINED.bit
        if exhausted:
            # A budget that we do not know is spent all the same, but nothing may be served in answer to it.
            known = any(name != "unknown" for name in exhausted)
            found.append(Failure("budget_exhausted" if known else None, None))
            self.bits |= BUDGET_EXHAUSTED.bit
        return found


def group(calls: list[Event]) -> list[list[Event]]:
    """Calls by path: the attempts of one operation, its reads apart from its writes, since a lookup that answered says
    nothing about the write. A call without an operation is a path of its own."""
    paths: dict[object, list[Event]] = {}
    for index, call in enumerate(calls):
        operation_id = call["operation_id"]
        key: object = index if operation_id is None else (operation_id, call["access"] == "read")
        paths.setdefault(key, []).append(call)
    return list(paths.values())


def last_attempts(path: list[Event]) -> list[Event]:
    """Attempts than which none is later: by number, unnumbered ones by start. What cannot be told apart all counts."""
    if len(path) == 1:
        return path
    field = "started_at" if any(call["attempt"] is None for call in path) else "attempt"
    if any(call[field] is None for call in path):
        return path
    last = max(call[field] for call in path)
    return [call for call in path if call[field] == last]


def _failure(call: Event) -> Failure:
    return Failure(TRIGGER_BY_OUTCOME.get(call["outcome"]), call["operation_id"])


def _lacks_authority(call: Event) -> bool:
    """Whether a call that was not ok failed for want of it."""
    name = (call["error_class"] or "").replace("_", "").replace("-", "").replace(" ", "").lower()
    name = name.removesuffix("exception").removesuffix("error")
    return is_auth_status(call) or name in _AUTH_NAMES
