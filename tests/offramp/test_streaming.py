"""From settings to clients: every setting arrives, and every error is one of the command's."""

import shutil

import pytest

from offramp import streaming
from offramp.config import resolve
from offramp.errors import CheckFailedError, ConfigurationError, CouldNotCheckError
from streams.clock import FixedClock
from streams.kafka.errors import BrokerRejected, BrokerUnavailable, Rejection, Unconfirmed
from streams.kafka.seam import Connection, Security
from streams.registry import RegistryRejected, RegistryUnavailable
from tests.broker.certificates import make_certificates


def settings(environment, text="", tmp_path=None):
    file = None
    if text:
        file = tmp_path / "offramp.toml"
        file.write_text(text)
    return resolve(file, {f"OFFRAMP_{name}": value for name, value in environment.items()}, {})


def test_every_setting_of_the_broker_arrives(tmp_path):
    (tmp_path / "password").write_text("geheim\n")
    files = [str(tmp_path / name) for name in ("ca.pem", "c.pem", "k.pem")]
    made = make_certificates(tmp_path / "made")
    for file, source in zip(files, (made.authority, made.client_certificate, made.client_key), strict=True):
        shutil.copy(source, file)
    given = settings({
        "KAFKA__SERVERS": "a:1,b:2", "KAFKA__CLIENT_ID": "me", "KAFKA__TIMEOUT_S": "7", "KAFKA__PROTOCOL": "SASL_SSL",
        "KAFKA__SASL_MECHANISM": "PLAIN", "KAFKA__USERNAME": "u", "KAFKA__PASSWORD_FILE": str(tmp_path / "password"),
        "KAFKA__CA": files[0], "KAFKA__CERTIFICATE": files[1], "KAFKA__KEY": files[2], "KAFKA__CHECK_HOSTNAME": "false",
    })  # fmt: skip
    security = Security("SASL_SSL", "PLAIN", "u", "geheim", *files, check_hostname=False)
    assert streaming.connection(given.kafka) == Connection(("a:1", "b:2"), "me", security, 7)
    assert "geheim" not in repr(given)


@pytest.mark.parametrize(
    "server", ["garbage", "http://a:1", "a:", ":9092", "a:b", "a b:1", "a:1:2", "::1:9092", "a:0", "a:65536"]
)
def test_a_server_without_a_port_is_refused_where_a_client_would_wait(server):
    with pytest.raises(ConfigurationError, match=r"kafka\.servers: .* is not host:port"):
        settings({"KAFKA__SERVERS": f"a:1,{server}"})


def test_a_server_may_be_an_address_of_any_kind():
    given = settings({"KAFKA__SERVERS": "10.0.0.1:9092,[::1]:9092,broker-1.example:65535"})
    assert len(given.kafka.servers) == 3


@pytest.mark.parametrize("name", ["ca", "certificate", "key"])
def test_a_file_that_is_not_there_is_said_where_a_client_would_wait(name):
    given = settings({"KAFKA__SERVERS": "a:1", f"KAFKA__{name.upper()}": "/nowhere.pem"})
    with pytest.raises(ConfigurationError, match=rf"kafka\.{name}: /nowhere\.pem: No such file"):
        streaming.connection(given.kafka)


def test_what_is_not_set_is_the_seams_default():
    assert streaming.connection(settings({"KAFKA__SERVERS": "a:1"}).kafka) == Connection(("a:1",))


def test_without_servers_there_is_no_broker():
    with pytest.raises(ConfigurationError, match=r"no broker is configured; set kafka\.servers to host:port"):
        streaming.client(settings({}).kafka)


def test_the_topics_are_those_of_the_prefix_and_a_trials_of_its_own():
    given = settings(
        {"TOPICS__PREFIX": "eu.", "TOPICS__OVERRIDES": "enrichments:partitions=2,exit-alerts:segment.ms=5"}
    )
    topics = streaming.topics(given)
    assert topics.enrichments.name == "eu.enrichments"
    assert topics.enrichments.partitions == 2
    assert topics.exit_alerts.settings["segment.ms"] == "5"
    assert streaming.topics(given, trial=True).enrichments.name == "trial.enrichments"


def test_without_a_url_there_is_no_registry():
    assert streaming.registry(settings({}).registry, FixedClock()) is None
    assert streaming.registry(settings({"REGISTRY__URL": "http://host:1"}).registry, FixedClock()) is not None


@pytest.mark.parametrize(
    "environment", [{"REGISTRY__URL": "host"}, {"REGISTRY__URL": "https://h", "REGISTRY__CA": "no"}]
)
def test_a_registry_that_cannot_be_used_is_a_matter_of_configuration(environment):
    with pytest.raises(ConfigurationError):
        streaming.registry(settings(environment).registry, FixedClock())


ENDS = {
    "an outage of the broker": (
        BrokerUnavailable("gone"),
        CouldNotCheckError,
        "be asked: gone; start it, or correct kafka",
    ),
    "messages that were not confirmed": (Unconfirmed((), 5), CouldNotCheckError, "^0 messages .* send again$"),
    "a refusal of the broker": (BrokerRejected(Rejection.BAD_REQUEST, "no"), ConfigurationError, "refuses: no$"),
    "a refusal of access": (
        BrokerRejected(Rejection.AUTHORIZATION, "no"),
        ConfigurationError,
        "refuses: no; let kafka.username do what",
    ),
    "a refusal of the user": (
        BrokerRejected(Rejection.AUTHENTICATION, "no"),
        ConfigurationError,
        "refuses: no; correct kafka.username",
    ),
    "an outage of the registry": (
        RegistryUnavailable("gone"),
        CouldNotCheckError,
        "gone; start it, or correct registry",
    ),
    "a refusal of the registry": (RegistryRejected("no"), ConfigurationError, "no"),
    "an error of the command": (CheckFailedError("failed"), CheckFailedError, "failed"),
}


@pytest.mark.parametrize("case", ENDS)
def test_every_error_is_one_of_the_commands(case):
    error, kind, said = ENDS[case]
    with pytest.raises(kind, match=said), streaming.reachable():
        raise error


def test_a_trials_prefix_cannot_be_empty(tmp_path):
    with pytest.raises(ConfigurationError, match=r"topics\.trial_prefix"):
        settings({}, '[topics]\ntrial_prefix = ""\n', tmp_path)
