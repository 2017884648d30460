"""The place of the greatest or least element as two plain reductions, which fuse with others.

The places are an iota, of which no array is left then. Of equal elements the first counts. NaN is
greater and less than all numbers, as with JAX, or the element is NaN then and what comes behind one
has the place, as where only numbers are compared and maxima are taken; reductions that choose
otherwise stay.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any, Final

from lowtide.analysis.loop_trip_count import COMPARISONS
from lowtide.builder.values import Op
from lowtide.ir import Computation, Instruction, Opcode, array_shape
from lowtide.ir.attributes import Compare, Dimensions, Iota, Parameter
from lowtide.ir.traversal import post_order
from lowtide.passes.interface import Pass, example
from lowtide.passes.matching import identity_of, scalar_value
from lowtide.passes.rewriting import Rewriter
from lowtide.records import dataclass
from lowtide.transforms.expand.support import expander, expansion
from lowtide.transforms.simplify.support import Made


@expander(Opcode.REDUCE)
def arg_reduce(x: Instruction, at: Rewriter) -> Made:
    """reduce(x, iota) => (m, reduce-min(select(x == m, iota, last))), where m = reduce-max(x)"""
    if len(x.operands) != 4:
        return None
    values, places, value, place = x.operands
    reduced = x.attributes_as(Dimensions).dimensions
    (choose,) = x.called_computations
    if len(reduced) != 1 or _iota_dimension(places) != reduced[0] or not x.shape.is_tuple:
        return None
    if 0 in values.shape.dimensions or not _is_number(values) or scalar_value(place) != 0:
        return None
    if values.shape.dimensions[reduced[0]] > places.shape.element_type.bounds[1]:
        return None  # The places wrap around.
    choice = _choice(choose, is_floating=values.shape.element_type.is_floating)
    if choice is None or scalar_value(value) != identity_of(choice.by, values.shape.element_type):
        return None
    best = _reduced(at(values), at(value), choice.by, reduced[0])
    return at.build.tuple([best, _first_place(at, best, x, choice)])


def _is_number(x: Instruction) -> bool:
    kind = x.shape.element_type
    return kind.is_floating or kind.is_integer


def _iota_dimension(places: Instruction) -> int | None:
    """The dimension along which an array counts from 0, None where it does not."""
    if not places.shape.element_type.is_integer:
        return None
    if places.opcode is Opcode.IOTA:
        return places.attributes_as(Iota).dimension
    if places.opcode is Opcode.BROADCAST and places.operands[0].opcode is Opcode.IOTA:
        inner = places.operands[0].attributes_as(Iota).dimension
        return places.attributes_as(Dimensions).dimensions[inner]
    return None


def _reduced(values: Op, start: Op, opcode: Opcode, dimension: int) -> Op:
    reducer = values.builder.scalar_computation(opcode, values.element_type)
    return values.builder.reduce(values, start, reducer, [dimension])


def _first_place(at: Rewriter, best: Op, x: Instruction, choice: _PlaceChoice) -> Op:
    """The first place that has the best element; behind NaN, where that is the choice, the last."""
    (reduced,) = x.attributes_as(Dimensions).dimensions
    build = at.build
    sizes = x.operands[0].shape.dimensions
    kept = [i for i in range(len(sizes)) if i != reduced]
    operand = at(x.operands[0])
    is_best = operand.eq(build.broadcast(best, sizes, kept))
    if operand.element_type.is_floating and not choice.is_behind_nan:
        is_best = is_best | operand.ne(operand)
    kind = x.operands[1].shape.element_type
    most = kind.bounds[1]
    last = build.constant(most, kind)
    # All elements differ from NaN: what is left then is the last place.
    other = build.constant(sizes[reduced] - 1, kind) if choice.is_behind_nan else last
    places = build.iota(array_shape(kind, sizes), reduced)
    found = build.select(is_best, places, build.broadcast(other, sizes, ()))
    return _reduced(found, last, Opcode.MINIMUM, reduced)


# -- what a computation of two (element, place) chooses -----------------------------------------

_OF_TRUTH: Final[Mapping[Opcode, Callable[..., bool]]] = {
    Opcode.AND: lambda a, b: a and b,
    Opcode.NOT: lambda a: not a,
    Opcode.OR: lambda a, b: a or b,
    Opcode.XOR: operator.xor,
}


@dataclass(frozen=True, slots=True)
class _PlaceChoice:
    """MAXIMUM or MINIMUM, by which a computation chooses, and which place it takes beside NaN.

    That is the place of NaN, else (`is_behind_nan`) always the second one.
    """

    by: Opcode
    is_behind_nan: bool


_EXTREMA: Final[Mapping[Opcode, Callable[..., Any]]] = {Opcode.MAXIMUM: max, Opcode.MINIMUM: min}


def _choice(choose: Computation, *, is_floating: bool) -> _PlaceChoice | None:
    """What a computation chooses by, None where that is something else.

    Made of comparisons and selections, it depends on the order of its arguments only; so a few
    numbers in each order tell all.
    """
    order = post_order(choose)
    kinds = _kinds(order)
    if kinds is None or len(choose.parameters) != 4:
        return None
    root = choose.root
    if root.opcode is not Opcode.TUPLE or [kinds[y] for y in root.operands] != ["value", "place"]:
        return None
    numbers = (1.0, 2.0, math.nan) if is_floating else (1.0, 2.0)
    for by, is_behind_nan in product((Opcode.MAXIMUM, Opcode.MINIMUM), (False, True)):
        choice = _PlaceChoice(by, is_behind_nan)
        if all(
            _is_right(choice, given, _run(order, root, given))
            for given in product(numbers, (1, 2), numbers, (1, 2))
        ):
            return choice
    return None


def _kinds(order: list[Instruction]) -> dict[Instruction, str] | None:
    """For each instruction whether it is an element, a place or a truth value; None if others."""
    kinds: dict[Instruction, str] = {}
    for x in order:
        operands = [kinds[y] for y in x.operands]
        if x.opcode is Opcode.PARAMETER:
            kinds[x] = ("value", "place")[x.attributes_as(Parameter).number % 2]
        elif x.opcode is Opcode.COMPARE and operands[0] == operands[1] != "truth":
            if x.attributes_as(Compare).type == "TOTALORDER":
                return None
            kinds[x] = "truth"
        elif x.opcode is Opcode.SELECT and operands[0] == "truth" and operands[1] == operands[2]:
            kinds[x] = operands[1]
        elif x.opcode in _OF_TRUTH and set(operands) == {"truth"}:
            kinds[x] = "truth"
        elif x.opcode in _EXTREMA and set(operands) == {"value"}:
            kinds[x] = "value"
        elif x.opcode is Opcode.TUPLE and x.is_root:
            kinds[x] = "pair"
        else:
            return None
    return kinds


def _run(order: list[Instruction], root: Instruction, given: tuple[Any, ...]) -> tuple[Any, Any]:
    made: dict[Instruction, Any] = {}
    for x in order:
        operands = [made[y] for y in x.operands]
        if x.opcode is Opcode.PARAMETER:
            made[x] = given[x.attributes_as(Parameter).number]
        elif x.opcode is Opcode.COMPARE:
            made[x] = COMPARISONS[x.attributes_as(Compare).direction](*operands)
        elif x.opcode is Opcode.SELECT:
            made[x] = operands[1] if operands[0] else operands[2]
        elif x.opcode in _OF_TRUTH:
            made[x] = _OF_TRUTH[x.opcode](*operands)
        elif x.opcode in _EXTREMA:
            odd = [y for y in operands if y != y]
            made[x] = odd[0] if odd else _EXTREMA[x.opcode](operands)
    value, place = [made[y] for y in root.operands]
    return value, place


def _is_right(choice: _PlaceChoice, given: tuple[Any, ...], found: tuple[Any, Any]) -> bool:
    """Whether the better element was found, of equal ones the first.

    Of equal ones only those in order are looked at: the other order does not come up from left to
    right, and a reduction may go any way.
    """
    (a, i), (b, j) = given[:2], given[2:]
    if choice.is_behind_nan and (a != a or b != b):
        return bool(found[0] != found[0] and found[1] == j)
    if a == b or (a != a and b != b):
        if i > j:
            return True
        wanted = (a, i)
    elif a != a or b != b:
        wanted = (a, i) if a != a else (b, j)
    else:
        is_first = a > b if choice.by is Opcode.MAXIMUM else a < b
        wanted = (a, i) if is_first else (b, j)
    is_same = found[0] == wanted[0] or (found[0] != found[0] and wanted[0] != wanted[0])
    return bool(is_same and found[1] == wanted[1])


RULES: Final = (arg_reduce,)

PASSES: Final = (
    Pass(
        "expand-arg-reduce",
        expansion(RULES),
        "Writes the place of the greatest or least element as two plain reductions.",
        *example(
            """
HloModule m

-choose {
- a = f32[] parameter(0)
- i = s32[] parameter(1)
- b = f32[] parameter(2)
- j = s32[] parameter(3)
- is_more = pred[] compare(a, b), direction=GT
- is_nan = pred[] compare(a, a), direction=NE
- is_first = pred[] or(is_more, is_nan)
- is_equal = pred[] compare(a, b), direction=EQ
- is_before = pred[] compare(i, j), direction=LT
- is_tied = pred[] and(is_equal, is_before)
- is_place = pred[] or(is_first, is_tied)
- value = f32[] select(is_first, a, b)
- place = s32[] select(is_place, i, j)
- ROOT r = (f32[], s32[]) tuple(value, place)
+maximum_f32 {
+ x.1 = f32[] parameter(0)
+ y.1 = f32[] parameter(1)
+ ROOT maximum = f32[] maximum(x.1, y.1)
+}
+
+minimum_s32 {
+ x.2 = s32[] parameter(0)
+ y.2 = s32[] parameter(1)
+ ROOT minimum = s32[] minimum(x.2, y.2)
}

ENTRY main {
  x = f32[3,8] parameter(0)
- places = s32[3,8] iota(), iota_dimension=1
  least = f32[] constant(-inf)
- zero = s32[] constant(0)
- ROOT y = (f32[3], s32[3]) reduce(x, places, least, zero), dimensions={1}, to_apply=choose
+ reduce = f32[3] reduce(x, least), dimensions={1}, to_apply=maximum_f32
+ broadcast = f32[3,8] broadcast(reduce), dimensions={0}
+ compare = pred[3,8] compare(x, broadcast), direction=EQ
+ compare.1 = pred[3,8] compare(x, x), direction=NE
+ or = pred[3,8] or(compare, compare.1)
+ iota = s32[3,8] iota(), iota_dimension=1
+ constant = s32[] constant(2147483647)
+ broadcast.1 = s32[3,8] broadcast(constant), dimensions={}
+ select = s32[3,8] select(or, iota, broadcast.1)
+ reduce.1 = s32[3] reduce(select, constant), dimensions={1}, to_apply=minimum_s32
+ ROOT tuple = (f32[3], s32[3]) tuple(reduce, reduce.1)
}
"""
        ),
    ),
)
