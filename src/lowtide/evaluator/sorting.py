"""Sort by any comparator, and top-k."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from lowtide.evaluator.sort_keys import SortKey, as_integers, integer_key, key_values, sort_keys
from lowtide.evaluator.values import Value, Values, as_array
from lowtide.evaluator.vectorized import evaluate_elementwise
from lowtide.ir.attributes import Sort, TopK
from lowtide.ir.errors import InvalidModuleError
from lowtide.ir.literal import DTYPES, ELEMENT_TYPES, Array
from lowtide.ir.opcode import Opcode

if TYPE_CHECKING:
    from lowtide.evaluator.interpreter import Interpreter
    from lowtide.evaluator.registry import Handler
    from lowtide.ir.computation import Computation
    from lowtide.ir.instruction import Instruction

Int64Array = npt.NDArray[np.int64]


def sort(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return the operands, each sorted along one dimension by the order of the comparator.

    Elements that the comparator calls equal keep their order. A comparator that is no strict
    weak order (NaN under `<`) still gives a permutation, but an unspecified one.
    """
    arrays = [as_array(x) for x in operands]
    axis = instruction.attributes_as(Sort).dimension
    comparator = instruction.called_computations[0]
    keys = sort_keys(comparator)
    if keys is None:
        rows = [np.moveaxis(x, axis, -1) for x in arrays]
        order = np.moveaxis(_merge_sort(interpreter, comparator, rows), -1, axis)
    else:
        order = _order_by_keys(interpreter, keys, arrays, axis)
    results = [np.take_along_axis(x, order, axis) for x in arrays]
    return tuple(results) if instruction.shape.is_tuple else results[0]


def _order_by_keys(
    interpreter: Interpreter, keys: tuple[SortKey, ...], arrays: list[Array], axis: int
) -> Int64Array:
    integers = [
        np.broadcast_to(integer_key(key_values(interpreter, key, arrays), key), arrays[0].shape)
        for key in keys
    ]
    if len(integers) == 1:
        return np.argsort(integers[0], axis=axis, kind="stable")
    return np.lexsort(integers[::-1], axis=axis)


# -- any comparator ----------------------------------------------------------------------------


def _merge_sort(interpreter: Interpreter, comparator: Computation, rows: list[Array]) -> Int64Array:
    """Return the stable order of each row (the last dimension), by merging runs bottom up.

    All pairs of runs of one level are merged together: each left element finds its place in its
    right run by binary search, and the right elements fill the places left over. So there are
    O(log(n)**2) calls of the comparator, each on whole arrays.
    """
    size = rows[0].shape[-1]
    count = math.prod(rows[0].shape[:-1])
    flat = [x.reshape(count, size) for x in rows]
    order = np.broadcast_to(np.arange(size), flat[0].shape).copy()
    width = 1
    while width < size:
        less = _Less(interpreter, comparator, flat, order)
        order = _merge_level(less, order, width)
        width *= 2
    return order.reshape(rows[0].shape)


class _Less:
    """Whether the element at one place goes before that at another, by the comparator."""

    def __init__(
        self,
        interpreter: Interpreter,
        comparator: Computation,
        rows: list[Array],
        order: Int64Array,
    ) -> None:
        self._interpreter = interpreter
        self._comparator = comparator
        self._sorted = [np.take_along_axis(x, order, -1) for x in rows]

    def __call__(self, lhs: Int64Array, rhs: Int64Array) -> npt.NDArray[np.bool_]:
        arguments = [
            np.take_along_axis(x, places, -1) for x in self._sorted for places in (lhs, rhs)
        ]
        result = evaluate_elementwise(self._interpreter, self._comparator, arguments)
        return np.broadcast_to(as_array(result), lhs.shape)


def _merge_level(less: _Less, order: Int64Array, width: int) -> Int64Array:
    """Return the order after each two neighbouring runs of `width` elements are merged."""
    rows, size = order.shape
    places = np.arange(size)
    left = places[places // width % 2 == 0]
    middle = np.minimum((left // width + 1) * width, size)
    end = np.minimum(middle + width, size)
    low = np.broadcast_to(middle, (rows, left.size)).copy()
    high = np.broadcast_to(end, (rows, left.size)).copy()
    lhs = np.broadcast_to(left, low.shape)
    while np.any(low < high):
        probe = (low + high) // 2
        searching = low < high
        before = less(np.minimum(probe, size - 1), lhs) & searching
        low = np.where(before, probe + 1, low)
        high = np.where(searching & ~before, probe, high)
    return _place_runs(order, left, low - middle, width)


def _place_runs(order: Int64Array, left: Int64Array, passed: Int64Array, width: int) -> Int64Array:
    """Return the merged order; left element `i` comes after `passed[i]` elements of its right run.

    A comparator that is no order may call for places out of turn: they are put in turn.
    """
    size = order.shape[-1]
    run = left // (2 * width)
    offset = run * (size + 1)
    targets = left + np.maximum.accumulate(passed + offset, axis=-1) - offset
    taken = np.zeros(order.shape, np.bool_)
    np.put_along_axis(taken, targets, True, -1)
    merged = np.empty_like(order)
    merged[taken] = order[:, left].ravel()
    right = np.setdiff1d(np.arange(size), left)
    merged[~taken] = order[:, right].ravel()
    return merged


# -- top-k -------------------------------------------------------------------------------------


def topk(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return (values, indices) of the first k elements along the last dimension, in order."""
    numbers = instruction.attributes_as(TopK)
    operand = as_array(operands[0])
    if numbers.k > operand.shape[-1]:
        message = f"k is {numbers.k}, but the last dimension has {operand.shape[-1]} elements"
        raise InvalidModuleError(message, instruction=instruction.name)
    index_type = DTYPES[instruction.shape.tuple_shapes[1].element_type]
    values, indices = largest(operand, numbers.k, descending=numbers.largest)
    return values, indices.astype(index_type)


def largest(operand: Array, k: int, *, descending: bool = True) -> tuple[Array, Int64Array]:
    """Return the k greatest (or least) elements of each row in order, and their places.

    Floating point numbers are compared in total order (NaN is greatest, -0 less than +0); equal
    elements come in order of their places.
    """
    key = as_integers(operand, ELEMENT_TYPES[operand.dtype], total_order=True)
    order = np.argsort(~key if descending else key, axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(operand, order, -1), order


HANDLERS: Final[dict[Opcode, Handler]] = {Opcode.SORT: sort, Opcode.TOPK: topk}
