"""Side effects: what became of each attempted mutation, from the attempts, the ledger and takeover acknowledgements."""

from classifier.fact import Event, Fact, Finding

AMBIGUOUS_EFFECT = Fact(2, "ambiguous_effect", "an attempted mutation may or may not have taken effect")
DUPLICATE_EFFECT = Fact(4, "duplicate_effect", "one operation took effect more than once")
FENCE_VIOLATION = Fact(1, "fence_violation", "a write with an outdated fencing token took, or may have taken, effect")
WRITE_ATTEMPTED = Fact(40, "write_attempted", "a mutation was attempted; access that is not read counts as write")
EFFECT_TOOK_PLACE = Fact(41, "effect_took_place", "a mutation took effect, by its own answer or by the ledger")
FACTS = (FENCE_VIOLATION, AMBIGUOUS_EFFECT, DUPLICATE_EFFECT, WRITE_ATTEMPTED, EFFECT_TOOK_PLACE)

KEY_CHANGED = Finding("idempotency_key_changed", "attempts of one operation carry different idempotency keys")
STALE_WRITE_REJECTED = Finding("stale_write_rejected", "a write with an outdated fencing token was turned away")
UNVERIFIED_LEDGER_ENTRY = Finding("unverified_ledger_entry", "the ledger states an outcome that nothing established")
FINDINGS = (KEY_CHANGED, STALE_WRITE_REJECTED, UNVERIFIED_LEDGER_ENTRY)

_PROVEN_OUTCOMES = frozenset({"circuit_open", "not_executed", "denied"})
_SETTLING = frozenset({"not_started", "compensated", "confirmed"})
_AUTH_NAMES = frozenset({"unauthenticated", "permissiondenied"})


def is_auth_status(call: Event) -> bool:
    """Whether the attempt ended in an authentication or permission status (401, 403, or the gRPC names)."""
    if call["status_code"] in (401, 403):
        return True
    name = call["error_class"]
    return name is not None and name.replace("_", "").replace("-", "").replace(" ", "").lower() in _AUTH_NAMES


def is_proven_harmless(call: Event) -> bool:
    """Whether the attempt carries proof that nothing happened. ``effect_possible = true`` overrides weaker proof."""
    possible = call["effect_possible"]
    if possible is not None:
        return not possible
    return call["outcome"] in _PROVEN_OUTCOMES or (call["outcome"] != "ok" and is_auth_status(call))


class Operation:
    """One logical mutation: its write attempts, its ledger entries and what follows from them."""

    __slots__ = ("acks", "ambiguous", "denied", "entries", "id", "ok", "unproven", "writes")

    def __init__(self, operation_id: str | None) -> None:
        self.id = operation_id
        self.writes: list[Event] = []
        self.entries: list[Event] = []
        self.acks: list[str] = []
        self.ok: list[Event] = []
        self.unproven: list[Event] = []
        self.ambiguous = False
        self.denied = False

    def settle(self) -> None:
        """Establish which attempts returned ok or lack proof, and whether the outcome is ambiguous."""
        for write in self.writes:
            if write["outcome"] == "ok":
                self.ok.append(write)
            elif not is_proven_harmless(write):
                self.unproven.append(write)
        self.ambiguous = self._is_ambiguous()

    def _is_ambiguous(self) -> bool:
        for entry in self.entries:
            if entry["status"] not in _SETTLING:
                return True
        if not self.unproven and not self.acks:
            return False
        settling = {entry["status"] for entry in self.entries if self.ok or is_verified(entry)}
        if self.acks and not self.ok and not settling:
            return True
        if not self.unproven or "not_started" in settling:
            return False
        return not settling or not self._covers_unproven()

    def _covers_unproven(self) -> bool:
        """Whether a confirmation is about every attempt without proof: it speaks for attempts under its own key only,
        and no key is never the same key."""
        keys = {write["idempotency_key"] for write in self.unproven}
        if self.ok:
            return keys <= {write["idempotency_key"] for write in self.ok} - {None}
        return len(self.unproven) == 1 or (len(keys) == 1 and None not in keys)

    @property
    def took_effect(self) -> bool:
        """Whether an attempt returned ok or the ledger says confirmed or compensated."""
        return bool(self.ok) or any(entry["status"] in ("confirmed", "compensated") for entry in self.entries)

    @property
    def is_compensated(self) -> bool:
        """Whether what took effect was taken back, and that is established."""
        return any(e["status"] == "compensated" and (self.ok or is_verified(e)) for e in self.entries)

    @property
    def is_duplicate(self) -> bool:
        """Whether it took effect more than once."""
        confirmed = [entry for entry in self.entries if entry["status"] == "confirmed"]
        if len(confirmed) > 1 or any((entry["count"] or 1) > 1 for entry in confirmed):
            return True
        return len(self.ok) > 1 and not has_one_key(self.ok)

    @property
    def contradicts_itself(self) -> bool:
        """Whether ledger and attempts exclude each other."""
        statuses = {entry["status"] for entry in self.entries}
        if self.ok and "not_started" in statuses:
            return True
        harmless = bool(self.writes) and all(is_proven_harmless(write) for write in self.writes)
        return "confirmed" in statuses and harmless and not self.denied

    @property
    def effect_started_at(self) -> int | None:
        """When the earliest attempt that took, or may have taken, effect started; None if any is undated."""
        starts = [write["started_at"] for write in self.ok or self.unproven]
        return None if not starts or None in starts else min(starts)

    @property
    def status(self) -> str:
        """The status of the side-effect record: not_started, confirmed, ambiguous or compensated."""
        if self.ambiguous:
            return "ambiguous"
        if self.is_compensated:
            return "compensated"
        return "confirmed" if self.took_effect else "not_started"

    @property
    def tool(self) -> str | None:
        """Name of the tool, the ledger's before the attempts'."""
        names = [record["tool"] for record in (*self.entries, *self.writes) if record["tool"] is not None]
        return min(names) if names else None

    def crosses(self, newest: int) -> bool:
        """Whether a write older than the ``newest`` token took, or may have taken, effect."""
        return any(_is_stale(write, newest) for write in self._effective())

    def was_turned_away(self, newest: int) -> bool:
        """Whether a write older than the ``newest`` token was rejected without effect."""
        effective = self._effective()
        return any(_is_stale(write, newest) and write not in effective for write in self.writes)

    def _effective(self) -> list[Event]:
        never = not self.ok and any(e["status"] == "not_started" and is_verified(e) for e in self.entries)
        return [] if never else self.ok + self.unproven


def _is_stale(write: Event, newest: int) -> bool:
    token = write["fencing_token"]
    return token is not None and token < newest


def is_verified(entry: Event) -> bool:
    """Whether something other than the producer's own word established the ledger entry."""
    return entry["verified_by"] not in (None, "none")


def has_one_key(writes: list[Event]) -> bool:
    """Whether all attempts carry the same idempotency key; no key is never the same key."""
    keys = {write["idempotency_key"] for write in writes}
    return len(keys) == 1 and None not in keys


class Effects:
    """All operations of an event, and the facts about them."""

    __slots__ = ("bits", "by_id", "newest_token", "operations")

    def __init__(self, event: Event) -> None:
        self.operations: list[Operation] = []
        self.by_id: dict[str, Operation] = {}
        self.bits = 0
        self._gather(event)
        self.newest_token = _newest_token(event)
        for operation in self.operations:
            operation.settle()
            self.bits |= self._facts_of(operation)

    def _gather(self, event: Event) -> None:
        for call in event["tool_calls"]:
            if call["access"] != "read":
                self._operation(call["operation_id"]).writes.append(call)
        for entry in event["side_effects"]:
            self._operation(entry["operation_id"]).entries.append(entry)
        takeover = event["takeover"]
        for ack in takeover["acks"] if takeover else ():
            if ack["ack"] not in ("never_started", "stopped_before_call"):
                self._operation(ack["operation_id"]).acks.append("unknown")

    def _operation(self, operation_id: str | None) -> Operation:
        """The operation of that id. Without an id, nothing says that two records belong together."""
        operation = self.by_id.get(operation_id) if operation_id is not None else None
        if operation is None:
            operation = Operation(operation_id)
            self.operations.append(operation)
            if operation_id is not None:
                self.by_id[operation_id] = operation
        return operation

    def _facts_of(self, operation: Operation) -> int:
        bits = _WRITE if operation.writes else 0
        if operation.took_effect:
            bits |= _EFFECT
        if operation.ambiguous:
            bits |= _AMBIGUOUS
        if operation.is_duplicate:
            bits |= _DUPLICATE
        if self.newest_token is not None and operation.crosses(self.newest_token):
            bits |= _FENCE
        return bits

    def collect_findings(self) -> list[str]:
        """Codes of what is odd about the operations."""
        found = []
        for operation in self.operations:
            if len({write["idempotency_key"] for write in operation.writes}) > 1:
                found.append(KEY_CHANGED.code)
            if self.newest_token is not None and operation.was_turned_away(self.newest_token):
                found.append(STALE_WRITE_REJECTED.code)
            if any(_is_unverified_statement(operation, entry) for entry in operation.entries):
                found.append(UNVERIFIED_LEDGER_ENTRY.code)
        return found


def _is_unverified_statement(operation: Operation, entry: Event) -> bool:
    return entry["status"] in ("confirmed", "compensated") and not operation.ok and not is_verified(entry)


def _newest_token(event: Event) -> int | None:
    takeover = event["takeover"]
    tokens = [event["fencing_token"], takeover["fencing_token"] if takeover else None]
    return max((token for token in tokens if token is not None), default=None)


_WRITE, _EFFECT = WRITE_ATTEMPTED.bit, EFFECT_TOOK_PLACE.bit
_AMBIGUOUS, _DUPLICATE, _FENCE = AMBIGUOUS_EFFECT.bit, DUPLICATE_EFFECT.bit, FENCE_VIOLATION.bit
