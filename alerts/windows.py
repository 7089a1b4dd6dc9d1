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


class Place(NamedTuple):
    """One lane: a scope on a track."""

    track: Track
    scope: Scope


class Lane:
    """The window of one scope: its minutes that have counts, and their sums."""

    __slots__ = ("entries", "sums")

    def __init__(self) -> None:
        self.entries: deque[tuple[int, Sums]] = deque()
        self.sums: Sums = defaultdict(int)

    def push(self, minute: int, counts: Sums) -> None:
        """Let the newest minute in. ``counts`` is kept as it is, so that whoever changes it later amends the lane."""
        self.entries.append((minute, counts))
        for series, n in counts.items():
            self.sums[series] += n

    def prune(self, clock: int, track: Track) -> bool:
        """Let go of what the window has left behind; whether that was anything."""
        entries, sums, before = self.entries, self.sums, len(self.entries)
        _, over, extent = track
        while entries:
            minute, counts = entries[0]
            if minute > clock - extent.minutes:
                break
            if minute > clock - extent.limit and sums[over] - counts.get(over, 0) < extent.runs:
                break
            entries.popleft()
            for series, n in counts.items():
                sums[series] -= n
        return len(entries) < before

    def reaches(self, minute: int, clock: int, track: Track) -> bool:
        """Whether a minute up to the running one is, or would be, inside the window."""
        _, over, extent = track
        if minute > clock - extent.minutes:
            return True
        inside = bool(self.entries) and minute >= self.entries[0][0]
        return minute > clock - extent.limit and (inside or self.sums[over] < extent.runs)

    def amend(self, minute: int, counts: Sums, change: Mapping[str, int]) -> None:
        """Add a change to a minute inside the window; ``counts`` is what is kept of it, with the change."""
        for series, n in change.items():
            self.sums[series] += n
        place = len(self.entries)
        while place and self.entries[place - 1][0] > minute:
            place -= 1
        if not place or self.entries[place - 1][0] != minute:
            self.entries.insert(place, (minute, counts))


class Past:
    """One scope's own past by the hour: sums, and between which minutes there was something."""

    __slots__ = ("hours", "sums")

    def __init__(self) -> None:
        self.hours: deque[_Hour] = deque()
        self.sums: Sums = defaultdict(int)

    def add(self, minute: int, change: Mapping[str, int]) -> None:
        """Add counts, or a change of them, to the hour of their minute."""
        hour = self._hour(minute)
        hour.first, hour.last = min(hour.first, minute), max(hour.last, minute)
        for series, n in change.items():
            hour.sums[series] += n
            self.sums[series] += n

    def prune(self, clock: int, minutes: int) -> None:
        """Let go of hours that began at least so many minutes ago."""
        while self.hours and self.hours[0].number * HOUR <= clock - minutes:
            for series, n in self.hours.popleft().sums.items():
                self.sums[series] -= n

    def longest_silence(self) -> int:
        """Most minutes between what came last in one hour and first in the next that has something; never less than an
        hour, since silences inside an hour are not kept."""
        hours = list(self.hours)
        return max([HOUR, *(after.first - before.last for before, after in pairwise(hours))])

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

    changed: set[Place]
    late: dict[Place, dict[int, Sums]]
    unjudged: int


class Windows:
    """All lanes of all tracks, and the minutes that they are made of. Its clock is a minute, and goes on one by one."""

    def __init__(self, views: Sequence[View], tracks: Sequence[Track], reaches: Sequence[Reach], clock: int) -> None:
        """A track's and a reach's view is its place in ``views``."""
        self.clock = clock
        self.lanes: dict[Track, dict[Scope, Lane]] = {track: {} for track in tracks}
        self.pasts: dict[Reach, dict[Scope, Past]] = {reach: {} for reach in reaches}
        self._views = views
        self._keep = max([LATE_MINUTES, *(track.extent.limit for track in tracks)])
        self._minutes: dict[int, list[dict[Scope, Sums]]] = {}
        self._tracks = [[track for track in tracks if track.view == number] for number in range(len(views))]
        self._seen: list[dict[Scope, Scope | None]] = [{} for _ in views]
        self._visits: dict[int, set[Place]] = defaultdict(set)

    def load(self, counts: Iterable[Count]) -> None:
        """Take in what was counted before, with nothing to be judged. Minutes after the clock are kept until it comes
        to them."""
        for minute, told in _by_minute(counts):
            divided = self._divided(told)
            if minute > self.clock - self._keep:
                self._minutes[minute] = divided
                self._enter(minute)
            else:
                self._remember(minute, divided)
        for track, lanes in self.lanes.items():
            for lane in lanes.values():
                lane.prune(self.clock, track)

    def tell(self, counts: Iterable[Count], running: int) -> Told:
        """Take in minutes, each whole. Of what is stamped ahead of the running minute, a day is kept."""
        answer, unjudged = Told(set(), defaultdict(dict), 0), 0
        for minute, told in _by_minute(counts):
            if not self.clock - self._keep < minute <= running + DAY:
                unjudged += len(told)
            elif minute > self.clock:
                self._minutes[minute] = self._divided(told)
            else:
                self._replace(minute, self._divided(told), answer)
        return answer._replace(unjudged=unjudged)

    def advance(self) -> set[Place]:
        """Go on to the next minute; the lanes that changed."""
        self.clock += 1
        changed = self._enter(self.clock)
        for place in self._visits.pop(self.clock, ()):
            if self.lanes[place.track][place.scope].prune(self.clock, place.track):
                changed.add(place)
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

    def replay(self, place: Place, before: Mapping[int, Sums], *, known: bool) -> Iterator[Sums]:
        """The window of one lane at each minute that late counts bear upon: with them, or as ``known`` before them."""
        track, lane = place.track, Lane()
        first, last = min(before), min(max(before) + track.extent.minutes - 1, self.clock)
        for minute in range(first - track.extent.limit + 1, last + 1):
            counts = self._cell(minute, place)
            if known:
                counts = before.get(minute, counts)
            if counts:
                lane.push(minute, counts)
            lane.prune(minute, track)
            if minute >= first:
                yield lane.sums

    def _divided(self, told: Iterable[Count]) -> list[dict[Scope, Sums]]:
        """Counts of one minute by view, and there by scope and series."""
        divided: list[dict[Scope, Sums]] = [{} for _ in self._views]
        for _, scope, series, n in told:
            if n > 0:
                for view, cells in enumerate(divided):
                    seen = self._scope(view, scope)
                    if seen is not None:
                        sums = cells.setdefault(seen, {})
                        sums[series] = sums.get(series, 0) + n
        return divided

    def _scope(self, view: int, scope: Scope) -> Scope | None:
        seen = self._seen[view]
        if scope not in seen:
            seen[scope] = self._views[view].of(scope)
        return seen[scope]

    def _enter(self, minute: int) -> set[Place]:
        """Let a minute into every lane that it has counts for, if the clock has come to it."""
        changed: set[Place] = set()
        divided = self._minutes.get(minute)
        if divided is None or minute > self.clock:
            return changed
        self._remember(minute, divided)
        for tracks, cells in zip(self._tracks, divided, strict=True):
            for track in tracks:
                for scope, sums in cells.items():
                    place = Place(track, scope)
                    lane = self._lane(place)
                    lane.push(minute, sums)
                    lane.prune(minute, track)
                    self._visit(minute, place)
                    changed.add(place)
        return changed

    def _lane(self, place: Place) -> Lane:
        lanes = self.lanes[place.track]
        lane = lanes.get(place.scope)
        if lane is None:
            lane = lanes[place.scope] = Lane()
        return lane

    def _remember(self, minute: int, divided: list[dict[Scope, Sums]]) -> None:
        for reach in self.pasts:
            for scope, sums in divided[reach.view].items():
                if reach.series in sums:
                    self.past(reach, scope).add(minute, sums)

    def _visit(self, minute: int, place: Place) -> None:
        """Come back when a minute may leave the window."""
        minutes, _, limit = place.track.extent
        for leaves in {minute + minutes, minute + limit}:
            if leaves > self.clock:
                self._visits[leaves].add(place)

    def _replace(self, minute: int, told: list[dict[Scope, Sums]], answer: Told) -> None:
        kept = self._minutes.setdefault(minute, [{} for _ in self._views])
        for view, (cells, now) in enumerate(zip(kept, told, strict=True)):
            for scope in cells.keys() | now.keys():
                counts = cells.setdefault(scope, {})
                before = dict(counts)
                counts.clear()
                counts.update(now.get(scope, {}))
                if counts != before:
                    self._amend(view, scope, minute, counts, before, answer)

    def _amend(  # noqa: PLR0913, PLR0917 -- one change of one cell
        self, view: int, scope: Scope, minute: int, counts: Sums, before: Sums, answer: Told
    ) -> None:
        change = _change(before, counts)
        for reach in self.pasts:
            if reach.view == view:
                was, now = (sums if reach.series in sums else {} for sums in (before, counts))
                if was or now:
                    self.past(reach, scope).add(minute, _change(was, now))
        for track in self._tracks[view]:
            place = Place(track, scope)
            lane = self._lane(place)
            if lane.reaches(minute, self.clock, track):
                lane.amend(minute, counts, change)
                if change.get(track.over, 0) < 0:
                    lane = self._refill(place)
                lane.prune(self.clock, track)
                self._visit(minute, place)
                answer.changed.add(place)
            else:
                answer.late[place][minute] = before

    def _refill(self, place: Place) -> Lane:
        """Fill a lane anew: with fewer runs, its window may reach back to minutes that it had left behind."""
        lane = self.lanes[place.track][place.scope] = Lane()
        for minute in range(self.clock - place.track.extent.limit + 1, self.clock + 1):
            counts = self._cell(minute, place)
            if counts:
                lane.push(minute, counts)
                lane.prune(minute, place.track)
                self._visit(minute, place)
        return lane

    def _cell(self, minute: int, place: Place) -> Sums | None:
        cells = self._minutes.get(minute)
        return cells[place.track.view].get(place.scope) if cells else None


def _change(before: Mapping[str, int], now: Mapping[str, int]) -> Sums:
    return {series: now.get(series, 0) - before.get(series, 0) for series in before.keys() | now.keys()}


def _by_minute(counts: Iterable[Count]) -> list[tuple[int, list[Count]]]:
    minutes: dict[int, list[Count]] = defaultdict(list)
    for count in counts:
        minutes[count.minute].append(count)
    return sorted(minutes.items())
