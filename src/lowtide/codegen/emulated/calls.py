"""Waits and calls by which kernels on the host talk to the scheduler of an emulated device."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum


class Wait(IntEnum):
    """What a thread waits for: nothing, as it has ended, or other threads."""

    ENDED = 0
    BARRIER = 1
    EXCHANGE = 2
    BFLOAT_PRODUCT = 3
    HALF_PRODUCT = 4
    MATRICES = 5
    TURNED_MATRICES = 6
    WARPGROUP = 7
    SIGNED_PRODUCT = 8
    UNSIGNED_PRODUCT = 9
    SMALL_DOUBLE_PRODUCT = 10
    DOUBLE_PRODUCT = 11


class WarpgroupCall(IntEnum):
    """What a warpgroup is told to do."""

    FENCE = 0
    COMMIT = 1
    WAIT = 2
    PRODUCT = 3


HALF, LEFT_ACROSS, RIGHT_ACROSS = 1 << 8, 1 << 9, 1 << 10
"""Of a product: operands are f16 and not bf16, and lie across the depth."""


def handing_over(
    name: str, given: Sequence[str], stored: Sequence[str], results: int, place: str, call: str
) -> str:
    """Return a function that stores values, calls, and returns the last so many of the place.

    `given` are parameters that are passed on, as IR has them; `stored` the types of those behind,
    of one size; `place` the function that says where these go.
    """
    whole = f"{{ {', '.join(stored[-results:])} }}"
    head = ", ".join([*given, *[f"{type_} %x{i}" for i, type_ in enumerate(stored)]])
    lines = [f"  %place = call ptr @{place}()"]
    for i, type_ in enumerate(stored):
        lines.append(f"  %p{i} = getelementptr {type_}, ptr %place, i64 {i}")
        lines.append(f"  store {type_} %x{i}, ptr %p{i}, align 4")
    found = f"  %found = load {whole}, ptr %p{len(stored) - results}, align 4"
    body = "\n".join([*lines, f"  {call}", found, f"  ret {whole} %found"])
    return f"define internal {whole} @{name}({head}) noinline {{\n{body}\n}}\n"
