"""Comparing through the verb, on a history of which every number is counted by hand, in every form."""

import csv
import io
import itertools
import json
from html.parser import HTMLParser

import pyarrow.parquet as pq
import pytest

from classifier.table import default_text
from shadow.behaviours import BEHAVIOURS
from shadow.disagreement import NAMES
from shadow.wording import words
from tests.offramp.kit import new_directory, run, run_alone, write_lines
from tests.shadow.pairs import COMPANIONS, EVENTS, HOSTILE, MAPPING, completed, denied, said

YEARS_S = 10**9
COSTS = """
unit = "EUR"

[[cells]]
legacy = "completed"
new = "human_queue"
cost = 12.5

[[cells]]
legacy = "error"
new = "refusal"
cost = 3

[[cells]]
legacy = "completed"
new = "completed"
cost = 0
"""
ACCEPTED = """
[[accepted]]
disagreement = "over_escalation"
owner = "ann"
reason = "known"
ticket = "T-1"
expires = {expires}
ceiling = {ceiling}
"""


@pytest.fixture(scope="module")
def home():
    directory = new_directory()
    (directory / "map.toml").write_text(MAPPING)
    (directory / "costs.toml").write_text(COSTS)
    (directory / "offramp.toml").write_text(f'[shadow]\nmapping = "{directory}/map.toml"\n')
    events, companions = write_lines(directory / "events", EVENTS), write_lines(directory / "companions", COMPANIONS)
    assert run("classify", events, "--store", directory / "store").status == 0
    assert run("load", companions, "--store", directory / "store").status == 0
    return directory


def compare(home, *argv, config="offramp.toml"):
    done = run("shadow", "compare", *argv, "--store", home / "store", "--config", home / config)
    assert (done.status, done.err) == (0, "")
    return done


def configured(home, name, **more):
    lines = [f'mapping = "{home}/map.toml"', *(f"{key} = {value}" for key, value in more.items())]
    (home / name).write_text("[shadow]\n" + "\n".join(lines))
    return name


@pytest.fixture(scope="module")
def found(home):
    return json.loads(compare(home, "--format", "json").out)


def test_what_was_not_seen(found):
    seen = found["coverage"]
    assert [seen[name] for name in ("runs", "paired", "legacy_missing", "waiting", "event_missing", "unmapped")] == [
        10, 9, 1, 0, 1, 1,
    ]  # fmt: skip
    assert [each["agent_id"] for each in seen["unseen_agents"]] == ["loner"]
    assert seen["unmapped_labels"]["labels"] == 1
    assert seen["unmapped_labels"]["most"] == [
        {"dispatcher": "old", "label": HOSTILE, "http_status": None, "error_class": "", "runs": 1}
    ]
    assert (seen["first"], seen["last"]) == ("2026-03-01T00:00:00.000000Z", "2026-03-01T13:00:00.000000Z")


def test_hours_without_events_say_what_legacy_did_in_them(found):
    [silence] = found["coverage"]["hours_without_events"]
    assert silence == {"since": "2026-03-01T04:00:00.000000Z", "hours": 4, "legacy": 1}


def test_the_matrix_is_counted(found):
    cells = {(cell["legacy"], cell["new"]): (cell["count"], cell["of"]) for cell in found["matrix"]}
    assert cells == {
        ("completed", "completed"): (2, 9), ("completed", "partial"): (1, 9), ("completed", "human_queue"): (1, 9),
        ("refusal", "refusal"): (1, 9), ("human_queue", "completed"): (1, 9), ("error", "completed"): (1, 9),
        ("error", "refusal"): (1, 9), ("unmapped", "completed"): (1, 9),
    }  # fmt: skip
    [square] = [cell for cell in found["matrix"] if (cell["legacy"], cell["new"]) == ("completed", "completed")]
    assert square["low"] < 2 / 9 < square["high"]


def test_agreement_leaves_out_what_has_no_kind_and_is_never_alone(found):
    agreement = found["agreement"]
    assert (agreement["overall"]["count"], agreement["overall"]["of"]) == (3, 8)
    assert (agreement["by_legacy"]["completed"]["count"], agreement["by_legacy"]["completed"]["of"]) == (2, 4)
    assert (agreement["by_new"]["completed"]["count"], agreement["by_new"]["completed"]["of"]) == (2, 4)
    assert (agreement["by_new"]["fallback"]["share"], agreement["by_legacy"]["fallback"]["share"]) == (None, None)
    # Legacy: 4 completed, 1 refusal, 1 human_queue, 2 errors. New: 4 completed, 2 refusals, 1 partial, 1 human_queue.
    chance = (4 * 4 + 1 * 2 + 1 * 1) / 64
    assert agreement["kappa"]["value"] == pytest.approx((3 / 8 - chance) / (1 - chance))


def test_disagreements_have_names_owners_and_examples(found):
    names = {each["name"]: each["runs"]["count"] for each in found["disagreements"]}
    assert names == dict.fromkeys(
        ("ambiguity_concealed", "denial_retried", "incompleteness_concealed", "over_escalation", "success_lost"), 1
    )
    assert all(each["owner"] and each["runs"]["of"] == 8 for each in found["disagreements"])
    examples = {each["name"]: [example["event_id"] for example in each["examples"]] for each in found["disagreements"]}
    assert examples["denial_retried"] == ["ev-r1"]
    assert (found["disagreeing"]["count"], found["disagreeing"]["of"]) == (5, 8)
    assert found["harms"] == {"ambiguity_concealed": 1, "denial_retried": 1, "incompleteness_concealed": 1}
    assert list(found["harms"]) == ["ambiguity_concealed", "denial_retried", "incompleteness_concealed"]


def test_halves_are_of_the_time_between_the_first_run_and_the_last(found):
    """Of the judged pairs c1 to c4 ended before 06:30, the other four after it."""
    halves = {each["name"]: (each["earlier"], each["later"]) for each in found["disagreements"]}
    assert [(half["count"], half["of"]) for half in halves["over_escalation"]] == [(1, 4), (0, 4)]
    assert [(half["count"], half["of"]) for half in halves["denial_retried"]] == [(0, 4), (1, 4)]
    assert {each["change"] for each in found["disagreements"]} == {"cannot be told"}


def test_recovery_and_reversals(found):
    spoken = {row["kind"]: row for row in found["recovery"] if row["supports"] or row["contradicts"]}
    assert (spoken["refusal"]["supports"], spoken["refusal"]["contradicts"]) == (1, 1)
    assert (spoken["human_queue"]["supports"], spoken["human_queue"]["contradicts"]) == (1, 0)
    assert sum(row["silent"] for row in found["recovery"]) == 7
    assert found["reversals"]["runs"] == 1
    assert [each["event_id"] for each in found["reversals"]["examples"]] == ["ev-p1"]


def test_ways_to_end_are_counted_apart(found):
    ends = {each["name"]: (each["runs"]["count"], each["runs"]["of"]) for each in found["behaviours"]}
    assert ends == {
        "successful_completion": (6, 10), "unverified_completion": (0, 10), "premature_completion": (0, 10),
        "no_progress": (0, 10), "budget_exhaustion": (0, 10), "safe_failure": (3, 10), "unsafe_failure": (1, 10),
        "hand_off": (1, 10),
    }  # fmt: skip
    assert (found["escalation"]["new"]["count"], found["escalation"]["new"]["of"]) == (1, 10)
    assert (found["escalation"]["legacy"]["count"], found["escalation"]["legacy"]["of"]) == (1, 8)
    assert found["calibration"]["n"] == 0


def test_no_way_to_end_is_shown_by_the_name_of_a_disagreement(home):
    shown = {behaviour.label for behaviour in BEHAVIOURS}
    assert len(shown) == len(BEHAVIOURS)
    assert shown.isdisjoint(map(words, NAMES))
    for form in ("table", "html"):
        text = compare(home, "--format", form).text
        assert "claim not borne out" in text
        assert "premature completion" not in text


def test_what_is_young_still_waits(home):
    config = configured(home, "patient.toml", patience_s=YEARS_S)
    seen = json.loads(compare(home, "--format", "json", config=config).out)["coverage"]
    assert (seen["legacy_missing"], seen["waiting"]) == (1, 1)


def test_costs_are_exact_and_what_has_none_is_counted(home):
    config = configured(home, "costly.toml", costs=f'"{home}/costs.toml"')
    cost = json.loads(compare(home, "--format", "json", config=config).out)["cost"]
    # 1 ambiguous at 12.5, 1 denial at 3, 2 agreeing at 0; 3 of 5 disagreeing runs have no cost.
    assert (cost["unit"], cost["total"], cost["unpriced"]) == ("EUR", "15.5", 3)
    assert "Cost: 15.5 EUR" in compare(home, config=config).text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("unit = 3", "unit: must be text in quotes"),
        ('unit = "EUR"\ncells = 5', "cells: must be cells, each under [[cells]]"),
        ('unit = "EUR"\ncells = [5]', "cell 1: must be a cell under [[cells]]"),
        ('unit = "EUR"\ncells = [{legacy = "odd", new = "partial", cost = 1}]', "cell 1: legacy: must be 'completed'"),
        ('unit = "EUR"\ncells = [{legacy = "error", new = "partial", cost = -1}]', "cell 1: cost: must be from 0"),
        ('unit = "EUR"\ncells = [{legacy = "error", new = "partial", cost = nan}]', "cell 1: cost: must be from 0"),
        (
            'unit = "EUR"\n' + '[[cells]]\nlegacy = "error"\nnew = "partial"\ncost = 1\n' * 2,
            "cell 2: error and partial",
        ),
        ("unit", "not TOML"),
    ],
)
def test_a_bad_file_of_costs_is_an_error_with_its_place(home, text, said):
    (home / "bad.toml").write_text(text)
    config = configured(home, "bad-costs.toml", costs=f'"{home}/bad.toml"')
    done = run("shadow", "compare", "--store", home / "store", "--config", home / config)
    assert done.status == 2
    assert said in done.err


@pytest.mark.parametrize(
    ("expires", "ceiling", "state", "left"),
    [("2200-01-01", "0.5", "stands", 4), ("2020-01-01", "0.5", "expired", 5), ("2200-01-01", "0.1", "over ceiling", 5)],
)
def test_accepted_differences_are_counted_apart_while_they_stand(home, expires, ceiling, state, left):
    (home / "accepted.toml").write_text(ACCEPTED.format(expires=expires, ceiling=ceiling))
    config = configured(home, "accepting.toml", accepted=f'"{home}/accepted.toml"')
    found = json.loads(compare(home, "--format", "json", config=config).out)
    [entry] = found["accepted"]
    assert (entry["state"], entry["pairs"], entry["paired"]) == (state, 1, 9)
    assert found["disagreeing"]["count"] == left
    assert sum(each["accepted"] for each in found["disagreements"]) == 5 - left
    assert state in compare(home, config=config).text


# --- scopes


@pytest.mark.parametrize(
    ("argv", "counts"),
    [
        (("--agent", "loner"), (1, 0, 1)),
        (("--agent", "x' OR 1 --"), (0, 0, 1)),
        (("--workflow", "pay"), (10, 9, 1)),
        (("--tenant", "o'größe\\"), (0, 0, 0)),
        (("--since", "2026-03-01T09:00:00Z"), (5, 4, 0)),
        (("--until", "2026-03-01T09:00:00Z"), (5, 5, 1)),
    ],
)
def test_a_scope_leaves_out_what_is_known_not_to_be_in_it(home, argv, counts):
    seen = json.loads(compare(home, *argv, "--format", "json").out)["coverage"]
    assert (seen["runs"], seen["paired"], seen["event_missing"]) == counts


def test_nothing_to_compare_is_said(home):
    text = compare(home, "--tenant", "nobody").text
    assert "Legacy against new: 0 pairs of 0 runs" in text
    assert "There is no pair to compare" in text
    assert "no pair" in compare(home, "--tenant", "nobody", "--format", "html").text


# --- a table that does not decide yet


def test_under_the_table_that_decides_nothing_changes(home, found):
    (home / "same.toml").write_text(default_text())
    again = json.loads(compare(home, "--table", home / "same.toml", "--format", "json").out)
    table = again.pop("table")
    assert (table["id"], table["decides"], table["unproven"]) == ("default", True, False)
    assert "under table default 1, which decides" in compare(home, "--table", home / "same.toml").text
    assert found["table"] is None
    for changing in ("asked", "table"):
        again.pop(changing, None)
    assert again == {name: value for name, value in found.items() if name not in ("asked", "table")}


def strict():
    """The default table, but that verified completions go to people."""
    text = default_text()
    row = text[text.index('id = "completion_verified"') :].split("[[rows]]")[0]
    edited = row.replace('exit = "completed"', 'exit = "human_queue"\nqueue = "judgement"')
    assert edited != row
    return text.replace(row, edited).replace('id = "default"', 'id = "strict"', 1)


def test_a_candidate_is_judged_from_stored_facts(home):
    """c1 and c2 agree no longer, c3 does, c4 is a judgement lost."""
    (home / "strict.toml").write_text(strict())
    found = json.loads(compare(home, "--table", home / "strict.toml", "--format", "json").out)
    assert found["not_replayable"] == {}
    assert (found["agreement"]["overall"]["count"], found["agreement"]["overall"]["of"]) == (2, 8)
    names = {each["name"]: each["runs"]["count"] for each in found["disagreements"]}
    assert names == {
        "incompleteness_concealed": 3, "ambiguity_concealed": 1, "denial_retried": 1, "judgement_lost": 1,
    }  # fmt: skip
    assert "under table strict 1, which does not decide yet" in compare(home, "--table", home / "strict.toml").text


def test_a_candidate_that_is_not_proved_says_so(home):
    text = default_text()
    begin = text.index("[[rows]]")
    first = text[begin : text.index("[[rows]]", begin + 1)]
    assert "blocking_denial" in first
    (home / "unproven.toml").write_text(text.replace(first, "").replace('id = "default"', 'id = "lax"', 1))
    refused = run("shadow", "compare", "--table", home / "unproven.toml", "--store", home / "store")
    assert refused.status == 2
    argv = ("--table", home / "unproven.toml", "--unproven")
    assert json.loads(compare(home, *argv, "--format", "json").out)["table"]["unproven"]
    said_so = "nder table lax 1, whose proof fails, which does not decide yet"
    assert said_so in compare(home, *argv).text
    assert said_so in compare(home, *argv, "--format", "html").text


def test_a_reviewer_who_went_against_the_agent_speaks_under_a_candidate_too():
    """What was completed goes to people; where a reviewer went against the agent's proposal, that is right."""
    home = new_directory()
    write_lines(home / "events", [completed("o", 1), completed("k", 2)])
    reviewed = {"type": "review_event", "version": 1, "tenant": "acme", "event": "decided", "decision": "of our own"}
    reviews = [{**reviewed, "record_id": f"r-{name}", "event_id": f"ev-{name}", "overrode_proposal": against}
               for name, against in (("o", True), ("k", False))]  # fmt: skip
    write_lines(home / "companions", [said("o", "ok"), said("k", "ok"), *reviews])
    run("classify", home / "events", "--store", home / "store")
    run("load", home / "companions", "--store", home / "store")
    (home / "map.toml").write_text(MAPPING)
    configured(home, "offramp.toml")
    (home / "strict.toml").write_text(strict())
    asked = ("--format", "json")
    [decided] = json.loads(compare(home, *asked).out)["recovery"]
    assert (decided["kind"], decided["supports"], decided["contradicts"], decided["silent"]) == ("completed", 0, 1, 1)
    [candidate] = json.loads(compare(home, *asked, "--table", home / "strict.toml").out)["recovery"]
    assert (candidate["kind"], candidate["supports"], candidate["contradicts"], candidate["silent"]) == (
        "human_queue", 1, 0, 1,
    )  # fmt: skip


def test_a_run_of_1970_is_named_with_the_option_that_leaves_it_out():
    home = new_directory()
    old = completed("old", 1) | {"occurred_at": "1970-01-01T00:00:00Z"}
    write_lines(home / "events", [old, completed("a", 1), completed("b", 9)])
    write_lines(home / "companions", [said(name, "ok") for name in ("old", "a", "b")])
    run("classify", home / "events", "--store", home / "store")
    run("load", home / "companions", "--store", home / "store")
    (home / "map.toml").write_text(MAPPING)
    configured(home, "offramp.toml")
    apart = {"runs": 1, "since": "2026-03-01T01:00:00.000000Z", "until": None}
    assert json.loads(compare(home, "--format", "json").out)["coverage"]["runs_apart"] == apart
    said_so = "which stretch the period: 1. Without them: --since 2026-03-01T01:00:00Z"
    assert said_so in " ".join(compare(home).text.split())
    assert said_so in compare(home, "--format", "html").text
    assert "runs_apart,2026-03-01T01:00:00.000000Z,,1," in compare(home, "--format", "csv").text
    cured = json.loads(compare(home, "--since", "2026-03-01T01:00:00Z", "--format", "json").out)["coverage"]
    assert (cured["runs"], cured["runs_apart"]) == (2, None)
    assert "Without them" not in compare(home, "--since", "2026-03-01T01:00:00Z").text


STRAYS = [
    {"type": "recovery_action", "version": 1, "record_id": "a-1", "tenant": "acme", "run_id": "onlycomp",
     "action": "reconciled"},
    {"type": "recovery_action", "version": 1, "record_id": "a-2", "tenant": "acme", "run_id": "run-a",
     "action": "reconciled"},
    {"type": "legacy_exit", "version": 1, "record_id": "l", "tenant": "acme", "label": "DONE"},
    {"type": "legacy_exit", "version": 1, "record_id": "m", "tenant": "acme", "label": "DONE", "event_id": ""},
    *({"type": "legacy_exit", "version": 1, "record_id": f"d-{number}", "tenant": "acme", "event_id": "ev-a",
       "label": "ok", "http_status": "200"} for number in range(561)),
]  # fmt: skip


@pytest.mark.parametrize("verbs", [("classify", "load"), ("load", "classify")])
def test_what_is_stored_and_in_no_figure_is_counted(verbs):
    home = new_directory()
    files = {"classify": write_lines(home / "events", [completed("a", 1)]), "load": write_lines(home / "more", STRAYS)}
    for verb in verbs:
        run(verb, files[verb], "--store", home / "store")
    (home / "map.toml").write_text(MAPPING)
    configured(home, "offramp.toml")
    found = json.loads(compare(home, "--format", "json").out)["coverage"]["strays"]
    assert {name: (part["count"], part["of"]) for name, part in found["without_event"].items()} == {
        "recovery_action": (1, 2)
    }
    assert {name: (part["count"], part["of"]) for name, part in found["nameless"].items()} == {"legacy_exit": (2, 2)}
    assert (found["dead_letters"], found["looked_at_one_in"]) == (561, 1)
    shown = [" ".join(line.split()) for line in compare(home).text.splitlines()]
    assert "recovery actions without an event 1 50.0% 2" in shown
    assert "legacy exits that name neither event nor run 2 100.0% 2" in shown
    assert "dead letters that were not redriven 561 - -" in shown
    assert "Dead letters have neither tenant nor time: they are those of all." in shown
    page = Page(compare(home, "--agent", "buyer", "--format", "html").text)
    assert page.open == []
    for words_of_it in ("recovery actions without an event", "legacy exits that name neither event nor run",
                 "dead letters that were not redriven561", "Companions name no agent"):  # fmt: skip
        assert words_of_it in page.text
    rows = compare(home, "--format", "csv").text.splitlines()
    assert [row.split(",")[1:5] for row in rows if row.startswith("stray,")] == [
        ["recovery_action", "without_event", "1", "2"], ["legacy_exit", "nameless", "2", "2"],
        ["dead_letter", "not_redriven", "561", ""],
    ]  # fmt: skip
    # Its event comes last.
    late = completed("onlycomp", 2) | {"run_id": "onlycomp"}
    assert run("classify", write_lines(home / "late", [late]), "--store", home / "store").status == 0
    assert json.loads(compare(home, "--format", "json").out)["coverage"]["strays"]["without_event"] == {}


def test_what_is_in_no_figure_is_said_only_where_there_is_any(home):
    for form in ("table", "html", "csv"):
        text = compare(home, "--format", form).text
        assert "in no figure" not in text
        assert "stray" not in text
        assert "looked at" not in text


def test_what_cannot_be_replayed_is_counted_and_left_out():
    """A run with steps, under another floor of confidence: its facts are not those of the candidate."""
    home = new_directory()
    stepped = {**denied("s", 1), "steps": [{"action_key": "k", "confidence_after": 0.9}]}
    write_lines(home / "events", [stepped, denied("r", 2)])
    write_lines(home / "companions", [said("s", "refused"), said("r", "refused")])
    run("classify", home / "events", "--store", home / "store")
    run("load", home / "companions", "--store", home / "store")
    (home / "map.toml").write_text(MAPPING)
    configured(home, "offramp.toml")
    (home / "low.toml").write_text(default_text().replace('confidence_floor = "0.6"', 'confidence_floor = "0.5"'))
    found = json.loads(compare(home, "--table", home / "low.toml", "--format", "json").out)
    assert found["not_replayable"] == {"thresholds": 1}
    assert found["coverage"]["runs"] == 1
    assert "1 run in no other figure here" in compare(home, "--table", home / "low.toml").text


# --- forms


def test_the_table_fits_the_terminal(home):
    done = run_alone("shadow", "compare", "--store", home / "store", "--config", home / "offramp.toml", COLUMNS="80")
    assert done.status == 0
    lines = done.text.splitlines()
    # A command stands on one line, so that it can be copied.
    assert max(len(line) for line in lines if "offramp explain" not in line) <= 80
    assert lines[0] == "Legacy against new: 9 pairs of 10 runs"
    assert f"offramp explain --tenant=acme --store {home}/store --config {home}/offramp.toml ev-r1" in done.text
    assert HOSTILE.splitlines()[0] + "\\n" in done.text


def test_csv_parquet_and_ndjson_have_a_figure_a_row(home, tmp_path):
    rows = list(csv.DictReader(io.StringIO(compare(home, "--format", "csv").text)))
    [cell] = [row for row in rows if (row["item"], row["detail"]) == ("error", "refusal")]
    assert (cell["section"], cell["number"], cell["of"]) == ("matrix", "1", "9")
    [label] = [row for row in rows if row["section"] == "unmapped_label"]
    assert label["detail"] == HOSTILE
    assert compare(home, "--format", "parquet", "-o", tmp_path / "r.parquet").out == b""
    table = pq.read_table(tmp_path / "r.parquet")
    assert table.num_rows == len(rows)
    assert str(table.schema.field("number").type) == "int64"
    assert table.column("detail").to_pylist() == [row["detail"] for row in rows]
    assert compare(home, "--format", "ndjson").lines == table.to_pylist()


def test_a_label_without_end_is_cut_for_people_alone():
    home = new_directory()
    label = "x" * 10_000
    write_lines(home / "events", [completed("a", 1), completed("b", 2)])
    write_lines(home / "companions", [said("a", label), said("b", f"t{label}")])
    (home / "map.toml").write_text('id = "t"\nversion = "1"\n[[rules]]\nlabel_prefix = "t"\nkind = "human_queue"\n')
    run("classify", home / "events", "--store", home / "store")
    run("load", home / "companions", "--store", home / "store")
    configured(home, "offramp.toml")
    text = compare(home).text
    assert len(text.splitlines()) < 200
    assert "characters in all: 10,001) against completed" in " ".join(text.split())
    page = compare(home, "--format", "html").text
    assert page.count("x" * 200) == 1
    assert page.count("t" + "x" * 199) == 1
    assert "x" * 201 not in page
    assert label in compare(home, "--format", "csv").text
    assert label in compare(home, "--format", "json").text


def test_nothing_is_said_of_what_was_not_seen(home):
    nobody = ("--tenant", "nobody")
    page = compare(home, *nobody, "--format", "html").text
    assert "No run was seen." in page
    assert "No legacy exit was seen." in page
    for claim in ("Every ", "No hour", "There is none", "done harm", "No run lacks"):
        assert claim not in page
    assert "No hour" not in compare(home, *nobody).text


def test_a_table_goes_to_the_terminal_alone(home, tmp_path):
    done = run("shadow", "compare", "-o", tmp_path / "x", "--store", home / "store")
    assert done.status == 2
    assert "--format html" in done.err


class Page(HTMLParser):
    """What a page consists of, and what in it is not closed as it was opened."""

    VOID = frozenset({"meta", "br", "line", "circle", "rect", "polyline"})

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.text, self.ids = [], [], "", []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        self.ids += [attributes["id"]] if "id" in attributes else []
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def page(home):
    return Page(compare(home, "--format", "html").text)


def test_the_page_is_whole_and_asks_for_nothing(page):
    assert page.open == []
    names = {tag for tag, _ in page.tags}
    assert not names & {"script", "link", "img", "iframe", "object", "b"}
    links = [attributes["href"] for attributes in page.all("a")]
    assert all(link.startswith("#") for link in links)
    assert {link[1:] for link in links} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))


def test_foreign_text_stays_text(page):
    assert HOSTILE.replace("\n", "\\n") in page.text


def test_the_page_can_be_read_without_seeing_it(page):
    assert page.all("html") == [{"lang": "en"}]
    assert len(page.all("h1")) == len(page.all("main")) == len(page.all("header")) == 1
    assert len(page.all("caption")) == len(page.all("table")) > 0
    assert all(attributes["scope"] in ("col", "row") for attributes in page.all("th"))
    assert all(attributes["aria-label"] and attributes["role"] == "img" for attributes in page.all("svg"))
    assert len(page.all("figcaption")) == len(page.all("figure")) == len(page.all("svg")) > 0
    levels = [int(tag[1]) for tag, _ in page.tags if tag in ("h1", "h2", "h3")]
    assert all(later - earlier <= 1 for earlier, later in itertools.pairwise(levels))
