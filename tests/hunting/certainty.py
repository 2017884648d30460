"""The parts of results that are nobody's: last bits, signs of NaN, and all that reads those.

x = f32[] sine(a)              ROUNDED
b = u32[] bitcast-convert(x)   FREE: bits of what is rounded
y = f32[] add(a, a)            NAN: all bits but those of a NaN
c = u32[] bitcast-convert(y)   BITS: determined where `y` is a number
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntFlag
from typing import Final, final

import numpy as np
from tests.hunting.roundings import rounds

from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ir.attributes import Compare, Constant, Dimensions, GetTupleElement
from lowtide.ir.clone import clone_module
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES, Array, Literal
from lowtide.ir.shape import Shape, array_shape
from lowtide.passes.editing import make


class Doubt(IntFlag):
    """What may differ between two right results of one value."""

    NONE = 0
    NAN = 1
    """The sign and the payload of a NaN."""
    BITS = 2
    """What was computed of the bits of a NaN."""
    ROUNDED = 4
    """The last bits, or what follows from them."""
    FREE = 8
    """Everything: it was computed of the bits of a rounded value."""


Doubts = list[Doubt]


def doubts(module: Module) -> Doubts:
    """Return the doubt of each leaf of the result, depth first."""
    entry = module.entry
    given = [Doubt.NONE for x in entry.parameters for _ in x.shape.leaves()]
    return _Doubts().of(entry, given)


def without_nan_bits(module: Module, negative: bool) -> Module:
    """Return a copy in which bits are read of one and the same NaN, of this sign."""
    copy = clone_module(module)
    for computation in list(copy.computations.values()):
        for x in list(computation.instructions.values()):
            if _reads_bits(x):
                for number in range(1 if x.opcode is not Opcode.COMPARE else 2):
                    x.replace_operand(number, _with_one_nan(x.operands[number], negative))
    return copy


def with_roundings(module: Module, random: np.random.Generator) -> Module:
    """Return a copy in which each array that is rounded is off by a rounding or two."""
    copy = clone_module(module)
    copy.schedule = None
    for computation in list(copy.computations.values()):
        for x in list(computation.instructions.values()):
            unit = _UNITS.get(x.shape.element_type) if x.shape.is_array else None
            if unit is not None and rounds(x):
                _put_off(x, 1.0 + unit * float(random.choice((-1.0, 1.0))))
    return copy


_UNITS: Final = {
    ElementType.F64: 2.0**-50,
    ElementType.C128: 2.0**-50,
    ElementType.F32: 2.0**-21,
    ElementType.C64: 2.0**-21,
    ElementType.F16: 2.0**-10,
    ElementType.BF16: 2.0**-7,
}
"""The relative error that is put in; one of fewer bits than that is no different number."""


def _put_off(x: Instruction, factor: float) -> None:
    """Have all read the product of a value and a factor in its place."""
    readers = [(user, i) for user in x.users for i, y in enumerate(user.operands) if y is x]
    is_root = x.is_root
    one = _filled(x, np.array(factor).astype(DTYPES[x.shape.element_type]))
    product = make(x.parent, Opcode.MULTIPLY, x.shape, (x, one), x)
    for user, number in readers:
        user.replace_operand(number, product)
    if is_root:
        x.parent.root = product


@final
class _Doubts:
    """Doubts of computations, each for what it is given."""

    def __init__(self) -> None:
        self._known: dict[tuple[Computation, tuple[Doubt, ...]], Doubts] = {}

    def of(self, computation: Computation, given: Sequence[Doubt]) -> Doubts:
        key = computation, tuple(given)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._run(computation, given)
        return found

    def _run(self, computation: Computation, given: Sequence[Doubt]) -> Doubts:
        rest = list(given)
        known: dict[Instruction, Doubts] = {}
        for parameter in computation.parameters:
            count = _leaf_count(parameter.shape)
            known[parameter], rest = rest[:count], rest[count:]
        waiting = [computation.root]
        while waiting:
            x = waiting[-1]
            missing = [y for y in x.operands if y not in known]
            if x not in known and not missing:
                known[x] = self._instruction(x, [known[y] for y in x.operands])
            if missing:
                waiting += missing
            else:
                waiting.pop()
        return known[computation.root]

    def _instruction(self, x: Instruction, operands: Sequence[Doubts]) -> Doubts:
        rule = _RULES.get(x.opcode)
        if rule is not None:
            return rule(self, x, operands)
        return self._plain(x, operands)

    def _plain(self, x: Instruction, operands: Sequence[Doubts]) -> Doubts:
        """What an operation makes of all operands at once, and of what it calls."""
        behind = _joined([y for row in operands for y in row])
        for callee in x.called_computations:
            given = [behind for p in callee.parameters for _ in p.shape.leaves()]
            behind |= _joined(self.of(callee, given))
        if rounds(x):
            behind |= Doubt.ROUNDED
        if _reads_bits(x):
            behind |= Doubt.FREE if behind & Doubt.ROUNDED else Doubt.NONE
            behind |= Doubt.BITS if behind & Doubt.NAN else Doubt.NONE
        return [_as(behind, x, leaf) for _, leaf in x.shape.leaves()]

    def _called(self, x: Instruction, operands: Sequence[Doubts]) -> Doubts:
        return self.of(x.called_computations[0], [y for row in operands for y in row])

    def _started(self, x: Instruction, operands: Sequence[Doubts]) -> Doubts:
        given = [y for row in operands for y in row]
        inside = self.of(x.called_computations[0], given)
        rest = _leaf_count(x.shape) - len(given) - len(inside)
        return [*given, *inside, *[Doubt.NONE] * rest]

    def _done(self, x: Instruction, operands: Sequence[Doubts]) -> Doubts:
        before, after = x.operands[0].shape.tuple_shapes[:2]
        start = _leaf_count(before)
        return operands[0][start : start + _leaf_count(after)]

    def _loop(self, x: Instruction, operands: Sequence[Doubts]) -> Doubts:
        condition, body = x.called_computations
        state = list(operands[0])
        while True:
            asked = _joined(self.of(condition, state))
            pairs = zip(state, self.of(body, state), strict=True)
            after = [old | new | (asked & ~Doubt.NAN) for old, new in pairs]
            if after == state:
                return state
            state = after

    def _branches(self, x: Instruction, operands: Sequence[Doubts]) -> Doubts:
        asked = _joined(operands[0]) & ~Doubt.NAN
        found = [asked] * _leaf_count(x.shape)
        for callee, given in zip(x.called_computations, operands[1:], strict=True):
            found = [a | b for a, b in zip(found, self.of(callee, given), strict=True)]
        return found


def _tuple(_: _Doubts, x: Instruction, operands: Sequence[Doubts]) -> Doubts:
    return [y for row in operands for y in row]


def _element(_: _Doubts, x: Instruction, operands: Sequence[Doubts]) -> Doubts:
    index = x.attributes_as(GetTupleElement).index
    counts = [_leaf_count(shape) for shape in x.operands[0].shape.tuple_shapes]
    start = sum(counts[:index])
    return operands[0][start : start + counts[index]]


def _same(_: _Doubts, x: Instruction, operands: Sequence[Doubts]) -> Doubts:
    return list(operands[0])


_Rule = Callable[[_Doubts, Instruction, Sequence[Doubts]], Doubts]

_RULES: Final[dict[Opcode, _Rule]] = {
    Opcode.TUPLE: _tuple,
    Opcode.GET_TUPLE_ELEMENT: _element,
    Opcode.OPTIMIZATION_BARRIER: _same,
    Opcode.ADD_DEPENDENCY: _same,
    Opcode.DOMAIN: _same,
    Opcode.CALL: _Doubts._called,
    Opcode.FUSION: _Doubts._called,
    Opcode.ASYNC_START: _Doubts._started,
    Opcode.ASYNC_UPDATE: _same,
    Opcode.ASYNC_DONE: _Doubts._done,
    Opcode.WHILE: _Doubts._loop,
    Opcode.CONDITIONAL: _Doubts._branches,
}

_BROADCAST: Final = Dimensions(())
_DIFFERS: Final = Compare("NE", "FLOAT")

_MOVES: Final = frozenset(
    {
        *(Opcode.ALL_GATHER, Opcode.ALL_TO_ALL, Opcode.BITCAST, Opcode.BITCAST_CONVERT),
        *(Opcode.BROADCAST, Opcode.COLLECTIVE_PERMUTE, Opcode.COMPLEX, Opcode.CONCATENATE),
        *(Opcode.CONSTANT, Opcode.COPY, Opcode.COPY_DONE, Opcode.COPY_START),
        *(Opcode.DYNAMIC_SLICE, Opcode.DYNAMIC_UPDATE_SLICE, Opcode.GATHER, Opcode.IMAG),
        *(Opcode.IOTA, Opcode.PAD, Opcode.REAL, Opcode.RESHAPE, Opcode.REVERSE, Opcode.SELECT),
        *(Opcode.SLICE, Opcode.SORT, Opcode.TRANSPOSE),
    }
)
"""Operations that keep the bits of what they move."""


def _as(doubt: Doubt, x: Instruction, leaf: Shape) -> Doubt:
    """The doubt of one result of an operation: integers have no NaN, computed floats may."""
    if not (leaf.is_array and _has_nan(leaf.element_type)):
        return doubt & ~Doubt.NAN
    return doubt if x.opcode in _MOVES else doubt | Doubt.NAN


def _has_nan(element_type: ElementType) -> bool:
    return element_type.is_floating or element_type.is_complex


def _joined(found: Sequence[Doubt]) -> Doubt:
    whole = Doubt.NONE
    for doubt in found:
        whole |= doubt
    return whole


def _leaf_count(shape: Shape) -> int:
    return len(list(shape.leaves()))


def _reads_bits(x: Instruction) -> bool:
    """Whether an operation tells one NaN from another."""
    if not x.operands or not x.operands[0].shape.is_array:
        return False
    source = x.operands[0].shape.element_type
    if not _has_nan(source):
        return False
    if x.opcode is Opcode.COMPARE:
        return x.attributes_as(Compare).type == "TOTALORDER"
    is_cast = x.opcode in (Opcode.BITCAST, Opcode.BITCAST_CONVERT)
    return is_cast and x.shape.element_type is not source


def _with_one_nan(x: Instruction, negative: bool) -> Instruction:
    """An operand whose NaN are all replaced by one."""
    parent, shape = x.parent, x.shape
    ones = _filled(x, _nan(DTYPES[shape.element_type], negative))
    differs = make(
        parent, Opcode.COMPARE, shape.with_element_type(ElementType.PRED), (x, x), x, _DIFFERS
    )
    return make(parent, Opcode.SELECT, shape, (differs, ones, x), x)


def _filled(like: Instruction, value: Array) -> Instruction:
    """An array of the shape of one, each element of which is one number."""
    scalar = array_shape(like.shape.element_type, ())
    one = make(like.parent, Opcode.CONSTANT, scalar, (), like, Constant(Literal(scalar, value)))
    return make(like.parent, Opcode.BROADCAST, like.shape, (one,), like, _BROADCAST)


def _nan(dtype: np.dtype[np.generic], negative: bool) -> Array:
    """A NaN of a sign, if the type has two."""
    bits = np.array(np.nan).astype(dtype).reshape(1).view(np.uint8).copy()
    bits[-1] = bits[-1] | 0x80 if negative else bits[-1] & 0x7F
    found = bits.view(dtype)
    known = np.isnan(found.astype(np.complex128))
    return (found if known.all() else np.array([np.nan]).astype(dtype)).reshape(())
