"""Runs under a table that does not decide yet, computed by the engine from the facts that are stored."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from classifier.condition import Holds
from classifier.facts import BY_NAME
from classifier.sql import condition_sql, exit_sql, facts_sql
from classifier.table import Table
from shadow.disagreement import flags_sql, judge_sql
from shadow.literal import literals
from shadow.recovery import recovery_sql
from shadow.scope import Scope, Select

_NOT_REPLAYABLE = """
    SELECT {why_not} AS why, count() AS runs
    FROM v_comparison
    WHERE {condition} AND pairing != 'event_missing' AND why != ''
    GROUP BY why
    ORDER BY why
"""
_JUDGED = """(
    SELECT exits.* {pairs}
    FROM (SELECT stored.* {exits} {decided} FROM {rows} AS stored) AS exits
)"""
# What each column that a table changes is made of, among those that are stored.
_EXIT = ("pairing", "fact_bits")
_PAIR = (*_EXIT, "legacy_kind", "legacy_retries")
_MADE_OF: Mapping[str, tuple[str, ...]] = {
    "kind": _EXIT,
    "rule_id": (*_EXIT, "rule_id"),
    "reason_code": (*_EXIT, "rule_id", "reason_code"),
    "verified": _EXIT,
    "facts": ("fact_bits",),
    "prohibited": _EXIT,
    "ambiguous": (*_EXIT, "legacy_retries"),
    "verdict": _PAIR,
    "disagreement": _PAIR,
    "owner": _PAIR,
    "harm": _PAIR,
    "recovery": (*_EXIT, "kind", "recovery", "actions", "decisions", "overrode"),
    "reversed": (*_EXIT, "reversed"),
}
OF_KIND = frozenset({"kind", "ambiguous", "verdict", "disagreement", "owner", "harm", "recovery", "reversed"})
"""What a table leaves as it is where the kind of the exit is the same."""


class Candidate(NamedTuple):
    """The table, and SQL that says why the stored facts of a run are not those that it would be asked about, as a
    reason; empty where they are. ``decides`` says that it decides already, ``unproven`` that its proof fails.

    ``other_reasons`` are rows of the tables that decided, by digest and id, which have their reasons from elsewhere
    than the row of that id here.
    """

    table: Table
    why_not: str
    decides: bool = False
    unproven: bool = False
    other_reasons: frozenset[tuple[str, str]] = frozenset()

    @property
    def replayable(self) -> str:
        """SQL over ``v_comparison``: whether the table can be asked about a run, or there is nothing to ask."""
        return f"(pairing = 'event_missing' OR {self.why_not} = '')"

    @property
    def may_change(self) -> frozenset[str]:
        """Names of the columns that :meth:`judged` gives as the table would have them."""
        return frozenset(_MADE_OF)

    def needed(self, columns: Collection[str]) -> set[str]:
        """What :meth:`judged` reads to give ``columns``, of those that it ``may_change``."""
        of_reason = {"table_digest"} if self.other_reasons and "reason_code" in columns else set[str]()
        return {*_EXIT, *of_reason, *(each for name in columns for each in _MADE_OF[name])}

    def judged(self, rows: str, columns: Collection[str], there: Collection[str] | None = None) -> str:
        """``rows``, SQL of runs or of runs that are alike, with those of ``columns`` that depend on the table as it
        would have them. The rows must have what is ``needed``; ``there`` names what they have, None for all columns.
        Where they have a kind it is shown, too, as ``decided_kind``."""
        exits = _with(self._exits(), {"kind", *columns}, there)
        decided = ", stored.kind AS decided_kind" if there is None or "kind" in there else ""
        return _JUDGED.format(rows=rows, exits=exits, decided=decided, pairs=_with(_pairs(), columns, there))

    def _exits(self) -> dict[str, str]:
        said = exit_sql(self.table, "stored.fact_bits")
        missing = "stored.pairing = 'event_missing'"
        # What comes from the evidence is not among the facts; where the same row decided, the reason is the stored one.
        others = ", ".join(f"({literals(row)})" for row in sorted(self.other_reasons))
        as_here = f"(stored.table_digest, stored.rule_id) NOT IN ({others})" if others else "1"
        reason = (
            f"multiIf({missing}, '', isNotNull({said.reason_code}), assumeNotNull({said.reason_code}), "
            f"{said.rule_id} = stored.rule_id AND {as_here}, toString(stored.reason_code), {said.rule_id})"
        )
        return {
            "kind": f"if({missing}, '', {said.kind})",
            "rule_id": f"if({missing}, '', {said.rule_id})",
            "reason_code": reason,
            "verified": said.verified,
            # The same as what is stored, and cheaper: arrays take long to read.
            "facts": facts_sql("stored.fact_bits"),
            "prohibited": f"if({missing}, [], {said.prohibited})",
        }

    def not_replayable(self, select: Select, scope: Scope) -> dict[str, int]:
        """Runs in a scope that cannot be replayed, by reason."""
        sql = _NOT_REPLAYABLE.format(why_not=self.why_not, condition=scope.condition)
        return {row["why"]: row["runs"] for row in select(sql, scope.parameters)}


def _pairs() -> dict[str, str]:
    flags = flags_sql("exits.kind", _holds, "exits.legacy_retries")
    judged = judge_sql({"kind": "exits.kind", "legacy_kind": "exits.legacy_kind", **flags})
    paired = "exits.pairing = 'paired'"
    # What the agent proposed, and a reviewer went against, is the same whatever table decides.
    recovery = recovery_sql("exits.kind", "exits.actions", "exits.decisions", "exits.overrode")
    return {
        "ambiguous": flags["ambiguous"],
        "verdict": f"if({paired}, {judged.verdict}, 'unpaired')",
        "disagreement": f"if({paired}, {judged.disagreement}, '')",
        "owner": f"if({paired}, {judged.owner}, '')",
        "harm": f"if({paired}, {judged.harm}, '')",
        "recovery": f"if(exits.kind = exits.decided_kind, toString(exits.recovery), {recovery})",
        "reversed": "exits.reversed AND exits.kind = 'partial'",
    }


def _holds(fact: str) -> str:
    return condition_sql(Holds(BY_NAME[fact]), "exits.fact_bits")


def _with(made: Mapping[str, str], columns: Collection[str], there: Collection[str] | None) -> str:
    """What follows the star of a SELECT, so that it gives ``columns`` as they are ``made``, in place of those that are
    there and beside them."""
    shown = {name: f"{sql} AS {name}" for name, sql in made.items() if name in columns}
    instead = [text for name, text in shown.items() if there is None or name in there]
    beside = [f", {text}" for name, text in shown.items() if there is not None and name not in there]
    return (f"REPLACE ({', '.join(instead)})" if instead else "") + "".join(beside)
