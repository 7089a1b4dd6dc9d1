"""The page about the pipeline, followed as a newcomer would, natively, at a broker and the double of a server."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sinks.double import start_double

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "run-the-pipeline.md").read_text("utf-8")
NATIVELY = PAGE[PAGE.index("## Natively") : PAGE.index("## Watch it")]
WAIT_S = 180.0


def blocks(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```$", NATIVELY, re.DOTALL | re.MULTILINE)


COMMANDS = [line for block in blocks("sh") for line in block.splitlines() if not line.startswith("pip install")]
CONFIGURE = ["offramp init", "offramp doctor"]
START = ["offramp run classify &", "offramp run lifecycle &"]


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


class Newcomer:
    """A shell in a folder with the configuration of the page, at a broker and a store of the test."""

    def __init__(self, folder, broker, double):
        self.folder, self.running = folder, []
        (content,) = blocks("toml")
        content = content.replace("localhost:9092", broker.bootstrap).replace("http://localhost:8123", double.url)
        (folder / "offramp.toml").write_text(content)
        shutil.copytree(ROOT / "tests" / "data" / "whissle", folder / "tests" / "data" / "whissle")
        command = folder / "bin" / "offramp"
        command.parent.mkdir()
        command.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m offramp "$@"\n')
        command.chmod(0o755)
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("OFFRAMP_")},
            "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(folder), "COLUMNS": "80",
            "OFFRAMP_WORKER__PORT": free_port(), "OFFRAMP_LIFECYCLE__PORT": free_port(),
        }  # fmt: skip

    def run(self, command):
        done = subprocess.run(
            ["sh", "-c", command], cwd=self.folder, env=self.environment, capture_output=True, timeout=120, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout.decode()}\n{done.stderr.decode()}"
        return done.stdout.decode()

    def begin(self, command):
        log = (self.folder / f"{len(self.running)}.log").open("wb")
        with log:
            self.running.append(
                subprocess.Popen(
                    ["sh", "-c", f"exec {command}"], cwd=self.folder, env=self.environment, stdout=log, stderr=log
                )
            )

    def end(self):
        for process in self.running:
            process.terminate()
        return [process.wait(WAIT_S) for process in self.running]

    def logs(self):
        return "\n".join(path.read_text()[-2000:] for path in self.folder.glob("*.log"))

    def status(self):
        done = subprocess.run(
            ["offramp", "status", "--format", "json"],
            cwd=self.folder, env=self.environment, capture_output=True, check=False,
            executable=str(self.folder / "bin" / "offramp"),
        )  # fmt: skip
        assert done.stdout, done.stderr.decode()
        return json.loads(done.stdout)

    def until(self, holds):
        deadline = time.monotonic() + WAIT_S
        while not holds(status := self.status()):
            assert time.monotonic() < deadline, f"{status}\n{self.logs()}"


@pytest.fixture
def newcomer(tmp_path, own_broker):
    with start_double(tmp_path / "store") as double:
        (tmp_path / "home").mkdir()
        newcomer = Newcomer(tmp_path / "home", own_broker(), double)
        yield newcomer
        for process in newcomer.running:
            process.kill()
            process.wait()


def test_a_newcomer_gets_from_zero_to_a_running_pipeline(newcomer):
    remaining = iter(COMMANDS)
    for command in [*CONFIGURE, *START]:
        assert next(remaining) == command
        newcomer.begin(command.removesuffix(" &")) if command.endswith(" &") else newcomer.run(command)
    newcomer.until(lambda status: all(group["members"] for group in status["groups"]))
    said = {}
    for command in remaining:
        if command == "offramp status":
            newcomer.until(lambda status: status["store"]["ledger"]["read"] == 14)
        said[command.split()[1]] = newcomer.run(command)
    assert "unaccounted  0" in said["status"]
    assert re.search(r"human_queue\s+7", said["query"])
    assert "unaccounted: 0" in said["audit"]
    assert newcomer.end() == [0, 0], newcomer.logs()


def test_every_setting_and_metric_that_the_page_names_exists():
    names = set(re.findall(r"`(offramp_\w+)`", PAGE)) - {"offramp_reader"}
    known = (ROOT / "docs" / "reference" / "metrics.md").read_text("utf-8")
    assert {name for name in names if f"`{name}`" not in known} == set()
    settings = (ROOT / "docs" / "reference" / "configuration.md").read_text("utf-8")
    for section, key in re.findall(r"`(kafka|worker|traces|store)\.(\w+)`", PAGE):
        assert f"`OFFRAMP_{section.upper()}__{key.upper()}`" in settings, f"{section}.{key}"
