"""Differential fuzzing: the classifier against the executable specification, guided by the facts that are reached,
disagreements shrunk.

Run it long with ``python -m tests.spec.fuzz --events 200000 --seed 1``; it exits with 1 if there is a disagreement.
"""

import argparse
import copy
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import partial
from itertools import chain
from random import Random
from typing import Any

from classifier.decide import Classifier
from classifier.table import default_text, load
from classifier.view import View
from schemas.events import Model, PolicyDecision
from schemas.types import Record
from tests.spec.spec import Answer, Event, fair_reasons, specify
from tests.strategies import OCCURRED_AT, random_event

Decide = Callable[[Event], Answer]
Difference = tuple[str, ...]
"""One text for each part of the answer that differs; empty when both agree."""


def classifier() -> Decide:
    """The real classifier under its default table, its answer in the terms of the specification."""
    classify = Classifier(load(default_text())).classify

    def decide(event: Event) -> Answer:
        found = classify(event).classification
        owed = sorted(((item["action"], item["operation_id"]) for item in found["obligations"]), key=_with_none_first)
        parts = (found["kind"], found["rule_id"], found["reason_code"])
        return Answer(*parts, tuple(found["prohibited"]), tuple(owed))

    return decide


def _with_none_first(obligation: tuple[str, str | None]) -> tuple[str, str]:
    return obligation[0], obligation[1] or ""


def difference(event: Event, decide: Decide) -> Difference:
    """How the answers differ, the specification's first. Where several reasons are fair, each of them agrees."""
    said, done = specify(event), decide(event)
    if done.reason_code in fair_reasons(event):
        said = replace(said, reason_code=done.reason_code)
    parts = ((name, getattr(said, name), getattr(done, name)) for name in (field.name for field in fields(Answer)))
    return tuple(f"{name}: {left} / {right}" for name, left, right in parts if left != right)


def shrink(event: Event, holds: Callable[[Event], bool]) -> Event:
    """A smaller event for which ``holds`` is true too: items removed and fields emptied until nothing more can go."""
    while smaller := next((smaller for smaller in _smaller(event) if holds(smaller)), None):
        event = smaller
    return event


KEPT = ("type", "version", "event_id", "run_id", "tenant", "agent_id", "occurred_at")


def _smaller(event: Event) -> Iterator[Event]:
    """Every event with one item or one field less, the larger parts first."""
    for *parents, last in _paths(event):
        changed = copy.deepcopy(event)
        holder: Any = changed
        for key in parents:
            holder = holder[key]
        if isinstance(last, int) or parents[-1:] in (["checks"], ["extensions"]):
            del holder[last]
        else:
            holder[last] = None
        yield changed


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place that may be empty: an item of a list or map, a field or block that is not a list or map itself."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if not path and key in KEPT:
            continue
        if item is not None and not isinstance(item, list) and key not in ("checks", "extensions"):
            yield (*path, key)
        yield from _paths(item, (*path, key))


def shown(event: Event) -> str:
    """The event as JSON without its identity and what is absent."""
    return json.dumps({name: value for name, value in _present(event).items() if name not in KEPT})


def _present(value: Any) -> Any:
    if isinstance(value, dict):
        present = {key: _present(item) for key, item in value.items()}
        return {key: item for key, item in present.items() if item not in (None, [], {})}
    return [_present(item) for item in value] if isinstance(value, list) else value


_MOMENTS = (None, *(OCCURRED_AT - seconds * 1_000_000 for seconds in (20, 10, 0)))
_OPERATIONS = (None, "op-1", "op-1", "op-2")


def policy_event(rng: Random) -> Event:
    """A random event that is about little else than decisions on the same few operations, and the stop."""
    quiet: Event = {"takeover": None, "contradictions": [], "children": [], "decision": None, "budget": None}
    event = random_event(rng) | quiet
    stop = rng.choice((None, "end", "refused", "filtered", "tool_call"))
    decisions = [_decision(rng, event["agent_id"]) for _ in range(rng.choice((1, 2, 3)))]
    return event | {"model": stop and _blank(Model) | {"stop_class": stop}, "policy_decisions": decisions}


def _decision(rng: Random, agent: str) -> dict[str, Any]:
    approval = {
        "state": rng.choice((None, "none", "requested", "granted", "granted", "denied")),
        "approver": rng.choice((None, "person-1", agent)),
        "operation_id": rng.choice((None, None, *_OPERATIONS)),
        "resolved_at": rng.choice(_MOMENTS),
        "expires_at": rng.choice((None, None, *_MOMENTS)),
    }
    return _blank(PolicyDecision) | {
        "decision_id": rng.choice((None, "d-1", "d-2")),
        "policy_id": rng.choice((None, "policy-1", "policy-1", "policy-2")),
        "source": rng.choice(("application", "application", "approver", "approver", "guardrail", "unknown", None)),
        "operation_id": rng.choice(_OPERATIONS),
        "effect": rng.choice(("allow", "allow", "allow", "deny", "deny", "require_approval", "unavailable", None)),
        "decided_at": rng.choice(_MOMENTS),
        "alternatives": [],
        "approval": rng.choice((None, None, approval)),
    }


def _blank(model: type[Record]) -> dict[str, Any]:
    return dict.fromkeys(model.model_fields)


Generate = Callable[[Random], Event]


class Guided:
    """Random events, most of them crossed from two that had facts which no event before them had.

    Each field is that of one or the other, and every fifth event is a new one. ``facts_of`` gives the facts as bits,
    and with them the row; ``reached`` are all that were seen.
    """

    NEW, MOST_SEEDS = 0.2, 3_000

    def __init__(self, generate: Generate, facts_of: Callable[[Event], int]) -> None:
        self._generate, self._facts_of = generate, facts_of
        self._seeds: list[Event] = []
        self.reached = set[int]()

    def __call__(self, rng: Random) -> Event:
        """The next event."""
        fresh = not self._seeds or rng.random() < self.NEW
        event = self._generate(rng) if fresh else self._crossed(rng)
        bits = self._facts_of(event)
        if bits not in self.reached:
            self.reached.add(bits)
            self._keep(event, rng)
        return event

    def _crossed(self, rng: Random) -> Event:
        one, other = rng.choice(self._seeds), rng.choice(self._seeds)
        return {name: (one if name in KEPT or rng.random() < 0.5 else other)[name] for name in one}

    def _keep(self, event: Event, rng: Random) -> None:
        """Keep it as a seed, instead of another one where there are enough."""
        if len(self._seeds) < self.MOST_SEEDS:
            self._seeds.append(event)
        else:
            self._seeds[rng.randrange(self.MOST_SEEDS)] = event


def facts_of(event: Event) -> int:
    """The facts of an event under the default thresholds, as bits."""
    return View(event, _THRESHOLDS).bits


_THRESHOLDS = load(default_text()).thresholds


def disagreements(events: int, seed: int, decide: Decide, generate: Generate = random_event) -> Iterator[Event]:
    """Random events on which the two disagree, each shrunk as far as they still disagree in the same parts."""
    rng = Random(seed)
    for _ in range(events):
        event = generate(rng)
        if names := _names(difference(event, decide)):
            yield shrink(event, partial(_differ_in, names, decide))


def _differ_in(names: tuple[str, ...], decide: Decide, event: Event) -> bool:
    return _names(difference(event, decide)) == names


def _names(found: Difference) -> tuple[str, ...]:
    return tuple(part.partition(":")[0] for part in found)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=int, default=50, help="disagreements after which to stop")
    options = parser.parse_args()
    decide = classifier()
    seen: dict[str, int] = {}
    guided = [Guided(generate, facts_of) for generate in (random_event, policy_event)]
    found = (disagreements(options.events, options.seed, decide, generate) for generate in guided)
    for event in chain.from_iterable(found):
        text = "\n  ".join((shown(event), *difference(event, decide)))
        seen[text] = seen.get(text, 0) + 1
        if len(seen) >= options.most:
            break
    for text, count in sorted(seen.items(), key=lambda item: -item[1]):
        sys.stdout.write(f"{count} x {text}\n")
    reached = len(guided[0].reached | guided[1].reached)
    sys.stdout.write(f"2 x {options.events} events with {reached} sets of facts, ")
    sys.stdout.write(f"{len(seen)} disagreements (specification / classifier)\n")
    return 1 if seen else 0


if __name__ == "__main__":
    sys.exit(main())
