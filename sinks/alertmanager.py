"""Tells Alertmanager which alerts stand, by its API, version 2.

Alertmanager remembers nothing of an alert for longer than its ``endsAt``. So what stands is posted again and again,
with an end that is further away than several postings, and what was resolved is posted for some time with the end that
it had, so that an Alertmanager which was started anew, or could not be reached, comes to know it.

Labels make the identity: they are a closed set, and nothing that moves is one of them. Values stand in annotations.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from schemas.types import to_iso
from sinks.posting import DeliveryRefused, Poster

_PATH = "/api/v2/alerts"
_AT_ONCE = 500


class Posted(NamedTuple):
    """An alert as Alertmanager knows it. Instants are microseconds; ``ends_at`` is in the past for one resolved."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    starts_at: int
    ends_at: int


@dataclass(frozen=True)
class Alertmanager:
    """One Alertmanager. Of a cluster, each is told; they agree among themselves who notifies."""

    poster: Poster

    def send(self, alerts: Sequence[Posted]) -> None:
        """Post alerts, some at a time, all of them even if some are refused.

        Raises DeliveryUnavailable at the first that could not be posted; DeliveryRefused at the end, with the first
        refusal. Alertmanager takes what is valid of a posting that it refuses.
        """
        refused: DeliveryRefused | None = None
        for some in _parts(alerts):
            try:
                self.poster.post([_json(alert) for alert in some], _PATH)
            except DeliveryRefused as error:
                refused = refused or error
        if refused is not None:
            raise refused


def _parts(alerts: Iterable[Posted]) -> Iterator[list[Posted]]:
    rest = iter(alerts)
    while some := list(islice(rest, _AT_ONCE)):
        yield some


def _json(alert: Posted) -> dict[str, Any]:
    """Alertmanager takes a label without a value for none; so it is left out."""
    return {
        "labels": {name: value for name, value in alert.labels.items() if value},
        "annotations": {name: value for name, value in alert.annotations.items() if value},
        "startsAt": to_iso(alert.starts_at),
        "endsAt": to_iso(alert.ends_at),
    }
