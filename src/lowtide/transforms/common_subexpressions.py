"""One instruction where several compute the same from the same operands."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final, final

from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ir.annotations import NO_ANNOTATIONS
from lowtide.ir.attributes import NO_ATTRIBUTES, Constant
from lowtide.ir.traversal import applied_computations, computation_post_order, post_order
from lowtide.ops.effects import has_side_effect
from lowtide.ops.table import TABLE
from lowtide.passes.interface import Pass


def merge_common_subexpressions(module: Module) -> int:
    """Make users of equal instructions read the first of them; return how many were removed.

    Instructions are equal that have the same opcode, attributes, shape with layout, annotations and
    operands, these in any order where the operation commutes. What they call is the same too, or
    bodies of fusions, reducers and the like that compute the same. What draws
    random numbers, has side effects or control edges is not merged, nor are constants whose value
    is not in the text, nor optimization barriers: they stand for a wish to compute twice.
    """
    classes = _Classes(module)
    return sum([_merge_in(computation, classes) for computation in computation_post_order(module)])


@final
class _Classes:
    """Numbers of computations, the same for those that compute the same.

    Computations that control flow runs are looked at as little as possible: each is on its own.
    """

    def __init__(self, module: Module) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._classes: dict[Computation, int] = {}
        self._applied = applied_computations(module)

    def of(self, instruction: Instruction) -> tuple[Hashable, ...]:
        """Return what stands for the computations that an instruction calls."""
        return tuple([self._classes.get(x, x) for x in instruction.called_computations])

    def add(self, computation: Computation) -> None:
        """Number a computation whose callees have their numbers, if there is any point in it."""
        if computation not in self._applied:
            return
        found: dict[Instruction, int] = {}
        for x in post_order(computation):
            found[x] = self._number(self._key(x, found))
        shapes = tuple([x.shape for x in computation.parameters])
        self._classes[computation] = self._number((found[computation.root], shapes))

    def _key(self, x: Instruction, found: Mapping[Instruction, int]) -> Hashable:
        if x.opcode is not Opcode.PARAMETER and not _may_merge(x):
            return x
        return _key(x, [found[y] for y in x.operands], self)

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


def _merge_in(computation: Computation, classes: _Classes) -> int:
    """Merge in a computation; each reader of merged instructions is changed once, however long."""
    first: dict[Hashable, Instruction] = {}
    merged: dict[Instruction, Instruction] = {}
    for instruction in post_order(computation):
        operands = instruction.operands
        if any(x in merged for x in operands):
            instruction.set_operands(tuple([merged.get(x, x) for x in operands]))
        if not _may_merge(instruction):
            continue
        key = _key(instruction, [x.id for x in instruction.operands], classes)
        kept = first.setdefault(key, instruction)
        if kept is not instruction:
            merged[instruction] = kept
    computation.root = merged.get(computation.root, computation.root)
    for instruction in reversed(merged):
        computation.remove(instruction)
    classes.add(computation)
    return len(merged)


_NEVER: Final = frozenset(
    {
        Opcode.PARAMETER,
        Opcode.OPTIMIZATION_BARRIER,
        Opcode.RNG,
        Opcode.RNG_GET_AND_UPDATE_STATE,
    }
)


def _may_merge(instruction: Instruction) -> bool:
    attributes = instruction.attributes
    return not (
        instruction.opcode in _NEVER
        or (isinstance(attributes, Constant) and attributes.literal.elided)
        or instruction.control_predecessors
        or instruction.control_successors
        or has_side_effect(instruction)
    )


def _key(instruction: Instruction, operands: list[int], classes: _Classes) -> Hashable:
    if TABLE[instruction.opcode].commutative:
        operands.sort()
    called = instruction.called_computations
    attributes, annotations = instruction.attributes, instruction.annotations
    return (
        instruction.opcode,
        tuple(operands),
        None if attributes is NO_ATTRIBUTES else attributes,
        classes.of(instruction) if called else called,
        instruction.shape,
        None if annotations == NO_ANNOTATIONS else annotations,
    )


PASSES: Final = (
    Pass(
        "cse",
        merge_common_subexpressions,
        "Computes only once what several instructions compute from the same operands.",
        before="""
HloModule m

ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  a = f32[4] multiply(x, y)
  b = f32[4] multiply(y, x)
  ROOT sum = f32[4] add(a, b)
}
""",
        after="""
HloModule m

ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  a = f32[4] multiply(x, y)
  ROOT sum = f32[4] add(a, a)
}
""",
    ),
)
