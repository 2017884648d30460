"""Reducers that choose among their operands: whether parts of these can be chosen from before.

Such a reducer compares numbers and selects. What it gives depends on which of two numbers of a type
is greater, and on nothing else: so it is tried on all orders that three numbers can have.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

from lowtide.ir.attributes import Compare, GetTupleElement
from lowtide.ir.computation import Computation
from lowtide.ir.element_type import ElementType
from lowtide.ir.instruction import Instruction
from lowtide.ir.opcode import Opcode
from lowtide.ir.traversal import post_order
from lowtide.ops.reducers import selects

Numbers = tuple[Any, ...]
"""What a reducer is given or gives: one number of each operand."""

Pairs: TypeAlias = Mapping[tuple[Numbers, Numbers], Numbers]
"""What a reducer gives for two points."""

_MOST_TRIALS: Final = 1 << 18
"""Instructions that are tried, at most."""


@lru_cache(maxsize=64)
def chooses_in_order(computation: Computation) -> bool:
    """Return whether a reducer chooses the same of parts as of all, if these keep their order.

    What meets itself stays then, too, so that operands may be taken twice in a row.

    It has to compare no numbers of different operands, and none with constants.
    """
    table = _table(computation)
    return table is not None and _is_grouped(*table)


@lru_cache(maxsize=64)
def chooses_alike(computation: Computation) -> bool:
    """Return whether a reducer chooses the same of two in either order, if neither is a NaN.

    It has to compare no numbers of different operands, and none with constants. Zeros of either
    sign are the same.
    """
    table = _table(computation)
    if table is None:
        return False
    points, pairs = table
    points = [x for x in points if None not in _key(x)]
    return all(_key(pairs[x, y]) == _key(pairs[y, x]) for x, y in itertools.combinations(points, 2))


def _table(computation: Computation) -> tuple[Sequence[Numbers], Pairs] | None:
    """What a reducer chooses of any two of some points, None where points cannot tell."""
    types = [x.shape.element_type for x in computation.parameters]
    count = len(types) // 2
    if not selects(computation) or types[:count] != types[count:]:
        return None
    if len(set(types)) < count and not _are_apart(computation, count):
        return None
    instructions = list(computation.instructions.values())
    if any(map(_is_otherwise, instructions)):
        return None
    points = list(itertools.product(*[_samples(x) for x in types[:count]]))
    if len(points) ** 3 * len(instructions) > _MOST_TRIALS:
        return None
    pairs = {(x, y): _chosen(computation, (*x, *y)) for x, y in itertools.product(points, repeat=2)}
    return points, pairs


def _are_apart(computation: Computation, count: int) -> bool:
    """Whether operations other than choices have numbers of one operand only."""
    of: dict[Instruction, set[int]] = {}
    for number, x in enumerate(computation.parameters):
        of[x] = {number % count}
    for x in post_order(computation):
        if x.opcode is Opcode.PARAMETER or (x is computation.root and x.opcode is Opcode.TUPLE):
            continue
        of[x] = set().union(*[of[y] for y in x.operands])
        if len(of[x]) > 1:
            return False
        if x.shape.element_type is ElementType.PRED:
            of[x] = set()
    return True


def _is_grouped(points: Sequence[Numbers], pairs: Pairs) -> bool:
    """Whether a table of choices is associative, and keeps what meets itself."""
    known = {_key(x): x for x in points}

    def choose(x: Numbers, y: Numbers) -> Numbers:
        return known[_key(pairs[x, y])]

    if any(_key(pairs[x, x]) != _key(x) for x in points):
        return False
    return all(
        choose(choose(x, y), z) is choose(x, choose(y, z))
        for x, y, z in itertools.product(points, repeat=3)
    )


def _samples(type_: ElementType) -> Numbers:
    if type_ is ElementType.PRED:
        return False, True
    return (math.nan, 0.0, 1.0, 2.0) if type_.is_floating else (0, 1, 2)


def _key(numbers: Numbers) -> Numbers:
    """Numbers by which equal ones are found, NaN among them."""
    return tuple([None if x != x else x for x in numbers])


def _is_otherwise(x: Instruction) -> bool:
    """Whether an instruction looks at more than which number is greater."""
    if x.opcode in (Opcode.AND, Opcode.OR, Opcode.NOT):
        return x.shape.element_type is not ElementType.PRED
    is_total = x.opcode is Opcode.COMPARE and x.attributes_as(Compare).type == "TOTALORDER"
    return is_total or x.opcode is Opcode.CONSTANT


def _chosen(computation: Computation, given: Numbers) -> Numbers:
    """What a reducer gives for some numbers."""
    found: dict[Instruction, Any] = dict(zip(computation.parameters, given, strict=True))
    for x in post_order(computation):
        if x.opcode is not Opcode.PARAMETER:
            found[x] = _RULES[x.opcode](x, [found[y] for y in x.operands])
    root = found[computation.root]
    return root if isinstance(root, tuple) else (root,)


def _compared(x: Instruction, values: Sequence[Any]) -> bool:
    a, b = values
    direction = x.attributes_as(Compare).direction
    return bool(_DIRECTIONS[direction](a, b))


_DIRECTIONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "EQ": lambda a, b: a == b,
    "NE": lambda a, b: a != b,
    "GE": lambda a, b: a >= b,
    "GT": lambda a, b: a > b,
    "LE": lambda a, b: a <= b,
    "LT": lambda a, b: a < b,
}


def _extremum(greater: bool) -> Callable[[Instruction, Sequence[Any]], Any]:
    def rule(_: Instruction, values: Sequence[Any]) -> Any:
        odd = [x for x in values if x != x]
        return odd[0] if odd else (max(values) if greater else min(values))

    return rule


_RULES: Final[Mapping[Opcode, Callable[[Instruction, Sequence[Any]], Any]]] = {
    Opcode.COMPARE: _compared,
    Opcode.SELECT: lambda _, x: x[1] if x[0] else x[2],
    Opcode.AND: lambda _, x: x[0] & x[1],
    Opcode.OR: lambda _, x: x[0] | x[1],
    Opcode.NOT: lambda _, x: not x[0],
    Opcode.MAXIMUM: _extremum(greater=True),
    Opcode.MINIMUM: _extremum(greater=False),
    Opcode.TUPLE: lambda _, x: tuple(x),
    Opcode.GET_TUPLE_ELEMENT: lambda y, x: x[0][y.attributes_as(GetTupleElement).index],
}
