"""The compose file: valid by the specification, true to this program, and closed to the outside.

There is no engine here to run it. So what it says is held to what the other tests run natively: commands are verbs,
variables are settings, Kafka's settings are those of the broker that tests run on.
"""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree as ET

import compose_spec
import jsonschema
import pytest
import typer
import yaml

from offramp.config import resolve
from offramp.main import app
from sinks.users import ROLES, users_sql
from tests.broker.kafka import KafkaBroker
from tests.monitors import program

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docker-compose.yml").read_text("utf-8")
COMPOSE = yaml.safe_load(TEXT)
SERVICES = COMPOSE["services"]
SCHEMA = json.loads(gzip.decompress((Path(__file__).parent / "compose" / "schema.json.gz").read_bytes()))
OURS = {name: service for name, service in SERVICES.items() if service["image"] == "offramp:local"}
ONE_SHOT = {"users-sql", "users", "init"}
WRITES_ITS_ROOT = {"kafka", "registry"}
RUNNING = SERVICES.keys() - ONE_SHOT


def environment_of(service, secrets):
    """What the process would find, its secrets in another folder."""
    given = service.get("environment", {})
    return {name: value.replace("/run/secrets", str(secrets)) for name, value in given.items()}


@pytest.fixture
def secrets(tmp_path):
    folder = tmp_path / "secrets"
    subprocess.run(["sh", ROOT / "deploy" / "secrets.sh", folder], check=True)
    return folder


def is_valid(content):
    jsonschema.Draft7Validator(SCHEMA).validate(content)
    is_parsed(content)


def is_parsed(content):
    parsed = compose_spec.PyCompose.from_json(json.dumps(content))
    parsed.validate()
    parsed.to_spec()


# By the specification


def test_it_is_valid_by_the_specification():
    is_valid(COMPOSE)


DAMAGES = {
    "a key that is none": lambda c: c["services"]["worker"].update(healthchek={}),
    "a key within one": lambda c: c["services"]["worker"]["healthcheck"].update(intervall="5s"),
    "a kind of value": lambda c: c["services"]["worker"].update(ports="9117"),
    "a section that is none": lambda c: c.update(volums={}),
}
DAMAGES_OF_MEANING = {
    "a word that is none": lambda c: c["services"]["worker"].update(restart="sometimes"),
    "a secret that is none": lambda c: c["services"]["worker"]["secrets"].append("unknown"),
}


def damaged(damage):
    content = json.loads(json.dumps(COMPOSE))
    damage(content)
    return content


@pytest.mark.parametrize("name", DAMAGES)
def test_the_schema_of_the_specification_finds_what_has_another_form(name):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft7Validator(SCHEMA).validate(damaged(DAMAGES[name]))


@pytest.mark.parametrize("name", [*DAMAGES, *DAMAGES_OF_MEANING])
def test_the_parser_finds_what_means_nothing_too(name):
    with pytest.raises(ValueError):
        is_parsed(damaged((DAMAGES | DAMAGES_OF_MEANING)[name]))


def test_what_is_named_is_there():
    declared = set(COMPOSE["volumes"])
    for service in SERVICES.values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (ROOT / source).exists() if source.startswith(".") else source in declared, volume
        for name, needed in service.get("depends_on", {}).items():
            assert needed["condition"] != "service_healthy" or "healthcheck" in SERVICES[name]
            assert (needed["condition"] == "service_completed_successfully") == (name in ONE_SHOT)
    assert set(COMPOSE["secrets"]) == {name for service in SERVICES.values() for name in service.get("secrets", [])}


# True to this program


def test_every_command_is_a_verb():
    for name in OURS.keys() - {"users-sql"}:
        command = typer.main.get_command(app)
        for word in SERVICES[name]["command"]:
            command = command.commands[word]
        assert not hasattr(command, "commands"), name
    assert {tuple(service["command"]) for name, service in OURS.items() if name in RUNNING} == {
        ("run", "classify"),
        ("run", "lifecycle"),
    }


@pytest.mark.parametrize("name", sorted(OURS))
def test_every_variable_is_a_setting(name, secrets):
    settings = resolve(None, environment_of(OURS[name], secrets), {})
    if name == "users-sql":
        return
    assert settings.kafka.servers == ["kafka:9092"]
    assert settings.store.user == ("offramp_migrator" if name == "init" else "offramp_writer")
    assert len(settings.store.password.get_secret_value()) == 48


def test_a_process_has_the_secrets_that_it_names_and_no_other():
    for service in SERVICES.values():
        said = json.dumps([service.get("environment"), service.get("command")])
        assert set(re.findall(r"/run/secrets/([\w.]+)", said)) == set(service.get("secrets", []))


@pytest.mark.parametrize(
    ("name", "binary"), [("prometheus", "prometheus"), ("alertmanager", "prometheus-alertmanager")]
)
def test_every_flag_is_one_of_the_program_that_tests_run(name, binary):
    done = subprocess.run([program(binary), "--help"], capture_output=True, check=False, text=True)
    known = set(re.findall(r"--[\w.-]+", done.stdout + done.stderr))
    assert {flag.partition("=")[0] for flag in SERVICES[name]["command"]} <= known


def test_pages_are_probed_where_they_are_shown():
    for name, section in (("worker", "WORKER"), ("lifecycle", "LIFECYCLE")):
        given = SERVICES[name]["environment"]
        assert given[f"OFFRAMP_{section}__HOST"] == "0.0.0.0"  # noqa: S104 -- within its container
        assert f":{given[f'OFFRAMP_{section}__PORT']}/livez'" in SERVICES[name]["healthcheck"]["test"][-1]


def test_kafka_is_set_as_the_broker_that_tests_run_on(tmp_path):
    native = KafkaBroker(tmp_path)._config()
    given = {name.removeprefix("KAFKA_").lower().replace("_", "."): value
             for name, value in SERVICES["kafka"]["environment"].items() if name.startswith("KAFKA_")}  # fmt: skip
    del given["heap.opts"]
    addresses = {
        "controller.quorum.voters",
        "listeners",
        "advertised.listeners",
        "listener.security.protocol.map",
        "log.dirs",
    }
    assert given.keys() <= native.keys()
    assert {name: given[name] for name in given.keys() - addresses} == {
        name: native[name] for name in given.keys() - addresses
    }


def test_kafka_is_the_version_that_tests_run_on():
    pom = ET.parse(ROOT / "tests" / "broker" / "pom.xml").getroot()  # noqa: S314 -- a file of ours
    space = {"m": "http://maven.apache.org/POM/4.0.0"}
    versions = {each.findtext("m:artifactId", "", space): each.findtext("m:version", "", space)
                for each in pom.iter(f"{{{space['m']}}}dependency")}  # fmt: skip
    assert SERVICES["kafka"]["image"] == f"apache/kafka:{versions['kafka_2.13']}"


def test_clickhouse_is_the_version_of_the_engine_that_tests_run_on():
    pinned = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    engine = ".".join(pinned["chdb-core"].split(".")[:2])
    assert {SERVICES[name]["image"] for name in ("clickhouse", "users")} == {f"clickhouse/clickhouse-server:{engine}"}


def test_the_statements_for_users_are_made_as_the_file_says(secrets, tmp_path):
    (command,) = SERVICES["users-sql"]["command"]
    here = command.replace("/run/secrets", str(secrets)).replace("/users/", f"{tmp_path}/")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for _ in range(2):  # each `up` makes them again
        subprocess.run(["sh", "-c", here], check=True, cwd=ROOT, env={**os.environ, "PATH": path})
    passwords = {role: (secrets / f"{role}.password").read_text().strip() for role in ROLES}
    made = (tmp_path / "users.sql").read_text()
    assert made == users_sql("offramp", passwords)
    assert not any(password in made for password in passwords.values())


# Closed to the outside


def test_every_port_is_on_loopback_alone():
    for name, service in SERVICES.items():
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), f"{name}: {port}"


def test_no_password_stands_in_the_file():
    for name, service in SERVICES.items():
        for variable, value in service.get("environment", {}).items():
            if re.search(r"PASSWORD|SECRET|TOKEN|KEY", variable):
                assert value.startswith("/run/secrets/") and variable.endswith("_FILE"), f"{name}: {variable}"  # noqa: PT018
    assert all(secret["file"].startswith("${OFFRAMP_SECRETS:?") for secret in COMPOSE["secrets"].values())


def test_every_container_is_confined():
    for name, service in SERVICES.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service.get("read_only", False) == (name not in WRITES_ITS_ROOT), name
        assert service["mem_limit"], name
        assert service["cpus"] > 0, name
        assert not {"privileged", "cap_add", "pid", "ipc"} & service.keys(), name


def test_what_runs_for_ever_is_restarted_and_probed_and_what_ends_is_not():
    for name, service in SERVICES.items():
        assert ("healthcheck" in service) == (name in RUNNING), name
        assert (service["restart"] == "unless-stopped") == (name in RUNNING), name


def test_images_are_named_by_version_and_without_a_host():
    for service in SERVICES.values():
        name, _, tag = service["image"].partition(":")
        assert tag not in {"", "latest"}
        assert "." not in name.split("/")[0]


# What belongs to it


def test_the_image_is_built_from_what_the_package_needs_and_runs_as_nobody():
    lines = (ROOT / "deploy" / "Dockerfile").read_text().splitlines()
    users = [line.split()[1] for line in lines if line.startswith("USER")]
    assert users
    assert not users[-1].startswith(("0", "root"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (extras,) = re.findall(r'"\.\[([\w,]+)\]"', "\n".join(lines))
    assert set(extras.split(",")) <= project["project"]["optional-dependencies"].keys()
    packages = {pattern.rstrip("*") for pattern in project["tool"]["setuptools"]["packages"]["find"]["include"]}
    taken = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert packages | {"pyproject.toml", "setup.py", "constraints.txt", "README.md", "LICENSE"} == taken
    assert all((ROOT / name).exists() for name in taken)


def test_secrets_are_made_once_and_closed_to_others(secrets):
    before = {path.name: path.read_text() for path in secrets.iterdir()}
    assert before.keys() == COMPOSE["secrets"].keys()
    assert len(set(before.values())) == len(before)
    assert secrets.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in secrets.iterdir()} == {0o444}
    subprocess.run(["sh", ROOT / "deploy" / "secrets.sh", secrets], check=True)
    assert {path.name: path.read_text() for path in secrets.iterdir()} == before


def test_secrets_need_a_folder():
    assert subprocess.run(["sh", ROOT / "deploy" / "secrets.sh"], capture_output=True, check=False).returncode != 0


def test_the_administrator_of_the_store_comes_from_its_loopback_alone():
    users = ET.parse(ROOT / "deploy" / "clickhouse" / "users.xml").getroot()  # noqa: S314 -- a file of ours
    (default,) = users.findall("users/*")
    assert [ip.text for ip in default.find("networks")] == ["127.0.0.1", "::1"]
    assert default.find("networks").get("replace") == "replace"
    assert SERVICES["users"]["network_mode"] == "service:clickhouse"
    assert ET.parse(ROOT / "deploy" / "clickhouse" / "config.xml").getroot().findtext("timezone") == "UTC"  # noqa: S314


def has_compose():
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not has_compose(), reason="no Docker Compose is here: it did not read the compose file")
def test_compose_reads_it(secrets):
    command = ["docker", "compose", "-f", ROOT / "docker-compose.yml", "config", "--quiet"]
    subprocess.run(command, check=True, env={**os.environ, "OFFRAMP_SECRETS": str(secrets)})
