"""Run the double: ``python -m sinks.double --path DIR [--port N] [--user NAME:PASSWORD:ROLE]``.

Writes one line of JSON with its ports when it listens, on loopback alone, and runs until SIGTERM, SIGINT or
the end of its input.
"""

import argparse
import json
import signal
import ssl
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from sinks.double.engine import EmbeddedServer
from sinks.double.server import Control, Double
from sinks.double.users import Account, account_from


def main(arguments: list[str]) -> None:
    """Serve until told to end."""
    given = _parser().parse_args(arguments)
    given.path.mkdir(parents=True, exist_ok=True)
    engine = EmbeddedServer(given.path, given.cluster)
    tls = _tls(given.certificate, given.client_ca) if given.certificate else None
    with (
        Double(("127.0.0.1", given.port), engine, given.user or [Account("default")], tls) as double,
        Control(double) as control,
    ):
        _end_when_told(double)
        threading.Thread(target=control.serve_forever, daemon=True).start()
        sys.stdout.write(json.dumps({"port": double.server_address[1], "control": control.server_address[1]}) + "\n")
        sys.stdout.flush()
        double.serve_forever(poll_interval=0.05)
    engine.close()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m sinks.double", description="A double of a ClickHouse server.")
    parser.add_argument("--path", type=Path, required=True, help="directory of the engine")
    parser.add_argument("--port", type=int, default=0, help="port on loopback; a free one if 0")
    parser.add_argument("--user", type=account_from, action="append", help="NAME:PASSWORD:ROLE, once for each user")
    parser.add_argument("--cluster", help="name of a cluster of one shard, which is this engine")
    parser.add_argument("--certificate", type=Path, help="PEM file with certificate and key; speaks TLS then")
    parser.add_argument("--client-ca", type=Path, help="PEM file of the authority of clients' certificates")
    return parser


def _tls(certificate: Path, client_ca: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=client_ca)
    context.load_cert_chain(certificate)
    context.verify_mode = ssl.CERT_NONE if client_ca is None else ssl.CERT_REQUIRED
    return context


def _end_when_told(double: Double) -> None:
    """End on a signal, and when the input ends: whoever started it is gone then."""

    def end(*_: object) -> None:
        # From another thread, because it waits for the loop that this one runs.
        threading.Thread(target=double.shutdown, daemon=True).start()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    if not sys.stdin.isatty():
        threading.Thread(target=_call_at_end_of_input, args=(end,), daemon=True).start()


def _call_at_end_of_input(end: Callable[[], None]) -> None:
    sys.stdin.read()
    end()


if __name__ == "__main__":
    main(sys.argv[1:])
