"""Parts of a rise: right by hand where there is one cause, against a naive Shapley value where there are several."""

from collections import defaultdict
from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.causes import MOST_VALUES, OTHER, Exits, Factor, Label, Share, exits_of, rise

POLICY = Label(Factor.POLICY, "refund")
CAPACITY = Label(Factor.REASON, "model_declined")


def exits(is_current, cases, n, label=POLICY, version="7", **fields):
    """``n`` exits of which ``cases`` are cases, all by one version of the policy (None: nobody was asked)."""
    given_fields = {
        "tenant": "acme", "workflow": "pay", "agent_version": "1", "table": "default 1", "classifier": "0.1.0",
        "versions": () if version is None else (("refund", version),), "carrier": "",
    } | fields  # fmt: skip
    return [
        Exits(is_current, **given_fields, labels=(label,), n=cases),
        Exits(is_current, **given_fields, labels=(), n=n - cases),
    ]


def before(*arguments, **fields):
    return exits(False, *arguments, **fields)  # noqa: FBT003 -- reads as what it is


def now(*arguments, **fields):
    return exits(True, *arguments, **fields)  # noqa: FBT003 -- the same


def parts(found):
    return {part.factor: pytest.approx(part.size) for part in found.parts if abs(part.size) > 1e-9}


def test_a_new_version_that_denies_more_is_the_cause():
    found = rise(before(50, 1000) + now(300, 1000, version="8"))
    assert (found.before, found.now, found.size) == (Share(50, 1000), Share(300, 1000), pytest.approx(0.25))
    assert parts(found) == {Factor.POLICY_VERSION: 0.25}
    assert found.named.values == (("refund@8", pytest.approx(0.25)),)
    assert found.sentence == (
        "5.0% (50 of 1000) before, 30.0% (300 of 1000) now. policy version refund@8: +25.0 of +25.0 points."
    )
    assert found.contributors == (("policy version refund@8", pytest.approx(0.25)),)


def test_a_new_version_that_denies_as_before_is_not():
    more = now(150, 500, version="8") + now(150, 500, version="7")
    found = rise(before(50, 1000) + more)
    # Half of the runs have the new version, and both deny alike now: the old one's rise is the policy's.
    assert parts(found) == {Factor.POLICY_VERSION: 0.5 * (0.3 - 0.175), Factor.POLICY: 0.75 * 0.25}
    assert found.named.factor is Factor.POLICY


def test_a_policy_that_denies_more_at_the_same_version():
    found = rise(before(50, 1000) + now(300, 1000))
    assert parts(found) == {Factor.POLICY: 0.25}
    assert found.named.values[0][0] == "refund"


def test_refusals_without_a_policy_are_laid_to_their_reason():
    found = rise(before(50, 1000) + now(40, 800) + now(100, 200, label=CAPACITY))
    assert parts(found) == {Factor.POLICY: -0.01, Factor.REASON: 0.1}
    assert found.sentence.endswith("reason model_declined: +10.0 of +9.0 points.")


def test_more_runs_of_a_workflow_that_is_refused_more_are_request_mix():
    busy = {"workflow": "pay_out", "tenant": "acme"}
    found = rise(before(20, 900) + before(40, 100, **busy) + now(20, 900) + now(360, 900, **busy))
    # From a tenth of the runs to a half, at rates of 40 % and 2.2 %.
    assert parts(found) == {Factor.WORKFLOW: (0.5 - 0.1) * (0.4 - 20 / 900)}
    assert found.named.values[0][0] == "pay_out"


def test_what_came_together_is_shared():
    together = {"table": "default 2", "classifier": "0.2.0"}
    found = rise(before(10, 100) + now(40, 100, **together))
    assert parts(found) == {Factor.TABLE: 0.15, Factor.CLASSIFIER: 0.15}


def test_a_version_that_only_denials_tell_of():
    """Where allowed runs record nothing, a rise of denials must not look like a version that spreads."""

    def told(is_current, cases, n, version):
        denied, allowed = exits(is_current, cases, n, version=version)
        return [denied, allowed._replace(versions=())]

    same = rise(told(False, 50, 1000, "7") + told(True, 300, 1000, "7"))  # noqa: FBT003 -- as above
    assert parts(same) == {Factor.POLICY: 0.25}
    new = rise(told(False, 50, 1000, "7") + told(True, 300, 1000, "8"))  # noqa: FBT003 -- as above
    assert parts(new) == {Factor.POLICY_VERSION: 0.3, Factor.POLICY: -0.05}


def test_runs_that_ended_before_the_policy_was_asked_say_nothing_of_its_version():
    early = {"version": None, "label": CAPACITY}
    found = rise(before(50, 500) + before(0, 500, **early) + now(50, 500) + now(200, 500, **early))
    assert parts(found) == {Factor.REASON: 0.2}


def test_a_policy_that_is_new():
    found = rise(before(0, 1000, version=None) + now(200, 1000, version="1"))
    assert parts(found) == {Factor.POLICY_VERSION: 0.2}


def test_several_paths_share_a_case_and_the_carrier_is_named():
    timeout, error = Label(Factor.PATH, "tax: timeout"), Label(Factor.PATH, "erp: error")
    case = now(20, 20)[0]._replace(labels=(timeout, error), carrier="tax-cache@4")
    found = rise([*before(10, 100, label=timeout, carrier="tax-cache@3"), case, *now(0, 80)])
    assert parts(found) == {Factor.PATH: 0.1}
    assert dict(found.named.values) == {"erp: error": pytest.approx(0.1), "tax: timeout": pytest.approx(0.0)}
    assert found.carriers == (("tax-cache@4", pytest.approx(0.2)), ("tax-cache@3", pytest.approx(-0.1)))
    assert "primary path erp: error, carried by tax-cache@4: +10.0 of +10.0 points" in found.sentence


def test_a_fall_names_what_lowers_the_share():
    rows = before(50, 100, label=CAPACITY) + before(50, 100) + now(45, 100, label=CAPACITY) + now(0, 100)
    found = rise(rows, is_fall=True)
    assert found.named.factor is Factor.POLICY
    assert found.named.size == pytest.approx(-0.25)
    assert rise(rows).named is None
    assert rise(rows).sentence.endswith("Nothing rose.")


def test_the_window_is_named_where_it_is_known():
    since = 1_796_025_659_999_999  # 2026-11-30 08:00:59.999999
    found = rise([*before(5, 100), *now(30, 100)], since=since)
    assert found.sentence.startswith("5.0% (5 of 100) before, 30.0% (30 of 100) since 2026-11-30 08:00 UTC. policy")
    alone = rise(now(30, 100), since=since)
    assert alone.sentence.startswith("30.0% (30 of 100) since 2026-11-30 08:00 UTC; nothing to compare with. policy")


def test_nothing_to_compare_with():
    found = rise(now(30, 100))
    assert parts(found) == {Factor.POLICY: 0.3}
    assert found.sentence.startswith("30.0% (30 of 100) now; nothing to compare with. policy refund")
    for rows in ([], before(30, 100)):
        nothing = rise(rows)
        assert (nothing.size, nothing.named) == (0.0, None)
        assert nothing.sentence.endswith("Nothing rose.")


def test_rare_values_count_as_one():
    many = [row for number in range(40) for row in before(0, 100, tenant=f"t{number:02}")]
    found = rise(many + now(50, 100, tenant="t39") + now(0, 900, tenant="t38") + now(50, 200, tenant="t37"))
    assert abs(sum(part.size for part in found.parts) - found.size) < 1e-9
    (tenants,) = [dict(part.values) for part in found.parts if part.factor is Factor.TENANT]
    assert {"t37", "t39"} <= tenants.keys()
    assert len(tenants) <= MOST_VALUES
    rare = rise(many + [row for number in range(40) for row in now(10 * (number > 20), 10, tenant=f"new{number}")])
    (tenants,) = [dict(part.values) for part in rare.parts if part.factor is Factor.TENANT]
    # From 28 of 40 runs to all, at a rate between none before and 19 of 40 now.
    assert tenants == {OTHER: pytest.approx((1 - 28 / 40) * (0 + 19 / 40) / 2)}


def test_rows_of_the_store_become_exits():
    row = {
        "is_current": 1, "tenant": "t", "workflow": "", "agent_version": "", "table": "d 1", "classifier": "0",
        "versions": [["p", "7"]], "labels": [["policy", "p"], ["missing evidence", "x"]], "carrier": "", "n": 3,
    }  # fmt: skip
    labels = (Label(Factor.POLICY, "p"), Label(Factor.GAP, "x"))
    assert exits_of([row]) == [Exits(True, "t", "", "", "d 1", "0", (("p", "7"),), labels, "", 3)]  # noqa: FBT003


# --- against a naive reading

windows = st.booleans()
rows_of_runs = st.lists(
    st.builds(
        Exits,
        is_current=windows,
        tenant=st.sampled_from("ab"),
        workflow=st.sampled_from("xy"),
        agent_version=st.sampled_from(["", "2"]),
        table=st.just("t"),
        classifier=st.just("c"),
        versions=st.just(()),
        labels=st.sampled_from([(), (), (CAPACITY,), (Label(Factor.REASON, "other"), CAPACITY)]),
        carrier=st.just(""),
        n=st.integers(0, 30),
    ),
    max_size=12,
)
ATTRIBUTES = {Factor.WORKFLOW: "workflow", Factor.TENANT: "tenant", Factor.AGENT_VERSION: "agent_version"}


def composition(rows, chosen):
    """Kitagawa's effect of the composition by some attributes, from its definition."""
    counts = {window: defaultdict(lambda: [0, 0]) for window in (True, False)}
    for row in rows:
        cell = counts[row.is_current][tuple(getattr(row, ATTRIBUTES[factor]) for factor in chosen)]
        cell[0] += row.n
        cell[1] += row.n if row.labels else 0
    totals = {window: sum(n for n, _ in cells.values()) for window, cells in counts.items()}
    effect = 0.0
    for cell in counts[True].keys() | counts[False].keys():
        found = {window: counts[window][cell] for window in (True, False)}
        rates = [cases / n for n, cases in found.values() if n]
        if rates:
            change = found[True][0] / totals[True] - found[False][0] / totals[False]
            effect += change * sum(rates) / len(rates)
    return effect


@given(rows_of_runs)
def test_parts_of_attributes_are_shapley_values(rows):
    found = rise(rows)
    assert abs(sum(part.size for part in found.parts) - found.size) < 1e-9
    if not (found.before.exits and found.now.exits):
        return
    orders = list(permutations(ATTRIBUTES))
    sizes = {part.factor: part.size for part in found.parts}
    for factor in ATTRIBUTES:
        added = [
            composition(rows, order[: order.index(factor) + 1]) - composition(rows, order[: order.index(factor)])
            for order in orders
        ]
        assert abs(sizes.get(factor, 0.0) - sum(added) / len(orders)) < 1e-9


@given(rows_of_runs, st.randoms(use_true_random=False))
def test_neither_order_nor_grouping_matters(rows, random):
    split = [piece for row in rows for piece in (row._replace(n=row.n // 3), row._replace(n=row.n - row.n // 3))]
    random.shuffle(split)
    one, other = rise(rows), rise(split)
    assert (one.before, one.now) == (other.before, other.now)
    sizes = [{part.factor: part.size for part in found.parts} for found in (one, other)]
    for factor in sizes[0].keys() | sizes[1].keys():
        assert abs(sizes[0].get(factor, 0.0) - sizes[1].get(factor, 0.0)) < 1e-9


def test_every_order_of_two_windows_sums_up():
    for cases, more in product((0, 5, 10), repeat=2):
        found = rise(before(cases, 10) + now(more, 10, version="8", workflow="other"))
        assert abs(sum(part.size for part in found.parts) - (more - cases) / 10) < 1e-9
