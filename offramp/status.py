"""What ``status`` shows: how a deployment is now, from its broker and its store, on one screen.

Each part is asked for itself, so that what is out of reach hides nothing else: it is said, and the answer is "could not
check". Only reads.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, TypeVar

from alerts.model import Alert
from offramp import streaming
from offramp.alert_listing import STALE_US
from offramp.alert_rules import words
from offramp.auditing import Audit
from offramp.books import closed
from offramp.console import counted
from offramp.errors import CHECK_FAILED, COULD_NOT_CHECK, OK, CouldNotCheckError
from offramp.session import Session
from schemas.types import to_iso
from sinks.alerts import AlertsStore
from sinks.errors import StoreBusy, StoreDamaged, StoreUnavailable
from sinks.rows import Disposition
from sinks.store import Store
from streams.alert_inputs import alert_of
from streams.kafka.seam import Group, Topic
from streams.topics import Topic as Planned

_Answer = TypeVar("_Answer")
_HOUR_US = 3_600_000_000
_DAY_US = 24 * _HOUR_US
_OUT_OF_REACH = (CouldNotCheckError, StoreBusy, StoreDamaged, StoreUnavailable)
_SHOWN_REASONS = 5
_SHOWN_ALERTS = 3
_NEWEST = """
    SELECT max(occurred_at) AS occurred_at, max(ingested_at) AS stored_at
    FROM terminal_events HAVING count() > 0
"""
_DEAD_LETTERS = """
    SELECT reason_code, countIf(recorded_at >= fromUnixTimestamp64Micro({hour:Int64})) AS hour, count() AS day
    FROM v_dead_letters WHERE recorded_at >= fromUnixTimestamp64Micro({day:Int64})
    GROUP BY reason_code ORDER BY day DESC, reason_code
"""
_CONFLICTS = "SELECT count() AS conflicts FROM v_conflicts"
_OPEN = """
    SELECT (SELECT count() FROM v_open_partials) AS partials, count() AS reviews, countIf(overdue) AS overdue
    FROM v_open_reviews
"""


@dataclass(frozen=True)
class TopicStatus:
    """A topic that is read. ``partitions`` is 0 where the broker has no such topic; ``lag`` is in messages, None where
    store or broker do not say."""

    name: str
    partitions: int
    lag: int | None


@dataclass(frozen=True)
class GroupStatus:
    """A consumer group of ours: its state in Kafka's word, and how many members it has."""

    name: str
    state: str
    members: int


@dataclass(frozen=True)
class AlertStatus:
    """What fires, pages first, and when that was judged last: microseconds, None if nobody ever did."""

    judged_at: int | None
    firing: tuple[Alert, ...]

    def is_stale(self, now: int) -> bool:
        """Whether nobody has judged lately, so that what fires at ``now`` is not known."""
        return self.judged_at is None or now - self.judged_at > STALE_US


@dataclass(frozen=True)
class StoreStatus:
    """What the store holds. Times are microseconds, None if there is no event; dead letters are the last hour's and the
    last day's by reason."""

    newest_event_at: int | None
    newest_stored_at: int | None
    ledger: Mapping[str, int]
    dead_letters: Mapping[str, tuple[int, int]]
    conflicts: int
    open_partials: int
    open_reviews: int
    overdue_reviews: int
    alerts: AlertStatus


@dataclass
class Status:
    """Asks and remembers. ``unchecked`` says what was out of reach, by what it is."""

    session: Session
    audits: bool = True
    at: int = 0
    topics: list[TopicStatus] = field(default_factory=list)
    groups: list[GroupStatus] = field(default_factory=list)
    store: StoreStatus | None = None
    unaccounted: int | None = None
    unchecked: dict[str, str] = field(default_factory=dict)

    def ask(self) -> None:
        """Ask broker and store. Raises ConfigurationError, StoreForbidden, StoreRejected."""
        self.at = self.session.clock.now_micros()
        found = self._tried("broker", self._ask_broker) if self.session.settings.kafka.servers else None
        audit = self._tried("store", lambda: self._ask_store(with_broker=found is not None))
        if found is not None:
            lags = {} if audit is None else _lags(audit)
            self.topics = [_topic_status(topic.name, found, lags) for topic in self._inputs]

    @property
    def _inputs(self) -> tuple[Planned, ...]:
        return streaming.topics(self.session.settings).inputs

    def _tried(self, what: str, ask: Callable[[], _Answer]) -> _Answer | None:
        try:
            with streaming.reachable():
                return ask()
        except _OUT_OF_REACH as error:
            self.unchecked[what] = str(error)
            return None

    def _ask_broker(self) -> dict[str, Topic]:
        """The topics that are read and exist, by name. Raises BrokerError."""
        kafka = self.session.settings.kafka
        ours = (kafka.classify_group, kafka.lifecycle_group)
        with closing(streaming.client(kafka).admin()) as admin:
            found = admin.describe_topics([topic.name for topic in self._inputs])
            # Of those that are there: a new broker cannot look for others, and says that it is not available.
            groups = admin.describe_groups(admin.groups() & frozenset(ours))
        self.groups = [_group_status(name, groups.get(name)) for name in ours]
        return found

    def _ask_store(self, *, with_broker: bool) -> Audit | None:
        """Raises StoreError, CouldNotCheckError."""
        session = self.session
        with session.existing_store("status") as store:
            self.store = self._stored(store)
            audit = self._tried("audit", lambda: self._audit(store, with_broker=with_broker)) if self.audits else None
        self.unaccounted = None if audit is None else audit.unaccounted
        return audit

    def _audit(self, store: Store, *, with_broker: bool) -> Audit:
        return closed(self.session.settings, self.session.clock, store, with_broker=with_broker)

    def _stored(self, store: Store) -> StoreStatus:
        newest = store.select(_NEWEST) or [{"occurred_at": None, "stored_at": None}]
        since = {"hour": self.at - _HOUR_US, "day": self.at - _DAY_US}
        letters = {row["reason_code"]: (row["hour"], row["day"]) for row in store.select(_DEAD_LETTERS, since)}
        (conflicts,), (open_items,) = store.select(_CONFLICTS), store.select(_OPEN)
        return StoreStatus(
            newest_event_at=newest[0]["occurred_at"],
            newest_stored_at=newest[0]["stored_at"],
            ledger=_ledger(store),
            dead_letters=letters,
            conflicts=conflicts["conflicts"],
            open_partials=open_items["partials"],
            open_reviews=open_items["reviews"],
            overdue_reviews=open_items["overdue"],
            alerts=_alerts(AlertsStore(store), self.at),
        )

    # --- what it means

    @property
    def missing_topics(self) -> list[str]:
        """Topics that are read and that the broker does not have."""
        return [topic.name for topic in self.topics if not topic.partitions]

    @property
    def exit_status(self) -> int:
        """See :mod:`offramp.errors`: 1 if anything is unaccounted for or missing, 3 if something was out of reach."""
        if self.unaccounted or self.missing_topics:
            return CHECK_FAILED
        return COULD_NOT_CHECK if self.unchecked else OK

    # --- for programs

    def as_json(self) -> dict[str, Any]:
        """Everything, in plain JSON values. Ages are in seconds."""
        return {
            "at": to_iso(self.at),
            "topics": [vars(topic) for topic in self.topics],
            "groups": [vars(group) for group in self.groups],
            "store": None if self.store is None else self._store_json(self.store),
            "unaccounted": self.unaccounted,
            "unchecked": self.unchecked,
        }

    def _store_json(self, store: StoreStatus) -> dict[str, Any]:
        newest, stored = store.newest_event_at, store.newest_stored_at
        letters = {code: {"hour": hour, "day": day} for code, (hour, day) in store.dead_letters.items()}
        return {
            "newest_event_at": None if newest is None else to_iso(newest),
            "newest_event_age_s": None if newest is None else (self.at - newest) / 1_000_000,
            "newest_stored_at": None if stored is None else to_iso(stored),
            "ledger": dict(store.ledger),
            "dead_letters": letters,
            "conflicts": store.conflicts,
            "open_partials": store.open_partials,
            "open_reviews": store.open_reviews,
            "overdue_reviews": store.overdue_reviews,
            "alerts": self._alerts_json(store.alerts),
        }

    def _alerts_json(self, alerts: AlertStatus) -> dict[str, Any]:
        return {
            "judged_at": None if alerts.judged_at is None else to_iso(alerts.judged_at),
            "is_stale": alerts.is_stale(self.at),
            "firing": [
                {"rule": alert.rule, "scope": alert.scope._asdict(), "severity": alert.severity,
                 "fired_at": to_iso(_fired_at(alert))}
                for alert in alerts.firing
            ],
        }  # fmt: skip

    # --- for people

    def lines(self) -> Iterator[str]:
        """One screen."""
        yield f"{'at':13}{to_iso(self.at)}"
        yield from self._broker_lines()
        if self.store is not None:
            yield from self._store_lines(self.store)
        if self.unaccounted is not None:
            remedy = "; `offramp audit` says where" if self.unaccounted else ""
            yield f"{'unaccounted':13}{self.unaccounted:,}{remedy}"
        for what, reason in self.unchecked.items():
            yield f"{'not checked':13}{what}: {reason}"

    def _broker_lines(self) -> Iterator[str]:
        if not self.session.settings.kafka.servers:
            yield f"{'broker':13}none is configured"
        for group in self.groups:
            yield f"{'group':13}{group.name}: {group.members} at work, {group.state}"
        if self.topics:
            yield f"{'topic':45}{'partitions':>15}{'lag':>20}"
        for topic in self.topics:
            lag = "unknown" if topic.lag is None else f"{topic.lag:,}"
            shown = lag if topic.partitions else "missing; run `init`"
            yield f"  {_cut(topic.name, 43):43}{topic.partitions:>15,}{shown:>20}"

    def _store_lines(self, store: StoreStatus) -> Iterator[str]:
        if store.newest_event_at is None or store.newest_stored_at is None:
            yield f"{'newest event':13}none yet"
        else:
            ages = [age(self.at - then) for then in (store.newest_event_at, store.newest_stored_at)]
            yield f"{'newest event':13}{ages[0]}; one was stored {ages[1]}"
        yield f"{'ledger':13}{store.ledger['read']:,} read"
        yield from (
            f"  {_name(name):43}{count:>35,}" for name, count in store.ledger.items() if name != "read" and count
        )
        yield from _letter_lines(store.dead_letters)
        yield f"{'conflicts':13}{store.conflicts:,}"
        reviews = f"{store.open_reviews:,} reviews, {store.overdue_reviews:,} overdue"
        yield f"{'open':13}{store.open_partials:,} partials, {reviews}"
        yield from self._alert_lines(store.alerts)

    def _alert_lines(self, alerts: AlertStatus) -> Iterator[str]:
        yield f"{'alerts':13}{_headline(alerts.firing)}; {self._judged(alerts)}"
        for alert in alerts.firing[:_SHOWN_ALERTS]:
            about = _cut(f"{alert.rule}: {words(alert.scope)}", 58)
            yield f"  {alert.severity:8}{about:58}{age(self.at - _fired_at(alert)):>12}"
        if alerts.firing:
            more = max(0, len(alerts.firing) - _SHOWN_ALERTS)
            yield f"  {f'and {more:,} more; ' if more else ''}`offramp alerts list` says why"

    def _judged(self, alerts: AlertStatus) -> str:
        if alerts.judged_at is None:
            return "nobody judges them; `offramp run lifecycle` does"
        stale = ", so what fires now is not known" if alerts.is_stale(self.at) else ""
        return f"judged {age(self.at - alerts.judged_at)}{stale}"


def _group_status(name: str, group: Group | None) -> GroupStatus:
    return GroupStatus(name, "not there" if group is None else group.state, 0 if group is None else len(group.members))


def _ledger(store: Store) -> dict[str, int]:
    totals: Counter[str] = Counter(read=0)
    for one in store.ledger_totals():
        totals.update({name: getattr(one, name) for name in ("read", *(fate.value for fate in Disposition))})
    return dict(totals)


def _alerts(store: AlertsStore, now: int) -> AlertStatus:
    judged_at = max((each.evaluated_at for each in store.evaluations()), default=None)
    standing = map(alert_of, store.alerts(resolved_since=now))
    return AlertStatus(judged_at, tuple(alert for alert in standing if alert.state == "firing"))


def _fired_at(alert: Alert) -> int:
    return alert.since if alert.fired_at is None else alert.fired_at


def _headline(firing: Sequence[Alert]) -> str:
    pages = sum(alert.severity == "page" for alert in firing)
    return f"{counted(pages, 'page')} and {counted(len(firing) - pages, 'ticket')} firing" if firing else "none fires"


def _lags(audit: Audit) -> dict[str, int]:
    """Messages that are still to be read, by topic."""
    lags: Counter[str] = Counter()
    for each in audit.partitions:
        if each.log is not None:
            lags[each.source] += each.log.lag
    return dict(lags)


def _topic_status(name: str, found: Mapping[str, Topic], lags: Mapping[str, int]) -> TopicStatus:
    topic = found.get(name)
    return TopicStatus(name, 0 if topic is None else topic.partitions, lags.get(name))


def _letter_lines(letters: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    hour, day = (sum(counts[n] for counts in letters.values()) for n in (0, 1))
    yield f"{'dead letters':13}{hour:,} in the last hour, {day:,} in the last day"
    shown = list(letters.items())[:_SHOWN_REASONS]
    yield from (f"  {code:43}{counts[0]:>15,}{counts[1]:>20,}" for code, counts in shown)
    if more := len(letters) - len(shown):
        yield f"  and {more} more reasons"


def _name(disposition: str) -> str:
    return disposition.replace("_", "-")


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def age(micros: int) -> str:
    """How long ago something was, in words; what has yet to come says so."""
    seconds = abs(micros) // 1_000_000
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return _told(f"{seconds // length} {unit}", micros)
    return _told(f"{seconds} s", micros)


def _told(length: str, micros: int) -> str:
    return f"{length} ago" if micros >= 0 else f"{length} ahead of our clock"
