"""Preferences of kernels: bytes that they move or read badly for want of a good layout."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import Convolution, Dimensions, Gather
from lowtide.ops.dot_roles import dot_roles
from lowtide.ops.table import TABLE
from lowtide.transforms.layout.orders import Order, minor, row_major_order

_STRIDED: Final = 8
"""How many times the bytes of a part are read that has one element of each cache line."""


def penalty(x: Instruction, orders: Sequence[Order], order: Order) -> int:
    """Return the bytes that an operation loses with operands in `orders` and a result in `order`.

    Operands that it reads badly in row-major order too count for nothing.
    """
    rule = _RULES.get(x.opcode)
    return 0 if rule is None else rule(x, orders, order)


def channels_last(x: Instruction) -> tuple[Order, Order, Order]:
    """Return the orders that a convolution likes best: of its operands, then of its result.

    Results have their features last, and kernels the features that they make. What is numbered
    first stays first, so that a gradient reads activations as the convolution itself does.
    """
    n = x.attributes_as(Convolution).dimensions
    last, first = n.input_feature, n.input_batch
    if n.input_feature < n.input_batch:
        last, first = first, last
    kernel = (*n.kernel_spatial, n.kernel_input_feature, n.kernel_output_feature)
    if n.kernel_input_feature < n.kernel_output_feature:
        kernel = (n.kernel_input_feature, *n.kernel_spatial, n.kernel_output_feature)
    return (
        (first, *n.input_spatial, last),
        kernel,
        (n.output_batch, *n.output_spatial, n.output_feature),
    )


def convolved(x: Instruction, orders: Sequence[Order]) -> tuple[Order, ...]:
    """Return the orders in which a convolution takes operands and makes a result, from those given.

    Kernels run along channels, or along a batch that is contracted; not along spatial dimensions.
    """
    n = x.attributes_as(Convolution).dimensions
    spatial = (n.input_spatial, n.kernel_spatial, n.output_spatial)
    arrays = (*x.operands, x)
    return tuple(
        [
            best if minor(order, y.shape.dimensions) in avoided else order
            for y, order, avoided, best in zip(
                arrays, orders, spatial, channels_last(x), strict=True
            )
        ]
    )


def _dot(x: Instruction, orders: Sequence[Order], order: Order) -> int:
    """Matrices are packed along contracted or free dimensions; across a batch they are not."""
    lost = 0
    for y, own, roles in zip(x.operands, orders, dot_roles(x), strict=True):
        fastest = minor(own, y.shape.dimensions)
        if fastest in roles.batch and fastest != minor(
            row_major_order(len(own)), y.shape.dimensions
        ):
            lost += y.shape.nbytes
    return lost


def _reduce(x: Instruction, orders: Sequence[Order], order: Order) -> int:
    """Along the fastest dimensions, a row stays in the cache for what reads it again."""
    reduced = x.attributes_as(Dimensions).dimensions
    data = x.operands[0]
    sizes = data.shape.dimensions
    before = row_major_order(len(sizes))
    if not _are_last(reduced, before, sizes) or _are_last(reduced, orders[0], sizes):
        return 0
    return 2 * data.shape.nbytes if _is_read_again(data) else 0


def _is_read_again(data: Instruction) -> bool:
    """Whether something else reads what is reduced, or of what elementwise work makes it."""
    waiting = [data]
    for x in waiting:
        if len(x.users) > 1 or len(waiting) > _MOST_SEEN:
            return True
        if TABLE[x.opcode].elementwise:
            waiting += [y for y in x.operands if y.shape.rank and y.opcode not in _MADE]
    return False


_MOST_SEEN: Final = 32
_MADE: Final = frozenset({Opcode.BROADCAST, Opcode.CONSTANT, Opcode.IOTA})


def _are_last(dimensions: Sequence[int], order: Order, sizes: Sequence[int]) -> bool:
    wide = [d for d in order if sizes[d] != 1]
    count = sum([sizes[d] != 1 for d in dimensions])
    return set(wide[len(wide) - count :]) <= set(dimensions)


def _part(x: Instruction, orders: Sequence[Order], order: Order) -> int:
    """A part of one element along the fastest dimension."""
    part = x.operands[1] if x.opcode is Opcode.DYNAMIC_UPDATE_SLICE else x
    whole = x.operands[0].shape.dimensions
    fastest = minor(orders[0], whole)
    if fastest < 0 or fastest == minor(row_major_order(len(whole)), whole):
        return 0
    return _STRIDED * part.shape.nbytes if part.shape.dimensions[fastest] == 1 else 0


def _gather(x: Instruction, orders: Sequence[Order], order: Order) -> int:
    whole = x.operands[0].shape.dimensions
    fastest = minor(orders[0], whole)
    if fastest < 0 or fastest == minor(row_major_order(len(whole)), whole):
        return 0
    return _STRIDED * x.shape.nbytes if x.attributes_as(Gather).slice_sizes[fastest] == 1 else 0


_RULES: Final[Mapping[Opcode, Callable[[Instruction, Sequence[Order], Order], int]]] = {
    Opcode.DOT: _dot,
    Opcode.DYNAMIC_SLICE: _part,
    Opcode.DYNAMIC_UPDATE_SLICE: _part,
    Opcode.GATHER: _gather,
    Opcode.REDUCE: _reduce,
    Opcode.SLICE: _part,
}
