"""The table ``comparisons``: which runs are to be settled, and one row for each, put together by the engine.

A row holds what the stored rows say of a run at its latest segment: the current exit, the legacy exit, and what
operators, reviewers and enrichments added. What to make of a pair is handed in as SQL, see :class:`Judgement`. The
engine goes through the runs by the hash of their identity, slice by slice, so that memory is bounded by the slice.

A companion is about the event that it names, or else about the event of the run and segment that it names; an absent
segment is 0. A run stands at its latest segment, whichever side knows of it: where a legacy exit names a segment that
no event has reached, the event is missing. A legacy exit that names an event nobody has seen stands for itself until
the event comes.
"""
# ruff: noqa: S608 -- every statement is put together from the constants below and from what shadow/ has quoted

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from sinks.errors import StoreForbidden
from sinks.rows import COMPANION_TABLES
from sinks.store import Store

VIEWS = ("v_comparison", "v_disagreements", "v_recovery", "v_coverage", "v_readiness")
"""Views over the table."""
SLICE_RUNS = 500_000
"""About how many runs are settled at once: most of the time goes into reading every table, whatever the slice; twice as
many take 1.6 GB instead of 1.1, and two thirds of the time."""
_HASH_SPACE = 2**64
_NEVER = -9_000_000_000_000_000_000
"""Before every instant, in microseconds."""

Progress = Callable[[int, int], None]
"""Told how many parts of how many are done."""


class Judgement(NamedTuple):
    """What to make of a run, as SQL.

    ``legacy_kind`` is an expression over the columns of ``legacy_exits``, a String that is never empty. The others are
    expressions over columns of ``comparisons``: ``ambiguous`` 0 or 1, the rest a String. ``verdict`` and what follows
    it are asked of pairs alone.
    """

    legacy_kind: str
    ambiguous: str
    verdict: str
    disagreement: str
    owner: str
    harm: str
    recovery: str


class Settling(NamedTuple):
    """How far runs are settled. Times are microseconds; ``grounds`` is a digest of what decides besides the rows."""

    grounds: str
    mapping_id: str
    mapping_version: str
    mapping_digest: str
    through: int
    whole_at: int
    runs: int
    recorded_at: int


# --- how far it is


_LAST = f"SELECT {', '.join(Settling._fields)} FROM v_settlings LIMIT 1"
_TABLES = "SELECT table_digest, classifier_version FROM v_tables"
_STORED = {"exit_classifications": "classified_at", **dict.fromkeys(COMPANION_TABLES.values(), "ingested_at")}
"""Tables that a settling reads, and their column that says when a row was stored."""
_SINCE = "{column} >= fromUnixTimestamp64Micro({{since:Int64}})"
_COUNTED = " UNION ALL ".join(
    f"SELECT count() AS n FROM {table} WHERE {_SINCE.format(column=column)}" for table, column in _STORED.items()
)
_NEWEST = "SELECT toUnixTimestamp64Micro(max(settled_at)) AS at, count() AS n FROM comparisons"
_WRITTEN = (
    "SELECT count() AS n FROM comparisons WHERE settled_at = fromUnixTimestamp64Micro({version:Int64}) AND NOT gone"
)
_RECORD = """
    INSERT INTO settlings (grounds, mapping_id, mapping_version, mapping_digest, through, whole_at, runs, recorded_at)
    SELECT {grounds:String}, {mapping_id:String}, {mapping_version:String}, {mapping_digest:String},
        fromUnixTimestamp64Micro({through:Int64}), fromUnixTimestamp64Micro({whole_at:Int64}), {runs:UInt64},
        fromUnixTimestamp64Micro({recorded_at:Int64})
"""


# --- which runs

_EVENT, _RUN = "ifNull(event_id, '')", "ifNull(run_id, '')"
_NAMED = " UNION ALL ".join(
    f"SELECT named_hash, {_EVENT} AS named FROM {table} WHERE {_SINCE.format(column='ingested_at')}"
    for table in COMPANION_TABLES.values()
)
_TOUCH = f"""
    INSERT INTO touched_runs (hash, recorded_at)
    SELECT DISTINCT hash, fromUnixTimestamp64Micro({{version:Int64}}) AS recorded_at
    FROM
    (
        SELECT run_hash AS hash FROM exit_classifications WHERE {_SINCE.format(column="classified_at")}
        UNION ALL
        SELECT named_hash AS hash FROM ({_NAMED})
        UNION ALL
        SELECT run_hash AS hash FROM exit_classifications
        WHERE identity IN (SELECT named_hash FROM ({_NAMED}) WHERE named != '')
    )
"""
_OF_SETTLING = "recorded_at = fromUnixTimestamp64Micro({version:Int64})"
_TOUCHED = f"SELECT count() AS n FROM touched_runs WHERE {_OF_SETTLING}"


def _chosen(hashed: str, *, whole: bool) -> str:
    """Whether the run (or missing event) whose hash is in the column ``hashed`` is to be settled in this slice."""
    slice_ = "BETWEEN {low:UInt64} AND {high:UInt64}"
    touched = f"SELECT hash FROM touched_runs WHERE {_OF_SETTLING} AND hash {slice_}"
    return f"{hashed} {slice_}" if whole else f"{hashed} IN ({touched})"


# --- the rows

_ACTIVATIONS = """(
    SELECT mapFromArrays(groupArray(concat(table_digest, ' ', classifier_version)), groupArray(toUnixTimestamp64Micro(activated_at)))
    FROM active_tables FINAL
)"""  # noqa: E501 -- as in v_classifications
_LEGACY = (
    "label", "http_status", "error_class", "retries", "queue", "user_visible", "decided_at", "dispatcher",
    "dispatcher_version",
)  # fmt: skip
_LEGACY_TYPES = (
    "Tuple(String, Nullable(String), Nullable(Int64), Nullable(String), Nullable(Int64), Nullable(String),"
    " Nullable(Bool), Nullable(DateTime64(6, \\'UTC\\')), Nullable(String), Nullable(String))"
)
"""Of what the label mapping makes of a legacy exit, and of the columns above."""
_OF_EXIT = (
    "agent_version", "workflow", "kind", "reason_code", "rule_id", "verified", "prohibited", "facts",
    "fact_bits", "table_digest", "classifier_version", "evidence_gaps", "findings", "packet_completeness",
)  # fmt: skip


def _heads(*, whole: bool) -> str:
    """Where each run stands: ``head`` is (segment, end, event id), its event id empty if the event is missing."""
    return f"""
        SELECT tenant, subject, unseen, max(rank) AS head, uniqExactIf(rank.3, rank.3 != '') AS events
        FROM
        (
            SELECT tenant, run_id AS subject, false AS unseen,
                (ifNull(segment, 0), toUnixTimestamp64Micro(occurred_at), event_id) AS rank
            FROM exit_classifications
            WHERE {_chosen("run_hash", whole=whole)}
            UNION ALL
            SELECT tenant, if(unseen, {_EVENT}, {_RUN}) AS subject, {_EVENT} != '' AS unseen,
                (if(unseen, 0, ifNull(segment, 0)), toInt64({_NEVER}), '') AS rank
            FROM legacy_exits
            PREWHERE {_chosen("named_hash", whole=whole)}
            WHERE subject != '' AND (NOT unseen OR (tenant, {_EVENT}) NOT IN (
                SELECT tenant, event_id FROM exit_classifications WHERE {_chosen("identity", whole=whole)}
            ))
        )
        GROUP BY tenant, subject, unseen
    """


def _exits(*, whole: bool) -> str:
    """The current classification of each run's latest event, as v_classifications has it."""
    return f"""
        SELECT tenant, run_id, event_id, segment, agent_id, occurred_at, {", ".join(_OF_EXIT)},
            length(obligations) AS duties
        FROM exit_classifications
        WHERE {_chosen("run_hash", whole=whole)}
        ORDER BY
            tenant ASC,
            run_id ASC,
            (ifNull(segment, 0), toUnixTimestamp64Micro(occurred_at), event_id) DESC,
            {_ACTIVATIONS}[concat(table_digest, ' ', classifier_version)] DESC,
            classified_at DESC,
            table_digest ASC,
            classifier_version ASC
        LIMIT 1 BY tenant, run_id
    """


def _notes(judgement: Judgement, *, whole: bool) -> str:
    """Every companion: whom it names, when it happened, in a word what it says, and of a legacy exit everything."""
    whom = f"if({_EVENT} != '', ({_EVENT}, '', toInt64(0)), ('', {_RUN}, ifNull(segment, 0)))"
    nothing = f"('', {', '.join(['NULL'] * len(_LEGACY))})"
    everything = f"({judgement.legacy_kind}, {', '.join(_LEGACY)})"
    # By hashes first, since what is made of a companion costs more than to see whom it is about. The engine has to be
    # told: left to itself it looks at the ids first.
    # The events of the runs are one value, which the engine finds out once for all four tables.
    events = f"SELECT groupArray(identity) FROM exit_classifications WHERE {_chosen('run_hash', whole=whole)}"
    of_events, named = f"named_hash IN (SELECT arrayJoin(({events})))", _chosen("named_hash", whole=whole)
    concerned = f"({_EVENT} != '' OR ({_RUN} != '' AND {named}))"

    def of(table: str, word: str, flag: str, only: str, at: str = "at") -> str:
        legacy = everything if table == "legacy_exits" else nothing
        return f"""
            SELECT tenant, record_id, {whom} AS named, '{table}' AS type,
                ifNull(toUnixTimestamp64Micro({at}), {_NEVER}) AS moment, {word} AS word, {flag} AS flag,
                CAST({legacy}, '{_LEGACY_TYPES}') AS legacy, toUnixTimestamp64Micro(ingested_at) AS stored
            FROM {table}
            PREWHERE {of_events} OR {named}
            WHERE {only} AND {concerned}
        """

    decided = ("ifNull(decision, 'unknown')", "ifNull(overrode_proposal, false)", "event = 'decided'")
    return " UNION ALL ".join(
        (
            of("legacy_exits", "''", "false", "true", at="decided_at"),
            of("recovery_actions", "ifNull(action, 'unknown')", "false", "true"),
            of("review_events", *decided),
            of("enrichments", "''", "true", "reverses_result"),
        )
    )


def _gathered(judgement: Judgement, *, whole: bool) -> str:
    """Where each run stands, and what is noted about that; of copies of a record one."""
    return f"""
        SELECT
            heads.tenant AS tenant,
            heads.subject AS subject,
            heads.unseen AS unseen,
            any(heads.head) AS head,
            any(heads.events) AS events,
            arraySort(x -> (x.1, x.2), groupUniqArrayIf((moment, record_id, legacy), type = 'legacy_exits')) AS legacy,
            {_words("recovery_actions")} AS actions,
            {_words("review_events")} AS decisions,
            max(type = 'review_events' AND flag) AS overrode,
            max(type = 'enrichments' AND flag) AS reverses,
            maxIf(stored, type = 'legacy_exits') AS legacy_stored
        FROM ({_notes(judgement, whole=whole)}) AS notes
        RIGHT JOIN
        (
            SELECT tenant, subject, unseen, head, events, arrayJoin(multiIf(
                unseen, [(subject, '', toInt64(0))],
                head.3 = '', [('', subject, head.1)],
                [('', subject, head.1), (head.3, '', toInt64(0))]
            )) AS named
            FROM ({_heads(whole=whole)})
        ) AS heads ON heads.tenant = notes.tenant AND heads.named = notes.named
        GROUP BY tenant, subject, unseen
    """


def _words(table: str) -> str:
    found = f"groupUniqArrayIf((moment, record_id, word), type = '{table}')"
    return f"arrayMap(x -> x.3, arraySort(x -> (x.1, x.2), {found}))"


def _runs(judgement: Judgement, *, whole: bool) -> str:
    """A row for each run, not judged yet."""
    legacy = (f"shown.{place} AS {name}" for place, name in enumerate(_SHOWN, 1))
    return f"""
        SELECT
            gathered.tenant AS tenant,
            gathered.subject AS subject,
            gathered.unseen AS unseen,
            gathered.head.3 AS event_id,
            event_id != '' AS seen,
            multiIf(seen, exits.segment, gathered.unseen, NULL, gathered.head.1) AS segment,
            toUInt32(gathered.events - seen) AS superseded,
            exits.agent_id AS agent_id,
            {", ".join(f"exits.{name} AS {name}" for name in _OF_EXIT)},
            exits.duties AS obligations,
            length(gathered.legacy) AS legacy_records,
            gathered.legacy[-1].3 AS shown,
            {", ".join(legacy)},
            length(arrayDistinct(arrayMap(x -> x.3.1, gathered.legacy))) > 1 AS legacy_contested,
            multiIf(NOT seen, 'event_missing', legacy_records = 0, 'legacy_missing', 'paired') AS pairing,
            fromUnixTimestamp64Micro(gathered.legacy_stored, 'UTC') AS legacy_stored_at,
            if(seen, exits.occurred_at, ifNull(legacy_decided_at, legacy_stored_at)) AS occurred_at,
            gathered.actions AS actions,
            gathered.decisions AS decisions,
            gathered.overrode AS overrode,
            gathered.reverses AND kind = 'partial' AS reversed
        FROM ({_gathered(judgement, whole=whole)}) AS gathered
        LEFT JOIN ({_exits(whole=whole)}) AS exits
            ON exits.tenant = gathered.tenant AND exits.run_id = gathered.subject AND exits.event_id = gathered.head.3
    """


def _insert(judgement: Judgement, *, whole: bool) -> str:
    """One slice. Of what is not a pair nothing is asked but whether it is ambiguous, and what recovery says."""
    judged = [
        f"({judgement.ambiguous}) AS ambiguous",
        f"if(pairing = 'paired', {judgement.verdict}, 'unpaired') AS verdict",
        *(f"if(pairing = 'paired', {getattr(judgement, name)}, '') AS {name}" for name in _OF_PAIRS),
        f"{judgement.recovery} AS recovery",
    ]
    return f"""
        INSERT INTO comparisons ({", ".join(_COLUMNS)})
        SELECT {", ".join(_FOUND)}, {", ".join(judged)}, {{mapping:String}} AS mapping_digest, false AS gone,
            fromUnixTimestamp64Micro({{version:Int64}}) AS settled_at
        FROM ({_runs(judgement, whole=whole)})
        {_AS_MERGED}
    """


# As if the slice had been merged once: a part that overlaps no other, and that is known to hold no row twice, is read
# without looking for copies. Over ten million runs that is half a second of every question.
_AS_MERGED = "SETTINGS optimize_on_insert = 1"


_SHOWN = ("legacy_kind", *(name if name.startswith("dispatcher") else f"legacy_{name}" for name in _LEGACY))
_OF_PAIRS = ("disagreement", "owner", "harm")
_FOUND = (
    "tenant", "subject", "unseen", "event_id", "segment", "superseded", "agent_id", "occurred_at", "pairing", *_OF_EXIT,
    "obligations", *_SHOWN, "legacy_records", "legacy_contested", "actions", "decisions", "overrode", "reversed",
)  # fmt: skip
_COLUMNS = (
    *_FOUND, "ambiguous", "verdict", *_OF_PAIRS, "recovery", "mapping_digest", "gone", "settled_at",
)  # fmt: skip
_RETRACT = """
    INSERT INTO comparisons (tenant, subject, unseen, event_id, occurred_at, pairing, gone, settled_at)
    SELECT tenant, subject, unseen, event_id, occurred_at, pairing, true, fromUnixTimestamp64Micro({version:Int64})
    FROM comparisons FINAL
    WHERE unseen AND NOT gone AND (tenant, subject) IN (
        SELECT tenant, event_id FROM exit_classifications
        WHERE identity IN (SELECT identity FROM comparisons WHERE unseen)
    )
"""


class Comparisons:
    """The table of a store. Raises as the store does."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def last(self) -> Settling | None:
        """The last settling that ended, None if there is none."""
        rows = self._store.select(_LAST)
        return Settling(**rows[0]) if rows else None

    def tables(self) -> list[tuple[str, str]]:
        """Digest and classifier version of the decision tables that decided here, the current one first."""
        return [(row["table_digest"], row["classifier_version"]) for row in self._store.select(_TABLES)]

    def stored_since(self, since: int) -> int:
        """How many exits were stored at ``since`` or later, or companions of one type, if those are more, by the clocks
        of those who stored them."""
        return max(int(row["n"]) for row in self._store.select(_COUNTED, {"since": since}))

    def newest(self) -> int | None:
        """The latest ``settled_at`` of any row, None if there is no row."""
        (row,) = self._store.select(_NEWEST)
        return row["at"] if row["n"] else None

    def write(
        self, judgement: Judgement, mapping_digest: str, version: int, since: int | None, progress: Progress
    ) -> int:
        """Settle the runs about which something was stored since then, all if ``since`` is None; how many they are.

        ``version`` becomes their ``settled_at``; ``progress`` is told how many slices of how many are done.
        """
        runs = self.stored_since(_NEVER) if since is None else self._touch(version, since)
        slices = -(-runs // SLICE_RUNS)
        sql = _insert(judgement, whole=since is None)
        for number in range(slices):
            low, high = _HASH_SPACE * number // slices, _HASH_SPACE * (number + 1) // slices - 1
            self._store.execute(sql, {"version": version, "mapping": mapping_digest, "low": low, "high": high})
            progress(number + 1, slices)
        self._store.execute(_RETRACT, {"version": version})
        return int(self._store.select(_WRITTEN, {"version": version})[0]["n"])

    def _touch(self, version: int, since: int) -> int:
        """Note what was touched since then; how many runs, missing events and runs of companions these are at most."""
        self._store.execute(_TOUCH, {"version": version, "since": since})
        return int(self._store.select(_TOUCHED, {"version": version})[0]["n"])

    def drop_before(self, version: int) -> None:
        """Delete the rows of earlier settlings, after one that settled every run; does nothing where that is forbidden,
        since readers see the newest rows anyway."""
        with suppress(StoreForbidden):
            self._store.alter("comparisons", f"DELETE WHERE settled_at < fromUnixTimestamp64Micro({version:d})")

    def record(self, settling: Settling) -> None:
        """Record how far runs are settled; the last thing that a settling does."""
        self._store.execute(_RECORD, settling._asdict())
