"""What ``shadow readiness`` finds in a store, and how it is shown."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from offramp import accepting, console
from offramp.config import ShadowSettings
from offramp.page import Page
from shadow.accepted import Accepted, Standing, Verdict
from shadow.calibration import span
from shadow.readiness import (
    PRECONDITIONS,
    Answer,
    CodeAnswer,
    Counts,
    Finding,
    Noise,
    Seen,
    StageAnswer,
    Tables,
    Thresholds,
    readiness,
)
from shadow.scope import MOMENT, Scope
from shadow.statistics import Interval
from shadow.wording import NOTHING, between, percent
from sinks.store import Store

# Of runs without an event there is neither stage nor table, so they are a group of their own.
_COUNTS = """
    SELECT
        toString(kind) AS stage,
        toString(reason_code) AS reason_code,
        countIf(pairing != 'event_missing') AS runs,
        countIf(pairing = 'legacy_missing' AND {moment} > {{patient_since:Int64}}) AS waiting,
        countIf(pairing = 'event_missing' AND {moment} <= {{patient_since:Int64}}) AS event_missing,
        countIf(pairing = 'paired' AND verdict = 'unmapped') AS unmapped,
        countIf(verdict = 'agree') AS agree,
        countIf(verdict = 'disagree') AS disagree,
        countIf(verdict = 'disagree' AND recovery = 'supports') AS supported,
        countIf(verdict = 'disagree' AND recovery != 'supports' AND ({accepted})) AS accepted,
        countIf(recovery = 'supports') AS supports,
        countIf(recovery = 'contradicts') AS contradicts,
        countIf(has(prohibited, kind)) AS prohibited_exits,
        countIf(notEmpty(evidence_gaps)) AS gaps,
        groupUniqArrayIf((toString(table_digest), toString(classifier_version)), pairing != 'event_missing') AS tables
    FROM v_comparison
    WHERE {condition}
    GROUP BY stage, reason_code
"""
# One pair of runs per request, the first two, so that pairs say nothing of each other. Only under one version of the
# dispatcher is it legacy against itself.
_NOISE = """
    SELECT
        sum(runs) AS looked_at,
        countIf(runs > 1) AS requests,
        countIf(runs > 1 AND twins[1].3 != twins[2].3) AS differ
    FROM
    (
        SELECT
            count() AS runs,
            groupArraySorted(2)((ended, event_id, legacy_kind)) AS twins
        FROM
        (
            SELECT
                tenant, event_id, {moment} AS ended, toString(legacy_kind) AS legacy_kind,
                ifNull(dispatcher, '') AS who, ifNull(dispatcher_version, '') AS edition
            FROM v_comparison
            WHERE {condition}
                AND verdict IN ('agree', 'disagree')
                AND cityHash64(tenant, event_id) <= {{span:UInt64}}
        ) AS judged
        INNER JOIN
        (
            SELECT
                tenant, event_id,
                argMax(JSONExtractString(event, 'request', 'request_ref'), ingested_at) AS request_ref
            FROM terminal_events
            WHERE identity <= {{span:UInt64}}
            GROUP BY tenant, event_id
        ) AS requested USING (tenant, event_id)
        GROUP BY tenant, who, edition, if(request_ref = '', event_id, request_ref), request_ref = ''
    )
"""
_DIGITS = 6
"""Decimal places of a bound: more would tell machines apart."""


class Question(NamedTuple):
    """What is asked: of which runs, as the options say it too, with what thresholds, for which stages."""

    scope: Scope
    options: Mapping[str, str | None]
    thresholds: Thresholds
    stages: Sequence[str]
    left_out: Sequence[str]


@dataclass(frozen=True)
class Readiness:
    """The answers, and everything that they rest on. ``asked_at`` is in microseconds."""

    question: Question
    asked_at: int
    mapping: Mapping[str, str]
    declared: tuple[str, ...]
    accepted: tuple[Verdict, ...]
    seen: Seen
    answers: tuple[StageAnswer, ...]

    @property
    def asked(self) -> tuple[StageAnswer, ...]:
        """The answers for the stages that were asked about."""
        return tuple(each for each in self.answers if each.stage in self.question.stages)

    @property
    def is_ready(self) -> bool:
        """Whether each of these stages is ready."""
        return all(each.answer is Answer.READY for each in self.asked)

    @property
    def unknown_codes(self) -> list[str]:
        """Reason codes that were to be left out, and that no run has."""
        there = {counts.reason_code for stage in self.answers for counts in stage.left_out}
        return [code for code in self.question.left_out if code not in there]


def found(
    store: Store, mapping: Mapping[str, str], entries: Sequence[Accepted], settings: ShadowSettings,
    question: Question, now: int,
) -> Readiness:  # fmt: skip
    """Judge what is settled in the store, ``now`` in microseconds. ``entries`` are the accepted differences."""
    accepted = accepting.judged_in(store, entries, question.scope, now)
    rows = _rows(store, question.scope, accepted, now - round(settings.patience_s * 1_000_000))
    seen = _seen(rows, _noise(store, question.scope))
    counts = [Counts(**{name: row[name] for name in Counts._fields}) for row in rows]
    declared = tuple(name for names in PRECONDITIONS.values() for name in names if getattr(settings, name))
    answers = readiness(counts, seen, declared, question.thresholds, question.left_out)
    return Readiness(question, now, mapping, declared, accepted, seen, answers)


def _rows(store: Store, scope: Scope, accepted: Sequence[Verdict], patient_since: int) -> list[dict[str, Any]]:
    sql = _COUNTS.format(moment=MOMENT, condition=scope.condition, accepted=Standing.of(accepted).sql)
    return store.select(sql, {**scope.parameters, "patient_since": patient_since})


def _seen(rows: Sequence[Mapping[str, Any]], noise: Noise) -> Seen:
    tables = {Tables(*table.values()) for row in rows for table in row["tables"]}
    return Seen(
        events=sum(row["runs"] for row in rows),
        event_missing=sum(row["event_missing"] for row in rows),
        prohibited_exits=sum(row["prohibited_exits"] for row in rows),
        tables=tuple(sorted(tables)),
        noise=noise,
    )


def _noise(store: Store, scope: Scope) -> Noise:
    sql = _NOISE.format(moment=MOMENT, condition=scope.condition)
    (row,) = store.select(sql, {**scope.parameters, "span": span(store.select)})
    return Noise(**row)


# --- for programs


def as_json(answer: Readiness) -> dict[str, Any]:
    """Everything, in plain JSON values; the digest is over all but itself and the time of asking."""
    content = _content(answer)
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
    return {"digest": f"sha256:{digest}", "asked_at": answer.asked_at, **content}


def _content(answer: Readiness) -> dict[str, Any]:
    question, seen = answer.question, answer.seen
    return {
        "ready": answer.is_ready,
        "stages": [_stage_as_json(each) for each in answer.asked],
        "scope": dict(question.options),
        "thresholds": asdict(question.thresholds),
        "left_out": sorted(question.left_out),
        "declared": list(answer.declared),
        "mapping": dict(answer.mapping),
        "tables": [table._asdict() for table in seen.tables],
        "seen": {"events": seen.events, "event_missing": seen.event_missing, "prohibited_exits": seen.prohibited_exits},
        "noise": _noise_as_json(seen.noise),
        "accepted": [{"accepts": each.entry.text, "ticket": each.entry.ticket, "state": each.state.value,
                      **each.count._asdict()} for each in answer.accepted],
    }  # fmt: skip


def _stage_as_json(stage: StageAnswer) -> dict[str, Any]:
    return {
        "stage": stage.stage,
        "answer": stage.answer.value,
        "more_runs": stage.more_runs,
        "reasons": _reasons(stage.findings),
        "reason_codes": [_code_as_json(code) for code in stage.codes],
        "left_out": [counts._asdict() for counts in stage.left_out],
    }


def _code_as_json(code: CodeAnswer) -> dict[str, Any]:
    counts = {name: value for name, value in code.counts._asdict().items() if name != "stage"}
    return {
        **counts,
        "answer": code.answer.value,
        "more_runs": code.more_runs,
        "reasons": _reasons(code.findings),
        "unexplained": {"cases": code.counts.unexplained, "of": code.counts.judged, **_interval(code.unexplained)},
        "contradictions": {"cases": code.counts.contradicts, "of": code.counts.answered,
                           **_interval(code.contradictions)},
    }  # fmt: skip


def _reasons(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    return [{"reason": each.reason.value, "text": each.text, "more_runs": each.more} for each in findings]


def _interval(bounds: Interval) -> dict[str, float]:
    return {"low": round(bounds.low, _DIGITS), "high": round(bounds.high, _DIGITS)}


def _noise_as_json(noise: Noise) -> dict[str, Any]:
    known = _interval(noise.interval) if noise.requests else {"low": None, "high": None}
    return {**noise._asdict(), **known}


# --- for people


def show(answer: Readiness) -> None:
    """Print the answers, each with what it rests on."""
    page = Page()
    _show_ground(page, answer)
    for stage in answer.asked:
        page.heading(f"{stage.stage}: {_said(stage.answer, stage.more_runs)}")
        for finding in stage.findings:
            page.line(finding.text)
        _show_codes(page, stage)


def _show_ground(page: Page, answer: Readiness) -> None:
    seen, asked = answer.seen, answer.question.thresholds
    page.line(f"Readiness of {console.counted(seen.events, 'run')}", 0)
    page.line(
        f"asked for: {asked.minimum_runs:,} runs of each reason code, {percent(asked.coverage_floor)} compared, fewer "
        f"than {percent(1 - asked.agreement_floor)} of pairs unexplained, fewer than "
        f"{percent(asked.contradiction_limit)} of operators' answers against; wrong with probability "
        f"{percent(asked.alpha)} at most, however often it is asked"
    )
    page.line(f"declared: {', '.join(answer.declared) or 'nothing'}")
    page.line(f"noise floor: {_noise_text(seen.noise, asked)}")
    lapsed = sum(not each.stands for each in answer.accepted)
    if answer.accepted:
        page.line(f"accepted differences: {len(answer.accepted):,}, of which {lapsed:,} count no more")


def _noise_text(noise: Noise, asked: Thresholds) -> str:
    if not noise.requests:
        return f"unknown: among {console.counted(noise.looked_at, 'run')} no request was run twice"
    text = (
        f"of {console.counted(noise.requests, 'request')} that were run twice legacy gave {noise.differ:,} two kinds "
        f"of exit ({between(*noise.interval)})"
    )
    if noise.interval.low > 1 - asked.agreement_floor:
        return f"{text}, which is more than may be unexplained: agreement with it says little here"
    return text


def _said(answer: Answer, more: int | None) -> str:
    if answer is not Answer.NEEDS_RUNS:
        return answer.value
    return f"needs about {console.counted(more or 0, 'more run')}"


def _show_codes(page: Page, stage: StageAnswer) -> None:
    columns = [("reason code", "left"), ("runs", "right"), ("pairs", "right"), ("agree", "right"),
               ("unexplained", "right"), ("against", "right"), ("answer", "left")]  # fmt: skip
    if stage.codes:
        console.table("", columns, [_row(code) for code in stage.codes])
    for code in stage.codes:
        for finding in code.findings:
            page.line(f"{code.counts.reason_code}: {finding.text}")
    for counts in stage.left_out:
        page.line(f"{counts.reason_code}: left out, {console.counted(counts.runs, 'run')}")


def _row(code: CodeAnswer) -> tuple[Any, ...]:
    counts = code.counts
    return (
        counts.reason_code,
        counts.runs,
        counts.judged,
        counts.agree,
        _rate(counts.unexplained, counts.judged, code.unexplained),
        _rate(counts.contradicts, counts.answered, code.contradictions),
        code.answer.value if code.more_runs is None else f"{code.more_runs:,} more",
    )


def _rate(cases: int, of: int, bounds: Interval) -> str:
    """How many of how many, and the bound that is held against the limit."""
    return f"{cases:,}/{of:,} ≤{percent(bounds.high).lstrip('<')}" if of else NOTHING
