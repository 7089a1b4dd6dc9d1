"""How many worker processes there are, where nothing is set."""

import os
from pathlib import Path

import pytest

from offramp.classifying import _processes
from offramp.config import resolve
from offramp.ingestion import SMALL_BYTES, Ingestion
from offramp.period import Period
from offramp.rebuilding import SMALL_EVENTS, Rebuilding
from offramp.session import Session
from streams.clock import FixedClock
from streams.files import Source


def session(**settings):
    return Session(resolve(None, {}, {"classify": settings}), FixedClock())


def of_files(size, **settings):
    source = Source("f", Path("f"), size, "0", "none", "lines")
    return Ingestion(session(**settings), Path())._processes(source)


def of_rebuild(events, **settings):
    return Rebuilding(session(**settings), Period(), dry_run=True)._processes(events)


@pytest.fixture
def three_of_eight(monkeypatch):
    """A process that is pinned to three of eight cores."""
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {1, 4, 7}, raising=False)


@pytest.mark.usefixtures("three_of_eight")
def test_whoever_is_pinned_starts_no_more_processes_than_it_has_cores():
    assert (of_files(SMALL_BYTES + 1), of_rebuild(SMALL_EVENTS + 1), _processes()) == (3, 3, 2)


@pytest.mark.usefixtures("three_of_eight")
def test_little_starts_none_and_what_is_set_counts():
    assert (of_files(SMALL_BYTES), of_rebuild(SMALL_EVENTS)) == (0, 0)
    assert (of_files(SMALL_BYTES, workers=8), of_rebuild(SMALL_EVENTS, workers=8)) == (8, 8)


def test_a_worker_with_one_core_judges_by_itself(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {5}, raising=False)
    assert (of_files(SMALL_BYTES + 1), of_rebuild(SMALL_EVENTS + 1), _processes()) == (1, 1, 0)


@pytest.mark.parametrize(("counted", "cores"), [(8, 8), (None, 1)])
def test_a_system_that_cannot_tell_what_is_ours_has_all_its_cores(monkeypatch, counted, cores):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: counted)
    assert (of_files(SMALL_BYTES + 1), of_rebuild(SMALL_EVENTS + 1)) == (cores, cores)
