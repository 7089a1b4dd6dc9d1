"""The rule file: what it may say, and how it is told what is wrong with it."""

import tomllib

import pytest

from alerts.model import Baseline, Condition, Scope, Series, Severity
from alerts.rules import NEEDS, default_text, load
from alerts.toml_file import FileError

HEAD = 'id = "mine"\nversion = "1"\n'
SHARE = """
[[rules]]
id = "refusal_rate"
condition = "share"
series = "refusal"
over = "exits"
by = ["agent_id", "tenant"]
window = { minutes = 5, runs = 20, limit_minutes = 720 }
threshold = 0.2
baseline = { minutes = 10080, factor = 2, minimum = 200 }
minimum = 8
confidence = 0.999
severity = "page"
owner = "policy"
runbook = "docs/runbooks/refusal_rate.md"
summary = "More runs than usual end in a refusal."
"""
COMMON = 'severity = "page"\nowner = "o"\nrunbook = "r"\nsummary = "s"\n'
CONDITIONS = "'share', 'share_below', 'surge', 'count', 'age', 'past_deadline', 'absence', 'gauge' or 'unknown'"
TOGETHER = "how many runs, and how far back at most"
OF_SURGE = 'series = "refusal"\nover = "exits"\nwindow = { minutes = 5 }\n'
PAST = "baseline = { minutes = 600, factor = 2, minimum = 20 }\n"
APART = "cannot be held against series of runs"


def problems(text):
    with pytest.raises(FileError) as raised:
        load(text)
    return raised.value.problems


def changed(old, new):
    assert old in SHARE
    return problems(HEAD + SHARE.replace(old, new))


def test_a_rule_is_read_as_it_is_written():
    more = 'where = { tenant = "acme" }\nunless = [{ agent_id = "old" }]\nlabels = { team = "a", area = "b" }\n'
    (rule,) = load(HEAD + SHARE + more + "for_minutes = 1\nkeep_firing_minutes = 10\n").rules
    assert (rule.id, rule.condition, rule.severity) == ("refusal_rate", Condition.SHARE, Severity.PAGE)
    assert (rule.series, rule.over, rule.by) == (Series.REFUSAL, Series.EXITS, ("tenant", "agent_id"))
    assert (rule.window_minutes, rule.window_runs, rule.window_limit_minutes) == (5, 20, 720)
    assert (rule.threshold, rule.minimum, rule.confidence) == (0.2, 8, 0.999)
    assert rule.baseline == Baseline(10080, 2.0, 200)
    assert (rule.where, rule.unless) == (Scope("acme"), (Scope(agent_id="old"),))
    assert (rule.for_minutes, rule.keep_firing_minutes) == (1, 10)
    assert rule.labels == (("area", "b"), ("team", "a"))


def test_the_digest_covers_what_is_said_and_not_how():
    other = SHARE.replace("threshold = 0.2", "threshold = 0.20  # a fifth")
    assert load(HEAD + SHARE).digest == load(HEAD + other).digest
    assert load(HEAD + SHARE).digest != load(HEAD + SHARE.replace("0.999", "0.99")).digest


def test_every_alert_that_is_shipped_has_an_owner_a_severity_and_a_page_of_its_own():
    rules = load(default_text()).rules
    assert len({rule.id for rule in rules}) == len(rules)
    assert [rule.runbook for rule in rules] == [f"docs/runbooks/{rule.id}.md" for rule in rules]
    assert all(rule.owner and rule.summary.endswith(".") for rule in rules)


def test_what_is_shipped_covers_every_alert_of_the_contract():
    shipped = {rule.id for rule in load(default_text()).rules}
    assert shipped >= {
        "refusal_rate", "fallback_rate", "partial_age_p95", "partial_age_oldest", "queue_age_p95", "queue_age_oldest",
        "queue_past_deadline", "escalation_rate_high", "escalation_rate_low", "unverified_completions",
        "silent_fallback", "empty_responses", "fence_violation", "unapproved_effect", "non_monotone_enrichment",
        "evidence_coverage", "consumer_lag", "newest_event_age", "newest_event_unknown", "events_absent",
        "dead_letter_rate", "unaccounted", "store_refusing", "store_unknown", "clock_skew",
    }  # fmt: skip


def test_what_is_shipped_uses_every_condition():
    assert {rule.condition for rule in load(default_text()).rules} == set(Condition) == set(NEEDS)


@pytest.mark.parametrize(("old", "new", "said"), [
    ('id = "refusal_rate"', 'id = "Refusal rate"',
     "rule 1 (Refusal rate): id: must be lower-case letters, digits and underscores, a letter first"),
    ("threshold = 0.2", "threshold = 20.0",
     "rule 1 (refusal_rate): threshold: a share must be between 0 and 1, such as 0.2"),
    ("threshold = 0.2", "threshold = nan", "rule 1 (refusal_rate): threshold: must be a finite number"),
    ("threshold = 0.2", 'threshold = "0.2"', "rule 1 (refusal_rate): threshold: must be a number"),
    ("threshold = 0.2", "", "rule 1 (refusal_rate): threshold: missing; the condition share needs it"),
    ("minimum = 8", "minimum = 2",
     "rule 1 (refusal_rate): minimum: must be at least 3; of fewer, no share can be said"),
    ("minimum = 8", "minimum = 8.5", "rule 1 (refusal_rate): minimum: must be a whole number"),
    ("minimum = 8", "minimum = 8\nquantile = 0.9",
     "rule 1 (refusal_rate): quantile: the condition share does not use it"),
    ("minimum = 8", "minimum = 8\nminimun = 8",
     "rule 1 (refusal_rate): minimun: nothing of that name may stand here"),
    ("confidence = 0.999", "confidence = 1.0", "rule 1 (refusal_rate): confidence: must be less than 1"),
    ('condition = "share"', 'condition = "rate"',
     f"rule 1 (refusal_rate): condition: must be {CONDITIONS}"),
    ("runs = 20, ", "", f"rule 1 (refusal_rate): window: runs and limit_minutes belong together: {TOGETHER}"),
    ("limit_minutes = 720", "limit_minutes = 5",
     "rule 1 (refusal_rate): window: limit_minutes: must be more than minutes"),
    ("limit_minutes = 720", "limit_minutes = 5050",
     "rule 1 (refusal_rate): baseline: minutes: must be at least twice as long as the window may be"),
    ("factor = 2", "factor = 1.0", "rule 1 (refusal_rate): baseline: factor: must be more than 1"),
    ('"agent_id", "tenant"', '"queue"', "rule 1 (refusal_rate): by: queue: what this rule looks at has no queue"),
    ('"agent_id", "tenant"', '"agent"',
     "rule 1 (refusal_rate): by 1: must be 'tenant', 'agent_id', 'workflow' or 'queue'"),
    ('over = "exits"', 'over = "refusal"',
     "rule 1 (refusal_rate): over: must be another series than the one that is counted"),
    ('over = "exits"', 'over = "read"',
     f"rule 1 (refusal_rate): over: series of the pipeline, by time of recording, {APART}"),
    ("minimum = 8", "minimum = 8\nunless = [{}]",
     "rule 1 (refusal_rate): unless: an entry that names nothing would leave nothing to look at"),
    ("minimum = 8", 'minimum = 8\nlabels = { tenant = "x" }',
     "rule 1 (refusal_rate): labels: tenant: every alert has this label"),
    ("minimum = 8", 'minimum = 8\nlabels = { "Team name" = "x" }',
     "rule 1 (refusal_rate): labels: Team name: must be lower-case letters, digits and underscores, a letter first"),
    ('owner = "policy"', 'owner = ""', "rule 1 (refusal_rate): owner: must not be empty"),
])  # fmt: skip
def test_each_problem_is_told_with_its_place_and_its_reason(old, new, said):
    assert said in changed(old, new)


@pytest.mark.parametrize(("condition", "keys", "said"), [
    ("count", 'series = "fence_violation"\nover = "exits"\nwindow = { minutes = 5 }\nthreshold = 0',
     "threshold: must be more than 0"),
    ("gauge", 'gauge = "store_refusing"\nthreshold = 1',
     "threshold: must be 0; the gauge is 1 while the store refuses, else 0"),
    ("gauge", 'gauge = "lag"\nthreshold = -1', "threshold: must not be negative"),
    ("gauge", 'gauge = "lag"\nthreshold = 1\nby = ["tenant"]',
     "by: tenant: what this rule looks at has no tenant"),
    ("unknown", 'gauge = "lag"\nthreshold = 1', "threshold: the condition unknown does not use it"),
    ("surge", f"{OF_SURGE}threshold = 0.2\nchance_days = 7",
     "baseline: missing; the condition surge needs it"),
    ("surge", f"{OF_SURGE}threshold = 0.2\nchance_days = 0\n{PAST}",
     "chance_days: must be at least 1"),
    ("surge", f"{OF_SURGE}threshold = 2\nchance_days = 7\n{PAST}",
     "threshold: a share must be between 0 and 1, such as 0.2"),
    ("age", "threshold = 5", "items: missing; the condition age needs it"),
    ("age", 'items = "partial"\nthreshold = 5\nby = ["queue"]', "by: queue: what this rule looks at has no queue"),
    ("age", 'items = "review"\nthreshold = 5\nquantile = 0', "quantile: must be more than 0"),
])  # fmt: skip
def test_conditions_have_keys_of_their_own(condition, keys, said):
    text = f'{HEAD}[[rules]]\nid = "x"\ncondition = "{condition}"\n{COMMON}{keys}\n'
    assert problems(text) == [f"rule 1 (x): {said}"]


def test_all_problems_are_told_at_once():
    text = HEAD + SHARE.replace("0.2", "2.0") + SHARE.replace("minimum = 8", "minimum = 1")
    assert problems(text) == [
        "rules: refusal_rate: 2 rules have this id; each needs its own",
        "rule 1 (refusal_rate): threshold: a share must be between 0 and 1, such as 0.2",
        "rule 2 (refusal_rate): minimum: must be at least 3; of fewer, no share can be said",
    ]


@pytest.mark.parametrize(
    "text", ["", "x = 1", "rules = 5", HEAD + "rules = []", HEAD + "rules = [1]", "[[rules]]", "="]
)
def test_what_is_no_rule_file_is_refused(text):
    assert problems(text)


def test_a_file_that_is_nested_too_deeply_is_refused():
    assert problems("a = " + "[" * 100_000) == ["nested too deeply"]


def test_the_shipped_file_is_toml_that_names_every_key_in_order():
    (first, *_) = tomllib.loads(default_text())["rules"]
    assert list(first)[:3] == ["id", "condition", "series"]
