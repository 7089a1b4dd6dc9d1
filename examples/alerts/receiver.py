# ruff: noqa: INP001 -- a script by itself, not a package
"""A webhook that prints what it is told: ``receiver.py PORT``. Yours would wake somebody."""

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any


class Handler(BaseHTTPRequestHandler):
    """Confirms whatever is posted."""

    def do_POST(self) -> None:
        """Print state, rule, whose, and value; then by which runs, and why, of one that fires."""
        posted = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        for alert in posted["alerts"]:
            whose = f"{alert['tenant']} {alert['agent_id']}"
            sys.stdout.write(f"{alert['state']} {alert['rule']} {whose} {alert['value']:.0%}\n")
            # Why it fired is no news when it is over, and has the figures of then.
            if alert["state"] == "firing":
                sys.stdout.writelines(f"  {said}\n" for said in (alert["summary"], alert["cause"]) if said)
        sys.stdout.flush()
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Only alerts are printed."""


if __name__ == "__main__":
    HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
