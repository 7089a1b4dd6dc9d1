"""Redaction: the stage between decode and classify that keeps secrets out of everything that is stored or shown.

Secrets by pattern (:mod:`schemas.secret_patterns`) and text at configured paths become keyed digests,
``[redacted:<kind>:<16 hex digits>]``: equal secrets stay equal under one key, and nobody without the key can test a
guess. Identity and enumerations are never altered; a secret in an identity makes the message a dead letter. Whatever
goes wrong here closes: the message is refused, a dead letter is masked as a whole.

Order of use: :meth:`Redactor.suspicious` over a whole chunk of encoded messages, :meth:`Redactor.redact` for those
decoded records that :meth:`Redactor.must_redact` picks. Dead letters go through :meth:`Redactor.mask`.

Not found: secrets that are encoded (base64, percent-encoding, hex), split over two fields, or without any mark.
"""

import hmac
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Any

from schemas.avro import AvroType, avro_schema
from schemas.contract import INCOMING
from schemas.errors import ErrorCode, MessageError
from schemas.secret_patterns import DEFAULT_PATTERNS, ESCAPED_ASCII, Pattern
from schemas.secret_search import Finder, Hit, Search, Span, TooDeeplyEscapedError, compile_bytes, plain

CONFIGURED = "configured"
"""The kind of a text that is redacted because of its path."""
MIN_KEY_BYTES = 16
MAX_ROUNDS = 8
"""A text is searched again after its secrets are replaced, because what stood beside one may be seen now."""

_DIGEST = re.compile(rb"\[redacted:[a-z0-9_]{1,32}:[0-9a-f]{16}\]")
_ASCII_ESCAPE = re.compile(rb"\\u00[2-7]")
_JSON_START = re.compile(rb"[\xef\xbb\xbf\s]*[{\[]")
_COMPONENT_NAMES = {("Component", "name"), ("Enrichment", "component"), ("Decision", "required_checks")}
_IDENTITY_NAMES = {"type", "tenant", "idempotency_key"}


class Role(StrEnum):
    """What redaction does with a text of a record."""

    SCAN = "scan"
    """Secrets in it become digests."""
    IDENTITY = "identity"
    """Never altered; a secret in it refuses the record."""
    DIGEST = "digest"
    """Becomes a digest wholly, because of a configured path."""


Plan = dict[str, Any]
"""Per field of a record that holds text: its :class:`Role`, or the plan of the nested record."""


# --- which texts a record holds ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _MapRoles:
    """Roles of a map's values: DIGEST for some keys, or for all (``*``). Its keys are scanned."""

    keys: frozenset[str]

    def get(self, key: str) -> Role:
        return Role.DIGEST if key in self.keys or "*" in self.keys else Role.SCAN


def text_paths(kind: str) -> dict[str, Role]:
    """Return every text of an incoming record type by path, with its role.

    A list's path ends in ``[]`` (``tool_calls[].arguments``), that of a map's values in ``.*`` (``extensions.*``).
    """
    return {text.path: text.role for text in _walk(kind)}


@dataclass(frozen=True)
class _Text:
    """A place of the contract that holds text."""

    path: str
    names: tuple[str, ...]
    role: Role
    is_map: bool = False


def _walk(kind: str) -> Iterator[_Text]:
    return _record_texts(avro_schema(INCOMING[kind]), (), "", {})


def _record_texts(record: AvroType, names: tuple[str, ...], prefix: str, known: dict[str, AvroType]) -> Iterator[_Text]:
    for field_ in record["fields"]:
        name, branches = field_["name"], field_["type"]
        kind = branches[1] if isinstance(branches, list) else branches
        role = Role.IDENTITY if _is_identity(record["name"], name) else Role.SCAN
        yield from _texts_of(kind, _Text(prefix + name, (*names, name), role), known)


def _texts_of(kind: AvroType, place: _Text, known: dict[str, AvroType]) -> Iterator[_Text]:
    """Yield the texts of one type. Avro defines a named type once; later fields refer to it by its name."""
    if isinstance(kind, dict) and "name" in kind:
        known[kind["name"]] = kind
    kind = known.get(kind, kind) if isinstance(kind, str) else kind
    if kind == "string":
        yield place
    elif not isinstance(kind, dict):
        return
    elif kind["type"] == "record":
        yield from _record_texts(kind, place.names, f"{place.path}.", known)
    elif kind["type"] == "array":
        yield from _texts_of(kind["items"], replace(place, path=f"{place.path}[]"), known)
    elif kind["type"] == "map":
        values = f"{place.path}.*" if kind["values"] == "string" else f"{place.path}.keys()"
        yield replace(place, path=values, is_map=True)


def _is_identity(record: str, name: str) -> bool:
    """Whether records are joined, retried or deduplicated by this text, here or by whoever reads the answer."""
    return name.endswith("_id") or name in _IDENTITY_NAMES or (record, name) in _COMPONENT_NAMES


def _plan(kind: str, configured: Sequence[str]) -> Plan:
    plan: Plan = {}
    for text in _walk(kind):
        inner = plan
        for name in text.names[:-1]:
            inner = inner.setdefault(name, {})
        inner[text.names[-1]] = _role(text, configured)
    return plan


def _role(text: _Text, configured: Sequence[str]) -> Role | _MapRoles:
    if text.is_map:
        values = text.path.removesuffix("*")
        return _MapRoles(frozenset(path.removeprefix(values) for path in configured if path.startswith(values)))
    return Role.DIGEST if text.path in configured else text.role


def _texts(value: Any, plan: Any, found: list[str]) -> None:
    """Collect every text of ``value``; a map entry as a JSON pair, because its key may make its value a secret."""
    if isinstance(value, str):
        found.append(value)
    elif isinstance(value, list):
        for item in value:
            _texts(item, plan, found)
    elif isinstance(value, dict):
        if isinstance(plan, dict):
            for name, role in plan.items():
                if (inner := value[name]) is not None:
                    _texts(inner, role, found)
        else:
            found.extend(f"{_beside(key, inner)}{inner}" for key, inner in value.items())


def _beside(key: str, value: Any) -> str:
    """Return what stands before a map's value when the entry is read as a JSON pair; values may lack their quotes."""
    return f'"{key}": ' if str(value).startswith(('"', "{", "[")) else f'"{key}": "'


def _hidden(text: bytes) -> bytes:
    """Return the text with its digests blanked by a byte that UTF-8 never has, so that none is taken for a secret."""
    return _DIGEST.sub(lambda match: b"\xff" * len(match[0]), text)


# --- the stage -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Program:
    """What a :class:`Redactor` compiled from its configuration."""

    plans: dict[str, Plan]
    strict: Search
    either: Search
    """What ``strict`` or ``loose`` forms find."""
    any_loose: Any
    certain_loose: Any
    """Without the sifted patterns."""
    sifted: tuple[Finder, ...]

    def may_match(self, text: bytes) -> bool:
        """Whether any pattern may match the text, or any encoding of it. Mostly the first search answers."""
        if not self.any_loose.search(text):
            return False
        return bool(self.certain_loose.search(text)) or any(any(finder.spans(text)) for finder in self.sifted)


@dataclass(frozen=True)
class Redactor:
    """Redacts records and masks dead letters. Immutable, picklable, safe to share between threads.

    ``key`` is the HMAC-SHA256 key of the digests, 16 bytes or more; without one the first secret found refuses its
    message, with ``key_advice`` on how to set one. ``paths`` name text fields that become digests wholly, such as
    ``request.actor``, ``tool_calls[].arguments`` or ``extensions.*``. Raises ValueError for a short key, paths without
    a key, and a path that names no text field of the contract or an identity, since a mistyped path would protect
    nothing.
    """

    key: bytes | None = field(repr=False)
    paths: Sequence[str] = ()
    patterns: Sequence[Pattern] = field(default=DEFAULT_PATTERNS, repr=False)
    key_advice: str = field(default="set one", kw_only=True)
    _program: _Program = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.key is not None and len(self.key) < MIN_KEY_BYTES:
            raise ValueError(f"the redaction key must have at least {MIN_KEY_BYTES} bytes")
        if self.key is None and self.paths:
            raise ValueError("redaction paths need a redaction key")
        object.__setattr__(self, "_program", _program(self.paths, self.patterns))

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), key_advice=self.key_advice), (self.key, self.paths, self.patterns)

    def suspicious(self, block: bytes) -> bool:
        """Whether any text in these encoded bytes (JSON or Avro, one message or many) may be, or hold, a secret.

        False is certain, True is a guess. Linear, about 3 ns a byte.
        """
        return bool(self.paths) or self._program.may_match(block)

    def must_redact(self, record: dict[str, Any], *, suspicious: bool) -> bool:
        """Whether a record needs :meth:`redact`, given what :meth:`suspicious` said of the bytes it came from.

        A map's key may make its value a secret, and in Avro nothing but a length stands between them.
        """
        return suspicious or bool(record["extensions"])

    def redact(self, record: dict[str, Any]) -> tuple[dict[str, Any], int]:
        """Return the record with its secrets replaced, and how many; the same object if there are none.

        ``record`` is a canonical dict and is not changed. Redacting twice changes nothing. Raises MessageError
        ``redaction_failed`` for a secret in an identity field, a secret without a key, and anything unforeseen.
        """
        try:
            plan = self._program.plans[record["type"]]
            by_pattern = self._may_hold_secrets(record, plan)
            if not by_pattern and not self.paths:
                return record, 0
            editing = _Editing(self, by_pattern=by_pattern)
            return editing.edit(record, plan, ""), editing.hits
        except MessageError:
            raise
        except TooDeeplyEscapedError:
            raise _failed("escapes are nested too deeply to look for secrets") from None
        except Exception as error:  # noqa: BLE001  # closes: any failure refuses the message
            # The cause may quote the secret: its class is all that may be told.
            raise _failed(f"redaction failed with {type(error).__name__}") from None

    def mask(self, raw: bytes) -> tuple[bytes, int]:
        """Return a dead letter's bytes with secrets overwritten by ``*`` at equal length, and how many; needs no key.

        Text that a configured path may cover is masked too, and whatever cannot be judged is masked as a whole.
        Rather too much than too little: in Avro bodies the byte after a secret may go with it. Never raises.
        """
        try:
            if not self.suspicious(raw):
                return raw, 0
            spans = [(hit.start, hit.end) for hit in self._program.either.find(raw)]
            if self.paths:
                spans += _configured_spans(raw, self.paths)
            return _overwrite(raw, spans)
        except Exception:  # noqa: BLE001  # closes: what cannot be judged is not shown
            return b"*" * len(raw), 1

    def digest(self, secret: bytes, kind: str) -> bytes:
        """Return what replaces a secret. Raises MessageError ``redaction_failed`` without a key."""
        if self.key is None:
            raise _failed(f"holds a secret, and no redaction key is configured; {self.key_advice}")
        return b"[redacted:%s:%s]" % (kind.encode(), hmac.digest(self.key, secret, "sha256").hex()[:16].encode())

    def _may_hold_secrets(self, record: dict[str, Any], plan: Plan) -> bool:
        texts: list[str] = []
        _texts(record, plan, texts)
        return self._program.may_match("\n".join(texts).encode())


def _failed(message: str, path: str = "") -> MessageError:
    return MessageError(ErrorCode.REDACTION_FAILED, message, path)


def _program(paths: Sequence[str], patterns: Sequence[Pattern]) -> _Program:
    sifted = [pattern for pattern in patterns if pattern.sifted]
    certain = [*dict.fromkeys(pattern.loose for pattern in patterns if not pattern.sifted), ESCAPED_ASCII]
    strict = [Finder(pattern.kind, compile_bytes(pattern.strict), pattern.accept) for pattern in patterns]
    return _Program(
        _plans(paths),
        Search(strict),
        Search([*strict, *dict.fromkeys(map(_loose, patterns))]),
        compile_bytes("|".join((*certain, *(pattern.loose for pattern in sifted)))),
        compile_bytes("|".join(certain)),
        tuple(map(_loose, sifted)),
    )


def _loose(pattern: Pattern) -> Finder:
    return Finder(pattern.kind, compile_bytes(pattern.loose), pattern.covers)


@dataclass
class _Editing:
    """One pass over one record."""

    redactor: Redactor
    by_pattern: bool
    """Whether any text may hold a secret by pattern; else configured paths alone are looked at."""
    hits: int = 0

    def edit(self, value: Any, plan: Any, path: str) -> Any:
        """Return ``value`` with its texts redacted; the same object if nothing changed."""
        if value is None:
            return None
        if isinstance(value, list):
            items = [self.edit(item, plan, f"{path}[{index}]") for index, item in enumerate(value)]
            return items if items != value else value
        if isinstance(plan, dict):
            return self._record(value, plan, path)
        return self._map(value, plan, path) if isinstance(value, dict) else self._text(value, plan, path)

    def _record(self, record: dict[str, Any], plan: Plan, path: str) -> dict[str, Any]:
        prefix = f"{path}." if path else ""
        changed = {}
        for name, role in plan.items():
            new = self.edit(record[name], role, prefix + name)
            if new != record[name]:
                changed[name] = new
        return record | changed if changed else record

    def _map(self, entries: dict[str, Any], roles: _MapRoles, path: str) -> dict[str, Any]:
        edited = {}
        for key, value in entries.items():
            new_key = self._text(key, Role.SCAN, path)
            # The key as it will stand, or what is beside its secrets would be seen the next time only.
            new = self._text(value, roles.get(key), path, _beside(new_key, value)) if isinstance(value, str) else value
            edited[new_key] = new
        if len(edited) != len(entries):
            raise _failed("two keys are the same once redacted", path)
        return edited if edited != entries else entries

    def _text(self, text: str, role: Role, path: str, before: str = "") -> str:
        if role is Role.DIGEST:
            return self._configured(text)
        if not self.by_pattern:
            return text
        start = len(before.encode())
        new = self._secrets((before + text).encode(), start, role, path)
        return new[start:].decode()

    def _configured(self, text: str) -> str:
        raw = text.encode()
        if _DIGEST.fullmatch(raw):
            return text
        self.hits += 1
        return self.redactor.digest(raw, CONFIGURED).decode()

    def _secrets(self, text: bytes, start: int, role: Role, path: str) -> bytes:
        """Replace until nothing is left to replace, which makes redaction idempotent; each round uses up text."""
        program = self.redactor._program  # noqa: SLF001  # the pass is a part of its redactor
        if not program.may_match(text):
            return text
        for _ in range(MAX_ROUNDS):
            found = [hit for hit in program.strict.find(_hidden(text)) if hit.end > start]
            if not found:
                return text
            if role is Role.IDENTITY:
                raise _failed("holds what looks like a secret, in a field that is never altered", path)
            self.hits += len(found)
            text = self._replaced(text, found, start, path)
        raise _failed("redacting uncovers new secrets without end", path)

    def _replaced(self, text: bytes, found: list[Hit], start: int, path: str) -> bytes:
        pieces, done = [], 0
        for hit in found:
            first = max(hit.start, start)
            try:
                digest = self.redactor.digest(plain(text[first : hit.end]), hit.kind)
            except MessageError as error:
                raise _failed(error.message, path) from None
            pieces += [text[done:first], digest]
            done = hit.end
        return b"".join((*pieces, text[done:]))


# --- configured paths ----------------------------------------------------------------------------------------------


def _plans(paths: Sequence[str]) -> dict[str, Plan]:
    known = {path for kind in INCOMING for path, role in text_paths(kind).items() if role is Role.SCAN}
    for path in paths:
        if path.endswith(".keys()") or (path not in known and not path.startswith("extensions.")):
            raise ValueError(f"the redaction path {path!r} names no text of the contract that may be redacted")
    return {kind: _plan(kind, paths) for kind in INCOMING}


def _configured_spans(raw: bytes, paths: Sequence[str]) -> list[Span]:
    """Return what configured paths may cover of a dead letter: JSON strings under the same key, else everything."""
    everything = [(0, len(raw))]
    keys = [path.rsplit(".", 1)[-1] for path in paths]
    if not _JSON_START.match(raw) or _ASCII_ESCAPE.search(raw) or any(path.endswith((".*", "[]")) for path in paths):
        return everything
    if any(path.startswith("extensions.") for path in paths):
        return everything
    values = [_values_of(raw, key) for key in keys]
    return everything if None in values else [span for spans in values for span in spans or ()]


def _values_of(raw: bytes, key: str) -> list[Span] | None:
    """Return the ranges of the strings under a key anywhere in a JSON text; None if another value is there."""
    value = rb'"%s"\s*:\s*(?:null|"([^"\\]*(?:\\.[^"\\]*)*)|())' % re.escape(key.encode())
    matches = list(re.finditer(value, raw, re.DOTALL))
    if any(match[2] is not None for match in matches):
        return None
    return [match.span(1) for match in matches if match[1] is not None]


def _overwrite(raw: bytes, spans: Iterable[Span]) -> tuple[bytes, int]:
    masked, count, done = bytearray(raw), 0, -1
    for start, end in sorted(spans):
        masked[start:end] = b"*" * (end - start)
        count += start >= done
        done = max(done, end)
    return bytes(masked), count
