"""``v_comparison`` under a table that does not decide yet, computed by the engine from the facts that are stored."""

from typing import NamedTuple

from classifier.sql import exit_sql
from classifier.table import Table
from shadow.disagreement import flags_sql, judge_sql
from shadow.recovery import recovery_sql
from shadow.scope import Scope, Select

# What comes from the evidence is not among the facts; where the same row decides, the reason is the one that is stored.
_EXITS = """
    SELECT stored.* REPLACE
    (
        if(stored.event_id = '', '', {kind}) AS kind,
        if(stored.event_id = '', '', {rule_id}) AS rule_id,
        multiIf(
            stored.event_id = '', '',
            isNotNull({reason_code}), assumeNotNull({reason_code}),
            {rule_id} = stored.rule_id, toString(stored.reason_code),
            {rule_id}
        ) AS reason_code,
        {verified} AS verified
    ),
    stored.kind AS decided_kind
    FROM v_comparison AS stored
    WHERE {condition} AND (event_id = '' OR {why_not} = '')
"""
_PAIRS = """(
    SELECT exits.* REPLACE
    (
        {ambiguous} AS ambiguous,
        if(exits.pairing = 'paired', {verdict}, toString(exits.verdict)) AS verdict,
        if(exits.pairing = 'paired', {disagreement}, '') AS disagreement,
        if(exits.pairing = 'paired', {owner}, '') AS owner,
        if(exits.pairing = 'paired', {harm}, '') AS harm,
        if(exits.kind = exits.decided_kind, toString(exits.recovery), {recovery}) AS recovery
    )
    FROM ({exits}) AS exits
)"""
_NOT_REPLAYABLE = """
    SELECT {why_not} AS why, count() AS runs
    FROM v_comparison
    WHERE {condition} AND event_id != '' AND why != ''
    GROUP BY why
    ORDER BY why
"""


class Candidate(NamedTuple):
    """The table, and SQL that says why the stored facts of a run are not those that it would be asked about, as a
    reason; empty where they are. ``decides`` says that it decides already, ``unproven`` that its proof fails."""

    table: Table
    why_not: str
    decides: bool = False
    unproven: bool = False

    def rows(self, scope: Scope) -> str:
        """SQL of the runs in a scope, with the columns of ``v_comparison``, without those that cannot be replayed."""
        said = exit_sql(self.table, "stored.fact_bits")
        exits = _EXITS.format(
            kind=said.kind,
            rule_id=said.rule_id,
            reason_code=said.reason_code,
            verified=said.verified,
            condition=scope.condition,
            why_not=self.why_not,
        )
        flags = flags_sql("exits.kind", "exits.facts", "exits.legacy_retries")
        judged = judge_sql({"kind": "exits.kind", "legacy_kind": "exits.legacy_kind", **flags})
        # What the agent proposed, and a reviewer went against, is the same whatever table decides.
        recovery = recovery_sql("exits.kind", "exits.actions", "exits.decisions", "exits.overrode")
        return _PAIRS.format(exits=exits, ambiguous=flags["ambiguous"], recovery=recovery, **judged._asdict())

    def not_replayable(self, select: Select, scope: Scope) -> dict[str, int]:
        """Runs in a scope that cannot be replayed, by reason."""
        sql = _NOT_REPLAYABLE.format(why_not=self.why_not, condition=scope.condition)
        return {row["why"]: row["runs"] for row in select(sql, scope.parameters)}
