"""Whatever a message is, it costs its neighbours nothing, and each has one fate."""

import pytest


def test_what_is_no_record_is_a_dead_letter_and_its_neighbours_are_stored(deployment):
    book = deployment.book
    odd = [b"", b"\x00", b"\x00\x00\x00\x00\x07body", b"\xc3\x01" + bytes(8), b"\xc3", b"nonsense", b"{", None]
    deployment.send([book.event("a"), *odd, book.event("b", packed=True), book.enrichment(1)])
    deployment.drain()
    count = deployment.recount()
    assert len(count.places("dead_lettered")) == 7
    assert len(count.places("filtered")) == 1
