"""Console blocks of the documentation, as commands with what they are said to print."""

import re
from dataclasses import dataclass, field
from pathlib import Path

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_STATUS = re.compile(r"  # ends with (\d+)$")


@dataclass
class Command:
    """A command as a reader would type it, the status that it ends with, and lines that it prints in this order."""

    text: str
    status: int = 0
    lines: list[str] = field(default_factory=list)


def commands(page: str) -> list[Command]:
    """The commands of all console blocks of a page, in order.

    ``$`` begins a command, ``>`` goes on with it, ``# ends with N`` behind it is its exit status where that is not 0.
    Everything else is a line of output; ``...`` stands for more.
    """
    found: list[Command] = []
    for line in (line for block in _BLOCK.findall(page) for line in block.splitlines()):
        if line.startswith("$ "):
            found.append(_command(line[2:]))
        elif line.startswith("> "):
            found[-1].text += "\n" + line[2:]
        elif line.strip() != "...":
            found[-1].lines.append(line)
    return found


def _command(text: str) -> Command:
    status = _STATUS.search(text)
    return Command(_STATUS.sub("", text), int(status[1]) if status else 0)


def missing(lines: list[str], output: str) -> list[str]:
    """Of ``lines`` those that ``output`` does not hold, the amount of white space apart."""
    plain = _squeezed(output)
    return [line for line in lines if _squeezed(line) not in plain]


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def pages(root: Path) -> list[Path]:
    """Every page of the documentation."""
    return [root / "README.md", root / "CHANGELOG.md", *sorted((root / "docs").rglob("*.md"))]
