"""What of a connection the library wants to be told, in its own words."""

from typing import Any

from streams.kafka.seam import Connection, Security

BACKOFF_MS = 2_000
"""Longest pause between two attempts to reach a broker that is away."""


def common(connection: Connection) -> dict[str, Any]:
    """The settings that consumers, producers and admins share."""
    milliseconds = int(connection.timeout_s * 1000)
    return {
        "bootstrap_servers": list(connection.servers),
        "client_id": connection.client_id,
        "request_timeout_ms": milliseconds,
        "bootstrap_timeout_ms": milliseconds,
        "reconnect_backoff_max_ms": BACKOFF_MS,
        **_security(connection.security),
    }


def _security(security: Security) -> dict[str, Any]:
    settings: dict[str, Any] = {"security_protocol": security.protocol}
    if security.sasl:
        settings |= {
            "sasl_mechanism": security.sasl_mechanism,
            "sasl_plain_username": security.username,
            "sasl_plain_password": security.password,
        }
    if security.tls:
        settings |= {
            "ssl_check_hostname": security.check_hostname,
            "ssl_cafile": security.ca_file or None,
            "ssl_certfile": security.certificate_file or None,
            "ssl_keyfile": security.key_file or None,
        }
    return settings
