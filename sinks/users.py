"""The users of a deployment as SQL: ``python -m sinks.users --database NAME --migrator-password-file FILE ...``.

Written to stdout for an administrator to read and to run. Passwords come from files and leave as hashes.
"""

import argparse
import hashlib
import re
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from string import Template

from sinks.server import READING

ROLES = ("reader", "writer", "migrator")
SHORTEST = 16
"""Characters that a password has at least, because its hash is not salted."""
_NAME = re.compile(r"[A-Za-z_]\w*")
_CLUSTER = re.compile(r"[\w.-]+")


def users_sql(database: str, passwords: Mapping[str, str], cluster: str | None = None) -> str:
    """The statements, each ended by a semicolon. ``passwords`` by :data:`ROLES`.

    Raises ValueError for a password that is too short, or a name that is none.
    """
    if not _NAME.fullmatch(database):
        raise ValueError(f"{database!r} is no name of a database; it is letters, digits and _")
    if cluster is not None and not _CLUSTER.fullmatch(cluster):
        raise ValueError(f"{cluster!r} is no name of a cluster; it is letters, digits, _, - and .")
    text = (resources.files("sinks") / "users.sql").read_text(encoding="utf-8")
    return Template(text).substitute(
        database=database,
        on_cluster="" if cluster is None else f"ON CLUSTER '{cluster}'",
        reader_settings=",\n    ".join(f"{name} = {_literal(value)}" for name, value in READING.items()),
        **{f"{role}_hash": _hash(role, passwords[role]) for role in ROLES},
    )


def _literal(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else f"{value}"


def _hash(role: str, password: str) -> str:
    if len(password) < SHORTEST:
        raise ValueError(f"the password of the {role} has fewer than {SHORTEST} characters; make a longer one")
    return hashlib.sha256(password.encode()).hexdigest()


def main(arguments: list[str]) -> None:
    """Write the statements to stdout."""
    parser = argparse.ArgumentParser(prog="python -m sinks.users", description="The users of a deployment as SQL.")
    parser.add_argument("--database", default="offramp", help="database that the tables are in")
    parser.add_argument("--cluster", help="cluster on which the users are made")
    for role in ROLES:
        parser.add_argument(f"--{role}-password-file", type=Path, required=True, help=f"password of the {role}")
    given = vars(parser.parse_args(arguments))
    try:
        passwords = {role: given[f"{role}_password_file"].read_text(encoding="utf-8").strip() for role in ROLES}
        sys.stdout.write(users_sql(given["database"], passwords, given["cluster"]))
    except (OSError, ValueError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
