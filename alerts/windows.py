"""Sliding windows over counts per minute, kept up to date minute by minute, never summed up again.

A window ends with the running minute. It is so many minutes long, and longer where these hold fewer runs than are
asked for: then it reaches back until they are found, but never further than its limit. So a busy scope is judged by
its last minutes, and a quiet one by its last runs.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from alerts.model import Count, Scope

DAY = 1440
HOUR = 60
LATE_MINUTES = 2 * DAY
"""How late counts are still judged by the windows that they belonged to. What comes later is history, not news."""

Sums = dict[str, int]


class View(NamedTuple):
    """Which scopes are looked at, and which of their fields are told apart."""

    by: tuple[str, ...]
    where: Scope
    unless: tuple[Scope, ...]

    def of(self, scope: Scope) -> Scope | None:
        """The scope as it is told apart here, or None where it is not looked at."""
        if not covers(self.where, scope) or any(covers(each, scope) for each in self.unless):
            return None
        return Scope(*(value if name in self.by else "" for name, value in zip(Scope._fields, scope, strict=True)))


def covers(wide: Scope, narrow: Scope) -> bool:
    """Whether each field that is set in ``wide`` has the same value in ``narrow``."""
    return all(not mine or mine == theirs for mine, theirs in zip(wide, narrow, strict=True))


class Extent(NamedTuple):
    """How far a window reaches back: minutes, the runs it should hold, and the minutes beyond which it never goes."""

    minutes: int
    runs: int
    limit: int


class Track(NamedTuple):
    """The windows of one extent over one view, a lane for each scope; ``over`` is the series that counts runs."""

    view: int
    over: str
    extent: Extent


class Reach(NamedTuple):
    """How many minutes of the past are kept of a view's scopes, of minutes that have something of the series."""

    view: int
    minutes: int
    series: str


class Lane:
    """The window of one scope on a track: its minutes that have counts, and their sums."""

    __slots__ = ("_limit", "_minutes", "_over", "_runs", "entries", "number", "scope", "sums", "track")

    def __init__(self, track: Track, scope: Scope, number: int = 0) -> None:
        """``number`` is the place of the track among all."""
        self.track = track
        self.number = number
        self._over = track.over
        self._minutes, self._runs, self._limit = track.extent
        self.scope = scope
        self.entries: deque[tuple[int, Sums]] = deque()
        self.sums: Sums = {}

    def push(self, minute: int, counts: Sums) -> None:
        """Let the newest minute in. ``counts`` is kept as it is, so that whoever changes it later amends the lane."""
        self.entries.append((minute, counts))
        self._add(counts)

    def fill_back(self, minute: int, counts: Sums, clock: int) -> bool:
        """Let in a minute before all others, if the window at ``clock`` reaches back to it; whether it does."""
        inside = self.lacks(minute, clock)
        if inside:
            self.entries.appendleft((minute, counts))
            self._add(counts)
        return inside

    def prune(self, clock: int) -> bool:
        """Let go of what the window has left behind; whether that was anything."""
        entries, sums, over, left = self.entries, self.sums, self._over, False
        while entries and entries[0][0] <= clock - self._minutes:
            minute, counts = entries[0]
            if minute > clock - self._limit and sums.get(over, 0) - counts.get(over, 0) < self._runs:
                break
            entries.popleft()
            left = True
            for series, n in counts.items():
                sums[series] -= n
        return left

    def reaches(self, minute: int, clock: int) -> bool:
        """Whether a minute up to the running one is, or would be, inside the window."""
        inside = bool(self.entries) and self.entries[0][0] <= minute and minute > clock - self.track.extent.limit
        return inside or self.lacks(minute, clock)

    def lacks(self, minute: int, clock: int) -> bool:
        """Whether a minute before all those that are inside would be inside, too."""
        minutes, runs, limit = self.track.extent
        if minute > clock - minutes:
            return True
        return minute > clock - limit and self.sums.get(self.track.over, 0) < runs

    def amend(self, minute: int, counts: Sums, change: Sums) -> None:
        """Add a change to a minute inside the window; ``counts`` is what is kept of it, with the change."""
        self._add(change)
        place = len(self.entries)
        while place and self.entries[place - 1][0] > minute:
            place -= 1
        if not place or self.entries[place - 1][0] != minute:
            self.entries.insert(place, (minute, counts))

    def _add(self, change: Sums) -> None:
        sums = self.sums
        for series, n in change.items():
            sums[series] = sums.get(series, 0) + n


class Past:
    """One scope's own past by the hour: sums, and between which minutes there was something."""

    __slots__ = ("_longest", "hours", "sums")

    def __init__(self) -> None:
        self.hours: deque[_Hour] = deque()
        self.sums: Sums = defaultdict(int)
        self._longest: int | None = None

    def add(self, minute: int, change: Mapping[str, int]) -> None:
        """Add counts, or a change of them, to the hour of their minute."""
        hour, self._longest = self._hour(minute), None
        hour.first, hour.last = min(hour.first, minute), max(hour.last, minute)
        for series, n in change.items():
            hour.sums[series] += n
            self.sums[series] += n

    def prune(self, clock: int, minutes: int) -> None:
        """Let go of hours that began at least so many minutes ago."""
        while self.hours and self.hours[0].number * HOUR <= clock - minutes:
            self._longest = None
            for series, n in self.hours.popleft().sums.items():
                self.sums[series] -= n

    def longest_silence(self) -> int:
        """Most minutes between what came last in one hour and first in the next that has something; never less than an
        hour, since silences inside an hour are not kept."""
        if self._longest is None:
            silences = (after.first - before.last for before, after in pairwise(self.hours))
            self._longest = max([HOUR, *silences])
        return self._longest

    def oldest(self) -> int | None:
        """The first minute with something that is still known."""
        return self.hours[0].first if self.hours else None

    def newest(self) -> int | None:
        """The last minute with something."""
        return self.hours[-1].last if self.hours else None

    def _hour(self, minute: int) -> "_Hour":
        number, place = minute // HOUR, len(self.hours)
        while place and self.hours[place - 1].number > number:
            place -= 1
        if not place or self.hours[place - 1].number != number:
            self.hours.insert(place, _Hour(minute))
            return self.hours[place]
        return self.hours[place - 1]


class _Hour:
    __slots__ = ("first", "last", "number", "sums")

    def __init__(self, minute: int) -> None:
        self.number = minute // HOUR
        self.first = self.last = minute
        self.sums: Sums = defaultdict(int)


class Told(NamedTuple):
    """What telling counts changed: lanes; per lane what was known before of minutes whose window had closed; and how
    many counts are of no window that is kept, long ago or far ahead."""

    changed: dict[Lane, None]
    late: dict[Lane, dict[int, Sums]]
    unjudged: int


class Windows:
    """All lanes of all tracks, and the minutes that they are made of. Its clock is a minute, and goes on one by one."""

    def __init__(self, views: Sequence[View], tracks: Sequence[Track], reaches: Sequence[Reach], clock: int) -> None:
        """A track's and a reach's view is its place in ``views``."""
        self.clock = clock
        self.pasts: dict[Reach, dict[Scope, Past]] = {reach: {} for reach in reaches}
        self._views = views
        self._keep = max([LATE_MINUTES, *(track.extent.limit for track in tracks)])
        self._minutes: dict[int, list[dict[Scope, Sums]]] = {}
        self._tracks = [[track for track in tracks if track.view == number] for number in range(len(views))]
        self._lanes: dict[Track, dict[Scope, Lane]] = {track: {} for track in tracks}
        self._numbers = {track: number for number, track in enumerate(tracks)}
        self._seen: list[dict[Scope, Scope | None]] = [{} for _ in views]
        self._visits: dict[int, dict[Lane, None]] = defaultdict(dict)

    def load(self, counts: Iterable[Count]) -> None:
        """Take in what was counted before, with nothing to be judged. Minutes after the clock are kept until it comes
        to them."""
        for minute, told in _by_minute(counts):
            divided = self._divided(told)
            if minute > self.clock - self._keep:
                self._minutes[minute] = divided
            if minute <= self.clock:
                self._remember(minute, divided)
        for minute in sorted(self._minutes, reverse=True):
            if minute <= self.clock:
                for lane, sums in self._lanes_of(self._minutes[minute]):
                    if lane.fill_back(minute, sums, self.clock):
                        self._visit(minute, lane)

    def tell(self, counts: Iterable[Count], running: int) -> Told:
        """Take in minutes, each whole. Of what is stamped ahead of the running minute, a day is kept."""
        answer, unjudged = Told({}, defaultdict(dict), 0), 0
        for minute, told in _by_minute(counts):
            if not self.clock - self._keep < minute <= running + DAY:
                unjudged += len(told)
            elif minute > self.clock:
                self._minutes[minute] = self._divided(told)
            else:
                self._replace(minute, self._divided(told), answer)
        return answer._replace(unjudged=unjudged)

    def advance(self) -> dict[Lane, None]:
        """Go on to the next minute; the lanes that changed."""
        self.clock += 1
        changed: dict[Lane, None] = {}
        divided = self._minutes.get(self.clock)
        if divided is not None:
            self._enter(divided, changed)
        for lane in self._visits.pop(self.clock, ()):
            if lane.prune(self.clock):
                changed[lane] = None
            minutes, _, limit = lane.track.extent
            oldest = lane.entries[0][0] if lane.entries else self.clock
            if oldest <= self.clock - minutes:
                self._visits[oldest + limit][lane] = None
        self._minutes.pop(self.clock - self._keep, None)
        return changed

    def past(self, reach: Reach, scope: Scope) -> Past:
        """The scope's past."""
        pasts = self.pasts[reach]
        past = pasts.get(scope)
        if past is None:
            past = pasts[scope] = Past()
        past.prune(self.clock, reach.minutes)
        return past

    def lane(self, track: Track, scope: Scope) -> Lane:
        """The lane of a scope on a track."""
        lanes = self._lanes[track]
        lane = lanes.get(scope)
        if lane is None:
            lane = lanes[scope] = Lane(track, scope, self._numbers[track])
        return lane

    def replay(self, lane: Lane, before: Mapping[int, Sums], *, known: bool) -> Iterator[Lane]:
        """The window of a lane at each minute that late counts bear upon: with them, or as ``known`` before them."""
        again = Lane(lane.track, lane.scope)
        minutes, _, limit = lane.track.extent
        first, last = min(before), min(max(before) + minutes - 1, self.clock)
        for minute in range(first - limit + 1, last + 1):
            counts = self._cell(minute, lane)
            if known:
                counts = before.get(minute, counts)
            if counts:
                again.push(minute, counts)
            again.prune(minute)
            if minute >= first:
                yield again

    def _divided(self, told: Iterable[Count]) -> list[dict[Scope, Sums]]:
        """Counts of one minute by view, and there by scope and series."""
        divided: list[dict[Scope, Sums]] = [{} for _ in self._views]
        for _, scope, series, n in told:
            if n > 0:
                for view, cells in enumerate(divided):
                    seen = self._scope(view, scope)
                    if seen is not None:
                        sums = cells.get(seen)
                        if sums is None:
                            sums = cells[seen] = {}
                        sums[series] = sums.get(series, 0) + n
        return divided

    def _scope(self, view: int, scope: Scope) -> Scope | None:
        seen = self._seen[view]
        if scope not in seen:
            seen[scope] = self._views[view].of(scope)
        return seen[scope]

    def _lanes_of(self, divided: list[dict[Scope, Sums]]) -> Iterator[tuple[Lane, Sums]]:
        for tracks, cells in zip(self._tracks, divided, strict=True):
            for track in tracks:
                lanes = self._lanes[track]
                for scope, sums in cells.items():
                    lane = lanes.get(scope)
                    yield (self.lane(track, scope) if lane is None else lane), sums

    def _enter(self, divided: list[dict[Scope, Sums]], changed: dict[Lane, None]) -> None:
        """Let the running minute into every lane that it has counts for."""
        minute = self.clock
        self._remember(minute, divided)
        for lane, sums in self._lanes_of(divided):
            lane.push(minute, sums)
            changed[lane] = None
            if lane.track.extent.runs:
                # More runs may let go of minutes beyond the shortest window, which otherwise only time does.
                lane.prune(minute)
            self._visits[minute + lane.track.extent.minutes][lane] = None

    def _remember(self, minute: int, divided: list[dict[Scope, Sums]]) -> None:
        for reach in self.pasts:
            for scope, sums in divided[reach.view].items():
                if reach.series in sums:
                    self.past(reach, scope).add(minute, sums)

    def _visit(self, minute: int, lane: Lane) -> None:
        """Come back when a minute may leave the window: when it has its length, and, if it is still inside by then,
        when it has reached its limit."""
        minutes, _, limit = lane.track.extent
        if minute + minutes > self.clock:
            self._visits[minute + minutes][lane] = None
        elif minute + limit > self.clock and lane.entries and lane.entries[0][0] <= minute:
            self._visits[minute + limit][lane] = None

    def _replace(self, minute: int, told: list[dict[Scope, Sums]], answer: Told) -> None:
        kept = self._minutes.setdefault(minute, [{} for _ in self._views])
        for view, (cells, now) in enumerate(zip(kept, told, strict=True)):
            for scope in cells.keys() | now.keys():
                counts = cells.setdefault(scope, {})
                before = dict(counts)
                counts.clear()
                counts.update(now.get(scope, {}))
                if counts != before:
                    self._remember_again(view, scope, minute, before, counts)
                    for track in self._tracks[view]:
                        self._amend(self.lane(track, scope), minute, before, answer)

    def _remember_again(self, view: int, scope: Scope, minute: int, before: Sums, counts: Sums) -> None:
        for reach in self.pasts:
            if reach.view == view:
                was, now = (sums if reach.series in sums else {} for sums in (before, counts))
                if was or now:
                    self.past(reach, scope).add(minute, _change(was, now))

    def _amend(self, lane: Lane, minute: int, before: Sums, answer: Told) -> None:
        counts = self._cell(minute, lane) or {}
        if not lane.reaches(minute, self.clock):
            answer.late[lane][minute] = before
            return
        change = _change(before, counts)
        lane.amend(minute, counts, change)
        if change.get(lane.track.over, 0) < 0:
            self._refill(lane)
        lane.prune(self.clock)
        self._visit(minute, lane)
        answer.changed[lane] = None

    def _refill(self, lane: Lane) -> None:
        """Fill a lane anew: with fewer runs, its window may reach back to minutes that it had left behind."""
        lane.entries.clear()
        lane.sums.clear()
        for minute in range(self.clock, self.clock - lane.track.extent.limit, -1):
            counts = self._cell(minute, lane)
            if counts and lane.fill_back(minute, counts, self.clock):
                self._visit(minute, lane)

    def _cell(self, minute: int, lane: Lane) -> Sums | None:
        cells = self._minutes.get(minute)
        return cells[lane.track.view].get(lane.scope) if cells else None


def _change(before: Mapping[str, int], now: Mapping[str, int]) -> Sums:
    return {series: now.get(series, 0) - before.get(series, 0) for series in before.keys() | now.keys()}


def _by_minute(counts: Iterable[Count]) -> list[tuple[int, list[Count]]]:
    minutes: dict[int, list[Count]] = defaultdict(list)
    for count in counts:
        minutes[count.minute].append(count)
    return sorted(minutes.items())
