"""Side effects: what became of each attempted mutation, from the attempts, the ledger and takeover acknowledgements."""

from classifier.fact import Event, Fact, Finding

AMBIGUOUS_EFFECT = Fact(2, "ambiguous_effect", "an attempted mutation may or may not have taken effect")
DUPLICATE_EFFECT = Fact(4, "duplicate_effect", "one operation took effect more than once")
FENCE_VIOLATION = Fact(1, "fence_violation", "a write with an outdated fencing token took, or may have taken, effect")
WRITE_ATTEMPTED = Fact(40, "write_attempted", "a mutation was attempted; access that is not read counts as write")
EFFECT_TOOK_PLACE = Fact(41, "effect_took_place", "a mutation took effect, by its own answer or by the ledger")
FACTS: tuple[Fact, ...] = (FENCE_VIOLATION, AMBIGUOUS_EFFECT, DUPLICATE_EFFECT, WRITE_ATTEMPTED, EFFECT_TOOK_PLACE)

KEY_CHANGED = Finding("idempotency_key_changed", "attempts of one operation carry different idempotency keys")
STALE_WRITE_REJECTED = Finding("stale_write_rejected", "a write with an outdated fencing token was turned away")
UNVERIFIED_LEDGER_ENTRY = Finding("unverified_ledger_entry", "the ledger states an outcome that nothing established")
FINDINGS: tuple[Finding, ...] = (KEY_CHANGED, STALE_WRITE_REJECTED, UNVERIFIED_LEDGER_ENTRY)

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
    """Whether the attempt carries proof that nothing happened. ``effect_possible = true`` outweighs a status."""
    possible, outcome = call["effect_possible"], call["outcome"]
    if possible is False or outcome in _PROVEN_OUTCOMES:
        return True
    return possible is not True and is_auth_status(call)


class Operation:
    """One logical mutation: its write attempts, its ledger entries and what follows from them.

    ``ok`` are the attempts that returned ok, ``unproven`` those that failed without proof that nothing happened.
    ``took_effect``: an attempt returned ok, or the ledger says confirmed or compensated. ``is_compensated``: the ledger
    says that what took effect was taken back, and of nothing else that it stands.
    """

    __slots__ = (
        "acks", "ambiguous", "denied", "entries", "id", "is_compensated", "is_duplicate", "ok", "took_effect",
        "unproven", "writes",
    )  # fmt: skip

    def __init__(self, operation_id: str | None) -> None:
        self.id = operation_id
        self.writes: list[Event] = []
        self.entries: list[Event] = []
        self.ok: list[Event] = []
        self.unproven: list[Event] = []
        self.acks = 0
        self.ambiguous = self.took_effect = self.is_duplicate = self.is_compensated = self.denied = False

    def settle(self, strangers: list[Event]) -> None:
        """Establish everything that follows from the attempts and entries gathered. ``strangers`` are writes that
        returned ok and name no operation: any of the same tool may be this one's."""
        for write in self.writes:
            if write["outcome"] == "ok":
                self.ok.append(write)
            elif not is_proven_harmless(write):
                self.unproven.append(write)
        self.took_effect = bool(self.ok)
        self.is_duplicate = len(self.ok) > 1 and not has_one_key(self.ok)
        self.ambiguous = bool(self.unproven) or (self.acks > 0 and not self.ok)
        if self.entries:
            tools = {record["tool"] for record in (*self.writes, *self.entries)} | {None} if strangers else set()
            self._read_ledger([write for write in strangers if write["tool"] in tools])

    def _read_ledger(self, strangers: list[Event]) -> None:
        """Let the ledger's entries speak: they may settle what the attempts left open, or open it again."""
        settling, confirmed, compensated = set(), 0, False
        for entry in self.entries:
            status = entry["status"]
            if status in _SETTLING and (self.ok or is_verified(entry)):
                settling.add(status)
            if status == "confirmed":
                confirmed += max(entry["count"] or 1, 1)
            elif status == "compensated":
                compensated = True
        self.took_effect = self.took_effect or compensated or confirmed > 0
        self.is_duplicate = self.is_duplicate or confirmed > 1
        self.is_compensated = compensated and not confirmed
        if any(entry["status"] not in _SETTLING for entry in self.entries):
            self.ambiguous = True
        elif settling and self.ambiguous:
            self.ambiguous = "not_started" not in settling and not self._covers_unproven(strangers)

    def _covers_unproven(self, strangers: list[Event]) -> bool:
        """Whether a confirmation is about every attempt without proof: it speaks for attempts under its own key only,
        and no key is never the same key."""
        attempts = self.ok + self.unproven + strangers
        return len(attempts) < 2 or has_one_key(attempts)

    @property
    def contradicts_itself(self) -> bool:
        """Whether ledger and attempts exclude each other."""
        if not self.entries or not self.writes:
            return False
        statuses = {entry["status"] for entry in self.entries}
        if self.ok and "not_started" in statuses:
            return True
        if "confirmed" not in statuses or self.denied:
            return False
        return all(is_proven_harmless(write) for write in self.writes)

    @property
    def may_have_effect(self) -> bool:
        """Whether it took effect or may have."""
        return self.took_effect or self.ambiguous

    @property
    def effect_starts(self) -> list[int | None]:
        """When each attempt started that took, or may have taken, effect; None where that is not known, as of an effect
        that only the ledger knows."""
        return [write["started_at"] for write in self.ok + self.unproven] or [None]

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
        never = not self.took_effect and any(e["status"] == "not_started" and is_verified(e) for e in self.entries)
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
        self.newest_token = _newest_token(event) if self.operations else None
        if self.operations:
            self._settle()

    def _settle(self) -> None:
        strangers = [
            write for op in self.operations if op.id is None for write in op.writes if write["outcome"] == "ok"
        ]
        for operation in self.operations:
            operation.settle(strangers if operation.id is not None else [])
            self.bits |= self._facts_of(operation)

    def _gather(self, event: Event) -> None:
        calls: list[Event] = event["tool_calls"]
        for call in calls:
            if call["access"] != "read":
                self._operation(call["operation_id"]).writes.append(call)
        entries: list[Event] = event["side_effects"]
        for entry in entries:
            self._operation(entry["operation_id"]).entries.append(entry)
        takeover = event["takeover"]
        if takeover and takeover["acks"]:
            self._gather_acks(takeover["acks"], calls)

    def _gather_acks(self, acks: list[Event], calls: list[Event]) -> None:
        """Acknowledgements that leave an operation open. One that only reads, and answered, is not open."""
        answered = {call["operation_id"] for call in calls if call["outcome"] == "ok"} - {None} - self.by_id.keys()
        for ack in acks:
            if ack["ack"] not in ("never_started", "stopped_before_call") and ack["operation_id"] not in answered:
                self._operation(ack["operation_id"]).acks += 1

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
            if len(operation.writes) > 1 and len({write["idempotency_key"] for write in operation.writes}) > 1:
                found.append(KEY_CHANGED.code)
            if self.newest_token is not None and operation.was_turned_away(self.newest_token):
                found.append(STALE_WRITE_REJECTED.code)
            if not operation.ok and any(_states_without_proof(entry) for entry in operation.entries):
                found.append(UNVERIFIED_LEDGER_ENTRY.code)
        return found


def _states_without_proof(entry: Event) -> bool:
    return entry["status"] in ("confirmed", "compensated") and not is_verified(entry)


def _newest_token(event: Event) -> int | None:
    """The newest token that the run or the takeover knows of."""
    own: int | None = event["fencing_token"]
    takeover = event["takeover"]
    if not takeover or takeover["fencing_token"] is None:
        return own
    token: int = takeover["fencing_token"]
    return token if own is None else max(own, token)


_WRITE, _EFFECT = WRITE_ATTEMPTED.bit, EFFECT_TOOK_PLACE.bit
_AMBIGUOUS, _DUPLICATE, _FENCE = AMBIGUOUS_EFFECT.bit, DUPLICATE_EFFECT.bit, FENCE_VIOLATION.bit
