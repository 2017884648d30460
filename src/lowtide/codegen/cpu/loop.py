"""Kernels of loops: each element of the results is computed at its own index."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from lowtide.codegen.arrays import strides
from lowtide.codegen.cpu.loop_kernel import loop_part, nests_of
from lowtide.codegen.cpu.loop_nest import Job, nest_of_one
from lowtide.codegen.domain import domains_of
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.moves import moved_types, retyped
from lowtide.codegen.elements.operands import Bound, bind, leaves, members
from lowtide.codegen.elements.outputs import KernelOutput, outputs_of, stored
from lowtide.codegen.indexing import Index
from lowtide.codegen.kernel import KernelCode, KernelPlan
from lowtide.codegen.parts import KernelPart, concatenated, in_turn
from lowtide.ir import Instruction
from lowtide.llvm.target import Target
from lowtide.ops.in_place import ONE_PASS


def plan_loop(instruction: Instruction, target: Target) -> KernelPlan:
    """Return how an instruction runs whose elements are each computed by themselves."""
    return KernelPlan(lambda: _code(instruction, target))


def _code(instruction: Instruction, target: Target) -> KernelCode:
    """Outputs of equal dimensions, up to those of size 1, are computed together.

    In a fusion of one pass, results may lie over operands of their size, which smaller results
    read, too: those come first, and each group is a phase.
    """
    groups: dict[tuple[int, ...], list[KernelOutput]] = {}
    for output in outputs_of(instruction):
        groups.setdefault(_without_ones(output.dimensions), []).append(output)
    written = [
        loop_parts(instruction, target, outputs, f"loop{number}")
        for number, (_, outputs) in enumerate(sorted(groups.items(), key=lambda x: prod(x[0])))
    ]
    if instruction.annotations.backend_config == ONE_PASS:
        return in_turn([concatenated(x, f"parts{i}") for i, x in enumerate(written) if x])
    parts = [part for group in written for part in group]
    return concatenated(parts) if parts else KernelCode((), ())


def _without_ones(dimensions: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([x for x in dimensions if x != 1])


def loop_parts(
    instruction: Instruction, target: Target, outputs: Sequence[KernelOutput], name: str
) -> list[KernelPart]:
    """Return functions that compute and store outputs of equal dimensions, none if empty.

    The names of the functions begin with `name`. Loops and boxes are found by a trial, which one
    element does without.
    """
    raw = moved_types(members(instruction))
    job = Job(instruction, target, tuple(outputs), raw)
    if prod(outputs[0].dimensions) == 1:
        return [loop_part(nest_of_one(job), f"{name}_0")]

    known: dict[Elements, Bound] = {}

    def visit(elements: Elements, index: Index) -> None:
        elements.raw = raw
        if elements not in known:
            known[elements] = retyped(bind(elements.function, instruction), raw)
        stored(elements, outputs, known[elements], [index], None)

    shape = leaves(instruction.shape)[outputs[0].array]
    order = sorted(range(shape.rank), key=lambda d: -strides(shape)[d])
    found = domains_of(outputs[0].dimensions, order, target, visit)
    nests = nests_of(job, found, visit)
    return [loop_part(nest, f"{name}_{number}") for number, nest in enumerate(nests)]
