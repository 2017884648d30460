"""Kernels of points: each thread computes the elements of the results at some indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Final

from lowtide.codegen.arrays import strides
from lowtide.codegen.domain import LoopDomain, Trial, trial_of, whole
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.moves import moved_types, retyped
from lowtide.codegen.elements.operands import Bound, bind, leaves, members
from lowtide.codegen.elements.outputs import KernelOutput, outputs_of, stored
from lowtide.codegen.gpu.kernel import GpuCode, GpuPlan, buffer_names, kernel_function
from lowtide.codegen.gpu.threads import thread_number
from lowtide.codegen.gpu.vectors import thread_elements
from lowtide.codegen.indexing import Index
from lowtide.codegen.space import LoopSpace, decomposed, groups_of, lane_variable
from lowtide.ir import Instruction, Opcode, Shape
from lowtide.ir.thunk import GridLaunch
from lowtide.llvm.function import Function
from lowtide.llvm.target import Target
from lowtide.records import dataclass

THREADS: Final = 256
"""Threads of a block."""

_LEAST_THREADS: Final = 1 << 14
"""Threads that keep a device busy: with fewer elements for each, none has several."""

_LINES: Final = 600
"""Lines of code of a point, at most, that are written for several lanes."""

_MOST_LINES: Final = 4 * _LINES
"""Those of all lanes of a thread."""

SUMS: Final = frozenset(
    {Opcode.CONVOLUTION, Opcode.DOT, Opcode.RAGGED_DOT, Opcode.REDUCE, Opcode.SCALED_DOT}
)
"""Operations whose elements take a loop: several lanes would take apart what threads read side by
side."""


@dataclass(frozen=True, eq=False, slots=True)
class PointGroup:
    """Results of equal dimensions, which are computed together; `name` is that of the kernel."""

    instruction: Instruction
    target: Target
    outputs: tuple[KernelOutput, ...]
    name: str


def plan_points(instruction: Instruction, target: Target) -> GpuPlan:
    """Return how an instruction runs whose elements are each computed by themselves."""
    return GpuPlan("points", lambda: points_code(instruction, target))


def points_code(instruction: Instruction, target: Target) -> GpuCode:
    """Return a launch for each group of results of equal dimensions, small ones first.

    Where results lie over operands, smaller results have read these before.
    """
    functions, launches, texts = [], [], []
    for group in groups_of_outputs(instruction, target):
        function, launch, text = point_kernel(group)
        functions.append(function)
        launches.append(launch)
        texts += text
    return GpuCode(tuple(functions), tuple(launches), "\n".join(dict.fromkeys(texts)))


def groups_of_outputs(instruction: Instruction, target: Target) -> list[PointGroup]:
    """Return the results of an instruction by their dimensions, up to those of size 1."""
    groups: dict[tuple[int, ...], list[KernelOutput]] = {}
    for output in outputs_of(instruction):
        sizes = tuple([x for x in output.dimensions if x != 1])
        if 0 not in sizes:
            groups.setdefault(sizes, []).append(output)
    ordered = sorted(groups.values(), key=lambda x: prod(x[0].dimensions))
    return [
        PointGroup(instruction, target, tuple(outputs), f"points{number}")
        for number, outputs in enumerate(ordered)
    ]


def point_kernel(
    group: PointGroup, prepare: Callable[[Elements], None] | None = None
) -> tuple[Function, GridLaunch, list[str]]:
    """Return the kernel of a group, its launch, and constants that it needs.

    `prepare` says where the elements of some instructions come from, ahead of their rules.
    """
    instruction, outputs = group.instruction, group.outputs
    fn = kernel_function(group.name, instruction, THREADS)

    def visit(elements: Elements, index: Index) -> None:
        if prepare is not None:
            prepare(elements)
        stored(elements, outputs, bound_to(elements, instruction), [index], None)

    domain = domain_of(group)
    trial = trial_of(domain, group.target, visit)
    space = LoopSpace(domain.sizes, groups_of(trial, domain.sizes))
    has_sums = prepare is None and any(x.opcode in SUMS for x in members(instruction))
    is_single = has_sums and not _lies_along(instruction, trial)
    lanes = 0 if is_single else lanes_of(group, space.sizes, trial.lines)
    elements = thread_elements(fn, group.target, lanes)
    step = max(lanes, 1)
    sizes = (*space.sizes[:-1], space.sizes[-1] // step)
    unit = thread_number(fn, THREADS)
    count = prod(sizes)
    with elements.scopes.when(fn.compare("slt", unit, count)):
        positions = decomposed(elements, unit, sizes)
        if lanes:
            start = fn.mul(elements.indices.scalar(positions[-1]), lanes)
            positions[-1] = lane_variable(elements, start, space.sizes[-1])
        visit(elements, domain.index(space.index(elements, positions)[: len(domain.axes)]))
    launch = GridLaunch(group.name, -(-count // THREADS), THREADS)
    return fn, launch, list(elements.globals.values())


def bound_to(elements: Elements, instruction: Instruction) -> Bound:
    """Return the arrays of an instruction in a function, of types that are moved as integers."""
    elements.raw = moved_types(members(instruction))
    names = buffer_names(instruction)
    return retyped(bind(elements.function, instruction, names), elements.raw)


def domain_of(group: PointGroup) -> LoopDomain:
    """Return all elements of a group, in the order in which the first result lies in memory."""
    first = group.outputs[0]
    shape: Shape = leaves(group.instruction.shape)[first.array]
    order = sorted(range(shape.rank), key=lambda d: -strides(shape)[d])
    return whole(first.dimensions, order)


def _lies_along(instruction: Instruction, trial: Trial) -> bool:
    """Whether sums take values that lie side by side where results do."""
    if any(x.opcode in SUMS - {Opcode.REDUCE} for x in members(instruction)):
        return False
    inner = next((x for x in reversed(trial.variables) if x is not None), None)
    steps = [y for _, x in trial.elements.reads for v, y in x.terms if v is inner]
    return inner is not None and set(steps) == {1}


def lanes_of(group: PointGroup, sizes: Sequence[int], lines: int) -> int:
    """Return how many elements side by side a thread computes, 0 for one."""
    if lines > _LINES:
        return 0
    lanes = 16 // widest(group)
    while lanes * lines > _MOST_LINES or sizes[-1] % lanes:
        lanes //= 2
    return lanes if lanes > 1 and prod(sizes) // lanes >= _LEAST_THREADS else 0


def widest(group: PointGroup) -> int:
    """Return the bytes of the widest elements that make up most of what is moved."""
    instruction = group.instruction
    shapes = [y for x in (instruction, *instruction.operands) for y in leaves(x.shape)]
    largest = max([x.element_count for x in shapes])
    wide = [x.element_type for x in shapes if 2 * x.element_count >= largest]
    return min(max([x.nbytes for x in wide]), 16)
