"""Files of certificates that settings name.

A client takes one that it cannot use for an outage, so they are read before anything is asked.
"""

import ssl
from pathlib import Path

from offramp.errors import ConfigurationError


def check_certificates(section: str, ca: Path | None, certificate: Path | None, key: Path | None) -> None:
    """Raises ConfigurationError for a file of ``section`` that cannot be read, or holds no PEM of its kind."""
    for name, path in (("ca", ca), ("certificate", certificate), ("key", key)):
        if path is not None:
            _read(f"{section}.{name}", path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if ca is not None:
        try:
            context.load_verify_locations(ca)
        except ssl.SSLError as error:
            raise ConfigurationError(f"{section}.ca: {ca} holds no certificate as PEM: {_reason(error)}") from None
    if certificate is not None:
        try:
            # Nobody may be asked for the password of a key; with a wrong one it cannot be used.
            context.load_cert_chain(certificate, key, password="")
        except ssl.SSLError as error:
            raise ConfigurationError(
                f"{section}.certificate: {certificate} with key {key or certificate}: {_reason(error)}; "
                "name a certificate and its private key, as PEM without a password"
            ) from None


def _read(name: str, path: Path) -> None:
    try:
        path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{name}: {path}: {error.strerror}") from None


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or "not PEM").lower().replace("_", " ")
