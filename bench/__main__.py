"""The measured claims, by one command: ``python -m bench``. Ratios within one run; ends with 1 if any target fails.

Everything runs from the installed package, in processes of their own. The yardstick, fastavro alone over the same file,
runs before and after what is compared with it, because a shared machine changes under way; the least counts.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.watch import Cost, run

HERE = Path(__file__).parent
MB = 2**20
OFFRAMP = (sys.executable, "-P", "-m", "offramp")

CLASSIFY_SHARE = 0.35
WALL_RATIO = 1.5
FLATNESS = 1.25
"""Highest ratio between what one more event costs in a large file and in a small one."""
GROWTH_BYTES = 256 * MB
PEAK_BYTES = 1500 * MB


@dataclass(frozen=True)
class Target:
    """One claim: what was measured, at most what it may be, and how both are written."""

    claim: str
    measured: float
    limit: float
    unit: str = ""

    @property
    def holds(self) -> bool:
        """Whether the claim is true of this run."""
        return self.measured <= self.limit

    def __str__(self) -> str:
        numbers = f"{self.measured:8,.2f}{self.unit} of at most {self.limit:,.2f}{self.unit}"
        return f"{'pass' if self.holds else 'FAIL'}  {numbers}  {self.claim}"


@dataclass(frozen=True)
class Sizes:
    """What the command costs by number of events, and the yardstick over the largest file."""

    classify: dict[int, Cost]
    again: Cost
    decode: Cost

    def marginal(self, fewer: int, more: int) -> float:
        """Processor seconds that one more event costs between two sizes, which leaves starting up aside."""
        return (self.classify[more].cpu_s - self.classify[fewer].cpu_s) / (more - fewer)


def generated(events: int, directory: Path) -> Path:
    """The container with so many events, made unless it is there."""
    file = directory / f"events-{events}.avro"
    if not file.exists():
        unfinished = file.with_suffix(".part")
        command = [sys.executable, "-m", "bench.generate", "--events", str(events), "--out", str(unfinished)]
        subprocess.run(command, check=True, cwd=HERE.parent, stderr=subprocess.DEVNULL)
        unfinished.rename(file)
    return file


def measure_parts(file: Path) -> dict[str, Any]:
    """What ``bench/parts.py`` finds."""
    command = [sys.executable, "-P", str(HERE / "parts.py"), str(file)]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return found


def decode(file: Path, scratch: Path) -> Cost:
    """The yardstick."""
    cost = run([sys.executable, "-P", str(HERE / "decode.py"), str(file)], scratch / "out")
    say(f"fastavro alone: {cost.wall_s:.1f} s, {cost.cpu_s:.1f} s of processor time")
    return cost


def classify(events: int, file: Path, store: Path, scratch: Path) -> Cost:
    """The command, everything stored."""
    cost = run([*OFFRAMP, "classify", "--store", str(store), str(file)], scratch / "out")
    say(
        f"offramp classify, {events:,} events: {cost.wall_s:.1f} s ({events / cost.wall_s:,.0f} events/s), "
        f"{cost.cpu_s:.1f} s of processor time, peak {cost.peak_bytes / MB:,.0f} MB"
    )
    return cost


def measure_sizes(sizes: list[int], directory: Path, scratch: Path) -> Sizes:
    """Classify a file of each size into a store of its own, and the largest a second time into the same store."""
    largest = generated(sizes[-1], directory)
    before = decode(largest, scratch)
    costs = {size: classify(size, generated(size, directory), scratch / str(size), scratch) for size in sizes}
    say("the same file again:")
    again = classify(sizes[-1], largest, scratch / str(sizes[-1]), scratch)
    after = decode(largest, scratch)
    return Sizes(costs, again, min(before, after, key=lambda cost: cost.wall_s))


def targets(parts: dict[str, Any], sizes: Sizes) -> list[Target]:
    """The claims of the project about speed and memory."""
    small, middle, large = sizes.classify
    of_large, of_middle = sizes.classify[large], sizes.classify[middle]
    flat = sizes.marginal(middle, large) / sizes.marginal(small, middle)
    growth = of_large.peak_bytes - of_middle.peak_bytes
    return [
        Target("classifying, to decoding with fastavro", parts["classify"] / parts["fastavro.reader"], CLASSIFY_SHARE),
        Target("wall time of all, to decoding with fastavro", of_large.wall_s / sizes.decode.wall_s, WALL_RATIO),
        Target(f"one more event at {large:,}, to one more at {middle:,}", flat, FLATNESS),
        Target(f"peak memory over that at {middle:,}", growth / MB, GROWTH_BYTES / MB, " MB"),
        Target(f"peak memory at {large:,}", of_large.peak_bytes / MB, PEAK_BYTES / MB, " MB"),
    ]


def print_parts(parts: dict[str, Any]) -> None:
    """What each part costs, in microseconds and in decodings with fastavro."""
    print(f"\nProcessor time per event over {parts['events']:,} events in one process; the core is {parts['core']}\n")
    for name, cost in parts.items():
        if isinstance(cost, float):
            print(f"{cost:8.1f} µs  {cost / parts['fastavro.reader']:5.2f}  {name}")


def print_ratios(sizes: Sizes) -> None:
    """How the largest file relates to decoding it, and what wall time the processor time alone would explain."""
    *_, (events, cost) = sizes.classify.items()
    wall, cpu = cost.wall_s / sizes.decode.wall_s, cost.cpu_s / sizes.decode.cpu_s
    print(f"\n{events:,} events: {wall:.2f} of the wall time of decoding, {cpu:.2f} of its processor time;")
    print(f"with every core to itself and busy that would be {cpu / (os.cpu_count() or 1):.2f} of the wall time.")
    print(f"The same file again: {sizes.again.wall_s / cost.wall_s:.2f} of the first time.\n")


def say(what: str) -> None:
    """Progress, on stderr."""
    print(what, file=sys.stderr, flush=True)


@contextmanager
def kept(directory: Path | None) -> Iterator[Path]:
    """The directory for input files: the given one, or one that is removed at the end."""
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
        yield directory.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="offramp-bench-") as made:
        yield Path(made)


def main() -> None:
    """Measure as the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.partition("\n")[0])
    parser.add_argument("--events", type=int, default=1_000_000, help="size of the largest file")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the input files here and use them again")
    options = parser.parse_args()
    sizes = [options.events // 100, options.events // 10, options.events]
    # Secrets are found in the input; without a key they would make their events dead letters.
    os.environ.setdefault("OFFRAMP_REDACTION__KEY", "0" * 32)
    with kept(options.keep) as directory, tempfile.TemporaryDirectory(prefix="offramp-bench-") as scratch:
        parts = measure_parts(generated(sizes[-1], directory))
        try:
            measured = measure_sizes(sizes, directory, Path(scratch))
        except subprocess.CalledProcessError as error:
            sys.exit(f"{error}\n{error.output.decode(errors='replace')}")
    print_parts(parts)
    print_ratios(measured)
    found = targets(parts, measured)
    print(*found, sep="\n")
    sys.exit(0 if all(target.holds for target in found) else 1)


if __name__ == "__main__":
    main()
