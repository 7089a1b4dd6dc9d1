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
