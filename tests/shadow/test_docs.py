"""The page about the comparison names what the code has."""

import re
from pathlib import Path

import pytest

from shadow.disagreement import HARMS, OWNERS, ROWS, UNCLASSIFIED
from shadow.mapping import MappingError, Rule, load

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "explanation/shadow.md").read_text("utf-8")


def test_the_table_of_disagreements_is_that_of_the_code():
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \| (\w+) \|$", PAGE, re.MULTILINE)
    assert [row[0] for row in rows] == [*(row.name for row in ROWS), UNCLASSIFIED]
    assert {row[0]: row[3] for row in rows} == OWNERS
    for row, (_, new, legacy, _) in zip(ROWS, rows, strict=False):
        flags = ([row.only_if] if row.only_if else []) + ([f"not {row.unless}"] if row.unless else [])
        assert new.split(", ") == [*row.kinds, *flags]
        retried = ["or retried" if row.legacy_kinds else "retried"] if row.by_retry else []
        assert legacy.split(", ") == [*row.legacy_kinds, *retried]


def test_every_harm_is_named():
    assert all(f"`{harm}`" in PAGE for harm in HARMS.values())


def test_the_mapping_on_its_page_is_one():
    page = (DOCS / "reference/label-mapping.md").read_text("utf-8")
    blocks = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    assert load(blocks[1]).file.id == "billing"
    with pytest.raises(MappingError):
        load(blocks[0])
    assert all(f"| `{name}` |" in page for name in Rule.model_fields)
