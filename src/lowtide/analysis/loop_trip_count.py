"""The trip count of a loop, from start, step and bound of its induction variable.

There is a formula where start, step and bound are constants and the loop compares its counter with
the bound. Other loops over a few whole numbers are run here for some hundred steps.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from lowtide.analysis.call_graph import while_body, while_condition
from lowtide.ir import Computation, ElementType, Instruction, Opcode
from lowtide.ir.attributes import Compare, Constant, GetTupleElement
from lowtide.ir.loop_counter import LoopCounter
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class TripCount:
    """A loop runs its body `count` times.

    `induction` is the element of the carried tuple that starts as `start` and grows by `step` each
    time; None where there is no single one.
    """

    count: int
    induction: int | None = None
    start: int = 0
    step: int = 0

    @property
    def final(self) -> int:
        """The value of the induction variable after the loop."""
        return self.start + self.count * self.step


MOST_SIMULATED: Final = 256
"""How many iterations of a loop are tried out where there is no formula."""


def trip_count(loop: Instruction) -> TripCount | None:
    """Return how often a while runs its body, or None where that cannot be told.

    The carried value has to be a tuple that the body ends by making. Counters are integers; one
    that would wrap around counts as not known.
    """
    carries = _Carries.of(loop)
    if carries is None:
        return None
    return _by_formula(carries) or _by_simulation(carries)


def loop_counter(loop: Instruction) -> LoopCounter | None:
    """Return how often a while is certain to run its body, None where only its condition tells.

    That is a number, or a rule by which it follows from what the loop begins with.
    """
    found = trip_count(loop)
    if found is not None:
        return LoopCounter(found.count)
    carries = _Carries.of(loop)
    return None if carries is None else _compared(carries)


# -- what a loop carries -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Carries:
    """A while whose elements can be followed: `start` is its operand, `results` those of a step."""

    start: Instruction
    condition: Computation
    body: Computation
    results: tuple[Instruction, ...]

    @classmethod
    def of(cls, loop: Instruction) -> _Carries | None:
        condition, body = while_condition(loop), while_body(loop)
        if body.root.opcode is not Opcode.TUPLE:
            return None
        return cls(loop.operands[0], condition, body, body.root.operands)

    def element(self, x: Instruction) -> int | None:
        """Return which carried element an instruction of body or condition is, if any."""
        x = _source(x)
        if x.opcode is not Opcode.GET_TUPLE_ELEMENT:
            return None
        if x.operands[0].opcode is not Opcode.PARAMETER:
            return None
        return x.attributes_as(GetTupleElement).index

    def is_invariant(self, index: int) -> bool:
        """Whether each step passes an element on."""
        return self.element(self.results[index]) == index

    def is_fixed(self, x: Instruction) -> bool:
        """Whether an instruction of body or condition is the same in each step."""
        index = self.element(x)
        return self.constant(x) is not None or (index is not None and self.is_invariant(index))

    def first(self, index: int) -> int | None:
        """Return the integer with which an element starts, if it is known."""
        if self.start.opcode is not Opcode.TUPLE:
            return None
        return _integer(self.start.operands[index])

    def constant(self, x: Instruction) -> int | None:
        """Return the integer that an instruction of body or condition always is, if known."""
        value = _integer(x)
        if value is not None:
            return value
        index = self.element(x)
        return self.first(index) if index is not None and self.is_invariant(index) else None


def _source(x: Instruction) -> Instruction:
    """What an instruction is a copy of, itself where it is none."""
    while x.opcode is Opcode.COPY:
        x = x.operands[0]
    return x


def _integer(x: Instruction) -> int | None:
    x = _source(x)
    if x.opcode is not Opcode.CONSTANT or x.shape.rank or not _is_whole(x):
        return None
    literal = x.attributes_as(Constant).literal
    return None if literal.elided else int(literal.array[()])


def _is_whole(x: Instruction) -> bool:
    element_type = x.shape.element_type
    return x.shape.is_array and (element_type.is_integer or element_type is ElementType.PRED)


def _wrapped(value: int, element_type: ElementType) -> int:
    if element_type is ElementType.PRED:
        return int(bool(value))
    low, _ = element_type.bounds
    return (value - low) % (1 << element_type.bits) + low


# -- by formula --------------------------------------------------------------------------------

_SWAPPED: Final[Mapping[str, str]] = {
    "EQ": "EQ",
    "NE": "NE",
    "LT": "GT",
    "LE": "GE",
    "GT": "LT",
    "GE": "LE",
}


def _by_formula(carries: _Carries) -> TripCount | None:
    found = _compared(carries)
    if found is None or found.limit_element is not None:
        return None
    start = carries.first(found.element)
    if start is None:
        return None
    count = found.trips_from(start, found.limit)
    return None if count is None else TripCount(count, found.element, start, found.step)


def _compared(carries: _Carries) -> LoopCounter | None:
    """A counter that is compared with a limit, which is a constant or carried."""
    root = carries.condition.root
    if root.opcode is not Opcode.COMPARE or root.shape.rank:
        return None
    if not root.operands[0].shape.element_type.is_integer:
        return None
    direction = root.attributes_as(Compare).direction
    counter, bound = root.operands
    if carries.is_fixed(counter):
        counter, bound, direction = bound, counter, _SWAPPED[direction]
    index, limit = carries.element(counter), carries.constant(bound)
    if index is None or not carries.is_fixed(bound):
        return None
    step, (low, high) = _step(carries, index), counter.shape.element_type.bounds
    if step is None:
        return None
    carried = carries.element(bound) if limit is None else None
    return LoopCounter(None, index, step, direction, carried, limit or 0, low, high)


def _step(carries: _Carries, index: int) -> int | None:
    """Return what each iteration adds to an element, if it is always the same."""
    result = _source(carries.results[index])
    if result.opcode not in (Opcode.ADD, Opcode.SUBTRACT):
        return None
    counter, amount = result.operands
    if carries.element(counter) != index and result.opcode is Opcode.ADD:
        counter, amount = amount, counter
    value = carries.constant(amount)
    if carries.element(counter) != index or value is None:
        return None
    return value if result.opcode is Opcode.ADD else -value


# -- by trying out -----------------------------------------------------------------------------

_Function: TypeAlias = Callable[..., int]
_FUNCTIONS: Final[Mapping[Opcode, _Function]] = {
    Opcode.ADD: lambda a, b: a + b,
    Opcode.AND: lambda a, b: a & b,
    Opcode.CONVERT: lambda a: a,
    Opcode.COPY: lambda a: a,
    Opcode.MAXIMUM: max,
    Opcode.MINIMUM: min,
    Opcode.MULTIPLY: lambda a, b: a * b,
    Opcode.NEGATE: lambda a: -a,
    Opcode.OR: lambda a, b: a | b,
    Opcode.SELECT: lambda p, a, b: a if p else b,
    Opcode.SUBTRACT: lambda a, b: a - b,
    Opcode.XOR: lambda a, b: a ^ b,
}
COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
}
"""What a direction of `compare` says of two numbers."""

_ON_TRUTH_VALUES: Final = frozenset(
    {Opcode.AND, Opcode.CONVERT, Opcode.COPY, Opcode.OR, Opcode.SELECT, Opcode.XOR}
)
_MOST_STEPS: Final = 32
"""How many instructions may have a say in whether a loop goes on."""


def _by_simulation(carries: _Carries) -> TripCount | None:
    needed = _needed(carries)
    if needed is None:
        return None
    check, advance, elements = needed
    state: dict[int, int] = {}
    for index in elements:
        first = carries.first(index)
        if first is None:
            return None
        state[index] = first
    for count in range(MOST_SIMULATED + 1):
        if not _run(carries, check, state)[carries.condition.root]:
            return TripCount(count)
        values = _run(carries, advance, state)
        following = {index: values[carries.results[index]] for index in elements}
        if following == state:
            return None
        state = following
    return None


_Needed: TypeAlias = "tuple[list[Instruction], list[Instruction], list[int]]"


def _needed(carries: _Carries) -> _Needed | None:
    """Return the instructions of condition and body, and the elements, that decide on going on."""
    check = _slice([carries.condition.root])
    if check is None:
        return None
    elements: dict[int, None] = {}
    wanted = [i for x in check if (i := carries.element(x)) is not None]
    advance: list[Instruction] | None = []
    while any(index not in elements for index in wanted):
        elements.update(dict.fromkeys(wanted))
        advance = _slice([carries.results[index] for index in elements])
        if advance is None:
            return None
        wanted = [i for x in advance if (i := carries.element(x)) is not None]
    return (check, advance or [], list(elements)) if elements else None


def _slice(roots: list[Instruction]) -> list[Instruction] | None:
    """Return what scalars are computed from, operands first; None where it cannot be done here."""
    found: dict[Instruction, None] = {}
    waiting = list(roots)
    while waiting:
        x = waiting.pop()
        if x in found:
            continue
        found[x] = None
        if len(found) > _MOST_STEPS or x.shape.rank or not _is_whole(x):
            return None
        if x.opcode in (Opcode.CONSTANT, Opcode.GET_TUPLE_ELEMENT):
            from_carry = x.operands and x.operands[0].opcode is Opcode.PARAMETER
            if not from_carry and _integer(x) is None:
                return None
            continue
        if not _can_run(x):
            return None
        waiting += x.operands
    return _in_order(found)


def _can_run(x: Instruction) -> bool:
    if x.opcode is Opcode.COMPARE:
        return True
    if x.shape.element_type is ElementType.PRED and x.opcode not in _ON_TRUTH_VALUES:
        return False
    return x.opcode in _FUNCTIONS


def _in_order(found: Mapping[Instruction, None]) -> list[Instruction]:
    """Return a few instructions, operands first."""
    ordered: dict[Instruction, None] = {}
    stack = list(found)
    while stack:
        x = stack[-1]
        waiting = [y for y in x.operands if y in found and y not in ordered]
        if waiting:
            stack += waiting
            continue
        ordered[x] = None
        stack.pop()
    return list(ordered)


def _run(
    carries: _Carries, order: list[Instruction], state: Mapping[int, int]
) -> dict[Instruction, int]:
    values: dict[Instruction, int] = {}
    for x in order:
        index = carries.element(x)
        if index is not None:
            values[x] = state[index]
        elif x.opcode is Opcode.CONSTANT:
            values[x] = _integer(x) or 0
        else:
            values[x] = _apply(x, [values[y] for y in x.operands])
    return values


def _apply(x: Instruction, operands: list[int]) -> int:
    if x.opcode is Opcode.COMPARE:
        return int(COMPARISONS[x.attributes_as(Compare).direction](*operands))
    return _wrapped(_FUNCTIONS[x.opcode](*operands), x.shape.element_type)
