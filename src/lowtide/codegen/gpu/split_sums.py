"""Kernels of long sums of which there are few: all columns, or all of an array.

First each block of a launch makes terms of sums (`sum_terms.py`), which scratch takes. The next
launch adds up the terms of each sum, in an order that shapes decide. Sums of what other sums make
(a variance) have launches of their own, then; and what is made of sums is computed last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from math import prod
from typing import Final

from lowtide.codegen.arrays import Array
from lowtide.codegen.elements.elements import Elements, Given
from lowtide.codegen.elements.operands import Bound, body_of, leaves, members
from lowtide.codegen.elements.outputs import ComputedOutput, computed, store_computed
from lowtide.codegen.elements.reducers import Reducer, accumulator_type, neutral
from lowtide.codegen.elements.table import has_rule
from lowtide.codegen.elements.values import Element, Mask
from lowtide.codegen.gpu.kernel import GpuCode, GpuPlan, kernel_function
from lowtide.codegen.gpu.points import (
    SUMS,
    PointGroup,
    bound_to,
    domain_of,
    groups_of_outputs,
    point_kernel,
)
from lowtide.codegen.gpu.sum_space import SumSpace, is_long, sum_space
from lowtide.codegen.gpu.sum_terms import terms_kernel
from lowtide.codegen.gpu.team_sums import Team
from lowtide.codegen.gpu.threads import WARP, block_number, thread_in_block
from lowtide.codegen.gpu.vectors import thread_elements
from lowtide.codegen.indexing import Index
from lowtide.codegen.space import decomposed
from lowtide.ir import Instruction
from lowtide.ir.attributes import Dimensions
from lowtide.ir.shape import array_shape
from lowtide.ir.thunk import GridLaunch
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.ops.in_place import works_in_rows
from lowtide.records import dataclass

Kernel = tuple[Function, GridLaunch, list[str]]
"""A kernel, its launch, and what its module defines besides."""

_ALIGNMENT: Final = 64

_FEW_TERMS: Final = 16
"""Terms of a sum that one thread adds up; a warp where there are more."""

_MANY_TERMS: Final = 128
"""Terms that are worth all warps of a block."""

_WARPS: Final = 8

_THREADS: Final = 128
"""Threads of a block where one or a warp adds up the terms of a sum."""


@dataclass(frozen=True, eq=False, slots=True)
class _Total:
    """A long sum: its space, and where its terms and its results begin in scratch.

    `result` is -1 where each launch that needs the sum adds up its terms.
    """

    sum: Instruction
    space: SumSpace
    terms: int
    result: int

    def terms_array(self, fn: Function) -> Array:
        """Return the terms, by sum and number."""
        reducer = Reducer.of(self.sum.called_computations[0])
        shape = array_shape(reducer.types[0], (self.space.count, self.space.terms))
        return Array(fn.gep("%scratch", self.terms), shape)

    def result_array(self, fn: Function) -> Array:
        """Return the results."""
        return _result_array(fn, self.sum, self.result)


def plan_split_sums(instruction: Instruction, target: Target) -> GpuPlan | None:
    """Return how long sums run in several launches, None where they do not."""
    inner = members(instruction)
    sums = [x for x in inner if x.opcode in SUMS]
    if not sums or works_in_rows(instruction) or not all(map(is_long, sums)):
        return None
    body = body_of(instruction)
    direct = [instruction] if body is None else body.instructions.values()
    if not set(sums) <= set(direct) or not all(map(has_rule, inner)):
        return None
    stages, scratch = _stages(instruction, target, sums)
    return GpuPlan("sums", lambda: _code(instruction, target, stages), scratch)


# -- stages and scratch ----------------------------------------------------------------------------


def _stages(
    instruction: Instruction, target: Target, sums: Sequence[Instruction]
) -> tuple[list[list[_Total]], int]:
    """The sums in turn, each after those that it is made of, and the bytes of their scratch."""
    depth = _depths(sums, set(members(instruction)))
    largest = max([x.element_count for x in leaves(instruction.shape)])
    is_kept = max(depth.values()) > 1 or any(x.shape.element_count < largest for x in sums)
    results, end = {}, 0
    for x in sums:
        results[x] = end if is_kept else -1
        end += _aligned(x.shape.leaf_nbytes) if is_kept else 0
    stages: list[list[_Total]] = []
    scratch = end
    for number in range(1, max(depth.values()) + 1):
        known = [(x, results[x]) for x in sums if depth[x] < number]
        place, stage = end, list[_Total]()
        for alike in _by_dimensions([x for x in sums if depth[x] == number]):
            space = sum_space(instruction, target, alike, _reading(known))
            for x in alike:
                stage.append(_Total(x, space, place, results[x]))
                place += _aligned(space.count * space.terms * _term_bytes(x))
        stages.append(stage)
        scratch = max(scratch, place)
    return stages, scratch


def _depths(sums: Sequence[Instruction], inner: Set[Instruction]) -> dict[Instruction, int]:
    """For each sum, of how many sums of the kernel the longest chain is that ends with it."""
    found: dict[Instruction, int] = {}
    waiting = [(x, False) for x in reversed(sums)]
    known: dict[Instruction, int] = {}
    while waiting:
        x, is_ready = waiting.pop()
        if x in known:
            continue
        if not is_ready:
            waiting.append((x, True))
            waiting += [(y, False) for y in x.operands if y in inner and y not in known]
            continue
        before = [known[y] for y in x.operands if y in inner]
        known[x] = max(before, default=0) + (x.opcode in SUMS)
    for x in sums:
        found[x] = known[x]
    return found


def _by_dimensions(sums: Iterable[Instruction]) -> list[list[Instruction]]:
    """Sums of operands of equal dimensions and layouts, of which they reduce the same."""
    found: dict[object, list[Instruction]] = {}
    for x in sums:
        shape = x.operands[0].shape
        reduced = frozenset(x.attributes_as(Dimensions).dimensions)
        found.setdefault((shape.dimensions, shape.layout, reduced), []).append(x)
    return list(found.values())


def _term_bytes(x: Instruction) -> int:
    opcode = Reducer.of(x.called_computations[0]).opcode
    return accumulator_type(x.shape.element_type, opcode).nbytes


def _aligned(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT


def _result_array(fn: Function, x: Instruction, place: int) -> Array:
    return Array(fn.gep("%scratch", place), array_shape(x.shape.element_type, x.shape.dimensions))


def _reading(known: Sequence[tuple[Instruction, int]]) -> Callable[[Elements], None]:
    """Has sums read from scratch where they are known."""

    def prepare(elements: Elements) -> None:
        def given(array: Array) -> Given:
            return lambda index, mask: elements.read(array, index, mask)

        for x, place in known:
            elements.provide(x, given(_result_array(elements.function, x, place)))

    return prepare


# -- launches --------------------------------------------------------------------------------------


def _code(instruction: Instruction, target: Target, stages: list[list[_Total]]) -> GpuCode:
    known: list[tuple[Instruction, int]] = []
    kernels: list[Kernel] = []
    for depth, stage in enumerate(stages):
        for number, space in enumerate(dict.fromkeys([x.space for x in stage])):
            mine = [x for x in stage if x.space is space]
            name = f"terms{depth}_{number}"
            kernels.append(terms_kernel(name, space, _terms_of(mine), _reading(known)))
            if mine[0].result >= 0:
                kernels.append(_results_kernel(f"totals{depth}_{number}", mine))
        known += [(x.sum, x.result) for x in stage]
    for group in groups_of_outputs(instruction, target):
        if stages[0][0].result >= 0:
            kernels.append(point_kernel(group, _reading(known)))
        else:
            kernels.append(_outputs_kernel(group, stages[0]))
    texts = [y for _, _, x in kernels for y in x]
    functions, launches = [x for x, _, _ in kernels], [x for _, x, _ in kernels]
    return GpuCode(tuple(functions), tuple(launches), "\n".join(dict.fromkeys(texts)))


def _terms_of(totals: Sequence[_Total]) -> Callable[[Function], list[Array]]:
    return lambda fn: [x.terms_array(fn) for x in totals]


_Body = Callable[[Elements, Bound, Integer], list[ComputedOutput]]
"""Computes what is made of the sums of a number."""


def _results_kernel(name: str, totals: Sequence[_Total]) -> Kernel:
    """The kernel that stores sums of one space in scratch."""

    def body(elements: Elements, bound: Bound, row: Integer) -> list[ComputedOutput]:
        found = []
        for x in totals:
            index = tuple(decomposed(elements, row, x.sum.shape.dimensions))
            value = elements.at(x.sum, index, bound.frame)
            found.append(ComputedOutput(x.result_array(elements.function), (value,), (index,)))
        return found

    return _adding_kernel(name, totals, totals[0].space.count, body)


def _outputs_kernel(group: PointGroup, totals: Sequence[_Total]) -> Kernel:
    """The kernel that stores results of equal dimensions, of which there are no more than sums."""
    domain = domain_of(group)

    def body(elements: Elements, bound: Bound, row: Integer) -> list[ComputedOutput]:
        index = domain.index(decomposed(elements, row, domain.sizes))
        return computed(elements, group.outputs, bound, [index], None)

    return _adding_kernel(group.name, totals, prod(domain.sizes), body)


def _adding_kernel(name: str, totals: Sequence[_Total], count: int, body: _Body) -> Kernel:
    """A kernel of `count` numbers; a thread, a warp or a block adds up the terms of each."""
    space, terms = totals[0].space, max([x.space.terms for x in totals])
    warps = 0 if terms <= _FEW_TERMS else 1 if terms <= _MANY_TERMS else _WARPS
    threads = max(_THREADS, warps * WARP)
    together = threads // max(warps * WARP, 1)
    fn = kernel_function(name, space.instruction, threads)
    thread, row = thread_in_block(fn), str(fn.mul(block_number(fn), together))
    if together > 1:
        row = str(fn.add(row, fn.div(thread, threads // together)))
        thread = str(fn.rem(thread, threads // together))
    team, elements = Team(warps, thread), thread_elements(fn, space.target, 0)
    bound = bound_to(elements, space.instruction)
    for x in totals:
        elements.provide(x.sum, _adding(elements, x, team, bound))
    with elements.scopes.when(fn.compare("slt", row, count)):
        found = body(elements, bound, row)
        team.meet(fn)  # All threads have read by then what one of them may write over.
        with elements.scopes.when(fn.compare("eq", thread, 0)):
            store_computed(elements, found, None)
    texts = [*elements.globals.values(), *[x.definition for x in team.shared]]
    return fn, GridLaunch(name, -(-count // together), threads), texts


def _adding(elements: Elements, total: _Total, team: Team, bound: Bound) -> Given:
    """Have the threads of a team add up the terms of a sum."""
    space, reducer = total.space, Reducer.of(total.sum.called_computations[0])
    array = total.terms_array(elements.function)
    assert reducer.opcode is not None
    nothing = [neutral(reducer.opcode, reducer.types[0])]

    def given(index: Index, mask: Mask | None) -> Element:
        row = space.number(index)
        place = elements.scopes.placed(row.level)
        with elements.scopes.at_level(place):
            team.hold(elements, (space.terms,))
            own = nothing
            for step in team.held[space.terms,]:
                value = elements.read(array, (row, *step.at), None).values[0]
                own = reducer.combined(elements, own, [step.value(elements, value, nothing[0])])
            together = team.met(elements, reducer, own) if team.warps else own
            first = elements.all_at(total.sum.operands[1], (), bound.frame)
            start = [x.values[0] for x in reducer.taken(elements, [first])]
            results = reducer.finished(elements, reducer.combined(elements, start, together))
        return Element(tuple(results), place)

    return given
