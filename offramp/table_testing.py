"""Labelled events against a table: which get their exit, and which rows and conditions of the table they exercise."""

import codecs
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from pydantic_core import from_json

from classifier.decide import Classifier
from classifier.diagram import TooComplexError
from classifier.fact import Event
from classifier.facts import names
from classifier.labels import LabelError, LabelledEvent, Mismatch, mismatches, read
from classifier.mcdc import Coverage, Missing, Pair, measure
from classifier.synthesis import event_for
from classifier.table import Table
from offramp import console
from offramp.errors import CheckFailedError, ConfigurationError
from offramp.page import Page
from offramp.session import Session
from offramp.witness import as_sent
from schemas.errors import MessageError


@dataclass(frozen=True)
class Tested:
    """A labelled event, where it stands, how it was answered, and what of that is wrong."""

    place: str
    labelled: LabelledEvent
    answer: dict[str, Any]
    bits: int
    wrong: list[Mismatch]

    @property
    def fate(self) -> str:
        """What became of it: ``passed``, ``failed``, or ``unlabelled``."""
        if self.labelled.expect is None:
            return "unlabelled"
        return "failed" if self.wrong else "passed"


class Fault(NamedTuple):
    """What is no labelled event: where it stands, and why."""

    place: str
    reason: str


@dataclass(frozen=True)
class Findings:
    """What the tests of a table say, and what they exercise of it. Only labelled events count for that. ``files`` are
    those that were read, ``remarks`` sentences about what is odd and harms nothing."""

    table: Table
    files: list[Path]
    tested: list[Tested]
    faults: list[Fault]
    remarks: list[str]
    coverage: Coverage

    @property
    def fates(self) -> Counter[str]:
        """How many events passed, failed, or nobody has labelled."""
        return Counter(tested.fate for tested in self.tested)

    @property
    def passes(self) -> bool:
        """Whether everything is a labelled event that gets its exit, or waits for its label."""
        return not self.faults and not self.fates["failed"]


def run(session: Session, place: Path) -> Findings:
    """Run the labelled events of a file, or of all files below a directory.

    Raises ConfigurationError for what cannot be read or has no event, CheckFailedError for a table too entangled to
    measure.
    """
    table, unproven = session.chosen
    runner = _Runner(session, Classifier(table, unproven=unproven))
    files = _files(place)
    empty = runner.run(files)
    if empty == files:
        raise ConfigurationError(f"{place}: no labelled event in it, so nothing can be tested")
    try:
        coverage = measure(table, [tested.bits for tested in runner.tested if tested.labelled.expect])
    except TooComplexError as error:
        raise CheckFailedError(f"what the cases exercise cannot be told: {error}") from None
    faults, remarks = [*runner.faults, *_contradictions(runner.tested)], [*_remarks(empty, runner.tested)]
    return Findings(table, files, runner.tested, faults, remarks, coverage)


class _Record(NamedTuple):
    """What should be a labelled event: where it stands, what it is called there, and its content. That is text to be
    parsed where it is bytes."""

    place: str
    name: str
    content: Any


class _Runner:
    """Collects what became of records."""

    def __init__(self, session: Session, classifier: Classifier) -> None:
        self._redactor, self._classifier = session.redactor, classifier
        self.tested: list[Tested] = []
        self.faults: list[Fault] = []

    def run(self, files: list[Path]) -> list[Path]:
        """Test the records of each file; the files without any."""
        empty = []
        for file in files:
            records = list(_records(file))
            for record in records:
                self._take(record)
            if not records:
                empty.append(file)
        return empty

    def _take(self, record: _Record) -> None:
        try:
            labelled, event = read(_parsed(record.content), record.name)
            self._test(record.place, labelled, event)
        except (LabelError, MessageError) as error:
            self.faults.append(Fault(record.place, str(error)))

    def _test(self, where: str, labelled: LabelledEvent, event: Event) -> None:
        """Answer as classify does, of the redacted event."""
        decided = self._classifier.classify(self._redactor.redact(event)[0])
        wrong = list(mismatches(labelled, decided.classification))
        self.tested.append(Tested(where, labelled, decided.classification, decided.fact_bits, wrong))


def _parsed(content: Any) -> Any:
    """The value of JSON text. Raises LabelError."""
    try:
        return from_json(content, allow_inf_nan=False) if isinstance(content, bytes) else content
    except ValueError as error:
        raise LabelError(f"no valid JSON: {error}") from None


_SUFFIXES = {".jsonl", ".ndjson", ".json"}


def _files(place: Path) -> list[Path]:
    if not place.is_dir():
        return [place]
    found = sorted(path for path in place.rglob("*") if path.suffix in _SUFFIXES and _is_to_be_read(path))
    if not found:
        raise ConfigurationError(f"{place}: no file of labelled events, .jsonl, .ndjson or .json, in it")
    return found


def _is_to_be_read(path: Path) -> bool:
    """Whether it is a file, or a link to one that is not there, which must be told. A pipe would never end."""
    return path.is_file() or (path.is_symlink() and not path.exists())


def _records(file: Path) -> Iterator[_Record]:
    """What should be labelled events: a line each, or a JSON object of variants by name."""
    try:
        content = file.read_bytes().removeprefix(codecs.BOM_UTF8)
    except OSError as error:
        raise ConfigurationError(f"{file}: {error.strerror}") from None
    if file.suffix == ".json":
        yield from _variants(file, content)
        return
    # By bytes, so that a line that is no UTF-8 costs itself alone, and no other character ends a line.
    for number, line in enumerate(content.split(b"\n"), 1):
        if line.strip():
            yield _Record(f"{file}, line {number}", "", line)


def _variants(file: Path, content: bytes) -> Iterator[_Record]:
    pairs = _pairs(content)
    if pairs is None or LabelledEvent.model_fields.keys() & dict(pairs):
        yield _Record(str(file), file.stem, content)
        return
    for variant, raw in pairs:
        yield _Record(f"{file}, {variant}", f"{file.stem}-{variant}", raw)


def _pairs(content: bytes) -> list[tuple[str, Any]] | None:
    """Names and values of a JSON object, also where a name stands twice; None for any other text."""
    found: list[list[tuple[str, Any]]] = []

    def keep(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found.append(pairs)
        return dict(pairs)

    try:
        from_json(content, allow_inf_nan=False)  # refuses what is nested too deeply, or no number
        value = json.loads(content, object_pairs_hook=keep)
    except ValueError:
        return None
    return found[-1] if isinstance(value, dict) else None  # the outermost object ends last


# --- what cases say together


def _contradictions(tested: list[Tested]) -> Iterator[Fault]:
    """Cases of one id whose labels exclude each other, so that no table passes both."""
    for first, *others in _by_name(tested):
        for other in others:
            if not first.labelled.agrees_with(other.labelled):
                name = other.labelled.name
                yield Fault(other.place, f"{name} has another label in {first.place}; give one of them another id")


def _remarks(empty: list[Path], tested: list[Tested]) -> Iterator[str]:
    yield from (f"{file}: no case in it" for file in empty)
    for same in _by_name(tested):
        first, *others = same
        if others and all(first.labelled.agrees_with(other.labelled) for other in others):
            places = "; ".join(each.place for each in same)
            yield f"{first.labelled.name} stands {len(same)} times: {places}"
    if tested and all(each.labelled.expect is None for each in tested):
        yield "no case has a label, so nothing is tested"


def _by_name(tested: list[Tested]) -> Iterable[list[Tested]]:
    """The cases of each id, labelled ones first."""
    found: dict[str, list[Tested]] = {}
    for each in sorted(tested, key=lambda each: each.labelled.expect is None):
        found.setdefault(each.labelled.name, []).append(each)
    return found.values()


# --- tests to be labelled


def to_be_labelled(findings: Findings) -> Iterator[dict[str, Any]]:
    """The missing tests in the format of labelled events, without a label. What the table says is a comment."""
    classifier = Classifier(findings.table)
    for missing in findings.coverage.missing:
        event = event_for(missing.bits, findings.table.thresholds)
        if event is not None:
            yield _unlabelled(missing, event, classifier.classify(event).classification)


def _unlabelled(missing: Missing, event: Event, answer: dict[str, Any]) -> dict[str, Any]:
    says = {name: answer[name] for name in ("kind", "reason_code", "rule_id", "verified", "prohibited")}
    owed = sorted({owed["action"] for owed in answer["obligations"]})
    return {
        "id": event["event_id"],
        "source": "own",
        "title": ", ".join(names(missing.bits)) or "no fact holds",
        "event": as_sent(event),
        "expect": None,
        "prohibited": None,
        "comment": {"shows": list(missing.shows), "table_says": says | {"obligations": owed}},
    }


# --- for programs


def as_json(findings: Findings) -> dict[str, Any]:
    """Everything, in plain JSON values."""
    coverage = findings.coverage
    return {
        "table": findings.table.ref,
        "cases": [_tested_as_json(tested) for tested in findings.tested],
        "faults": [fault._asdict() for fault in findings.faults],
        "remarks": findings.remarks,
        "fates": {fate: findings.fates[fate] for fate in ("passed", "failed", "unlabelled")},
        "coverage": {
            "method": coverage.method,
            "rows": coverage.decided,
            "pairs": len(coverage.pairs),
            "feasible": len(coverage.feasible),
            "shown": len(coverage.shown),
            "complete": coverage.is_complete,
            "missing": [{"facts": names(each.bits), "shows": each.shows} for each in coverage.missing],
            "infeasible": [
                {"row": pair.row_id, "fact": pair.fact, "proof": pair.ruled_out} for pair in coverage.infeasible
            ],
        },
    }


def _tested_as_json(tested: Tested) -> dict[str, Any]:
    labelled, answer = tested.labelled, tested.answer
    return {
        "id": labelled.name,
        "title": labelled.title,
        "place": tested.place,
        "fate": tested.fate,
        "expected": None if labelled.expect is None else labelled.expect.model_dump(),
        "actual": {name: answer[name] for name in ("kind", "reason_code", "rule_id", "verified", "prohibited")},
        "wrong": [mismatch.model_dump() for mismatch in tested.wrong],
    }


# --- for people


def show(findings: Findings) -> None:
    """Print how many pass, everything that does not, and what is exercised."""
    fates, table = findings.fates, findings.table.file
    page = Page()
    page.line(
        f"table {table.id} {table.version}: {console.counted(len(findings.tested), 'case')}, {fates['passed']:,} pass, "
        f"{fates['failed']:,} fail, {fates['unlabelled']:,} without a label, {len(findings.faults):,} cannot be used",
        0,
    )
    for fault in findings.faults:
        page.line(f"{fault.place}: {fault.reason}")
    for remark in findings.remarks:
        page.line(remark)
    for tested in findings.tested:
        if tested.fate == "failed":
            _show_failed(page, tested, findings.table)
    _show_coverage(page, findings.coverage)


def _show_failed(page: Page, tested: Tested, table: Table) -> None:
    row = tested.answer["rule_id"]
    number = [each.id for each in table.file.rows].index(row) + 1
    title = f" {tested.labelled.title}" if tested.labelled.title else ""
    page.heading(f"{tested.labelled.name}:{title} ({tested.place})")
    for mismatch in tested.wrong:
        page.line(mismatch.text)
    page.line(f"decided by row {number}, {row}")


def _show_coverage(page: Page, coverage: Coverage) -> None:
    rows = len([count for count in coverage.decided.values() if count])
    page.heading(
        f"Exercised: {rows} of {len(coverage.decided)} rows, and by {coverage.method} "
        f"{len(coverage.shown)} of {len(coverage.feasible)} feasible pairs of conditions"
    )
    console.table("", _COLUMNS, [_row(coverage, row_id) for row_id in coverage.decided])
    if coverage.missing:
        page.heading(
            f"Missing: {console.counted(len(coverage.missing), 'test')}; --missing FILE writes them, to be labelled"
        )
    for missing in coverage.missing:
        page.line(f"{', '.join(names(missing.bits)) or 'no fact holds'}: {'; '.join(missing.shows)}")
    if coverage.infeasible:
        page.heading(f"Infeasible: {console.counted(len(coverage.infeasible), 'pair')}, each with its proof")
    for pair in coverage.infeasible:
        _show_infeasible(page, pair)


_COLUMNS = (("row", "code"), ("cases", "right"), ("pairs", "right"), ("feasible", "right"), ("shown", "right"))


_FEASIBLE, _SHOWN = attrgetter("is_feasible"), attrgetter("is_shown")


def _row(coverage: Coverage, row_id: str) -> tuple[str, int, int, int, int]:
    pairs = [pair for pair in coverage.pairs if pair.row_id == row_id]
    feasible, shown = (sum(map(which, pairs)) for which in (_FEASIBLE, _SHOWN))
    return row_id, coverage.decided[row_id], len(pairs), feasible, shown


def _show_infeasible(page: Page, pair: Pair) -> None:
    page.line(f"row {pair.row_id}, {pair.fact}: {pair.ruled_out[0]}")
    for sentence in pair.ruled_out[1:]:
        page.line(sentence, 2)
