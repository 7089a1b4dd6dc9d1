"""Prometheus, Alertmanager and Grafana: what they are told to read is what the processes show."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from alerts.rules import default_text, load
from streams.alert_metrics import Judged, alert_metrics_text
from streams.alerting import Turn
from streams.clock import FixedClock
from streams.health import Health
from streams.kafka.seam import TopicPartition
from streams.lifecycle.knowledge import OpenItems
from streams.lifecycle.lifecycle import Counts
from streams.lifecycle.pages import Status, metrics_text
from streams.metrics import Build, Metrics

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
SERVICES = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
SCRAPED = {job["job_name"]: job for job in yaml.safe_load((DEPLOY / "prometheus.yml").read_text())["scrape_configs"]}
DASHBOARD = json.loads((DEPLOY / "grafana" / "dashboards" / "offramp.json").read_text())
EXPRESSIONS = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
OF_PROMETHEUS = {"up"}
FUNCTIONS = {"sum", "max", "count", "rate", "increase", "time", "histogram_quantile", "by"}


def series():
    """Name of every series with the names of its labels, of both processes."""
    clock = FixedClock(1)
    health = Health(clock, 60, 30)
    health.assigned({TopicPartition("t", 0): 0})
    health.ends({TopicPartition("t", 0): 1})
    worker = Metrics(health, clock, Build("1", "1", "d"), ("t",)).page().body.decode()
    lifecycle = metrics_text(OpenItems((), (), ()), Status(True, True, 1, Counts(), {}), ["q"], 1, 1)  # noqa: FBT003
    alerts = alert_metrics_text(load(default_text()).rules, ["webhook"], Judged(Turn(leads=True), 1))
    found = {}
    for text in (worker, lifecycle, alerts):
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
    return found


def test_both_processes_are_scraped_where_they_show_their_pages():
    for job, service, section in (("classify", "worker", "WORKER"), ("lifecycle", "lifecycle", "LIFECYCLE")):
        (where,) = SCRAPED[f"offramp-{job}"]["dns_sd_configs"]
        assert where["names"] == [service]
        assert str(where["port"]) == SERVICES[service]["environment"][f"OFFRAMP_{section}__PORT"]


def test_alerts_go_where_alertmanager_is():
    managers = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())["alerting"]["alertmanagers"]
    assert managers == [{"static_configs": [{"targets": ["alertmanager:9093"]}]}]
    assert "alertmanager" in SERVICES


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_panel_asks_for_what_is_there(expression):
    known = series()
    names = set(
        re.findall(r"(?<![\w{\"])([a-z_][a-z0-9_]*)(?=[\s({\[)]|$)", re.sub(r"by \([^)]*\)|\"[^\"]*\"", "", expression))
    )
    metrics = names - FUNCTIONS - OF_PROMETHEUS
    assert metrics <= known.keys()
    assert metrics or "up{" in expression
    labels = set(re.findall(r"(\w+)=\"", expression)) | {
        label.strip() for group in re.findall(r"by \(([^)]*)\)", expression) for label in group.split(",")
    }
    given = {label for metric in metrics for label in known[metric]} | {"job", "instance"}
    assert labels <= given
    jobs = set(re.findall(r'job="([^"]*)"', expression))
    assert jobs <= SCRAPED.keys()


def test_that_check_finds_a_metric_that_is_not_there():
    with pytest.raises(AssertionError):
        test_every_panel_asks_for_what_is_there("sum(rate(offramp_mesages_total[5m]))")
    with pytest.raises(AssertionError):
        test_every_panel_asks_for_what_is_there("sum by (run_id) (offramp_lag_messages)")


def test_the_dashboard_stays_the_same_one():
    assert DASHBOARD["uid"] == "offramp-pipeline"
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    (source,) = yaml.safe_load((DEPLOY / "grafana/provisioning/datasources/prometheus.yml").read_text())["datasources"]
    assert {panel["datasource"]["uid"] for panel in DASHBOARD["panels"]} == {source["uid"]}
    assert source["url"] == "http://prometheus:9090"


def test_panels_do_not_lie_on_each_other():
    taken = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


def test_grafana_finds_the_dashboard():
    (provider,) = yaml.safe_load((DEPLOY / "grafana/provisioning/dashboards/offramp.yml").read_text())["providers"]
    mounts = dict(volume.split(":")[:2] for volume in SERVICES["grafana"]["volumes"])
    assert mounts["./deploy/grafana/dashboards"] == provider["options"]["path"]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not here: prometheus.yml was not read by it")
def test_prometheus_reads_its_configuration():
    subprocess.run(["promtool", "check", "config", DEPLOY / "prometheus.yml"], check=True, capture_output=True)


@pytest.mark.skipif(shutil.which("amtool") is None, reason="amtool is not here: alertmanager.yml was not read by it")
def test_alertmanager_reads_its_configuration():
    subprocess.run(["amtool", "check-config", DEPLOY / "alertmanager.yml"], check=True, capture_output=True)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not here: no page was read by it")
def test_prometheus_likes_what_the_worker_shows():
    clock = FixedClock(1)
    page = Metrics(Health(clock, 60, 30), clock, Build("1", "1", "d"), ("t",)).page()
    assert liked(page.body)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not here: no page was read by it")
def test_prometheus_likes_what_the_lifecycle_app_shows():
    status = Status(complete=True, leader=True, synced_at=1, counts=Counts(), sizes={"open": 1})
    assert liked(metrics_text(OpenItems((), (), ()), status, ["q"], 1, 1).encode())


def liked(page):
    """Whether promtool finds nothing about a page; it says what it finds on standard error."""
    done = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, check=False)
    return (done.returncode, done.stderr) == (0, b"")
