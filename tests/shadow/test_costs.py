"""The file of costs: what is no amount, and amounts that only look odd."""

from decimal import Decimal

import pytest

from shadow.costs import CostsError, parse

CELL = 'unit = "EUR"\n[[cells]]\nlegacy = "completed"\nnew = "completed"\ncost = '


@pytest.mark.parametrize(
    "written", ["-1", "-0.000001", "nan", "inf", "1e400", "0.0000001", "1000000000.1", "true", '"5"']
)
def test_what_is_no_amount_is_refused_with_its_place(written):
    with pytest.raises(CostsError, match=r"^cell 1: cost: must be "):
        parse(CELL + written)


@pytest.mark.parametrize(
    ("written", "amount"), [("-0.0", "0.0"), ("-0", "0"), ("1e-6", "0.000001"), ("5e2", "500"), ("1000000000", "1E+9")]
)
def test_an_amount_is_read_exactly_and_nothing_has_no_sign(written, amount):
    cost = parse(CELL + written).cells[0].cost
    assert (cost, cost.is_signed()) == (Decimal(amount), False)
