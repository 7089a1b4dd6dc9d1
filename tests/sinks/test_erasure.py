"""How erasing finds a text in bytes, that no table is forgotten, and who may do it."""

import io
import json

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.double import Account, RoleName, start_double
from sinks.erasure import KEPT, TABLES, Subject, _needles, erase, find
from sinks.errors import StoreForbidden
from sinks.migrations import load_migrations
from sinks.rows import encode_events
from sinks.server import Server, User, open_server
from tests.sinks.samples import NOW, event, event_row


def test_every_table_is_erased_in_or_says_why_not():
    made = {name for migration in load_migrations() for name in migration.made if not name.startswith("v_")}
    assert made <= TABLES | set(KEPT)
    assert not TABLES & set(KEPT)


@given(st.text(max_size=200))
def test_a_text_is_found_as_json_and_as_avro(text):
    needles = _needles(text)
    written = io.BytesIO()
    fastavro.schemaless_writer(written, "string", text)
    for encoded in (json.dumps(text), json.dumps(text, ensure_ascii=False)):
        assert any(bytes.fromhex(needle) in encoded.encode() for needle in needles.of_json)
    assert bytes.fromhex(needles.of_avro) == written.getvalue()


def test_a_longer_text_is_another_one():
    assert not any(bytes.fromhex(n) in b'{"run_id": "run-12", "x": "a run-1"}' for n in _needles("run-1").of_json)


@pytest.mark.parametrize("subject", [Subject("acme", actor=""), Subject("acme", run_id=""), Subject("", run_id="r")])
def test_an_empty_name_means_nobody(subject):
    with pytest.raises(ValueError, match="empty name"):
        _ = subject.parameters


def test_on_a_store_of_either_form(store, rows_of):
    store._engine.command("TRUNCATE TABLE terminal_events")
    records = [event(f"erase-{n}", run_id="run-e", request={"actor": "jane", "prose": "words"}) for n in range(2)]
    store.insert("terminal_events", encode_events([event_row(record) for record in [*records, event("erase-2")]]))
    subject = Subject("acme", actor="jane")
    assert find(store, subject).still["terminal_event"] == 2
    assert "terminal_events" in list(erase(store, subject, NOW))
    assert find(store, Subject("acme", run_id="run-e")).still["terminal_event"] == 0
    assert rows_of("SELECT sum(records) AS n FROM v_erasures WHERE record_type = 'terminal_event'")[0]["n"] == 2
    assert rows_of("SELECT count() AS n FROM terminal_events WHERE event LIKE '%words%'") == [{"n": 0}]
    store._engine.command("TRUNCATE TABLE terminal_events")


def test_whoever_may_not_alter_tables_overwrites_nothing(tmp_path):
    accounts = [Account("maker", "m", RoleName.MIGRATOR), Account("writer", "w", RoleName.WRITER)]
    subject = Subject("acme", run_id="run-e")
    with start_double(tmp_path, accounts) as double:
        with open_server(Server(double.url, writer=User("maker", "m")), lambda: NOW) as store:
            store.migrate()
            store.insert("terminal_events", encode_events([event_row(event("e", run_id="run-e"))]))
        with (
            open_server(Server(double.url, writer=User("writer", "w")), lambda: NOW) as store,
            pytest.raises(StoreForbidden),
        ):
            list(erase(store, subject, NOW))
        with open_server(Server(double.url, writer=User("maker", "m")), lambda: NOW) as store:
            assert find(store, subject).still["terminal_event"] == 1
            assert list(erase(store, subject, NOW)) == ["terminal_events"]
