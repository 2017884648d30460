"""Arrays that each device of a group receives for those that all of them bring."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from lowtide.ir.exchange import Exchange
from lowtide.ir.literal import Array
from lowtide.ir.opcode import Opcode

Brought: TypeAlias = Sequence[Sequence[Array]]
"""By device of a group, in its order, the arrays that it brings."""

Received: TypeAlias = "list[list[Array]]"
"""By device, the arrays that it receives."""


def traded(exchange: Exchange, brought: Brought) -> Received:
    """Return what each device receives; the same values in any order in which devices come."""
    return _TRADES[exchange.kind](exchange, brought)


def _gathered(exchange: Exchange, brought: Brought) -> Received:
    axis = exchange.dimension or 0
    columns = zip(*brought, strict=True)
    joined = [np.concatenate(column, axis) for column in columns]
    return [joined for _ in brought]


def _sums(exchange: Exchange, brought: Brought) -> list[Array]:
    return [_sum(exchange, column) for column in zip(*brought, strict=True)]


def _sum(exchange: Exchange, arrays: Sequence[Array]) -> Array:
    dtype = arrays[0].dtype
    assert exchange.reducer is not None
    ufunc = (_TRUTH_VALUES if dtype == np.bool_ else _NUMBERS)[exchange.reducer]
    is_exact = dtype.kind in "biu" or ufunc in (np.maximum, np.minimum)
    wide = dtype if is_exact else np.dtype(np.complex128 if dtype.kind == "c" else np.float64)
    if dtype.kind == "V":
        wide = np.dtype(np.float64)
    total: Any = arrays[0].astype(wide)
    for array in arrays[1:]:
        total = ufunc(total, array.astype(wide))
    return np.asarray(total).astype(dtype)


_NUMBERS: Final[Mapping[Opcode, np.ufunc]] = {
    Opcode.ADD: np.add,
    Opcode.AND: np.bitwise_and,
    Opcode.MAXIMUM: np.maximum,
    Opcode.MINIMUM: np.minimum,
    Opcode.MULTIPLY: np.multiply,
    Opcode.OR: np.bitwise_or,
    Opcode.XOR: np.bitwise_xor,
}

_TRUTH_VALUES: Final[Mapping[Opcode, np.ufunc]] = {
    Opcode.ADD: np.logical_or,
    Opcode.AND: np.logical_and,
    Opcode.MAXIMUM: np.logical_or,
    Opcode.MINIMUM: np.logical_and,
    Opcode.MULTIPLY: np.logical_and,
    Opcode.OR: np.logical_or,
    Opcode.XOR: np.logical_xor,
}


def _reduced(exchange: Exchange, brought: Brought) -> Received:
    sums = _sums(exchange, brought)
    return [sums for _ in brought]


def _scattered(exchange: Exchange, brought: Brought) -> Received:
    axis = exchange.dimension or 0
    parts = [np.split(x, len(brought), axis) for x in _sums(exchange, brought)]
    return [[part[place] for part in parts] for place in range(len(brought))]


def _turned(exchange: Exchange, brought: Brought) -> Received:
    axis, count = exchange.dimension, len(brought)
    if axis is None:
        return [[one[place] for one in brought] for place in range(count)]
    pieces = [[np.split(x, count, axis) for x in one] for one in brought]
    numbers = range(len(exchange.operands))
    return [
        [np.concatenate([own[i][place] for own in pieces], axis) for i in numbers]
        for place in range(count)
    ]


def _first(exchange: Exchange, brought: Brought) -> Received:
    return [list(brought[0]) for _ in brought]


def _permuted(exchange: Exchange, brought: Brought) -> Received:
    sources = {target: source for source, target in exchange.pairs}
    return [list(brought[sources[i]]) if i in sources else [] for i in range(len(brought))]


_TRADES: Final[Mapping[Opcode, Callable[[Exchange, Brought], Received]]] = {
    Opcode.ALL_GATHER: _gathered,
    Opcode.ALL_REDUCE: _reduced,
    Opcode.ALL_TO_ALL: _turned,
    Opcode.COLLECTIVE_BROADCAST: _first,
    Opcode.COLLECTIVE_PERMUTE: _permuted,
    Opcode.REDUCE_SCATTER: _scattered,
}
