"""The environments of the contestants, made where they are not there: each framework pins what others pin otherwise.

An environment holds a framework and its own dependencies. Behind it, on the path, stands the environment that this
program runs in, so that all contestants share one compiled classifier, one engine and one client of it.
"""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from bench.stream.roster import PROJECT

_REQUIREMENTS = Path(__file__).parent / "requirements"


def python_of(name: str, directory: Path | None = None) -> Path:
    """The interpreter of an environment, installed before if its requirements changed; our own for the project's.

    Raises CalledProcessError if it cannot be installed.
    """
    if name == PROJECT:
        return Path(sys.executable)
    home = (directory or Path(sys.prefix) / "stream") / name
    wanted = (_REQUIREMENTS / f"{name}.txt").read_text()
    stamp, python = home / "installed.txt", home / "bin" / "python"
    if not stamp.exists() or stamp.read_text() != wanted:
        _install(home, python, name)
        stamp.write_text(wanted)
    return python


def _install(home: Path, python: Path, name: str) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
    # The pins of the project are not those of the contestants.
    environment = {key: value for key, value in os.environ.items() if not key.endswith("_CONSTRAINT")}
    command = [str(python), "-m", "pip", "install", "-q", "-r", str(_REQUIREMENTS / f"{name}.txt")]
    subprocess.run(command, check=True, env=environment)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    behind = home / "lib" / version / "site-packages" / "zz_project.pth"
    behind.write_text(sysconfig.get_path("purelib") + "\n")
