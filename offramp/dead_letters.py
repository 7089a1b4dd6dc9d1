"""What ``dlq list``, ``dlq show`` and ``dlq redrive`` do: dead letters as the store has them, and on their way back."""
# ruff: noqa: S608 -- every statement is put together from the constants below

import base64
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from offramp import console, streaming
from offramp.errors import CheckFailedError, ConfigurationError
from offramp.page import Page
from offramp.period import Period
from offramp.session import Session
from schemas.types import to_iso
from sinks.rows import DeadLetterRow, encode_redrives
from sinks.store import Store
from streams.kafka.seam import Client, Producer
from streams.publish import foreign_groups
from streams.redrive import Candidate, Place, Policy, Redriver, Refusal, Result, State

PAGE_LETTERS = 5_000
"""Letters that are asked for at once."""
KEPT_EXAMPLES = 5
SHOWN_BYTES = 1_024
"""How much of a message is shown, unless all is asked for."""

_CONDITION = """
    recorded_at >= fromUnixTimestamp64Micro({since:Int64}) AND recorded_at < fromUnixTimestamp64Micro({until:Int64})
    AND (empty({reasons:Array(String)}) OR has({reasons:Array(String)}, reason_code))
    AND (empty({states:Array(String)}) OR has({states:Array(String)}, state))
    AND ({topic:String} = '' OR source = {topic:String})
    AND ({partition:String} = '' OR startsWith(partition, {partition:String}) AND
        (source = 'file' OR partition = {partition:String}))
"""
_HISTOGRAM = f"""
    SELECT reason_code, state, count() AS letters, max(recorded_at) AS newest
    FROM v_dead_letter_states WHERE {_CONDITION}
    GROUP BY reason_code, state ORDER BY letters DESC, reason_code, state
"""
_NEWEST = f"""
    SELECT * FROM v_dead_letter_states WHERE {_CONDITION}
    ORDER BY recorded_at DESC, source, partition, offset DESC LIMIT {{limit:UInt64}}
"""
_IN_ORDER = f"""
    SELECT source, partition, offset, state, replay_count, bytes FROM v_dead_letter_states WHERE {_CONDITION}
    AND (source, partition, offset) > ({{after_source:String}}, {{after_partition:String}}, {{after_offset:Int64}})
    ORDER BY source, partition, offset LIMIT {{limit:UInt64}}
"""
_AT = "source = {source:String} AND partition = {partition:String}"
_STATE = """
    SELECT * FROM v_dead_letter_states
    WHERE source = {source:String} AND startsWith(partition, {partition:String}) AND offset = {offset:Int64}
        AND (source = 'file' OR partition = {partition:String})
"""
_LETTERS = f"""
    SELECT source, partition, offset, timestamp, base64Encode(raw) AS raw,
        arrayMap(name -> base64Encode(name), mapKeys(headers)) AS names,
        arrayMap(value -> base64Encode(value), mapValues(headers)) AS contents,
        reason_code, field_path, message, masked, tries, replay_count, recorded_at, base64Encode(key) AS key
    FROM dead_letters FINAL WHERE {_AT} AND offset IN {{offsets:Array(Int64)}}
"""
_REDRIVES = f"""
    SELECT topic, topic_partition, topic_offset, replay_count, recorded_at
    FROM redrives FINAL WHERE {_AT} AND offset = {{offset:Int64}} ORDER BY recorded_at
"""


@dataclass(frozen=True)
class Filter:
    """Which dead letters are meant; what is empty bounds nothing. ``when`` is when they became dead letters.

    The partition of a file may be the first digits of its hash.
    """

    when: Period
    reasons: Sequence[str] = ()
    states: Sequence[State] = ()
    topic: str = ""
    partition: str = ""

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of the condition."""
        return {
            "since": self.when.since,
            "until": self.when.until,
            "reasons": list(self.reasons),
            "states": [state.value for state in self.states],
            "topic": self.topic,
            "partition": self.partition,
        }


# --- list


@dataclass(frozen=True)
class Listing:
    """How many letters there are by reason and state, and the newest of them."""

    histogram: list[dict[str, Any]]
    letters: list[dict[str, Any]]

    @property
    def total(self) -> int:
        """How many letters the filter lets through."""
        return sum(row["letters"] for row in self.histogram)

    def as_json(self) -> dict[str, Any]:
        """Everything, in plain JSON values."""
        return {
            "letters": self.total,
            "histogram": [_plain(row) for row in self.histogram],
            "newest": self.letters_as_json(),
        }

    def letters_as_json(self) -> list[dict[str, Any]]:
        """The letters alone."""
        return [_plain(letter) for letter in self.letters]

    def show(self) -> None:
        """Print the histogram, then the letters."""
        columns = [("reason", "code"), ("state", "left"), ("letters", "right"), ("newest", "left")]
        rows = [(row["reason_code"], row["state"], row["letters"], _time(row["newest"])) for row in self.histogram]
        console.table(console.counted(self.total, "dead letter"), columns, rows)
        if self.letters:
            self._show_letters()

    def _show_letters(self) -> None:
        columns = [("source", "left"), ("partition", "left"), ("offset", "right"), ("reason", "left"),
                   ("where", "left"), ("state", "left"), ("replays", "right"), ("bytes", "right")]  # fmt: skip
        rows = [
            (each["source"], _short(each["source"], each["partition"]), str(each["offset"]), each["reason_code"],
             each["field_path"], each["state"], each["replay_count"] + each["redrives"], each["bytes"])
            for each in self.letters
        ]  # fmt: skip
        console.table(f"the newest {len(rows):,}" if len(rows) < self.total else "all of them", columns, rows)
        console.say("`offramp dlq show SOURCE PARTITION OFFSET` shows one; `offramp dlq redrive` sends those back "
                    "that are dead")  # fmt: skip


def listing(store: Store, wanted: Filter, limit: int) -> Listing:
    """The dead letters that a filter lets through."""
    histogram = store.select(_HISTOGRAM, wanted.parameters)
    return Listing(histogram, store.select(_NEWEST, wanted.parameters | {"limit": limit}) if limit else [])


# --- show


@dataclass(frozen=True)
class Shown:
    """One dead letter with its bytes, its state, and where it was redriven to."""

    letter: DeadLetterRow
    state: dict[str, Any]
    redrives: list[dict[str, Any]]

    def as_json(self) -> dict[str, Any]:
        """Everything, in plain JSON values; bytes in base64, and as text where they are some."""
        letter = self.letter
        return {
            **_plain(self.state),
            "key": _bytes_as_json(letter.key),
            "headers": {name: _bytes_as_json(value) for name, value in letter.headers.items()},
            "raw": _bytes_as_json(letter.raw),
            "redriven": [_plain(row) for row in self.redrives],
        }

    def show(self, *, whole: bool) -> None:
        """Print what is wrong and where, then the message."""
        page, letter, state = Page(), self.letter, self.state
        page.line(f"{letter.source} {letter.partition} offset {letter.offset}: {letter.reason_code}", 0)
        page.line(f"{letter.field_path}: {letter.message}" if letter.field_path else letter.message)
        if (found := _value_at(letter)) is not None:
            page.line(f"there stands: {found}")
        page.heading("state")
        page.line(f"{state['state']}{_record(state)}; read {_time(letter.recorded_at)}")
        page.line(f"tried: {letter.tries:,}; redriven before: {letter.replay_count:,}")
        for row in self.redrives:
            place = f"{row['topic']} {row['topic_partition']} offset {row['topic_offset']}"
            page.line(f"redriven {_time(row['recorded_at'])} to {place}")
        self._show_wrapping(page)
        self._show_bytes(page, whole=whole)

    def _show_wrapping(self, page: Page) -> None:
        letter = self.letter
        if letter.timestamp is not None or letter.key is not None or letter.headers:
            page.heading("message")
        if letter.timestamp is not None:
            page.line(f"timestamp: {_time(letter.timestamp)}")
        if letter.key is not None:
            page.line(f"key: {_as_text(letter.key)}")
        for name, value in letter.headers.items():
            page.line(f"header {name}: {_as_text(value)}")

    def _show_bytes(self, page: Page, *, whole: bool) -> None:
        letter = self.letter
        page.heading(f"{console.counted(len(letter.raw), 'byte')}{', secrets masked' if letter.masked else ''}")
        start = 0 if whole else max(0, (_position_of(letter) or 0) - SHOWN_BYTES // 2)
        shown = letter.raw if whole else letter.raw[start : start + SHOWN_BYTES]
        if start:
            page.line(f"from byte {start:,} on:")
        left = len(letter.raw) - start - len(shown)
        for line in _view(shown, start, page.width, more=left > 0):
            page.exactly(line)
        if left:
            page.line(f"and {left:,} more bytes; --all shows everything")


def shown(store: Store, source: str, partition: str, offset: int) -> Shown:
    """The letter of that place. Raises CheckFailedError if there is none, ConfigurationError if several files are
    meant."""
    states = store.select(_STATE, {"source": source, "partition": partition, "offset": offset})
    if len(states) > 1:
        raise ConfigurationError(f"{len(states)} files begin with {partition}; give more of the partition")
    if not states:
        raise CheckFailedError(
            f"there is no dead letter at {source} {partition} offset {offset}; see `offramp dlq list`"
        )
    place = (source, states[0]["partition"], offset)
    at = {"source": source, "partition": place[1], "offset": offset}
    return Shown(loaded(store, [place])[place], states[0], store.select(_REDRIVES, at))


def loaded(store: Store, places: Sequence[Place]) -> dict[Place, DeadLetterRow]:
    """The stored letters of those places, with their bytes."""
    offsets: dict[tuple[str, str], list[int]] = {}
    for source, partition, offset in places:
        offsets.setdefault((source, partition), []).append(offset)
    rows = (
        row
        for (source, partition), wanted in offsets.items()
        for row in store.select(_LETTERS, {"source": source, "partition": partition, "offsets": wanted})
    )
    return {(row["source"], row["partition"], row["offset"]): _letter(row) for row in rows}


def _letter(row: dict[str, Any]) -> DeadLetterRow:
    names, contents = ([base64.b64decode(text) for text in row.pop(name)] for name in ("names", "contents"))
    headers = {name.decode(errors="replace"): content for name, content in zip(names, contents, strict=True)}
    key = None if row["key"] is None else base64.b64decode(row["key"])
    return DeadLetterRow(**row | {"raw": base64.b64decode(row["raw"]), "headers": headers, "key": key})


# --- redrive


class Order(NamedTuple):
    """What is asked for."""

    wanted: Filter
    policy: Policy
    dry_run: bool


@dataclass
class Redriving:
    """Sends dead letters back and counts what became of them."""

    session: Session
    order: Order
    sent: int = 0
    left: Counter[Refusal] = field(default_factory=Counter)
    examples: dict[Refusal, list[Candidate]] = field(default_factory=dict)

    def run(self) -> None:
        """Do it. Raises ConfigurationError while nothing was sent yet, CouldNotCheckError for an outage."""
        settings = self.session.settings
        topic = streaming.topics(settings).redrive.name
        with streaming.reachable(), ExitStack() as stack:
            client = streaming.client(settings.kafka)
            self._check(client, topic)
            store = stack.enter_context(self.session.existing_store("dlq redrive"))
            producer = None if self.order.dry_run else stack.enter_context(closing(client.producer()))
            redriver = self._redriver(store, client, producer, topic)
            total = self._total(store)
            with console.progress("redrive", total) as show:
                for number, result in enumerate(redriver.run(_candidates(store, self.order.wanted)), start=1):
                    self._take(result)
                    show(number, number)

    def _check(self, client: Client, topic: str) -> None:
        """Refuse a topic that is not there, or that somebody else reads: nobody else must act on what comes back."""
        with closing(client.admin()) as admin:
            if topic not in admin.describe_topics([topic]):
                raise ConfigurationError(f"there is no topic {topic}; `offramp init` makes it")
            kafka = self.session.settings.kafka
            if found := foreign_groups(admin, [topic], [kafka.classify_group, kafka.lifecycle_group]):
                first = found[0]
                raise ConfigurationError(
                    f"topic {topic} is not ours alone: group {first.group} {first.reading}; nothing was redriven"
                )

    def _redriver(self, store: Store, client: Client, producer: Producer | None, topic: str) -> Redriver:
        return Redriver(
            client=client,
            producer=producer,
            topic=topic,
            policy=self.order.policy,
            load=lambda places: loaded(store, places),
            record=lambda rows: store.insert("redrives", encode_redrives(rows)),
            clock=self.session.clock,
            timeout_s=self.session.settings.kafka.timeout_s,
        )

    def _total(self, store: Store) -> int:
        return sum(row["letters"] for row in store.select(_HISTOGRAM, self.order.wanted.parameters))

    def _take(self, result: Result) -> None:
        if result.refusal is None:
            self.sent += 1
            return
        self.left[result.refusal] += 1
        kept = self.examples.setdefault(result.refusal, [])
        if len(kept) < KEPT_EXAMPLES:
            kept.append(result.candidate)

    @property
    def failed(self) -> int:
        """Letters that stay dead although they were to be redriven."""
        return sum(count for refusal, count in self.left.items() if refusal.fails)

    def as_json(self) -> dict[str, Any]:
        """Everything, in plain JSON values."""
        return {
            "dry_run": self.order.dry_run,
            "redriven": self.sent,
            "left": {refusal.value: count for refusal, count in sorted(self.left.items())},
            "examples": {
                refusal.value: [dict(zip(("source", "partition", "offset"), each.place, strict=True)) for each in found]
                for refusal, found in sorted(self.examples.items())
            },
        }

    def show(self) -> None:
        """Print how many were sent, and how many were left for which reason."""
        verb = "to redrive" if self.order.dry_run else "redriven"
        title = f"{self.sent:,} {verb}, {self.left.total():,} left"
        if not self.left:
            sys.stdout.write(f"{title}\n")
            return
        console.table(
            title,
            [("left because", "code"), ("letters", "right"), ("what to do", "left")],
            [(refusal.value, count, refusal.advice) for refusal, count in self.left.most_common()],
        )

    def say_rest(self) -> None:
        """Say which letters stay dead, and what a dry run is."""
        for refusal in self.left:
            for each in self.examples[refusal] if refusal.fails else ():
                source, partition, offset = each.place
                console.say(f"{source} {_short(source, partition)} offset {offset}: {refusal.value}: {refusal.advice}")
        if self.order.dry_run:
            console.say("dry run: nothing was sent")
        elif self.sent:
            console.say("the classify worker reads them next; `offramp dlq list` says what became of them")

    def say_so_far(self) -> None:
        """Say what was sent before it ended."""
        if self.sent:
            console.say(f"{self.sent:,} redriven before; run it again for the rest, what comes twice counts once")


def _candidates(store: Store, wanted: Filter) -> Iterator[Candidate]:
    """Dead letters in the order of their places, page by page."""
    after: Place = ("", "", -1)
    while True:
        names = dict(zip(("after_source", "after_partition", "after_offset"), after, strict=True))
        rows = store.select(_IN_ORDER, wanted.parameters | names | {"limit": PAGE_LETTERS})
        for row in rows:
            after = (row["source"], row["partition"], row["offset"])
            yield Candidate(after, State(row["state"]), row["replay_count"], row["bytes"])
        if len(rows) < PAGE_LETTERS:
            return


# --- bytes for people

_JSON_PLACE = re.compile(r"line (\d+) column (\d+)")
_PATH_PART = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_LONGEST_VALUE = 200
_HEX_COLUMNS = 16
_HEX_WIDTH = 10 + 4 * _HEX_COLUMNS
_END_OF_CHARACTER = re.compile(rb"\A[\x80-\xbf]{1,3}")
_START_OF_CHARACTER = re.compile(rb"(?:[\xc2-\xf4]|[\xe0-\xf4][\x80-\xbf]|[\xf0-\xf4][\x80-\xbf]{2})\Z")


def _value_at(letter: DeadLetterRow) -> str | None:
    """What a JSON message has at the place of the error, as JSON; None if that cannot be told."""
    try:
        value = json.loads(letter.raw)
        for name, index in _PATH_PART.findall(letter.field_path):
            value = value[int(index)] if index else value[name]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    text = json.dumps(value, ensure_ascii=False)
    cut = text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."
    return cut if letter.field_path else None


def _position_of(letter: DeadLetterRow) -> int | None:
    """The byte at which a text that is no JSON goes wrong, as its error says."""
    found = _JSON_PLACE.search(letter.message)
    if found is None:
        return None
    before = letter.raw.split(b"\n")[: int(found[1]) - 1]
    return min(len(letter.raw), sum(len(line) + 1 for line in before) + int(found[2]))


def _view(raw: bytes, start: int, width: int, *, more: bool = False) -> Iterator[str]:
    """Text as it is, wrapped; anything else in hexadecimal, 16 bytes a line, or 8 where the terminal is narrow. Of a
    character that was cut, before a ``start`` or where there is ``more``, the rest is left out."""
    text = _printable(_whole_characters(raw, before=start > 0, after=more))
    if text is not None:
        room = max(width - 2, 1)
        for line in text.split("\n"):
            yield from (f"  {line[at : at + room]}" for at in range(0, max(len(line), 1), room))
        return
    per_line = _HEX_COLUMNS if width >= _HEX_WIDTH + 2 else _HEX_COLUMNS // 2
    for at in range(0, len(raw), per_line):
        part = raw[at : at + per_line]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        yield f"  {start + at:08x}  {part.hex(' '):{per_line * 3}} {letters}"


def _whole_characters(raw: bytes, *, before: bool, after: bool) -> bytes:
    """A piece of a text in UTF-8 without what is left of a character that the cut ``before`` or ``after`` it split."""
    piece = _END_OF_CHARACTER.sub(b"", raw) if before else raw
    return _START_OF_CHARACTER.sub(b"", piece) if after else piece


def _printable(raw: bytes) -> str | None:
    """The text, tabs and carriage returns as spaces, if that is what all of the bytes are and all can be printed."""
    try:
        text = raw.decode().replace("\t", " ").replace("\r", " ")
    except UnicodeDecodeError:
        return None
    return text if all(line.isprintable() for line in text.split("\n")) else None


def _as_text(raw: bytes) -> str:
    text = _printable(raw)
    return raw.hex() if text is None else text


def _bytes_as_json(raw: bytes | None) -> dict[str, str] | None:
    if raw is None:
        return None
    try:
        return {"base64": base64.b64encode(raw).decode(), "text": raw.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}


def _record(state: Mapping[str, Any]) -> str:
    """Which record a letter has become."""
    return f" as {state['record_type']} {state['tenant']} {state['event_id']}" if state["event_id"] else ""


_TIMES = frozenset({"timestamp", "recorded_at", "redriven_at", "newest"})


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with its instants in ISO 8601."""
    return {name: to_iso(v) if name in _TIMES and v is not None else v for name, v in row.items()}


def _time(instant: int) -> str:
    return to_iso(instant)[:19].replace("T", " ")


def _short(source: str, partition: str) -> str:
    return partition[:12] if source == "file" else partition
