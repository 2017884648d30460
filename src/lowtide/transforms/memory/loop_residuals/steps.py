"""Integers in a loop body as affine functions of the number of the step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from lowtide.builder.literals import literal_of
from lowtide.ir import Computation, Instruction, Opcode, Shape
from lowtide.ir.attributes import Constant
from lowtide.ir.traversal import post_order
from lowtide.passes.editing import TupleElements, element_index, is_element, make
from lowtide.records import dataclass
from lowtide.transforms.control_flow.loops import WhileLoop


@dataclass(frozen=True, slots=True)
class StepAffine:
    """The integer `scale * k + offset` in step k of a loop; steps count from 0."""

    scale: int
    offset: int

    def __call__(self, step: int) -> int:
        """Return the integer of a step."""
        return self.scale * step + self.offset

    def of(self, inner: StepAffine) -> StepAffine:
        """Return what this is where `inner` is the step."""
        return StepAffine(self.scale * inner.scale, self(inner.offset))

    def stays_within(self, low: int, high: int, steps: int) -> bool:
        """Whether it is from `low` to `high`, both included, in all of `steps` steps, 1 or more."""
        return all(low <= self(k) <= high for k in (0, steps - 1))


STEP: Final = StepAffine(1, 0)
"""The number of the step itself."""

Affines: TypeAlias = dict[Instruction, StepAffine]


def affine_values(loop: WhileLoop, steps: int) -> Affines:
    """Return the whole numbers of a body that are affine functions of the step, operands first.

    They are made from constants and from counters: elements that start as a constant, to which
    each step adds one. None of them wraps around in the first `steps` steps.
    """
    found: Affines = {}
    starts, parameter = loop.starts, loop.body.parameters[0]
    for x in post_order(loop.body):
        shape = x.shape
        if not shape.is_array or shape.rank or not shape.element_type.is_integer:
            continue
        if x.opcode is Opcode.GET_TUPLE_ELEMENT and x.operands[0] is parameter:
            value = _counter(loop, starts, element_index(x))
        else:
            value = _computed(x, found)
        if value is not None and value.stays_within(*shape.element_type.bounds, steps):
            found[x] = value
    return found


def _counter(loop: WhileLoop, starts: TupleElements, index: int) -> StepAffine | None:
    """The element of a step, if it starts as a constant and grows by one."""
    start, result = starts.known(index), loop.results[index]
    first = _integer(start) if start is not None else None
    if first is None:
        return None
    parameter = loop.body.parameters[0]
    if is_element(result, parameter, index):
        return StepAffine(0, first)
    if result.opcode not in (Opcode.ADD, Opcode.SUBTRACT) or result.has_control_edges:
        return None
    counter, amount = result.operands
    if result.opcode is Opcode.ADD and is_element(amount, parameter, index):
        counter, amount = amount, counter
    growth = _integer(amount)
    if growth is None or not is_element(counter, parameter, index):
        return None
    return StepAffine(growth if result.opcode is Opcode.ADD else -growth, first)


def _integer(x: Instruction) -> int | None:
    if x.opcode is not Opcode.CONSTANT:
        return None
    literal = x.attributes_as(Constant).literal
    return None if literal.elided else int(literal.array[()])


def _computed(x: Instruction, found: Affines) -> StepAffine | None:
    if x.opcode is Opcode.CONSTANT:
        value = _integer(x)
        return None if value is None else StepAffine(0, value)
    rule = _RULES.get(x.opcode)
    operands = [found[y] for y in x.operands if y in found]
    if rule is None or len(operands) < len(x.operands) or x.has_control_edges:
        return None
    return rule(*operands)


def _product(a: StepAffine, b: StepAffine) -> StepAffine | None:
    if a.scale and b.scale:
        return None
    return StepAffine(a.scale * b.offset + b.scale * a.offset, a.offset * b.offset)


_RULES: Final[Mapping[Opcode, Callable[..., StepAffine | None]]] = {
    Opcode.ADD: lambda a, b: StepAffine(a.scale + b.scale, a.offset + b.offset),
    Opcode.CONVERT: lambda a: a,
    Opcode.COPY: lambda a: a,
    Opcode.MULTIPLY: _product,
    Opcode.NEGATE: lambda a: StepAffine(-a.scale, -a.offset),
    Opcode.SUBTRACT: lambda a, b: StepAffine(a.scale - b.scale, a.offset - b.offset),
}


# -- making them -------------------------------------------------------------------------------


def has_unit_scale(value: StepAffine) -> bool:
    """Whether any affine function can be made of this one by a product and a sum."""
    return abs(value.scale) == 1


def make_affine(wanted: StepAffine, shape: Shape, known: Affines) -> Instruction:
    """Return a scalar of a loop body that is `wanted` in each step, made where there is none.

    `known` has what there is, one of unit scale at least, and gets what is made.
    """
    for x, value in known.items():
        if value == wanted and x.shape is shape:
            return x
    base, value = next((x, v) for x, v in known.items() if has_unit_scale(v))
    if base.shape is not shape:
        base = make(base.parent, Opcode.CONVERT, shape, (base,), base)
    scale = wanted.scale * value.scale
    made = _sum(_scaled(base, scale), wanted.offset - scale * value.offset, scale)
    known[made] = wanted
    return made


def _scaled(base: Instruction, scale: int) -> Instruction:
    """The product of a scalar and the absolute value of `scale`."""
    if abs(scale) == 1:
        return base
    factor = constant(base.parent, abs(scale), base)
    return make(base.parent, Opcode.MULTIPLY, base.shape, (base, factor), base)


def _sum(x: Instruction, offset: int, sign: int) -> Instruction:
    """`offset` plus or minus a scalar; that alone for a sign of 0."""
    if sign > 0 and not offset:
        return x
    term = constant(x.parent, offset, x)
    if not sign:
        return term
    if sign > 0:
        return make(x.parent, Opcode.ADD, x.shape, (x, term), x)
    return make(x.parent, Opcode.SUBTRACT, x.shape, (term, x), x)


def constant(parent: Computation, value: int, like: Instruction) -> Instruction:
    """Return a new constant of the type of a scalar, to which `value` wraps around."""
    low, high = like.shape.element_type.bounds
    wrapped = (value - low) % (high - low + 1) + low
    attributes = Constant(literal_of(wrapped, like.shape.element_type))
    return make(parent, Opcode.CONSTANT, like.shape, (), like, attributes)
