"""Which cause the numbers point to when a share of the exits rises: a number for each, which together are the rise.

Two windows are compared: that of the alert, and the time before. A run has *attributes*, which it has whatever its exit
is (workflow, tenant, versions); and a case, an exit that is counted, has *labels*, which only cases have (the policy
that denied, the reason, the path that failed). A rise is split in two steps, and no part is left over:

1. What comes of runs being others than before, at the rates that runs of their kind have: Kitagawa's effect of the
   composition, each attribute's part its Shapley value. A version that was not there before has no other rate than its
   own, so what it brings is its part.
2. What is left is that like runs end otherwise than before. Each label's part is the rise of its own cases among
   like runs.

Sources: E. M. Kitagawa, "Components of a difference between two rates", JASA 50 (1955); L. S. Shapley, "A value for
n-person games" (1953); A. F. Shorrocks, "Decomposition procedures for distributional analysis", Journal of Economic
Inequality 11 (2013), for the two together.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import combinations
from math import factorial, fsum
from typing import Any, NamedTuple

from alerts.model import to_minute

MOST_VALUES = 12
"""Values of an attribute that are told apart, those with most exits; the others count as one."""
OTHER = "(others)"
_SHOWN = 5
"""Values that a part names."""
_NOTHING = 1e-12
"""What is less than this comes of rounding."""


class Factor(StrEnum):
    """What may be the cause."""

    POLICY_VERSION = "policy version"
    POLICY = "policy"
    REASON = "reason"
    WORKFLOW = "workflow"
    TENANT = "tenant"
    AGENT_VERSION = "agent version"
    TABLE = "decision table"
    CLASSIFIER = "classifier version"
    PATH = "primary path"
    COMPONENT = "component"
    GAP = "missing evidence"


ATTRIBUTES = (Factor.WORKFLOW, Factor.TENANT, Factor.AGENT_VERSION, Factor.TABLE, Factor.CLASSIFIER)
"""What a run has whatever its exit is, besides the version of a policy."""


class Label(NamedTuple):
    """What a case names as its cause. ``value`` is empty where the evidence does not say."""

    factor: Factor
    value: str


class Exits(NamedTuple):
    """Exits that are alike. ``n`` is how many, ``is_current`` whether they are of the alert's window.

    ``versions`` are the policies that were asked, as (policy id, version). ``labels`` are those of a case, none means
    that it is no case; several share it equally. ``carrier`` is the fallback that stood in, as ``id@version``.
    """

    is_current: bool
    tenant: str
    workflow: str
    agent_version: str
    table: str
    classifier: str
    versions: tuple[tuple[str, str], ...]
    labels: tuple[Label, ...]
    carrier: str
    n: int


class Share(NamedTuple):
    """Cases among exits."""

    cases: int
    exits: int

    @property
    def rate(self) -> float:
        """0 to 1; 0 where there are no exits."""
        return self.cases / self.exits if self.exits else 0.0


class Part(NamedTuple):
    """What a factor adds to the share, in parts of all exits; below 0 it lowers it.

    ``values`` are the values of the factor that add most, with what each adds. Of an attribute they are those that more
    runs have than before, and need not sum to the part.
    """

    factor: Factor
    size: float
    values: tuple[tuple[str, float], ...]


class Rise(NamedTuple):
    """A change of a share, and what it comes of, the largest part first. The parts sum to the change.

    ``carriers`` are what each fallback adds, by ``id@version``. Where it is asked why a share fell (``is_fall``), the
    first part is the one that lowers it most. ``since`` is when the alert's window begins, in microseconds. It is said,
    since the window is a longer one than the rule's.
    """

    before: Share
    now: Share
    parts: tuple[Part, ...]
    carriers: tuple[tuple[str, float], ...]
    is_fall: bool = False
    since: int | None = None

    @property
    def size(self) -> float:
        """Share now less share before, in parts of all exits; 0 where there are no exits now."""
        return self.now.rate - self.before.rate if self.now.exits else 0.0

    @property
    def named(self) -> Part | None:
        """The part that explains most; None where nothing rose, or fell, as it was asked."""
        sign = -1 if self.is_fall else 1
        if not self.parts or sign * self.size <= _NOTHING or sign * self.parts[0].size <= _NOTHING:
            return None
        return self.parts[0]

    @property
    def sentence(self) -> str:
        """The cause in words, with the numbers it rests on."""
        return _sentence(self)

    @property
    def contributors(self) -> tuple[tuple[str, float], ...]:
        """The parts by factor and value, as parts of all exits, for the annotations of an alert."""
        return tuple((f"{part.factor} {_name(part)}".rstrip(), part.size) for part in self.parts)


def exits_of(rows: Iterable[Mapping[str, Any]]) -> list[Exits]:
    """Exits from rows with these columns: ``versions`` as pairs of texts, ``labels`` as pairs of factor and value."""
    return [
        Exits(
            bool(row["is_current"]),
            row["tenant"],
            row["workflow"],
            row["agent_version"],
            row["table"],
            row["classifier"],
            tuple((policy, version) for policy, version in row["versions"]),
            tuple(Label(Factor(factor), value) for factor, value in row["labels"]),
            row["carrier"],
            row["n"],
        )
        for row in rows
    ]


def rise(exits: Iterable[Exits], *, is_fall: bool = False, since: int | None = None) -> Rise:
    """What the change of a share between two windows comes of; the alert's began at ``since``, in microseconds.

    Without exits before there is nothing to compare with: then the parts are those of the share as it is, by label.
    """
    rows = [row for row in exits if row.n > 0]
    before, now = _share(rows, is_current=False), _share(rows, is_current=True)
    cells = _Cells(rows)
    composition = _shapley(cells)
    sizes: defaultdict[Factor, list[float]] = defaultdict(list)
    values: defaultdict[Factor, dict[str, float]] = defaultdict(dict)
    for index, size in composition.items():
        sizes[cells.factors[index]].append(size)
        values[cells.factors[index]] = cells.shifts(index)
    for label, size in cells.within().items():
        sizes[label.factor].append(size)
        values[label.factor][label.value] = values[label.factor].get(label.value, 0.0) + size
    sign = -1 if is_fall else 1
    parts = [Part(factor, fsum(found), _top(values[factor], sign)) for factor, found in sizes.items()]
    parts.sort(key=lambda part: (-sign * part.size, part.factor))
    return Rise(before, now, tuple(parts), _carriers(rows, before, now, sign), is_fall, since)


def _share(rows: Iterable[Exits], *, is_current: bool) -> Share:
    of = [row for row in rows if row.is_current is is_current]
    return Share(sum(row.n for row in of if row.labels), sum(row.n for row in of))


def _top(values: Mapping[str, float], sign: int) -> tuple[tuple[str, float], ...]:
    return tuple(sorted(values.items(), key=lambda item: (-sign * item[1], item[0]))[:_SHOWN])


def _carriers(rows: Iterable[Exits], before: Share, now: Share, sign: int) -> tuple[tuple[str, float], ...]:
    added: defaultdict[str, float] = defaultdict(float)
    for row in rows:
        if row.labels and row.carrier:
            share = now if row.is_current else before
            added[row.carrier] += (1 if row.is_current else -1) * row.n / share.exits
    return _top(added, sign)


# --- the first step: composition


class _Window:
    """Exits of one window in cells of equal attributes: how many, and how many of them are cases, by label."""

    def __init__(self) -> None:
        self.exits: defaultdict[tuple[str, ...], float] = defaultdict(float)
        self.cases: defaultdict[tuple[str, ...], dict[Label, float]] = defaultdict(dict)
        self.total = 0.0

    def add(self, cell: tuple[str, ...], labels: Sequence[Label], n: float) -> None:
        self.exits[cell] += n
        self.total += n
        for label in labels:
            self.cases[cell][label] = self.cases[cell].get(label, 0.0) + n / len(labels)


class _Cells:
    """Both windows, by the attributes that differ anywhere; ``factors`` says which these are."""

    def __init__(self, rows: Sequence[Exits]) -> None:
        policy = _policy_that_rose(rows)
        known = {version for row in rows if not row.is_current for version in row.versions}
        compared = any(not row.is_current for row in rows)
        spread = _Versions(rows, policy)
        table = [(row, attributes, n) for row in rows for attributes, n in spread.of(row)]
        kept = [_kept(table, index) for index in range(len(_COLUMNS))]
        differing = [index for index, values in enumerate(kept) if len(values) > 1]
        self.factors = tuple(_COLUMNS[index] for index in differing)
        self.before, self.now = _Window(), _Window()
        for row, attributes, n in table:
            cell = tuple(attributes[i] if attributes[i] in kept[i] else OTHER for i in differing)
            labels = [_versioned(label, row.versions, known) for label in row.labels] if compared else row.labels
            (self.now if row.is_current else self.before).add(cell, labels, n)

    def composition(self, chosen: Collection[int]) -> dict[tuple[str, ...], float]:
        """What the change of the runs' composition by some of the attributes adds, by value of these; it sums to that.

        Each value stands for its distance from the rate before, which changes no sum.
        """
        before, now = _margin(self.before, chosen), _margin(self.now, chosen)
        if not self.before.total or not self.now.total:
            return {}
        rates = {cell: _mean_rate(before.get(cell), now.get(cell)) for cell in before.keys() | now.keys()}
        usual = _rate(self.before)
        return {
            cell: (_part(now, cell, self.now.total) - _part(before, cell, self.before.total)) * (rate - usual)
            for cell, rate in rates.items()
        }

    def shifts(self, index: int) -> dict[str, float]:
        """What the values of one attribute add that more runs have than before, that attribute taken by itself."""
        before, now = _margin(self.before, (index,)), _margin(self.now, (index,))
        grown = {cell for cell in now if _part(now, cell, self.now.total) > _part(before, cell, self.before.total)}
        return {cell[0]: size for cell, size in self.composition((index,)).items() if cell in grown}

    def within(self) -> dict[Label, float]:
        """What like runs add by ending otherwise than before, by label."""
        found: defaultdict[Label, float] = defaultdict(float)
        compared = self.before.total > 0
        cells = self.now.exits.keys() & self.before.exits.keys() if compared else self.now.exits.keys()
        for cell in cells:
            now, before = self.now.exits[cell], self.before.exits.get(cell, 0.0)
            weight = _weight(now, self.now.total, before, self.before.total)
            for label, cases in self.now.cases.get(cell, {}).items():
                found[label] += weight * cases / now
            for label, cases in self.before.cases.get(cell, {}).items():
                found[label] -= weight * cases / before
        return dict(found)


def _weight(now: float, all_now: float, before: float, all_before: float) -> float:
    return (now / all_now + before / all_before) / 2 if all_before else now / all_now


def _margin(window: _Window, chosen: Collection[int]) -> dict[tuple[str, ...], tuple[float, float]]:
    """Exits and cases by the values of some attributes."""
    found: dict[tuple[str, ...], tuple[float, float]] = {}
    for cell, exits in window.exits.items():
        key = tuple(cell[index] for index in chosen)
        seen, cases = found.get(key, (0.0, 0.0))
        found[key] = (seen + exits, cases + fsum(window.cases.get(cell, {}).values()))
    return found


def _mean_rate(before: tuple[float, float] | None, now: tuple[float, float] | None) -> float:
    """The mean of both windows' rates; where one has no such runs, that of the other."""
    rates = [cases / exits for exits, cases in filter(None, (before, now))]
    return sum(rates) / len(rates)


def _part(margin: Mapping[tuple[str, ...], tuple[float, float]], cell: tuple[str, ...], total: float) -> float:
    return margin[cell][0] / total if cell in margin else 0.0


def _rate(window: _Window) -> float:
    return fsum(n for labels in window.cases.values() for n in labels.values()) / window.total


def _shapley(cells: _Cells) -> dict[int, float]:
    """Each attribute's Shapley value in the game whose worth is the effect of the composition by some of them."""
    players = range(len(cells.factors))
    subsets = [chosen for size in range(len(players) + 1) for chosen in combinations(players, size)]
    worth = {chosen: fsum(cells.composition(chosen).values()) if chosen else 0.0 for chosen in subsets}
    total = factorial(len(players)) if players else 1
    values = dict.fromkeys(players, 0.0)
    for chosen in subsets:
        orders = factorial(len(chosen)) * factorial(max(0, len(players) - len(chosen) - 1))
        for player in set(players) - set(chosen):
            joined = tuple(sorted((*chosen, player)))
            values[player] += orders / total * (worth[joined] - worth[chosen])
    return values


# --- attributes and labels of a row

_COLUMNS = (*ATTRIBUTES, Factor.POLICY_VERSION)


def _kept(table: Iterable[tuple[Exits, tuple[str, ...], float]], index: int) -> set[str]:
    """The values of an attribute that are told apart."""
    counts: defaultdict[str, float] = defaultdict(float)
    for _row, attributes, n in table:
        counts[attributes[index]] += n
    return set(sorted(counts, key=lambda value: (-counts[value], value))[:MOST_VALUES])


def _policy_that_rose(rows: Iterable[Exits]) -> str | None:
    """The policy whose cases rose most, whose version may be the cause; None if no case names a policy."""
    totals, cases = {True: 0, False: 0}, {True: defaultdict[str, int](int), False: defaultdict[str, int](int)}
    for row in rows:
        totals[row.is_current] += row.n
        for label in row.labels:
            if label.factor is Factor.POLICY:
                cases[row.is_current][label.value] += row.n
    rises = {
        policy: cases[True][policy] / max(1, totals[True]) - cases[False][policy] / max(1, totals[False])
        for policy in cases[True].keys() | cases[False].keys()
    }
    return min(rises, key=lambda policy: (-rises[policy], policy)) if rises else None


class _Versions:
    """Which version of one policy stood behind each exit.

    A run of which it is not known, because it ended before the policy was asked, counts in parts for the versions that
    are known in its window. Else a version would seem to come and go with the denials themselves. Where only denials
    are recorded, nobody knows whom a version was asked about, and it is no attribute.
    """

    def __init__(self, rows: Sequence[Exits], policy: str | None) -> None:
        asked = [row for row in rows if any(name == policy for name, _version in row.versions)]
        self._policy = policy if any(not row.labels for row in asked) else None
        self._seen = {True: defaultdict[str, float](float), False: defaultdict[str, float](float)}
        for row in rows:
            for version in self._known(row):
                self._seen[row.is_current][version] += row.n

    def _known(self, row: Exits) -> tuple[str, ...]:
        asked = sorted({version for policy, version in row.versions if policy == self._policy})
        return ("+".join(asked),) if asked else ()

    def of(self, row: Exits) -> list[tuple[tuple[str, ...], float]]:
        """The attributes of a row with how many exits have them, in the order of the columns."""
        attributes = (row.workflow, row.tenant, row.agent_version, row.table, row.classifier)
        seen = self._seen[row.is_current]
        weights = dict.fromkeys(self._known(row), 1.0) or seen or {"": 1.0}
        total = fsum(weights.values())
        return [((*attributes, self._name(version)), row.n * n / total) for version, n in weights.items()]

    def _name(self, version: str) -> str:
        return f"{self._policy}@{version}" if version else ""


def _versioned(label: Label, versions: Sequence[tuple[str, str]], known: Collection[tuple[str, str]]) -> Label:
    """The label of a denial by a version that was not there before is that version."""
    if label.factor is not Factor.POLICY:
        return label
    new = [pair for pair in versions if pair[0] == label.value and pair[1] and pair not in known]
    return Label(Factor.POLICY_VERSION, "@".join(new[0])) if new else label


# --- words


def _name(part: Part) -> str:
    return part.values[0][0] if part.values else ""


def _sentence(found: Rise) -> str:
    before, now = found.before, found.now
    share = f"{now.rate:.1%} ({now.cases} of {now.exits})"
    when = "now" if found.since is None else f"since {to_minute(found.since)} UTC"
    if not before.exits:
        begin = f"{share} {when}; nothing to compare with"
    else:
        begin = f"{before.rate:.1%} ({before.cases} of {before.exits}) before, {share} {when}"
    part = found.named
    if part is None:
        return f"{begin}. Nothing {'fell' if found.is_fall else 'rose'}."
    name = f"{part.factor} {_name(part) or 'unknown'}"
    carried = f", carried by {found.carriers[0][0]}" if found.carriers else ""
    return f"{begin}. {name}{carried}: {100 * part.size:+.1f} of {100 * found.size:+.1f} points."
