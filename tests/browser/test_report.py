"""The page of a comparison as people see it: in Chromium, wide and narrow, light, dark, on paper, and by axe-core."""

import itertools
import tempfile
from pathlib import Path

import pytest

from tests.browser import SCREENSHOTS, programs
from tests.browser.chromium import Chromium, Look
from tests.browser.histories import HOSTILE, full, hostile
from tests.offramp.kit import new_directory, run, write_lines
from tests.offramp.test_shadow_compare import ACCEPTED, COSTS
from tests.shadow.pairs import MAPPING

pytestmark = pytest.mark.xdist_group("browser")

LOOKS = [
    Look(f"{width}-{scheme}", pixels, scheme)
    for (width, pixels), scheme in itertools.product((("wide", 1280), ("narrow", 360)), ("light", "dark"))
]
PAGES = ("full", "empty", "hostile")
RUN_AXE = """
    axe.run(document, {preload: false}).then(found => found.violations.map(
        violation => violation.id + ": " + violation.nodes.map(node => node.html.slice(0, 200)).join(" ; ")
    ))
"""
WIDE = "[...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll') && {}).map(e => e.outerHTML)"
OVERFLOWING = WIDE.format("e.getBoundingClientRect().right > innerWidth + 1")
MADE_BY_LABELS = (
    "document.querySelectorAll('main script, main img, main h1, main b, main a[href]:not([href^=\"#\"])').length"
)


@pytest.fixture(scope="module")
def browser():
    chromium, _ = programs()
    with tempfile.TemporaryDirectory(prefix="offramp-browser-", ignore_cleanup_errors=True) as folder:
        started = Chromium(chromium, Path(folder))
        try:
            started.start()
            yield started
        finally:
            started.end()


@pytest.fixture(scope="module")
def pages():
    programs()
    home = new_directory()
    (home / "map.toml").write_text(MAPPING)
    (home / "costs.toml").write_text(COSTS)
    (home / "accepted.toml").write_text(ACCEPTED.format(expires="2200-01-01", ceiling=1))
    settings = "".join(
        f'{key} = "{home}/{file}.toml"\n'
        for key, file in [("mapping", "map"), ("costs", "costs"), ("accepted", "accepted")]
    )
    (home / "offramp.toml").write_text(f"[shadow]\n{settings}")
    for name, (events, companions) in (("full", full()), ("hostile", hostile())):
        store = ("--store", home / name)
        assert run("classify", write_lines(home / "events", events), *store).status == 0
        assert run("load", write_lines(home / "companions", companions), *store).status == 0
    asked = {"full": ("full",), "hostile": ("hostile",), "empty": ("full", "--tenant", "nobody")}
    return {name: _page(home, name, *argv) for name, argv in asked.items()}


def _page(home, name, store, *argv):
    page = home / f"{name}.html"
    given = ("--store", home / store, "--config", home / "offramp.toml")
    done = run("shadow", "compare", "--format", "html", "-o", page, *given, *argv)
    assert (done.status, done.err) == (0, "")
    return page


def kept(name, content):
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    (SCREENSHOTS / name).write_bytes(content)


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.name)
@pytest.mark.parametrize("name", PAGES)
def test_the_page_can_be_read_by_everybody(browser, pages, name, look):
    _, axe = programs()
    browser.look(look)
    browser.open(pages[name])
    kept(f"{name}-{look.name}.png", browser.screenshot())
    assert browser.value("document.title") == "Legacy against new"
    assert browser.value("document.documentElement.scrollWidth <= innerWidth")
    assert browser.value(OVERFLOWING) == []
    assert browser.complaints == []
    browser.value(f"{axe};0")
    assert browser.value(RUN_AXE) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_paper_ink_is_dark(browser, pages, scheme):
    """Whatever the screen is, and with no more than what is to be read."""
    browser.look(Look(scheme, 1280, scheme))
    browser.open(pages["full"])
    kept(f"full-print-{scheme}.pdf", browser.pdf())
    browser.print_on_screen()
    assert browser.value("getComputedStyle(document.body).color") == "rgb(28, 32, 36)"
    assert browser.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.value("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert browser.complaints == []


def test_labels_do_nothing(browser, pages):
    browser.look(LOOKS[0])
    browser.open(pages["hostile"])
    assert browser.value(MADE_BY_LABELS) == 0
    shown = browser.value("document.body.textContent")
    for label in HOSTILE[:2]:
        assert label in shown
    assert "two\\nlines\\tand\\rmore\\x0b" in shown
    assert "\u202e" not in browser.value("document.querySelector('table').innerText")
    # What a browser tries before it is refused is told by it all the same.
    assert browser.complaints == []


def test_a_script_would_be_refused(browser, pages, tmp_path):
    """The tests above could not fail if the browser told nothing."""
    page = tmp_path / "page.html"
    text = pages["empty"].read_text(encoding="utf-8")
    page.write_text(text.replace("<main", "<script>document.title='run'</script><img src='x.png'><main"))
    browser.open(page)
    assert browser.value("document.title") == "Legacy against new"
    assert any("script" in complaint for complaint in browser.complaints)
    assert any("x.png" in complaint for complaint in browser.complaints)


def test_the_first_tab_skips_to_the_report_and_the_next_ones_are_seen(browser, pages):
    browser.look(LOOKS[0])
    browser.open(pages["full"])
    browser.press("Tab")
    assert browser.value("document.activeElement.textContent") == "Skip to the report"
    assert browser.value("document.activeElement.getBoundingClientRect().left >= 0")
    browser.press("Tab")
    assert browser.value("document.activeElement.hash") == "#not-seen"
    assert browser.value("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_what_is_wider_than_the_screen_can_be_scrolled_by_keyboard(browser, pages):
    browser.look(LOOKS[2])
    browser.open(pages["full"])
    wide = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth)"
    assert browser.value(f"{wide}.length") > 0
    assert browser.value(f"{wide}.every(e => e.tabIndex === 0 && e.getAttribute('aria-label'))")
    # What a table is about is read without scrolling.
    captions = "[...document.querySelectorAll('caption span')]"
    assert browser.value(f"{captions}.every(e => e.getBoundingClientRect().right <= innerWidth)")
