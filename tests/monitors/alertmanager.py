"""One Alertmanager, which tells a webhook; it can be ended and started again on the same port and the same memory."""

import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from tests.monitors import program

WAIT_S = 60.0


def eventually(holds, what, wait_s=WAIT_S):
    """The first true answer of ``holds``, asked again until the deadline."""
    deadline = time.monotonic() + wait_s
    while not (answer := holds()):
        assert time.monotonic() < deadline, f"not within {wait_s:g} s: {what()}"
        time.sleep(0.05)
    return answer


class AlertmanagerProcess:
    """``told`` is the address of the webhook."""

    def __init__(self, folder: Path, told: str, group_interval: str = "1s") -> None:
        self.program, self.folder = program("prometheus-alertmanager"), folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        (folder / "alertmanager.yml").write_text(
            f"route: {{receiver: hook, group_by: [alertname], group_wait: 100ms, group_interval: {group_interval}}}\n"
            f'receivers: [{{name: hook, webhook_configs: [{{url: "{told}", send_resolved: true}}]}}]\n'
        )
        self.process = None

    def start(self) -> None:
        with (self.folder / "alertmanager.log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    self.program,
                    f"--config.file={self.folder / 'alertmanager.yml'}",
                    f"--storage.path={self.folder / 'memory'}",
                    f"--web.listen-address=127.0.0.1:{self.port}",
                    "--cluster.listen-address=",
                ],
                stdout=log,
                stderr=log,
            )
        eventually(self._is_ready, lambda: (self.folder / "alertmanager.log").read_text()[-2000:])

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=5) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def end(self) -> None:
        """As an operator ends it: it keeps what it told whom."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(WAIT_S)
