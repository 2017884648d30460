"""Arrays of a module with their tilings so far, and the relations between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from lowtide.ir import Computation, Instruction, Opcode, Shape
from lowtide.ir.attributes import CustomCall, GetTupleElement
from lowtide.ir.tilings.grid import DeviceGrid
from lowtide.ir.tilings.tiling import Tiling, dividing, replicated
from lowtide.ir.traversal import post_order
from lowtide.ops.factors.record import OpFactors, arrays_of, same_dimensions
from lowtide.records import dataclass
from lowtide.spmd.annotations import (
    CONSTRAINT_TARGETS,
    GROUP_TARGET,
    INSPECTION_TARGET,
    ModuleShardings,
    TilingWish,
)
from lowtide.spmd.choice import OperationSplit, Question
from lowtide.spmd.manual import border_wishes, is_entrance, is_exit
from lowtide.spmd.memo import OperationMemo


@dataclass(slots=True)
class ArrayCell:
    """One array: its shape, its tiling so far, and the dimensions that may be split further.

    `why` says where the tiling comes from; `is_given` tells that the module asks for it.
    """

    shape: Shape
    tiling: Tiling
    is_open: tuple[bool, ...]
    why: str = "nothing splits it"
    is_given: bool = False

    @property
    def wanted(self) -> Tiling | None:
        """The tiling to bring the array to; None where nothing is known of it."""
        return None if self.tiling.is_replicated and all(self.is_open) else self.tiling


@dataclass(frozen=True, slots=True)
class Relation:
    """Factors over cells, the numbers of those of operands first, then of those of results.

    `kind` is the number of all relations that do the same to cells in equal tilings; it is None
    where that is not known.
    """

    rule: OpFactors
    numbers: tuple[int, ...]
    operand_count: int
    opcode: Opcode
    where: str
    kind: int | None = None

    @property
    def operands(self) -> tuple[int, ...]:
        """The cells of the operands."""
        return self.numbers[: self.operand_count]

    @property
    def results(self) -> tuple[int, ...]:
        """The cells of the results."""
        return self.numbers[self.operand_count :]


@dataclass(slots=True)
class ArrayCells:
    """The cells of a module by instruction, one number for each leaf of its shape.

    `groups` has the first member of each group of values that are to lie alike. Without `halos`,
    no factor is split whose tiles exchange rows.
    """

    grid: DeviceGrid
    memo: OperationMemo = field(default_factory=OperationMemo)
    cells: list[ArrayCell] = field(default_factory=list)
    relations: list[Relation] = field(default_factory=list)
    numbers: dict[Instruction, tuple[int, ...]] = field(default_factory=dict)
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
    halos: bool = True

    def rule(self, x: Instruction) -> OpFactors:
        """Return the factors of an instruction that are split."""
        return self.memo.rule(x, halos=self.halos)

    def split(self, question: Question) -> OperationSplit:
        """Return the cheapest split of an operation."""
        return self.memo.split(question, halos=self.halos)

    def own_bytes(self, x: Instruction, split: OperationSplit) -> tuple[float, ...]:
        """Return the bytes that a device sends in each collective of an operation itself."""
        return self.memo.own_bytes(x, self.rule(x), split, self.grid)

    def kind(self, x: Instruction, numbers: Sequence[int]) -> int:
        """Return the kind of the relation of an instruction between cells."""

        def known_by() -> tuple[object, ...]:
            cells = tuple([(numbers.index(n), self.cells[n].shape) for n in numbers])
            return self.rule(x), x.opcode, cells, self.grid

        return self.memo.relation_kind(x, known_by, halos=self.halos)

    def of(self, x: Instruction) -> list[ArrayCell]:
        """Return the cells of the leaves of an instruction."""
        return [self.cells[number] for number in self.numbers[x]]

    def new(self, shapes: Sequence[Shape]) -> tuple[int, ...]:
        """Return the numbers of new cells, which nothing splits yet."""
        first = len(self.cells)
        for shape in shapes:
            rank = shape.rank if shape.is_array else 0
            self.cells.append(ArrayCell(shape, replicated(rank), (True,) * rank))
        return tuple(range(first, len(self.cells)))

    def wish(self, number: int, wish: TilingWish, why: str) -> None:
        """Give a cell the tiling asked for, as far as it divides the array, its sums reduced."""
        cell = self.cells[number]
        if cell.shape.is_array:
            cell.tiling = dividing(self.grid, wish.tiling.whole(), cell.shape.dimensions)
            cell.is_open = wish.is_open
            cell.why = why
            cell.is_given = True

    def relate(self, sources: Sequence[int], targets: Sequence[int], where: str) -> None:
        """Say that arrays lie alike on both sides, pair by pair."""
        for a, b in zip(sources, targets, strict=True):
            shape = self.cells[a].shape
            if shape.is_array and self.cells[b].shape.is_array:
                rule = same_dimensions([shape], [shape]).done(linear=((0,),))
                self.relations.append(Relation(rule, (a, b), 1, Opcode.COPY, where))


def cells_of(
    computation: Computation,
    shardings: ModuleShardings,
    *,
    halos: bool = True,
    memo: OperationMemo | None = None,
) -> ArrayCells:
    """Return the cells of the entry computation and of all loops and branches below it."""
    cells = ArrayCells(shardings.grid, memo or OperationMemo(), halos=halos)
    for parameter in computation.parameters:
        cells.numbers[parameter] = cells.new(arrays_of(parameter.shape))
    _fill(cells, computation, shardings)
    for parameter, wishes in zip(computation.parameters, shardings.parameters, strict=True):
        for number, wish in zip(cells.numbers[parameter], wishes, strict=True):
            if wish is not None:
                cells.wish(number, wish, "asked of the parameter")
    return cells


def _fill(cells: ArrayCells, computation: Computation, shardings: ModuleShardings) -> None:
    for x in post_order(computation):
        if x.opcode is not Opcode.PARAMETER:
            cells.numbers[x] = _numbers(cells, x, shardings)
        wishes = shardings.wishes.get(x)
        if wishes is not None and x.opcode not in (Opcode.TUPLE, Opcode.GET_TUPLE_ELEMENT):
            for number, wish in zip(cells.numbers[x], wishes, strict=True):
                if wish is not None:
                    cells.wish(number, wish, f"asked of %{x.name}")


def _numbers(cells: ArrayCells, x: Instruction, shardings: ModuleShardings) -> tuple[int, ...]:
    given = [cells.numbers[operand] for operand in x.operands]
    if x.opcode in (Opcode.TUPLE, Opcode.OPTIMIZATION_BARRIER):
        return tuple([number for one in given for number in one])
    if x.opcode is Opcode.GET_TUPLE_ELEMENT:
        index = x.attributes_as(GetTupleElement).index
        first = sum([len(arrays_of(s)) for s in x.operands[0].shape.tuple_shapes[:index]])
        return given[0][first : first + len(arrays_of(x.shape))]
    if x.opcode is Opcode.WHILE:
        return _while(cells, x, given[0], shardings)
    if x.opcode is Opcode.CONDITIONAL:
        return _conditional(cells, x, given[1:], shardings)
    results = cells.new(arrays_of(x.shape))
    operands = tuple([number for one in given for number in one])
    target = x.attributes.target if isinstance(x.attributes, CustomCall) else ""
    if target in CONSTRAINT_TARGETS:
        cells.relate(operands, results, x.name)
        return results
    if target == GROUP_TARGET:
        key = dict(x.annotations.frontend_attributes).get("xla.sdy.sharding_group_id", "")
        cells.relate(cells.groups.setdefault(key, operands), operands, x.name)
        return results
    if target == INSPECTION_TARGET:
        return results
    if is_entrance(x) or is_exit(x):
        _border(cells, x, results, operands, shardings)
        return results
    rule = cells.rule(x)
    if rule.sizes:
        every = (*operands, *results)
        kind = cells.kind(x, every)
        cells.relations.append(Relation(rule, every, len(operands), x.opcode, x.name, kind))
    return results


def _border(
    cells: ArrayCells,
    x: Instruction,
    results: tuple[int, ...],
    operands: tuple[int, ...],
    shardings: ModuleShardings,
) -> None:
    """Ask for the whole arrays as they are cut at the border of a manual region.

    What enters the region is to lie so before, as a constraint would have it.
    """
    whole = results
    if is_entrance(x):
        whole = cells.new([cells.cells[number].shape for number in operands])
        cells.relate(operands, whole, x.name)
    for number, wish in zip(whole, border_wishes(x, shardings), strict=True):
        cells.wish(number, wish, f"asked of %{x.name}")


def _while(
    cells: ArrayCells, x: Instruction, start: tuple[int, ...], shardings: ModuleShardings
) -> tuple[int, ...]:
    """Return the cells of the state, which condition and body share."""
    state = cells.new(arrays_of(x.shape))
    cells.relate(start, state, x.name)
    for computation in x.called_computations:
        cells.numbers[computation.parameters[0]] = state
        _fill(cells, computation, shardings)
    _, body = x.called_computations
    cells.relate(cells.numbers[body.root], state, x.name)
    return state


def _conditional(
    cells: ArrayCells, x: Instruction, given: list[tuple[int, ...]], shardings: ModuleShardings
) -> tuple[int, ...]:
    results = cells.new(arrays_of(x.shape))
    for branch, operand in zip(x.called_computations, given, strict=True):
        cells.numbers[branch.parameters[0]] = operand
        _fill(cells, branch, shardings)
        cells.relate(cells.numbers[branch.root], results, x.name)
    return results
