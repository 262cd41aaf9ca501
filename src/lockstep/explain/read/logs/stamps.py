"""`Clock`: the wall clock that a log's lines are stamped with, in whichever of the usual forms they have.

2026-02-24 19:46:17,508        Python's logging, with or without parts of a second, with a T between them
10/17/2025 16:31:56            nanotron, the month first
I0804 08:14:00.000000          glog, which leaves the year out
"time_ms": 1715848254167       MLPerf
"""

from __future__ import annotations

import re
from calendar import timegm

from lockstep.base.records import dataclass

LONGEST = 300
"""Letters of a line in which its stamp is looked for."""
FORMS = (
    (re.compile(r"(\d{4})[-/](\d\d)[-/](\d\d)[ T_](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?"), (0, 1, 2)),
    (re.compile(r"(\d\d)/(\d\d)/(\d{4})[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?"), (2, 0, 1)),
    (re.compile(r"^()[IWEF](\d\d)(\d\d) +(\d\d):(\d\d):(\d\d)\.(\d{1,9})"), (0, 1, 2)),
    (re.compile(r"\"time_ms\": (\d{12,14})\b"), ()),
)
"""Patterns, and which of their groups are year, month and day."""
ANY_YEAR = 2000
"""A leap year, for stamps without a year."""


@dataclass(slots=True)
class Clock:
    """Reads stamps in the form that the first stamped line has; one that goes back is left out and counted."""

    first_s: float | None = None
    last_s: float | None = None
    backwards: int = 0
    _form: int | None = None

    def read(self, line: str) -> float | None:
        """Seconds of the stamp of a line; None without one."""
        begun = line[:LONGEST]
        for number in range(len(FORMS)) if self._form is None else (self._form,):
            found = FORMS[number][0].search(begun)
            stamp_s = None if found is None else _seconds(found, FORMS[number][1])
            if stamp_s is not None:
                self._form = number
                return self._kept(stamp_s)
        return None

    def restart(self) -> None:
        """Forgets the last stamp, as the lines are read once more."""
        self.last_s = None

    def _kept(self, stamp_s: float) -> float | None:
        if self.last_s is not None and stamp_s < self.last_s - 1.0:
            self.backwards += 1
            return None
        self.first_s = stamp_s if self.first_s is None else self.first_s
        self.last_s = stamp_s if self.last_s is None else max(stamp_s, self.last_s)
        return stamp_s


def _seconds(found: re.Match[str], places: tuple[int, ...]) -> float | None:
    """Seconds since 1970 as if every clock showed the same zone; None of a date that no calendar has."""
    if not places:
        return int(found[1]) / 1e3
    date, clock = found.groups()[:3], found.groups()[3:6]
    year, month, day = (int(date[place] or ANY_YEAR) for place in places)
    hour, minute, second = (int(one) for one in clock)
    if not (1970 <= year < 2200 and 1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 61):
        return None
    return timegm((year, month, day, hour, minute, second)) + float(f"0.{found[7] or 0}")
