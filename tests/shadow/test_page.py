"""The page's colours can be read, in light and in dark, and foreign text does nothing to it."""

import pytest

from shadow.page import _foreign
from shadow.style import DARK, HEAT_DARK, HEAT_LIGHT, LIGHT


def luminance(colour):
    """Source: WCAG 2.2, relative luminance."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    darker, lighter = sorted(map(luminance, (one, other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_contrast_is_measured_as_the_standard_says():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize(("colours", "heat"), [(LIGHT, HEAT_LIGHT), (DARK, HEAT_DARK)])
def test_text_stands_out(colours, heat):
    grounds = (colours["paper"], colours["panel"])
    for ink in ("ink", "soft", "link", "warn"):
        assert all(contrast(colours[ink], ground) >= 4.5 for ground in grounds), ink
    assert all(contrast(colours["ink"], shade) >= 4.5 for shade in heat)
    # What is drawn, and the frame of the cells where both agree.
    assert contrast(colours["line"], colours["paper"]) >= 3
    assert all(contrast(colours["same"], shade) >= 3 for shade in heat)
    assert len(heat) == 10


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("<b>&", "&lt;b&gt;&amp;"),
        ("two\nlines\x00", "two\\nlines\\x00"),
        ("\u202eabc\u2066", "\\u202eabc\\u2066"),
        ("größe", "<bdi>größe</bdi>"),
        ("رفض", "<bdi>رفض</bdi>"),
        # The sign that joins the parts of an emoji or of a word has no shape, and is no trick.
        ("👩\u200d👧", "<bdi>👩\u200d👧</bdi>"),
        ("\udcff", "\\udcff"),
        ("x" * 200, "x" * 200),
        ("x" * 10_200, "x" * 200 + " (cut; characters in all: 10,200)"),
        ("<" * 201, "&lt;" * 200 + " (cut; characters in all: 201)"),
    ],
)
def test_foreign_text_is_one_line_of_what_it_says(text, shown):
    assert _foreign(text) == shown
