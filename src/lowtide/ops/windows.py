"""Sliding windows: how many positions they take, and on how many they meet elements."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from lowtide.ir.attributes import Window, WindowDimension
from lowtide.ir.errors import ShapeError
from lowtide.ir.shape import UNBOUNDED
from lowtide.ops.checks import Dimension


def check_window(window: Window) -> None:
    """Check that sizes, strides and dilations are positive."""
    for dimension in window.dimensions:
        for name in ("size", "stride", "window_dilation", "base_dilation"):
            value = getattr(dimension, name)
            if value <= 0:
                raise ShapeError(f"a window needs a positive {name}, not {value}")


def dilated(size: int, dilation: int) -> int:
    """Return the extent of `size` elements with `dilation - 1` holes between neighbours."""
    return (size - 1) * dilation + 1 if size else 0


def positions(size: int, window: WindowDimension) -> int:
    """Return how many positions the window takes along a dimension of `size` elements."""
    extent = window.padding_low + dilated(size, window.base_dilation) + window.padding_high
    room = extent - dilated(window.size, window.window_dilation)
    return room // window.stride + 1 if room >= 0 and extent > 0 else 0


def slide(base: list[Dimension], window: Window) -> list[Dimension]:
    """Return the dimensions of what a window yields over `base`, one of each per dimension."""
    check_window(window)
    return [
        (UNBOUNDED if size == UNBOUNDED else positions(size, dimension), dynamic)
        for (size, dynamic), dimension in zip(base, window.dimensions, strict=True)
    ]


def taps(size: int, outputs: int, window: WindowDimension) -> int:
    """Return how many (output, window element) pairs read an element, neither padding nor hole.

    Linear in the size of the window: the outputs which read one window element form an arithmetic
    progression.
    """
    return sum(_hits(size, outputs, window, tap) for tap in range(window.size))


def _hits(size: int, outputs: int, window: WindowDimension, tap: int) -> int:
    offset = tap * window.window_dilation - window.padding_low
    period = window.base_dilation // gcd(window.stride, window.base_dilation)
    first = _first_on_element(offset, window, period)
    if first is None:
        return 0
    last_element = (size - 1) * window.base_dilation
    low = max(0, -(offset // window.stride))  # the least output with a position >= 0
    high = min(outputs - 1, (last_element - offset) // window.stride)
    if high < low:
        return 0
    start = first + -(-(low - first) // period) * period if low > first else first
    return (high - start) // period + 1 if high >= start else 0


def _first_on_element(offset: int, window: WindowDimension, period: int) -> int | None:
    """Return the first output whose position is a multiple of the base dilation."""
    for output in range(period):
        if (output * window.stride + offset) % window.base_dilation == 0:
            return output
    return None


def window_size(window: Window) -> int:
    """Return the number of elements of a window."""
    count = 1
    for dimension in window.dimensions:
        count *= dimension.size
    return count


def padded(window: Window) -> Iterator[WindowDimension]:
    """Yield the dimensions of the window which reach over the border."""
    for dimension in window.dimensions:
        if dimension.padding_low or dimension.padding_high:
            yield dimension
