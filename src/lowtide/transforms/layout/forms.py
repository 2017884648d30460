"""The order of an operation's dimensions as an operation of other form: a table by opcode.

A rule is given the orders in which the operands lie, and the order in which the result is wanted.
It answers with the form in which the operation can be done on row-major twins with the fewest bytes
moved. An operation without a rule works on arrays as they are numbered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np

from lowtide.ir import Instruction, Literal, Opcode, array_shape
from lowtide.ir.attributes import (
    Attributes,
    Constant,
    Convolution,
    Dimensions,
    Dot,
    DotDimensions,
    DynamicSlice,
    Gather,
    Iota,
    Pad,
    ReduceWindow,
    Reshape,
    Slice,
    Window,
)
from lowtide.ops.dot_roles import dot_roles
from lowtide.ops.symmetry import is_symmetric
from lowtide.ops.table import TABLE
from lowtide.records import dataclass
from lowtide.transforms.layout.orders import (
    Order,
    is_movable,
    kept_order,
    minor,
    order_of,
    permuted,
    row_major_order,
    same_bytes,
)
from lowtide.transforms.simplify.shapes import groups_of, inverse, is_ascending

Orders: TypeAlias = Sequence[Order]


@dataclass(frozen=True, slots=True)
class LayoutForm:
    """An operation on twins: its attributes there, but for constants, and the orders it needs.

    `orders` has the order in which each operand is read, `order` that of the result as it comes.
    `operands` are the numbers of the operands, in turn, if not all as they are. Where `passes_on`,
    the twin of the result is that of operand 0.
    """

    attributes: Attributes
    orders: tuple[Order, ...]
    order: Order
    operands: tuple[int, ...] | None = None
    passes_on: bool = False


Rule: TypeAlias = "Callable[[Instruction, Orders, Order], LayoutForm | None]"


def form_of(x: Instruction, orders: Orders, wanted: Order) -> LayoutForm | None:
    """Return the form of an operation whose operands lie in `orders`, the result best in `wanted`.

    None where it takes and gives arrays as they are, without regard to their orders.
    """
    rule = rule_of(x)
    if rule is None or not is_movable(x.shape):
        return None
    if not all(is_movable(y.shape) for y in x.operands):
        return None
    kept = keeps_rank(x) and x.operands and len(orders[0]) == len(wanted)
    if kept and same_bytes(orders[0], wanted, x.shape.dimensions):
        wanted = orders[0]  # A dimension of which one element is left lies where it did.
    return rule(x, orders, wanted)


def rule_of(x: Instruction) -> Rule | None:
    """Return the rule of an opcode, None where it has none."""
    rule = _RULES.get(x.opcode)
    return _elementwise if rule is None and TABLE[x.opcode].elementwise else rule


def changes_layout(copy: Instruction) -> bool:
    """Whether a copy is there to change the order of dimensions."""
    return copy.opcode is Opcode.COPY and order_of(copy.shape) != order_of(copy.operands[0].shape)


def keeps_rank(x: Instruction) -> bool:
    """Whether operands and result have the same dimensions, best in the same order."""
    return x.opcode in _KEEP_RANK or (TABLE[x.opcode].elementwise and not changes_layout(x))


# -- operations that keep the rank -------------------------------------------------------------


def _aligned(x: Instruction, wanted: Order, attributes: Attributes) -> LayoutForm:
    """Operands of the rank of the result lie like it; others, such as scalars, as they are."""
    rank = x.shape.rank
    same = [wanted if y.shape.rank == rank else row_major_order(y.shape.rank) for y in x.operands]
    return LayoutForm(attributes, tuple(same), wanted)


def _elementwise(x: Instruction, orders: Orders, wanted: Order) -> LayoutForm | None:
    rank = x.shape.rank
    if any(y.shape.rank not in (0, rank) for y in x.operands):
        return None
    return _aligned(x, wanted, x.attributes)


def _copy(x: Instruction, orders: Orders, wanted: Order) -> LayoutForm:
    if not changes_layout(x):
        return _aligned(x, wanted, x.attributes)
    return LayoutForm(x.attributes, tuple(orders), orders[0], passes_on=True)


def _iota(x: Instruction, orders: Orders, wanted: Order) -> LayoutForm:
    return LayoutForm(Iota(wanted.index(x.attributes_as(Iota).dimension)), (), wanted)


def _constant(x: Instruction, orders: Orders, wanted: Order) -> LayoutForm | None:
    """Any order; the value is transposed in `attributes_in`, once the order is settled."""
    elided = x.attributes_as(Constant).literal.elided
    return None if elided else LayoutForm(x.attributes, (), wanted)


def attributes_in(x: Instruction, form: LayoutForm) -> Attributes:
    """Return the attributes of an operation in a form."""
    if not isinstance(x.attributes, Constant):
        return form.attributes
    array = np.ascontiguousarray(x.attributes.literal.array.transpose(form.order))
    return Constant(Literal(array_shape(x.shape.element_type, array.shape), array))


def _slice(x: Instruction, orders: Orders, wanted: Order) -> LayoutForm:
    old = x.attributes_as(Slice)
    new = [permuted(values, wanted) for values in (old.starts, old.limits, old.strides)]
    return _aligned(x, wanted, Slice(*new))


def _pad(x: Instruction, orders: Orders, wanted: Order) -> LayoutForm:
    old = x.attributes_as(Pad).dimensions
    return _aligned(x, wanted, Pad(tuple([old[d] for d in wanted])))


def _along(x: Instruction, orders: Orders, wanted: Order) -> LayoutForm:
    """Concatenates and reverses: the dimensions along which they work."""
    old = x.attributes_as(Dimensions).dimensions
    return _aligned(x, wanted, Dimensions(tuple(sorted([wanted.index(d) for d in old]))))


def _selecting(x: Instruction, orders: Orders, wanted: Order) -> LayoutForm | None:
    """Of equal elements the first in a window is selected: its dimensions stay in their order."""
    window = x.attributes_as(ReduceWindow).window.dimensions
    if not is_ascending([d for d in wanted if window[d].size > 1]):
        return None
    return _windowed(x, orders, wanted)


def _windowed(x: Instruction, orders: Orders, wanted: Order) -> LayoutForm:
    old = x.attributes_as(ReduceWindow).window.dimensions
    window = Window(tuple([old[d] for d in wanted]))
    return _aligned(x, wanted, ReduceWindow(window))


def _dynamic_slice(x: Instruction, orders: Orders, wanted: Order) -> LayoutForm | None:
    if len(x.operands) != 1 + len(wanted):
        return None
    sizes = permuted(x.attributes_as(DynamicSlice).sizes, wanted)
    form = _aligned(x, wanted, DynamicSlice(sizes))
    return replace(form, operands=(0, *[1 + d for d in wanted]))


def _dynamic_update_slice(x: Instruction, orders: Orders, wanted: Order) -> LayoutForm | None:
    if len(x.operands) != 2 + len(wanted):
        return None
    form = _aligned(x, wanted, x.attributes)
    return replace(form, operands=(0, 1, *[2 + d for d in wanted]))


# -- operations that do not --------------------------------------------------------------------


def _broadcast(x: Instruction, orders: Orders, wanted: Order) -> LayoutForm:
    """The operand lies as it likes."""
    place = inverse(wanted)
    old = x.attributes_as(Dimensions).dimensions
    return LayoutForm(Dimensions(tuple([place[old[d]] for d in orders[0]])), tuple(orders), wanted)


def _transpose(x: Instruction, orders: Orders, wanted: Order) -> LayoutForm:
    """Nothing moves: the dimensions of the result lie where those of the operand did."""
    place = inverse(x.attributes_as(Dimensions).dimensions)
    order = tuple([place[d] for d in orders[0]])
    return LayoutForm(x.attributes, tuple(orders), order, passes_on=True)


def _reduce(x: Instruction, orders: Orders, wanted: Order) -> LayoutForm | None:
    if len(x.operands) != 2:
        return None
    old = x.attributes_as(Dimensions).dimensions
    kept = [d for d in range(x.operands[0].shape.rank) if d not in old]
    places = [orders[0].index(d) for d in sorted(old)]
    dimensions = tuple(sorted(places))
    if places != list(dimensions) and not is_symmetric(x.called_computations[0]):
        return None
    return LayoutForm(Dimensions(dimensions), tuple(orders), kept_order(orders[0], kept))


def _reshape(x: Instruction, orders: Orders, wanted: Order) -> LayoutForm:
    """Forward from the order of the operand, back from that of the result, or row major."""
    old, new = x.operands[0].shape.dimensions, x.shape.dimensions
    plain = LayoutForm(x.attributes, (row_major_order(len(old)),), row_major_order(len(new)))
    groups = groups_of(old, new)
    if groups is None or x.attributes_as(Reshape).inferred_dimension != -1:
        return plain
    order = _regrouped(orders[0], old, [(list(a), list(b)) for a, b in groups])
    if order is not None:
        return LayoutForm(x.attributes, tuple(orders), order)
    order = _regrouped(wanted, new, [(list(b), list(a)) for a, b in groups])
    return plain if order is None else LayoutForm(x.attributes, (order,), wanted)


def _regrouped(
    order: Order, sizes: Sequence[int], groups: Sequence[tuple[list[int], list[int]]]
) -> Order | None:
    """Return the order behind a reshape; None where a group of dimensions is torn apart.

    Dimensions of size 1 that come from nothing lie in front.
    """
    wide = [[d for d in before if sizes[d] != 1] for before, _ in groups]
    number = {dims[0]: i for i, dims in enumerate(wide) if dims}
    result = [d for i, (_, after) in enumerate(groups) if not wide[i] for d in after]
    waiting: list[int] = []
    for d in order:
        if sizes[d] == 1:
            continue
        if waiting:
            if d != waiting.pop(0):
                return None
            continue
        if d not in number:
            return None
        waiting = wide[number[d]][1:]
        result += groups[number[d]][1]
    return tuple(result)


def _dot(x: Instruction, orders: Orders, wanted: Order) -> LayoutForm:
    """Free dimensions come as they lie in the operands, those of lhs or of rhs first."""
    old = x.attributes_as(Dot)
    roles = dot_roles(x)
    batch = [d for d in wanted if d < len(roles[0].batch)]
    left, right = [
        [side.first + d for d in kept_order(lying, side.free)]
        for side, lying in zip(roles, orders, strict=True)
    ]
    order: Order = (*batch, *left, *right)
    operands = (0, 1)
    other: Order = (*batch, *right, *left)
    sizes = x.shape.dimensions
    if _is_nearer(other, order, wanted, sizes):
        order, operands = other, (1, 0)
    first, second = operands
    places = [inverse(lying) for lying in orders]
    numbers = DotDimensions(
        permuted(places[first], roles[first].contracted),
        permuted(places[second], roles[second].contracted),
        tuple([places[first][roles[first].batch[d]] for d in batch]),
        tuple([places[second][roles[second].batch[d]] for d in batch]),
    )
    precision = old.precision
    if first == 1 and precision.operand_precision:
        swapped = precision.operand_precision[::-1]
        precision = replace(precision, operand_precision=swapped)
    return LayoutForm(Dot(numbers, precision), tuple(orders), order, operands)


def _is_nearer(a: Order, b: Order, wanted: Order, sizes: Sequence[int]) -> bool:
    """Whether `a` rather than `b` is what is wanted, or at least has its rows."""
    if same_bytes(b, wanted, sizes):
        return False
    if same_bytes(a, wanted, sizes):
        return True
    row = minor(wanted, sizes)
    return minor(a, sizes) == row != minor(b, sizes)


def _convolution(x: Instruction, orders: Orders, wanted: Order) -> LayoutForm:
    """All roles of dimensions are numbers: any order will do."""
    old = x.attributes_as(Convolution)
    n = old.dimensions
    data, kernel, result = inverse(orders[0]), inverse(orders[1]), inverse(wanted)
    dimensions = replace(
        n,
        input_batch=data[n.input_batch],
        input_feature=data[n.input_feature],
        input_spatial=tuple([data[d] for d in n.input_spatial]),
        kernel_input_feature=kernel[n.kernel_input_feature],
        kernel_output_feature=kernel[n.kernel_output_feature],
        kernel_spatial=tuple([kernel[d] for d in n.kernel_spatial]),
        output_batch=result[n.output_batch],
        output_feature=result[n.output_feature],
        output_spatial=tuple([result[d] for d in n.output_spatial]),
    )
    return LayoutForm(replace(old, dimensions=dimensions), tuple(orders), wanted)


def _gather(x: Instruction, orders: Orders, wanted: Order) -> LayoutForm | None:
    """The dimensions of slices lie as in the array, those of the indices as in these."""
    old = x.attributes_as(Gather)
    if old.operand_batching_dims:
        return None
    place = inverse(orders[0])
    kept = [d for d in range(x.operands[0].shape.rank) if d not in old.collapsed_slice_dims]
    offsets = [old.offset_dims[d] for d in kept_order(orders[0], kept)]
    vector = old.index_vector_dim
    rank = x.operands[1].shape.rank
    batch = [d for d in range(x.shape.rank) if d not in old.offset_dims]
    looked_up = [d for d in range(rank) if d != vector]
    batch = [batch[d] for d in kept_order(orders[1], looked_up)]
    is_offset = [d in old.offset_dims for d in wanted]
    parts = (iter(batch), iter(offsets))
    attributes = replace(
        old,
        offset_dims=tuple([i for i, offset in enumerate(is_offset) if offset]),
        collapsed_slice_dims=tuple(sorted([place[d] for d in old.collapsed_slice_dims])),
        start_index_map=tuple([place[d] for d in old.start_index_map]),
        index_vector_dim=vector if vector == rank else orders[1].index(vector),
        slice_sizes=permuted(old.slice_sizes, orders[0]),
    )
    return LayoutForm(
        attributes, tuple(orders), tuple([next(parts[offset]) for offset in is_offset])
    )


_KEEP_RANK: Final = frozenset(
    {
        Opcode.CONCATENATE,
        Opcode.DYNAMIC_SLICE,
        Opcode.DYNAMIC_UPDATE_SLICE,
        Opcode.OPTIMIZATION_BARRIER,
        Opcode.PAD,
        Opcode.REDUCE_WINDOW,
        Opcode.REVERSE,
        Opcode.SELECT_AND_SCATTER,
        Opcode.SLICE,
    }
)

_RULES: Final[Mapping[Opcode, Rule]] = {
    Opcode.BROADCAST: _broadcast,
    Opcode.CONCATENATE: _along,
    Opcode.CONSTANT: _constant,
    Opcode.CONVOLUTION: _convolution,
    Opcode.COPY: _copy,
    Opcode.DOT: _dot,
    Opcode.DYNAMIC_SLICE: _dynamic_slice,
    Opcode.DYNAMIC_UPDATE_SLICE: _dynamic_update_slice,
    Opcode.GATHER: _gather,
    Opcode.IOTA: _iota,
    Opcode.OPTIMIZATION_BARRIER: _elementwise,
    Opcode.PAD: _pad,
    Opcode.REDUCE: _reduce,
    Opcode.REDUCE_WINDOW: _windowed,
    Opcode.RESHAPE: _reshape,
    Opcode.REVERSE: _along,
    Opcode.SELECT_AND_SCATTER: _selecting,
    Opcode.SLICE: _slice,
    Opcode.TRANSPOSE: _transpose,
}
