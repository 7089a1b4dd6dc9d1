"""One node of Apache Kafka, in KRaft mode, on the loopback address, that a test may kill, pause and restart.

    with KafkaBroker(folder) as broker:
        client = KafkaPythonClient(Connection((broker.bootstrap,)))
        broker.kill()      # as kill -9 does
        broker.start()     # the same ports, the same data
        broker.pause()     # SIGSTOP: connections stay open, nobody answers
        broker.resume()

Topics are never created by being named, groups rebalance without delay, and a session may be as short as a second.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from streams.kafka.seam import Security
from tests.broker.certificates import Certificates, make_certificates
from tests.broker.jars import jar_folder, missing

START_S = 60.0
"""Seconds that a start may take on a machine that does other work too; it takes about 4."""
_STOP_S = 20.0
_STARTED = "Kafka Server started"
_LISTENERS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True)
class BrokerOptions:
    """``secured`` adds listeners for SSL, SASL_PLAINTEXT and SASL_SSL, and an authorizer.

    With it, who comes in by PLAINTEXT or as ``admin`` may do everything, and ``guest`` nothing; the passwords are made
    at random. ``config`` is added to the broker's, and wins.
    """

    secured: bool = False
    heap_mb: int = 384
    config: dict[str, str] = field(default_factory=dict)


class KafkaBroker:
    """A broker whose data, log and certificates live in ``folder``. Ports are chosen once and kept over restarts."""

    def __init__(self, folder: Path, options: BrokerOptions | None = None) -> None:
        if reason := missing():
            raise RuntimeError(reason)
        self.folder, self.options = folder, options or BrokerOptions()
        self.passwords = {name: secrets.token_hex(8) for name in ("admin", "guest")}
        listeners = _LISTENERS if self.options.secured else _LISTENERS[:1]
        *ports, self._controller_port = _free_ports(len(listeners) + 1)
        self.ports = dict(zip(listeners, ports, strict=True))
        self.certificates: Certificates | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._paused = False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def bootstrap(self) -> str:
        """``host:port`` of the unprotected listener."""
        return self.address("PLAINTEXT")

    @property
    def log_file(self) -> Path:
        """What the broker said, over all of its starts."""
        return self.folder / "broker.log"

    @property
    def pid(self) -> int:
        """The process. Raises RuntimeError if none runs."""
        if self._process is None:
            raise RuntimeError("the broker does not run; start it")
        return self._process.pid

    def address(self, protocol: str) -> str:
        """``host:port`` of the listener for one of Kafka's security protocols. KeyError if there is none."""
        return f"127.0.0.1:{self.ports[protocol]}"

    def security(self, protocol: str = "PLAINTEXT", user: str = "admin", mechanism: str = "SCRAM-SHA-512") -> Security:
        """How a client gets in by that listener as that user."""
        authority = str(self.certificates.authority) if self.certificates else ""
        return Security(protocol, mechanism, user, self.passwords[user], ca_file=authority)  # type: ignore[arg-type]

    def start(self) -> None:
        """Start, for the first time or again, and wait until it answers. Raises RuntimeError with the log's end."""
        if not (self.folder / "data").exists():
            self._format()
        offset = self.log_file.stat().st_size if self.log_file.exists() else 0
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [*_tied_to_us(), *self._java("kafka.Kafka", str(self._properties))],
                stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        self._wait_for_start(offset)

    def _wait_for_start(self, offset: int) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if _STARTED in self._said(offset):
                return
            if self._process is None or self._process.poll() is not None:
                break
            time.sleep(0.05)
        said = "\n".join(self._said(offset).splitlines()[-20:])
        self.kill()
        raise RuntimeError(f"the broker did not start within {START_S:g} s; its log ends:\n{said}")

    def _said(self, offset: int) -> str:
        with self.log_file.open("rb") as log:
            log.seek(offset)
            return log.read().decode(errors="replace")

    def stop(self) -> None:
        """Shut down in order. Nothing if it does not run."""
        if self._process is not None:
            self.resume()
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_S)
        self.kill()

    def kill(self) -> None:
        """End it at once, as a crash does. Nothing if it does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process, self._paused = None, False

    def restart(self) -> None:
        """Stop and start: the same ports, the same data."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Stop the process where it is: its connections stay open and nobody answers."""
        os.kill(self.pid, signal.SIGSTOP)
        self._paused = True

    def resume(self) -> None:
        """Undo :meth:`pause`."""
        if self._paused:
            os.kill(self.pid, signal.SIGCONT)
            self._paused = False

    @property
    def _properties(self) -> Path:
        return self.folder / "server.properties"

    def _format(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.options.secured:
            self.certificates = make_certificates(self.folder / "certificates")
        lines = [f"{name}={value}" for name, value in self._config().items()]
        self._properties.write_text("\n".join(lines) + "\n", encoding="utf-8")
        self._properties.chmod(0o600)
        scram = [
            f"--add-scram={mechanism}=[name={name},password={password}]"
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
            for name, password in self.passwords.items()
            if self.options.secured
        ]
        command = ("format", "--cluster-id", "b2ZmcmFtcC10ZXN0cy0wMA", "--config", str(self._properties), *scram)
        done = subprocess.run(self._java("kafka.tools.StorageTool", *command), capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(f"the broker's data folder could not be made: {done.stderr.decode(errors='replace')}")

    def _java(self, main: str, *arguments: str) -> list[str]:
        heap = (f"-Xmx{self.options.heap_mb}m", "-Xms64m", "-XX:+UseSerialGC")
        quick = ("-Xshare:auto", "-XX:TieredStopAtLevel=1")
        return ["java", *heap, *quick, "-cp", f"{jar_folder()}/*", main, *arguments]

    def _config(self) -> dict[str, str]:
        listeners = [f"{protocol}://127.0.0.1:{port}" for protocol, port in self.ports.items()]
        config = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join([*listeners, f"CONTROLLER://127.0.0.1:{self._controller_port}"]),
            "advertised.listeners": ",".join(listeners),
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": ",".join(
                ["CONTROLLER:PLAINTEXT", *(f"{protocol}:{protocol}" for protocol in self.ports)]
            ),
            "log.dirs": str(self.folder / "data"),
            "auto.create.topics.enable": "false",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "2",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "group.min.session.timeout.ms": "1000",
            "log.retention.check.interval.ms": "1000",
            "log.cleaner.backoff.ms": "500",
            "log.initial.task.delay.ms": "500",
            "log.segment.delete.delay.ms": "500",
            "controlled.shutdown.enable": "false",
        }
        return config | (self._security_config() if self.options.secured else {}) | self.options.config

    def _security_config(self) -> dict[str, str]:
        if self.certificates is None:
            raise TypeError("a secured broker has certificates")
        plain = " ".join(f'user_{name}="{password}"' for name, password in self.passwords.items())
        modules = {
            "plain": f"org.apache.kafka.common.security.plain.PlainLoginModule required {plain};",
            "scram-sha-256": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
            "scram-sha-512": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
        }
        logins = {
            f"listener.name.{protocol.lower()}.{mechanism}.sasl.jaas.config": module
            for protocol in self.ports
            if protocol.startswith("SASL")
            for mechanism, module in modules.items()
        }
        return logins | {
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.certificates.server),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.certificates.authority),
            "ssl.client.auth": "requested",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:admin",
        }


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for held in sockets:
            held.bind(("127.0.0.1", 0))
        return [held.getsockname()[1] for held in sockets]
    finally:
        for held in sockets:
            held.close()


def _tied_to_us() -> list[str]:
    """So that no broker outlives a test run that was killed."""
    return ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
