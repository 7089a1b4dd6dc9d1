"""Finds an event, in the store or in a file, and shows why it got its exit."""

import difflib
import json
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from classifier.change import path_text
from classifier.counterfactual import Exit
from classifier.decide import Classifier
from classifier.explain import Explanation, FactShown, explain
from classifier.fact import Event
from offramp import pairing
from offramp.accepting import read
from offramp.errors import CheckFailedError, ConfigurationError
from offramp.ingestion import open_sources
from offramp.page import Page
from offramp.pairing import Beside, beside
from offramp.session import Session
from offramp.shadowing import settle_if_compared
from schemas.errors import MessageError
from schemas.exits import Classification, ReviewPacket
from schemas.types import Record, to_iso
from sinks.store import Store
from streams.files import chunks, decode_chunk
from streams.worker import TERMINAL_EVENT

NEAR = 3
_LISTS_THEM = 'offramp query "SELECT tenant, event_id FROM v_exits" lists them'
_ERASED = "the evidence of {} was erased on request; `offramp query` still has its exit"
_LONGEST_VALUE = 160


@dataclass(frozen=True)
class Explained:
    """An event with its explanation, and of the store the classification and the legacy exit, each None where there is
    none."""

    event: Event
    explanation: Explanation
    stored: dict[str, Any] | None
    beside: Beside | None = None

    @property
    def is_stored_by_another(self) -> bool:
        """Whether the stored classification is of another table or version of the classifier than the explanation."""
        if self.stored is None:
            return False
        now = self.explanation.classification
        return any(self.stored[name] != now[name] for name in ("table", "classifier_version"))


# --- finding


def from_store(session: Session, event_id: str, tenant: str | None) -> Explained:
    """Explain a stored event. Raises CheckFailedError if there is none of that id."""
    path = session.settings.shadow.accepted
    accepted, classifier = read(path) if path else (), _classifier(session)
    with session.existing_store("explain") as store:
        found = store.event(event_id, tenant)
        if found is None:
            raise _unknown(event_id, tenant, "the store", _near_in(store, event_id), _LISTS_THEM)
        if found.is_erased:
            raise CheckFailedError(
                f"the evidence of {event_id} was erased on request; `offramp query` still has its exit"
            )
        event = json.loads(found.text)
        explanation, stored = explain(event, classifier), store.classification(found.event_id, found.tenant)
        settle_if_compared(session, store)
        legacy = beside(store, event, explanation, classifier, accepted, session.clock.now_micros())
    return Explained(event, explanation, stored, legacy)


def _near_in(store: Store, event_id: str) -> list[str]:
    literal = event_id.replace("\\", "\\\\").replace("'", "\\'")
    sql = f"""
        SELECT DISTINCT event_id FROM terminal_events
        WHERE startsWith(event_id, '{literal}') OR editDistance(event_id, '{literal}') <= {NEAR}
        ORDER BY editDistance(event_id, '{literal}'), event_id LIMIT {NEAR}
    """  # noqa: S608 -- the literal is escaped, and the handle only reads
    return [json.loads(line)["event_id"] for line in store.query(sql).splitlines()]


def from_file(session: Session, event_id: str, tenant: str | None, location: str) -> Explained:
    """Explain an event of a file, redacted as it would be stored. Raises CheckFailedError if there is none."""
    ids: set[str] = set()
    matches: dict[str, Event] = {}
    for event in _events(location):
        ids.add(event["event_id"])
        if event["event_id"] == event_id and tenant in (None, event["tenant"]):
            matches.setdefault(event["tenant"], event)
    if not matches:
        hint = f"offramp validate {location} says what is in it"
        raise _unknown(event_id, tenant, location, difflib.get_close_matches(event_id, ids, NEAR), hint)
    if len(matches) > 1:
        tenants = ", ".join(sorted(matches))
        raise ConfigurationError(f"{location}: tenants {tenants} have event {event_id}; name one with --tenant")
    event = _redacted(session, next(iter(matches.values())), location)
    return Explained(event, explain(event, _classifier(session)), None)


def _classifier(session: Session) -> Classifier:
    return Classifier(session.table, unproven=session.chosen.unproven)


def _redacted(session: Session, event: Event, location: str) -> Event:
    try:
        return session.redactor.redact(event)[0]
    except MessageError as error:
        raise CheckFailedError(f"{location}: event {event['event_id']} would be refused: {error}") from None


def _events(location: str) -> Iterator[Event]:
    with tempfile.TemporaryDirectory(prefix="offramp-") as spool:
        [source] = open_sources([location], Path(spool))
        for chunk in chunks(source):
            for record in (decoded.record for decoded in decode_chunk(chunk)):
                if record is not None and record["type"] == TERMINAL_EVENT:
                    yield record


def _unknown(event_id: str, tenant: str | None, place: str, near: Iterable[str], hint: str) -> CheckFailedError:
    whose = f" of tenant {tenant}" if tenant else ""
    named = ", ".join(near)
    return CheckFailedError(f"{place}: no event {event_id}{whose}; {f'did you mean {named}?' if named else hint}")


# --- for programs


def as_json(explained: Explained) -> dict[str, Any]:
    """Everything, in plain JSON values; classification and review packet in the contract's shapes."""
    explanation = explained.explanation
    whole = asdict(explanation)
    for fact in (*whole["deciding"], *whole["other_facts"]):
        fact["evidence"] = [{"path": path_text(path), "value": value} for path, value in fact["evidence"]]
    for gap, shown in zip(whole["gaps"], explanation.gaps, strict=True):
        gap |= {"path": path_text(shown.path), "earns": _exit(shown.earns)}
    whole["all_gaps_earn"] = _exit(explanation.all_gaps_earn)
    whole["classification"] = _contract(Classification, explanation.classification)
    whole["packet"] = _contract(ReviewPacket, explanation.packet) or None
    stored = explained.stored
    return {
        "event": {name: explained.event[name] for name in ("tenant", "event_id", "run_id")},
        "stored": None if stored is None else {name: stored[name] for name in _STORED},
        "stored_by_another": explained.is_stored_by_another,
        "pair": pairing.as_json(explained.beside),
        **whole,
    }


_STORED = ("kind", "reason_code", "rule_id", "verified", "table", "classifier_version")


def _exit(earned: Exit | None) -> dict[str, Any] | None:
    return None if earned is None else earned._asdict()


def _contract(model: type[Record], record: dict[str, Any] | None) -> dict[str, Any]:
    """The record as the contract's JSON has it; empty where there is none."""
    return {} if record is None else model.model_validate(record).model_dump(mode="json")


# --- for people


def show(explained: Explained) -> None:
    """Print everything, outcome first."""
    page = Page()
    _show_outcome(page, explained)
    pairing.show(page, explained.beside)
    explanation = explained.explanation
    _show_row(page, explanation)
    _show_rest(page, explanation)
    _show_gaps(page, explanation)
    answer, packet = _contract(Classification, explanation.classification), _contract(ReviewPacket, explanation.packet)
    if answer["envelope"]:
        page.heading("Envelope")
        _show_record(page, answer["envelope"])
    if explanation.packet:
        _show_packet(page, packet)


def _show_outcome(page: Page, explained: Explained) -> None:
    event, answer = explained.event, explained.explanation.classification
    page.line(f"{answer['kind']}: {answer['reason_code']}{', verified' if answer['verified'] else ''}", 0)
    if answer["envelope"] and "explanation" in answer["envelope"]:
        page.line(answer["envelope"]["explanation"])
    page.line(
        f"event {event['event_id']} of run {event['run_id']}, tenant {event['tenant']}, agent {event['agent_id']}"
    )
    page.line(f"ended {to_iso(event['occurred_at'])}")
    table = answer["table"]
    page.line(f"table {table['id']} {table['version']} ({table['digest']}), classifier {answer['classifier_version']}")
    if "unproven" in answer:
        page.line("The proof of this table fails; `offramp table check` says where.")
    if explained.is_stored_by_another and (stored := explained.stored) is not None:
        by = f"row {stored['rule_id']} of table {stored['table']['id']} {stored['table']['version']}"
        page.line(
            f"The store says {stored['kind']}: {stored['reason_code']}, by {by} ({stored['table']['digest']}), "
            f"classifier {stored['classifier_version']}. To store what is explained here, run `offramp classify` over "
            "the file again."
        )


def _show_row(page: Page, explanation: Explanation) -> None:
    row = explanation.row
    page.heading(f"Decided by row {row.number}, {row.rule_id}")
    page.line(f"when {row.when}")
    if not explanation.deciding:
        page.line("No row before it held, and it holds for everything.")
    for fact in explanation.deciding:
        _show_fact(page, fact)
    if explanation.earlier:
        page.heading("Earlier rows did not hold")
        for before in explanation.earlier:
            page.line(f"{before.number:>2} {before.rule_id}: {', '.join(before.why_not)}")


def _show_fact(page: Page, fact: FactShown) -> None:
    page.line(f"{fact.name}: {fact.meaning}" if fact.holds else f"not {fact.name}, which is: {fact.meaning}")
    if fact.holds and not fact.evidence:
        page.line("nothing is recorded that says otherwise", 3)
    for path, value in fact.evidence:
        shown = "is absent" if value is None else f"= {json.dumps(value, ensure_ascii=False)}"
        page.line(f"{path_text(path)} {shown}", 3)


def _show_rest(page: Page, explanation: Explanation) -> None:
    if explanation.other_facts:
        page.heading("Also true, and did not decide")
        for fact in explanation.other_facts:
            _show_fact(page, fact)
    page.heading("Prohibited")
    for ruled in explanation.ruled_out:
        numbers = ", ".join(map(str, ruled.invariants))
        page.line(f"{ruled.kind}: by invariant {numbers}, {'; '.join(ruled.conditions)}")
    owed = explanation.classification["obligations"]
    if owed:
        page.heading("Must still happen, whatever the exit is")
        for each in owed:
            page.line(f"{each['action']} {each['operation_id'] or 'an operation without an id'}")
    if explanation.findings:
        page.heading("Findings")
        for code, meaning in explanation.findings.items():
            page.line(f"{code}: {meaning}")


def _show_gaps(page: Page, explanation: Explanation) -> None:
    if not explanation.gaps:
        page.heading("No evidence is missing that could have earned a better exit")
        return
    page.heading("Missing evidence, and the exit that it could have earned at best")
    for gap in explanation.gaps:
        page.line(f"{gap.text}: {_said(gap.earns)}")
    more = len(explanation.classification["evidence_gaps"]) - len(explanation.gaps)
    if more:
        page.line(f"and {more:,} more")
    if len(explanation.gaps) > 1:
        page.line(f"all of it together: {_said(explanation.all_gaps_earn)}")


def _said(earned: Exit | None) -> str:
    if earned is None:
        return "no better exit"
    return f"{earned.kind}, {earned.reason_code}{', verified' if earned.verified else ''}"


def _show_packet(page: Page, packet: dict[str, Any]) -> None:
    page.heading(f"Review packet, {packet['completeness']:.0%} of what a reviewer needs")
    _show_record(page, packet)


_SHOWN_BEFORE = ("completeness", "event_id", "explanation")


def _show_record(page: Page, record: dict[str, Any]) -> None:
    for field, value in record.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            page.line(f"{field}:")
            for item in value:
                page.line(", ".join(f"{key} {_short(each)}" for key, each in item.items() if each not in (None, [])), 2)
        elif value not in (None, []) and field not in _SHOWN_BEFORE:
            page.line(f"{field}: {_short(value)}")


def _short(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}... ({len(text):,} characters)"
