"""``offramp shadow readiness`` through the command, over stores whose counts are known by hand."""

import hashlib
import json
from datetime import UTC, datetime, timedelta

import pytest

from classifier.table import default_text
from tests.cases import load_cases
from tests.offramp.kit import ask, companion, new_directory, run, write_lines

STARTED = datetime(2026, 11, 1, tzinfo=UTC)
HONEST = """
[shadow]
partial_consumers_handle_completeness = true
packet_exercised = true
override_exercised = true
"""
REFUSAL = {
    "policy_decisions": [
        {"decision_id": "d", "policy_id": "p", "policy_version": "1", "source": "application", "effect": "deny",
         "reason_code": "amount_ceiling", "decided_at": "2026-10-31T00:00:00Z"}
    ],
}  # fmt: skip
DONE = {"model": {"stop_class": "end"}, "completion": {"claimed": True, "result": "satisfied"}}


def event(number, tenant="acme", request_ref=None, **evidence):
    return {
        "type": "terminal_event", "version": 1, "event_id": f"e-{number}", "run_id": f"r-{number}", "tenant": tenant,
        "agent_id": "refund-agent", "workflow": "refunds",
        "occurred_at": (STARTED + timedelta(minutes=number)).isoformat(), "request": {"request_ref": request_ref},
        **evidence,
    }  # fmt: skip


def legacy(number, status=403, **fields):
    return companion("legacy_exit", number, event_id=f"e-{number}", dispatcher="legacy", http_status=status, **fields)


def action(number, what, **fields):
    return companion("recovery_action", number, event_id=f"e-{number}", action=what, **fields)


def refusals(numbers, **fields):
    return [event(number, **REFUSAL, **fields) for number in numbers]


def stored(events, companions=(), config=""):
    """A directory with a configuration and a store."""
    directory = new_directory()
    (directory / "offramp.toml").write_text(f'[store]\npath = "{directory / "store"}"\n{config}', encoding="utf-8")
    for verb, records in (("classify", events), ("load", companions)):
        if records:
            done = run(verb, write_lines(directory / verb, records), "--config", directory / "offramp.toml")
            assert done.status == 0, done.err
    return directory


def readiness(directory, *argv):
    done = run("shadow", "readiness", "--format", "json", "--config", directory / "offramp.toml", *argv)
    assert done.status in (0, 1), done.err
    return done.status, json.loads(done.out)


def stage(found, name):
    return next(each for each in found["stages"] if each["stage"] == name)


def reasons(part):
    return [each["reason"] for each in part["reasons"]]


@pytest.fixture(scope="module")
def refused():
    """120 refusals that legacy refused too; operators turned 80 of them down again."""
    numbers = range(120)
    said = [legacy(n) for n in numbers] + [action(n, "rejected") for n in range(80)]
    return stored(refusals(numbers), said)


def test_a_stage_that_is_ready_ends_with_zero(refused):
    status, found = readiness(refused, "--stage", "refusal")
    assert (status, found["ready"]) == (0, True)
    [refusal] = found["stages"]
    assert (refusal["answer"], refusal["reasons"], refusal["more_runs"]) == ("ready", [], None)
    [code] = refusal["reason_codes"]
    counted = {name: code[name] for name in ("reason_code", "runs", "waiting", "agree", "disagree", "supports",
                                             "contradicts", "unmapped", "prohibited_exits")}  # fmt: skip
    assert counted == {"reason_code": "amount_ceiling", "runs": 120, "waiting": 0, "agree": 120, "disagree": 0,
                       "supports": 80, "contradicts": 0, "unmapped": 0, "prohibited_exits": 0}  # fmt: skip
    assert code["contradictions"]["low"] == 0
    assert 0 < code["contradictions"]["high"] < 0.05
    assert found["noise"] == {"looked_at": 120, "requests": 0, "differ": 0, "low": None, "high": None}
    assert found["seen"] == {"events": 120, "event_missing": 0, "prohibited_exits": 0}


def test_every_stage_has_to_be_ready(refused):
    status, found = readiness(refused)
    assert (status, found["ready"]) == (1, False)
    assert [(each["stage"], each["answer"], each["more_runs"]) for each in found["stages"]] == [
        ("refusal", "ready", None), ("fallback", "needs more runs", 100), ("partial", "not ready", None),
        ("human_queue", "not ready", None),
    ]  # fmt: skip
    assert reasons(stage(found, "partial")) == ["precondition_not_declared", "no_runs"]
    assert reasons(stage(found, "human_queue")) == ["precondition_not_declared", "precondition_not_declared", "no_runs"]


def test_what_is_declared_is_asked_of_the_settings(refused):
    (refused / "declared.toml").write_text((refused / "offramp.toml").read_text("utf-8") + HONEST, "utf-8")
    done = run("shadow", "readiness", "--format", "json", "--config", refused / "declared.toml")
    found = json.loads(done.out)
    assert [each["answer"] for each in found["stages"]] == ["ready", *["needs more runs"] * 3]
    assert len(found["declared"]) == 3


def test_the_digest_is_over_the_content_and_not_over_the_time(refused):
    first, again = readiness(refused)[1], readiness(refused)[1]
    assert first["digest"] == again["digest"]
    assert first["asked_at"] < again["asked_at"]
    content = {name: value for name, value in first.items() if name not in ("digest", "asked_at")}
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    assert first["digest"] == f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    assert readiness(refused, "--alpha", "0.04")[1]["digest"] != first["digest"]


def test_thresholds_are_those_that_are_given(refused):
    _, found = readiness(refused, "--stage", "refusal", "--minimum-runs", "130")
    assert (stage(found, "refusal")["more_runs"], found["thresholds"]["minimum_runs"]) == (10, 130)
    _, found = readiness(refused, "--stage", "refusal", "--contradiction-limit", "0.01")
    [code] = stage(found, "refusal")["reason_codes"]
    # 446 answers without a contradiction are the fewest; two runs in three have one, so 366 * 120 / 80.
    assert (reasons(code), code["more_runs"]) == (["contradictions_unsettled"], 549)


@pytest.mark.parametrize(
    ("option", "value"),
    [("--minimum-runs", "0"), ("--agreement-floor", "1"), ("--alpha", "nan"), ("--coverage-floor", "2")],
)
def test_thresholds_that_make_no_sense(refused, option, value):
    done = run("shadow", "readiness", option, value, "--config", refused / "offramp.toml")
    assert done.status == 2
    assert option.removeprefix("--").replace("-", "_") in done.err


@pytest.mark.parametrize(
    ("options", "events"),
    [
        (("--since", "2026-11-01T01:00:00Z"), 60),
        (("--until", "2026-11-01T01:00:00Z"), 60),
        (("--tenant", "acme"), 120),
        (("--tenant", "other'; --"), 0),
        (("--agent", "refund-agent", "--workflow", "refunds"), 120),
        (("--agent", "ä\"'"), 0),
    ],
)
def test_which_runs_are_judged(refused, options, events):
    status, found = readiness(refused, "--stage", "refusal", *options)
    assert found["seen"]["events"] == events
    assert found["scope"][options[0].removeprefix("--")] == options[1]
    assert status == (0 if events == 120 else 1)


def test_people_read_the_same(refused):
    done = run("shadow", "readiness", "--config", refused / "offramp.toml")
    assert done.status == 1
    for line in (
        "Readiness of 120 runs",
        "declared: nothing",
        "noise floor: unknown: among 120 runs no request was",
        "refusal: ready",
        "fallback: needs about 100 more runs",
        "partial: not ready",
        "no run was seen",
    ):
        assert line in done.text
    assert "amount_ceiling" in done.text


def test_one_of_everything():
    """Ten refusals, each with something of its own; counted by hand."""
    long_ago, lately = range(8), datetime.now(UTC) - timedelta(hours=1)
    late = refusals([8])[0] | {"occurred_at": lately.isoformat()}
    directory = stored(
        [*refusals(long_ago), late, event(9, **DONE)],
        [
            legacy(0),  # agrees, and an operator let it through: a contradiction
            action(0, "approved"),
            legacy(1, 500),  # disagrees, and an operator turned it down: supported
            action(1, "rejected"),
            legacy(2, 500),  # disagrees, accepted below
            legacy(3, 200),  # disagrees, unexplained
            legacy(4, None, label="ö <b>"),  # unmapped
            # 5: no legacy exit, overdue; 8: none, may still come
            legacy(6), legacy(7),
            legacy(9, 200),  # completed, of no stage
            companion("legacy_exit", "x", event_id="e-never", dispatcher="legacy", http_status=200,
                      decided_at="2026-11-01T00:00:00Z"),
            companion("legacy_exit", "y", event_id="e-soon", dispatcher="legacy", http_status=200,
                      decided_at=lately.isoformat()),
        ],
    )  # fmt: skip
    accepted = directory / "accepted.toml"
    accepted.write_text(
        '[[accepted]]\ndisagreement = "denial_retried"\nlegacy_label = "again"\nowner = "o"\nreason = "r"\n'
        'ticket = "t"\nexpires = 2199-01-01\nceiling = 1.0\n', "utf-8",
    )  # fmt: skip
    config = directory / "offramp.toml"
    config.write_text(config.read_text("utf-8") + f'[shadow]\naccepted = "{accepted}"\n', "utf-8")
    _, found = readiness(directory)
    [code] = stage(found, "refusal")["reason_codes"]
    names = ("runs", "waiting", "unmapped", "agree", "disagree", "supported", "accepted", "supports", "contradicts")
    assert {name: code[name] for name in names} == {
        "runs": 9, "waiting": 1, "unmapped": 1, "agree": 3, "disagree": 3, "supported": 1, "accepted": 0, "supports": 1,
        "contradicts": 1,
    }  # fmt: skip
    assert found["seen"] == {"events": 10, "event_missing": 1, "prohibited_exits": 0}
    assert (code["unexplained"]["cases"], code["unexplained"]["of"]) == (2, 6)
    assert reasons(code) == ["too_few_runs", "coverage_below_floor", "agreement_not_above_floor",
                             "contradictions_not_below_limit"]  # fmt: skip
    # An accepted difference explains it, as long as it stands.
    text = accepted.read_text("utf-8")
    accepted.write_text(text.replace('legacy_label = "again"\n', ""), "utf-8")
    _, found = readiness(directory)
    [code] = stage(found, "refusal")["reason_codes"]
    assert (code["supported"], code["accepted"], code["unexplained"]["cases"]) == (1, 1, 1)
    accepted.write_text(text.replace('legacy_label = "again"\n', "").replace("2199", "2020"), "utf-8")
    _, found = readiness(directory)
    assert stage(found, "refusal")["reason_codes"][0]["accepted"] == 0
    assert found["accepted"][0]["state"] == "expired"


def test_counts_are_those_of_the_view():
    """All labelled events with a legacy exit each, against ``v_readiness``, which is not what is asked."""
    events = [case.json for case in load_cases()]
    said = []
    for number, each in enumerate(events):
        whose = {"event_id": each["event_id"], "tenant": each["tenant"]}
        status, act = (200, 403, 500, 999)[number % 4], ("approved", "rejected", "closed")[number % 3]
        said += [
            companion("legacy_exit", number, dispatcher="legacy", http_status=status, **whose),
            companion("recovery_action", number, action=act, **whose),
        ]
    directory = stored(events, said)
    _, found = readiness(directory)
    rows = [{"stage": each["stage"], **code} for each in found["stages"] for code in each["reason_codes"]]
    names = ("stage", "reason_code", "runs", "agree", "disagree", "unmapped", "supports", "contradicts",
             "prohibited_exits", "gaps")  # fmt: skip
    expected = ask(directory / "store", f"SELECT {', '.join(names)} FROM v_readiness")  # noqa: S608
    assert len(expected) > 20

    def in_order(given):
        return sorted(given, key=lambda row: (row["stage"], row["reason_code"]))

    assert in_order({name: row[name] for name in names} for row in rows) == in_order(expected)


def test_what_is_left_out_is_shown_and_has_no_say(refused):
    status, found = readiness(refused, "--stage", "refusal", "--without", "amount_ceiling")
    assert (status, reasons(stage(found, "refusal"))) == (1, ["no_runs"])
    assert [each["runs"] for each in stage(found, "refusal")["left_out"]] == [120]
    done = run("shadow", "readiness", "--without", "nonesuch", "--config", refused / "offramp.toml")
    assert "--without nonesuch: no run has this reason code" in done.err


def test_legacy_against_itself_by_requests_that_ran_twice():
    """Pairs count once per request and tenant; a third run, an unknown request and another dispatcher do not."""
    events = [
        *refusals((0, 1, 2), request_ref="a"),  # the first two agree, the third would not
        *refusals((3, 4), request_ref="b"),  # differ
        *refusals((5,), request_ref="c"), *refusals((6,), request_ref="c", tenant="umlaut ä"),
        *refusals((7, 8)),  # no request is known
        *refusals((9, 10), request_ref="d"),  # by two versions of the dispatcher
        *refusals((11, 12), request_ref="e"),  # the second is unmapped
    ]  # fmt: skip
    statuses = {2: 200, 4: 500, 8: 200, 10: 200, 12: 999}
    tenants = {6: "umlaut ä"}
    said = []
    for number, each in enumerate(events):
        whose = {"event_id": each["event_id"], "tenant": each["tenant"]}
        said += [
            companion(
                "legacy_exit", number, dispatcher="legacy", http_status=(200, 403, 500, 999)[number % 4], **whose
            ),
            companion("recovery_action", number, action=("approved", "rejected", "closed")[number % 3], **whose),
        ]
    said = [
        legacy(n, statuses.get(n, 403), tenant=tenants.get(n, "acme"), dispatcher_version="2" if n == 10 else "1")
        for n in range(13)
    ]
    _, found = readiness(stored(events, said))
    noise = found["noise"]
    assert (noise["looked_at"], noise["requests"], noise["differ"]) == (12, 2, 1)
    assert 0 < noise["low"] < 0.5 < noise["high"] < 1


def test_several_tables_hold_everything_up(refused):
    directory = stored(
        refusals(range(120)), [legacy(n) for n in range(120)] + [action(n, "rejected") for n in range(80)]
    )
    mine = directory / "mine.toml"
    mine.write_text(default_text().replace('id = "default"', 'id = "mine"', 1), "utf-8")
    more = write_lines(directory / "more", refusals([500]))
    assert run("classify", more, "--table", mine, "--config", directory / "offramp.toml").status == 0
    status, found = readiness(directory, "--stage", "refusal")
    assert (status, reasons(stage(found, "refusal"))) == (1, ["several_tables"])
    assert len(found["tables"]) == 2


def test_a_store_without_runs_and_no_store(tmp_path):
    done = run("shadow", "readiness", "--store", tmp_path / "none")
    assert done.status == 3
    assert "there is no store" in done.err
    directory = stored([], [legacy(1)])
    status, found = readiness(directory)
    assert (status, found["seen"]["events"]) == (1, 0)
    assert {each["answer"] for each in found["stages"]} == {"needs more runs", "not ready"}
