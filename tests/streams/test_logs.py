import io
import json
import logging

import pytest

from streams.logs import log_to


@pytest.fixture
def lines():
    stream, root = io.StringIO(), logging.getLogger()
    handlers, level = root.handlers[:], root.level
    log_to(stream)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    root.handlers[:], root.level = handlers, level


def test_one_json_object_a_line(lines):
    logging.getLogger("some.module").warning("skipped %d", 2, extra={"reason_code": "bad_json", "path": object()})
    (line,) = lines()
    assert line["at"].endswith("Z")
    assert {name: line[name] for name in ("level", "logger", "message", "reason_code")} == {
        "level": "warning", "logger": "some.module", "message": "skipped 2", "reason_code": "bad_json"
    }  # fmt: skip
    assert line["path"].startswith("<object")


def test_an_exception_brings_its_trace_and_stays_on_one_line(lines):
    try:
        int("two\nlines")
    except ValueError:
        logging.getLogger("some.module").exception("failed")
    (line,) = lines()
    assert "ValueError: invalid" in line["error"]
    assert (line["level"], line["message"]) == ("error", "failed")


def test_that_the_loop_of_a_client_waits_its_turn_is_no_warning(lines):
    logging.getLogger("kafka.net.selector").warning("Task ran for 0.324s (>0.100s threshold)")
    assert lines() == []


def said(name, at, message, *args):
    record = logging.makeLogRecord({"name": name, "levelno": logging.ERROR, "levelname": "ERROR", "msg": message})
    record.args, record.created = args, at
    logging.getLogger(name).handle(record)


def test_what_a_client_says_again_and_again_is_logged_once_a_minute(lines):
    for at in (0.0, 2.0, 59.9, 60.0, 61.0, 120.0):
        said("kafka.net.manager", at, "Connection failed: %s", f"attempt at {at}")
    assert [(line["message"][-5:], line.get("repeated")) for line in lines()] == [
        ("t 0.0", None), (" 60.0", 2), ("120.0", 1)
    ]  # fmt: skip


def test_what_differs_is_logged_each_time(lines):
    for name, message in (("kafka.a", "x"), ("kafka.b", "x"), ("kafka.a", "y"), ("streams.a", "x"), ("streams.a", "x")):
        said(name, 1.0, message)
    assert [line["logger"] for line in lines()] == ["kafka.a", "kafka.b", "kafka.a", "streams.a", "streams.a"]
