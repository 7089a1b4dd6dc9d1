"""Configuration, resolved once: one TOML file, then ``OFFRAMP_SECTION__KEY`` in the environment, then flags.

Unknown keys are errors, in the file and in the environment. A secret may be given as ``OFFRAMP_SECTION__KEY_FILE``, the
path of a file that holds it.
"""

import os
import re
import secrets
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

from offramp.errors import ConfigurationError
from streams.cut import Limits
from streams.topics import Sizing, Topics

PREFIX = "OFFRAMP_"
DEFAULT_FILE = "offramp.toml"
_SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/]+):\d{1,5}")
_SECRETS = {
    ("redaction", "key"),
    ("store", "password"),
    ("store", "reader_password"),
    ("kafka", "password"),
    ("registry", "password"),
    ("alerts", "alertmanager_token"),
    ("alerts", "webhook"),
    ("alerts", "webhook_token"),
}


def _nameable(path: Path) -> Path:
    if "\0" in str(path):
        raise ValueError("must not hold a NUL character")
    return path


def _hosts_and_ports(servers: list[str]) -> list[str]:
    for server in servers:
        if not _SERVER.fullmatch(server) or not 0 < int(server.rpartition(":")[2]) < 1 << 16:
            raise ValueError(f"{server} is not host:port")
    return servers


_Path = Annotated[Path, AfterValidator(_nameable)]


_MOST_DAYS = 18_250
"""Fifty years. What is kept for longer ends behind 2106, where a server's dates may end and begin again in 1970."""
_UNITS_A_DAY = {"days": 1, "s": 86_400}


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*")
    @classmethod
    def _in_reach(cls, value: Any, info: ValidationInfo) -> Any:
        name = str(info.field_name)
        most = _MOST_DAYS * _UNITS_A_DAY.get(name.rpartition("_")[2], 0)
        if not most or value is None or value <= most:
            return value
        remedy = "; leave it out to keep everything" if cls.model_fields[name].default is None else ""
        raise ValueError(f"must be at most {most}, which are fifty years{remedy}")


class StoreSettings(_Section):
    """Where results are kept: in a directory, or in a ClickHouse server if it has a URL."""

    path: _Path = Field(Path(".offramp"), description="directory of the embedded store")
    lock_timeout_s: float = Field(10.0, ge=0, description="seconds to wait for whoever owns the embedded store")
    url: str | None = Field(None, description="ClickHouse server, as http://HOST:PORT or https://HOST:PORT")
    database: str = Field("default", min_length=1, description="its database, which must exist")
    user: str = Field("default", min_length=1, description="user that writes")
    password: SecretStr | None = Field(None, description="its password")
    reader: str | None = Field(
        None, min_length=1, description="user that asks what people ask; else the one that writes"
    )
    reader_password: SecretStr | None = Field(None, description="its password")
    ca: _Path | None = Field(None, description="certificate authorities, as PEM; the usual ones if absent")
    certificate: _Path | None = Field(None, description="our certificate, as PEM")
    key: _Path | None = Field(None, description="its private key, as PEM")
    verify: bool = Field(default=True, description="whether the server's certificate must be trusted")
    server_host_name: str | None = Field(None, description="name in its certificate, where it is not that of the URL")
    connect_timeout_s: int = Field(10, ge=1, description="seconds to wait for a connection")
    timeout_s: int = Field(300, ge=1, description="seconds to wait for an answer")
    compression: bool = Field(default=True, description="whether answers to people are compressed on the way")
    cluster: str | None = Field(None, pattern=r"^[\w.-]+$", description="cluster on which tables are made")
    replicated: bool = Field(default=False, description="whether tables are made with replicas")
    sharded: bool = Field(default=False, description="whether tables are spread over the shards of the cluster")
    keep_events_days: int | None = Field(None, ge=1, description="days that new tables keep events and exits")
    keep_companions_days: int | None = Field(None, ge=1, description="days that new tables keep companions")
    keep_ledger_days: int | None = Field(
        None, ge=1, description="days that new tables keep the ledger, dead letters and conflicts"
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.sharded and self.cluster is None:
            raise ValueError("shards are those of a cluster; set store.cluster")
        if self.url is not None and "path" in self.model_fields_set:
            raise ValueError("store.path and store.url exclude each other; leave one out")
        return self

    @property
    def place(self) -> str:
        """Where the store is, for people."""
        return str(self.path) if self.url is None else f"{self.url}, database {self.database}"


class RedactionSettings(_Section):
    """What is kept out of everything that is stored or shown, besides secrets that show by their form."""

    key: SecretStr | None = Field(None, min_length=16, description="key of the digests that replace secrets")
    paths: list[str] = Field(default_factory=list, description="fields that become digests wholly")


class ClassifySettings(_Section):
    """How events are classified."""

    table: _Path | None = Field(None, description="decision table; the default table if absent")
    unproven: bool = Field(default=False, description="decide by the table even if its proof fails; its exits say so")
    workers: int | None = Field(None, ge=0, le=256, description="worker processes; one per core if absent")


class KafkaSettings(_Section):
    """Which cluster, as whom. Without servers there is no broker, and everything runs on files."""

    servers: Annotated[list[str], AfterValidator(_hosts_and_ports)] = Field(
        default_factory=list, description="brokers to begin with, each as host:port"
    )
    client: Literal["kafka-python", "confluent"] = Field("kafka-python", description="client library")
    client_id: str = Field("offramp", description="name that brokers log")
    timeout_s: float = Field(30.0, gt=0, description="seconds to wait for an answer")
    classify_group: str = Field("offramp-classify", min_length=1, description="consumer group of the classify worker")
    lifecycle_group: str = Field("offramp-lifecycle", min_length=1, description="consumer group of the lifecycle app")
    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="security.protocol"
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        "SCRAM-SHA-512", description="how name and password are sent"
    )
    username: str = Field("", description="name for SASL")
    password: SecretStr | None = Field(None, description="password for SASL")
    ca: _Path | None = Field(None, description="certificate authorities, as PEM; those of the system if absent")
    certificate: _Path | None = Field(None, description="our certificate, as PEM")
    key: _Path | None = Field(None, description="its private key, as PEM")
    check_hostname: bool = Field(default=True, description="whether a broker's certificate must name its host")


class RegistrySettings(_Section):
    """The schema registry that gives Confluent frames their ids. Without a URL there is none."""

    url: str | None = Field(None, description="address, such as https://registry:8081")
    username: str = Field("", description="name for basic authentication")
    password: SecretStr | None = Field(None, description="password for basic authentication")
    ca: _Path | None = Field(None, description="certificate authorities, as PEM; those of the system if absent")
    timeout_s: float = Field(10.0, gt=0, description="seconds until an answer must be whole")
    unknown_for_s: float = Field(10.0, ge=0, description="seconds for which an unknown id is not asked for again")


class TopicsSettings(_Section):
    """How topics are named and made by `offramp init`. What exists is never changed."""

    prefix: str = Field("", description="what every topic's name begins with")
    trial_prefix: str = Field("trial.", min_length=1, description="the same, of the topics that `publish` writes to")
    partitions: int = Field(Sizing.partitions, ge=1, description="partitions of every topic but exit-alerts")
    replication_factor: int = Field(
        Sizing.replication_factor, ge=1, description="copies of each partition; all but one of several confirm a write"
    )
    retention_days: float = Field(Sizing.retention_days, gt=0, description="days that messages are kept")
    dead_letter_retention_days: float = Field(
        Sizing.dead_letter_retention_days, gt=0, description="days that dead letters are kept"
    )
    max_message_bytes: int = Field(Sizing.max_message_bytes, ge=1024, description="largest batch of messages")
    overrides: list[str] = Field(
        default_factory=list, description="what differs for one topic, each as TOPIC:SETTING=VALUE"
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        Topics.planned(self.sizing())
        Topics.planned(self.sizing(trial=True))
        return self

    def sizing(self, *, trial: bool = False) -> Sizing:
        """What the topics, or those of a trial, are planned by."""
        return Sizing(
            prefix=self.trial_prefix if trial else self.prefix,
            partitions=self.partitions,
            replication_factor=self.replication_factor,
            retention_days=self.retention_days,
            dead_letter_retention_days=self.dead_letter_retention_days,
            max_message_bytes=self.max_message_bytes,
            overrides=tuple(self.overrides),
        )


class WorkerSettings(_Section):
    """How the classify worker takes messages from the broker to the store."""

    batch_records: int = Field(10_000, ge=1, description="messages that are stored together at most")
    processes: int | None = Field(
        None, ge=0, le=256, description="processes that decode and classify; two if absent, none on a single core"
    )
    linger_s: float = Field(0.25, ge=0, description="seconds that a batch waits for more")
    max_message_bytes: int = Field(Limits.message_bytes, ge=1024, description="larger messages are dead letters")
    announce: bool = Field(default=True, description="whether classifications go to the topic exit-classifications")
    flush_s: float = Field(30.0, gt=0, description="seconds until what is sent must be confirmed")
    retry_most_s: float = Field(10.0, gt=0, description="most seconds between two tries during an outage")
    session_timeout_s: float = Field(45.0, gt=0, description="silence after which the group takes partitions away")
    max_poll_interval_s: float = Field(300.0, gt=0, description="longest time for one batch before the same happens")
    instance_id: str | None = Field(None, description="group.instance.id, for restarts without a rebalance")
    host: str = Field("127.0.0.1", min_length=1, description="address that its pages listen on")
    port: int = Field(9117, ge=0, le=65535, description="port that its pages listen on; 0: it has no pages")
    watch_s: float = Field(10.0, gt=0, description="seconds between two questions whether broker and store answer")
    stalled_after_s: float = Field(300.0, gt=0, description="seconds without progress after which it is not live")
    audit_every_s: float = Field(
        0.0, ge=0, description="seconds between two audits of a server, for offramp_unaccounted; 0: none by this worker"
    )


class TracesSettings(_Section):
    """Where the classify worker sends its spans. Without a URL there are none."""

    url: str | None = Field(None, description="OTLP receiver over HTTP, such as http://collector:4318/v1/traces")
    ratio: float = Field(1.0, ge=0, le=1, description="share of its batches that become a span")


class LifecycleSettings(_Section):
    """How the lifecycle app follows what is open."""

    host: str = Field("127.0.0.1", min_length=1, description="address that its pages listen on")
    port: int = Field(9118, ge=1, le=65535, description="port that its pages listen on")
    sync_s: float = Field(10.0, gt=0, description="seconds between two readings of what was stored lately")
    overlap_s: float = Field(
        60.0, ge=0, description="seconds that a reading goes back behind the last one, for late rows and other clocks"
    )
    rebuild_s: float = Field(900.0, gt=0, description="seconds between two readings of everything that is open")
    grace_s: float = Field(3600.0, gt=0, description="seconds that what is settled is remembered")
    most_settled: int = Field(50_000, ge=1, description="most settled runs that are remembered")
    horizon_s: float = Field(3600.0, ge=0, description="seconds ahead in which a deadline is near")
    evaluate_s: float = Field(10.0, gt=0, description="seconds between two evaluations of alerts")
    settle_s: float = Field(60.0, gt=0, description="seconds between two settlings of runs for the comparison")


class ShadowSettings(_Section):
    """How legacy exits are compared, and what is declared about those who would act on the new ones."""

    mapping: _Path | None = Field(None, description="label mapping; the default mapping if absent")
    patience_s: float = Field(
        86_400.0, ge=0, description="seconds after the end of a run for which its legacy exit is still waited for"
    )
    costs: _Path | None = Field(None, description="costs of a run by legacy and new exit; none are counted if absent")
    accepted: _Path | None = Field(None, description="accepted differences; none if absent")
    partial_consumers_handle_completeness: bool = Field(
        default=False, description="whether every consumer of results handles completeness = partial"
    )
    packet_exercised: bool = Field(
        default=False, description="whether reviewers have decided from review packets, as an exercise"
    )
    override_exercised: bool = Field(
        default=False, description="whether overriding a decision of the new dispatcher has been exercised"
    )


class AlertsSettings(_Section):
    """By which rules alerts are judged, and who is told of them."""

    rules: _Path | None = Field(None, description="alert rules; the default rules if absent")
    alertmanager: list[str] = Field(
        default_factory=list, description="every Alertmanager of a cluster, each as http://HOST:PORT"
    )
    alertmanager_token: SecretStr | None = Field(None, description="bearer token that they ask for")
    webhook: SecretStr | None = Field(None, description="address that is told of alerts, which may be a secret")
    webhook_token: SecretStr | None = Field(None, description="bearer token that it asks for")
    topic: bool = Field(default=True, description="whether alerts go to the topic exit-alerts, where there is a broker")
    ca: _Path | None = Field(None, description="certificate authorities, as PEM; those of the system if absent")
    timeout_s: float = Field(10.0, gt=0, description="seconds to wait for a receiver")
    resend_s: float = Field(
        60.0, gt=0, description="seconds after which Alertmanager is told again; it believes four times as long"
    )
    repeat_s: float = Field(3600.0, gt=0, description="seconds after which webhook and topic are told again")
    lease_s: float = Field(60.0, gt=0, description="seconds after which another evaluator goes on for a silent one")
    audit_every_s: float = Field(
        3600.0, ge=0, description="seconds between two audits of a server, for what is unaccounted for; 0: none"
    )


class Settings(_Section):
    """All settings, by section."""

    store: StoreSettings = StoreSettings()
    redaction: RedactionSettings = RedactionSettings()
    classify: ClassifySettings = ClassifySettings()
    worker: WorkerSettings = WorkerSettings()
    traces: TracesSettings = TracesSettings()
    lifecycle: LifecycleSettings = LifecycleSettings()
    kafka: KafkaSettings = KafkaSettings()
    registry: RegistrySettings = RegistrySettings()
    topics: TopicsSettings = TopicsSettings()
    shadow: ShadowSettings = ShadowSettings()
    alerts: AlertsSettings = AlertsSettings()


def resolve(file: Path | None, environment: Mapping[str, str], flags: Mapping[str, Mapping[str, Any]]) -> Settings:
    """The settings. ``flags`` are by section and key; None means not given. Raises ConfigurationError."""
    content = _from_file(file)
    for section, key, value in _from_environment(environment):
        content.setdefault(section, {})[key] = value
    for section, given in flags.items():
        content.setdefault(section, {}).update({key: value for key, value in given.items() if value is not None})
    if flags.get("store", {}).get("path") is not None:
        # Whoever names a directory with the command means that one.
        content["store"].pop("url", None)
    try:
        return Settings.model_validate(content)
    except ValidationError as error:
        raise ConfigurationError(_sentence(error.errors(include_input=False)[0])) from None


def _sentence(problem: ErrorDetails) -> str:
    place, kind = ".".join(str(part) for part in problem["loc"]), problem["type"]
    if kind == "extra_forbidden":
        return f"configuration: {place}: no such setting; there are {', '.join(_known_settings())}"
    if kind == "too_short":
        return f"configuration: {place}: must have at least {problem['ctx']['min_length']} characters"
    if kind == "path_type":
        return f"configuration: {place}: must be a path, as text in quotes"
    if kind == "value_error":
        return f"configuration: {place}: {problem['ctx']['error']}"
    return f"configuration: {place}: {problem['msg'][:1].lower()}{problem['msg'][1:]}"


def _known_settings() -> list[str]:
    sections = [(name, info.annotation) for name, info in Settings.model_fields.items()]
    return [f"{section}.{key}" for section, model in sections if model for key in getattr(model, "model_fields", ())]


def _from_file(file: Path | None) -> dict[str, Any]:
    path = file or Path(DEFAULT_FILE)
    if file is None and not path.exists():
        return {}
    try:
        content = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path}: {error}") from None
    except RecursionError:
        raise ConfigurationError(f"{path}: nested too deeply") from None
    for section, keys in content.items():
        if section in Settings.model_fields and not isinstance(keys, dict):
            raise ConfigurationError(f"{path}: {section}: must be one section, [{section}], with its settings below it")
    return content


def read_text(path: Path) -> str:
    """The text of a file, without a byte order mark. Raises ConfigurationError if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: no UTF-8 text at byte {error.start}") from None


def _from_environment(environment: Mapping[str, str]) -> list[tuple[str, str, Any]]:
    found = []
    for name, text in sorted(environment.items()):
        if not name.startswith(PREFIX):
            continue
        value = text
        section, _, key = name.removeprefix(PREFIX).lower().partition("__")
        model = Settings.model_fields.get(section)
        if model is None or not key:
            raise ConfigurationError(f"{name}: no such setting; it is {PREFIX}SECTION__KEY")
        if key.endswith("_file") and (section, key.removesuffix("_file")) in _SECRETS:
            if name.removesuffix("_FILE") in environment:
                raise ConfigurationError(f"{name}: {name.removesuffix('_FILE')} is given too; one of them")
            key, value = key.removesuffix("_file"), _secret_from(name, text)
        found.append((section, key, _parsed(model.annotation, key, value)))
    return found


def _secret_from(name: str, path: str) -> str:
    try:
        return read_text(Path(path)).strip()
    except ConfigurationError as error:
        raise ConfigurationError(f"{name}: {error}") from None


def _parsed(section: Any, key: str, value: str) -> Any:
    """Text of the environment; a list is written with commas."""
    field = section.model_fields.get(key)
    return [part for part in value.split(",") if part] if field and field.annotation == list[str] else value


class RedactionKey(NamedTuple):
    """The key of the digests, or None and what to do about it."""

    key: bytes | None
    advice: str = ""


def redaction_key(settings: Settings, environment: Mapping[str, str]) -> RedactionKey:
    """The configured key, else this user's own, made at first use. None where none can be kept: then the first secret
    found is an error that says so."""
    if settings.redaction.key is not None:
        return RedactionKey(settings.redaction.key.get_secret_value().encode())
    setting = f"{PREFIX}REDACTION__KEY"
    home = _state_home(environment)
    if home is None:
        return RedactionKey(None, f"set {setting}; without HOME none can be made")
    path = home / "offramp" / "redaction.key"
    try:
        _make_once(path)
        return RedactionKey(path.read_bytes())
    except OSError as error:
        return RedactionKey(None, f"set {setting}; none can be kept in {path}: {error.strerror}")


def _state_home(environment: Mapping[str, str]) -> Path | None:
    """Where a user's programs keep their state. A relative XDG_STATE_HOME is to be ignored, says its specification."""
    given = Path(environment.get("XDG_STATE_HOME", ""))
    if given.is_absolute():
        return given
    home = environment.get("HOME")
    return Path(home, ".local", "state") if home else None


def _make_once(path: Path) -> None:
    """Make the key file complete or not at all, so that two first uses at once agree on one."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as handle:
        handle.write(secrets.token_hex(32).encode())
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
