"""Modules of which XLA:CPU is known to compute something else, so that it can be no judge."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Final

import numpy as np
from tests.hunting.roundings import REDUCING, rounds

from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.attributes import Compare, Convolution, Dot, ReduceWindow
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES, Array


def known_difference(module: Module) -> str | None:
    """Return what XLA:CPU does otherwise in a module; None where nothing is known."""
    for computation in module.computations.values():
        for x in computation.instructions.values():
            for shows, words in _DIFFERENCES:
                if shows(x):
                    return words
    return None


def where_infinities_differ(module: Module) -> str | None:
    """Return what XLA:CPU may do otherwise with infinities; None where nothing is known.

    Convolutions may multiply them by zeros, and equations are solved in another order.
    """
    for computation in module.computations.values():
        for x in computation.instructions.values():
            if x.opcode is Opcode.TRIANGULAR_SOLVE:
                return "solves equations in another order"
            if x.opcode is Opcode.CONVOLUTION and _has_zeros(x):
                return "multiplies zeros of a convolution by infinities"
            if x.opcode is Opcode.SORT and leaves_nan_anywhere(x):
                return "sorts a NaN, which has no place in the order, elsewhere"
    return None


def leaves_nan_anywhere(x: Instruction) -> bool:
    """Return whether a sort or reducer compares floats otherwise than in the order that has NaN."""
    return any(
        y.opcode is Opcode.COMPARE
        and y.operands[0].shape.element_type.is_floating
        and y.attributes_as(Compare).type != "TOTALORDER"
        for callee in x.called_computations
        for y in callee.instructions.values()
    )


def _has_zeros(x: Instruction) -> bool:
    """Whether XLA may multiply by zeros that are in no array: in holes, and between groups."""
    how = x.attributes_as(Convolution)
    is_grouped = how.feature_group_count > 1 or how.batch_group_count > 1
    return is_grouped or any(w.base_dilation > 1 for w in how.window.dimensions)


def is_finite(x: Array) -> bool:
    """Whether an array has neither infinities nor NaN."""
    if x.dtype.kind in "iub":
        return True
    with np.errstate(all="ignore"):
        return bool(np.all(np.isfinite(x.astype(np.complex128))))


def _scatters_twice(x: Instruction) -> bool:
    targets = x.operands[: len(x.operands) // 2]
    return x.opcode is Opcode.SCATTER and len({_named(y) for y in targets}) < len(targets)


def _scatters_by_itself(x: Instruction) -> bool:
    """Whether an array that is scattered into says, too, where or what is put there."""
    count = len(x.operands) // 2
    others = {_named(y) for y in x.operands[count:]}
    return x.opcode is Opcode.SCATTER and any(_named(y) in others for y in x.operands[:count])


def _updates_by_itself(x: Instruction) -> bool:
    """Whether a part of an array, moved by nothing but slices, is put elsewhere in that array."""
    return x.opcode is Opcode.DYNAMIC_UPDATE_SLICE and _named(x.operands[0]) == _named(
        x.operands[1]
    )


def _chooses_in_padding(x: Instruction) -> bool:
    return x.opcode is Opcode.SELECT_AND_SCATTER and any(
        w.padding_low or w.padding_high for w in x.attributes_as(ReduceWindow).window.dimensions
    )


def _raises_integers(x: Instruction) -> bool:
    return x.opcode is Opcode.POWER and x.shape.element_type.is_integer


def _is_packed(x: Instruction) -> bool:
    types = [leaf.element_type for _, leaf in x.shape.leaves() if leaf.is_array]
    return any(t.bits < 8 and t.is_integer for t in types)


def _is_complex_logarithm(x: Instruction) -> bool:
    return x.opcode is Opcode.LOG and x.shape.element_type.is_complex


def _is_folded_angle(x: Instruction) -> bool:
    """Whether an angle may be that of two zeros in what XLA computes ahead, or in 16 bits."""
    if x.opcode is not Opcode.ATAN2:
        return False
    return x.shape.element_type in (ElementType.F16, ElementType.BF16) or _is_of_constants(x)


def _is_of_constants(x: Instruction) -> bool:
    """Whether nothing that a value is made of is known only when the module runs."""
    seen, stack = {x}, [x]
    while stack:
        for y in stack.pop().operands:
            if y not in seen:
                seen.add(y)
                stack.append(y)
    return not any(y.opcode is Opcode.PARAMETER or y.called_computations for y in seen)


def _divides_constants(x: Instruction) -> bool:
    """Whether XLA computes a division of whole numbers ahead, which ends the process for zeros."""
    is_division = x.opcode in (Opcode.DIVIDE, Opcode.REMAINDER)
    return is_division and x.shape.element_type.is_integer and _is_of_constants(x)


def _forgets_the_sign(x: Instruction) -> bool:
    """Whether a float became signed, unsigned, and a float again, which XLA takes for rounding."""
    if x.opcode is not Opcode.CONVERT or not x.shape.element_type.is_floating:
        return False
    return _went_through(x, [_is_unsigned, _is_signed, _is_floating])


def _saturates_a_nan(x: Instruction) -> bool:
    """Whether a signed number became a float of 8 bits, and unsigned, which XLA makes one step."""
    if x.opcode is not Opcode.CONVERT or not _is_unsigned(x.shape.element_type):
        return False
    return _went_through(x, [_is_byte, _is_signed])


def _went_through(x: Instruction, kinds: list[Callable[[ElementType], bool]]) -> bool:
    """Whether a value may have had types of such kinds, the last of `kinds` first.

    What an inner computation is given may be anything that it can be by its type.
    """
    left = list(kinds)
    while left and x.opcode in _IN_PLACE:
        x = x.operands[0]
        if left[0](x.shape.element_type):
            left.pop(0)
    is_given = x.opcode in (Opcode.PARAMETER, Opcode.GET_TUPLE_ELEMENT)
    return not left or (is_given and len(left) < len(kinds) and not _is_in_entry(x))


def _is_in_entry(x: Instruction) -> bool:
    return x.parent is x.parent.module.entry


def _is_byte(type_: ElementType) -> bool:
    return type_.is_floating and type_.bits == 8


def _is_unsigned(type_: ElementType) -> bool:
    return DTYPES[type_].kind == "u"


def _is_signed(type_: ElementType) -> bool:
    return DTYPES[type_].kind == "i"


def _is_floating(type_: ElementType) -> bool:
    return type_.is_floating


def _solves_many_small_systems(x: Instruction) -> bool:
    """Whether XLA divides by the number of whole blocks of 32 rows, of which there are none."""
    if x.opcode is not Opcode.TRIANGULAR_SOLVE:
        return False
    *batch, rows, _ = x.operands[0].shape.dimensions
    return prod(batch) > 8 and rows < 32


def _magnifies_bits(x: Instruction) -> bool:
    """Whether bits that may be those of a subnormal number go where it is far from 0."""
    return x.opcode in _FAR_FROM_ZERO and any(_is_of_bits(y) for y in x.operands)


def _is_of_bits(x: Instruction) -> bool:
    """Whether a value is bits read as a number, moved or renamed at most."""
    while x.opcode in _IN_PLACE:
        x = x.operands[0]
    return x.opcode is Opcode.BITCAST_CONVERT and x.shape.element_type.is_floating


_FAR_FROM_ZERO: Final = frozenset(
    {
        *(Opcode.CBRT, Opcode.COMPARE, Opcode.DIVIDE, Opcode.LOG, Opcode.POWER),
        *(Opcode.RSQRT, Opcode.SIGN, Opcode.SQRT),
    }
)


def _has_no_code(x: Instruction) -> bool:
    """Whether XLA writes no such function of complex numbers: in a fusion it ends the process."""
    return x.opcode in _OF_REAL_NUMBERS and x.shape.element_type.is_complex


_OF_REAL_NUMBERS: Final = frozenset(
    {
        *(Opcode.ACOS, Opcode.ACOSH, Opcode.ASIN, Opcode.ASINH, Opcode.ATANH),
        *(Opcode.COSH, Opcode.SINH),
    }
)


def _is_product_of_nothing(x: Instruction) -> bool:
    if x.opcode is not Opcode.DOT:
        return False
    dimensions = x.attributes_as(Dot).dimensions.lhs_contracting
    return any(x.operands[0].shape.dimensions[i] == 0 for i in dimensions)


def _adds_bytes(x: Instruction) -> bool:
    return x.opcode in REDUCING and rounds(x) and any(y.bits <= 8 for y in _floats(x))


def _sums_halves(x: Instruction) -> bool:
    """Whether squares of f16 are summed as such: those of eight numbers above 91 are infinite."""
    is_norm = x.opcode in (Opcode.BATCH_NORM_TRAINING, Opcode.BATCH_NORM_GRAD)
    return is_norm and ElementType.F16 in _floats(x)


def _floats(x: Instruction) -> list[ElementType]:
    types = [leaf.element_type for _, leaf in x.shape.leaves() if leaf.is_array]
    return [t for t in types if t.is_floating]


_DIFFERENCES: Final[tuple[tuple[Callable[[Instruction], bool], str], ...]] = (
    (_scatters_twice, "scatters twice into the place of one operand"),
    (_scatters_by_itself, "scatters into an array while it reads there what goes where"),
    (_updates_by_itself, "reads an array for an update while it overwrites it"),
    (_chooses_in_padding, "chooses another one of equal elements in padded windows"),
    (_raises_integers, "raises integers to the lowest 6 bits of a power"),
    (_is_packed, "computes integers of 2 and 4 bits in 8 bits"),
    (_is_complex_logarithm, "gives a NaN for the imaginary part of a logarithm of 0"),
    (_is_folded_angle, "gives a NaN for the angle of two zeros"),
    (_adds_bytes, "rounds each partial sum of floats of 8 bits"),
    (_sums_halves, "sums the squares of a batch of f16 in that type"),
    (_magnifies_bits, "takes subnormal numbers for 0"),
    (_divides_constants, "ends the process where it divides by a constant 0 ahead"),
    (_forgets_the_sign, "takes negative numbers that became unsigned for negative ones"),
    (_saturates_a_nan, "converts a NaN of 8 bits to unsigned numbers as the number that it was"),
    (_solves_many_small_systems, "divides by 0 while it compiles more than 8 small systems"),
    (_has_no_code, "has no code for such a complex function"),
    (_is_product_of_nothing, "does not write a product over no elements that is added to"),
)


def _named(x: Instruction) -> str:
    """The name of the array behind operations that may leave its bytes where they are."""
    while x.opcode in _IN_PLACE:
        x = x.operands[0]
    return x.name


_IN_PLACE: Final = frozenset(
    {
        *(Opcode.BITCAST, Opcode.BROADCAST, Opcode.CONVERT, Opcode.COPY, Opcode.PAD),
        *(Opcode.DYNAMIC_SLICE, Opcode.DYNAMIC_UPDATE_SLICE),
        *(Opcode.RESHAPE, Opcode.REVERSE, Opcode.SLICE, Opcode.TRANSPOSE),
    }
)
