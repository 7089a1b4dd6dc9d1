"""Reading a TOML file against a model, with every problem as a sentence that says where and why."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from schemas.problems import WORDS

Model = TypeVar("Model", bound=BaseModel)


class Part(BaseModel):
    """A table of a file. Each of its keys is known, and has the type that it should have."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class FileError(ValueError):
    """A file that cannot be used. ``problems`` are sentences, each with its place."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def parse(text: str, model: type[Model]) -> Model:
    """Read a file. Raises FileError with every problem found."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FileError([f"not TOML: {error}"]) from None
    except RecursionError:
        raise FileError(["nested too deeply"]) from None
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise FileError([_sentence(problem, content) for problem in error.errors()]) from None


def place(kind: str, number: int, name: object) -> str:
    """Where the table ``[[KINDs]]`` of this number, from 1 on, stands."""
    return f"{kind} {number} ({name})" if isinstance(name, str) and name else f"{kind} {number}"


def _sentence(problem: Mapping[str, Any], content: Any) -> str:
    words = _WORDS.get(problem["type"])
    bounds = {name: _plain(value) for name, value in problem.get("ctx", {}).items()}
    reason = words.format(**bounds) if words else problem["msg"]
    return ": ".join([*_where(problem["loc"], content), reason])


def _where(loc: Sequence[str | int], content: Any) -> Iterator[str]:
    """A place in words: tables of a list by their number and their own id or name."""
    before = ""
    for step in loc:
        content = _inside(content, step)
        if isinstance(step, int):
            name = content.get("id", content.get("name")) if isinstance(content, dict) else None
            yield place(before if before == "series" else before.removesuffix("s"), step + 1, name)
        elif step == loc[-1] or not isinstance(content, list):
            yield step
        before = str(step)


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _inside(content: Any, step: str | int) -> Any:
    try:
        return content[step]
    except (KeyError, IndexError, TypeError):
        return None


_WORDS = {
    **WORDS,
    "int_from_float": "must be a whole number",
    "finite_number": "must be a finite number",
    "dict_type": "must be a table",
    "model_type": "must be a table",
    "enum": "must be {expected}",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
}
"""What pydantic's kinds of problems mean to whoever writes the file."""
