"""Kernels of rows: a warp or a block for each row, along which threads make sums together.

Reductions along rows, and all that reads their results: softmax, norms, in one launch. Where a
reduction is none that threads can make together, each row has one thread. Results may lie over
operands of the same rows: all of a row is read before any of it is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from math import gcd, prod
from typing import Final

from lowtide.codegen.arrays import strides
from lowtide.codegen.elements.elements import ElementRule, Elements
from lowtide.codegen.elements.loops import level_of
from lowtide.codegen.elements.moves import moved_types, retyped
from lowtide.codegen.elements.operands import Bound, bind, leaves, members
from lowtide.codegen.elements.outputs import ComputedOutput, computed, store_computed, stored
from lowtide.codegen.elements.table import has_rule, rule_of
from lowtide.codegen.elements.values import Request, Rule
from lowtide.codegen.gpu.kernel import GpuCode, GpuPlan, buffer_names, kernel_function
from lowtide.codegen.gpu.points import (
    SUMS,
    PointGroup,
    domain_of,
    groups_of_outputs,
    plan_points,
    point_kernel,
    widest,
)
from lowtide.codegen.gpu.team_sums import (
    Team,
    has_team_sum,
    place_in_row,
    run_of,
    summed_dimensions,
)
from lowtide.codegen.gpu.threads import WARP, block_number, thread_in_block
from lowtide.codegen.gpu.vectors import thread_elements
from lowtide.codegen.indexing import ZERO, Affine
from lowtide.codegen.space import decomposed
from lowtide.ir import Instruction, Opcode
from lowtide.ir.errors import unsupported
from lowtide.ir.shape import ShapeIndex
from lowtide.ir.thunk import GridLaunch
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.ops.in_place import works_in_rows
from lowtide.ops.may_share import sharing_pairs
from lowtide.records import dataclass

_LEAST: Final = 32
"""Values of a sum, at least, that are worth a warp."""

_ONE_WARP: Final = 1024
"""Values of a sum, at most, for which a warp is enough."""

_WARPS: Final = (4, 8, 16)
"""Warps of a row for which one is not enough: those of a block."""

_HELD: Final = 16
"""Values of a row that each of several warps' threads keeps in registers."""

_LINES: Final = 4000
"""Lines of code that are written out for the values of a row that a thread has, about."""

_TOGETHER: Final = {0: 128, 1: 4}
"""By the warps of a row, the rows of a block where there are several."""

_FEW: Final = 1 << 12
"""Sums that are too few to keep a device busy with a thread each."""


@dataclass(frozen=True, eq=False, slots=True)
class RowGroup:
    """Results computed row by row: a row is what the loops from number `outer` on run over.

    `extents` are the sizes along the longest sum. With `is_team` several threads make it. A value
    of a row takes `lines` of code. Of each group in `beside` a row has one number, which is stored
    when all else of the row is.
    """

    group: PointGroup
    outer: int
    extents: tuple[int, ...]
    is_team: bool
    lines: int
    beside: tuple[PointGroup, ...] = ()

    @property
    def count(self) -> int:
        """The number of values of the longest sum."""
        return prod(self.extents)

    @property
    def warps(self) -> int:
        """The warps of a row, 0 where it has one thread."""
        if not self.is_team:
            return 0
        if self.count <= _ONE_WARP:
            return 1
        return next((x for x in _WARPS if self.count <= x * WARP * _HELD), _WARPS[-1])

    @property
    def lanes(self) -> int:
        """The values that a thread takes side by side, 0 for one."""
        lanes = gcd(16 // widest(self.group), self.extents[-1]) if self.extents else 1
        while lanes * self.lines > _LINES:
            lanes //= 2
        return lanes if lanes > 1 and self.is_team else 0

    @property
    def is_held(self) -> bool:
        """Whether a thread keeps all values of a row that it has."""
        most = _ONE_WARP if self.warps == 1 else _HELD * self.warps * WARP
        steps = -(-self.count // max(self.warps * WARP, 1))
        return self.is_team and self.count <= most and steps * self.lines <= _LINES


def plan_rows(instruction: Instruction, target: Target) -> GpuPlan | None:
    """Return how sums and what is made of them run together, None where they do not."""
    inner = members(instruction)
    sums = [x for x in inner if x.opcode in SUMS]
    if not sums or not all(has_rule(x) for x in inner):
        return None
    if not all(x.opcode is Opcode.REDUCE for x in sums):
        return None
    forms = [_form(group) for group in groups_of_outputs(instruction, target)]
    if None in forms:
        return None
    if not any(isinstance(x, RowGroup) for x in forms):
        return plan_points(instruction, target) if works_in_rows(instruction) else None
    found = [x for x in forms if x is not None]
    if works_in_rows(instruction) and _overwrites_early(instruction, found):
        found = [_in_one_launch(instruction, found)]
    return GpuPlan("rows", lambda: _code(found))


def _group_of(form: RowGroup | PointGroup) -> PointGroup:
    return form.group if isinstance(form, RowGroup) else form


def _overwrites_early(instruction: Instruction, forms: Sequence[RowGroup | PointGroup]) -> bool:
    """Whether a launch may write over an operand that a later one reads."""
    places = [
        (number, index)
        for number, operand in enumerate(instruction.operands)
        for index, leaf in operand.shape.leaves()
        if leaf.is_array
    ]
    owners = [(instruction.operands[number], index) for number, index in places]
    names = dict(zip(buffer_names(instruction), owners, strict=False))
    results = [index for index, leaf in instruction.shape.leaves() if leaf.is_array]
    pairs = sharing_pairs(instruction)
    written: set[tuple[Instruction, ShapeIndex]] = set()
    for group in map(_group_of, forms):
        if written & {names[x] for x in _read_by(group) if x in names}:
            return True
        mine = {results[x.array] for x in group.outputs}
        written |= {
            (instruction.operands[number], index)
            for (number, index), output in pairs
            if output in mine
        }
    return False


def _read_by(group: PointGroup) -> set[str]:
    """The arrays that are read or written for a group."""
    elements = thread_elements(Function("trial"), group.target, 0)
    _visit_within(elements, group, domain_of(group).sizes, [])
    return {array.pointer for array, _ in elements.reads}


def _in_one_launch(instruction: Instruction, forms: Sequence[RowGroup | PointGroup]) -> RowGroup:
    """All groups as one; raises UnsupportedOpError for several that have more than one in a row.

    Rows are numbered in the order of their indices.
    """
    *beside, last = forms
    group, teams = _group_of(last), [x for x in forms if isinstance(x, RowGroup)]
    axes = domain_of(group).axes
    rows = [prod(x.outputs[0].dimensions) for x in map(_group_of, beside)]
    outer = next(
        (n for n in range(len(axes) + 1) if prod([x.size for x in axes[:n]]) == rows[0]), 0
    )
    in_order = [x.dimension for x in axes[:outer]] == list(range(outer))
    if set(rows) != {prod([x.size for x in axes[:outer]])} or not in_order:
        reason = "rows of results of several dimensions are not written by one launch"
        raise unsupported(instruction, f"{reason}; the CPU runs it (lowtide run)")
    extents, is_team = max([x.extents for x in teams], key=prod), all(x.is_team for x in teams)
    lines = sum([x.lines for x in teams])
    return RowGroup(group, outer, extents, is_team, lines, tuple(map(_group_of, beside)))


def _form(group: PointGroup) -> RowGroup | PointGroup | None:
    """How a group is computed: by rows, by points where it has no sums, None for neither."""
    seen: list[tuple[Instruction, int]] = []
    domain = domain_of(group)

    def noting(instruction: Instruction) -> ElementRule:
        def rule(elements: Elements, request: Request) -> Rule:
            seen.append((instruction, level_of(request)))
            return (yield from rule_of(instruction)(elements, request))

        return rule if instruction.opcode is Opcode.REDUCE else rule_of(instruction)

    elements = thread_elements(Function("trial"), group.target, 0, noting)
    positions: list[Affine] = []
    _visit_within(elements, group, domain.sizes, positions)
    if not seen:
        return group
    outer = max([level for _, level in seen])
    extents = max([_extents(x) for x, _ in seen], key=prod)
    lines = len(elements.function.lines)
    is_team = all(has_team_sum(x) for x, _ in seen)
    if outer < len(domain.sizes):
        return RowGroup(group, outer, extents, is_team, lines)
    if outer > len(domain.sizes):
        return None
    is_worth = is_team and prod(extents) >= _LEAST and all(_is_worth(x, group) for x, _ in seen)
    if is_worth:
        return RowGroup(group, outer, extents, is_team, lines)
    count = prod(group.outputs[0].dimensions)
    is_single = all(count <= leaves(x.shape)[0].element_count for x, _ in seen)
    return group if is_single and works_in_rows(group.instruction) else None


def _visit_within(
    elements: Elements, group: PointGroup, sizes: Sequence[int], positions: list[Affine]
) -> None:
    """Compute the results within loops of some sizes, of a trial."""
    if sizes:
        with elements.scopes.loop(0, "%size") as loop:
            positions.append(elements.indices.variable(loop.index, sizes[0]))
            _visit_within(elements, group, sizes[1:], positions)
        return
    raw = moved_types(members(group.instruction))
    elements.raw = raw
    names = buffer_names(group.instruction)
    bound = retyped(bind(elements.function, group.instruction, names), raw)
    stored(elements, group.outputs, bound, [domain_of(group).index(positions)], None)


def _extents(reduce: Instruction) -> tuple[int, ...]:
    """The sizes along which a reduction runs, in the order of memory."""
    sizes = reduce.operands[0].shape.dimensions
    return tuple([sizes[d] for d in summed_dimensions(reduce)])


def _is_worth(reduce: Instruction, group: PointGroup) -> bool:
    """Whether a sum for each element is made better together: along memory, or of few elements."""
    count = prod(group.outputs[0].dimensions)
    if count > leaves(reduce.shape)[0].element_count:
        return False
    step = strides(reduce.operands[0].shape)
    sizes = reduce.operands[0].shape.dimensions
    nearest = min([step[d] for d in summed_dimensions(reduce) if sizes[d] > 1], default=1)
    return nearest == 1 or count <= _FEW


def _code(forms: Sequence[RowGroup | PointGroup]) -> GpuCode:
    functions, launches, texts = [], [], []
    for form in forms:
        if isinstance(form, RowGroup):
            function, launch, text = _row_kernel(form)
        else:
            function, launch, text = point_kernel(form)
        functions.append(function)
        launches.append(launch)
        texts += text
    return GpuCode(tuple(functions), tuple(launches), "\n".join(dict.fromkeys(texts)))


def _row_kernel(rows: RowGroup) -> tuple[Function, GridLaunch, list[str]]:
    """Return the kernel of a group, its launch, and what its module defines besides."""
    group, warps = rows.group, rows.warps
    domain = domain_of(group)
    outer, inner = domain.sizes[: rows.outer], domain.sizes[rows.outer :]
    count, together = prod(outer), _TOGETHER.get(warps, 1)
    threads = max(warps * WARP, 1) * together
    fn = kernel_function(group.name, group.instruction, threads)
    raw = moved_types(members(group.instruction))
    thread, row = thread_in_block(fn), block_number(fn)
    if not warps:
        row, thread = str(fn.add(fn.mul(row, together), thread)), "0"
    elif together > 1:
        own = fn.op(f"lshr i64 {thread}, {WARP.bit_length() - 1}")
        thread = fn.op(f"and i64 {thread}, {WARP - 1}")
        row = str(fn.add(fn.mul(row, together), own))
    team = Team(warps, thread)
    elements = thread_elements(fn, group.target, rows.lanes, team.rule_of if warps else rule_of)
    elements.raw = raw
    bound = retyped(bind(fn, group.instruction, buffer_names(group.instruction)), raw)
    with elements.scopes.when(fn.compare("slt", row, count)):
        at = decomposed(elements, row, outer)
        if rows.is_held:
            team.hold(elements, rows.extents)
        found = _beside(elements, rows, bound, row)
        if prod(inner) == 1:
            index = domain.index([*at, *[ZERO] * len(inner)])
            found += computed(elements, group.outputs, bound, [index], None)
        elif inner in team.held:
            _write_held(elements, rows, bound, at, team, must_meet=bool(found))
        else:
            if found:
                team.meet(fn)
            count = prod(inner) // run_of(elements, inner)
            with elements.scopes.loop(thread, count, team.threads) as loop:
                along = place_in_row(elements, loop.index, inner)
                index = domain.index([*at, *along])
                stored(elements, group.outputs, bound, [index], None)
        if found:
            team.meet(fn)  # All threads have read by then what one of them may write over.
            with elements.scopes.when(fn.compare("eq", thread, 0)):
                store_computed(elements, found, None)
    texts = [*elements.globals.values(), *[x.definition for x in team.shared]]
    return fn, GridLaunch(group.name, -(-count // together), threads), texts


def _write_held(
    elements: Elements,
    rows: RowGroup,
    bound: Bound,
    at: Sequence[Affine],
    team: Team,
    *,
    must_meet: bool,
) -> None:
    """Write a row whose values are kept; all are computed before one is stored."""
    domain, outputs = domain_of(rows.group), rows.group.outputs
    found = []
    for step in team.held[domain.sizes[rows.outer :]]:
        index = domain.index([*at, *step.at])
        found.append((step, computed(elements, outputs, bound, [index], None)))
    # Threads without an element of their own read the last one, which another one writes over.
    reads_more = any(step.is_there for step, _ in found) and works_in_rows(rows.group.instruction)
    if must_meet or reads_more:
        team.meet(elements.function)
    for step, values in found:
        with elements.scopes.when(step.is_there) if step.is_there else nullcontext():
            store_computed(elements, values, None)


def _beside(elements: Elements, rows: RowGroup, bound: Bound, row: Integer) -> list[ComputedOutput]:
    """Write what a row has one number of, each; nothing is stored yet."""
    found = []
    for group in rows.beside:
        index = tuple(decomposed(elements, row, group.outputs[0].dimensions))
        found += computed(elements, group.outputs, bound, [index], None)
    return found
