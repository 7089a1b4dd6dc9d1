from pathlib import Path

from schemas.events import TerminalEvent
from sinks.columns import event_columns
from sinks.migrations import load_migrations
from sinks.rows import encode_events
from tests.sinks.samples import NOW, event, event_row


def test_the_frozen_view_is_what_the_models_say():
    (views,) = [migration.text for migration in load_migrations() if migration.name == "0005_views.sql"]
    assert event_columns() in views


def test_every_field_of_the_contract_is_a_column(rows_of):
    names = {row["name"] for row in rows_of("DESCRIBE TABLE v_events")}
    # Identity and type of every row are those of the table; spans are read through the text.
    assert set(TerminalEvent.model_fields) - names == {"type", "version", "fencing_token", "span_id"} - names


def test_nested_fields_are_typed_and_instants_are_instants(store, rows_of):
    record = event(
        "nested",
        tenant="nested",
        request={"deadline": NOW, "delegated_permissions": ["a", "b"]},
        tool_calls=[
            {"call_id": "c-1", "started_at": NOW, "attempt": 2, "effect_possible": False},
            {"call_id": "c-2", "tool": "π\n"},
        ],
        policy_decisions=[{"effect": "deny", "decided_at": NOW, "approval": {"state": "expired", "expires_at": -1}}],
        budget={"turns": {"used": 4, "limit": 10}, "deadline_at": NOW, "exhausted": ["turns"]},
        steps=[{"confidence_after": 0.25, "checks": {"format": 1.0}}],
        takeover={"acks": [{"operation_id": "op", "ack": "accepted"}]},
    )
    store.insert("terminal_events", encode_events([event_row(record)]))
    (row,) = rows_of(
        "SELECT request, tool_calls, policy_decisions.decided_at AS decided, policy_decisions.approval AS approvals,"
        " budget, steps, takeover, model, children FROM v_events WHERE tenant = 'nested'"
    )
    moment = "2025-11-30 08:00:00.123457"
    assert row["request"]["deadline"] == moment
    assert row["request"]["delegated_permissions"] == ["a", "b"]
    first, second = row["tool_calls"]
    assert (first["started_at"], first["attempt"], first["effect_possible"]) == (moment, 2, False)
    assert (second["started_at"], second["attempt"], second["tool"]) == (None, None, "π\n")
    assert row["decided"] == [moment]
    assert row["approvals"][0]["expires_at"] == "1969-12-31 23:59:59.999999"
    assert row["budget"]["turns"] == {"used": 4, "limit": 10}
    assert (row["budget"]["deadline_at"], row["budget"]["exhausted"]) == (moment, ["turns"])
    assert row["steps"][0]["checks"] == {"format": 1.0}
    assert row["takeover"]["acks"] == [{"operation_id": "op", "ack": "accepted"}]
    assert set(row["model"].values()) == {None}
    assert row["children"] == []


def test_views_deduplicate_before_they_filter():
    for migration in load_migrations():
        for line in migration.text.splitlines():
            assert "PREWHERE" not in line.upper()
            assert not line.startswith("PARTITION BY")


def test_migration_files_are_numbered_without_a_gap():
    numbers = [int(Path(migration.name).name[:4]) for migration in load_migrations()]
    assert numbers == list(range(1, len(numbers) + 1))
