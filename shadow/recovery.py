"""What operators and reviewers say of a proposed exit: one table, as a rule and as SQL.

They act without knowing what was proposed, which makes them the check that neither dispatcher can influence. Words that
are not in the table, and decisions of a table of one's own, say nothing.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from shadow.literal import literals

SUPPORTS, CONTRADICTS, SILENT = "supports", "contradicts", "silent"
OVERRODE = "overrode_proposal"
"""Stands among what was said where a reviewer went against the agent's proposal."""


class Words(NamedTuple):
    """Actions of operators and decisions of reviewers, by what they say of one exit."""

    support: frozenset[str]
    contradict: frozenset[str]


_LET_THROUGH = {"approved", "overrode", "approve", "allow", "grant_access", "override", "accept_effect", "complete"}
_TURNED_DOWN = {"rejected", "reject", "deny"}
_MENDED = {"compensated", "compensate", "reconciled", "reconcile"}
_DONE_AGAIN = {"retried", "resubmitted", "resubmit"}
_HANDED_ON = {"escalated", "escalate"}
_LEFT_ALONE = {"ignored", "closed", "close"}
_TAKEN_AS_IT_IS = {"approved", "approve", "accept_effect", "complete"}

_RESULT = Words(
    frozenset(_TAKEN_AS_IT_IS | _LEFT_ALONE),
    frozenset({"overrode", "override", OVERRODE} | _TURNED_DOWN | _MENDED | _DONE_AGAIN | _HANDED_ON),
)
"""Of an exit that hands over a result: nobody had to touch it, or somebody had to."""
WORDS: Mapping[str, Words] = {
    "completed": _RESULT,
    "fallback": _RESULT,
    "partial": _RESULT,
    "refusal": Words(frozenset({"compensated", "compensate"} | _TURNED_DOWN), frozenset(_LET_THROUGH)),
    "human_queue": Words(
        frozenset(
            _LET_THROUGH | _TURNED_DOWN | _MENDED | _HANDED_ON
            | {OVERRODE, "resubmitted", "resubmit", "retry_policy", "register_fallback", "resume"}
        ),
        frozenset({"ignored"}),
    ),
}  # fmt: skip
"""By proposed exit kind. A closed ticket says nothing of the human queue, since it is closed after every decision."""


def recovery(kind: str, said: Iterable[str]) -> str:
    """What is said of ``kind``: one contradiction outweighs any support, so that none is hidden."""
    words = WORDS.get(kind)
    heard = set(said)
    if words is None:
        return SILENT
    if heard & words.contradict:
        return CONTRADICTS
    return SUPPORTS if heard & words.support else SILENT


def recovery_sql(kind: str, actions: str, decisions: str, overrode: str) -> str:
    """The same as SQL, a String: expressions of a kind, two Array(String), and whether a reviewer went against the
    agent's proposal."""
    said = f"arrayConcat({actions}, {decisions}, if({overrode}, ['{OVERRODE}'], []))"
    against = _any(kind, said, {kind_: words.contradict for kind_, words in WORDS.items()})
    in_favour = _any(kind, said, {kind_: words.support for kind_, words in WORDS.items()})
    return f"multiIf({against}, '{CONTRADICTS}', {in_favour}, '{SUPPORTS}', '{SILENT}')"


def _any(kind: str, said: str, words: Mapping[str, frozenset[str]]) -> str:
    kinds_of: dict[frozenset[str], list[str]] = {}
    for kind_, each in words.items():
        kinds_of.setdefault(each, []).append(kind_)
    tests = (
        f"({kind} IN ({literals(kinds)}) AND hasAny({said}, [{literals(sorted(each))}]))"
        for each, kinds in kinds_of.items()
    )
    return f"({' OR '.join(tests)})"
