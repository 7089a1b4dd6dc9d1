import json

from streams.lifecycle.lifecycle import Counts
from streams.lifecycle.pages import Status, items_page, metrics_text
from tests.streams.lifecycle.kit import after, enrichment, exit_, known, partial, step
from tests.streams.lifecycle.samples import MINUTE

STATUS = Status(complete=True, leader=False, synced_at=after(1), counts=Counts(exits=3), sizes={"open": 2})


def samples(items):
    text = metrics_text(items, STATUS, ("effects", "judgement"), after(3), 10 * MINUTE)
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_zeros_are_shown_from_the_start():
    found = samples(known().open_items())
    assert found['offramp_open_reviews{queue="judgement"}'] == 0
    assert found['offramp_open_review_age_seconds{queue="other",share="1"}'] == 0
    assert found["offramp_open_partials"] == 0
    assert found["offramp_lifecycle_exits_total"] == 3
    assert found["offramp_lifecycle_store_age_seconds"] == 120
    assert found['offramp_lifecycle_held{state="open"}'] == 2


def test_a_queue_that_only_a_record_names_is_no_label():
    moved = known(exit_(), step("reassigned", after(1), queue='new"queue'))
    found = samples(moved.open_items())
    assert found['offramp_open_reviews{queue="other"}'] == 1
    assert not any("new" in name for name in found)


def test_ages_counts_and_deadlines():
    items = known(
        exit_(deadline=after(2)), partial("tax", event_id="p", run_id="p"), enrichment("tax", "failed", event_id="p")
    ).open_items()
    found = samples(items)
    assert found['offramp_open_review_age_seconds{queue="effects",share="0.95"}'] == 180
    assert found['offramp_open_reviews_breached{queue="effects"}'] == 1
    assert found["offramp_open_partials_failed"] == 1
    assert found['offramp_open_partial_age_seconds{share="1"}'] == 180


def test_the_text_has_help_and_type_once_for_each_metric_and_ends_with_a_newline():
    text = metrics_text(known(exit_()).open_items(), STATUS, ["effects"], after(3), 0)
    assert text.endswith("\n")
    types = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(types) == len(set(types)) == text.count("# HELP")


def test_the_page_is_json_with_the_oldest_first():
    items = known(
        *(exit_(event_id=f"e{n}", run_id=f"r{n}", occurred_at=after(-n)) for n in range(5)), partial("tax", run_id="p")
    ).open_items()
    page = json.loads(json.dumps(items_page(items, after(3), MINUTE, limit=2)))
    assert [one["event_id"] for one in page["oldest_reviews"]] == ["e4", "e3"]
    assert page["oldest_reviews"][0]["age_s"] == 420
    assert page["queues"] == [
        {"queue": "effects", "open": 5, "oldest_s": 420, "p95_s": 420, "breached": 0, "breaching": 0, "paused": 0,
         "obligations": 0}
    ]  # fmt: skip
    assert page["oldest_partials"][0]["missing"] == ["tax"]
    assert page["at"] == "2025-11-30T08:03:00.000000Z"
