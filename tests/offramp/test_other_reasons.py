"""Which rows of the tables that decided have their reasons from elsewhere than a candidate's row of the same id."""

import json

from classifier.table import default_text, load
from offramp.diffing import other_reasons

DENIAL = 'exit = "refusal"\nreason_from = "denial"\n'
FROM_EVIDENCE = {"blocking_denial", "fallback", "partial"}


class Decided:
    """A store in which these tables decided, each under its number as digest."""

    def __init__(self, *texts):
        self.texts = texts

    def query(self, sql):
        rows = ({"table_digest": str(number), "table_text": text} for number, text in enumerate(self.texts))
        return "\n".join(map(json.dumps, rows)).encode()


def edited(before, after):
    assert default_text().count(before) == 1
    return default_text().replace(before, after)


def test_tables_that_say_the_same_of_reasons_have_none():
    same = edited('when = "no_progress"', 'when = "no_progress or dependency_failed"')
    assert other_reasons(Decided(), load(default_text())) == set()
    assert other_reasons(Decided(default_text(), same), load(default_text())) == set()


def test_a_row_with_another_source_code_or_exit_is_one():
    plain = edited(DENIAL, 'exit = "refusal"\n')
    with_code = edited(DENIAL, DENIAL + 'reason = "denied"\n')
    to_people = edited(DENIAL, 'exit = "human_queue"\nqueue = "policy"\n')
    finer = edited(DENIAL, DENIAL + 'reasons = [{ code = "late", when = "no_progress" }]\n')
    stored = Decided(default_text(), plain, with_code, to_people, finer)
    assert other_reasons(stored, load(default_text())) == {(digest, "blocking_denial") for digest in "1234"}
    # What the candidate takes from no evidence is told by the facts.
    assert other_reasons(Decided(default_text()), load(plain)) == set()


def test_of_a_table_that_cannot_be_read_nothing_is_taken():
    assert other_reasons(Decided("not a table"), load(default_text())) == {("0", rule) for rule in FROM_EVIDENCE}
