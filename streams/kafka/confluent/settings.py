"""What of a connection the library wants to be told, in its own words."""

from typing import Any

from streams.kafka.confluent.errors import Problems
from streams.kafka.seam import Connection, Fetching, Security, Subscription

BACKOFF_MS = 2_000
"""Longest pause between two attempts to reach a broker that is away."""


def common(connection: Connection, problems: Problems) -> dict[str, Any]:
    """The settings that consumers, producers and admins share."""
    return {
        "bootstrap.servers": ",".join(connection.servers),
        "client.id": connection.client_id,
        "socket.timeout.ms": int(connection.timeout_s * 1000),
        "reconnect.backoff.max.ms": BACKOFF_MS,
        "log_level": 2,
        "error_cb": problems.hear,
        **_security(connection.security),
    }


def _security(security: Security) -> dict[str, Any]:
    settings: dict[str, Any] = {"security.protocol": security.protocol}
    if security.sasl:
        settings |= {
            "sasl.mechanism": security.sasl_mechanism,
            "sasl.username": security.username,
            "sasl.password": security.password,
        }
    if security.tls:
        settings["ssl.endpoint.identification.algorithm"] = "https" if security.check_hostname else "none"
        files = {
            "ssl.ca.location": security.ca_file,
            "ssl.certificate.location": security.certificate_file,
            "ssl.key.location": security.key_file,
        }
        settings |= {name: path for name, path in files.items() if path}
    return settings


def reading(connection: Connection, problems: Problems, fetching: Fetching) -> dict[str, Any]:
    """The settings of whoever reads: nothing is committed, nothing reset, no topic made."""
    return common(connection, problems) | {
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "isolation.level": "read_committed",
        "allow.auto.create.topics": False,
        "enable.partition.eof": True,
        "fetch.message.max.bytes": fetching.partition_bytes,
        "fetch.max.bytes": max(fetching.total_bytes, fetching.partition_bytes),
        "fetch.min.bytes": fetching.least_bytes,
        "fetch.wait.max.ms": int(fetching.max_wait_s * 1000),
        "queued.max.messages.kbytes": fetching.total_bytes >> 10,
        "group.id": "unused",  # the library wants one even of readers without a group, and never uses it then
    }


def membership(subscription: Subscription) -> dict[str, Any]:
    """The settings of a member of a group."""
    settings = {
        "group.id": subscription.group,
        "session.timeout.ms": int(subscription.session_timeout_s * 1000),
        "heartbeat.interval.ms": int(subscription.heartbeat_interval_s * 1000),
        "max.poll.interval.ms": int(subscription.max_poll_interval_s * 1000),
        "partition.assignment.strategy": "range",  # shares out each topic by itself
    }
    if subscription.instance_id is not None:
        settings["group.instance.id"] = subscription.instance_id
    return settings
