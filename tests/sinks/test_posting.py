"""Posting to receivers: what is sent, and how each kind of answer, or none, is taken."""

import socket

import pytest

from sinks.alertmanager import Alertmanager, Posted
from sinks.posting import DeliveryRefused, DeliveryUnavailable, Poster, Receiver
from sinks.webhook import Webhook
from tests.sinks.receiver import receiving


@pytest.fixture
def receiver():
    with receiving() as state:
        yield state


@pytest.fixture
def poster(receiver):
    poster = Poster(Receiver(receiver.url + "/hook", token="t0ken", timeout_s=5))  # noqa: S106 -- of a test
    yield poster
    poster.close()


def test_a_value_is_posted_as_json_with_the_token(receiver, poster):
    poster.post({"a": "ü"})
    ((path, headers, value),) = receiver.posts
    assert (path, value) == ("/hook", {"a": "ü"})
    assert headers["Content-Type"] == "application/json"
    assert headers["Authorization"] == "Bearer t0ken"


@pytest.mark.parametrize("status", [500, 502, 503, 429, 408])
def test_an_outage_is_to_be_tried_again(receiver, poster, status):
    receiver.answers = [status]
    receiver.body = b"come  back\nlater"
    with pytest.raises(DeliveryUnavailable, match=f"status {status}: come back later"):
        poster.post({})
    poster.post({})
    assert len(receiver.posts) == 2


@pytest.mark.parametrize("status", [400, 401, 404, 413])
def test_a_refusal_says_why(receiver, poster, status):
    receiver.answers = [status]
    receiver.body = b"x" * 10_000
    with pytest.raises(DeliveryRefused, match=f"status {status}") as caught:
        poster.post({})
    assert len(str(caught.value)) < 400


def test_a_redirect_is_not_followed(receiver, poster):
    receiver.answers, receiver.location = [307], receiver.url + "/elsewhere"
    with pytest.raises(DeliveryRefused, match="status 307"):
        poster.post({})
    assert len(receiver.posts) == 1


def test_a_connection_that_breaks_is_tried_once_more(receiver, poster):
    receiver.answers = [0]
    poster.post({"n": 1})
    assert [value for _, _, value in receiver.posts] == [{"n": 1}] * 2
    receiver.answers = [0, 0]
    with pytest.raises(DeliveryUnavailable, match="cannot be reached"):
        poster.post({})


def test_nobody_there_and_nobody_answering_are_outages():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # nobody else listens there meanwhile
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(DeliveryUnavailable, match="cannot be reached: NewConnectionError"):
            Poster(Receiver(url, timeout_s=10)).post({})
        silent.listen()
        with pytest.raises(DeliveryUnavailable, match="cannot be reached: ReadTimeoutError"):
            Poster(Receiver(url, timeout_s=0.2)).post({})


@pytest.mark.parametrize(
    "url", ["", "host:9093", "ftp://host", "http://", "http://user@host", "http://h#x", "http://h:port", "http://[::1"]
)
def test_an_address_that_cannot_be_used_is_refused(url):
    with pytest.raises(DeliveryRefused, match="the address of a receiver"):
        Receiver(url)


def test_neither_token_nor_path_is_shown():
    receiver = Receiver("https://hooks.example/services/s3cret?key=s3cret", token="t0ken")  # noqa: S106 -- of a test
    assert "t0ken" not in repr(receiver)
    assert receiver.place == "https://hooks.example"


def test_authorities_that_cannot_be_read_are_refused(tmp_path):
    with pytest.raises(DeliveryRefused, match="no certificates can be read"):
        Poster(Receiver("https://host", ca_file=str(tmp_path / "none.pem")))


def alert(number):
    return Posted({"alertname": f"a{number}", "tenant": ""}, {"summary": "ü", "cause": ""}, 1_000_001, 2_000_000)


def test_alertmanager_gets_labels_and_annotations_that_have_a_value(receiver):
    Alertmanager(Poster(Receiver(receiver.url + "/am/"))).send([alert(0)])
    ((path, _, value),) = receiver.posts
    assert path == "/am/api/v2/alerts"
    assert value == [
        {
            "labels": {"alertname": "a0"},
            "annotations": {"summary": "ü"},
            "startsAt": "1970-01-01T00:00:01.000001Z",
            "endsAt": "1970-01-01T00:00:02.000000Z",
        }
    ]


def test_alertmanager_gets_many_in_parts_and_all_of_them_even_if_some_are_refused(receiver):
    receiver.answers = [200, 400]
    with pytest.raises(DeliveryRefused):
        Alertmanager(Poster(Receiver(receiver.url))).send([alert(number) for number in range(1_201)])
    assert [len(value) for _, _, value in receiver.posts] == [500, 500, 201]


def test_a_webhook_gets_messages_in_one_posting_and_none_for_nothing(receiver, poster):
    Webhook(poster).send([])
    Webhook(poster).send([{"id": "a"}, {"id": "b"}])
    assert [value for _, _, value in receiver.posts] == [{"version": 1, "alerts": [{"id": "a"}, {"id": "b"}]}]
