from datetime import UTC, datetime

from streams.clock import Clock, FixedClock, SystemClock


def test_fixed_clock_moves_only_when_told():
    clock: Clock = FixedClock(micros=5)
    assert (clock.now_micros(), clock.monotonic()) == (5, 0.0)
    clock.advance(1.5)
    assert (clock.now_micros(), clock.monotonic()) == (1_500_005, 1.5)


def test_system_clock_counts_from_the_epoch_in_any_time_zone():
    before = datetime.now(UTC).timestamp()
    now = SystemClock().now_micros() / 1e6
    assert before - 1 <= now <= datetime.now(UTC).timestamp() + 1


def test_system_clock_does_not_go_backwards():
    clock = SystemClock()
    first = clock.monotonic()
    assert clock.monotonic() >= first
