"""What was meant by the bytes that were sent, from which every count is made anew."""

import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from schemas.json_form import parse_json
from schemas.wire import encode_confluent, encode_single_object
from streams.kafka.seam import Message
from tests.cases import Case, load_cases
from tests.offramp.kit import companion

TENANT = "acme"


def _names_itself(case: Case) -> bool:
    """Whether the event is named once more inside of itself, so that it is another one under another name."""
    ids = (case.json["event_id"], case.json["run_id"], case.json.get("agent_id"))
    values = json.dumps([value for name, value in case.json.items() if name not in {"event_id", "run_id", "agent_id"}])
    return any(json.dumps(each) in values for each in ids)


CASES = tuple(case for case in load_cases() if case.reason is not None and not _names_itself(case))
_TIME = re.compile(r"\d{4}-\d\d-\d\dT")
TIMELESS = tuple(
    case for case in CASES if not _TIME.search(json.dumps(case.json | {"occurred_at": ""})) and case.kind != "partial"
)
"""Cases that name no time but that at which they occurred."""
Place = tuple[str, int, int]
"""Topic, partition, offset."""


class Meaning(NamedTuple):
    """A valid record: its type, its id, what tells one content from another, and for an event its labelled exit."""

    record_type: str
    record_id: str
    content: str
    exit: tuple[str, str] = ("", "")


@dataclass
class Book:
    """Bytes that are valid records. Any other bytes are none, and no bytes are a tombstone."""

    meanings: dict[bytes, Meaning] = field(default_factory=dict)

    def event(
        self, event_id: str, *, content: str = "agent", packed: bool = False, timeless: bool = False, **changes: Any
    ) -> bytes:
        """An event whose exit is known, as JSON or as Avro single-object. One id has one exit, whatever its content,
        and a ``timeless`` one keeps it whenever it occurred."""
        case = _case_of(event_id, TIMELESS if timeless else CASES)
        given = case.json | {"event_id": event_id, "run_id": f"r-{event_id}", "tenant": TENANT, "agent_id": content}
        text = json.dumps(given | changes).encode()
        body = encode_single_object(parse_json(text)) if packed else text
        return self.note(body, Meaning("terminal_event", event_id, content, (case.kind, case.reason or "")))

    def framed(self, event_id: str, schema_id: int) -> bytes:
        """The same as Avro in Confluent's frame, which a registry knows by its id."""
        text = self.event(event_id)
        return self.note(encode_confluent(parse_json(text), schema_id), self.meanings[text])

    def some(self, name: str, count: int) -> list[bytes]:
        """Events in both forms, then each twentieth again, then one that is no record."""
        values = [self.event(f"{name}-{n}", packed=n % 2 == 0) for n in range(count)]
        return [*values, *values[::20], b"poison of %s" % name.encode()]

    def enrichment(self, number: int) -> bytes:
        """A companion record."""
        record = companion("enrichment", number)
        return self.note(json.dumps(record).encode(), Meaning("enrichment", record["record_id"], ""))

    def note(self, body: bytes, meaning: Meaning) -> bytes:
        """Remember what bytes mean."""
        self.meanings[body] = meaning
        return body

    def expected(self, log: Iterable[Message]) -> "Count":
        """What must be seen of a log, in the order in which its messages stand there."""
        count, first = Count(), dict[tuple[str, str], str]()
        for message in log:
            count.add(place_of(message), self._fate(message, first), self._meaning(message))
        return count

    def _meaning(self, message: Message) -> Meaning | None:
        return None if message.value is None else self.meanings.get(message.value)

    def _fate(self, message: Message, first: dict[tuple[str, str], str]) -> str:
        meaning = self._meaning(message)
        if meaning is None:
            return "filtered" if message.value is None else "dead_lettered"
        known = first.setdefault((meaning.record_type, meaning.record_id), meaning.content)
        return "held" if known == meaning.content else "conflicting"


@dataclass
class Count:
    """What readers see, or must see. ``held`` is every copy of a record whose content is stored."""

    fates: dict[Place, str] = field(default_factory=dict)
    exits: dict[str, tuple[str, str]] = field(default_factory=dict)
    records: Counter[str] = field(default_factory=Counter)
    """Distinct records by type."""
    _known: set[tuple[str, str]] = field(default_factory=set)

    def add(self, place: Place, fate: str, meaning: Meaning | None) -> None:
        self.fates[place] = fate
        if meaning is None:
            return
        if (key := meaning[:2]) not in self._known:
            self._known.add(key)
            self.records[meaning.record_type] += 1
        if meaning.record_type == "terminal_event":
            self.exits[meaning.record_id] = meaning.exit

    @property
    def rates(self) -> Counter[tuple[str, str]]:
        """Runs by kind and reason."""
        return Counter(self.exits.values())

    def places(self, fate: str) -> set[Place]:
        return {place for place, found in self.fates.items() if found == fate}


def place_of(message: Message) -> Place:
    return message.topic, message.partition, message.offset


def place_of_row(row: Mapping[str, Any]) -> Place:
    """Place of a row of the store."""
    return row["source"], int(row["partition"]), row["offset"]


def _case_of(event_id: str, cases: Sequence[Case]) -> Case:
    return cases[zlib.crc32(event_id.encode()) % len(cases)]


def once(ids: Sequence[str], what: str) -> set[str]:
    """The ids, each of which must stand there once."""
    several = [each for each, count in Counter(ids).items() if count > 1]
    assert not several, f"{what}: {len(several)} ids stand there several times, such as {several[:3]}"
    return set(ids)
