"""Parts that the expanders share: guards, widths, sums, and bodies of scalars on arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Final

from lowtide.builder import Builder
from lowtide.builder.values import Op
from lowtide.ir import Computation, ElementType, Instruction, Module, Opcode, Shape, array_shape
from lowtide.ir.attributes import Constant, Dimensions, Parameter
from lowtide.ir.traversal import post_order
from lowtide.ops.table import TABLE
from lowtide.passes.dead_code import remove_dead_code
from lowtide.passes.matching import is_plain
from lowtide.passes.rewriting import Apply, Rewriter, Rule, RuleTable, rewrite
from lowtide.transforms.simplify.support import Made


def expander(*opcodes: Opcode) -> Callable[[Apply], Rule]:
    """Return the decorator of rules that write an operation as simpler ones.

    The rule gets only operations all of whose arrays are row major and of known sizes. It may round
    otherwise than the operation does.
    """

    def decorate(apply: Apply) -> Rule:
        @wraps(apply)
        def guarded(x: Instruction, at: Rewriter) -> Made:
            known = all(_leaves_are_plain(y.shape) for y in (x, *x.operands))
            return apply(x, at) if known else None

        return Rule(apply.__name__.replace("_", "-"), opcodes, guarded, exact=False)

    return decorate


def _leaves_are_plain(shape: Shape) -> bool:
    parts = shape.tuple_shapes if shape.is_tuple else (shape,)
    return all(is_plain(part) for part in parts)


def expand(
    module: Module,
    rules: Sequence[Rule] | RuleTable,
    computations: Sequence[Computation] | None = None,
) -> int:
    """Apply expanders until none fits, also to what they made; return the number of changes.

    What nobody reads or calls any more is removed, if there was anything to expand.
    """
    changes = 0
    while fired := rewrite(module, rules, computations).total():
        changes += fired + remove_dead_code(module)
    return changes


def expansion(rules: Sequence[Rule]) -> Callable[[Module], int]:
    """Return the function of a pass that applies expanders."""
    return lambda module: expand(module, rules)


# -- widths ------------------------------------------------------------------------------------


def widened(at: Rewriter, x: Instruction) -> Op:
    """Return floating point numbers of less than 32 bits as f32, all else as it is."""
    return at.build.convert(at(x), ElementType.F32) if is_narrow(x.shape.element_type) else at(x)


def is_narrow(element_type: ElementType) -> bool:
    """Whether a type is floating point of less than 32 bits."""
    return element_type.is_floating and element_type.bits < 32


def narrowed(value: Op, element_type: ElementType) -> Op:
    """Return numbers in the type in which they are wanted."""
    if value.element_type is element_type:
        return value
    return value.builder.convert(value, element_type)


def summed(value: Op, dimensions: Sequence[int]) -> Op:
    """Return sums over some dimensions."""
    if not dimensions:
        return value
    build = value.builder
    add = build.scalar_computation(Opcode.ADD, value.element_type)
    zero = build.constant(0, value.element_type)
    return build.reduce(value, zero, add, dimensions)


# -- bodies of scalars -------------------------------------------------------------------------

_APART: Final = frozenset({Opcode.MAP, Opcode.RNG, Opcode.FUSION, Opcode.ASYNC_START})


def is_elementwise(computation: Computation) -> bool:
    """Whether a computation of scalars has elementwise operations, and so goes for arrays too."""
    for x in computation.instructions.values():
        if x.control_predecessors or x.opcode in _APART:
            return False
        if x.opcode in (Opcode.PARAMETER, Opcode.CONSTANT):
            if not x.shape.is_array or x.shape.rank:
                return False
        elif not (x.opcode is Opcode.TUPLE and x.is_root) and not TABLE[x.opcode].elementwise:
            return False
    return True


def applied(
    build: Builder, computation: Computation, operands: Sequence[Op], sizes: tuple[int, ...]
) -> list[Op]:
    """Return what an elementwise computation of scalars makes of each element of the operands.

    All operands have the given sizes; so do the results, one for each element of a tuple.
    """
    made: dict[Instruction, Op] = {}
    for x in post_order(computation):
        if x.opcode is Opcode.PARAMETER:
            made[x] = operands[x.attributes_as(Parameter).number]
        elif x.opcode is Opcode.CONSTANT:
            made[x] = spread_to(_constant(build, x), sizes)
        elif x.opcode is not Opcode.TUPLE:
            shape = array_shape(x.shape.element_type, sizes)
            made[x] = build.emit(x.opcode, [made[y] for y in x.operands], x.attributes, shape=shape)
    root = computation.root
    return [made[x] for x in (root.operands if root.opcode is Opcode.TUPLE else (root,))]


def _constant(build: Builder, x: Instruction) -> Op:
    return build.emit(Opcode.CONSTANT, (), x.attributes_as(Constant), shape=x.shape)


def spread_to(scalar: Op, sizes: tuple[int, ...]) -> Op:
    """Return a scalar repeated to some sizes."""
    if not sizes:
        return scalar
    shape = array_shape(scalar.element_type, sizes)
    return scalar.builder.emit(Opcode.BROADCAST, [scalar], Dimensions(()), shape=shape)
