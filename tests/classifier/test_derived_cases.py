"""Events that were labelled from the contract's text alone, clause by clause, by somebody who had not seen the code.

``derived.jsonl`` has the format of table tests; some of its titles retell public reports, named as ``source``. Events
that were labelled after the first run say so in their title.
"""

import json
from pathlib import Path

import pytest

from classifier.labels import mismatches, read
from tests.classifier.answers import default_classifier

LINES = Path(__file__).with_name("derived.jsonl").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("start", range(0, len(LINES), 20))
def test_events_end_as_the_text_says(start):
    for line in LINES[start : start + 20]:
        labelled, event = read(json.loads(line))
        classification = default_classifier().classify(event).classification
        assert not list(mismatches(labelled, classification)), (labelled.case, labelled.variant)
