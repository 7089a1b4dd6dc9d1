"""``offramp run lifecycle --alerts-only`` as it is run: by itself, twice at once, and with settings that are wrong."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sinks.double import start_double
from tests.monitors.alertmanager import eventually
from tests.offramp.kit import ROOT, environment, run, run_alone
from tests.sinks.receiver import receiving

RULES = ROOT / "examples" / "alerts" / "rules.toml"
RUNS = ROOT / "examples" / "alerts" / "runs.py"


def told(receiver):
    return [(each["state"], each["id"]) for _, _, value in receiver.posts for each in value["alerts"]]


class Deployment:
    """A store behind the double of a server, a webhook, and processes that evaluate."""

    def __init__(self, folder, url, webhook):
        self.folder, self.processes = folder, []
        self.where = {
            "OFFRAMP_STORE__URL": url,
            "OFFRAMP_CLASSIFY__WORKERS": "0",
            "OFFRAMP_ALERTS__RULES": str(RULES),
            "OFFRAMP_ALERTS__WEBHOOK": webhook,
            "OFFRAMP_ALERTS__LEASE_S": "4",
            "OFFRAMP_LIFECYCLE__EVALUATE_S": "0.5",
        }

    def classify(self, ending, number):
        lines = self.folder / "runs.jsonl"
        with lines.open("wb") as out:
            subprocess.run([sys.executable, RUNS, ending, str(number)], check=True, stdout=out)
        done = run_alone("classify", lines, **self.where)
        assert done.status == 0, done.err

    def evaluate(self):
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "offramp", "run", "lifecycle", "--alerts-only"],
                cwd=ROOT, env=environment(**self.where), stdout=log, stderr=log,
            )  # fmt: skip
        self.processes.append(process)
        return process

    def log(self):
        return (self.folder / "log").read_text()

    def holders(self):
        done = run_alone("query", "SELECT holder FROM v_alert_evaluations", "--format", "json", **self.where)
        return done.text

    def end(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait(60)


@pytest.fixture
def receiver():
    with receiving() as state:
        yield state


@pytest.fixture
def deployment(tmp_path, receiver):
    with start_double(tmp_path / "double") as double:
        deployment = Deployment(tmp_path, double.url, receiver.url)
        yield deployment
        deployment.end()


def test_of_two_that_evaluate_one_tells_and_the_other_goes_on(deployment, receiver):
    deployment.classify("completed", 20)
    first = deployment.evaluate()
    eventually(lambda: "holder" in deployment.holders(), deployment.log)
    second = deployment.evaluate()
    deployment.classify("refusal", 40)
    eventually(lambda: told(receiver), deployment.log)
    first.send_signal(signal.SIGKILL)
    held = deployment.holders()
    eventually(lambda: deployment.holders() != held, deployment.log)
    assert second.poll() is None, deployment.log()
    assert len({identity for _, identity in told(receiver)}) == 1
    assert {state for state, _ in told(receiver)} == {"firing"}
    second.send_signal(signal.SIGTERM)
    assert second.wait(60) == 0
    assert '"holder": ""' in deployment.holders().replace('":"', '": "')
    assert "Traceback" not in deployment.log()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"OFFRAMP_ALERTS__WEBHOOK": "hooks.example"}, "alerts.webhook: the address of a receiver must be like"),
        ({"OFFRAMP_ALERTS__ALERTMANAGER": "http://a:9093,ftp://b"}, "alerts.alertmanager: the address of a receiver"),
        ({"OFFRAMP_ALERTS__RULES": "none.toml"}, "none.toml"),
        ({"OFFRAMP_ALERTS__RESEND_S": "0"}, "alerts.resend_s"),
    ],
)
def test_what_cannot_be_used_is_said_at_the_start(tmp_path, given, said):
    runs = tmp_path / "runs.jsonl"
    runs.write_bytes(subprocess.run([sys.executable, RUNS, "completed", "1"], check=True, capture_output=True).stdout)
    assert run("classify", runs, "--store", tmp_path / "store").status == 0
    done = run_alone("run", "lifecycle", "--alerts-only", "--store", tmp_path / "store", **given)
    assert (done.status, said in done.err) == (2, True), done.err


def test_without_a_store_there_is_nothing_to_evaluate(tmp_path):
    done = run("run", "lifecycle", "--alerts-only", "--store", Path(tmp_path, "none"))
    assert (done.status, "there is no store" in done.err) == (3, True), done.err
