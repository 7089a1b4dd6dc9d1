"""Headers of a message, in which a name may stand several times, as a map with each name once, and back."""

import re
from collections import Counter
from collections.abc import Mapping

from streams.kafka.seam import Headers

_NUMBERED = re.compile(r"(.*)\[([0-9]+)\]", re.DOTALL)


def by_name(headers: Headers) -> dict[str, bytes]:
    """Headers by name, in order; the second of a name is kept under ``name[1]``, the third under ``name[2]``.

    A name that ends like that by itself is numbered from ``[0]`` on, so that it hides no other. No value is an empty
    one.
    """
    found: dict[str, bytes] = {}
    seen: Counter[str] = Counter()
    for name, value in headers:
        plain = not seen[name] and not _NUMBERED.fullmatch(name)
        found[name if plain else f"{name}[{seen[name]}]"] = value or b""
        seen[name] += 1
    return found


def in_order(stored: Mapping[str, bytes]) -> Headers:
    """The headers that :func:`by_name` made a map of."""
    return tuple((_name(stored_as, stored), value) for stored_as, value in stored.items())


def _name(stored_as: str, stored: Mapping[str, bytes]) -> str:
    numbered = _NUMBERED.fullmatch(stored_as)
    return numbered[1] if numbered and (numbered[1] in stored or _NUMBERED.fullmatch(numbered[1])) else stored_as
