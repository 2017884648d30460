"""Running a program inside its plan: arguments in, outputs out, and what must not have changed."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

from lowtide.evaluator.evaluate import arguments_of
from lowtide.evaluator.in_arena.cells import CallSiteRun, Cell, Cells
from lowtide.evaluator.in_arena.code import ArenaStep
from lowtide.evaluator.in_arena.control import CONTROL_FLOW
from lowtide.evaluator.in_arena.errors import ArenaError, place_text
from lowtide.evaluator.in_arena.interleaving import run_in_sequence, run_interleaved
from lowtide.evaluator.in_arena.machine import ArenaFrame, ArenaMachine
from lowtide.evaluator.in_arena.memory import ArenaMemory
from lowtide.evaluator.in_arena.sites import Sites
from lowtide.evaluator.in_arena.storage import Bytes, storage_of
from lowtide.evaluator.in_arena.watch import Watch
from lowtide.evaluator.interpreter import Interpreter
from lowtide.evaluator.values import Token, Value, Values, from_literal, value_leaves
from lowtide.ir.attributes import Constant
from lowtide.ir.buffer import Allocation, AllocationKind, BufferAssignment, BufferSlice
from lowtide.ir.instruction import Instruction
from lowtide.ir.literal import Array
from lowtide.ir.module import Module
from lowtide.ir.opcode import Opcode
from lowtide.ir.partitioning import check_one_device
from lowtide.ir.schedule import PartialOrder
from lowtide.ir.shape import Shape, ShapeIndex


def run_in_arena(
    module: Module,
    assignment: BufferAssignment,
    arguments: Sequence[Any],
    *,
    order: PartialOrder | None = None,
    sanitize: bool = False,
    seed: int = 0,
) -> Value:
    """Return the value of the entry's root, computed in the memory that a plan lays out.

    Arguments and `seed` are those of `evaluate`, whose result comes out bit for bit where the plan
    is right. The steps run in the module's order; with `order`, the events of those of the entry
    that it leaves unordered are mixed at random, by `seed`. With `sanitize` each byte that is read
    is checked.

    Raises ArenaError where a value lies in two places, where it must not be written, outside of
    its allocation, or partly over an operand; with `sanitize` also where it was overwritten while
    needed, which names both values. Else raises as `evaluate` does.
    """
    check_one_device(module)
    values = arguments_of(module, arguments)
    sites = Sites(assignment)
    memory = ArenaMemory(assignment.allocations)
    watch = Watch(memory, sites) if sanitize else None
    machine = ArenaMachine(Interpreter(module, seed=seed), sites, memory, watch, CONTROL_FLOW)
    with np.errstate(all="ignore"):
        try:
            return _Program(machine, module, order, seed).run(values)
        except ArenaError:
            if watch is not None and watch.fault is not None:
                watch.report()
            raise


class _Program:
    """The entry and its surroundings: arguments, constants, outputs."""

    def __init__(
        self, machine: ArenaMachine, module: Module, order: PartialOrder | None, seed: int
    ) -> None:
        self.machine = machine
        self.sites = machine.sites
        self.module = module
        self.order = order
        self.seed = seed
        self.kept: list[tuple[Cell, Bytes]] = []
        """What only may be read, and its bytes."""
        self.of_constant = {
            x.constant: x.index for x in self.sites.assignment.allocations if x.constant is not None
        }
        if not self.sites.assignment.call_sites:
            raise ArenaError("the plan has no call site for the entry")
        if self.sites.assignment.call_sites[0].computation is not module.entry:
            raise ArenaError(f"the plan is not one of %{module.entry.name}")

    def run(self, values: Values) -> Value:
        machine = self.machine
        self._place_constants()
        run = CallSiteRun(0)
        frame = machine.enter(run, self._arguments(run, values))
        if self.order is None:
            run_in_sequence(machine, frame)
        else:
            self._check_order(self.order)
            machine.mixes_events = True
            run_interleaved(machine, frame, self.order, Random(self.seed))
        result = self._outputs(frame)
        self._check_kept()
        if machine.watch is not None:
            machine.watch.finish()
        return result

    def _check_order(self, order: PartialOrder) -> None:
        if order.computation is not self.module.entry:
            raise ArenaError(f"the partial order is not one of %{self.module.entry.name}")

    # -- what is there before the first step ---------------------------------------------------

    def _allocation(self, place: BufferSlice) -> Allocation:
        return self.sites.assignment.allocations[place.allocation]

    def _arguments(self, run: CallSiteRun, values: Values) -> list[Cells]:
        code = self.sites.code(self.module.entry)
        cells = []
        for position, (number, value) in enumerate(zip(code.parameters, values, strict=True)):
            step = code.steps[number]
            places = self.sites.places(0, step)
            rows = zip(step.instruction.shape.leaves(), value_leaves(value), strict=True)
            made = []
            for leaf, ((index, _), part) in enumerate(rows):
                place = self._argument_place(step, leaf, (position, index), places[leaf])
                made.append(self._placed((run, step), leaf, place, part))
            cells.append(tuple(made))
        return cells

    def _argument_place(
        self, step: ArenaStep, leaf: int, number: tuple[int, ShapeIndex], place: BufferSlice | None
    ) -> BufferSlice | None:
        nbytes = step.storages[leaf].nbytes
        if not nbytes:
            return None
        if place is None:
            found = [x for x in self.sites.assignment.allocations if x.parameter == number]
            if not found or found[0].nbytes < nbytes:
                raise ArenaError(f"the plan has no place for {step.name(leaf)}, an argument")
            return BufferSlice(found[0].index, 0, nbytes)
        allocation = self._allocation(place)
        if allocation.kind is not AllocationKind.ARGUMENT or allocation.parameter != number:
            raise ArenaError(f"{step.name(leaf)} is an argument, and lies in an allocation which "
                             f"is not its own: {place_text(place)}")  # fmt: skip
        return place

    def _placed(
        self,
        moment: tuple[CallSiteRun, ArenaStep],
        leaf: int,
        place: BufferSlice | None,
        value: Value,
    ) -> Cell:
        """Return a cell that is there from the begin."""
        machine = self.machine
        cell = machine.new_cell(moment, leaf, place)
        machine.store(cell, value)
        if place is not None and not machine.sharing.is_writable(place):
            self.kept.append((cell, machine.memory.read(place).copy()))
        return cell

    def _place_constants(self) -> None:
        """Store the constants that have allocations of their own."""
        machine = self.machine
        run = CallSiteRun(0)
        for number, site in enumerate(self.sites.assignment.call_sites):
            for step in self.sites.code(site.computation).steps:
                constant = step.instruction
                if constant.opcode is not Opcode.CONSTANT or constant in machine.constants:
                    continue
                places = self._constant_places(number, step)
                if all(x is None or self._is_constant(x, constant) for x in places):
                    leaves = value_leaves(from_literal(constant.attributes_as(Constant).literal))
                    cells = [
                        self._placed((run, step), leaf, place, value)
                        for leaf, (place, value) in enumerate(zip(places, leaves, strict=True))
                    ]
                    machine.constants[constant] = machine.hold(tuple(cells))

    def _constant_places(self, site: int, step: ArenaStep) -> list[BufferSlice | None]:
        own = self.of_constant.get(step.instruction)
        found: list[BufferSlice | None] = []
        for leaf, place in enumerate(self.sites.places(site, step)):
            nbytes = step.storages[leaf].nbytes
            if place is None and nbytes:
                if own is None:
                    raise ArenaError(f"the plan has no place for {step.name(leaf)}, a constant")
                place = BufferSlice(own, 0, nbytes)
            found.append(place)
        return found

    def _is_constant(self, place: BufferSlice, constant: Instruction) -> bool:
        allocation = self._allocation(place)
        if allocation.kind is not AllocationKind.CONSTANT:
            return False
        if allocation.constant not in (None, constant):
            raise ArenaError(f"%{constant.name} lies in allocation {allocation.index}, that of "
                             f"another constant")  # fmt: skip
        return True

    # -- what is there after the last step -----------------------------------------------------

    def _outputs(self, frame: ArenaFrame) -> Value:
        machine = self.machine
        root = frame.code.steps[frame.code.root]
        self._check_outputs(root, frame.result)
        result = machine.value_of(frame.result, root, (frame.run, root))
        machine.drop(frame.result)
        return result

    def _check_outputs(self, root: ArenaStep, cells: Cells) -> None:
        outputs = self.sites.assignment.outputs
        if len(outputs) != len(cells):
            raise ArenaError(f"the result has {len(cells)} leaves, the plan {len(outputs)} outputs")
        for leaf, (place, cell) in enumerate(zip(outputs, cells, strict=True)):
            if cell.place is None:
                continue
            if (place.allocation, place.offset) != (cell.place.allocation, cell.place.offset):
                raise ArenaError(
                    f"output {leaf} is {cell.name}: the former at {place_text(place)}, the latter "
                    f"at {place_text(cell.place)}"
                )

    def _check_kept(self) -> None:
        for cell, raw in self.kept:
            if cell.place is not None and not np.array_equal(
                self.machine.memory.read(cell.place), raw
            ):
                raise ArenaError(f"{cell.name} may only be read, and was changed")


def differing_leaves(module: Module, a: Value, b: Value) -> list[ShapeIndex]:
    """Return the indices of the leaves in which two results of a module differ in any bit."""
    rows = zip(module.entry.root.shape.leaves(), value_leaves(a), value_leaves(b), strict=True)
    return [index for (index, shape), x, y in rows if not _is_same(shape, x, y)]


def _is_same(shape: Shape, a: Array | Token, b: Array | Token) -> bool:
    if isinstance(a, Token) or isinstance(b, Token):
        return a is b
    storage = storage_of(shape)
    return a.shape == b.shape and np.array_equal(storage.to_bytes(a), storage.to_bytes(b))
