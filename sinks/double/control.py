"""The double as tests hold it: a process of its own, started, spoken to, restarted, stopped."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Literal

from sinks.double.faults import Fault, FaultKind
from sinks.double.users import Account


@dataclass(frozen=True)
class Calls:
    """What the double was asked: counts by (first word of the statement, outcome), and tokens of inserts in order.

    An outcome is ``ok``, the code of an error, or the kind of a fault.
    """

    counts: dict[tuple[str, str], int]
    tokens: list[str]

    def of(self, word: str, outcome: str | None = None) -> int:
        """How many statements began with ``word`` and ended so; with any outcome if none is named."""
        return sum(n for (first, end), n in self.counts.items() if first == word.upper() and outcome in {None, end})


@dataclass
class Double:
    """A double that runs. Faults hold for inserts if nothing else is said: ``on`` is a regular expression that is
    searched in the statement, in any case; ``after`` lets as many pass first; ``times`` None is for ever."""

    path: Path
    accounts: Sequence[Account] = ()
    certificate: Path | None = None
    """PEM file of the server's certificate and key; without one it speaks plain HTTP."""
    client_ca: Path | None = None
    """Authority that a client's certificate must come from; without one none is asked for."""
    cluster: str | None = None
    """Name of a cluster of one shard, the double itself, over which Distributed tables work; none without."""
    port: int = 0
    """0 until it was started without one, then the one that it was given."""
    control_port: int = field(default=0, init=False)
    """Where faults are planned, by plain HTTP; another one after each start."""
    _process: "subprocess.Popen[bytes] | None" = field(default=None, init=False, repr=False)

    @property
    def url(self) -> str:
        """Its address."""
        return f"{'http' if self.certificate is None else 'https'}://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, on the port that it had before. Raises RuntimeError if it does not come up."""
        given = [f"--user={one.name}:{one.password}:{one.role}" for one in self.accounts]
        given += [] if self.certificate is None else [f"--certificate={self.certificate}"]
        given += [] if self.client_ca is None else [f"--client-ca={self.client_ca}"]
        given += [] if self.cluster is None else [f"--cluster={self.cluster}"]
        command = [sys.executable, "-m", "sinks.double", f"--path={self.path}", f"--port={self.port}", *given]
        # Ends when its input does, so that it never outlives who started it.
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603 -- our own
        self._process = process
        said = process.stdout.readline() if process.stdout else b""
        if not said:
            self.kill()
            raise RuntimeError(f"the double does not start on {self.path}; see its stderr")
        told = json.loads(said)
        self.port, self.control_port = told["port"], told["control"]

    def stop(self) -> None:
        """Let it end in order: what was applied is on disk."""
        if self._process is not None:
            self._process.terminate()
            self._end()

    def kill(self) -> None:
        """End it as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._end()

    def restart(self) -> None:
        """Stop it, and start it on the same port and directory. Planned faults and the record are gone."""
        self.stop()
        self.start()

    def _end(self) -> None:
        if self._process is not None:
            self._process.communicate()
            self._process = None

    # Faults

    def plan(self, fault: Fault) -> None:
        """Let ``fault`` happen from now on."""
        self._control("POST", "faults", fault.as_json())

    def refuse(self, code: int, *, times: int | None = 1, on: str = "^INSERT", after: int = 0) -> None:
        """Answer with an error of the engine."""
        self.plan(Fault(FaultKind.REFUSE, code=code, on=on, after=after, times=times))

    def status(self, code: int, *, times: int | None = 1, on: str = "^INSERT", after: int = 0) -> None:
        """Answer with a bare HTTP status."""
        self.plan(Fault(FaultKind.STATUS, code=code, on=on, after=after, times=times))

    def delay(self, seconds: float, *, times: int | None = 1, on: str = "^INSERT", after: int = 0) -> None:
        """Answer later."""
        self.plan(Fault(FaultKind.DELAY, seconds=seconds, on=on, after=after, times=times))

    def cut(
        self,
        when: Literal["before", "after", "within"],
        *,
        times: int | None = 1,
        on: str = "^INSERT",
        after: int = 0,
    ) -> None:
        """Reset the connection: before the body is read, after the statement was applied, or within the answer."""
        self.plan(Fault(FaultKind(f"cut_{when}"), on=on, after=after, times=times))

    def clear(self) -> None:
        """No more faults."""
        self._control("DELETE", "faults")

    def calls(self) -> Calls:
        """What it was asked since it started."""
        said = self._control("GET", "calls")
        return Calls({(word, outcome): count for word, outcome, count in said["calls"]}, said["tokens"])

    def _control(self, method: str, what: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        sent = None if body is None else json.dumps(body).encode()
        with closing(HTTPConnection("127.0.0.1", self.control_port)) as connection:
            connection.request(method, f"/{what}", body=sent)
            told: dict[str, Any] = json.load(connection.getresponse())
        return told


@contextmanager
def start_double(  # noqa: PLR0913 -- each under its own name
    path: Path,
    accounts: Sequence[Account] = (),
    *,
    certificate: Path | None = None,
    client_ca: Path | None = None,
    cluster: str | None = None,
    port: int = 0,
) -> Iterator[Double]:
    """A double on directory ``path`` while the context lasts, on a free port if none is named.

    ``accounts`` are its users; without any there is ``default``, without a password, that may do all.
    """
    double = Double(path, accounts, certificate, client_ca, cluster, port)
    double.start()
    try:
        yield double
    finally:
        double.stop()
