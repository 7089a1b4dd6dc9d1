"""The lifecycle app on Faust: agents that read the topics, a turn every second, the leader, pages.

What Faust is given, and what it is not:

- It makes no topic (``topic_allow_declare`` is off, there is no table and so no changelog), and produces nothing.
- It makes no directory: Faust keeps the files of tables there, and there is none.
- The offsets that it commits do not matter: a message that it acknowledged and lost is in the store, or will be.
- The leader is whoever is assigned the one partition of ``exit-alerts``, a topic that is planned, in place of Faust's
  own leader topic, which is not.
"""

import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import faust
from aiohttp.web import Response
from faust.assignor.leader_assignor import LeaderAssignor
from faust.types import TP

from streams.kafka.seam import Connection
from streams.lifecycle.knowledge import OpenItems
from streams.lifecycle.lifecycle import Lifecycle
from streams.lifecycle.pages import Status, items_page, metrics_text
from streams.pages import METRICS_TYPE


@dataclass(frozen=True)
class Reads:
    """Names of the topics that are read. ``alerts`` must have one partition: its owner leads."""

    exits: str
    companions: tuple[str, ...]
    alerts: str


@dataclass(frozen=True)
class Process:
    """How this process runs. ``queues`` are those of the decision table; the horizon is in microseconds.

    ``session_s``: how long the group waits for a process that died before others get its partitions.
    ``stalled_after_s``: without a turn for so long the process is not live; nor is it once it has been out of its group
    for ``outside_after_s``, longer than any rebalance takes. Without a poll for ``max_poll_interval_s`` it leaves its
    group: longer than a rebalance that is tried twice, since Faust polls in none, and than anything between two polls.
    ``more_metrics`` gives Prometheus text that is shown beside the app's own.
    """

    group: str
    host: str
    port: int
    queues: tuple[str, ...]
    tick_s: float = 1.0
    evaluate_s: float = 10.0
    horizon_us: int = 3_600_000_000
    page_limit: int = 100
    session_s: float = 10.0
    stalled_after_s: float = 60.0
    outside_after_s: float = 180.0
    max_poll_interval_s: float = 150.0
    more_metrics: Callable[[], str] = str


@dataclass(frozen=True)
class Evaluation:
    """What an evaluator of alerts is handed. ``complete``: the whole store was read, so absence means absence."""

    now: int
    items: OpenItems
    complete: bool


Evaluate = Callable[[Evaluation], Awaitable[None]]
"""Called on the leader only, every ``evaluate_s``, never twice at once; what it raises ends the process."""


@dataclass
class Progress:
    """When the last turn was taken, and when alerts are to be evaluated, on the monotonic clock; since when the process
    is out of its group, None while it is a member, whatever it was assigned."""

    turn_at: float
    evaluation_due: float
    outside_since: float | None

    def liveness(self, now: float, process: Process) -> tuple[bool, str]:
        """Whether the process is live, and why."""
        idle_s = now - self.turn_at
        outside_s = 0.0 if self.outside_since is None else now - self.outside_since
        if outside_s >= process.outside_after_s:
            return False, f"out of its group for {outside_s:.1f} s"
        return idle_s < process.stalled_after_s, f"the last turn was {idle_s:.1f} s ago"


class _App(faust.App):
    def _create_directories(self) -> None:
        """Where it is started is left as it is."""


def make_app(
    lifecycle: Lifecycle,
    connection: Connection,
    reads: Reads,
    process: Process,
    evaluate: Evaluate | None = None,
) -> faust.App:
    """The app, not started. ``evaluate`` is asked on the leader; without it nothing is evaluated."""
    app = _App(process.group, **_settings(connection, reads, process))
    begun = lifecycle.clock.monotonic()
    progress = Progress(begun, begun, begun)
    _add_agents(app, lifecycle, reads)
    _add_turns(app, lifecycle, process, progress, evaluate)
    _add_pages(app, lifecycle, process, progress)
    return app


def _settings(connection: Connection, reads: Reads, process: Process) -> dict[str, Any]:
    return {
        "broker": [f"kafka://{server}" for server in connection.servers],
        "broker_client_id": connection.client_id,
        "broker_credentials": _credentials(connection),
        "broker_request_timeout": max(connection.timeout_s, process.session_s + 1),  # Faust wants it longer
        "broker_session_timeout": process.session_s,
        "broker_heartbeat_interval": process.session_s / 4,
        # Its client has been seen to stop polling for good, and to keep its partitions. Faust would wait 1,000 s.
        "broker_max_poll_interval": process.max_poll_interval_s,
        "consumer_auto_offset_reset": "latest",  # what came before is in the store
        "topic_allow_declare": False,
        "topic_disable_leader": True,
        "LeaderAssignor": _leader_of(reads.alerts),
        "store": "memory://",
        "web_bind": process.host,
        "web_host": process.host,
        "web_port": process.port,
        "worker_redirect_stdouts": False,
        "autodiscover": False,
        "debug": False,
    }


def _credentials(connection: Connection) -> Any:
    security = connection.security
    context = _tls(connection) if security.tls else None
    if security.sasl:
        return faust.SASLCredentials(
            username=security.username,
            password=security.password,
            mechanism=security.sasl_mechanism,
            ssl_context=context,
        )
    return faust.SSLCredentials(context=context) if context else None


def _tls(connection: Connection) -> ssl.SSLContext:
    security = connection.security
    context = ssl.create_default_context(cafile=security.ca_file or None)
    context.check_hostname = security.check_hostname
    if security.certificate_file:
        context.load_cert_chain(security.certificate_file, security.key_file or None)
    return context


def _leader_of(topic: str) -> type[LeaderAssignor]:
    """Leads where the one partition of ``topic`` is assigned."""

    class AlertsOwner(LeaderAssignor):
        def is_leader(self) -> bool:
            return TP(topic, 0) in self.app.consumer.assignment()

    return AlertsOwner


def _add_agents(app: faust.App, lifecycle: Lifecycle, reads: Reads) -> None:
    def agent(names: Sequence[str], take: Callable[[bytes], None]) -> None:
        topic = app.topic(*names, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw")

        async def read(stream: Any) -> None:
            async for value in stream:
                if value is not None:
                    take(value)

        app.agent(topic, name=f"{__name__}.{names[0]}")(read)

    agent([reads.exits], lifecycle.take_exit)
    agent(reads.companions, lifecycle.take_companion)
    agent([reads.alerts], _nothing)


def _nothing(_value: bytes) -> None:
    """Alerts are read for the sake of being assigned their partition."""


def _add_turns(
    app: faust.App, lifecycle: Lifecycle, process: Process, progress: Progress, evaluate: Evaluate | None
) -> None:
    clock = lifecycle.clock

    async def turns() -> None:
        while not app.should_stop:
            await take_turn()
            await app.sleep(process.tick_s)

    async def take_turn() -> None:
        await lifecycle.follow()
        progress.turn_at = clock.monotonic()
        if evaluate is None or not app.is_leader() or progress.turn_at < progress.evaluation_due:
            return
        progress.evaluation_due = progress.turn_at + process.evaluate_s
        await evaluate(Evaluation(clock.now_micros(), lifecycle.open_items(), lifecycle.is_complete))

    async def joined(*_partitions: Any, **_signal: Any) -> None:
        progress.outside_since = None

    async def left(*_partitions: Any, **_signal: Any) -> None:
        # Its client has been seen to leave the group and never to come back, after waits of minutes in a rebalance.
        if progress.outside_since is None:
            progress.outside_since = clock.monotonic()

    app.on_partitions_assigned.connect(joined, weak=False)
    app.on_partitions_revoked.connect(left, weak=False)
    app.task(turns)


def _add_pages(app: faust.App, lifecycle: Lifecycle, process: Process, progress: Progress) -> None:
    clock = lifecycle.clock

    async def items(web: Any, _request: Any) -> Any:
        page = items_page(lifecycle.open_items(), clock.now_micros(), process.horizon_us, process.page_limit)
        return web.json({"complete": lifecycle.is_complete, "leader": app.is_leader(), **page})

    async def metrics(_web: Any, _request: Any) -> Any:
        counts, sizes = lifecycle.counts, lifecycle.sizes
        status = Status(lifecycle.is_complete, app.is_leader(), lifecycle.synced_at, counts, sizes)
        now = clock.now_micros()
        text = metrics_text(lifecycle.open_items(), status, process.queues, now, process.horizon_us)
        text += process.more_metrics()
        return Response(body=text.encode(), headers={"Content-Type": METRICS_TYPE})

    async def live(web: Any, _request: Any) -> Any:
        ok, reason = progress.liveness(clock.monotonic(), process)
        return _verdict(web, ok=ok, reason=reason)

    async def ready(web: Any, _request: Any) -> Any:
        joined = progress.outside_since is None
        reason = f"store read: {lifecycle.is_complete}, group joined: {joined}"
        return _verdict(web, ok=lifecycle.is_complete and joined, reason=reason)

    pages = {"/open-items": items, "/metrics": metrics, "/livez": live, "/readyz": ready}
    for path, handler in pages.items():
        app.page(path, name=f"offramp{path}")(handler)


def _verdict(web: Any, *, ok: bool, reason: str) -> Any:
    return web.json({"ok": ok, "reason": reason}, status=200 if ok else 503)


def run(app: faust.App) -> int:
    """Run the app until SIGTERM or SIGINT, or until it fails; the exit status, 0 if it was told to end.

    Logging is left as it is. The process belongs to the app: it takes the event loop and the signals.
    """
    worker = faust.Worker(app, loglevel="INFO", quiet=True, override_logging=False, redirect_stdouts=False)
    worker.spinner = None  # it writes to the terminal, or to what stands in its place
    try:
        worker.execute_from_commandline()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
