"""Mutation testing: break the classifier and its table in small ways, and count what nothing notices.

``python -m tests.mutants`` makes every mutant, ``--module`` those of some modules, ``--sample N`` as many drawn at
random. A mutant is killed only by what states the right answer: the labelled events, the executable specification, the
proof of the table, the tests of the classifier. One that merely answers otherwise than the unbroken classifier, or
that nothing notices, survives; it ends with 1 if one survives that ``docs/explanation/mutants.md`` does not explain.
"""

import argparse
import ast
import gc
import importlib
import importlib.abc
import importlib.util
import json
import multiprocessing
import os
import signal
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from classifier.labels import read
from classifier.table import default_text
from tests.cases import load_cases
from tests.spec.fuzz import policy_event
from tests.spec.spec import Answer, Event, fair_reasons, specify
from tests.strategies import random_event

ROOT = Path(__file__).parent.parent
EXPLAINED = ROOT / "docs" / "explanation" / "mutants.md"
TABLE = "default.toml"
MODULES = ("effects", "policy", "paths", "handover", "run", "view", "decide", "condition", "invariants", "table")
FATES = ("raises", "labels", "specification", "proof", "tests", "noticed", "survived")
"""What kills a mutant, the first that does: it raises or never ends, or its answer is wrong. ``noticed`` is one whose
answer is another and that nothing speaks against."""

EVENTS = 3_000
MOST_SECONDS = 20
MOST_SECONDS_OF_TESTS = 120
"""Seconds of the processor, which are the same beside whatever else the machine does."""

_TESTS = {
    "effects": ("facts_effects",),
    "policy": ("facts_policy",),
    "paths": ("facts_run", "facts_handover"),
    "handover": ("facts_handover",),
    "run": ("facts_run",),
    "view": ("facts_effects", "facts_policy"),
    "decide": ("table",),
    "condition": ("table", "explain", "mcdc"),
    "invariants": ("prohibited",),
    "table": ("table",),
    TABLE: (),
}
"""The tests that state right answers of each module, beside those of this file's own finds."""


class Mutant(NamedTuple):
    """One change. ``text`` is the whole module, or the whole table, with it."""

    module: str
    change: str
    text: str


# ---- mutants of modules ------------------------------------------------------------------------------------------


class Site(NamedTuple):
    """A node that may be changed, and where it hangs: ``holder[key]``, a list or the fields of a node."""

    holder: Any
    key: Any
    node: ast.AST
    function: str
    answers_bool: bool


_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,), ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,), ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
}  # fmt: skip
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}  # fmt: skip
_CALLS = {"min": "max", "max": "min", "all": "any", "any": "all"}
# What the reader of a classification never sees, and what cannot be changed without changing nothing or everything.
_FIELDS_SKIPPED = frozenset({"annotation", "returns", "decorator_list", "ctx", "bases"})
_FIXED = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Pass, ast.Assign, ast.AnnAssign)


def module_mutants(module: str) -> Iterator[Mutant]:
    """Every mutant of a module of the classifier, each text once."""
    tree = ast.parse((ROOT / "classifier" / f"{module}.py").read_text(encoding="utf-8"))
    seen, named = {ast.unparse(tree)}, Counter[str]()
    for site in _sites(tree, "", answers_bool=False):
        before = _line(site.node)
        for variant in _variants(site):
            _put(site, variant)
            text = ast.unparse(ast.fix_missing_locations(tree))
            _put(site, site.node)
            if text not in seen:
                seen.add(text)
                yield Mutant(
                    module, _numbered(f"`{module}` {site.function}: {_difference(before, variant)}", named), text
                )


def _numbered(change: str, named: Counter[str]) -> str:
    """The change, told apart from others that read the same."""
    named[change] += 1
    return change if named[change] == 1 else f"{change} ({named[change]})"


def _put(site: Site, node: ast.AST) -> None:
    if isinstance(site.holder, list):
        site.holder[site.key] = node
    else:
        setattr(site.holder, site.key, node)


def _line(node: ast.AST) -> str:
    return ast.unparse(node).strip().partition("\n")[0]


def _difference(before: str, node: ast.AST) -> str:
    """What becomes of a line; of a long one, what differs and the word before it."""
    if isinstance(node, ast.Pass):
        return f"`{before}` is left out"
    after = _line(node)
    if max(len(before), len(after)) > _LONG:
        word = before.rfind(" ", 0, _shared(before, after))
        start = before.rfind(" ", 0, max(word, 0)) + 1
        end = before[::-1].rfind(" ", 0, min(_shared(before[::-1], after[::-1]), len(after) - start)) + 1
        before, after = (f"… {text[start : len(text) - end].strip()} …" for text in (before, after))
    return f"`{before}` → `{after}`"


_LONG = 80


def _shared(left: str, right: str) -> int:
    """How many characters both begin with."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(left), len(right)))


def _sites(node: ast.AST, function: str, *, answers_bool: bool) -> Iterator[Site]:
    """The nodes below a node, outermost first."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        function = f"{function}.{node.name}".lstrip(".")
        returns = getattr(node, "returns", None)
        answers_bool = isinstance(returns, ast.Name) and returns.id == "bool"
    for name, value in ast.iter_fields(node):
        if name not in _FIELDS_SKIPPED:
            items = enumerate(value) if isinstance(value, list) else ((name, value),)
            holder = value if isinstance(value, list) else node
            for key, child in items:
                if isinstance(child, ast.AST) and not _is_display(node, key, child):
                    yield Site(holder, key, child, function, answers_bool)
                    yield from _sites(child, function, answers_bool=answers_bool)


def _is_display(parent: ast.AST, key: Any, node: ast.AST) -> bool:
    """Whether it is text for people: a docstring, a message, the meaning of a fact; or a name without
    which nothing runs: a slot, a field."""
    match parent, node:
        case (_, ast.Expr(value=ast.Constant()) | ast.JoinedStr()):
            return True
        case ast.Call(func=ast.Name(id="Fact" | "Finding")), ast.Constant(value=str()):
            return bool(key == len(parent.args) - 1)
        case _, ast.Assign(targets=[ast.Name(id="__slots__")]):
            return True
        case ast.Subscript(), ast.Constant(value=str()):
            return True
    return False


def _variants(site: Site) -> Iterator[ast.AST]:
    node = site.node
    for kind, vary in _VARIED.items():
        if isinstance(node, kind):
            yield from vary(node)
    if isinstance(node, ast.Return) and node.value and site.answers_bool and not _is_negatable(node.value):
        yield ast.Return(_negated(node.value))
    again = isinstance(node, ast.Assign) and not isinstance(node.targets[0], ast.Name | ast.Tuple)
    if site.function and isinstance(node, ast.stmt) and (again or not isinstance(node, _FIXED)):
        yield ast.Pass()


def _is_negatable(node: ast.expr) -> bool:
    """Whether its own mutants negate it already."""
    return isinstance(node, ast.Constant | ast.UnaryOp) or (isinstance(node, ast.Compare) and len(node.ops) == 1)


def _negated(node: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), node)


def _vary_comparison(node: ast.Compare) -> Iterator[ast.AST]:
    for place, operator in enumerate(node.ops):
        for other in _COMPARISONS[type(operator)]:
            yield ast.Compare(node.left, [*node.ops[:place], other(), *node.ops[place + 1 :]], node.comparators)


def _vary_junction(node: ast.BoolOp) -> Iterator[ast.AST]:
    yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    for fewer in _with_one_less(node.values):
        yield ast.BoolOp(node.op, fewer) if len(fewer) > 1 else fewer[0]


def _with_one_less(items: list[Any]) -> Iterator[list[Any]]:
    return (items[:place] + items[place + 1 :] for place in range(len(items)))


def _vary_constant(node: ast.Constant) -> Iterator[ast.AST]:
    match node.value:
        case bool(value):
            yield ast.Constant(not value)
        case int(value):
            yield ast.Constant(value + 1)
            yield ast.Constant(value - 1)
        case str(value):
            yield ast.Constant(f"{value}~")


def _vary_operation(node: ast.BinOp) -> Iterator[ast.AST]:
    if type(node.op) in _OPERATORS:
        yield ast.BinOp(node.left, _OPERATORS[type(node.op)](), node.right)


def _vary_assignment(node: ast.AugAssign) -> Iterator[ast.AST]:
    yield ast.AugAssign(node.target, _OPERATORS[type(node.op)](), node.value)


def _vary_call(node: ast.Call) -> Iterator[ast.AST]:
    match node.func:
        case ast.Name(id=name) if name in _CALLS:
            yield ast.Call(ast.Name(_CALLS[name]), node.args, node.keywords)
        case ast.Name(id="sorted"):
            yield ast.Call(ast.Name("list"), node.args, [])


def _vary_collection(node: ast.Set | ast.Tuple | ast.List) -> Iterator[ast.AST]:
    """One item less, of a collection of symbols; what is unpacked or built from values is none."""
    if all(isinstance(item, ast.Constant) or (isinstance(item, ast.Name) and item.id.isupper()) for item in node.elts):
        for fewer in _with_one_less(node.elts):
            if fewer or not isinstance(node, ast.Set):
                yield type(node)(fewer, ast.Load()) if not isinstance(node, ast.Set) else ast.Set(fewer)


def _vary_map(node: ast.Dict) -> Iterator[ast.AST]:
    for keys, values in zip(_with_one_less(node.keys), _with_one_less(node.values), strict=True):
        yield ast.Dict(keys, values)


def _vary_comprehension(node: ast.comprehension) -> Iterator[ast.AST]:
    for fewer in _with_one_less(node.ifs):
        yield ast.comprehension(node.target, node.iter, fewer, node.is_async)


def _vary_choice(node: ast.IfExp | ast.If) -> Iterator[ast.AST]:
    if not _is_negatable(node.test):
        yield type(node)(_negated(node.test), node.body, node.orelse)  # type: ignore[arg-type]


def _vary_negation(node: ast.UnaryOp) -> Iterator[ast.AST]:
    if isinstance(node.op, ast.Not):
        yield node.operand


_VARIED: dict[type[ast.AST] | tuple[type[ast.AST], ...], Callable[[Any], Iterator[ast.AST]]] = {
    ast.Compare: _vary_comparison,
    ast.BoolOp: _vary_junction,
    ast.Constant: _vary_constant,
    ast.BinOp: _vary_operation,
    ast.AugAssign: _vary_assignment,
    ast.Call: _vary_call,
    (ast.Set, ast.Tuple, ast.List): _vary_collection,
    ast.Dict: _vary_map,
    ast.comprehension: _vary_comprehension,
    (ast.If, ast.IfExp): _vary_choice,
    ast.UnaryOp: _vary_negation,
}

# ---- mutants of the table ----------------------------------------------------------------------------------------


def table_mutants() -> Iterator[Mutant]:
    """Every mutant of the default table: its rows, their order, conditions, exits, reasons, queues; the figures."""
    content = tomllib.loads(default_text())
    named = Counter[str]()
    for change, other in _table_changes(content):
        yield Mutant(TABLE, _numbered(f"`{TABLE}` {change}", named), _written(other))


def _table_changes(content: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    rows = content["rows"]
    for place, row in enumerate(rows):
        for change, changed in _row_changes(row, content):
            yield f"{row['id']}: {change}", content | {"rows": [*rows[:place], *changed, *rows[place + 1 :]]}
        if place:
            swapped = [*rows[: place - 1], row, rows[place - 1], *rows[place + 1 :]]
            yield f"{row['id']}: stands before {rows[place - 1]['id']}", content | {"rows": swapped}
    for name, value in content["thresholds"].items():
        for other in _near(value):
            yield f"{name}: {value} → {other}", content | {"thresholds": content["thresholds"] | {name: other}}
    for name in content["switches"]:
        yield f"{name}: is human_queue", content | {"switches": content["switches"] | {name: "human_queue"}}


def _near(value: Any) -> tuple[Any, Any]:
    return (value - 1, value + 1) if isinstance(value, int) else (f"{value}01", f"{float(value) - 0.01:.2f}")


def _row_changes(row: dict[str, Any], content: dict[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Changes of one row; the rows that then stand in its place."""
    yield "is left out", []
    for change, when in _condition_changes(row["when"]):
        yield change, [row | {"when": when}]
    for exit_ in ("completed", "refusal", "fallback", "partial", "human_queue"):
        if exit_ != row["exit"]:
            other = {name: value for name, value in row.items() if name != "reason_from"} | {"exit": exit_}
            yield f"exit {exit_}", [other | ({"queue": "judgement"} if "queue" not in other else {})]
    for queue in content["queues"]:
        if row.get("queue") not in (None, queue):
            yield f"queue {queue}", [row | {"queue": queue}]
    yield "another reason", [row | {"reason": "other"}]
    if "reason_from" in row:
        yield "no reason_from", [{name: value for name, value in row.items() if name != "reason_from"}]
    yield from _finer_changes(row)


def _finer_changes(row: dict[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    reasons = row.get("reasons", [])
    for place, reason in enumerate(reasons):
        yield f"without reason {reason['code']}", [row | {"reasons": reasons[:place] + reasons[place + 1 :]}]
        for change, when in _condition_changes(reason["when"]):
            changed = [*reasons[:place], reason | {"when": when}, *reasons[place + 1 :]]
            yield f"reason {reason['code']}: {change}", [row | {"reasons": changed}]
        if place:
            swapped = [*reasons[: place - 1], reason, reasons[place - 1], *reasons[place + 1 :]]
            yield f"reason {reason['code']} comes before {reasons[place - 1]['code']}", [row | {"reasons": swapped}]


def _condition_changes(text: str) -> Iterator[tuple[str, str]]:
    tree = ast.parse(" ".join(text.split()), mode="eval")
    for site in _sites(tree, "", answers_bool=False):
        negated = [ast.UnaryOp(ast.Not(), site.node)] if isinstance(site.node, ast.Name) else []
        for variant in (*negated, *_variants(site)):
            _put(site, variant)
            changed = ast.unparse(tree)
            _put(site, site.node)
            yield _difference(_line(site.node), variant), changed


def _written(content: dict[str, Any]) -> str:
    """The content as TOML, all in inline tables."""
    return "".join(f"{name} = {_inline(value)}\n" for name, value in content.items())


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name} = {_inline(item)}' for name, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_inline, value))}]"
    return json.dumps(value)


# ---- what kills them ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Label:
    """What an event must be answered with. ``reason`` None leaves the reason open."""

    event: Event
    kind: str
    reason: str | None
    verified: bool
    obligations: frozenset[str]
    prohibited: frozenset[str]

    def is_met(self, answer: dict[str, Any]) -> bool:
        """Whether an answer says what it must."""
        return (
            (answer["kind"], answer["verified"]) == (self.kind, self.verified)
            and self.reason in (None, answer["reason_code"])
            and self.obligations <= {owed["action"] for owed in answer["obligations"]}
            and self.prohibited <= set(answer["prohibited"])
        )


@dataclass(frozen=True)
class Said:
    """What the specification says about an event, and the reasons of which each is fair."""

    event: Event
    answer: Answer
    fair: frozenset[str]

    def is_met(self, answer: dict[str, Any]) -> bool:
        """Whether the classifier says the same."""
        said, reason = self.answer, answer["reason_code"]
        owed = [(item["action"], item["operation_id"]) for item in answer["obligations"]]
        return (
            (said.kind, said.rule_id, said.prohibited)
            == (answer["kind"], answer["rule_id"], tuple(answer["prohibited"]))
            and (reason == said.reason_code or reason in self.fair)
            and Counter(owed) == Counter(said.obligations)
        )


@dataclass(frozen=True)
class Net:
    """Everything that a mutant has to pass; ``answers`` are those of the unbroken classifier, label by label, then
    event by event."""

    labels: tuple[Label, ...]
    said: tuple[Said, ...]
    answers: tuple[Any, ...]


def _labels() -> Iterator[Label]:
    for case in load_cases():
        yield Label(case.event, case.kind, case.reason, case.verified, case.obligations, case.prohibited)
    for line in (ROOT / "tests/classifier/derived.jsonl").read_text(encoding="utf-8").splitlines():
        labelled, event = read(json.loads(line))
        if (expect := labelled.expect) is not None:
            owed, never = frozenset(expect.obligations), frozenset(labelled.prohibited or ())
            yield Label(event, expect.kind, expect.reason_code, expect.verified, owed, never)


def _said(seed: int) -> Iterator[Said]:
    for generate in (random_event, policy_event):
        rng = Random(seed)
        for event in (generate(rng) for _ in range(EVENTS)):
            yield Said(event, specify(event), frozenset(fair_reasons(event)))


def _net(seed: int) -> Net:
    labels, said = tuple(_labels()), tuple(_said(seed))
    classify = _classifier().classify
    asked: list[Label | Said] = [*labels, *said]
    return Net(labels, said, tuple(_parts(classify(each.event)) for each in asked))


def _parts(decided: Any) -> tuple[Any, ...]:
    """All that is decided, to be compared, whatever class it is of."""
    return decided.classification, decided.fact_bits, decided.packet_completeness


def _classifier() -> Any:
    """The classifier of the default table, of the modules as they are now."""
    table = importlib.import_module("classifier.table")
    return importlib.import_module("classifier.decide").Classifier(table.load(table.default_text()))


class _Loader(importlib.abc.InspectLoader, importlib.abc.MetaPathFinder):
    """Gives a mutant's text for its module."""

    def __init__(self, mutant: Mutant) -> None:
        self._name, self._text = f"classifier.{mutant.module}", mutant.text

    def find_spec(self, fullname: str, _path: Any = None, _target: Any = None) -> ModuleSpec | None:
        return importlib.util.spec_from_loader(fullname, self) if fullname == self._name else None

    def get_source(self, _fullname: str) -> str:
        return self._text

    def is_package(self, _fullname: str) -> bool:
        return False


def _become(mutant: Mutant) -> None:
    """Let every import from now on find the mutant."""
    for name in list(sys.modules):
        if name.startswith(("classifier", "tests.classifier")):
            del sys.modules[name]
    if mutant.module == TABLE:
        importlib.import_module("classifier.table").default_text = lambda: mutant.text  # type: ignore[attr-defined]
    else:
        sys.meta_path.insert(0, _Loader(mutant))


class _Killed(Exception):  # noqa: N818  (no error, but the way out)
    """Something that states the right answer spoke against the mutant."""


def _fate(net: Net, mutant: Mutant) -> str:
    """What kills a mutant, in a process of its own; anything that it raises, or its never ending, is a wrong answer."""
    signal.signal(signal.SIGPROF, _give_up)
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    noticed = False
    stages: tuple[tuple[str, Callable[[Net], bool]], ...] = (("labels", _meets_labels), ("specification", _meets_said))
    _become(mutant)
    for fate, is_unchanged in stages:
        try:
            noticed |= not is_unchanged(net)
        except _Killed:
            return fate
        except Exception:  # noqa: BLE001  (whatever it is, an event got no answer)
            return "raises"
    if mutant.module == TABLE and not _is_proved():
        return "proof"
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS_OF_TESTS)
    if not _passes_tests(mutant.module):
        return "tests"
    # Every other table has another digest, so that is no news.
    return "noticed" if noticed and mutant.module != TABLE else "survived"


def _give_up(_signal: int, _frame: Any) -> None:
    raise TimeoutError


def _meets_labels(net: Net) -> bool:
    """Whether all answers are the former ones. Raises _Killed if one is not what a label says."""
    classify, unchanged = _classifier().classify, True
    for label, former in zip(net.labels, net.answers, strict=False):
        decided = classify(label.event)
        if not label.is_met(decided.classification):
            raise _Killed
        unchanged &= _parts(decided) == former
    return unchanged


def _meets_said(net: Net) -> bool:
    """Whether all answers are the former ones. Raises _Killed if one is not what the specification says."""
    classify, unchanged = _classifier().classify, True
    for said, former in zip(net.said, net.answers[len(net.labels) :], strict=True):
        decided = classify(said.event)
        if not said.is_met(decided.classification):
            raise _Killed
        unchanged = unchanged and _parts(decided) == former
    return unchanged


def _is_proved() -> bool:
    table = importlib.import_module("classifier.table")
    return bool(importlib.import_module("classifier.proof").prove(table.load(table.default_text())).holds)


_RELOADED = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
"""What was imported before the tests are is not theirs to be rewritten."""


def _passes_tests(module: str) -> bool:
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    options = ("-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=0", *_RELOADED)
    files = [f"tests/classifier/test_{name}.py" for name in ("mutants_killed", *_TESTS[module])]
    return pytest.main([*options, *files]) == pytest.ExitCode.OK


# ---- the run -----------------------------------------------------------------------------------------------------


_nets: list[Net] = []
"""The net, inherited by every forked process rather than sent, since it is large."""


def _work(mutant: Mutant) -> tuple[Mutant, str]:
    """The fate of a mutant, found in a process of its own, so that no mutant sees another's modules."""
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.write(writer, _fate(_nets[0], mutant).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        fate = answer.read()
    os.waitpid(child, 0)
    return mutant, fate


def _mutants(modules: list[str]) -> list[Mutant]:
    found = [mutant for module in modules if module != TABLE for mutant in module_mutants(module)]
    return found + (list(table_mutants()) if TABLE in modules else [])


def _unchanged(modules: list[str]) -> list[Mutant]:
    """Mutants without a change, written the same way; if one of them dies, so do all, and it means nothing."""
    found = []
    for module in modules:
        text = default_text() if module == TABLE else (ROOT / "classifier" / f"{module}.py").read_text("utf-8")
        text = _written(tomllib.loads(text)) if module == TABLE else ast.unparse(ast.parse(text))
        found.append(Mutant(module, "nothing", text))
    return found


def _report(fates: list[tuple[Mutant, str]]) -> Iterator[str]:
    counts = Counter((mutant.module, fate) for mutant, fate in fates)
    yield f"{'':<14}{'mutants':>9}" + "".join(f"{fate:>15}" for fate in FATES)
    for module in (*MODULES, TABLE):
        if total := sum(counts[module, fate] for fate in FATES):
            yield f"{module:<14}{total:>9}" + "".join(f"{counts[module, fate]:>15}" for fate in FATES)
    sums = [sum(counts[module, fate] for module in (*MODULES, TABLE)) for fate in FATES]
    yield f"{'all':<14}{len(fates):>9}" + "".join(f"{count:>15}" for count in sums)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--module", action="append", choices=(*MODULES, TABLE), help="only these; may be repeated")
    parser.add_argument("--sample", type=int, help="so many mutants, drawn at random")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    return parser.parse_args()


def main() -> int:
    """The command."""
    options = _options()
    modules = options.module or [*MODULES, TABLE]
    mutants = _mutants(modules)
    if options.sample:
        mutants = Random(options.seed).sample(mutants, min(options.sample, len(mutants)))
    _nets.append(_net(options.seed))
    gc.freeze()  # what is shared stays shared
    with multiprocessing.get_context("fork").Pool(options.processes) as pool:
        for unchanged, fate in pool.imap(_work, _unchanged(modules), chunksize=1):
            if fate != "survived":
                sys.stdout.write(f"{unchanged.module} without a change fails by: {fate}\n")
                return 2
        fates = []
        for mutant, fate in pool.imap(_work, mutants, chunksize=1):
            fates.append((mutant, fate))
            if fate in ("noticed", "survived"):
                sys.stdout.write(f"- {mutant.change}  [{fate}]\n")
                sys.stdout.flush()
    explained = EXPLAINED.read_text(encoding="utf-8").splitlines() if EXPLAINED.exists() else []
    alive = [(mutant, fate) for mutant, fate in fates if fate in ("noticed", "survived")]
    open_ = [(mutant, fate) for mutant, fate in alive if f"- {mutant.change}" not in explained]
    lines = [*_report(fates), f"survivors explained: {len(alive) - len(open_)}"]
    lines += [f"not explained: {mutant.change}" for mutant, _ in open_]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if open_ else 0


if __name__ == "__main__":
    sys.exit(main())
