"""Pages over HTTP: what is asked for, what is not there, and clients that misbehave."""

import json
import socket
import urllib.error
import urllib.request

import pytest

from streams.pages import CLIENT_TIMEOUT_S, Page, Verdict, serving, verdict_page


def broken():
    raise RuntimeError("a secret of ours")


PAGES = {
    "/livez": lambda: verdict_page(Verdict(ok=True, reason="turns")),
    "/readyz": lambda: verdict_page(Verdict(ok=False, reason='"store" gone')),
    "/metrics": lambda: Page(200, "text/plain", b"x 1\n"),
    "/broken": broken,
}


@pytest.fixture
def port():
    with serving("127.0.0.1", 0, PAGES) as port:
        yield port


def get(port, path, method="GET"):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 -- the address is ours
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


def test_a_page_is_shown_as_it_is(port):
    status, headers, body = get(port, "/metrics?name=x")
    assert (status, headers["Content-Type"], body) == (200, "text/plain", b"x 1\n")
    assert "Python" not in headers["Server"]


def test_a_verdict_is_a_status_and_a_reason(port):
    assert get(port, "/livez")[0] == 200
    status, headers, body = get(port, "/readyz")
    assert (status, headers["Content-Type"]) == (503, "application/json")
    assert json.loads(body) == {"ok": False, "reason": '"store" gone'}


def test_head_has_no_body(port):
    status, headers, body = get(port, "/metrics", "HEAD")
    assert (status, headers["Content-Length"], body) == (200, "4", b"")


def test_what_is_not_there_says_what_is(port):
    status, _, body = get(port, "/secret/../etc/passwd")
    assert (status, json.loads(body)["pages"]) == (404, sorted(PAGES))


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_nothing_can_be_done_by_a_page(port, method):
    assert get(port, "/metrics", method)[0] == 501


def test_a_page_that_cannot_be_made_says_nothing_of_why_and_costs_no_other(port, caplog):
    status, _, body = get(port, "/broken")
    assert status == 500
    assert b"secret" not in body
    assert "a page could not be made" in caplog.text
    assert get(port, "/livez")[0] == 200


def test_a_client_that_says_nothing_is_given_up_and_costs_no_other(port):
    with socket.create_connection(("127.0.0.1", port), timeout=CLIENT_TIMEOUT_S * 4) as silent:
        silent.sendall(b"GET /livez")
        assert get(port, "/livez")[0] == 200
        assert silent.recv(100) == b""


@pytest.mark.parametrize(
    "sent", [b"\x16\x03\x01\x00\xa5\n\r\n", b"GET\r\n\r\n", b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n"]
)
def test_what_is_no_request_costs_no_other(port, sent):
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        assert b"Traceback" not in client.recv(10_000)
    assert get(port, "/livez")[0] == 200


def test_it_ends_although_a_client_holds_its_connection():
    with serving("127.0.0.1", 0, PAGES) as port:
        held = socket.create_connection(("127.0.0.1", port), timeout=10)
    held.close()
    with pytest.raises(OSError):
        get(port, "/livez")


def test_a_port_that_is_taken_is_an_error(port):
    with pytest.raises(OSError, match="in use"), serving("127.0.0.1", port, PAGES):
        pass


def test_it_listens_on_ipv6_too():
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    try:
        with serving("::1", 0, PAGES) as port, urllib.request.urlopen(f"http://[::1]:{port}/livez", timeout=10) as got:
            assert got.status == 200
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
