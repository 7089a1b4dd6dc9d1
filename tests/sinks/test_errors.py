import pickle

import pytest
from clickhouse_connect.driver import exceptions

from sinks.engine import (
    DAMAGE_CODES,
    FORBIDDEN_CODES,
    NO_TABLE_CODES,
    OUTAGE_CODES,
    connecting,
    inserting,
    mapped_errors,
    running,
)
from sinks.errors import (
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreForbidden,
    StoreRejected,
    StoreUnavailable,
)

CLIENT_ERRORS = {
    "InterfaceError": StoreUnavailable,
    "OperationalError": StoreUnavailable,
    "StreamFailureError": StoreUnavailable,
    "Error": StoreRejected,
    "DatabaseError": StoreRejected,
    "DataError": StoreRejected,
    "IntegrityError": StoreRejected,
    "InternalError": StoreRejected,
    "ProgrammingError": StoreRejected,
    "NotSupportedError": StoreRejected,
    "StreamClosedError": StoreRejected,
    "ClickHouseError": StoreRejected,
    "Warning": StoreRejected,
}


def client_errors():
    found = (value for value in vars(exceptions).values() if isinstance(value, type))
    return {error.__name__: error for error in found if issubclass(error, exceptions.ClickHouseError)}


def test_every_error_of_the_client_is_mapped():
    assert set(client_errors()) == set(CLIENT_ERRORS)


@pytest.mark.parametrize("name", CLIENT_ERRORS)
def test_an_error_without_a_code_goes_by_its_class(name):
    error = client_errors()[name]
    raised = error() if name == "StreamClosedError" else error("words")
    with pytest.raises(CLIENT_ERRORS[name]), mapped_errors():
        raise raised


@pytest.mark.parametrize("code", sorted(OUTAGE_CODES))
def test_an_outage_is_told_by_its_code_whatever_the_class(code):
    with pytest.raises(StoreUnavailable), mapped_errors():
        raise exceptions.DatabaseError("words", code=code)


@pytest.mark.parametrize("code", sorted(FORBIDDEN_CODES))
def test_who_is_not_let_in_is_told_apart_from_bad_rows(code):
    with pytest.raises(StoreForbidden, match=r"^words; \w+"), mapped_errors():
        raise exceptions.DatabaseError("words", code=code)


@pytest.mark.parametrize("code", sorted(NO_TABLE_CODES))
def test_a_missing_table_is_no_fault_of_the_rows(code):
    with pytest.raises(StoreDamaged, match=r"^table t is not as this program made it: words; restore"), inserting("t"):
        raise exceptions.DatabaseError("words", code=code)
    with pytest.raises(StoreDamaged, match=r"^the store is not as this program made it: words; restore"), running():
        raise exceptions.DatabaseError("words", code=code)
    with pytest.raises(StoreRejected, match=r"^words$"), mapped_errors():
        raise exceptions.DatabaseError("words", code=code)


@pytest.mark.parametrize("doing", [lambda: inserting("t"), running], ids=["inserting", "running"])
def test_a_user_that_may_not_write_is_no_fault_of_what_is_written(doing):
    with pytest.raises(StoreForbidden, match=r"^words; use a user that may write$"), doing():
        raise exceptions.DatabaseError("words", code=164)


def test_a_database_that_is_not_there_is_said_with_what_to_do():
    with pytest.raises(StoreRejected, match=r"^words; correct store\.database, .*`offramp init`$"), connecting():
        raise exceptions.DatabaseError("words", code=81)
    with pytest.raises(StoreRejected, match=r"^words$"), connecting():
        raise exceptions.DatabaseError("words", code=62)


def test_what_takes_too_long_is_said_with_what_to_do():
    with pytest.raises(StoreUnavailable, match=r"^words; the server's max_execution_time"), mapped_errors():
        raise exceptions.DatabaseError("words", code=159)
    error = exceptions.OperationalError("Error executing HTTP request")
    error.__cause__ = TimeoutError("Read timed out. (read timeout=1)")
    with pytest.raises(StoreUnavailable, match=r"=1\); ask for less, or raise store\.timeout_s$"), mapped_errors():
        raise error


@pytest.mark.parametrize("error", [
    exceptions.ProgrammingError("Setting x is readonly"),
    exceptions.DatabaseError("HTTP driver received HTTP status 404"),
])  # fmt: skip
def test_what_never_reached_the_engine_is_no_fault_of_the_rows(error):
    with pytest.raises(StoreUnavailable, match="did not come as far as the engine"), inserting("t"):
        raise error


def test_half_of_a_body_that_is_too_large_may_be_taken():
    with pytest.raises(StoreRejected), inserting("t"):
        raise exceptions.DatabaseError("HTTP driver received HTTP status 413")


@pytest.mark.parametrize(("status", "kind"), [
    (401, StoreForbidden), (403, StoreForbidden), (404, StoreRejected), (408, StoreUnavailable),
    (429, StoreUnavailable), (499, StoreRejected), (500, StoreUnavailable), (502, StoreUnavailable),
])  # fmt: skip
def test_an_answer_that_the_engine_did_not_give_goes_by_its_status(status, kind):
    with pytest.raises(kind), mapped_errors():
        raise exceptions.DatabaseError(f"HTTP driver received HTTP status {status}")


def test_a_server_says_it_in_the_words_of_the_engine():
    words = "Received ClickHouse exception, code: 27, server response: Code: 27. DB::Exception: wrong value"
    with pytest.raises(StoreRejected, match=r"^27\. wrong value$"), mapped_errors():
        raise exceptions.DatabaseError(words, code=27)


def test_a_broken_connection_says_what_broke_it():
    error = exceptions.OperationalError("Error executing HTTP request")
    error.__cause__ = ConnectionResetError("reset by peer")
    with pytest.raises(StoreUnavailable, match=r"^the store cannot be reached: reset by peer$"), mapped_errors():
        raise error


@pytest.mark.parametrize("code", sorted(DAMAGE_CODES))
def test_damage_is_told_by_its_code_where_something_is_read(code):
    words = f"Code: {code}. DB::Exception: Cannot read all data: (while reading column x): (in table default.t)"
    with pytest.raises(StoreDamaged, match=r"^table t is damaged: Cannot read all data; restore"), mapped_errors():
        raise exceptions.DatabaseError(words, code=code)
    with pytest.raises(StoreRejected), mapped_errors():
        raise exceptions.DatabaseError(f"Code: {code}. DB::Exception: Cannot read all data", code=code)


def test_a_bad_row_is_told_by_its_code_whatever_the_class():
    with pytest.raises(StoreRejected, match=r"^27\. wrong value"), mapped_errors():
        raise exceptions.OperationalError("Code: 27. DB::Exception: wrong value", code=27)


def test_a_missing_engine_says_what_to_install():
    with pytest.raises(StoreRejected, match=r"offramp\[embedded\]"), mapped_errors():
        raise ModuleNotFoundError("chdb")


def test_a_full_disk_is_an_outage():
    with pytest.raises(StoreUnavailable, match="No space"), mapped_errors():
        raise OSError(28, "No space left on device")


def test_a_bug_of_ours_stays_what_it_is():
    with pytest.raises(ZeroDivisionError), mapped_errors():
        raise ZeroDivisionError


def test_busy_travels_between_processes():
    error = pickle.loads(pickle.dumps(StoreBusy("dir", "`load` (pid 1)")))  # noqa: S301 -- our own bytes
    assert (error.holder, str(error)) == ("`load` (pid 1)", "the store in dir is in use by `load` (pid 1)")
    assert isinstance(error, StoreError)
