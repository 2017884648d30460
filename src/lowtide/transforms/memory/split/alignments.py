"""Alignments of operations: the dimensions that have to be split for a result to be split.

An alignment is one dimension of the iteration space of an operation. Either each part of the result
along it needs one part of some operands and the whole of the others. Or the operation folds the
dimension, and each part of the operands yields a term of the result.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from lowtide.ir import Instruction, Opcode, Shape
from lowtide.ir.attributes import Iota
from lowtide.ops.factors.record import DimensionFactors, FactorKind, OpFactors, factors_of
from lowtide.passes.matching import is_plain
from lowtide.records import dataclass

WHOLE: Final = -1
"""In place of a dimension: the operand is needed as it is by every part."""


@dataclass(frozen=True, slots=True)
class Alignment:
    """A dimension along which an operation can be run in parts.

    `operands` has for each operand the dimension that is split, or WHOLE. `result` is the dimension
    of the result, or WHOLE where each part yields all of it: then the results of the parts are
    combined by `terms`; or, where `is_update`, each part changes operand 0, which starts as it is.
    """

    result: int
    operands: tuple[int, ...]
    terms: Opcode | None = None
    is_update: bool = False

    @property
    def folds(self) -> bool:
        """Whether the result is known once the last part has been run only."""
        return self.result == WHOLE


def sizes_of(shape: Shape) -> tuple[int, ...] | None:
    """Return the sizes of an array, or those that all arrays of a flat tuple have, else None."""
    leaves = shape.tuple_shapes if shape.is_tuple else (shape,)
    if not leaves or not all(is_plain(x) for x in leaves):
        return None
    first = leaves[0].dimensions
    return first if all(x.dimensions == first for x in leaves) else None


KnownAlignments: TypeAlias = dict[tuple[object, ...], tuple[Alignment, ...]]
"""Alignments that were asked for, by all of an operation that tells them: layers repeat."""


def alignments(x: Instruction, known: KnownAlignments) -> tuple[Alignment, ...]:
    """Return the dimensions along which an operation can be run in parts; none for most opcodes.

    No operation with control edges, and none on arrays that are not row major or of unknown size.
    They are looked up in `known`, and noted there.
    """
    if x.has_control_edges:
        return ()
    if not x.operands:
        return _alignments(x)
    shapes = tuple([y.shape for y in x.operands])
    key = (x.opcode, x.shape, shapes, x.attributes, x.called_computations)
    found = known.get(key)
    if found is None:
        found = known[key] = _alignments(x)
    return found


def _alignments(x: Instruction) -> tuple[Alignment, ...]:
    sizes = sizes_of(x.shape)
    if sizes is None or any(sizes_of(y.shape) is None for y in x.operands):
        return ()
    if x.opcode is Opcode.GET_TUPLE_ELEMENT or (
        x.opcode is Opcode.OPTIMIZATION_BARRIER and x.shape.is_array
    ):
        return tuple([Alignment(k, (k,) * len(x.operands)) for k in range(len(sizes))])
    factors = factors_of(x)
    if x.opcode is Opcode.CUSTOM_CALL or len(factors.operands) != len(x.operands):
        return ()
    found = [_along(x, factors, factor) for factor in range(len(factors.sizes))]
    return tuple([y for y in found if y is not None])


_IN_PARTS: Final = frozenset({FactorKind.PASSED, FactorKind.SUMMED, FactorKind.APPLIED})


def _along(x: Instruction, factors: OpFactors, factor: int) -> Alignment | None:
    """Return how an operation is run in parts along a factor, None where it cannot be."""
    kind = factors.kinds[factor]
    if kind not in _IN_PARTS and not (kind is FactorKind.PLACED and x.opcode is Opcode.IOTA):
        return None
    operands = tuple([_place(array, factor) for array in factors.operands])
    results = {_place(array, factor) for array in factors.results}
    if _BEHIND in operands or len(results) != 1 or _BEHIND in results:
        return None
    (result,) = results
    if kind is FactorKind.APPLIED:
        return Alignment(WHOLE, operands, is_update=True) if len(operands) == 3 else None
    return Alignment(result, operands, factors.reduction if result == WHOLE else None)


_BEHIND: Final = -2
"""In place of a dimension: one in which equal parts of the factor do not lie beside each other."""


def _place(array: DimensionFactors, factor: int) -> int:
    """Return the dimension that a factor leads, WHOLE where none has it."""
    for dimension, own in enumerate(array):
        if factor in own:
            return dimension if own[0] == factor else _BEHIND
    return WHOLE


def counts_along(x: Instruction, dimension: int) -> bool:
    """Whether the values of an iota grow along a dimension, so that parts have offsets."""
    return x.opcode is Opcode.IOTA and x.attributes_as(Iota).dimension == dimension
