"""Synthetic production traffic: one Avro container of terminal events, the same bytes for the same arguments.

``python -m bench.generate --events 1000000 --seed 1 --out events.avro``

Building and encoding every event would take several times as long, so up to :data:`TEMPLATES` different events are
encoded once, with their identities and times held open, and every event written is one of them filled in. Event and run
ids are unique, times spread over :data:`DAYS` days; everything else repeats every :data:`TEMPLATES` events, which is
further apart than any compression block. Memory does not grow with the number of events.
"""

import argparse
import json
import re
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any, BinaryIO

import fastavro
import zstandard

from schemas.avro import avro_schema
from schemas.events import TerminalEvent
from schemas.types import to_micros

Event = dict[str, Any]
At = Callable[[float], int]
"""The instant so many seconds before the run ended."""

TEMPLATES = 20_000
DAYS = 30
START = to_micros(datetime(2026, 11, 1, tzinfo=UTC))
SECRET_EVERY = 1_000
"""One template in so many carries an API key in its arguments."""
BLOCK_BYTES = 64 * 1024
REPORT_EVERY = 100_000

SCHEMA = fastavro.parse_schema(avro_schema(TerminalEvent))
CODECS: dict[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": lambda data: zlib.compress(data, wbits=-15),
    "zstandard": lambda data: zstandard.ZstdCompressor().compress(data),
}

# --- What happens in a run -------------------------------------------------------------------------------------------

_VOCABULARY = (
    "the a of to and in for is on that with was please order invoice customer payment delivery account amount refund "
    "address date number reference supplier shipment contract request confirmed checked found open closed paid sent "
    "received updated against before after because however total balance report meeting price quantity warehouse team "
    "policy limit approval review missing available next week today already still could not we I you they it this "
    "Zürich café façade Übersicht naïve 東京 items line lines product subscription plan renewal cancel change"
)
WORDS = tuple(_VOCABULARY.split())
# Workflow, tools that read, the tool that writes.
WORKFLOWS = (
    ("pay_invoice", ("lookup_invoice", "match_purchase_order", "lookup_supplier", "get_rates"), "create_payment"),
    ("refund_order", ("get_order", "get_customer", "refund_policy", "search_tickets"), "issue_refund"),
    ("answer_ticket", ("search_knowledge", "get_customer", "get_ticket", "list_orders"), "post_reply"),
    ("book_travel", ("search_flights", "get_profile", "lookup_visa", "search_hotels"), "create_booking"),
    ("triage_alert", ("query_metrics", "search_logs", "list_deployments", "get_runbook"), "open_incident"),
)
MODELS = (("anthropic", "claude-sonnet", "end_turn"), ("openai", "gpt-large", "stop"), ("google", "gemini-pro", "STOP"))
SECRETS = (("sk-ant-api03-", 40), ("AKIA", 16), ("ghp_", 36), ("AIza", 35), ("sk_live_", 24))
_KEY_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


def prose(rng: Random) -> str:
    """Write 200 to 600 characters of words, short texts more often than long ones."""
    length = 200 + int(400 * rng.random() ** 3)
    return " ".join(rng.choices(WORDS, k=length // 2))[:length]


def token(rng: Random, prefix: str, digits: int) -> str:
    """Make an identifier as producers do: a prefix and hexadecimal digits."""
    return f"{prefix}{rng.getrandbits(4 * digits):0{digits}x}"


def arguments(rng: Random) -> str:
    """Fill in the arguments of a call, as JSON text."""
    amount = f"{rng.randrange(1, 5000)}.{rng.randrange(100):02}"
    return json.dumps({"customer_id": token(rng, "cus_", 8), "amount": amount})


def response(rng: Random) -> str:
    """Answer as a tool does, in JSON text."""
    return json.dumps({"id": token(rng, "obj_", 8), "status": rng.choice(("open", "paid", "sent"))})


def call(rng: Random, at: At, number: int, tool: str, **what: Any) -> Event:
    """Make one attempt of a call that reads and returns ``ok``, unless ``what`` says otherwise."""
    usual = {
        "call_id": token(rng, "call_", 10),
        "operation_id": f"op-{number}",
        "tool": tool,
        "access": "read",
        "required": True,
        "attempt": 1,
        "arguments": arguments(rng),
        "outcome": "ok",
        "status_code": 200,
        "response": response(rng),
        "started_at": at(40 - 3 * number - rng.random()),
        "duration_ms": int(rng.lognormvariate(5, 1)),
    }
    return usual | what


def decision(rng: Random, at: At, effect: str, **what: Any) -> Event:
    """Decide, as the application, about the whole request unless ``what`` names an operation."""
    usual = {
        "decision_id": token(rng, "dec_", 10),
        "policy_id": f"limits_v{rng.randrange(1, 9)}#amount",
        "policy_version": "7",
        "source": "application",
        "effect": effect,
        "reason_code": "within_limit",
        "decided_at": at(45),
        "owner": "ops",
    }
    return usual | what


def cached_answer(at: At, trigger: str, *, applied: bool) -> Event:
    """Register a fresh cached answer, eligible for the trigger."""
    return {
        "fallback_id": "reference-cache",
        "version": "4",
        "source": "cached",
        "triggers": [trigger, "unavailable"],
        "access": "read",
        "inputs_digest": "sha256:5d0c0ffee",
        "reference_data_version": "2026-11",
        "observed_at": at(3600),
        "max_age_s": 86400,
        "shares_failed_dependency": False,
        "uses_model_judgement": False,
        "preconditions_met": True,
        "applied": applied,
        "disclosed": True,
        "result_ref": "result-2" if applied else None,
    }


def step(rng: Random) -> Event:
    """Take one step that goes well."""
    return {
        "action_key": token(rng, "sha1:", 12),
        "confidence_before": round(rng.uniform(0.8, 1), 2),
        "confidence_after": round(rng.uniform(0.8, 1), 2),
        "advanced": True,
        "checks": {"format": 1.0},
    }


def budget(rng: Random) -> Event:
    """Spend less than the budgets allow."""
    return {
        "turns": {"used": rng.randrange(1, 9), "limit": 10},
        "tool_calls": {"used": rng.randrange(1, 9), "limit": 20},
        "tokens": {"used": rng.randrange(900, 40_000), "limit": 50_000},
    }


# --- The kinds of runs -----------------------------------------------------------------------------------------------


def _identity(rng: Random, at: At, workflow: str) -> Event:
    return {
        "type": "terminal_event",
        "version": 1,
        "event_id": EVENT_ID,
        "run_id": RUN_ID,
        "segment": 0,
        "fencing_token": 18,
        "tenant": rng.choice(("acme", "globex", "initech")),
        "agent_id": f"{workflow}-agent",
        "agent_version": f"2026.{rng.randrange(1, 12)}.{rng.randrange(9)}",
        "workflow": workflow,
        "occurred_at": at(0),
    }


def _request(rng: Random, workflow: str) -> Event:
    return {
        "request_ref": token(rng, "req-", 8),
        "goal": workflow,
        "actor": f"user-{rng.randrange(5000)}",
        "delegated_permissions": [f"{workflow}:create"],
        "prose": prose(rng),
    }


def _model(rng: Random) -> Event:
    provider, model, signal = rng.choice(MODELS)
    return {
        "provider": provider,
        "model": model,
        "stop_signal": signal,
        "stop_class": "end",
        "input_tokens": rng.randrange(900, 30_000),
        "output_tokens": rng.randrange(40, 900),
        "prose": prose(rng),
    }


def _sometimes(rng: Random, share: float, **parts: Any) -> Event:
    return {name: part for name, part in parts.items() if rng.random() < share}


def plain(rng: Random, at: At) -> Event:
    """Do the work in one to four calls, the last of which may write."""
    workflow, reads, writes = rng.choice(WORKFLOWS)
    count = rng.choices((1, 2, 3, 4), (4, 4, 2, 1))[0]
    calls = [call(rng, at, number, rng.choice(reads)) for number in range(1, count + 1)]
    done = rng.choices(("satisfied", "not_evaluated"), (4, 1))[0]
    event = _identity(rng, at, workflow) | {
        "request": _request(rng, workflow),
        "model": _model(rng),
        "tool_calls": calls,
        "side_effects": _write(rng, calls[-1], writes) if rng.random() < 0.4 else [],
        "completion": {"claimed": True, "predicate_id": f"{workflow}_done", "predicate_version": "2", "result": done},
    }
    steps = [step(rng) for _ in range(rng.randrange(1, 4))]
    more = {"budget": budget(rng), "steps": steps, "policy_decisions": [decision(rng, at, "allow")]}
    return event | _sometimes(rng, 0.25, trace_id=token(rng, "", 32), **more)


def _write(rng: Random, last: Event, tool: str) -> list[Event]:
    """Make this call a write, and return the ledger that confirms it."""
    last |= {"tool": tool, "access": "write", "idempotency_key": token(rng, "idem-", 12), "fencing_token": 18}
    operation = {"operation_id": last["operation_id"], "tool": tool, "target": token(rng, "object:", 6)}
    return [operation | {"status": "confirmed", "reversible": True, "count": 1, "verified_by": "provider_ack"}]


def _failed(event: Event, outcome: str, result: str, **what: Any) -> Event:
    """Make the last call of the event fail, and the run with it."""
    *before, last = event["tool_calls"]
    failure = {"outcome": outcome, "response": None, "status_code": 504, "error_class": "DeadlineExceeded"}
    completion = event["completion"] | {"claimed": False, "result": result}
    return event | {"tool_calls": [*before, last | failure | what], "completion": completion}


_READS = {"access": "read", "idempotency_key": None, "fencing_token": None}


def denied(rng: Random, at: At) -> Event:
    """Have a policy say no to the last operation, which was not executed."""
    event = _failed(plain(rng, at), "denied", "unsatisfied", status_code=None, error_class=None)
    last = event["tool_calls"][-1]
    no = decision(
        rng,
        at,
        "deny",
        operation_id=last["operation_id"],
        decided_at=at(20),
        reason_code=rng.choice(("amount_over_limit", "region_blocked")),
        attempted_action={"tool": last["tool"], "arguments": last["arguments"]},
        alternatives=["ask for a smaller amount", "escalate to the billing queue"],
    )
    return event | {"policy_decisions": [no], "side_effects": []}


def served(rng: Random, at: At) -> Event:
    """Have a dependency fail twice; a cached answer stood in, or stands ready."""
    outcome = rng.choice(("timeout", "unavailable", "error"))
    event = _failed(plain(rng, at), outcome, "not_evaluated", **_READS)
    again = event["tool_calls"][-1] | {"call_id": token(rng, "call_", 10), "attempt": 2, "started_at": at(5)}
    stand_in = cached_answer(at, outcome, applied=rng.random() < 0.7)
    return event | {"tool_calls": [*event["tool_calls"], again], "side_effects": [], "fallbacks": [stand_in]}


def partial(rng: Random, at: At) -> Event:
    """Leave out an optional part of the result; one time in five it could have changed the rest."""
    event = _failed(plain(rng, at), "timeout", "not_evaluated", required=False, **_READS)
    matters = rng.choices(("no", "yes"), (4, 1))[0]
    done = {"name": "main_result", "required": True, "state": "completed"}
    missing = {"name": "enrichment", "required": False, "state": "omitted", "reason_code": "timeout", "retryable": True}
    return event | {"components": [done, missing | {"can_change_result": matters}], "side_effects": []}


def unsettled(rng: Random, at: At) -> Event:
    """Leave a write that happened twice, or of which nobody knows whether it happened."""
    event = plain(rng, at)
    entry = _write(rng, event["tool_calls"][-1], "create_payment")[0]
    if rng.random() < 0.3:
        return event | {"side_effects": [entry | {"count": 2}]}
    unknown = entry | {"status": "ambiguous", "verified_by": "none"}
    return _failed(event, rng.choice(("timeout", "unknown")), "unsatisfied") | {"side_effects": [unknown]}


def other(rng: Random, at: At) -> Event:
    """End in one of the rarer ways."""
    approval = decision(rng, at, "require_approval", approval={"state": "requested"})
    endings: tuple[Event, ...] = (
        {"policy_decisions": [approval]},
        {"policy_decisions": [decision(rng, at, "unavailable", reason_code="engine_down")]},
        {"takeover": {"state": "HUMAN_CONTROL", "fencing_token": 19}},
        {"children": [{"run_id": token(rng, "run-", 12), "state": "running"}]},
        {"contradictions": [{"subject": "total", "sources": ["erp", "ocr"], "resolved": False}]},
        {"budget": budget(rng) | {"exhausted": ["turns"]}, "completion": {"claimed": False}},
        {"model": {"provider": "openai", "stop_class": "refused"}, "completion": {"claimed": False}},
        {"model": {"provider": "openai", "stop_class": "truncated", "output_tokens": 4096}, "completion": None},
        {"completion": {"claimed": True, "predicate_id": "done", "result": "unsatisfied"}},
        {"tool_calls": [], "side_effects": [], "steps": [], "completion": None},
    )
    return plain(rng, at) | rng.choice(endings)


KINDS = (plain, denied, served, partial, unsettled, other)
SHARES = (70, 8, 8, 5, 4, 5)
"""Share of each kind of run, in percent."""


def build(rng: Random, index: int, at: At) -> Event:
    """Build the event of one template; absent fields are left out, as Avro's defaults fill them in."""
    event = rng.choices(KINDS, SHARES)[0](rng, at)
    if index % SECRET_EVERY == SECRET_EVERY - 1:
        leak = call(rng, at, 0, "http_request", arguments=_leaked(rng))
        return event | {"tool_calls": [leak, *event["tool_calls"]]}
    return event


def _leaked(rng: Random) -> str:
    prefix, length = rng.choice(SECRETS)
    secret = prefix + "".join(rng.choices(_KEY_ALPHABET, k=length))
    return json.dumps({"url": "https://api.example.com/v1/things", "headers": {"x-api-key": secret}})


# --- From events to bytes --------------------------------------------------------------------------------------------

EVENT_ID = "<event id of thirty-six characters.>"
RUN_ID = "<run, 16 chars.>"

# An instant that is held open encodes as seven bytes 0xff and its number. No text and no finite number contains them.
_HELD_OPEN = re.compile(rb"\xff{7}([\x01-\x7f])", re.DOTALL)


def _placeholder(number: int) -> int:
    return -(number + 1) << 48


@dataclass(frozen=True)
class Template:
    """An encoded event with its identities and times held open."""

    head: bytes
    between: bytes
    timed: tuple[tuple[bytes, int], ...]
    """Bytes, then an instant so many microseconds from the end of the run."""
    tail: bytes

    def fill(self, event_id: bytes, run_id: bytes, occurred_at: int) -> bytes:
        """Return the Avro body of one event."""
        parts = [self.head, event_id, self.between, run_id]
        for text, offset in self.timed:
            parts += (text, encode_long(occurred_at + offset))
        return b"".join((*parts, self.tail))


def encode_long(value: int) -> bytes:
    """Encode a non-negative Avro long."""
    value <<= 1
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def template(rng: Random, index: int) -> Template:
    """Build and encode one event."""
    offsets: list[int] = []

    def at(seconds: float) -> int:
        offsets.append(-int(seconds * 1_000_000))
        return _placeholder(len(offsets))

    buffer = BytesIO()
    fastavro.schemaless_writer(buffer, SCHEMA, build(rng, index, at))
    head, _, rest = buffer.getvalue().partition(EVENT_ID.encode())
    between, _, rest = rest.partition(RUN_ID.encode())
    *timed, tail = _HELD_OPEN.split(rest)
    instants = (offsets[number[0] - 1] for number in timed[1::2])
    return Template(head, between, tuple(zip(timed[::2], instants, strict=True)), tail)


def bodies(events: int, seed: int, progress: Callable[[int], None]) -> Iterator[bytes]:
    """Avro bodies in about the order of their times, each with its own event and run id.

    ``progress`` is told, once every :data:`REPORT_EVERY` events, how many there were.
    """
    rng = Random(seed)
    templates = [template(rng, index) for index in range(min(events, TEMPLATES))]
    spacing = DAYS * 86_400 * 1_000_000 / max(events, 1)
    for number in range(events):
        if number % REPORT_EVERY == 0:
            progress(number)
        # Three spacings of jitter: events arrive a little out of order, as they do in production.
        occurred_at = START + int((number + 3 * rng.random()) * spacing)
        run_id = token(rng, "run-", 12).encode()
        yield templates[number % len(templates)].fill(_event_id(rng), run_id, occurred_at)


def _event_id(rng: Random) -> bytes:
    # A version 4 UUID put together by hand, in half the time that uuid.UUID takes.
    digits = f"{rng.getrandbits(128):032x}"
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}".encode()


def blocks(items: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Gather bodies into blocks of about :data:`BLOCK_BYTES`: how many, and their bytes."""
    gathered: list[bytes] = []
    size = 0
    for body in items:
        gathered.append(body)
        size += len(body)
        if size >= BLOCK_BYTES:
            yield len(gathered), b"".join(gathered)
            gathered, size = [], 0
    if gathered:
        yield len(gathered), b"".join(gathered)


def _write_header(out: BinaryIO, codec: str, sync: bytes) -> None:
    # By hand, because fastavro's own header orders the attributes of the schema by string hash, anew in each process.
    meta = {"avro.codec": codec.encode(), "avro.schema": json.dumps(avro_schema(TerminalEvent)).encode()}
    out.write(b"Obj\x01")
    fastavro.schemaless_writer(out, {"type": "map", "values": "bytes"}, meta)
    out.write(sync)


def write(out: BinaryIO, items: Iterable[bytes], codec: str, sync: bytes) -> int:
    """Write bodies as one container with this 16-byte sync marker; return their bytes before compression."""
    size = 0
    _write_header(out, codec, sync)
    for count, data in blocks(items):
        packed = CODECS[codec](data)
        out.write(b"".join((encode_long(count), encode_long(len(packed)), packed, sync)))
        size += len(data)
    return size


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.generate", description="Write synthetic terminal events.")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--codec", choices=sorted(CODECS), default="null")
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


def main() -> None:
    """Write the file that the arguments ask for; progress and a summary on stderr."""
    options, started = _options(), time.perf_counter()

    def progress(done: int) -> None:
        print(f"{done:,} of {options.events:,} events", file=sys.stderr)

    with options.out.open("wb") as out:
        items = bodies(options.events, options.seed, progress)
        size = write(out, items, options.codec, Random(options.seed).randbytes(16))
    seconds = time.perf_counter() - started
    print(f"{size / max(options.events, 1):,.0f} bytes an event, {seconds:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
