"""The runs that a report asks about, one by one or counted where they are alike in all that is asked of them.

There are millions of runs and some thousands of ways in which they differ. So what takes long, above all what a table
makes of them, is found out for each of the ways and not for each run.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Self

from shadow.candidate import OF_KIND, Candidate
from shadow.scope import Scope, Select

_TEXTS = (
    "tenant", "agent_id", "workflow", "table_digest", "classifier_version", "pairing", "kind", "rule_id", "reason_code",
    "legacy_kind", "legacy_label", "verdict", "disagreement", "owner", "harm", "recovery",
)  # fmt: skip
# Of numbers only whether there are any.
_FLAGS = {
    "verified": "run.verified",
    "ambiguous": "run.ambiguous",
    "reversed": "run.reversed",
    "overrode": "run.overrode",
    "obligations": "run.obligations > 0",
    "legacy_retries": "ifNull(run.legacy_retries, 0) > 0",
}
_OF_FACTS = ("facts", "prohibited")
"""What follows from the bits of the facts and the version of the classifier, which are told apart in its place."""
_SAID = ("actions", "decisions")
_MOST_CHANGED = 4_000
"""Sets of facts that a statement names at most: the engine reads no statement of more than 256 KB."""
_ALIKE = """(
    SELECT {columns}
    FROM {rows} AS run
    GROUP BY {keys}
)"""


@dataclass(frozen=True)
class Runs:
    """The runs of a scope, as they are stored or as a table that does not decide yet would have them.

    Where ``all_replayable`` says so, none has facts that the candidate could not be asked about. ``changed`` has the
    bits of the facts for which the candidate has another kind of exit; None where that is not known.
    """

    scope: Scope
    candidate: Candidate | None = None
    all_replayable: bool = False
    changed: frozenset[int] | None = None

    def compared(self, select: Select) -> Self:
        """The same, with what the candidate changes, so that it need not be asked of what it leaves alone."""
        if self.candidate is None:
            return self
        there = {"kind", *self.candidate.needed({"kind"})}
        groups = self.candidate.judged(_alike(self.stored, there, {}, {}), {"kind"}, there)
        sql = f"SELECT groupUniqArray(fact_bits) AS bits FROM {groups} WHERE kind != decided_kind"  # noqa: S608 -- ours
        bits = select(sql, self.scope.parameters)[0]["bits"]
        return self if len(bits) > _MOST_CHANGED else replace(self, changed=frozenset(bits))

    @property
    def stored(self) -> str:
        """SQL of the runs with the columns of ``v_comparison``, as they are stored."""
        return self._stored("1")

    def each(self, columns: Collection[str], condition: str = "1") -> str:
        """SQL of the runs one by one, of which ``columns`` may be asked besides what no table changes. ``condition`` is
        SQL over what is stored."""
        rows, changed = self._stored(condition), self._changed(columns)
        return self.candidate.judged(rows, changed) if self.candidate is not None and changed else rows

    def alike(self, columns: Collection[str], values: Mapping[str, str], keys: Mapping[str, str] | None = None) -> str:
        """SQL of groups of runs that are alike in ``columns``, which it has together with ``values`` and ``keys``.

        Of ``obligations`` and ``legacy_retries`` a group has 1 where its runs have any, else 0. ``values`` are
        aggregates, ``keys`` what is told apart besides; both by name, over the columns of ``run``.
        """
        changed = self._changed(columns)
        if self.candidate is None or not changed:
            return _alike(self.stored, columns, values, keys or {})
        needed = {*columns} - changed | self.candidate.needed(changed)
        groups = _alike(self.stored, needed, values, keys or {}, self.changed)
        return self.candidate.judged(groups, changed, needed)

    def _changed(self, columns: Collection[str]) -> set[str]:
        """Those of the columns in which the candidate may differ from what is stored."""
        if self.candidate is None:
            return set()
        kept = OF_KIND if self.changed is not None and not self.changed else frozenset[str]()
        return {*columns} & self.candidate.may_change - kept

    def _stored(self, condition: str) -> str:
        parts = [self.scope.condition, condition]
        if self.candidate is not None and not self.all_replayable:
            parts.append(self.candidate.replayable)
        return f"(SELECT * FROM v_comparison WHERE {' AND '.join(parts)})"  # noqa: S608 -- constants and parameters


def _alike(
    rows: str,
    columns: Collection[str],
    values: Mapping[str, str],
    keys: Mapping[str, str],
    changed: frozenset[int] | None = None,
) -> str:
    """Texts are told apart by the sum of their hashes, since the engine hashes a code once for all runs that have it,
    and takes long over keys that are texts. Each hash counts a power of three times: of those, no sum is another's, so
    that the same names in other places are another sum."""
    texts, flags = _texts(columns), [name for name in _FLAGS if name in columns]
    bits = " + ".join(f"{1 << place} * ({_FLAGS[name]})" for place, name in enumerate(flags))
    hashes = " + ".join(f"{3**place} * ifNull(cityHash64(run.{name}), 0)" for place, name in enumerate(texts))
    said = [name for name in _SAID if name in columns]
    told_apart = {**keys, "flag_bits": f"toUInt64({bits or 0})", "text_hash": f"toUInt64({hashes or 0})"}
    if said:
        told_apart["said_hash"] = _said_hash(said, changed)
    if "fact_bits" in columns or _has_facts(columns):
        told_apart["fact_bits"] = "run.fact_bits"
    shown = {
        **told_apart,
        **{name: f"any(run.{name})" for name in (*texts, *said, *(name for name in _OF_FACTS if name in columns))},
        **{name: f"toUInt8(bitTest(flag_bits, {place}))" for place, name in enumerate(flags)},
        **values,
    }
    listed = ", ".join(f"{sql} AS {name}" for name, sql in shown.items())
    return _ALIKE.format(columns=listed, rows=rows, keys=", ".join(told_apart))


def _texts(columns: Collection[str]) -> list[str]:
    return [name for name in _TEXTS if name in columns or (name == "classifier_version" and _has_facts(columns))]


def _has_facts(columns: Collection[str]) -> bool:
    return any(name in columns for name in _OF_FACTS)


def _said_hash(said: Iterable[str], changed: frozenset[int] | None) -> str:
    """Of most runs nobody said anything, and what was said is asked again only where the kind of exit is another."""
    arrays = [f"run.{name}" for name in said]
    nothing = " AND ".join(f"empty({array})" for array in arrays)
    if changed is not None:
        nothing = f"run.fact_bits NOT IN ({', '.join(map(str, sorted(changed)))}) OR ({nothing})"
    return f"if({nothing}, 0, cityHash64({', '.join(arrays)}))"
