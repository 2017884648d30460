"""Loops whose trips are certain: at compile time, or from two whole numbers when they begin."""

from __future__ import annotations

from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class LoopCounter:
    """A loop runs `trips` times; where that is None, as long as its counter compares to a limit.

    The counter is the element number `element` of what the loop carries, each trip adds `step`, and
    it goes on while the counter `direction` (LT, LE, GT, GE, EQ, NE) the limit holds. The limit is
    the element number `limit_element`, which no trip changes, or `limit` where that is None. Both
    numbers lie between `lowest` and `highest`, beyond which the counter wraps around.
    """

    trips: int | None
    element: int = 0
    step: int = 0
    direction: str = "LT"
    limit_element: int | None = None
    limit: int = 0
    lowest: int = 0
    highest: int = 0

    def trips_from(self, start: int, limit: int) -> int | None:
        """Return how often the loop runs; None where it never ends or its counter wraps around."""
        return trips_between(start, self.step, limit, self.direction, (self.lowest, self.highest))


def trips_between(
    start: int, step: int, limit: int, direction: str, bounds: tuple[int, int]
) -> int | None:
    """Return after how many steps `start + n * step` no longer compares so to `limit`.

    None where it always does, or the counter leaves its bounds first.
    """
    low, high = bounds
    if direction in ("GT", "GE"):
        return _upward(-start, -step, -limit, direction == "GE", -low)
    if direction in ("LT", "LE"):
        return _upward(start, step, limit, direction == "LE", high)
    if direction == "EQ":
        if start != limit:
            return 0
        return 1 if step and low <= start + step <= high else None
    distance = limit - start
    if not distance:
        return 0
    return distance // step if step and distance % step == 0 and distance // step > 0 else None


def _upward(start: int, step: int, limit: int, with_limit: bool, most: int) -> int | None:
    last = limit if with_limit else limit - 1
    if start > last:
        return 0
    if step <= 0:
        return None
    count = (last - start) // step + 1
    return count if start + count * step <= most else None
