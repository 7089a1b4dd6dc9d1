"""What ``doctor`` looks at: configuration, broker, groups, registry, store and clocks; each finding with what to do.

Nothing is written, and nothing that is out of reach hides anything else.
"""

import hashlib
import platform
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from classifier.decide import CLASSIFIER_VERSION
from offramp import streaming
from offramp.config import PREFIX, Settings
from offramp.errors import CHECK_FAILED, COULD_NOT_CHECK, OK, ConfigurationError, CouldNotCheckError
from offramp.initialising import Provider, SchemaProvider, State, Step, TopicProvider
from offramp.session import Session, server
from schemas.redaction import Redactor
from sinks.checks import CLOCK_TOLERANCE_S, Check, check_server
from sinks.checks import Finding as StoreFinding
from sinks.errors import StoreBusy, StoreError, StoreUnavailable
from sinks.server import open_server
from streams.kafka.seam import Admin, Client, Member, TopicPartition
from streams.publish import foreign_groups
from streams.topics import Topics

PACKAGES = ("offramp", "clickhouse-connect", "chdb", "kafka-python", "confluent-kafka", "faust-streaming", "fastavro")
"""Packages whose versions are said, where they are installed."""
_NEWEST_WAIT_S = 5.0
_ACTIVE = "SELECT classifier_version, table_id, table_version FROM v_tables LIMIT 1"
_BROKER_TIME = "LogAppendTime"


class Level(StrEnum):
    """How bad a finding is."""

    WRONG = "wrong"
    """It does not work, or not as it should."""
    ADVICE = "advice"
    """It works, and could be better."""
    UNCHECKED = "unchecked"
    """It could not be looked at."""


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it should be: where, what was seen, what to do."""

    level: Level
    place: str
    reason: str
    remedy: str


@dataclass(frozen=True)
class Examined:
    """One part that was looked at: what was seen in passing, and what is not as it should be."""

    part: str
    facts: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def level(self) -> str:
        """The worst of its findings, ``ok`` if there is none."""
        found = {finding.level for finding in self.findings}
        return next((level.value for level in Level if level in found), "ok")


@dataclass(frozen=True)
class Report:
    """Everything that was looked at."""

    parts: tuple[Examined, ...]

    @property
    def exit_status(self) -> int:
        """See :mod:`offramp.errors`: advice alone is no failure."""
        levels = {finding.level for part in self.parts for finding in part.findings}
        if Level.WRONG in levels:
            return CHECK_FAILED
        return COULD_NOT_CHECK if Level.UNCHECKED in levels else OK

    def as_json(self) -> dict[str, Any]:
        """Everything, in plain JSON values."""
        return {"parts": [{"level": part.level, **asdict(part)} for part in self.parts]}

    def lines(self) -> Iterator[tuple[int, str]]:
        """Everything for people: lines with how far each is indented."""
        for part in self.parts:
            yield 0, f"{part.level:10}{part.part}"
            yield from ((1, fact) for fact in part.facts)
            for finding in part.findings:
                yield 1, f"{finding.level}: {finding.place}: {finding.reason}; {finding.remedy}"


@dataclass(frozen=True)
class Patient:
    """A deployment. ``environment`` is where its settings came from, for the files that it names."""

    session: Session
    environment: Mapping[str, str]

    @property
    def settings(self) -> Settings:
        """The settings."""
        return self.session.settings

    @property
    def topics(self) -> Topics:
        """The topics that they plan."""
        return streaming.topics(self.settings)


Look = Callable[[Patient], Iterator[Finding | str]]
"""Looks at one part: findings, and facts as text."""


def examine(patient: Patient) -> Report:
    """Look at everything. Raises nothing that one of the parts could raise."""
    return Report(tuple(_examined(part, look, patient) for part, look in PARTS.items()))


def refused(error: ConfigurationError) -> Report:
    """What is to be said where there are no settings to look at."""
    return Report((Examined("configuration", (), (_wrong("settings", error, "correct it"),)),))


def _examined(part: str, look: Look, patient: Patient) -> Examined:
    facts: list[str] = []
    findings: list[Finding] = []
    try:
        with streaming.reachable():
            for seen in look(patient):
                facts.append(seen) if isinstance(seen, str) else findings.append(seen)
    except StoreBusy as error:
        findings.append(Finding(Level.UNCHECKED, part, str(error), "look again when that has ended"))
    except StoreUnavailable as error:
        findings.append(Finding(Level.UNCHECKED, part, str(error), "end the outage, or correct where it is said to be"))
    except CouldNotCheckError as error:
        findings.append(Finding(Level.UNCHECKED, part, str(error), "then look again"))
    except (ConfigurationError, StoreError) as error:
        findings.append(_wrong(part, error, "correct it"))
    return Examined(part, tuple(facts), tuple(findings))


def _wrong(place: str, reason: object, remedy: str) -> Finding:
    return Finding(Level.WRONG, place, str(reason), remedy)


def _advice(place: str, reason: str, remedy: str) -> Finding:
    return Finding(Level.ADVICE, place, reason, remedy)


# --- configuration


def _configuration(patient: Patient) -> Iterator[Finding | str]:
    settings = patient.settings
    yield from _files(settings)
    yield from _secrets(patient)
    yield from _decisions(patient)
    yield from _redaction_key(settings)


def _redaction_key(settings: Settings) -> Iterator[Finding | str]:
    key = settings.redaction.key
    if key is not None:
        yield f"redaction key {fingerprint(key.get_secret_value())}, which must be the same on every worker"
    elif settings.kafka.servers:
        reason = "each machine makes its own, and then the same secret has two digests"
        yield _advice("redaction.key", reason, f"give all workers one key, by {PREFIX}REDACTION__KEY_FILE")


def fingerprint(key: str) -> str:
    """Eight digits by which people compare keys. Made so slowly that nobody finds a key by trying."""
    return hashlib.scrypt(key.encode(), salt=b"offramp redaction key", n=2**14, r=8, p=1, dklen=4).hex()


def _files(settings: Settings) -> Iterator[Finding]:
    """Files that the settings name and that cannot be read, and private keys that others can."""
    for section in ("store", "kafka", "registry"):
        for key, value in getattr(settings, section):
            if isinstance(value, Path) and (section, key) != ("store", "path"):
                yield from _file(f"{section}.{key}", value, is_secret=key == "key")


def _secrets(patient: Patient) -> Iterator[Finding]:
    for name, path in sorted(patient.environment.items()):
        if name.startswith(PREFIX) and name.endswith("_FILE"):
            yield from _file(name, Path(path), is_secret=True)


def _file(place: str, path: Path, *, is_secret: bool) -> Iterator[Finding]:
    try:
        with path.open("rb"):
            mode = path.stat().st_mode
    except OSError as error:
        yield _wrong(place, f"{path}: {error.strerror}", "name a file that this user may read")
        return
    if is_secret and mode & stat.S_IRWXO:
        yield _advice(place, f"{path}: every user of this machine may read it", f"run `chmod o-rwx {path}`")


def _decisions(patient: Patient) -> Iterator[Finding | str]:
    try:
        table = patient.session.table.file
        yield f"decision table {table.id}, version {table.version}"
    except ConfigurationError as error:
        yield _wrong("classify.table", error, "correct the table, or name another")
    try:
        Redactor(None, tuple(patient.settings.redaction.paths))
    except ValueError as error:
        yield _wrong("redaction.paths", error, "correct the path")


def _versions(_patient: Patient) -> Iterator[str]:
    yield f"Python {platform.python_version()}, classifier {CLASSIFIER_VERSION}"
    yield ", ".join(f"{name} {found}" for name in PACKAGES if (found := _installed(name)))


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


# --- broker


def _broker(patient: Patient) -> Iterator[Finding | str]:
    if not patient.settings.kafka.servers:
        yield "none is configured"
        return
    with closing(streaming.client(patient.settings.kafka).admin()) as admin:
        yield from _planned(
            TopicProvider(admin, patient.topics), "plan it as it is, or change it with Kafka's own tools"
        )


def _planned(provider: Provider, remedy: str) -> Iterator[Finding | str]:
    """What of a deployment is not there, or not as planned."""
    steps = provider.plan()
    yield from (_step(step, remedy) for step in steps if step.state is not State.THERE)
    there = sum(step.state is State.THERE for step in steps)
    yield f"{there} of {len(steps)} as planned"


def _step(step: Step, remedy: str) -> Finding:
    if step.state is State.MISSING:
        return _wrong(step.name, f"there is no such {step.part}", "run `offramp init`")
    return _wrong(step.name, "; ".join(step.differences), remedy)


def _groups(patient: Patient) -> Iterator[Finding | str]:
    kafka, topics = patient.settings.kafka, patient.topics
    if not kafka.servers:
        return
    ours = {kafka.classify_group: "kafka.classify_group", kafka.lifecycle_group: "kafka.lifecycle_group"}
    with closing(streaming.client(kafka).admin()) as admin:
        # Of those that are there: a new broker cannot look for others, and says that it is not available.
        for group in admin.describe_groups(admin.groups() & ours.keys()).values():
            yield f"group {group.name}: {len(group.members)} at work, {group.state}"
            for member in group.members:
                yield from _member(member, ours[group.name], patient)
        yield from _others(admin, topics, tuple(ours))


def _member(member: Member, place: str, patient: Patient) -> Iterator[Finding]:
    foreign = member.topics - {topic.name for topic in patient.topics}
    who = f"{member.client_id or member.member_id} at {member.host}"
    if foreign:
        reason = f"{who} is in our group and reads {', '.join(sorted(foreign))}, so it is another program"
        yield _wrong(place, reason, "give one of the two another group, or part of the messages is never seen here")
    elif member.client_id != patient.settings.kafka.client_id:
        reason = f"{who} is in our group under another name than {patient.settings.kafka.client_id}"
        yield _advice(place, reason, "see that it is a worker of this deployment")


def _others(admin: Admin, topics: Topics, ours: tuple[str, ...]) -> Iterator[Finding | str]:
    """Who else reads what we read, which is as it should be, and what only we may read, which is not."""
    for found in foreign_groups(admin, [topic.name for topic in topics.inputs], ours):
        if found.topic == topics.redrive.name:
            yield _wrong(found.topic, f"group {found.group} {found.reading}", "let nobody but us read what is redriven")
        else:
            yield f"beside us, group {found.group} {found.reading}: {found.topic}"


def _broker_clock(patient: Patient) -> Iterator[Finding | str]:
    """A broker tells its time by what it stamps: a stamp from our future says that its clock, or ours, is wrong."""
    if not patient.settings.kafka.servers:
        return
    client, clock = streaming.client(patient.settings.kafka), patient.session.clock
    stamped = _newest_stamp(client, patient.topics)
    if stamped is None:
        yield "nothing in the topics tells the broker's time"
        return
    ahead = (stamped - clock.now_micros()) / 1_000_000
    if ahead > CLOCK_TOLERANCE_S:
        yield _wrong(
            "clock", f"the broker stamped a message {ahead:.1f} s ahead of our clock", "synchronise both clocks"
        )
    else:
        yield "no message is stamped ahead of our clock; whether the broker's is behind, nothing tells"


def _newest_stamp(client: Client, topics: Topics) -> int | None:
    """The newest time in microseconds that the broker itself put on a last message of a partition."""
    with ExitStack() as stack:
        admin = stack.enter_context(closing(client.admin()))
        found = admin.describe_topics([topic.name for topic in topics])
        stamping = [topic for topic in found.values() if topic.config.get("message.timestamp.type") == _BROKER_TIME]
        partitions = [TopicPartition(topic.name, number) for topic in stamping for number in range(topic.partitions)]
        reader = stack.enter_context(closing(client.reader(partitions)))
        beginnings, ends = reader.beginning_offsets(partitions), reader.end_offsets(partitions)
        filled = [each for each in partitions if ends[each] > beginnings[each]]
        for each in partitions:
            # A reader reads all that it was given; what is empty brings nothing.
            reader.seek(each, max(beginnings[each], ends[each] - 1))
        fetched = reader.poll(_NEWEST_WAIT_S, len(filled)) if filled else []
    return max((m.timestamp_us for part in fetched for m in part.messages if m.timestamp_us is not None), default=None)


# --- registry


def _registry(patient: Patient) -> Iterator[Finding | str]:
    found = streaming.registry(patient.settings.registry, patient.session.clock)
    if found is None:
        yield "none is configured"
        return
    with closing(found):
        yield from _planned(SchemaProvider(found, patient.topics), "see what else registers schemas there")


# --- store


def _store(patient: Patient) -> Iterator[Finding | str]:
    yield patient.settings.store.place
    if patient.settings.store.url is None:
        yield from _embedded(patient)
    else:
        yield from _server(patient)


def _embedded(patient: Patient) -> Iterator[Finding | str]:
    if not patient.session.may_have_store:
        yield "it is made when something is first stored"
    elif pending := patient.session.pending_migrations("doctor"):
        yield _wrong("store.path", f"not applied: {', '.join(pending)}", "run `offramp init`")


def _server(patient: Patient) -> Iterator[Finding | str]:
    where, now = server(patient.settings.store), patient.session.clock.now_micros
    findings = check_server(where, now)
    yield from map(_of_store, findings)
    if not any(finding.stops for finding in findings):
        with open_server(where, now) as store:
            active = store.select(_ACTIVE)
        yield from (_active(row, patient) for row in active)


_WORTH_CORRECTING = frozenset({Check.READER_WRITES, Check.MAY_DROP})


def _of_store(found: StoreFinding) -> Finding:
    if found.code is Check.UNREACHABLE:
        return Finding(Level.UNCHECKED, "store.url", found.what, found.remedy)
    level = Level.ADVICE if found.code in _WORTH_CORRECTING else Level.WRONG
    return Finding(level, found.code.value, found.what, found.remedy)


def _active(row: Mapping[str, Any], patient: Patient) -> Finding | str:
    table = patient.session.table.file
    theirs = (row["table_id"], row["table_version"], row["classifier_version"])
    said = "the current exits are those of table {}, version {}, by classifier {}".format(*theirs)
    if theirs == (table.id, table.version, CLASSIFIER_VERSION):
        return said
    return _advice("classify", f"{said}, which is not ours", "finish the upgrade, then run `offramp rebuild`")


PARTS: Mapping[str, Look] = {
    "configuration": _configuration,
    "versions": _versions,
    "topics": _broker,
    "groups": _groups,
    "clock of the broker": _broker_clock,
    "registry": _registry,
    "store": _store,
}
"""Everything that is looked at, in this order."""
