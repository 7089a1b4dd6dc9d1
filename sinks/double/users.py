"""Who may do what on the double: three roles that stand for the users of a deployment, and one that may do all."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sinks.server import READING

_KIND = re.compile(r"\w+")
_CHECKED = re.compile(r"CHECK\s+GRANT\s+(\w+)", re.IGNORECASE)
_READS = frozenset({"SELECT", "WITH", "SHOW", "DESCRIBE", "DESC", "EXPLAIN", "EXISTS", "CHECK", "KILL"})
_WRITES = _READS | {"INSERT"}
_DEFINES = _WRITES | {"CREATE", "ALTER", "DROP", "RENAME", "EXCHANGE", "TRUNCATE", "OPTIMIZE", "DELETE"}
_SELECTS = frozenset({"SELECT", "WITH"})


class RoleName(StrEnum):
    """The roles, as on a command line."""

    ADMIN = "admin"
    MIGRATOR = "migrator"
    WRITER = "writer"
    READER = "reader"


@dataclass(frozen=True)
class Role:
    """What a user may do: kinds of statements by their first word (None: any), and whether it can write at all.

    ``profile`` are the settings that a read-only user has from the server, because it can set none itself.
    """

    allowed: frozenset[str] | None
    readonly: bool = False
    profile: Mapping[str, str] = field(default_factory=dict)

    def allows(self, statement: str) -> bool:
        """Whether the first word of ``statement`` is one of those allowed."""
        found = _KIND.search(statement)
        return self.allowed is None or (found is not None and found[0].upper() in self.allowed)

    def grants(self, privilege: str) -> bool:
        """Whether ``CHECK GRANT`` says yes."""
        return self.allowed is None or privilege.upper() in self.allowed


ROLES: Mapping[RoleName, Role] = {
    RoleName.ADMIN: Role(None),
    RoleName.MIGRATOR: Role(_DEFINES),
    RoleName.WRITER: Role(_WRITES),
    RoleName.READER: Role(
        _READS,
        readonly=True,
        profile={name: str(value) for name, value in READING.items()},
    ),
}


@dataclass(frozen=True)
class Account:
    """A user of the double."""

    name: str
    password: str = field(default="", repr=False)
    role: RoleName = RoleName.ADMIN


def account_from(text: str) -> Account:
    """``name:password:role``. Raises ValueError for anything else."""
    name, rest = text.split(":", 1)
    password, role = rest.rsplit(":", 1)
    return Account(name, password, RoleName(role))


def checked_grant(statement: str) -> str | None:
    """The privilege that ``CHECK GRANT`` asks for, None for any other statement."""
    found = _CHECKED.match(statement)
    return found[1] if found else None
