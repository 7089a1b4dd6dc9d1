"""The label mapping: which exit kind a legacy dispatcher's own words mean. Read from a TOML file that its users own.

Rules stand in order and the first that holds decides; where none holds the legacy exit is ``unmapped``, a class of its
own. The file carries its own examples, and a file whose examples fail, or that has a rule nobody can reach, is refused.
"""

import hashlib
import json
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from importlib import resources
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from schemas.problems import WORDS
from shadow.disagreement import UNMAPPED
from shadow.literal import literal, literals

LegacyKind = Literal["completed", "refusal", "fallback", "partial", "human_queue", "error"]
_NO_STRING = "\x00"
"""Stands for every text that no rule names; refused in a file."""


class MappingError(ValueError):
    """A mapping file that cannot be used. ``problems`` are sentences, each with its place."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class LegacyWords(NamedTuple):
    """What of a legacy exit a rule can ask for."""

    dispatcher: str | None = None
    label: str | None = None
    http_status: int | None = None
    error_class: str | None = None
    queue: str | None = None
    user_visible: bool | None = None


class Range(NamedTuple):
    """From ``low`` to ``high``, both included."""

    low: int
    high: int


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _texts(value: Any) -> Any:
    """One text, or a list of them, as a tuple."""
    found = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value
    if isinstance(found, tuple):
        if not found:
            raise ValueError("must not be empty; leave it out to ask for nothing")
        if any(isinstance(each, str) and _NO_STRING in each for each in found):
            raise ValueError("must not hold a NUL character")
    return found


def _range(value: Any) -> Any:
    """A number, or ``"LOW-HIGH"``."""
    low, dash, high = value.partition("-") if isinstance(value, str) else (str(value), "", "")
    if isinstance(value, bool) or not isinstance(value, (int, str)) or not _is_status(low):
        raise ValueError('must be a status such as 503, or a range such as "500-599"')
    if dash and not (_is_status(high) and int(low) <= int(high)):
        raise ValueError('must be a range from a lower to a higher status, such as "500-599"')
    return Range(int(low), int(high or low))


def _is_status(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9


_Texts = Annotated[tuple[str, ...] | None, BeforeValidator(_texts)]


class Rule(_Part):
    """One rule: it holds where everything that it asks for holds. What a legacy exit leaves out holds nowhere."""

    kind: LegacyKind
    dispatcher: _Texts = None
    label: _Texts = None
    label_prefix: _Texts = None
    http_status: Annotated[Range | None, BeforeValidator(_range)] = None
    error_class: _Texts = None
    has_queue: bool | None = None
    user_visible: bool | None = None

    @model_validator(mode="after")
    def _check(self) -> "Rule":
        if not self.model_fields_set - {"kind"}:
            raise ValueError(f"asks for nothing; name at least one of {', '.join(_ASKED)}")
        return self

    def holds(self, words: LegacyWords) -> bool:
        """Whether everything that the rule asks for holds of a legacy exit."""
        return self.holds_in(_ASKED, words)

    def holds_in(self, names: Iterable[str], words: LegacyWords) -> bool:
        """Whether what it asks for under these names holds."""
        asked = ((name, getattr(self, name)) for name in names)
        return all(value is None or _ASKED[name](value, words) for name, value in asked)


_ASKED: Mapping[str, Callable[[Any, LegacyWords], bool]] = {
    "dispatcher": lambda asked, words: words.dispatcher in asked,
    "label": lambda asked, words: words.label in asked,
    "label_prefix": lambda asked, words: words.label is not None and words.label.startswith(asked),
    "http_status": lambda asked, words: words.http_status is not None and asked.low <= words.http_status <= asked.high,
    "error_class": lambda asked, words: words.error_class in asked,
    "has_queue": lambda asked, words: bool(words.queue) == asked,
    "user_visible": lambda asked, words: words.user_visible == asked,
}
"""What a rule can ask for, and whether it holds."""


class Example(_Part):
    """A legacy exit and the kind that the mapping must give it."""

    expect: LegacyKind | Literal["unmapped"]
    dispatcher: str | None = None
    label: str | None = None
    http_status: int | None = None
    error_class: str | None = None
    queue: str | None = None
    user_visible: bool | None = None

    @property
    def words(self) -> LegacyWords:
        """The legacy exit."""
        return LegacyWords(**self.model_dump(exclude={"expect"}))


class MappingFile(_Part):
    """The content of a mapping file, as written."""

    id: str = Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=64)
    version: str = Field(min_length=1, max_length=64)
    rules: list[Rule] = Field(min_length=1)
    tests: list[Example] = []


@dataclass(frozen=True)
class LabelMapping:
    """A usable mapping. ``digest`` covers everything but comments, layout and examples."""

    file: MappingFile
    digest: str

    @property
    def ref(self) -> dict[str, str]:
        """The reference that a report carries."""
        return {"id": self.file.id, "version": self.file.version, "digest": self.digest}

    def kind(self, words: LegacyWords) -> str:
        """The kind of the first rule that holds, else ``unmapped``."""
        return next((rule.kind for rule in self.file.rules if rule.holds(words)), UNMAPPED)

    def sql(self) -> str:
        """The same as SQL over the columns of ``legacy_exits``: a String."""
        cases = (f"{_rule_sql(rule)}, {literal(rule.kind)}" for rule in self.file.rules)
        return f"multiIf({', '.join(cases)}, {literal(UNMAPPED)})"


def _rule_sql(rule: Rule) -> str:
    """Never NULL: what a legacy exit leaves out holds nowhere."""
    return " AND ".join(_tests_sql(rule))


def _tests_sql(rule: Rule) -> Iterator[str]:
    for column, texts in (("dispatcher", rule.dispatcher), ("label", rule.label), ("error_class", rule.error_class)):
        if texts is not None:
            yield f"ifNull({column} IN ({literals(texts)}), 0)"
    if rule.label_prefix is not None:
        prefixes = " OR ".join(f"startsWith(label, {literal(prefix)})" for prefix in rule.label_prefix)
        yield f"ifNull({prefixes}, 0)"
    if rule.http_status is not None:
        yield f"ifNull(http_status BETWEEN {rule.http_status.low} AND {rule.http_status.high}, 0)"
    if rule.has_queue is not None:
        yield f"(ifNull(queue, '') != '') = {rule.has_queue:d}"
    if rule.user_visible is not None:
        yield f"ifNull(user_visible = {str(rule.user_visible).lower()}, 0)"


def default_text() -> str:
    """The default mapping's file."""
    return resources.files("shadow").joinpath("mapping.toml").read_text(encoding="utf-8")


def load(text: str) -> LabelMapping:
    """Read a mapping file. Raises MappingError with every problem found, each with its place."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise MappingError([f"not TOML: {error}"]) from None
    except RecursionError:
        raise MappingError(["nested too deeply"]) from None
    try:
        file = MappingFile.model_validate(content)
    except ValidationError as error:
        raise MappingError([_sentence(problem) for problem in error.errors()]) from None
    mapping = LabelMapping(file, _digest(file))
    problems = [*_unreachable(file.rules), *_failed(mapping)]
    if problems:
        raise MappingError(problems)
    return mapping


def _digest(file: MappingFile) -> str:
    content = file.model_dump(mode="json", exclude={"tests"})
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"


def _failed(mapping: LabelMapping) -> Iterator[str]:
    for number, example in enumerate(mapping.file.tests, 1):
        found = mapping.kind(example.words)
        if found != example.expect:
            yield f"test {number}: expected {example.expect}, and the rules say {found}"


# --- rules that nobody can reach


class _Field(NamedTuple):
    """One field of a legacy exit: what of a rule asks for it, and every value of it that some rule can tell apart."""

    names: tuple[str, ...]
    values: list[LegacyWords]


def _unreachable(rules: Sequence[Rule]) -> Iterator[str]:
    """Rules that hold for no legacy exit, or for none but those that an earlier rule holds for."""
    fields = _fields(rules)
    for index, rule in enumerate(rules):
        if not _can_be_reached([_earlier(rules[:index], rule, field) for field in fields]):
            yield f"rule {index + 1} ({rule.kind}): never reached; nothing is left of what it asks for"


def _fields(rules: Sequence[Rule]) -> list[_Field]:
    prefixes, labels = _named(rules, "label_prefix"), _named(rules, "label")
    edges = {edge for rule in rules if rule.http_status for edge in (rule.http_status.low, rule.http_status.high + 1)}
    return [
        _Field(("dispatcher",), _texts_of("dispatcher", _named(rules, "dispatcher"))),
        _Field(
            ("label", "label_prefix"),
            _texts_of("label", [*labels, *prefixes, *(f"{prefix}{_NO_STRING}" for prefix in prefixes)]),
        ),
        _Field(("http_status",), [LegacyWords(http_status=each) for each in (None, -1, *edges)]),
        _Field(("error_class",), _texts_of("error_class", _named(rules, "error_class"))),
        _Field(("has_queue",), [LegacyWords(), LegacyWords(queue="any")]),
        _Field(("user_visible",), [LegacyWords(user_visible=each) for each in (None, True, False)]),
    ]


def _named(rules: Sequence[Rule], field: str) -> list[str]:
    return [each for rule in rules for each in getattr(rule, field) or ()]


def _texts_of(field: str, texts: Iterable[str]) -> list[LegacyWords]:
    given: list[dict[str, Any]] = [{field: each} for each in (None, _NO_STRING, *dict.fromkeys(texts))]
    return [LegacyWords(**each) for each in given]


def _earlier(earlier: Sequence[Rule], rule: Rule, field: _Field) -> set[int]:
    """Which earlier rules hold in a field, as bits, for each of its values in which the rule does."""
    own = [words for words in field.values if rule.holds_in(field.names, words)]
    return {sum(1 << n for n, each in enumerate(earlier) if each.holds_in(field.names, words)) for words in own}


def _can_be_reached(by_field: list[set[int]]) -> bool:
    """Whether some choice of one value per field leaves no earlier rule that holds in all of them."""
    return 0 in reduce(lambda left, right: _least({a & b for a in left for b in right}), by_field)


def _least(sets: set[int]) -> set[int]:
    """Those that contain no other: whatever they lead to, the smaller leads to as well."""
    return {each for each in sets if not any(other != each and other & each == other for other in sets)}


# --- problems as sentences


def _sentence(problem: Mapping[str, Any]) -> str:
    """One pydantic problem as a sentence, a rule or a test by its number."""
    place = [str(part) for part in problem["loc"]]
    if len(place) > 1 and place[0] in ("rules", "tests") and place[1].isdigit():
        place[:2] = [f"{place[0].removesuffix('s')} {int(place[1]) + 1}"]
    words = _WORDS.get(problem["type"])
    return f"{': '.join(place)}: {words.format(**problem.get('ctx', {})) if words else problem['msg']}"


_WORDS = {
    **WORDS,
    "tuple_type": "must be text in quotes, or a list of texts",
    "list_type": "must be a list, each entry below its own heading in double square brackets",
}
"""What pydantic's kinds of problems mean to whoever writes a mapping."""
