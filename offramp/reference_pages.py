"""Pages of ``docs/reference`` that repeat what the code says: verbs, settings, schemas, sources, table, store.

:mod:`offramp.reference` writes them together with its lists of codes. A page is added as one function and one line in
:data:`PAGES`.
"""

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from inspect import getdoc
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

import typer
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from alerts.rules import default_text as default_rules
from alerts.rules import load as load_rules
from classifier.decide import REASON_OF_FAILURE, TABLE_VIOLATES_INVARIANT
from classifier.table import Row, Table, default_text, load
from offramp import errors
from offramp.config import PREFIX, Settings
from offramp.main import app
from offramp.querying import Column, schema, view_comments
from schemas.contract import INCOMING, PUBLISHED
from schemas.json_schema import json_schema
from sinks.store import open_store
from sources.registry import adapters
from streams.alert_metrics import Judged, alert_metrics_text
from streams.alerting import Turn
from streams.clock import FixedClock
from streams.health import Health
from streams.kafka.seam import TopicPartition
from streams.lifecycle.knowledge import OpenItems
from streams.lifecycle.lifecycle import Counts
from streams.lifecycle.pages import Status, metrics_text
from streams.metrics import Build, Metrics
from streams.topics import DAY_MS, Topic, Topics

_NOTE = "<!-- Written by `make docs` from the code; change the code. -->"
_TYPE_WIDTH = 60


def write(folder: Path) -> list[Path]:
    """Write all pages into a folder that exists; returns what was written."""
    pages = {folder / name: f"{_NOTE}\n\n{page()}" for name, page in PAGES.items()}
    for path, text in pages.items():
        path.write_text(text, "utf-8")
    return list(pages)


# --- markdown


def _page(title: str, *parts: str) -> str:
    return "\n\n".join([f"# {title}", *(part for part in parts if part)]) + "\n"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


# --- the command line


def _cli() -> str:
    root: Any = typer.main.get_command(app)
    statuses = "Exit statuses: see [exit-statuses.md](exit-statuses.md). Every verb has `--help`."
    return _page("Command line", root.help, statuses, _FORMATS, *_verbs(root, "offramp"))


_FORMATS = """\
`--format table` is for people. `json` is the answer as one value. `ndjson` (newline-delimited JSON, JSON Lines) is a
row a line where the answer is rows: exits of `classify`, rows of `query`, letters of `dlq list`, codes of `schema`,
figures of `shadow compare`, as in its CSV. Elsewhere it is the value of `json` on one line. Both are always UTF-8."""


def _verbs(group: Any, path: str) -> Iterator[str]:
    for name, command in sorted(group.commands.items()):
        if hasattr(command, "commands"):
            yield from _verbs(command, f"{path} {name}")
        else:
            yield from _verb(command, f"{path} {name}")


def _verb(command: Any, path: str) -> Iterator[str]:
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option"]
    yield f"## {path}"
    yield _code(" ".join([path, *map(_placeholder, arguments), *(["[OPTIONS]"] if options else [])]))
    yield command.help or ""
    if arguments:
        yield _table(("argument", "meaning"), [(_code(_placeholder(each)), each.help or "") for each in arguments])
    if options:
        rows = [(_code(_spelling(each)), _default(each), each.help or "") for each in options]
        yield _table(("option", "default", "meaning"), rows)


def _placeholder(argument: Any) -> str:
    name: str = argument.metavar or argument.name.upper()
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _spelling(option: Any) -> str:
    names = ", ".join((*option.opts, *option.secondary_opts))
    return names if option.is_flag else f"{names} {_value(option)}"


def _value(option: Any) -> str:
    kind = option.type_descriptor.annotation
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(str(each.value) for each in kind)
    return option.metavar or ("N" if kind in (int, float) else option.name.upper())


def _default(option: Any) -> str:
    shown = option.show_default if isinstance(option.show_default, str) else option.default
    if shown is None or shown is False:
        return ""
    return str(shown.value if isinstance(shown, Enum) else shown)


def _exit_statuses() -> str:
    kinds = (errors.CheckFailedError, errors.ConfigurationError, errors.CouldNotCheckError)
    rows = [("0", "Ok.")] + [(str(kind.status), getdoc(kind) or "") for kind in kinds]
    return _page("Exit statuses", _table(("status", "meaning"), rows), _STATUS_NOTES)


_STATUS_NOTES = """\
The same for every verb. An error is one sentence on stderr: the place, the reason, what to do next. Data goes to stdout
and nothing else does.

- 1: the work is done, and something in it was not as it should be: messages that are no valid records, a ledger that
  does not close, a table with problems, an event that is not there. What was valid is stored all the same.
- 2: nothing was begun.
- 3: nobody knows. Run the command again later, or where the store is damaged, restore it. What was stored before it
  ended stays, and running it again changes nothing that is stored.
- 130 and 143: Ctrl-C or SIGTERM ended it, at once and in order; of the store the same holds.
- 141: whoever read what it prints went away, as `head` does when it has enough. Nobody knows what the answer would
  have been, so it is never 0: give a check that a rollout waits for an output that is read to the end, or `/dev/null`.
  What fits into the pipe is written before anybody can go away, and then the status is that of the answer."""


# --- configuration


def _configuration() -> str:
    sections = [
        f"## [{name}]\n\n{getdoc(field.annotation)}\n\n{_settings(name, field.annotation)}"
        for name, field in Settings.model_fields.items()
    ]
    return _page("Configuration", _CONFIGURATION_NOTES, *sections)


def _settings(section: str, model: Any) -> str:
    rows = [
        (_code(key), _setting_default(field), _variables(section, key, field), field.description or "")
        for key, field in model.model_fields.items()
    ]
    return _table(("key", "default", "environment", "meaning"), rows)


def _setting_default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True, validated_data={})
    return "" if value is None else _code(str(value))


def _variables(section: str, key: str, field: FieldInfo) -> str:
    name = f"{PREFIX}{section}__{key}".upper()
    return f"`{name}`, `{name}_FILE`" if SecretStr in get_args(field.annotation) else _code(name)


_CONFIGURATION_NOTES = """\
Three layers, the later one wins: one TOML file (`offramp.toml` in the current directory, or `--config FILE`), then the
environment, then flags. An unknown key is an error, in the file and in the environment. A list in the environment is
written with commas. A secret may be given as the path of a file that holds it, by the variable that ends in `_FILE`.
How to use it: [configure](../how-to/configure.md)."""


# --- the store


def _tables() -> str:
    with tempfile.TemporaryDirectory(prefix="offramp-") as directory:
        store = open_store(
            Path(directory, "store"), holder="reference", lock_timeout_s=0, now=lambda: 0, wait=time.sleep
        )
        with store as opened:
            opened.migrate()
            columns, comments = schema(opened), view_comments(opened)
    names = dict.fromkeys(column.view for column in columns)
    return _page("Tables and views", _TABLE_NOTES, *(_view(name, comments[name], columns) for name in names))


def _view(name: str, comment: str, columns: Sequence[Column]) -> str:
    rows = [(_code(each.column), _code(_short(each.type)), each.meaning) for each in columns if each.view == name]
    return f"## {name}\n\n{comment}.\n\n{_table(('column', 'type', 'meaning'), rows)}"


def _short(kind: str) -> str:
    """A type that fits a table: the fields of a nested one are those of the contract, see schemas.md."""
    return kind if len(kind) <= _TYPE_WIDTH else f"{kind[: kind.index('(')]}(...)"


_TABLE_NOTES = """\
What `offramp query` can ask for, also by `offramp query --schema`. Each view shows every record once, whatever was
inserted twice. Instants are UTC with microseconds. The fields of nested columns are those of the contract, see
[schemas.md](schemas.md). Recipes: [query the store](../how-to/query-the-store.md)."""


# --- contracts


def _schemas() -> str:
    files = [
        (_code(name), _code(f"{name}.avsc"), _code(f"{name}.schema.json"), "in" if _is_incoming(name) else "out")
        for name in PUBLISHED
    ]
    records = [part for name, model in PUBLISHED.items() for part in _record_parts(name, json_schema(name, model))]
    listing = _table(("name", "Avro", "JSON Schema", "direction"), files)
    return _page("Schemas", _SCHEMA_NOTES, listing, _FRAMING, "## Fields", *dict.fromkeys(records))


def _is_incoming(name: str) -> bool:
    return name.replace("-", "_") in INCOMING


def _record_parts(name: str, document: Mapping[str, Any]) -> Iterator[str]:
    """The record itself, then what is nested in it."""
    for title, record in ((name, document), *document.get("$defs", {}).items()):
        if "properties" in record:
            yield f"### {title}\n\n{record.get('description', '')}\n\n{_fields(record)}"


def _fields(record: Mapping[str, Any]) -> str:
    required = set(record.get("required", ()))
    rows = [
        (_code(name), _kind(field) + (", required" if name in required else ""), field.get("description", ""))
        for name, field in record["properties"].items()
    ]
    return _table(("field", "type", "meaning"), rows)


def _kind(field: Mapping[str, Any]) -> str:
    """A type in words: symbols of an enumeration, `list of`, `map of`, name of a nested record."""
    match field:
        case {"$ref": name}:
            kind = str(name).rpartition("/")[2]
        case {"const": value}:
            kind = _code(str(value))
        case {"enum": symbols}:
            kind = " ".join(map(_code, symbols))
        case {"anyOf": branches} | {"oneOf": branches}:
            kind = " or ".join(_kind(each) for each in branches if each.get("type") != "null")
        case {"items": inner}:
            kind = f"list of {_kind(inner)}"
        case {"additionalProperties": dict(inner)}:
            kind = f"map of {_kind(inner)}"
        case _:
            kind = str(field.get("format") or field.get("type") or "any")
    return kind


_SCHEMA_NOTES = """\
The contract as files, in the installed package under `schemas/published/` and by
`offramp schema NAME --as avro|json-schema`. Producers need nothing else of this project, in any language. They are
generated from the models in `schemas/`; a test fails when they differ."""

_FRAMING = """\
## Framing

The first bytes of a message decide how it is read.

| first bytes | form |
| --- | --- |
| `{`, after optional blanks | JSON |
| `C3 01`, then 8 bytes CRC-64-AVRO of the writer's schema, little-endian | Avro, single-object encoding |
| `00`, then 4 bytes schema id, big-endian | Avro, Confluent frame; the id is a registry's |
| anything else | `bad_framing` |

A file is JSON Lines, a JSON array, pretty-printed JSON texts or an Avro container, each also as gzip or Zstandard. The
content decides, never the name. A body must be consumed to its last byte. In Avro an instant is a `long` with logical
type `timestamp-micros`; in JSON it is ISO 8601 with an offset.

## Compatibility

- Within version 1 a change is published only if old and new readers and writers can all be mixed.
- No field is ever removed or renamed, not even an optional one: its evidence would silently become absence.
- No enumeration loses a symbol or changes its default. Every enumeration has a default symbol, and a symbol that a
  reader does not know becomes it. No default is a good outcome.
- A field that the contract does not know is kept as JSON text in `extensions`.
- Every version that was ever published stays in `schemas/published/history/`, and is still read."""


# --- topics


def _topics() -> str:
    topics = list(Topics.planned())
    sizes = [(_code(each.name), str(each.partitions), str(each.replication_factor), *_kept(each)) for each in topics]
    common = dict(set.intersection(*(set(each.settings.items()) for each in topics)))
    return _page(
        "Topics",
        _TOPIC_NOTES,
        _table(("topic", "what", "written by", "read by"), [_who(each) for each in topics]),
        _table(("topic", "messages", "key"), [_carried(each) for each in topics]),
        "## Sizes, unless configured otherwise",
        _table(("topic", "partitions", "copies", "days", "largest batch in bytes"), sizes),
        "Of every topic: " + ", ".join(_code(f"{name}={value}") for name, value in sorted(common.items())) + ".",
        _KEY_NOTES,
    )


def _who(topic: Topic) -> tuple[str, ...]:
    return _code(topic.name), topic.purpose, ", ".join(topic.writers), ", ".join(topic.readers)


def _carried(topic: Topic) -> tuple[str, ...]:
    records = ", ".join(map(_code, topic.records)) or "no records of the contract"
    how = f"{records} as {' or '.join(topic.encodings)}" if topic.encodings else records
    return _code(topic.name), how, topic.key


def _kept(topic: Topic) -> tuple[str, str]:
    return f"{int(topic.settings['retention.ms']) / DAY_MS:g}", f"{topic.max_message_bytes:,}"


_TOPIC_NOTES = """\
Every topic of a deployment, before the prefix that `topics.prefix` gives them. As a document for tools:
`schemas/published/asyncapi.yaml` (AsyncAPI 3). How to make them and to try something out on others:
[set up topics](../how-to/set-up-topics.md)."""

_KEY_NOTES = """\
## Keys

A key is `tenant/run_id` in UTF-8, so that all segments of a run lie in one partition in the order they were written. A
companion that names no run is keyed `tenant/event_id`, one that names neither `tenant/record_id`; it may lie in another
partition than its event, and that costs nothing, since records may come in any order and the store joins them by
identity. Nobody parses a key. The partition is Kafka's default: murmur2 of the key. A producer on librdkafka, whose
default is another, sets `partitioner=murmur2_random`.

## Why it is so

- Retention counts from arrival (`LogAppendTime`). By a producer's own time a replay of last year's events would be
  deleted as soon as it arrives, and a broker refuses times that are an hour ahead.
- Nothing is compacted. Under a run's key it would delete the run's earlier segments, which are evidence. A
  `cleanup.policy` with `compact` is refused.
- `retention.bytes` is unlimited, so that a burst does not push out what was not read yet. Watch the disks.
- All copies of a partition but one confirm a write, and a copy that lags is never made the leader.
- A dead letter has room for the largest message and more headers, and is kept longer than its source.
- The dispatcher reads none of the topics that this program writes."""


# --- sources


def _sources() -> str:
    parts = [
        f"## {each.name}\n\n{each.title[:1].upper()}{each.title[1:]}.\n\nCannot tell:\n\n"
        + "\n".join(f"- {what.rstrip('.')}" for what in each.cannot_tell)
        for each in adapters()
    ]
    return _page("Sources", _SOURCE_NOTES, *parts)


_SOURCE_NOTES = """\
Formats that `offramp import` reads. Each reads machine-readable fields only; what a format says in words alone stays
unknown. What it leaves unknown is listed, since that is what its runs cannot be credited for. How to use one and how to
add one: [import runs](../how-to/import-runs.md)."""


# --- the decision table


def _decision_table() -> str:
    table = load(default_text())
    rows = [_row(number, row, table) for number, row in enumerate(table.file.rows, start=1)]
    return _page(
        "The default decision table",
        f"Table `{table.file.id}`, version `{table.file.version}`, digest `{table.digest}`.",
        _DECISION_NOTES,
        _table(("#", "row", "holds when", "exit", "reason codes", "queue"), rows),
        "## Queues",
        _table(("queue", "owner", "hours", "allowed decisions"), _queues(table)),
        "## Thresholds and switches",
        _table(("name", "value"), _numbers(table)),
    )


def _row(number: int, row: Row, table: Table) -> tuple[str, ...]:
    switched = table.file.switches.get(row.exit.removeprefix("switches."))
    shown = f"{switched} (`{row.exit}`)" if switched else row.exit
    return str(number), _code(row.id), " ".join(row.when.split()), shown, _reasons(row), row.queue or ""


def _reasons(row: Row) -> str:
    codes = [_code(each.code) for each in row.reasons]
    if row.reason_from == "failure":
        codes += [_code(code) for code in REASON_OF_FAILURE.values()]
    elif row.reason_from:
        codes.append(f"that of the {row.reason_from}")
    return ", ".join([*codes, _code(row.reason or row.id)])


def _queues(table: Table) -> Iterator[tuple[str, ...]]:
    for name, queue in table.file.queues.items():
        yield _code(name), queue.owner, f"{queue.deadline_hours:g}", ", ".join(map(_code, queue.allowed_decisions))


def _numbers(table: Table) -> list[tuple[str, str]]:
    values = {**table.file.thresholds.model_dump(), **table.file.switches}
    return [(_code(name), str(value)) for name, value in values.items()]


_DECISION_NOTES = f"""\
Rows are tried from the top; the first that holds decides. Where several reason codes stand, the first that applies is
given. A completion is verified exactly if `predicate_satisfied` holds. The facts are explained in
[facts.md](facts.md), the codes in [reasons.md](reasons.md). A table of your own that chooses a kind which an invariant
rules out gets the safe exit instead, with reason `{TABLE_VIOLATES_INVARIANT}`. How to write one:
[write a decision table](../how-to/write-a-decision-table.md)."""


# --- metrics


def _metrics() -> str:
    clock = FixedClock()
    health = Health(clock, 0, 0)
    health.assigned({TopicPartition("", 0): 0})
    health.ends({TopicPartition("", 0): 0})
    worker = Metrics(health, clock, Build("", "", ""), ("",)).registry.collect()
    status = Status(complete=True, leader=True, synced_at=0, counts=Counts(), sizes={"": 0})
    alerts = alert_metrics_text(load_rules(default_rules()).rules, ("",), Judged(Turn(leads=True), 0))
    lifecycle = text_string_to_metric_families(metrics_text(OpenItems((), (), ()), status, (), 0, 0) + alerts)
    shown = _table(("page", "the classify worker, port 9117", "the lifecycle app, port 9118"), _SHOWN)
    return _page("Metrics and pages", _METRIC_NOTES, shown, _PROBES, "## The classify worker", _families(worker),
                 "## The lifecycle app", _families(lifecycle), _METRIC_LABELS)  # fmt: skip


def _families(families: Iterable[Metric]) -> str:
    ours = [each for each in families if each.name.startswith("offramp_")]
    return _table(("metric", "kind", "labels", "meaning"), [_family(each) for each in ours])


def _family(family: Metric) -> tuple[str, ...]:
    name = f"{family.name}_total" if family.type == "counter" else family.name
    labels = dict.fromkeys(label for sample in family.samples for label in sample.labels if label != "le")
    return _code(name), family.type, ", ".join(map(_code, labels)), family.documentation


_METRIC_NOTES = """\
Both long-running processes show pages over HTTP, on loopback unless configured otherwise."""

_SHOWN = (
    ("`/livez`", "200 while the loop turns, and each partition with messages makes progress or an outage is waited out",
     "200 while the loop turns, unless it has been out of its group for three minutes"),
    ("`/readyz`", "200 while it polls, broker and store answered lately, and no outage is waited out",
     "200 once it has read the store, while it is a member of its group"),
    ("`/metrics`", "Prometheus text", "Prometheus text"),
    ("`/open-items`", "", "open partials and reviews as JSON"),
)  # fmt: skip

_PROBES = """\
A probe that fails has status 503, and says why as JSON. Restart on `/livez` alone: a worker that waits out an outage is
live and not ready, and a restart would not help it."""

_METRIC_LABELS = """\
## Labels

Labels are closed sets: dispositions and error codes of the contract, topics of the plan, queues of the decision table.
No label has a run, a tenant or a text of a message. Counters of closed sets are exported from the start as zero. What
is not known yet, such as the newest event before there is one, is `NaN`, on which no alert fires. `offramp_unaccounted`
is known to workers with `worker.audit_every_s`; else `offramp audit` and `offramp status` say it. A partition is
exported by whoever owns it, so `sum(offramp_lag_messages)` counts none twice."""


PAGES: Mapping[str, Callable[[], str]] = MappingProxyType(
    {
        "cli.md": _cli,
        "configuration.md": _configuration,
        "decision-table.md": _decision_table,
        "exit-statuses.md": _exit_statuses,
        "metrics.md": _metrics,
        "schemas.md": _schemas,
        "sources.md": _sources,
        "tables.md": _tables,
        "topics.md": _topics,
    }
)
"""Every page by its file name."""
