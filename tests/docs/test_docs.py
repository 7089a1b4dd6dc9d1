"""The documentation says what is so: commands run and print what is shown, links lead somewhere, pages are current."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.console import Command, commands, missing, pages

ROOT = Path(__file__).parents[2]
NEEDED = ("tests/data", "tests/cases", "examples", "classifier/default.toml")
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
WITH_COMMANDS = [page for page in pages(ROOT) if commands(page.read_text("utf-8"))]

# In pieces, so that this file does not match itself.
FOREIGN = re.compile(
    "pypi" + "[.]org|pythonhosted" + "[.]org|/" + r"work/(?:main|shared|[.])|/" + r"root/|/" + r"tmp/(?:v|brief)\b"
    "|issues" + " show|[.]" + "library/"
)


def run(command: Command, where: Path) -> tuple[int, str]:
    commands_of_this_python = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    own = {
        "PATH": commands_of_this_python,
        "COLUMNS": "80",
        "HOME": str(where),
        "XDG_STATE_HOME": str(where / ".state"),
    }
    environment = {**os.environ, **own}
    done = subprocess.run(
        ["sh", "-c", command.text],
        cwd=where,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stdout.decode()


def slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.installed
@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_print_what_is_shown(page: Path, tmp_path: Path) -> None:
    for name in NEEDED:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile
        copy(ROOT / name, tmp_path / name)
    for command in commands(page.read_text("utf-8")):
        status, output = run(command, tmp_path)
        assert (status, missing(command.lines, output)) == (command.status, []), f"{command.text}\n{output}"


@pytest.mark.parametrize("page", pages(ROOT), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text("utf-8")):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in map(slug, HEADING.findall(target.read_text("utf-8"))), link


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, todo = set[Path](), [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        links = (link.partition("#")[0] for link in LINK.findall(page.read_text("utf-8")) if "://" not in link)
        todo += [(page.parent / link).resolve() for link in links if link]
    assert set(pages(ROOT)) <= reached


def test_generated_pages_are_current(tmp_path: Path) -> None:
    """In a process of its own, since the page about the store opens one."""
    written = tmp_path / "docs" / "reference"
    written.mkdir(parents=True)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-m", "offramp.reference"], cwd=tmp_path, env=environment, check=True, timeout=60)
    for page in written.iterdir():
        assert page.read_text("utf-8") == (ROOT / "docs" / "reference" / page.name).read_text("utf-8"), (
            "run `make docs`"
        )


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="what is committed is known in a clone alone")
def test_no_place_of_ours_stands_in_a_committed_file() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    paths = [ROOT / name for name in listed.decode().split("\0") if name and not name.startswith("tests/data/")]
    texts = {path: path.read_bytes().decode(errors="replace") for path in paths if path.is_file()}
    assert [path for path, text in texts.items() if FOREIGN.search(text)] == []
