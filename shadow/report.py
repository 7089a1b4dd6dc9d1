"""The legacy dispatcher against the new one: the questions to the store, and the figures that their answers give.

Everything is aggregated by the engine; what comes back is bounded by the names of exits, reasons and disagreements, not
by the number of runs. Shares have intervals of 95 % (Wilson). A pair is judged if its legacy exit has a kind.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from schemas.exits import KINDS
from schemas.types import EARLIEST
from shadow.accepted import Accepted, Standing, Verdict, judged
from shadow.alike import Runs
from shadow.behaviours import BEHAVIOURS, Behaviour
from shadow.calibration import Calibration, Escalation, calibration, read
from shadow.candidate import Candidate
from shadow.costs import Bill, Costs, bill
from shadow.coverage import Coverage, coverage
from shadow.scope import MOMENT, Scope, Select
from shadow.shares import Change, Kappa, Share, change, kappa

LEGACY_KINDS = (*KINDS, "error", "unmapped")
"""What the legacy dispatcher can have done: an exit, a generic error, or something that the mapping does not know."""

SLICES = 24
"""Equal parts of the period that a trend is drawn over; its halves are what is compared."""

EXAMPLES = 3
_JUDGED = frozenset({"agree", "disagree"})
_COLUMNS = (
    "kind", "reason_code", "legacy_kind", "verdict", "disagreement", "owner", "harm", "recovery", "verified",
    "ambiguous", "reversed", "obligations", "facts", "prohibited", "fact_bits",
)  # fmt: skip
"""What the cube tells apart, and what its flags are made of."""
_MOST_OWED, _MOMENT_BITS = (1 << 10) - 1, 54
# Of two runs that did the same harm, the worse example weighs more, or as much: by what is owed, then the later one.
_WEIGHT = f"""if(
    run.obligations < {_MOST_OWED},
    bitShiftLeft(toUInt64(run.obligations), {_MOMENT_BITS})
        + toUInt64(toUnixTimestamp64Micro(run.moment) - ({EARLIEST})),
    {(1 << 64) - 1}
)"""
_VALUES = {
    "counted": "count()",
    "packets_of": "count(run.packet_completeness)",
    "whole_of": "countIf(run.packet_completeness = 1)",
    "completeness_of": "sum(run.packet_completeness)",
    "heaviest": f"max({_WEIGHT})",
}
_CUBE = """
    SELECT
        kind, reason_code, legacy_kind, disagreement, harm, recovery,
        toUInt16({flags}) AS flags,
        any(owner) AS owner,
        sum(counted) AS runs,
        sumIf(packets_of, {handed_over}) AS packets,
        sumIf(whole_of, {handed_over}) AS whole_packets,
        sumIf(completeness_of, {handed_over}) AS completeness,
        groupArray(CAST((fact_bits, heaviest), 'Tuple(bits UInt64, heaviest UInt64)')) AS sorts
    FROM {groups}
    GROUP BY kind, reason_code, legacy_kind, disagreement, harm, recovery, flags
"""
_HANDED_OVER = "kind = 'human_queue' OR obligations > 0"
"""Of which runs there is a review packet; under a candidate, of which there still is one."""
_FLAGS = {
    "reversed": "reversed",
    "accepted": "disagreement != '' AND ({accepted})",
    "prohibited_exit": "has(prohibited, kind)",
    "ruled_out": "has(prohibited, legacy_kind)",
}
_TREND = """
    SELECT
        slice,
        if(verdict = 'disagree' AND NOT ({accepted}), disagreement, '') AS disagreement,
        sum(counted) AS runs
    FROM {groups}
    WHERE verdict IN ('agree', 'disagree')
    GROUP BY slice, disagreement
"""
_SLICE = "intDiv(toUnixTimestamp64Micro(run.moment) - {first:Int64}, {width:Int64})"
# The worst first: an effect that nobody knows of, then one that may happen twice, then what a user or an operator is
# wrongly told, then work that is only wasted.
WORST_FIRST = (
    "ambiguity_concealed",
    "duplicate_mutation_possible",
    "denial_retried",
    "incompleteness_concealed",
    "partial_discarded",
    "outage_escalated",
)
# Of all disagreements, and of what was reversed, in one go.
_EXAMPLES = """
    SELECT
        example_of,
        groupArraySorted({most})((
            transform(toString(harm), {harms}, range(1, {number}), {number}),
            -toInt64(obligations),
            -{moment},
            tenant, event_id, ifNull(legacy_label, ''), toString(legacy_kind), toString(kind), toString(reason_code),
            toString(harm)
        )) AS worst
    FROM (SELECT * FROM {rows} WHERE verdict = 'disagree' OR reversed)
    ARRAY JOIN arrayConcat(
        if(verdict = 'disagree' AND NOT ({accepted}), [toString(disagreement)], []), if(reversed, ['{reversed}'], [])
    ) AS example_of
    GROUP BY example_of
"""
_REVERSED = "reversed"
_WEIGHTY = "{weight} >= transform(fact_bits, {sorts}::Array(UInt64), {least}::Array(UInt64), 18446744073709551615)"


class Example(NamedTuple):
    """A run that shows a disagreement: which, what both sides said, what harm that did ('' for none), what is owed."""

    tenant: str
    event_id: str
    label: str
    legacy_kind: str
    kind: str
    reason_code: str
    harm: str
    obligations: int


@dataclass(frozen=True)
class Disagreement:
    """Runs that disagree in one named way and that nobody has accepted, as shares of the judged pairs.

    ``trend`` has a share for each of the equal parts of the period, ``halves`` the earlier half's and the later's.
    ``accepted`` counts the runs that an accepted difference covers, which are in no other number here.
    """

    name: str
    owner: str
    runs: Share
    accepted: int
    ruled_out: int
    halves: tuple[Share, Share]
    trend: tuple[Share, ...]
    examples: tuple[Example, ...]

    @property
    def change(self) -> Change:
        """Whether the later half differs from the earlier one."""
        return change(*self.halves)


class Recovery(NamedTuple):
    """What operators did about the runs of one proposed exit: runs whose actions support it, contradict it, or say
    nothing about it."""

    kind: str
    reason_code: str
    supports: int
    contradicts: int
    silent: int

    @property
    def contradicted(self) -> Share:
        """Of the runs about which operators said anything."""
        return Share(self.contradicts, self.supports + self.contradicts)


class Seen(NamedTuple):
    """How often a behaviour was seen, how often legacy called it a success, how often operators contradict the exit."""

    behaviour: Behaviour
    runs: Share
    legacy_success: Share
    contradicted: Share


class HandOff(NamedTuple):
    """How much of what a reviewer needs the packets hold: packets that hold all, and the mean share, None of none."""

    whole: Share
    mean: float | None


@dataclass(frozen=True)
class Question:
    """What is asked. ``patience_us`` is how long, in microseconds, a legacy exit may take before it counts as missing
    for good; ``now`` is in microseconds too."""

    scope: Scope
    now: int
    patience_us: int
    mapping: Mapping[str, str] = field(default_factory=dict)
    accepted: tuple[Accepted, ...] = ()
    costs: Costs | None = None
    candidate: Candidate | None = None


@dataclass(frozen=True)
class Report:
    """Everything that a comparison shows, in the order in which it is to be read.

    ``not_replayable`` counts runs, by reason, that a candidate table could not be asked about and that are in no other
    figure. ``cells`` counts paired runs by (legacy kind, new kind); ``agreeing`` those of them that agree.
    """

    question: Question
    coverage: Coverage
    not_replayable: Mapping[str, int]
    cells: Mapping[tuple[str, str], int]
    agreeing: Mapping[tuple[str, str], int]
    disagreements: tuple[Disagreement, ...]
    harms: Mapping[str, int]
    accepted: tuple[Verdict, ...]
    bill: Bill | None
    recovery: tuple[Recovery, ...]
    reversals: int
    reversal_examples: tuple[Example, ...]
    behaviours: tuple[Seen, ...]
    hand_off: HandOff
    calibration: Calibration
    prohibited_exits: int
    ruled_out: int

    @property
    def judged_cells(self) -> dict[tuple[str, str], int]:
        """``cells`` without those that the mapping has no kind for."""
        return {cell: runs for cell, runs in self.cells.items() if cell[0] != "unmapped"}

    @property
    def judged(self) -> int:
        """Pairs that agreement is counted over."""
        return sum(self.judged_cells.values())

    @property
    def pairs(self) -> int:
        """All pairs, those without a kind too."""
        return sum(self.cells.values())

    @property
    def agreement(self) -> Share:
        """Of the judged pairs. Never to be shown alone: see ``by_legacy``, ``by_new`` and ``kappa``."""
        return Share(sum(self.agreeing.values()), self.judged)

    @property
    def by_legacy(self) -> dict[str, Share]:
        """Of the runs that legacy called this, how many the new dispatcher calls so too."""
        return {kind: self._agreeing_in(0, kind) for kind in LEGACY_KINDS if kind != "unmapped"}

    @property
    def by_new(self) -> dict[str, Share]:
        """Of the runs that are this for the new dispatcher, how many legacy called so too."""
        return {kind: self._agreeing_in(1, kind) for kind in KINDS}

    def _agreeing_in(self, side: int, kind: str) -> Share:
        agreeing = sum(runs for cell, runs in self.agreeing.items() if cell[side] == kind)
        return Share(agreeing, sum(runs for cell, runs in self.judged_cells.items() if cell[side] == kind))

    @property
    def kappa(self) -> Kappa | None:
        """Agreement beyond chance, over the judged pairs; None where it has no meaning."""
        return kappa(self.judged_cells)

    @property
    def disagreeing(self) -> Share:
        """Runs that disagree and that nobody has accepted, of the judged pairs."""
        return Share(sum(each.runs.count for each in self.disagreements), self.judged)

    @property
    def accepted_runs(self) -> int:
        """Runs that disagree and are covered by an accepted difference that stands."""
        return sum(each.accepted for each in self.disagreements)

    @property
    def escalation(self) -> Escalation:
        """Runs that the new dispatcher would hand to a person, of all runs with an event."""
        handed = next(each.runs for each in self.behaviours if each.behaviour.name == "hand_off")
        return Escalation(handed.count, handed.of)

    @property
    def legacy_escalation(self) -> Escalation:
        """Runs that legacy opened a human ticket for, of the judged pairs."""
        escalated = sum(runs for (legacy, _), runs in self.judged_cells.items() if legacy == "human_queue")
        return Escalation(escalated, self.judged)


def report(select: Select, question: Question) -> Report:
    """Ask everything. ``select`` runs SQL against an open store; nothing is written."""
    scope, candidate = question.scope, question.candidate
    not_replayable = {} if candidate is None else candidate.not_replayable(select, scope)
    runs = Runs(scope, candidate, all_replayable=not not_replayable).compared(select)
    seen = coverage(select, runs.stored, scope, question.now - question.patience_us)
    differences = judged(select, runs, question.accepted, question.now)
    accepted = Standing.of(differences)
    cube = _cube(select, runs, accepted)
    cells, agreeing = _cells(cube), _cells(row for row in cube if row["verdict"] == "agree")
    disagreeing = _cells(row for row in cube if row["verdict"] == "disagree")
    examples = _examples(select, runs, accepted, cube)
    trends = _trends(select, runs, accepted, seen)
    reversals = _total(row for row in cube if row["reversed"])
    return Report(
        question=question,
        coverage=seen,
        not_replayable=not_replayable,
        cells=cells,
        agreeing=agreeing,
        disagreements=_disagreements(cube, trends, examples),
        harms=_harms(cube),
        accepted=differences,
        bill=None if question.costs is None else bill(question.costs, cells, disagreeing),
        recovery=_recovery(cube),
        reversals=reversals,
        reversal_examples=examples.get(_REVERSED, ()),
        behaviours=_behaviours(cube),
        hand_off=_hand_off(cube),
        calibration=calibration(read(select, runs.each({"kind"}), scope.parameters)),
        prohibited_exits=_total(row for row in cube if row["prohibited_exit"] and row["kind"]),
        ruled_out=_total(row for row in cube if row["ruled_out"] and row["verdict"] in _JUDGED),
    )


def _cube(select: Select, runs: Runs, accepted: Standing) -> list[dict[str, Any]]:
    """Runs counted by everything that the figures below tell apart, with the sorts of runs they are of: the bits of
    their facts, and the weight of the worst example there is of each."""
    bits = [each.condition for each in BEHAVIOURS] + [sql.format(accepted=accepted.sql) for sql in _FLAGS.values()]
    flags = " + ".join(f"if({condition}, {1 << place}, 0)" for place, condition in enumerate(bits))
    groups = runs.alike({*_COLUMNS, *accepted.columns}, _VALUES)
    sql = _CUBE.format(groups=groups, flags=flags, handed_over=_HANDED_OVER)
    return [_unpacked(row) for row in select(sql, runs.scope.parameters)]


def _unpacked(row: dict[str, Any]) -> dict[str, Any]:
    """The row with its flags by name, and with what ``v_comparison`` calls its pairing and its verdict."""
    flags = {name: bool(row["flags"] & 1 << place) for place, name in enumerate(_FLAGS, len(BEHAVIOURS))}
    return {**row, **flags, "behaviours": row["flags"], "pairing": _pairing(row), "verdict": _verdict(row)}


def _pairing(row: Mapping[str, Any]) -> str:
    if not row["kind"]:
        return "event_missing"
    return "paired" if row["legacy_kind"] else "legacy_missing"


def _verdict(row: Mapping[str, Any]) -> str:
    if _pairing(row) != "paired":
        return "unpaired"
    if row["legacy_kind"] == "unmapped":
        return "unmapped"
    return "disagree" if row["disagreement"] else "agree"


def _total(rows: Iterable[Mapping[str, Any]]) -> int:
    return sum(row["runs"] for row in rows)


def _cells(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], int]:
    """Runs by legacy and new kind, of those that have both, in the order of the kinds."""
    found = Counter[tuple[str, str]]()
    for row in rows:
        if row["pairing"] == "paired":
            found[row["legacy_kind"], row["kind"]] += row["runs"]
    return dict(sorted(found.items(), key=lambda cell: _place(*cell[0])))


def _place(legacy: str, new: str) -> tuple[int, int]:
    return LEGACY_KINDS.index(legacy), KINDS.index(new)


def _harms(cube: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Runs by harm, the worst harm first; those that somebody has accepted too, since that undoes no harm."""
    found = Counter[str]()
    for row in cube:
        if row["harm"]:
            found[row["harm"]] += row["runs"]
    return {harm: found[harm] for harm in WORST_FIRST if found[harm]}


# --- named disagreements


def _disagreements(
    cube: Sequence[Mapping[str, Any]],
    trends: Mapping[str, tuple[Share, ...]],
    examples: Mapping[str, tuple[Example, ...]],
) -> tuple[Disagreement, ...]:
    """The most frequent first."""
    judged = _total(row for row in cube if row["verdict"] in _JUDGED)
    owners = {row["disagreement"]: row["owner"] for row in cube}
    counts, accepted, ruled_out = Counter[str](), Counter[str](), Counter[str]()
    for row in cube:
        if row["verdict"] == "disagree":
            name = row["disagreement"]
            (accepted if row["accepted"] else counts)[name] += row["runs"]
            ruled_out[name] += row["runs"] if row["ruled_out"] and not row["accepted"] else 0
    return tuple(
        Disagreement(
            name=name,
            owner=owners[name],
            runs=Share(counts[name], judged),
            accepted=accepted[name],
            ruled_out=ruled_out[name],
            halves=_halves(trends.get(name, ())),
            trend=trends.get(name, ()),
            examples=examples.get(name, ()),
        )
        for name in sorted(counts | accepted, key=lambda name: (-counts[name], name))
    )


def _trends(select: Select, runs: Runs, accepted: Standing, seen: Coverage) -> dict[str, tuple[Share, ...]]:
    """Shares of the judged pairs by disagreement, for equal parts of the time between the first run and the last."""
    if seen.first is None or seen.last is None or not seen.judged:
        return {}
    width = (seen.last - seen.first) // SLICES + 1
    columns = {"verdict", "disagreement", *accepted.columns}
    sql = _TREND.format(groups=runs.alike(columns, {"counted": "count()"}, {"slice": _SLICE}), accepted=accepted.sql)
    rows = select(sql, {**runs.scope.parameters, "first": seen.first, "width": width})
    judged, found = Counter[int](), Counter[tuple[str, int]]()
    for row in rows:
        judged[row["slice"]] += row["runs"]
        found[row["disagreement"], row["slice"]] += row["runs"]
    names = {name for name, _ in found if name}
    return {name: tuple(Share(found[name, part], judged[part]) for part in range(SLICES)) for name in names}


def _halves(trend: Sequence[Share]) -> tuple[Share, Share]:
    middle = len(trend) // 2
    return _together(trend[:middle]), _together(trend[middle:])


def _together(shares: Sequence[Share]) -> Share:
    return Share(sum(each.count for each in shares), sum(each.of for each in shares))


def _examples(
    select: Select, runs: Runs, accepted: Standing, cube: Sequence[Mapping[str, Any]]
) -> dict[str, tuple[Example, ...]]:
    """The worst of each disagreement that nobody has accepted, and of what was reversed."""
    least = _least(cube)
    if not least:
        return {}
    # Most runs cannot be among the worst, and that takes two numbers to see.
    weighty = _WEIGHTY.format(sorts=[*least], least=[*least.values()], weight=_WEIGHT.replace("run.", ""))
    columns = {"kind", "reason_code", "verdict", "disagreement", "harm", "reversed", *accepted.columns}
    rows = runs.each(columns, weighty)
    sql = _EXAMPLES.format(
        rows=rows, moment=MOMENT, accepted=accepted.sql, reversed=_REVERSED, most=EXAMPLES, harms=list(WORST_FIRST),
        number=len(WORST_FIRST) + 1,
    )  # fmt: skip
    return {
        row["example_of"]: tuple(_example([*each.values()]) for each in row["worst"])
        for row in select(sql, runs.scope.parameters)
    }


def _least(cube: Iterable[Mapping[str, Any]]) -> dict[int, int]:
    """What a run weighs at least that is among the worst of anything, by the bits of its facts."""
    sorts: dict[str, list[tuple[int, int, int]]] = {}
    for row in cube:
        found = [(_rank(row["harm"]), -sort["heaviest"], sort["bits"]) for sort in row["sorts"]]
        if row["verdict"] == "disagree" and not row["accepted"]:
            sorts.setdefault(row["disagreement"], []).extend(found)
        if row["reversed"]:
            sorts.setdefault(_REVERSED, []).extend(found)
    least = dict[int, int]()
    for of_one in sorts.values():
        for bits, weight in _bounds(sorted(of_one)):
            least[bits] = min(weight, least.get(bits, weight))
    return least


def _bounds(sorts: Sequence[tuple[int, int, int]]) -> Iterator[tuple[int, int]]:
    """Of the sorts of runs of one disagreement, the worst first, which can have one of the worst, and from which weight
    on. Each sort has a run that weighs what is said of it, so that nothing behind the last of the first few can."""
    last, lightest, _ = sorts[EXAMPLES - 1] if len(sorts) >= EXAMPLES else (len(WORST_FIRST), 0, 0)
    for rank, weight, bits in sorts:
        if (rank, weight) <= (last, lightest):
            yield bits, -lightest if rank == last else 0


def _rank(harm: str) -> int:
    return WORST_FIRST.index(harm) if harm else len(WORST_FIRST)


def _example(worst: Sequence[Any]) -> Example:
    _, owed, _, *names = worst
    return Example._make([*names, -owed])


# --- operators, and ways to end


def _recovery(cube: Iterable[Mapping[str, Any]]) -> tuple[Recovery, ...]:
    """By proposed exit and reason, what operators contradict most first."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for row in cube:
        if row["kind"]:
            found.setdefault((row["kind"], row["reason_code"]), Counter())[row["recovery"]] += row["runs"]
    rows = (Recovery(*key, said["supports"], said["contradicts"], said["silent"]) for key, said in found.items())
    return tuple(
        sorted(rows, key=lambda row: (-row.contradicts, -row.supports, KINDS.index(row.kind), row.reason_code))
    )


def _behaviours(cube: Sequence[Mapping[str, Any]]) -> tuple[Seen, ...]:
    events = [row for row in cube if row["kind"]]
    whole = _total(events)
    return tuple(
        _seen(each, [row for row in events if row["behaviours"] & 1 << place], whole)
        for place, each in enumerate(BEHAVIOURS)
    )


def _seen(behaviour: Behaviour, rows: Sequence[Mapping[str, Any]], events: int) -> Seen:
    judged = [row for row in rows if row["verdict"] in _JUDGED]
    said = Counter[str]()
    for row in rows:
        said[row["recovery"]] += row["runs"]
    return Seen(
        behaviour,
        runs=Share(_total(rows), events),
        legacy_success=Share(_total(row for row in judged if row["legacy_kind"] == "completed"), _total(judged)),
        contradicted=Share(said["contradicts"], said["supports"] + said["contradicts"]),
    )


def _hand_off(cube: Iterable[Mapping[str, Any]]) -> HandOff:
    rows = [row for row in cube if row["packets"]]
    packets = sum(row["packets"] for row in rows)
    mean = sum(row["completeness"] for row in rows) / packets if packets else None
    return HandOff(Share(sum(row["whole_packets"] for row in rows), packets), mean)
