"""Begin and end of each thunk of a run."""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.records import dataclass
from lowtide.runtime.cpu.frame import Words

EVENTS: Final = 1 << 20
"""Begins and ends that a record holds; later ones replace the first."""


@dataclass(frozen=True, slots=True)
class Span:
    """One run of the thunk `number`, of the instruction `name`; times in nanoseconds."""

    number: int
    name: str
    begin: int
    end: int


def new_record() -> Words:
    """Return an empty record, as the walker fills it."""
    record = np.zeros(2 + 2 * EVENTS, np.int64)
    record[0] = EVENTS
    return record


def spans(record: Words, names: tuple[str, ...]) -> tuple[Span, ...]:
    """Return what a record tells of each run of a thunk whose begin it still holds."""
    count = int(record[1])
    slots = np.arange(max(count - EVENTS, 0), count) % EVENTS
    open_: dict[int, list[int]] = {}
    found = []
    for code, time in record[2:].reshape(-1, 2)[slots].tolist():
        number, ends = divmod(code, 2)
        begun = open_.setdefault(number, [])
        if not ends:
            begun.append(time)
        elif begun:
            found.append(Span(number, names[number], begun.pop(), time))
    return tuple(found)
