"""The form of a kernel of reductions: its space, its reductions, and places of its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from math import prod
from typing import Final, TypeAlias

from lowtide.codegen import indexing
from lowtide.codegen.arrays import offset
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.literals import scalar
from lowtide.codegen.elements.operands import Bound, bind, body_of, roots_of
from lowtide.codegen.elements.scalar import scalar_elements
from lowtide.codegen.elements.values import Element, Mask
from lowtide.codegen.indexing import Affine, Index
from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import Dimensions
from lowtide.ir.traversal import post_order
from lowtide.llvm.function import Function
from lowtide.llvm.target import Target
from lowtide.ops.in_place import in_place_pairs
from lowtide.records import dataclass

Linear: TypeAlias = "tuple[tuple[tuple[int, int], ...], int]"
"""A linear function of positions: pairs of the number of a position and its factor, a constant."""


@dataclass(frozen=True, eq=False, slots=True)
class StoredResult:
    """An array that is stored: component `component` of what `source` makes.

    `is_full` says that it has an element for each point of the space, else one for each row.
    """

    source: Instruction
    component: int
    array: int
    is_full: bool


@dataclass(frozen=True, eq=False, slots=True)
class ReductionForm:
    """Reductions of one space along the same dimensions, and what is made of them.

    A row is a set of points that are reduced together; `rows` are the dimensions of the array of
    rows and `inner` those along a row, both without those of size 1. `kept` says for a dimension
    of the space where a row lies along it. `heroes` are the reductions, operands first, and
    `passes` says how many runs along a row have to be over before a value is known.
    """

    instruction: Instruction
    heroes: tuple[Instruction, ...]
    space: tuple[int, ...]
    reduced: tuple[int, ...]
    rows: tuple[int, ...]
    kept: Mapping[int, Linear]
    results: tuple[StoredResult, ...]
    passes: Mapping[Instruction, int] = field(default_factory=dict)

    @property
    def inner(self) -> tuple[int, ...]:
        """The sizes along a row."""
        return tuple([self.space[d] for d in self.reduced])

    @property
    def last_pass(self) -> int:
        """The number of the last run along a row; results are stored in it."""
        stores = [self.passes[x.source] for x in self.results if x.is_full]
        return max([*[self.pass_of(x) for x in self.heroes], *stores])

    def pass_of(self, hero: Instruction) -> int:
        """The number of the run along a row in which a reduction is made."""
        return self.passes[hero] - 1

    def point(self, rows: Sequence[Affine], inner: Sequence[Affine]) -> Index:
        """Return the index in the space of a point of a row."""
        along = dict(zip(self.reduced, inner, strict=True))
        found = []
        for d, size in enumerate(self.space):
            if d in along:
                found.append(along[d])
            elif size == 1:
                found.append(indexing.ZERO)
            else:
                found.append(_linear(self.kept[d], rows).within(0, size - 1))
        return tuple(found)

    def place(self, result: StoredResult, rows: Sequence[Affine], point: Index) -> Index:
        """Return where the element of a result lies."""
        dimensions = result_dimensions(result)
        if result.is_full:
            return point
        positions = iter(rows)
        return tuple([indexing.ZERO if x == 1 else next(positions) for x in dimensions])


def _linear(function: Linear, positions: Sequence[Affine]) -> Affine:
    terms, constant = function
    total = indexing.constant(constant)
    for number, factor in terms:
        total = total + positions[number] * factor
    return total


def result_dimensions(result: StoredResult) -> tuple[int, ...]:
    """Return the dimensions of an array that is stored."""
    shape = result.source.shape
    if shape.is_tuple:
        shape = shape.tuple_shapes[result.component]
    return shape.dimensions


def without_ones(dimensions: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes that are not 1."""
    return tuple([x for x in dimensions if x != 1])


_DONE_ELSEWHERE: Final = (Opcode.FUSION, Opcode.DYNAMIC_UPDATE_SLICE, Opcode.SCATTER)
"""What a body may not have: kernels in kernels, and what is updated in place."""


def form_of(instruction: Instruction, target: Target) -> ReductionForm | None:
    """Return what an instruction is as a kernel of reductions, None where it is something else."""
    body = body_of(instruction)
    order = [instruction] if body is None else post_order(body)
    heroes = tuple([x for x in order if x.opcode is Opcode.REDUCE])
    if not heroes or in_place_pairs(instruction):
        return None
    if body is not None and any(x.opcode in _DONE_ELSEWHERE for x in order):
        return None
    space = heroes[0].operands[0].shape.dimensions
    reduced = _reduced(heroes[0])
    if any(x.operands[0].shape.dimensions != space or _reduced(x) != reduced for x in heroes):
        return None
    if not reduced or prod(space) == 0:
        return None
    results = _results(instruction, heroes[0], space)
    if results is None:
        return None
    passes = _passes(order)
    return _with_rows(
        ReductionForm(instruction, heroes, space, reduced, (), {}, results, passes), target
    )


def _reduced(reduce: Instruction) -> tuple[int, ...]:
    sizes = reduce.operands[0].shape.dimensions
    dimensions = reduce.attributes_as(Dimensions).dimensions
    return tuple([d for d in sorted(dimensions) if sizes[d] != 1])


def _results(
    instruction: Instruction, hero: Instruction, space: tuple[int, ...]
) -> tuple[StoredResult, ...] | None:
    body = body_of(instruction)
    if body is None:
        count = len(instruction.operands) // 2
        return tuple([StoredResult(instruction, i, i, is_full=False) for i in range(count)])
    found = []
    for number, source in enumerate(roots_of(body.root)):
        if not source.shape.is_array:
            return None
        is_full = source.shape.dimensions == space
        if not is_full and source.shape.element_count != hero.shape.element_count:
            return None
        found.append(StoredResult(source, 0, number, is_full))
    return tuple(found)


def _passes(order: Sequence[Instruction]) -> dict[Instruction, int]:
    """How many runs along a row have to be over before each value is known."""
    found: dict[Instruction, int] = {}
    for x in order:
        before = max([found.get(y, 0) for y in x.operands], default=0)
        found[x] = before + (x.opcode is Opcode.REDUCE)
    return found


# -- rows --------------------------------------------------------------------------------------


def _with_rows(form: ReductionForm, target: Target) -> ReductionForm | None:
    """Number the rows as the first result that has an element for each of them does."""
    by_row = [x for x in form.results if not x.is_full]
    kept = [d for d, size in enumerate(form.space) if size != 1 and d not in form.reduced]
    if not by_row:
        simple: dict[int, Linear] = {d: (((i, 1),), 0) for i, d in enumerate(kept)}
        rows = tuple([form.space[d] for d in kept])
        return _replaced(form, rows, simple)
    rows = without_ones(result_dimensions(by_row[0]))
    if any(without_ones(result_dimensions(x)) != rows for x in by_row):
        return None
    found = _kept(form, target, by_row[0], rows, kept)
    if found is None:
        return None
    if len(by_row) < len(form.results):
        plain = {d: (((i, 1),), 0) for i, d in enumerate(kept)}
        return _replaced(form, rows, found) if found == plain else None
    return _replaced(form, rows, found)


def _replaced(
    form: ReductionForm, rows: tuple[int, ...], kept: Mapping[int, Linear]
) -> ReductionForm:
    return ReductionForm(
        form.instruction,
        form.heroes,
        form.space,
        form.reduced,
        rows,
        kept,
        form.results,
        form.passes,
    )


def _kept(
    form: ReductionForm,
    target: Target,
    result: StoredResult,
    rows: tuple[int, ...],
    kept: Sequence[int],
) -> dict[int, Linear] | None:
    """Where the rows of a result lie in the space: what it asks of a reduction tells."""
    elements = scalar_elements(Function("trial"), target)
    variables = [elements.indices.variable(f"%d{i}", size) for i, size in enumerate(rows)]
    numbers = {x.terms[0][0]: i for i, x in enumerate(variables)}
    asked: list[tuple[Instruction, Index]] = []
    _provide_all(elements, form, lambda hero, at: asked.append((hero, at)))
    bound = bind(elements.function, form.instruction)
    elements.all_at(result.source, form.place(result, variables, ()), bound.frame)
    if not asked:
        return None
    hero, at = asked[0]
    of_dimension = dict(zip(_kept_dimensions(hero), at, strict=True))
    found: dict[int, Linear] = {}
    for d in kept:
        terms = [(numbers.get(variable), x) for variable, x in of_dimension[d].terms]
        known = tuple([(number, x) for number, x in terms if number is not None])
        if len(known) != len(terms):
            return None
        found[d] = known, of_dimension[d].constant
    return found


def _kept_dimensions(hero: Instruction) -> list[int]:
    reduced = hero.attributes_as(Dimensions).dimensions
    return [d for d in range(hero.operands[0].shape.rank) if d not in reduced]


def _provide_all(
    elements: Elements, form: ReductionForm, note: Callable[[Instruction, Index], None]
) -> None:
    """Have reductions yield any values, and note at which index they are asked for."""

    def rule(hero: Instruction) -> Callable[[Index, Mask | None], Element]:
        def given(at: Index, mask: Mask | None) -> Element:
            note(hero, at)
            return any_element(hero)

        return given

    for hero in form.heroes:
        elements.provide(hero, rule(hero))


def any_element(hero: Instruction) -> Element:
    """Return zeros of the types that a reduction yields."""
    count = len(hero.operands) // 2
    return Element(tuple([scalar(0, x.shape.element_type) for x in hero.operands[:count]]), 0)


# -- all that is done at a point -----------------------------------------------------------------


def visit(form: ReductionForm, elements: Elements, index: Index) -> bool:
    """Write once all that is computed at a point, numbered by rows, then along the row.

    Returns whether reductions are only asked for at their own row. Reads and writes are noted.
    """
    rows, inner = index[: len(form.rows)], index[len(form.rows) :]
    bound = bind(elements.function, form.instruction)
    point = form.point(rows, inner)
    wrong: list[Instruction] = []

    def note(hero: Instruction, at: Index) -> None:
        expected = tuple([point[d] for d in _kept_dimensions(hero)])
        pairs = zip(at, expected, strict=True)
        if any(x.terms != y.terms or x.constant != y.constant for x, y in pairs):
            wrong.append(hero)

    _provide_all(elements, form, note)
    for hero in form.heroes:
        for operand in hero.operands[: len(hero.operands) // 2]:
            elements.all_at(operand, point, bound.frame)
    _visit_results(form, elements, bound, rows, point)
    return not wrong


def _visit_results(
    form: ReductionForm, elements: Elements, bound: Bound, rows: Sequence[Affine], point: Index
) -> None:
    for result in form.results:
        at = form.place(result, rows, point)
        elements.all_at(result.source, at, bound.frame)
        array = bound.results[result.array]
        elements.reads.append((array, offset(array.shape, at)))
