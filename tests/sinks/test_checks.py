import pytest

from sinks import checks, server
from sinks.checks import Check, check_server
from sinks.double import Account, RoleName, start_double
from sinks.server import Server, User, open_server
from tests.sinks.samples import NOW

ACCOUNTS = [
    Account("default", "all"),
    Account("writer", "w", RoleName.WRITER),
    Account("reader", "r", RoleName.READER),
]
WRITER, READER = User("writer", "w"), User("reader", "r")


@pytest.fixture(scope="module")
def double(tmp_path_factory):
    with start_double(tmp_path_factory.mktemp("checks"), ACCOUNTS) as running:
        yield running


@pytest.fixture(scope="module")
def theirs(double):
    """The server's own clock, made its tables on the way."""
    with open_server(Server(double.url, User("default", "all")), lambda: NOW) as store:
        store.migrate()
        offset = store._rows("SELECT toUnixTimestamp64Micro(now64(6)) AS now")[0]["now"]
        began = _monotonic()
    return lambda: offset + _monotonic() - began


def _monotonic():
    from streams.clock import SystemClock  # noqa: PLC0415 -- the only place that reads the clock

    return int(SystemClock().monotonic() * 1e6)


def found(double, now, **given):
    return check_server(Server(**{"url": double.url, "writer": WRITER, "reader": READER, **given}), now)


def codes(*args, **given):
    return [finding.code for finding in found(*args, **given)]


def test_a_server_that_is_as_it_should_be(double, theirs):
    assert found(double, theirs) == []


def test_nobody_there(theirs):
    (finding,) = check_server(Server("http://127.0.0.1:1"), theirs)
    assert (finding.code, finding.stops, "refused" in finding.what) == (Check.UNREACHABLE, True, True)


@pytest.mark.parametrize("given", [{"writer": User("writer", "x")}, {"reader": User("reader", "x")},
                                   {"database": "nowhere"}, {"url": "nonsense"}])  # fmt: skip
def test_not_let_in(double, theirs, given):
    assert codes(double, theirs, **given) == [Check.NOT_LET_IN]


def test_an_old_server(double, theirs, monkeypatch):
    monkeypatch.setattr(checks, "OLDEST", (99, 1))
    (finding,) = found(double, theirs)
    assert (finding.code, finding.remedy) == (Check.OLD_SERVER, "upgrade it to 99.1 or newer")


@pytest.mark.parametrize(("settings", "code"), [
    ({"async_insert": 1, "wait_for_async_insert": 0}, [Check.INSERTS_NOT_AWAITED]),
    ({"async_insert": 1, "wait_for_async_insert": 1}, []),
    ({"async_insert": 0, "wait_for_async_insert": 0}, []),
    ({"session_timezone": "Asia/Kolkata"}, [Check.TIME_ZONE]),
    ({"session_timezone": ""}, [Check.TIME_ZONE]),
    ({"input_format_null_as_default": 1}, [Check.NULL_AS_DEFAULT]),
])  # fmt: skip
def test_a_session_that_is_not_as_asked_for(double, theirs, monkeypatch, settings, code):
    monkeypatch.setattr(server, "_WRITING", server._WRITING | settings)
    assert codes(double, theirs) == code


def test_a_reader_that_only_our_request_keeps_from_writing(double, theirs):
    findings = found(double, theirs, reader=None), found(double, theirs, reader=User("default", "all"))
    assert [[(one.code, one.stops) for one in each] for each in findings] == [[(Check.READER_WRITES, False)]] * 2
    assert "user default, which is not read-only" in findings[1][0].what


@pytest.mark.parametrize(("seconds", "words"), [(8, "behind ours"), (-8, "ahead of ours"), (3, None), (-3, None)])
def test_clocks_that_differ(double, theirs, seconds, words):
    findings = found(double, lambda: theirs() + seconds * 1_000_000)
    assert [one.code for one in findings] == ([Check.CLOCK_SKEW] if words else [])
    assert all(words in one.what and not one.stops for one in findings)


def test_a_writer_with_more_rights_than_it_needs(double, theirs):
    assert codes(double, theirs, writer=User("default", "all")) == [Check.MAY_DROP]


def test_a_writer_with_fewer_rights_than_it_needs(double, theirs, monkeypatch):
    monkeypatch.setattr(server.ServerEngine, "is_granted", lambda _, privilege, table: table == "dead_letters")
    (finding,) = found(double, theirs)
    assert finding.code is Check.MAY_NOT_INSERT
    assert "terminal_events" in finding.what
    assert "dead_letters" not in finding.what


def test_tables_that_are_missing_lost_of_another_edition_or_of_another_zone(tmp_path, theirs):
    with start_double(tmp_path) as fresh:
        given = Server(fresh.url, reader=None)

        def seen():
            return [one.code for one in check_server(given, theirs) if one.stops]

        assert seen() == [Check.TABLES_MISSING]
        with open_server(given, lambda: NOW) as store:
            store.migrate()
            assert seen() == []
            command = store._engine.command
            command("ALTER TABLE dead_letters ADD COLUMN local DateTime")
            assert seen() == [Check.TIME_ZONE]
            command("DROP TABLE dead_letters SYNC")
            assert seen() == [Check.TABLES_MISSING]
            command("INSERT INTO schema_migrations VALUES ('9999_x.sql', 'd', now())")
            assert seen() == [Check.OTHER_EDITION]


def test_a_server_that_stops_answering_meanwhile(double, theirs):
    double.refuse(241, on="now64", times=None)
    try:
        assert codes(double, theirs) == [Check.UNREACHABLE]
    finally:
        double.clear()
