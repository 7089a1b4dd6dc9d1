"""Files of certificates: what cannot be used is a matter of configuration, and no outage."""

import shutil
import subprocess

import pytest

from offramp.certificates import check_certificates
from offramp.errors import ConfigurationError
from tests.offramp.kit import run_alone

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make certificates with")


def made(folder, name, *options):
    """A certificate that signs itself, and its key."""
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    subject = ("req", "-x509", "-newkey", "rsa:2048", "-days", "1", "-subj", f"/CN={name}")
    command = ["openssl", *subject, "-keyout", str(key), "-out", str(certificate), *(options or ("-nodes",))]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key


def test_none_need_to_be_named():
    check_certificates("store", None, None, None)


@needs_openssl
def test_what_can_be_used_passes(tmp_path):
    certificate, key = made(tmp_path, "ours")
    check_certificates("kafka", certificate, certificate, key)
    together = tmp_path / "together.pem"
    together.write_bytes(key.read_bytes() + certificate.read_bytes())
    check_certificates("kafka", None, together, None)


@needs_openssl
@pytest.mark.parametrize(
    ("certificate", "key", "said"),
    [
        ("ours.pem", "other.key", r"key values mismatch"),
        ("ours.pem", None, r"private key, as PEM without a password"),
        ("locked.pem", "locked.key", r"private key, as PEM without a password"),
    ],
)
def test_a_certificate_needs_its_key_which_nobody_is_asked_to_unlock(tmp_path, certificate, key, said):
    for name in ("ours", "other"):
        made(tmp_path, name)
    made(tmp_path, "locked", "-passout", "pass:secret")
    with pytest.raises(ConfigurationError, match=rf"^kafka\.certificate: .*{certificate} .*{said}"):
        check_certificates("kafka", None, tmp_path / certificate, key and tmp_path / key)


@pytest.mark.parametrize("section", ["STORE", "KAFKA"])
@pytest.mark.parametrize(("content", "said"), [("junk\n", "holds no certificate as PEM"), (None, "No such file")])
def test_an_authority_that_is_none_ends_with_2_and_names_the_file(tmp_path, section, content, said):
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    settings = {
        "STORE": {"OFFRAMP_STORE__URL": "https://127.0.0.1:1"},
        "KAFKA": {"OFFRAMP_KAFKA__SERVERS": "127.0.0.1:1", "OFFRAMP_KAFKA__PROTOCOL": "SSL"},
    }[section]
    verb = ("audit", "--store-only") if section == "STORE" else ("init", "--dry-run")
    done = run_alone(*verb, cwd=tmp_path, **settings, **{f"OFFRAMP_{section}__CA": str(path)})
    assert done.status == 2
    assert f"{section.lower()}.ca: {path}" in done.err
    assert said in done.err
