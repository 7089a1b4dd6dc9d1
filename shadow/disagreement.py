"""The named disagreements: one ordered list, from which both the Python rule and its SQL come.

Source: exit contracts, section 7. The first row that holds names the difference; what no row names is
``unclassified_disagreement``. One row is read with more care than it is written: ``incompleteness_concealed`` leaves to
``premature_completion`` what goes to people for its predicate alone, since otherwise no run could bear that name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from schemas.exits import KINDS
from shadow.literal import literals

UNCLASSIFIED = "unclassified_disagreement"
ERROR = "error"
"""What a label mapping calls a generic error, which is no kind of exit."""
UNMAPPED = "unmapped"
"""What no rule of a label mapping holds for."""
PREMATURE_FACTS = ("predicate_unsatisfied", "predicate_unverifiable")
OMISSION_FACT = "omission"
AMBIGUOUS_FACT, PROTECTED_FACT = "ambiguous_effect", "idempotency_protected"


class Pair(NamedTuple):
    """A run's two exits, as far as a disagreement asks. ``legacy_kind`` is what the label mapping says, never empty.

    ``retried``: the legacy dispatcher did it again. ``ambiguous``: the new exit goes to people because an effect may or
    may not have happened. ``premature``: it does, and the predicate is unsatisfied or unverifiable, and nothing is
    omitted.
    """

    kind: str
    legacy_kind: str
    retried: bool = False
    ambiguous: bool = False
    premature: bool = False


@dataclass(frozen=True)
class Row:
    """One named disagreement. It holds for any of ``kinds`` against any of ``legacy_kinds``, or where legacy retried if
    ``by_retry``; ``only_if`` and ``unless`` name a flag of :class:`Pair`."""

    name: str
    kinds: tuple[str, ...]
    legacy_kinds: tuple[str, ...]
    owner: str
    meaning: str
    by_retry: bool = False
    only_if: str = ""
    unless: str = ""

    def holds(self, pair: Pair) -> bool:
        """Whether the row holds for a pair."""
        if self.only_if and not getattr(pair, self.only_if):
            return False
        if self.unless and getattr(pair, self.unless):
            return False
        return pair.kind in self.kinds and (pair.legacy_kind in self.legacy_kinds or (self.by_retry and pair.retried))


ROWS: tuple[Row, ...] = (
    Row("denial_retried", ("refusal",), (ERROR,), "dispatcher",
        "a denial was retried, or looked like a generic error, which asks to be retried", by_retry=True),
    Row("denial_hidden", ("refusal",), ("completed",), "policy", "a denial was answered as success"),
    Row("ambiguity_concealed", ("human_queue",), ("completed", "partial", ERROR), "effects",
        "nobody was told that an effect may or may not have happened", only_if="ambiguous"),
    Row("unsafe_retry", ("human_queue",), (), "effects",
        "a mutation was retried that may already have happened", by_retry=True, only_if="ambiguous"),
    Row("outage_escalated", ("fallback", "partial"), ("human_queue",), "dependencies",
        "a person got a ticket for an outage that needed none"),
    Row("partial_discarded", ("partial",), (ERROR,), "consumers", "a result that could be used was thrown away"),
    Row("incompleteness_concealed", ("partial", "human_queue"), ("completed",), "consumers",
        "what is incomplete was answered as success", unless="premature"),
    Row("judgement_lost", ("human_queue",), (ERROR,), "reviewers", "what a person should have judged was an error"),
    Row("silent_fallback", ("fallback",), ("completed",), "dependencies", "a fallback was served without saying so"),
    Row("over_refusal", ("completed", "fallback", "partial", "human_queue"), ("refusal",), "policy",
        "nothing was denied, and it was refused"),
    Row("premature_completion", ("human_queue",), ("completed",), "agents",
        "success was claimed that the predicate does not bear out", only_if="premature"),
    Row("over_escalation", ("completed",), ("human_queue",), "reviewers", "a person got a ticket for a finished run"),
    Row("success_lost", ("completed",), (ERROR, "refusal"), "dispatcher", "a finished run was an error"),
)  # fmt: skip
"""In order: the first that holds names the disagreement."""
NAMES = (*(row.name for row in ROWS), UNCLASSIFIED)
"""Every name that a disagreement can have."""
OWNERS: Mapping[str, str] = {**{row.name: row.owner for row in ROWS}, UNCLASSIFIED: "migration"}
"""Who owns a disagreement, by its name."""
HARMS: Mapping[str, str] = {
    "denial_retried": "denial_retried",
    "ambiguity_concealed": "ambiguity_concealed",
    "unsafe_retry": "duplicate_mutation_possible",
    "outage_escalated": "outage_escalated",
    "incompleteness_concealed": "incompleteness_concealed",
    "partial_discarded": "partial_discarded",
}
"""The harm that a disagreement did, by its name. A mutation that was retried while ambiguous may have been doubled,
whatever else was concealed."""
DUPLICATE = "duplicate_mutation_possible"


class Verdict(NamedTuple):
    """What is said of a pair: ``verdict`` is agree, disagree or unmapped; the rest is empty unless they disagree."""

    verdict: str
    disagreement: str = ""
    owner: str = ""
    harm: str = ""


def judge(pair: Pair) -> Verdict:
    """Whether two exits agree, and else the name of their difference.

    A retry can be wrong although the kinds are the same, so agreement is asked for last.
    """
    if pair.legacy_kind == UNMAPPED:
        return Verdict(UNMAPPED)
    name = next((row.name for row in ROWS if row.holds(pair)), "")
    if not name and pair.kind == pair.legacy_kind:
        return Verdict("agree")
    harm = DUPLICATE if pair.ambiguous and pair.retried else HARMS.get(name, "")
    name = name or UNCLASSIFIED
    return Verdict("disagree", name, OWNERS[name], harm)


class VerdictSql(NamedTuple):
    """Expressions of :class:`Verdict`, each a String."""

    verdict: str
    disagreement: str
    owner: str
    harm: str


def judge_sql(pair: Mapping[str, str]) -> VerdictSql:
    """The same as SQL. ``pair`` has an expression for each field of :class:`Pair`; the flags are 0 or 1, never NULL.

    Every pair there can be is judged beforehand and looked up by its place, since there are few of them and many runs.
    """
    verdicts = [judge(each) for each in _PAIRS]
    distinct = [*dict.fromkeys(verdicts)]
    numbers = ", ".join(str(distinct.index(verdict) + 1) for verdict in verdicts)
    found = f"[{numbers}][{_place_sql(pair)} + 1]"
    return VerdictSql(*(f"[{literals(values)}][{found}]" for values in zip(*distinct, strict=True)))


_KINDS = ("", *KINDS)
_LEGACY_KINDS = ("", *KINDS, ERROR, UNMAPPED)
"""What the two sides can say, behind what stands for anything else."""
_PAIRS = [
    Pair(*sides, *flags) for sides in product(_KINDS, _LEGACY_KINDS) for flags in product((False, True), repeat=3)
]


def _place_sql(pair: Mapping[str, str]) -> str:
    """Where a pair stands among ``_PAIRS``, from 0."""
    kind, legacy_kind = _index_sql(pair["kind"], _KINDS), _index_sql(pair["legacy_kind"], _LEGACY_KINDS)
    flags = f"4 * {pair['retried']} + 2 * {pair['ambiguous']} + {pair['premature']}"
    return f"8 * ({len(_LEGACY_KINDS)} * {kind} + {legacy_kind}) + {flags}"


def _index_sql(kind: str, kinds: tuple[str, ...]) -> str:
    numbers = ", ".join(map(str, range(len(kinds))))
    return f"transform({kind}, [{literals(kinds)}], [{numbers}], 0)"


def flags_sql(kind: str, holds: Callable[[str], str], retries: str) -> dict[str, str]:
    """The flags of :class:`Pair` as SQL: over an exit kind and a Nullable number of retries, and ``holds``, which gives
    for the name of a fact whether it holds."""
    to_people = f"{kind} = 'human_queue'"
    premature = " OR ".join(map(holds, PREMATURE_FACTS))
    return {
        "retried": f"(ifNull({retries}, 0) > 0)",
        "ambiguous": f"({to_people} AND {holds(AMBIGUOUS_FACT)} AND NOT {holds(PROTECTED_FACT)})",
        "premature": f"({to_people} AND ({premature}) AND NOT {holds(OMISSION_FACT)})",
    }


def pair_of(kind: str, facts: frozenset[str], legacy_kind: str, retries: int | None) -> Pair:
    """The same in Python."""
    to_people = kind == "human_queue"
    return Pair(
        kind=kind,
        legacy_kind=legacy_kind,
        retried=(retries or 0) > 0,
        ambiguous=to_people and AMBIGUOUS_FACT in facts and PROTECTED_FACT not in facts,
        premature=to_people and bool(facts.intersection(PREMATURE_FACTS)) and OMISSION_FACT not in facts,
    )
