"""What is watched answered lately, or why not."""

import threading

from streams.clock import FixedClock
from streams.watch import Watch


def watch(ask, clock, **more):
    return Watch("the broker", ask, 10, clock, **more)


def test_before_the_first_answer_it_is_not_there():
    assert watch(lambda: None, FixedClock()).verdict(30) == (False, "the broker was not asked yet")


def test_an_answer_counts_for_a_while():
    clock = FixedClock()
    asked = watch(lambda: None, clock)
    asked.once()
    clock.advance(30)
    assert asked.verdict(30) == (True, "the broker answered 30 s ago")
    clock.advance(1)
    assert asked.verdict(30) == (False, "the broker has not answered lately")


def test_whatever_goes_wrong_is_no_answer_and_is_logged_once(caplog):
    errors = [RuntimeError("surprise"), OSError("refused")]

    def ask():
        if errors:
            raise errors.pop(0)

    asked = watch(ask, FixedClock())
    with caplog.at_level("INFO"):
        asked.once()
        asked.once()
        assert asked.verdict(30) == (False, "the broker does not answer: refused")
        asked.once()
        asked.once()
    assert asked.verdict(30).ok
    silent, heard = caplog.records
    assert (silent.getMessage(), silent.asked, silent.reason) == (
        "no answer",
        "the broker",
        "does not answer: surprise",
    )
    assert (heard.getMessage(), heard.asked) == ("answers", "the broker")


def test_it_asks_and_ends_in_one_thread_of_its_own():
    threads, twice = [], threading.Event()

    def ask():
        threads.append(threading.current_thread())
        if len(threads) > 1:
            twice.set()

    asked = Watch("x", ask, 0.001, FixedClock(), end=lambda: threads.append(threading.current_thread()))
    with asked.running():
        assert twice.wait(10)
    assert len(set(threads)) == 1
    assert threads[0] is not threading.current_thread()
    assert not threads[0].is_alive()


def test_one_that_hangs_holds_up_nobody():
    begun, go_on = threading.Event(), threading.Event()

    def ask():
        begun.set()
        assert go_on.wait(30)

    asked = watch(ask, FixedClock())
    with asked.running():
        assert begun.wait(10)
        assert not asked.verdict(30).ok
    go_on.set()
