"""Operations on constants, done now: by the evaluator, and where no constant grows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from lowtide.builder.values import Op
from lowtide.ir import Computation, Instruction, Module, Opcode, array_shape
from lowtide.ir.attributes import Constant
from lowtide.ir.errors import UnsupportedOpError
from lowtide.ir.literal import array_literal
from lowtide.ir.traversal import fused_computations
from lowtide.ops.cost import cost
from lowtide.ops.table import TABLE
from lowtide.passes.call_sites import SMALL
from lowtide.passes.interface import Pass, example
from lowtide.passes.matching import is_plain, scalar_value
from lowtide.passes.rewriting import Rewriter, Rule, rewrite

if TYPE_CHECKING:
    from lowtide.evaluator.values import Value

Array: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.generic]]

_Made: TypeAlias = "Instruction | Op | None"

MOVES: Final = frozenset(
    {
        Opcode.BITCAST_CONVERT,
        Opcode.CONCATENATE,
        Opcode.COPY,
        Opcode.DYNAMIC_SLICE,
        Opcode.DYNAMIC_UPDATE_SLICE,
        Opcode.GATHER,
        Opcode.PAD,
        Opcode.RESHAPE,
        Opcode.REVERSE,
        Opcode.SLICE,
        Opcode.TRANSPOSE,
    }
)
_SLOW: Final = frozenset(
    {
        Opcode.CONVOLUTION,
        Opcode.DOT,
        Opcode.MAP,
        Opcode.REDUCE,
        Opcode.REDUCE_WINDOW,
        Opcode.SCATTER,
    }
)
"""Operations for which the evaluator may take the time of a call for each element."""

ELEMENTWISE: Final = frozenset([opcode for opcode, row in TABLE.items() if row.elementwise])
_SPLATTABLE: Final = tuple(
    sorted(ELEMENTWISE - {Opcode.BITCAST_CONVERT, Opcode.MAP}, key=lambda opcode: opcode.value)
)
_FOLDABLE: Final = tuple(sorted(ELEMENTWISE | MOVES | _SLOW, key=lambda opcode: opcode.value))


def fold_constants(module: Module, *, work: int = 1_000_000) -> int:
    """Replace operations on constants by their results; return how many changes were made.

    A constant never gets larger than those it is made of together, unless it has one element, and
    one of more than `SMALL` bytes only takes the place of constants that nobody else reads. `work`
    bounds the arithmetic and bytes of one operation. Broadcasts stay, and elementwise operations on
    broadcast constants become broadcasts of one number. Constants whose values the text leaves out
    fold with the numbers they run with, as in XLA. Arrays in the bodies of fusions are not folded.
    """
    changes = 0
    while made := _fold_all(module, work):
        changes += made  # A constant may be the last reader of another one by now.
    return changes


def _fold_all(module: Module, work: int) -> int:
    folding = _Folding(fused_computations(module), work)
    rules = [Rule("fold-splats", _SPLATTABLE, _fold_splats), Rule("fold", _FOLDABLE, folding.fold)]
    return rewrite(module, rules, choose=_made_of_constants).total()


def _made_of_constants(order: Sequence[Instruction]) -> set[Instruction]:
    """The instructions that depend on constants only; no rule here makes one of any other."""
    found: set[Instruction] = set()
    for x in order:
        if x.opcode is Opcode.CONSTANT or (x.operands and found.issuperset(x.operands)):
            found.add(x)
    return found


class _Folding:
    def __init__(self, fused: set[Computation], work: int) -> None:
        self._fused = fused
        self._work = work

    def fold(self, x: Instruction, at: Rewriter) -> _Made:
        """f(constants) => constant."""
        if not all(_is_known(y) for y in x.operands) or not _may_be_constant(x):
            return None
        if x.shape.rank and x.parent in self._fused:
            return None
        if x.shape.memory_space:
            return None
        total = cost(x)
        limit = self._work // 64 if x.opcode in _SLOW else self._work
        if total.unknown or total.flops + total.transcendentals + total.bytes_accessed > limit:
            return None
        value = evaluated(x, [y.attributes_as(Constant).literal.array for y in x.operands])
        if value is None:
            return None
        return at.build.emit(Opcode.CONSTANT, (), constant(x, value), shape=x.shape)


def _is_known(x: Instruction) -> bool:
    return x.opcode is Opcode.CONSTANT and x.shape.is_array and not x.shape.is_dynamic


def _may_be_constant(x: Instruction) -> bool:
    """Whether the result is an array that takes no more memory than there is now."""
    if not x.operands or not x.shape.is_array or x.shape.is_dynamic:
        return False
    if x.shape.element_count <= 1:
        return True
    operands = dict.fromkeys(x.operands)
    if x.shape.nbytes > sum([y.shape.nbytes for y in operands]):
        return False
    if x.shape.nbytes <= SMALL:
        return True
    dying = [y for y in operands if len(y.users) == 1 and not y.is_root]
    return x.shape.nbytes <= sum([y.shape.nbytes for y in dying])


def evaluated(x: Instruction, operands: list[Value]) -> Array | None:
    """Return the array that an instruction makes of arrays, or None where none can be told."""
    from lowtide.evaluator.interpreter import Interpreter  # Few programs compute with constants.
    from lowtide.evaluator.registry import handler_of

    handler = handler_of(x.opcode)
    assert handler is not None
    try:
        with np.errstate(all="ignore"):
            value = handler(Interpreter(x.parent.module), x, operands)
    except UnsupportedOpError:
        return None
    if isinstance(value, tuple):
        return None
    found = np.asarray(value)
    return found if found.shape == x.shape.dimensions else None


def constant(x: Instruction, value: Array) -> Constant:
    """Return the attributes of a constant of an instruction's shape."""
    return Constant(array_literal(x.shape, np.array(value, order="C")))


def _fold_splats(x: Instruction, at: Rewriter) -> _Made:
    """f(broadcast(c), broadcast(d)) => broadcast(f(c, d)), of constants."""
    if not x.operands or not x.shape.rank or not is_plain(x.shape):
        return None
    sizes = x.shape.dimensions
    for y in x.operands:
        if scalar_value(y) is None or (y.shape.rank and y.shape.dimensions != sizes):
            return None
    scalars = [at(y.operands[0] if y.opcode is Opcode.BROADCAST else y) for y in x.operands]
    one = at.build.emit(x.opcode, scalars, x.attributes, shape=array_shape(x.shape.element_type))
    return at.build.broadcast(one, sizes, ())


PASSES: Final = (
    Pass(
        "constant-folding",
        fold_constants,
        "Does operations on constants now, where no constant gets larger.",
        *example(
            """
HloModule m

ENTRY main {
  x = f32[4] parameter(0)
- two = f32[] constant(2)
- three = f32[] constant(3)
- six = f32[] multiply(two, three)
+ six = f32[] constant(6)
  sixes = f32[4] broadcast(six), dimensions={}
  ROOT y = f32[4] multiply(x, sixes)
}
"""
        ),
        meanings=(("work", "the most steps of arithmetic that are done for one result"),),
    ),
)
