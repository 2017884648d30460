"""Dots: products of arrays contracted over paired dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lowtide.evaluator.conversion import reduce_precision
from lowtide.evaluator.numeric import COMPUTE_DTYPES, element_type_of, narrow, widen
from lowtide.evaluator.values import Values, as_array
from lowtide.ir.attributes import Dot, DotAlgorithm, DotDimensions, RaggedDot
from lowtide.ir.element_type import ElementType
from lowtide.ir.errors import unsupported
from lowtide.ir.instruction import Instruction
from lowtide.ir.literal import Array
from lowtide.ir.opcode import Opcode

if TYPE_CHECKING:
    from lowtide.evaluator.interpreter import Interpreter
    from lowtide.evaluator.registry import Handler

EXACT_F64: Final = 2**53
"""f64 holds all integers up to this magnitude."""

# -- types -------------------------------------------------------------------------------------


def accumulation_dtype(lhs: Array, rhs: Array, result: ElementType, terms: int) -> np.dtype[Any]:
    """Return the dtype in which sums of `terms` products are exact enough for `result`.

    Floating point is accumulated in f32 or wider. Integers are multiplied in f64, which is fast,
    where no sum can leave its exact range, and else with wrap-around in 64 bits.
    """
    target = COMPUTE_DTYPES[result]
    if target.kind in "fc":
        wide = [COMPUTE_DTYPES[x] for x in (result, element_type_of(lhs), element_type_of(rhs))]
        inexact = [dtype for dtype in wide if dtype.kind in "fc"]
        return np.result_type(*inexact)
    if target.kind == "b" or terms * _magnitude(lhs) * _magnitude(rhs) < EXACT_F64:
        return np.dtype(np.float64)
    return np.dtype(np.uint64 if target.kind == "u" else np.int64)


def _magnitude(array: Array) -> int:
    if not array.size:
        return 0
    wide = widen(array)
    return max(abs(int(wide.min())), abs(int(wide.max())))


def to_accumulator(array: Array, dtype: np.dtype[Any]) -> Array:
    """Return the values in an accumulation dtype."""
    return widen(array).astype(dtype, copy=False)


def from_accumulator(array: Array, result: ElementType) -> Array:
    """Return accumulated sums as `result`: truth values are "not 0", integers wrap around."""
    if result is ElementType.PRED:
        return np.asarray(array != 0)
    if result.is_integer and array.dtype.kind == "f":
        array = array.astype(np.int64)
    return narrow(array, result)


# -- dimensions --------------------------------------------------------------------------------


def _grouped(array: Array, groups: Sequence[Sequence[int]]) -> Array:
    """Return the array with one dimension per group of dimensions, in the given order."""
    order = [d for group in groups for d in group]
    sizes = [math.prod([array.shape[d] for d in group]) for group in groups]
    return array.transpose(order).reshape(sizes)


def _free(array: Array, *used: Sequence[int]) -> list[int]:
    taken = {d for dimensions in used for d in dimensions}
    return [d for d in range(array.ndim) if d not in taken]


def contract(lhs: Array, rhs: Array, dimensions: DotDimensions) -> Array:
    """Return the product in the operands' dtype: batch, free lhs, then free rhs dimensions."""
    lhs_free = _free(lhs, dimensions.lhs_batch, dimensions.lhs_contracting)
    rhs_free = _free(rhs, dimensions.rhs_batch, dimensions.rhs_contracting)
    a = _grouped(lhs, (dimensions.lhs_batch, lhs_free, dimensions.lhs_contracting))
    b = _grouped(rhs, (dimensions.rhs_batch, dimensions.rhs_contracting, rhs_free))
    sizes = [lhs.shape[d] for d in (*dimensions.lhs_batch, *lhs_free)]
    sizes += [rhs.shape[d] for d in rhs_free]
    return np.asarray(np.matmul(a, b)).reshape(sizes)


# -- algorithms --------------------------------------------------------------------------------

Pieces = Callable[[Array], list[Array]]


def _rounded(exponent: int, mantissa: int, count: int) -> Pieces:
    """Return the function which splits f32 into `count` parts of a narrower format."""

    def split(array: Array) -> list[Array]:
        parts = []
        rest = array
        for _ in range(count):
            part = reduce_precision(rest, exponent, mantissa)
            parts.append(part)
            rest = np.asarray(rest - part)
        return parts

    return split


def _whole(array: Array) -> list[Array]:
    return [array]


_BF16: Final = (8, 7)
_TF32: Final = (8, 10)
_F16: Final = (5, 10)

ALGORITHMS: Final[Mapping[DotAlgorithm, tuple[type[np.floating[Any]], Pieces, int]]] = {
    DotAlgorithm.ANY_F8_ANY_F8_F32: (np.float32, _whole, 1),
    DotAlgorithm.ANY_F8_ANY_F8_F32_FAST_ACCUM: (np.float32, _whole, 1),
    DotAlgorithm.F16_F16_F16: (np.float32, _rounded(*_F16, 1), 1),
    DotAlgorithm.F16_F16_F32: (np.float32, _rounded(*_F16, 1), 1),
    DotAlgorithm.BF16_BF16_BF16: (np.float32, _rounded(*_BF16, 1), 1),
    DotAlgorithm.BF16_BF16_F32: (np.float32, _rounded(*_BF16, 1), 1),
    DotAlgorithm.BF16_BF16_F32_X3: (np.float32, _rounded(*_BF16, 2), 3),
    DotAlgorithm.BF16_BF16_F32_X6: (np.float32, _rounded(*_BF16, 3), 6),
    DotAlgorithm.BF16_BF16_F32_X9: (np.float32, _rounded(*_BF16, 3), 9),
    DotAlgorithm.TF32_TF32_F32: (np.float32, _rounded(*_TF32, 1), 1),
    DotAlgorithm.TF32_TF32_F32_X3: (np.float32, _rounded(*_TF32, 2), 3),
    DotAlgorithm.F32_F32_F32: (np.float32, _whole, 1),
    DotAlgorithm.F64_F64_F64: (np.float64, _whole, 1),
}
"""Type of accumulation, split of the operands, and how many products of parts are added up."""


def multiply(
    lhs: Array, rhs: Array, dimensions: DotDimensions, algorithm: DotAlgorithm, result: ElementType
) -> Array:
    """Return the dot of two arrays, rounded once to `result`."""
    if algorithm in ALGORITHMS and result.is_floating:
        dtype, split, count = ALGORITHMS[algorithm]
        a, b = (to_accumulator(x, np.dtype(dtype)) for x in (lhs, rhs))
        return narrow(_sum_of_parts(split(a), split(b), dimensions, count), result)
    terms = math.prod([lhs.shape[d] for d in dimensions.lhs_contracting])
    accumulator = accumulation_dtype(lhs, rhs, result, terms)
    a, b = (to_accumulator(x, accumulator) for x in (lhs, rhs))
    return from_accumulator(contract(a, b, dimensions), result)


def _sum_of_parts(
    lhs: list[Array], rhs: list[Array], dimensions: DotDimensions, count: int
) -> Array:
    """Return the sum of the `count` largest products of parts, smallest first."""
    pairs = [(i, j) for i in range(len(lhs)) for j in range(len(rhs))]
    pairs.sort(key=lambda pair: (sum(pair), pair))
    products = [contract(lhs[i], rhs[j], dimensions) for i, j in reversed(pairs[:count])]
    total = products[0]
    for product in products[1:]:
        total = total + product
    return total


# -- handlers ----------------------------------------------------------------------------------


def dot(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Array:
    """Return the dot: batch dimensions, free dimensions of lhs, then those of rhs."""
    attributes = instruction.attributes_as(Dot)
    lhs, rhs = as_array(operands[0]), as_array(operands[1])
    algorithm = attributes.precision.algorithm
    element_type = instruction.shape.element_type
    return multiply(lhs, rhs, attributes.dimensions, algorithm, element_type)


def scaled_dot(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Array:
    """Return the dot of operands 0 and 1, times the scales in operands 2 and 3.

    A scale holds for a block of elements: its dimensions divide those of its operand.
    """
    attributes = instruction.attributes_as(Dot)
    lhs, rhs, lhs_scale, rhs_scale = [as_array(x) for x in operands]
    a, b = _scaled(instruction, lhs, lhs_scale), _scaled(instruction, rhs, rhs_scale)
    algorithm = attributes.precision.algorithm
    element_type = instruction.shape.element_type
    return multiply(a, b, attributes.dimensions, algorithm, element_type)


def _scaled(instruction: Instruction, array: Array, scale: Array) -> Array:
    factors = widen(scale)
    for axis in range(factors.ndim):
        if not factors.shape[axis] or array.shape[axis] % factors.shape[axis]:
            raise unsupported(instruction, "the sizes of a scale do not divide its operand's")
        factors = factors.repeat(array.shape[axis] // factors.shape[axis], axis)
    return np.asarray(widen(array) * factors)


def ragged_dot(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Array:
    """Return the dot whose ragged dimension is split into groups, of the sizes in operand 2.

    A free ragged dimension takes for each group its own entry of the group dimension of rhs; a
    contracting one gives one product per group, in a new first dimension; a batch one changes
    nothing. Rows beyond the last group are 0. A group whose size is negative ends ahead of where it
    begins; a row is in the group of the number of those that end at it or ahead of it.
    """
    attributes = instruction.attributes_as(RaggedDot)
    lhs, rhs, sizes = [as_array(x) for x in operands]
    (ragged,) = attributes.lhs_ragged
    dimensions = attributes.dimensions
    if sizes.ndim != 1:
        raise unsupported(instruction, "group sizes that differ over the batch are not evaluated")
    if ragged in dimensions.lhs_batch:
        return _ragged_product(instruction, lhs, rhs, dimensions)
    ends = np.maximum(np.cumsum(sizes.astype(np.int64)), 0)
    if ragged in dimensions.lhs_contracting:
        return _contracted_groups(instruction, (lhs, rhs), _parts(ends))
    return _free_groups(instruction, (lhs, rhs), _parts(np.sort(ends)))


def _parts(ends: Array) -> list[slice]:
    return [slice(*x) for x in zip([0, *ends.tolist()], ends.tolist(), strict=False)]


def _ragged_product(
    instruction: Instruction, lhs: Array, rhs: Array, dimensions: DotDimensions
) -> Array:
    algorithm = instruction.attributes_as(RaggedDot).precision.algorithm
    return multiply(lhs, rhs, dimensions, algorithm, instruction.shape.element_type)


def _along(array: Array, axis: int, part: slice) -> Array:
    return array[(slice(None),) * axis + (part,)]


def _contracted_groups(
    instruction: Instruction, operands: tuple[Array, Array], groups: list[slice]
) -> Array:
    attributes = instruction.attributes_as(RaggedDot)
    dimensions = attributes.dimensions
    (ragged,) = attributes.lhs_ragged
    paired = dimensions.rhs_contracting[dimensions.lhs_contracting.index(ragged)]
    lhs, rhs = operands
    products = [
        _ragged_product(instruction, _along(lhs, ragged, g), _along(rhs, paired, g), dimensions)
        for g in groups
    ]
    return np.stack(products)


def _free_groups(
    instruction: Instruction, operands: tuple[Array, Array], groups: list[slice]
) -> Array:
    attributes = instruction.attributes_as(RaggedDot)
    (ragged,), (group_axis,) = attributes.lhs_ragged, attributes.rhs_group
    lhs, rhs = operands
    dimensions = _without_rhs_dimension(attributes.dimensions, group_axis)
    free = _free(lhs, dimensions.lhs_batch, dimensions.lhs_contracting)
    axis = len(dimensions.lhs_batch) + free.index(ragged)
    parts = [
        _ragged_product(instruction, _along(lhs, ragged, g), rhs.take(i, group_axis), dimensions)
        for i, g in enumerate(groups)
    ]
    covered = np.concatenate(parts, axis)
    missing = list(covered.shape)
    missing[axis] = lhs.shape[ragged] - covered.shape[axis]
    return np.concatenate([covered, np.zeros(missing, covered.dtype)], axis)


def _without_rhs_dimension(dimensions: DotDimensions, removed: int) -> DotDimensions:
    def shifted(numbers: tuple[int, ...]) -> tuple[int, ...]:
        return tuple([d - (d > removed) for d in numbers])

    return DotDimensions(
        lhs_contracting=dimensions.lhs_contracting,
        rhs_contracting=shifted(dimensions.rhs_contracting),
        lhs_batch=dimensions.lhs_batch,
        rhs_batch=shifted(dimensions.rhs_batch),
    )


HANDLERS: Final[dict[Opcode, Handler]] = {
    Opcode.DOT: dot,
    Opcode.RAGGED_DOT: ragged_dot,
    Opcode.SCALED_DOT: scaled_dot,
}
