"""Loop forms: what a kernel computes, as loops, index domains and accesses, for any target.

As in MLIR's linalg a form has axes, parallel or reduced, and accesses that are affine in them. The
body is the fused instructions themselves, which `codegen/elements` writes at any index. What runs
where (vectors, threads, pieces of work) is no part of it: see `schedule.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from itertools import pairwise
from math import prod

from lowtide.codegen.arrays import Array, strides
from lowtide.codegen.cpu.reduction.form import ReductionForm, form_of, visit
from lowtide.codegen.domain import LoopDomain, Trial, domains_of, trial_of, whole
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.moves import moved_types, retyped
from lowtide.codegen.elements.operands import Bound, bind, leaves, members
from lowtide.codegen.elements.outputs import KernelOutput, outputs_of, stored
from lowtide.codegen.gpu.kernel import buffer_names
from lowtide.codegen.indexing import Affine, Index
from lowtide.codegen.space import LoopSpace, groups_of
from lowtide.ir import Instruction, Opcode
from lowtide.llvm.target import Target
from lowtide.records import dataclass

Positions = Mapping[int, Affine]
"""The position along each axis, by its number."""


class Kind(Enum):
    """What an axis is: its points do not depend on each other, or one value is made of them."""

    PARALLEL = "parallel"
    REDUCED = "reduced"


@dataclass(frozen=True, slots=True)
class Axis:
    """A loop of `size` steps."""

    size: int
    kind: Kind


@dataclass(frozen=True, eq=False, slots=True)
class Access:
    """An array that is read or written from element `start` on.

    `steps` are the elements that a step along each axis goes on. Where a place depends on more than
    the axes (a gather), `is_affine` is not set.
    """

    array: Array
    steps: tuple[int, ...]
    start: int
    is_store: bool
    is_affine: bool


@dataclass(frozen=True, eq=False, slots=True)
class LoopForm:
    """A nest: its axes, parallel ones first, and the accesses at a point.

    `sums` are the reductions along the reduced axes, in sweeps: one after the other where one needs
    what another makes. Without them `outputs` are computed at each point of `domain`.
    """

    instruction: Instruction
    target: Target
    axes: tuple[Axis, ...]
    accesses: tuple[Access, ...]
    space: LoopSpace
    trial: Trial
    domain: LoopDomain
    outputs: tuple[KernelOutput, ...] = ()
    sums: ReductionForm | None = None

    def numbers(self, kind: Kind) -> tuple[int, ...]:
        """Return the axes of a kind."""
        return tuple([i for i, x in enumerate(self.axes) if x.kind is kind])

    def points(self, kind: Kind) -> int:
        """Return how many points the axes of a kind have."""
        return prod([self.axes[i].size for i in self.numbers(kind)])

    @property
    def sweeps(self) -> int:
        """How often the reduced axes are run through."""
        return 1 if self.sums is None else self.sums.last_pass + 1

    def index(self, elements: Elements, at: Positions) -> Index:
        """Return the index at a position along each axis: in the outputs, or of rows and points."""
        places = self.space.index(elements, [at[i] for i in range(len(self.axes))])
        if self.sums is None:
            return self.domain.index(places[: len(self.domain.axes)])
        count = len(self.sums.rows)
        return self.sums.point(places[:count], places[count:])

    def row(self, elements: Elements, at: Positions) -> Index:
        """Return the index of a row at a position along each parallel axis."""
        assert self.sums is not None
        own = self.numbers(Kind.PARALLEL)
        space = LoopSpace(self.sums.rows, self.space.groups[: len(own)])
        return space.index(elements, [at[i] for i in own]) if own else ()

    def bound(self, elements: Elements) -> Bound:
        """Return the arrays in a function; what is only moved is moved as integers."""
        raw = {} if self.sums is not None else moved_types(members(self.instruction))
        elements.raw = raw
        is_kernel = elements.function.linkage == "ptx_kernel"
        names = buffer_names(self.instruction) if is_kernel else ()
        return retyped(bind(elements.function, self.instruction, names), raw)


def forms_of(
    instruction: Instruction, target: Target, *, has_boxes: bool = True
) -> list[list[LoopForm]] | None:
    """Return the nests of an instruction, in groups that run one after the other; None for others.

    A group is the boxes of results of equal dimensions; without `has_boxes` these are not cut.
    """
    if any(x.opcode is Opcode.REDUCE for x in members(instruction)):
        found = _sum_form(instruction, target)
        return None if found is None else [[found]]
    groups: dict[tuple[int, ...], list[KernelOutput]] = {}
    for output in outputs_of(instruction):
        groups.setdefault(tuple([x for x in output.dimensions if x != 1]), []).append(output)
    return [
        _boxes(instruction, target, tuple(x), has_boxes=has_boxes)
        for _, x in sorted(groups.items(), key=lambda x: prod(x[0]))
    ]


def _boxes(
    instruction: Instruction, target: Target, outputs: tuple[KernelOutput, ...], *, has_boxes: bool
) -> list[LoopForm]:
    raw = moved_types(members(instruction))

    def visited(elements: Elements, index: Index) -> None:
        elements.raw = raw
        bound = bind(elements.function, instruction, buffer_names(instruction))
        stored(elements, outputs, retyped(bound, raw), [index], None)

    shape = leaves(instruction.shape)[outputs[0].array]
    order = sorted(range(shape.rank), key=lambda d: -strides(shape)[d])
    if has_boxes:
        boxes = domains_of(outputs[0].dimensions, order, target, visited)
    else:
        domain = whole(outputs[0].dimensions, order)
        boxes = [] if 0 in domain.sizes else [(domain, trial_of(domain, target, visited))]
    found = []
    for domain, trial in boxes:
        space = LoopSpace(domain.sizes, groups_of(trial, domain.sizes))
        axes = tuple([Axis(x, Kind.PARALLEL) for x in space.sizes])
        accesses = _accesses(trial, space)
        found.append(LoopForm(instruction, target, axes, accesses, space, trial, domain, outputs))
    return found


def _sum_form(instruction: Instruction, target: Target) -> LoopForm | None:
    sums = form_of(instruction, target)
    if sums is None:
        return None
    dimensions, border = (*sums.rows, *sums.inner), len(sums.rows)
    regular: list[bool] = []
    domain = whole(dimensions, range(len(dimensions)))
    trial = trial_of(domain, target, lambda x, index: regular.append(visit(sums, x, index)))
    if not all(regular):
        return None
    groups: list[tuple[int, int]] = []
    for first, end in groups_of(trial, dimensions):
        groups += pairwise([first, border, end] if first < border < end else [first, end])
    space = LoopSpace(dimensions, tuple(groups))
    axes = [
        Axis(size, Kind.PARALLEL if first < border else Kind.REDUCED)
        for size, (first, _) in zip(space.sizes, groups, strict=True)
    ]
    accesses = _accesses(trial, space)
    return LoopForm(instruction, target, tuple(axes), accesses, space, trial, domain, (), sums)


def _accesses(trial: Trial, space: LoopSpace) -> tuple[Access, ...]:
    """What a trial read and wrote, by the innermost variable of each group of dimensions."""
    inner = [
        next((x for x in reversed(trial.variables[a:b]) if x is not None), None)
        for a, b in space.groups
    ]
    known, stores = set(trial.variables), set(trial.elements.writes)
    found = []
    for array, place in dict.fromkeys(trial.elements.reads):
        factors = dict(place.terms)
        steps = tuple([0 if x is None else factors.get(x, 0) for x in inner])
        is_store, is_affine = (array, place) in stores, set(factors) <= known
        found.append(Access(array, steps, place.constant, is_store, is_affine))
    return tuple(found)
