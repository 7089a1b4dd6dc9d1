"""The label mapping: what files are refused, which rules cannot be reached, and the rule in Python against its SQL."""

import itertools
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.errors import MessageError
from shadow.mapping import LegacyWords, MappingError, Rule, default_text, load
from sinks.rows import CompanionRow, Position, encode_companions
from sinks.store import open_store
from sources.base import Options, open_document
from sources.registry import recognised

_ASKS_FOR_NOTHING = (
    "rule 1: asks for nothing; name at least one of dispatcher, label, label_prefix, http_status, error_class, "
    "has_queue, user_visible"
)
HEAD = 'id = "mine"\nversion = "1"\n'


def no_wait(seconds):
    raise AssertionError("nothing holds the store")


@pytest.fixture(scope="module")
def store():
    with (
        tempfile.TemporaryDirectory() as folder,
        open_store(Path(folder) / "new", holder="test", lock_timeout_s=0, now=lambda: 0, wait=no_wait) as opened,
    ):
        opened.migrate()
        yield opened


def problems(text):
    with pytest.raises(MappingError) as caught:
        load(text)
    return caught.value.problems


def file_of(rules, tests=()):
    """A file of rules and examples, each a dict."""
    parts = [("rules", rule) for rule in rules] + [("tests", test) for test in tests]
    blocks = (
        f"[[{name}]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in part.items())
        for name, part in parts
    )
    return HEAD + "".join(blocks)


# --- reading


def test_the_default_mapping_is_usable():
    mapping = load(default_text())
    assert mapping.file.id == "default"
    assert len(mapping.file.tests) >= 15


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (LegacyWords("swe-agent", "submitted"), "completed"),
        (LegacyWords("swe-agent", "submitted (exit_format)"), "partial"),
        (LegacyWords("swe-agent", "Submitted (exit_format)"), "unmapped"),
        (LegacyWords("tau2", "max_steps", queue=""), "error"),
        (LegacyWords("other", "max_steps"), "unmapped"),
        (LegacyWords("other", "max_steps", 199), "unmapped"),
        (LegacyWords("other", "max_steps", 200), "completed"),
        (LegacyWords("other", "max_steps", 299), "completed"),
        (LegacyWords("other", "max_steps", 300), "unmapped"),
        (LegacyWords(http_status=206), "partial"),
        (LegacyWords(http_status=403), "refusal"),
        (LegacyWords(http_status=599), "error"),
        (LegacyWords(http_status=600), "unmapped"),
        (LegacyWords(label="denied", http_status=200), "refusal"),
        (LegacyWords(label="ok", queue="billing"), "human_queue"),
        (LegacyWords(error_class="TimeoutError"), "error"),
        (LegacyWords(), "unmapped"),
    ],
)
def test_the_default_mapping_by_hand(words, kind):
    assert load(default_text()).kind(words) == kind


def test_the_default_mapping_knows_every_label_of_the_imported_samples():
    mapping, root = load(default_text()), Path(__file__).parents[1] / "data"
    labels = {pair for path in sorted(root.rglob("*")) if path.is_file() for pair in _labels_in(path)}
    assert len(labels) >= 8
    assert {pair for pair in labels if mapping.kind(LegacyWords(*pair)) == "unmapped"} == set()


def _labels_in(path):
    try:
        document = open_document(path.name, path.read_bytes(), Options())
    except MessageError:
        return
    for adapter in recognised(document):
        for each in adapter.read(document):
            if not isinstance(each, MessageError) and each.record["type"] == "legacy_exit":
                yield each.record["dispatcher"], each.record["label"]


def test_a_rule_asks_for_all_that_it_names():
    mapping = load(file_of([{"label": ["a", "b"], "user_visible": False, "kind": "error"}]))
    found = [
        mapping.kind(LegacyWords(label=label, user_visible=seen)) for label in "abc" for seen in (False, True, None)
    ]
    assert found == ["error", "unmapped", "unmapped"] * 2 + ["unmapped"] * 3


def test_the_digest_covers_rules_and_not_layout_or_examples():
    rule, other = {"label": "a", "kind": "error"}, {"label": "a", "kind": "partial"}
    plain = load(file_of([rule])).digest
    assert load("# why\n" + file_of([rule], [{"label": "a", "expect": "error"}])).digest == plain
    assert load(file_of([{"label": ["a"], "kind": "error"}])).digest == plain
    assert load(file_of([other])).digest != plain
    assert plain.startswith("sha256:")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("id = ", ["not TOML: Invalid value (at end of document)"]),
        ("", ["id: missing", "version: missing", "rules: missing"]),
        (HEAD + "rules = []", ["rules: must not be empty"]),
        (HEAD + "rules = 3", ["rules: must be a list, each entry below its own heading in double square brackets"]),
        (
            file_of([{"kind": "error"}]),
            [_ASKS_FOR_NOTHING],
        ),
        (
            file_of([{"label": "a", "kind": "unmapped"}]),
            ["rule 1: kind: must be 'completed', 'refusal', 'fallback', 'partial', 'human_queue' or 'error'"],
        ),
        (
            file_of([{"label": [], "kind": "error"}]),
            ["rule 1: label: must not be empty; leave it out to ask for nothing"],
        ),
        (file_of([{"label": 3, "kind": "error"}]), ["rule 1: label: must be text in quotes, or a list of texts"]),
        (file_of([{"lable": "a", "kind": "error"}]), ["rule 1: lable: nothing of that name may stand here"]),
        (file_of([{"has_queue": 1, "kind": "error"}]), ["rule 1: has_queue: must be true or false"]),
        *(
            (file_of([{"http_status": status, "kind": "error"}]), [
                'rule 1: http_status: must be a status such as 503, or a range such as "500-599"'
            ])
            for status in (True, "5xx", "", -1, "\u0665\u0660\u0660")
        ),
        *(
            (file_of([{"http_status": status, "kind": "error"}]), [
                'rule 1: http_status: must be a range from a lower to a higher status, such as "500-599"'
            ])
            for status in ("599-500", "500-", "500-5xx")
        ),
        (
            file_of([{"label": "a", "kind": "error"}], [{"label": "a", "expect": "partial"}]),
            ["test 1: expected partial, and the rules say error"],
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(text, found):
    assert problems(text) == found


def test_a_file_that_is_nested_too_deeply_is_refused():
    assert problems(f"x = {'[' * 5000}{']' * 5000}") == ["nested too deeply"]


# --- rules that nobody can reach

_RULES = st.fixed_dictionaries(
    {"kind": st.just("error")},
    optional={
        "dispatcher": st.sampled_from(["d", ["d", "e"]]),
        "label": st.sampled_from(["a", "ab", ["a", "b"]]),
        "label_prefix": st.sampled_from(["a", "ab", ["b", "a"]]),
        "http_status": st.sampled_from([200, "200-299", "0-500", "201-300"]),
        "error_class": st.just("E"),
        "has_queue": st.booleans(),
        "user_visible": st.booleans(),
    },
).filter(lambda rule: len(rule) > 1)
_SPACE = [
    LegacyWords(*values)
    for values in itertools.product(
        (None, "d", "e", "f"), (None, "a", "ab", "abc", "ac", "b", "bc", "z"),
        (None, 0, 199, 200, 201, 250, 300, 400, 501),
        (None, "E", "F"), (None, "q"), (None, True, False),
    )
]  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(rules=st.lists(_RULES, min_size=2, max_size=5))
def test_rules_are_unreachable_that_decide_no_legacy_exit_there_can_be(rules):
    loaded = [Rule.model_validate(rule) for rule in rules]
    deciding = {next((n for n, rule in enumerate(loaded, 1) if rule.holds(words)), 0) for words in _SPACE}
    wanted = [n for n in range(1, len(rules) + 1) if n not in deciding]
    text = file_of(rules)
    if not wanted:
        load(text)
    else:
        assert [int(problem.split()[1]) for problem in problems(text)] == wanted


def test_rules_that_are_covered_by_several_together_are_unreachable():
    rules = [
        {"has_queue": True, "kind": "human_queue"},
        {"has_queue": False, "kind": "error"},
        {"label": "a", "kind": "error"},
    ]
    assert problems(file_of(rules)) == ["rule 3 (error): never reached; nothing is left of what it asks for"]


# --- SQL

_texts = st.none() | st.sampled_from(
    ["", "ok", "d'", "é\\", "submitted (x)", "exit_x", "ERR_GENERIC", "tau2", "max_steps"]
)
_words = st.builds(
    LegacyWords, dispatcher=st.none() | st.sampled_from(["swe-agent", "tau2", "d'"]), label=_texts,
    http_status=st.none() | st.integers(-1, 700), error_class=_texts | st.just("TimeoutError"), queue=_texts,
    user_visible=st.none() | st.booleans(),
)  # fmt: skip
_HOSTILE = file_of([
    {"label": "d'", "dispatcher": ["d'", "é\\"], "kind": "refusal"},
    {"label_prefix": ["é\\", "sub"], "user_visible": False, "kind": "partial"},
    {"error_class": ["d'", "ok"], "http_status": "0-400", "kind": "fallback"},
    {"has_queue": False, "user_visible": True, "kind": "completed"},
    {"label": "", "kind": "error"},
])  # fmt: skip


@pytest.mark.parametrize("text", [default_text(), _HOSTILE], ids=["default", "hostile"])
def test_the_engine_maps_as_the_rule_does(store, text):
    mapping = load(text)

    @settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(words=st.lists(_words, min_size=1, max_size=60))
    def agree(words):
        store.execute("TRUNCATE TABLE legacy_exits")
        blank = {"version": 1, "tenant": "t", "event_id": "e", "run_id": None, "segment": None,
                 "dispatcher_version": None, "retries": None, "decided_at": None, "extensions": {}}  # fmt: skip
        rows = [
            CompanionRow(blank | {"record_id": f"{n:04}"} | each._asdict(), "sha256:c", Position("file", "p", n), 0)
            for n, each in enumerate(words)
        ]
        store.insert("legacy_exits", encode_companions("legacy_exit", rows))
        found = store.select(f"SELECT {mapping.sql()} AS kind FROM legacy_exits FINAL ORDER BY record_id")  # noqa: S608
        assert [row["kind"] for row in found] == [mapping.kind(each) for each in words]

    agree()
