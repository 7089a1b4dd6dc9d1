"""Texts as literals of the engine's SQL, for statements that are put together from files that users own."""

from collections.abc import Iterable


def literal(text: str) -> str:
    """``text`` as a string literal, whatever it holds.

    Source: ClickHouse's syntax of string literals, in which a backslash escapes.
    """
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\0", "\\0")
    return f"'{escaped}'"


def literals(texts: Iterable[str]) -> str:
    """Several, with commas between them."""
    return ", ".join(map(literal, texts))
