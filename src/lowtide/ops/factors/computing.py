"""Factors of what computes: elementwise operations, dot, reductions, sorts, batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lowtide.ir.attributes import BatchNorm, Dimensions, Dot, Fft, Sort
from lowtide.ir.computation import Computation
from lowtide.ir.instruction import Instruction
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import Shape
from lowtide.ops.dot_roles import roles_of
from lowtide.ops.factors.record import FactorDraft, FactorKind, OpFactors, same_dimensions
from lowtide.ops.reducers import reducer_opcode, selects
from lowtide.ops.symmetry import is_symmetric

_BATCHES: Final = "num_batch_dims"
"""The frontend attribute by which a custom call says how many dimensions are batches."""

_LINEAR: Final[dict[Opcode, tuple[tuple[int, ...], ...]]] = {
    Opcode.ADD: ((0, 1),),
    Opcode.SUBTRACT: ((0, 1),),
    Opcode.MULTIPLY: ((0,), (1,)),
    Opcode.DIVIDE: ((0,),),
    Opcode.NEGATE: ((0,),),
    Opcode.COPY: ((0,),),
    Opcode.SELECT: ((1, 2),),
    Opcode.REAL: ((0,),),
    Opcode.IMAG: ((0,),),
}


def elementwise(x: Instruction, operands: Sequence[Shape], results: Sequence[Shape]) -> OpFactors:
    """Return the factors of operations on single elements."""
    linear = _LINEAR.get(x.opcode, ())
    if x.opcode is Opcode.DIVIDE and results[0].element_type.is_integer:
        linear = ()
    if x.opcode is Opcode.CONVERT and _widens(operands[0], results[0]):
        linear = ((0,),)
    return same_dimensions(operands, results).done(linear)


def _widens(source: Shape, result: Shape) -> bool:
    """Whether a conversion keeps every number, so that a sum may come before or after it."""
    a, b = source.element_type, result.element_type
    return a.is_floating and b.is_floating and a.bits < b.bits


def dot(x: Instruction, operands: Sequence[Shape], results: Sequence[Shape]) -> OpFactors:
    """Return the factors of dot: contracted dimensions are summed."""
    draft = FactorDraft.of(operands, results)
    numbers = x.attributes_as(Dot).dimensions
    lhs = operands[0].dimensions
    sides = roles_of(numbers, operands[0].rank, operands[1].rank)
    for place, (a, b) in enumerate(zip(sides[0].batch, sides[1].batch, strict=True)):
        draft.join(lhs[a], {0: a, 1: b}, {0: place})
    for number, side in enumerate(sides):
        for dimension, place in zip(side.free, side.in_result, strict=True):
            draft.join(operands[number].dimensions[dimension], {number: dimension}, {0: place})
    for a, b in zip(sides[0].contracted, sides[1].contracted, strict=True):
        draft.join(lhs[a], {0: a, 1: b}, kind=FactorKind.SUMMED)
    return draft.done(((0,), (1,)), Opcode.ADD)


def reduce(x: Instruction, operands: Sequence[Shape], results: Sequence[Shape]) -> OpFactors:
    """Return the factors of reduce; a reduced dimension has one where parts can be combined.

    The parts of a minor one do not follow each other: that takes a reducer that commutes.
    """
    draft = FactorDraft.of(operands, results)
    reduced = x.attributes_as(Dimensions).dimensions
    inputs = range(len(results))
    reduction = reducer_opcode(x.called_computations[0]) if len(results) == 1 else None
    combined = _combined(x.called_computations[0], reduced, operands[0])
    place = 0
    for dimension, size in enumerate(operands[0].dimensions):
        given = dict.fromkeys(inputs, dimension)
        if dimension not in reduced:
            draft.join(size, given, dict.fromkeys(inputs, place))
            place += 1
        elif reduction is not None:
            draft.join(size, given, kind=FactorKind.SUMMED)
        elif dimension in combined:
            draft.join(size, given, kind=FactorKind.CHOSEN)
    # The initial value is added once: a sum of terms may be reduced where it is a term too.
    linear = ((0, 1),) if reduction is Opcode.ADD else ()
    return draft.done(linear, reduction, "a reduced dimension", once=(1,))


def _combined(reducer: Computation, reduced: Sequence[int], operand: Shape) -> Sequence[int]:
    """The reduced dimensions along which parts can be chosen from once more."""
    if not selects(reducer):
        return ()
    if is_symmetric(reducer):
        return reduced
    return sorted([d for d in reduced if operand.dimensions[d] > 1])[:1]


def sort(x: Instruction, operands: Sequence[Shape], results: Sequence[Shape]) -> OpFactors:
    """Return the factors of sort: all but the sorted dimension have one."""
    return _but(x, operands, results, x.attributes_as(Sort).dimension, "the sorted dimension")


def top_k(x: Instruction, operands: Sequence[Shape], results: Sequence[Shape]) -> OpFactors:
    """Return the factors of topk: all but the last dimension have one."""
    return _but(x, operands, results, operands[0].rank - 1, "the dimension that topk sorts")


def _but(
    x: Instruction, operands: Sequence[Shape], results: Sequence[Shape], whole: int, why: str
) -> OpFactors:
    draft = FactorDraft.of(operands, results)
    for dimension, size in enumerate(operands[0].dimensions):
        if dimension != whole:
            given = dict.fromkeys(range(len(operands)), dimension)
            draft.join(size, given, dict.fromkeys(range(len(results)), dimension))
    return draft.done(why=why)


def batches(x: Instruction, operands: Sequence[Shape], results: Sequence[Shape]) -> OpFactors:
    """Return the factors of operations on matrices or signals in the last dimensions."""
    draft = FactorDraft.of(operands, results)
    last = len(x.attributes.length) if isinstance(x.attributes, Fft) else 2
    for dimension in range(results[0].rank - last):
        given = dict.fromkeys(range(len(operands)), dimension)
        draft.join(results[0].dimensions[dimension], given, {0: dimension})
    return draft.done(why="the dimensions of a matrix or signal")


def custom_call(x: Instruction, operands: Sequence[Shape], results: Sequence[Shape]) -> OpFactors:
    """Return the factors of custom-call: the leading dimensions that it says are batches."""
    draft = FactorDraft.of(operands, results)
    given = dict(x.annotations.frontend_attributes).get(_BATCHES, "0")
    arrays = (*operands, *results)
    count = min([int(given) if given.isdecimal() else 0, *[shape.rank for shape in arrays]])
    for dimension in range(count):
        sizes = {shape.dimensions[dimension] for shape in arrays}
        if len(sizes) > 1:
            break
        draft.join(
            min(sizes),
            dict.fromkeys(range(len(operands)), dimension),
            dict.fromkeys(range(len(results)), dimension),
        )
    return draft.done(why="what a custom call does not say to be a batch")


def batch_norm(x: Instruction, operands: Sequence[Shape], results: Sequence[Shape]) -> OpFactors:
    """Return the factors of batch-norm operations: features have one."""
    draft = FactorDraft.of(operands, results)
    feature = x.attributes_as(BatchNorm).feature_index
    rank = operands[0].rank

    def places(shapes: Sequence[Shape]) -> dict[int, int]:
        return {i: feature if s.rank == rank else 0 for i, s in enumerate(shapes)}

    draft.join(operands[0].dimensions[feature], places(operands), places(results))
    return draft.done(why="the dimensions over which a batch-norm averages")
