"""A certificate authority and certificates for the loopback address, made by openssl for one broker's life."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

_NAMES = "subjectAltName=DNS:localhost,IP:127.0.0.1"


@dataclass(frozen=True)
class Certificates:
    """PEM files: the authority, a server's key with its chain, a client's certificate and its key."""

    authority: Path
    server: Path
    client_certificate: Path
    client_key: Path


def make_certificates(folder: Path) -> Certificates:
    """Make everything in ``folder``; valid for a day. Raises CalledProcessError."""
    folder.mkdir(parents=True, exist_ok=True)
    authority_key, authority = folder / "authority.key", folder / "authority.pem"
    _openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=test authority",
             "-keyout", authority_key, "-out", authority)  # fmt: skip
    for name in ("server", "client"):
        _signed(folder, name, authority, authority_key)
    chain = folder / "server-chain.pem"
    chain.write_bytes(
        b"".join((folder / f"server.{part}").read_bytes() for part in ("key", "pem")) + authority.read_bytes()
    )
    return Certificates(authority, chain, folder / "client.pem", folder / "client.key")


def _signed(folder: Path, name: str, authority: Path, authority_key: Path) -> None:
    key, request, certificate = folder / f"{name}.key", folder / f"{name}.csr", folder / f"{name}.pem"
    _openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-addext", _NAMES,
             "-keyout", key, "-out", request)  # fmt: skip
    _openssl("x509", "-req", "-days", "1", "-in", request, "-CA", authority, "-CAkey", authority_key,
             "-CAcreateserial", "-copy_extensions", "copy", "-out", certificate)  # fmt: skip


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
