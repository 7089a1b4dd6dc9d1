"""Rule files of alerts: read, checked against the observed traffic, and their tests run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from alerts import rehearsal, rules, traffic
from alerts.model import Rule, Scope
from alerts.rehearsal import Outcome, Rehearsal
from alerts.rules import RuleBook
from alerts.toml_file import FileError
from alerts.traffic import Doubt
from offramp.config import read_text
from offramp.console import counted, say
from offramp.errors import ConfigurationError
from offramp.page import Page
from offramp.period import period
from offramp.session import Session
from sinks.alerts import MINUTE, AlertsStore
from sinks.open_items import OpenItemsReader
from streams.alert_history import open_at
from streams.alert_inputs import counts_of


def book(file: Path | None) -> RuleBook:
    """The rules of a file, or those that are shipped. Raises ConfigurationError if they cannot be used."""
    try:
        return read_book(file)
    except FileError as error:
        raise ConfigurationError(f"{file}: {error}; offramp alerts check {file} says more") from None


def read_book(file: Path | None) -> RuleBook:
    """The same. Raises FileError with every problem, ConfigurationError if the file cannot be read."""
    return rules.load(rules.default_text() if file is None else read_text(file))


def read_tests(file: Path) -> Rehearsal:
    """The tests of a file. Raises ConfigurationError if it cannot be read or used."""
    try:
        return rehearsal.load(read_text(file))
    except FileError as error:
        raise ConfigurationError(f"{file}: {error}") from None


def rehearse(file: Path, over: Path | None) -> tuple[RuleBook, list[Outcome]]:
    """Run the tests of a file against the rules that it names, or ``over`` in their place.

    Raises ConfigurationError if either file cannot be read or used.
    """
    tests = read_tests(file)
    named = file.parent / tests.rules if tests.rules is not None else None
    under_test = book(over or named)
    try:
        return under_test, list(tests.run(under_test.rules))
    except FileError as error:
        raise ConfigurationError(f"{file}: {error}") from None


def doubts(session: Session, checked: RuleBook, since: str) -> list[Doubt] | None:
    """What the stored traffic from ``since`` on speaks against; None, and a note on stderr, where nothing is stored.

    Raises what the session and the store raise.
    """
    now = session.clock.now_micros()
    begin = period(since, None, lambda: now).since
    if session.may_have_store:
        with session.existing_store("alerts check") as opened:
            store = AlertsStore(opened)
            first = store.first_event_at()
            if first is not None:
                counts = counts_of(store.counts(max(begin, first) // MINUTE, now // MINUTE + 1))
                return traffic.doubts(checked.rules, counts, open_at(OpenItemsReader(opened), now))
    say("nothing is stored yet, so nobody can say whether a rule suits the traffic")
    return None


def words(scope: Scope) -> str:
    """A scope for people."""
    named = (f"{name} {value}" for name, value in zip(Scope._fields, scope, strict=True) if value)
    return ", ".join(named) or "all"


def show_refused(file: Path | None, problems: Sequence[str]) -> None:
    """Say why a rule file cannot be used."""
    page = Page()
    page.line(f"{file} cannot be used as alert rules: {counted(len(problems), 'problem')}", 0)
    for problem in problems:
        page.line(problem)


def show_checked(file: Path | None, checked: RuleBook, doubts: Sequence[Doubt] | None) -> None:
    """Say what stands in a rule file, and what of it the observed traffic speaks against; None is no traffic."""
    page = Page()
    name = file or "the shipped rules"
    page.line(f"{name} can be used: {checked.id} {checked.version}, {counted(len(checked.rules), 'rule')}", 0)
    page.line(f"digest {checked.digest}")
    for rule in checked.rules:
        page.heading(f"{rule.id}: {rule.severity}, {rule.owner}, {rule.runbook}")
        page.line(rule.summary)
        for doubt in doubts or ():
            if doubt.rule == rule.id:
                page.line(_sentence(doubt))


def _sentence(doubt: Doubt) -> str:
    scope, reason = doubt.scopes[0]
    if not doubt.seen:
        return f"warning: never {doubt.never}: {reason}"
    of = f"{len(doubt.scopes):,} of {counted(doubt.seen, 'scope')}"
    return f"warning: never {doubt.never} for {of}, such as {words(scope)}: {reason}"


def checked_as_json(checked: RuleBook, doubts: Sequence[Doubt] | None) -> dict[str, Any]:
    """The same in plain JSON values."""
    return {
        "valid": True,
        "rules": {"id": checked.id, "version": checked.version, "digest": checked.digest},
        "alerts": [_rule_as_json(rule) for rule in checked.rules],
        "warnings": None if doubts is None else [_doubt_as_json(doubt) for doubt in doubts],
    }


def _rule_as_json(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "condition": rule.condition,
        "by": list(rule.by),
        "severity": rule.severity,
        "owner": rule.owner,
        "runbook": rule.runbook,
        "summary": rule.summary,
    }


def _doubt_as_json(doubt: Doubt) -> dict[str, Any]:
    scopes = [{"scope": scope._asdict(), "reason": reason} for scope, reason in doubt.scopes]
    return {"rule": doubt.rule, "never": doubt.never, "scopes": scopes, "seen": doubt.seen}


def show_rehearsed(under_test: RuleBook, outcomes: Sequence[Outcome]) -> None:
    """Say how each test went."""
    page = Page()
    failed = sum(bool(outcome.failures) for outcome in outcomes)
    passed = f"{len(outcomes) - failed} of {counted(len(outcomes), 'test')} passed"
    page.line(f"{passed}, of rules {under_test.id} {under_test.version}", 0)
    for outcome in outcomes:
        page.line(f"{'failed' if outcome.failures else 'passed'}: {outcome.name}")
        for failure in outcome.failures:
            page.line(failure, 2)


def rehearsed_as_json(under_test: RuleBook, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The same in plain JSON values."""
    return {
        "rules": {"id": under_test.id, "version": under_test.version, "digest": under_test.digest},
        "passes": not any(outcome.failures for outcome in outcomes),
        "tests": [{"name": outcome.name, "failures": list(outcome.failures)} for outcome in outcomes],
    }
