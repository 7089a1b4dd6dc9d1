import gc

from classifier.table import default_text
from schemas.errors import MessageError
from schemas.redaction import Redactor
from streams.files import Chunk
from streams.parallel import Pool
from streams.worker import Setup, Task

BAD_LINE = b'{"type":"terminal_event","version":1,"event_id":7}'
SETUP = Setup(default_text(), Redactor(None))


def task(lines):
    return Task(Chunk(0, lines, 0, tuple((line, BAD_LINE) for line in range(1, lines + 1))), "file", "p", 1)


def errors_in_memory():
    # gc.get_objects leaves out what is frozen, which is what was there before.
    return sum(type(one) is MessageError for one in gc.get_objects())


def test_errors_do_not_pile_up_though_cycles_are_looked_for_rarely():
    gc.collect()
    before = errors_in_memory()
    left = [errors_in_memory() for _ in Pool(0).run(SETUP, [task(50), task(50)])]
    assert left == [0, 0]
    assert errors_in_memory() == before


def test_looking_for_cycles_goes_on_as_before_when_all_is_done():
    for outcome in Pool(0).run(SETUP, [task(1)]):
        assert not gc.isenabled()
        assert outcome.dead_letters
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
