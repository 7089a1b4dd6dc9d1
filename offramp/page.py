"""Text for people on stdout: headings and wrapped lines, as wide as the terminal and never wider than reads well."""

import sys
import textwrap

from offramp.console import page_width, plain

WIDEST = 100
_STEP = 2


class Page:
    """Prints lines as they come. What stands in them may be foreign text; control characters are escaped."""

    def __init__(self) -> None:
        self.width = min(page_width(), WIDEST)

    def heading(self, text: str) -> None:
        """A heading, with an empty line before it."""
        sys.stdout.write("\n")
        self.line(text, 0)

    def line(self, text: str, level: int = 1) -> None:
        """A line, indented by level; where it wraps, it goes on one level deeper."""
        first, rest = " " * (_STEP * level), " " * (_STEP * (level + 1))
        for part in textwrap.wrap(
            plain(text), self.width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
        ):
            sys.stdout.write(f"{part}\n")

    def exactly(self, text: str) -> None:
        """A line that was laid out by whoever prints it."""
        sys.stdout.write(f"{plain(text)}\n")
