import pytest

from sinks.double.faults import Fault, FaultKind, FaultPlan, fault_from


def kinds(plan, statement):
    return [fault.kind for fault in plan.due(statement)]


def test_a_fault_is_for_some_statements_after_some_and_so_often():
    plan = FaultPlan()
    plan.add(Fault(FaultKind.REFUSE, code=252, on="^insert into ingest_ledger", after=1, times=2))
    met = [bool(kinds(plan, f"INSERT INTO {table}")) for table in ("dead_letters", *["ingest_ledger"] * 5)]
    assert met == [False, False, True, True, False, False]


def test_for_ever_is_until_it_is_cleared():
    plan = FaultPlan()
    plan.add(Fault(FaultKind.STATUS, code=503, times=None))
    assert [bool(kinds(plan, "INSERT")) for _ in range(5)] == [True] * 5
    plan.clear()
    assert kinds(plan, "INSERT") == []


def test_one_request_meets_one_fault_and_any_delay():
    plan = FaultPlan()
    for kind in (FaultKind.REFUSE, FaultKind.DELAY, FaultKind.STATUS, FaultKind.DELAY):
        plan.add(Fault(kind))
    assert kinds(plan, "INSERT") == [FaultKind.DELAY, FaultKind.DELAY, FaultKind.REFUSE]
    assert kinds(plan, "INSERT") == [FaultKind.STATUS]
    assert kinds(plan, "INSERT") == []


def test_what_is_cut_before_it_is_read_is_asked_for_apart():
    plan = FaultPlan()
    plan.add(Fault(FaultKind.CUT_BEFORE))
    assert kinds(plan, "INSERT") == []
    assert [plan.due_unread("INSERT") for _ in range(2)] == [True, False]


@pytest.mark.parametrize("kind", FaultKind)
def test_a_fault_travels_as_json(kind):
    fault = Fault(kind, code=1, seconds=0.5, on="x", after=2, times=None)
    assert fault_from(fault.as_json()) == fault
    with pytest.raises(TypeError):
        fault_from(fault.as_json() | {"nonsense": 1})
    with pytest.raises(ValueError, match="nonsense"):
        fault_from(fault.as_json() | {"kind": "nonsense"})
