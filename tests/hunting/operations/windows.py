"""Windows: sizes, strides, padding, holes in the array and in the window, reversal."""

from __future__ import annotations

from collections.abc import Sequence

from tests.hunting.scope import Scope

from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class DrawnWindow:
    """A window as HLO spells it, and the sizes of what comes out."""

    text: str
    result: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DrawnDimension:
    """One dimension of a window; the array's elements stand `base` apart, the window's `holes`."""

    size: int
    stride: int = 1
    low: int = 0
    high: int = 0
    base: int = 1
    holes: int = 1

    def places(self, length: int) -> int:
        """Return at how many places the window fits an array of some length."""
        spread = (length - 1) * self.base + 1 if length else 0
        reach = (self.size - 1) * self.holes + 1
        left = spread + self.low + self.high - reach
        return left // self.stride + 1 if left >= 0 else 0


def draw_window(scope: Scope, sizes: Sequence[int], *, spreads: bool) -> DrawnWindow:
    """Return a window over all dimensions of an array; with `spreads` there may be holes."""
    dimensions = [draw_dimension(scope, size, spreads=spreads) for size in sizes]
    result = tuple([x.places(size) for x, size in zip(dimensions, sizes, strict=True)])
    return DrawnWindow(window_text(dimensions), result)


def draw_running(scope: Scope, sizes: Sequence[int]) -> DrawnWindow:
    """Return a window over all that comes before, or behind, along one dimension of an array."""
    place = scope.random.randrange(len(sizes))
    reach = sizes[place] - 1
    low = scope.random.choice((0, reach))
    dimensions = [DrawnDimension(1)] * len(sizes)
    dimensions[place] = DrawnDimension(sizes[place], low=low, high=reach - low)
    return DrawnWindow(window_text(dimensions), tuple(sizes))


def draw_dimension(scope: Scope, length: int, *, spreads: bool) -> DrawnDimension:
    """Return one dimension of a window over an array of some length."""
    most = 17 if scope.draft.wide and scope.chance(4) else 4
    size = 1 if scope.chance(3) else scope.random.randint(1, max(1, min(most, length)))
    draw = scope.random
    padded = scope.chance(2)
    return DrawnDimension(
        size,
        draw.choice((1, 1, 2, 3)),
        draw.randint(0, size - 1) if padded else 0,
        draw.randint(0, size - 1) if padded else 0,
        draw.choice((1, 1, 1, 2, 3)) if spreads else 1,
        draw.choice((1, 1, 1, 2)) if spreads else 1,
    )


def window_text(dimensions: Sequence[DrawnDimension], reversals: Sequence[int] = ()) -> str:
    """Return a window as HLO spells it."""
    words = [f"size={'x'.join([str(x.size) for x in dimensions])}"]
    words.append(f"stride={'x'.join([str(x.stride) for x in dimensions])}")
    words.append(f"pad={'x'.join([f'{x.low}_{x.high}' for x in dimensions])}")
    words.append(f"lhs_dilate={'x'.join([str(x.base) for x in dimensions])}")
    words.append(f"rhs_dilate={'x'.join([str(x.holes) for x in dimensions])}")
    if any(reversals):
        words.append(f"rhs_reversal={'x'.join(map(str, reversals))}")
    return f"{{{' '.join(words)}}}"
