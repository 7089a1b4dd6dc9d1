import hashlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sinks.users import ROLES, users_sql

PASSWORDS = {role: f"{role}: sixteen or more" for role in ROLES}


def statements(**given):
    text = re.sub(r"^--.*\n", "", users_sql("offramp", PASSWORDS, **given), flags=re.MULTILINE)
    return [part.strip() for part in re.split(r";\n", text) if part.strip()]


@pytest.mark.parametrize("cluster", [None, "main-1.eu"])
def test_the_engine_parses_every_statement(embedded_store, cluster):
    found = statements(cluster=cluster)
    kinds = [embedded_store._engine.ask(f"EXPLAIN AST {text}", None).split(maxsplit=1)[0].decode() for text in found]
    assert kinds == [
        "CreateQuery", "CreateSettingsProfileQuery",
        "CreateRoleQuery", "GrantQuery", "CreateRoleQuery", "GrantQuery", "CreateRoleQuery", "GrantQuery", "GrantQuery",
        "CreateUserQuery", "GrantQuery", "CreateUserQuery", "GrantQuery", "CreateUserQuery", "GrantQuery",
    ]  # fmt: skip
    assert all(("ON CLUSTER 'main-1.eu'" in text) is (cluster is not None) for text in found)


def test_no_password_is_written_but_its_hash():
    text = users_sql("offramp", PASSWORDS)
    for password in PASSWORDS.values():
        assert password not in text
        assert hashlib.sha256(password.encode()).hexdigest() in text


def test_each_role_has_what_it_needs_and_no_more():
    granted = {}
    for text in statements():
        if found := re.fullmatch(r"GRANT\s+(.*) ON offramp\.\* TO (\w+)", text):
            granted[found[2]] = set(found[1].split(", "))
    assert granted["offramp_reader"] == {"SELECT", "SHOW"}
    assert granted["offramp_writer"] == {"SELECT", "SHOW", "INSERT"}
    assert granted["offramp_migrator"] > granted["offramp_writer"]


def test_the_reader_is_read_only_by_its_profile():
    (profile,) = [text for text in statements() if "SETTINGS PROFILE OR REPLACE" in text]
    assert "readonly = 1" in profile
    assert "session_timezone = 'UTC'" in profile


def test_a_short_password_is_refused():
    with pytest.raises(ValueError, match="of the writer has fewer than 16"):
        users_sql("offramp", PASSWORDS | {"writer": "short"})


@pytest.mark.parametrize(("database", "cluster"), [("a b", None), ("a`b", None), ("", None), ("a", "x' TO y")])
def test_names_are_no_sql(database, cluster):
    with pytest.raises(ValueError, match="is no name of a"):
        users_sql(database, PASSWORDS, cluster)


def test_the_command_reads_passwords_from_files(tmp_path):
    given = []
    for role, password in PASSWORDS.items():
        (tmp_path / role).write_text(password + "\n")
        given.append(f"--{role}-password-file={tmp_path / role}")
    command = [sys.executable, "-m", "sinks.users", "--database=offramp"]
    root = Path(__file__).parents[2]
    done = subprocess.run([*command, *given], capture_output=True, text=True, cwd=root, check=True)
    assert done.stdout == users_sql("offramp", PASSWORDS)
    missing = subprocess.run([*command, *given[1:]], capture_output=True, text=True, cwd=root, check=False)
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "--reader-password-file" in missing.stderr
