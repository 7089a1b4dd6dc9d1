"""On-call's tutorial, followed as it is written, from nothing to a page that is received and resolved."""

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.monitors.alertmanager import eventually
from tests.offramp.kit import environment

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tutorial" / "first-page.md").read_text("utf-8")
_BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
KINDS, BLOCKS = zip(*_BLOCK.findall(PAGE), strict=True)

_NUMBER = re.compile(r"\d+(?:\\\.\d+)?")


class Reader:
    """Somebody who types the commands of a page into one shell, block by block."""

    def __init__(self, folder, port):
        commands = folder / "bin"
        commands.mkdir()
        for name, module in (("offramp", "-m offramp"), ("python", "")):
            (commands / name).write_text(f'#!/bin/sh\nexec {sys.executable} {module} "$@"\n')
            (commands / name).chmod(0o755)
        shutil.copytree(ROOT / "examples", folder / "examples")
        self.folder, self.port, self.done = folder, port, 0
        with (folder / "said.txt").open("wb") as said:
            self.shell = subprocess.Popen(
                ["bash", "-m"],
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=environment(PATH=f"{commands}:{os.environ['PATH']}", PYTHONPATH=str(ROOT)),
            )

    def type(self, block):
        self.done += 1
        text = block.replace("9099", str(self.port))
        self.shell.stdin.write(f"{text}\necho $? > done.{self.done}\n".encode())
        self.shell.stdin.flush()
        finished = self.folder / f"done.{self.done}"
        eventually(lambda: finished.exists() and finished.read_text(), self.said, 180)
        assert finished.read_text() == "0\n", self.said()

    def said(self):
        return (self.folder / "said.txt").read_text()

    def pages(self):
        told = self.folder / "pages.txt"
        return told.read_text() if told.exists() else ""

    def end(self):
        self.shell.stdin.write(b"kill -KILL $(jobs -p) 2>/dev/null; exit\n")
        self.shell.stdin.close()
        self.shell.wait(60)


@pytest.fixture
def reader(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    reader = Reader(tmp_path, port)
    yield reader
    reader.end()


def test_it_leads_from_nothing_to_a_page_that_is_resolved(reader):
    assert KINDS == ("sh", "sh", "sh", "sh", "text", "sh", "sh", "text", "sh")
    receiver, configure, quiet, wrong, fired, look, resolve, resolved, end = BLOCKS
    for block in (receiver, configure, quiet):
        reader.type(block)
    log = reader.folder / "alerts.log"
    kept = "offramp query 'SELECT count() AS n FROM v_alert_evaluations' --format json"
    eventually(lambda: _evaluated(reader, kept), log.read_text)
    assert reader.pages() == ""
    reader.type(wrong)
    eventually(lambda: reader.pages().count("\n") == 3, lambda: reader.pages() + log.read_text())
    # Which runs share the rule's last minute is up to the clock, so the figures are any.
    assert re.fullmatch(_NUMBER.sub(r"[\\d.]+", re.escape(fired)), reader.pages())
    reader.type(look)
    reader.type(resolve)
    eventually(lambda: "resolved" in reader.pages(), lambda: reader.pages() + log.read_text(), 120)
    assert reader.pages().endswith(resolved)
    reader.type(end)
    assert re.search(r"refusal_rate\s+resolved", reader.said())


def _evaluated(reader, command):
    reader.type(f"{command} > evaluated.txt")
    return '"n": 1' in (reader.folder / "evaluated.txt").read_text().replace('"n":1', '"n": 1')
