"""Differential fuzzing: the classifier against the executable specification, disagreements shrunk.

Run it long with ``python -m tests.spec.fuzz --events 200000 --seed 1``; it exits with 1 if there is a disagreement.
"""

import argparse
import copy
import json
import sys
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from classifier.decide import Classifier
from classifier.table import default_text, load
from tests.spec.spec import Answer, Event, specify
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
    """How the answers differ, the specification's first."""
    said, done = specify(event), decide(event)
    parts = ((name, getattr(said, name), getattr(done, name)) for name in Answer.__dataclass_fields__)
    return tuple(f"{name}: {left} / {right}" for name, left, right in parts if left != right)


def shrink(event: Event, holds: Callable[[Event], bool]) -> Event:
    """A smaller event for which ``holds`` is true too: items removed and fields emptied until nothing more can go."""
    while smaller := next((smaller for smaller in _smaller(event) if holds(smaller)), None):
        event = smaller
    return event


KEPT = ("type", "version", "event_id", "run_id", "tenant", "agent_id", "occurred_at")


def _smaller(event: Event) -> Iterator[Event]:
    for path in _paths(event, ()):
        if path[0] not in KEPT:
            changed = copy.deepcopy(event)
            *parents, last = path
            holder: Any = changed
            for key in parents:
                holder = holder[key]
            if isinstance(last, int):
                del holder[last]
            else:
                holder[last] = _emptied(holder[last])
            yield changed


def _emptied(value: Any) -> Any:
    return type(value)() if isinstance(value, list | dict) and not value else None


def _paths(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Every removable place, the outer ones first. A list is emptied item by item, a map is a block or nothing."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if item is not None and (isinstance(key, int) or not isinstance(item, list)):
            if not _is_map(key):
                yield (*path, key)
        yield from _paths(item, (*path, key))


def _is_map(key: Any) -> bool:
    return key in ("checks", "extensions")


def shown(event: Event) -> str:
    """The event as JSON without what is absent."""
    return json.dumps({name: value for name, value in _present(event).items() if name not in KEPT})


def _present(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _present(item) for key, item in value.items() if item not in (None, [], {})}
    return [_present(item) for item in value] if isinstance(value, list) else value


def disagreements(events: int, seed: int, decide: Decide) -> Iterator[Event]:
    """Random events on which the two disagree, each shrunk as far as they still disagree in the same parts."""
    rng = Random(seed)
    for _ in range(events):
        event = random_event(rng)
        if differs := difference(event, decide):
            names = _names(differs)
            yield shrink(event, lambda other, names=names: _names(difference(other, decide)) == names)


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
