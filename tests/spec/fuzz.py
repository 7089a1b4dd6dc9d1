"""Differential fuzzing: the classifier against the executable specification, disagreements shrunk.

Run it long with ``python -m tests.spec.fuzz --events 200000 --seed 1``; it exits with 1 if there is a disagreement.
"""

import argparse
import copy
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import partial
from random import Random
from typing import Any

from classifier.decide import Classifier
from classifier.table import default_text, load
from tests.spec.spec import Answer, Event, fair_reasons, specify
from tests.strategies import random_event

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


def disagreements(events: int, seed: int, decide: Decide) -> Iterator[Event]:
    """Random events on which the two disagree, each shrunk as far as they still disagree in the same parts."""
    rng = Random(seed)
    for _ in range(events):
        event = random_event(rng)
        if differs := difference(event, decide):
            names = _names(differs)
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
    for event in disagreements(options.events, options.seed, decide):
        text = "\n  ".join((shown(event), *difference(event, decide)))
        seen[text] = seen.get(text, 0) + 1
        if len(seen) >= options.most:
            break
    for text, count in sorted(seen.items(), key=lambda item: -item[1]):
        sys.stdout.write(f"{count} x {text}\n")
    sys.stdout.write(f"{options.events} events, {len(seen)} disagreements (specification / classifier)\n")
    return 1 if seen else 0


if __name__ == "__main__":
    sys.exit(main())
