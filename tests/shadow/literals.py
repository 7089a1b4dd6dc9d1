"""Values of rows as literals of the engine."""

from shadow.literal import literal


def value(given):
    if given is None:
        return "NULL"
    if isinstance(given, list):
        return f"[{', '.join(map(value, given))}]"
    return literal(given) if isinstance(given, str) else str(given)
