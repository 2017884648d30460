"""The machine: runs the steps of a computation on operands in memory, event by event.

A step is three events: its outputs are poisoned, its operands are loaded, its results are stored.
Coroutines yield None between events, and another coroutine where that has to run first.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TypeAlias, final

import numpy as np

from lowtide.evaluator.in_arena.cells import CallSiteRun, Cell, Cells, Moment
from lowtide.evaluator.in_arena.code import ArenaCode, ArenaStep
from lowtide.evaluator.in_arena.errors import ArenaError, place_text
from lowtide.evaluator.in_arena.memory import ArenaMemory
from lowtide.evaluator.in_arena.passing import STARTS, WAITS, keeps_bytes, may_pass
from lowtide.evaluator.in_arena.sharing import ArenaSharing
from lowtide.evaluator.in_arena.sites import Places, Sites
from lowtide.evaluator.in_arena.storage import reshaped, storage_of, transposed
from lowtide.evaluator.in_arena.watch import Watch
from lowtide.evaluator.interpreter import Interpreter
from lowtide.evaluator.values import Value, as_array, from_leaves, value_leaves
from lowtide.ir.attributes import Dimensions
from lowtide.ir.buffer import BufferSlice
from lowtide.ir.errors import UnsupportedOpError, unsupported
from lowtide.ir.instruction import Instruction
from lowtide.ir.opcode import Opcode

Events: TypeAlias = Generator["Events | None", None, None]


@final
class ArenaFrame:
    """A call site while it runs: what its steps have made so far, and how often that is still read.

    `result` are the cells of the root, held, once the run has ended.
    """

    __slots__ = ("code", "left", "result", "run", "values")

    def __init__(self, run: CallSiteRun, code: ArenaCode) -> None:
        self.run = run
        self.code = code
        self.values: list[Cells] = [()] * len(code.steps)
        self.left = list(code.uses)
        self.result: Cells = ()


ControlFlow: TypeAlias = Callable[["ArenaMachine", ArenaFrame, ArenaStep], Events]


class ArenaMachine:
    """Runs a program in memory; with a `watch`, each byte that is read is checked.

    `constants` holds those in allocations of their own; `control_flow` has the operations that run
    call sites.
    """

    def __init__(
        self,
        interpreter: Interpreter,
        sites: Sites,
        memory: ArenaMemory,
        watch: Watch | None,
        control_flow: dict[Opcode, ControlFlow],
    ) -> None:
        self.interpreter = interpreter
        self.sites = sites
        self.memory = memory
        self.watch = watch
        self.constants: dict[Instruction, Cells] = {}
        self.sharing = ArenaSharing(sites.assignment.allocations)
        self.control_flow = control_flow
        self.mixes_events = False
        """Whether something may run between two events of a step."""
        self._cells = 0

    # -- cells ---------------------------------------------------------------------------------

    def new_cell(self, moment: Moment, leaf: int, place: BufferSlice | None) -> Cell:
        """Return a cell for a leaf of what a step makes, whose bytes are not stored yet."""
        self._cells += 1
        return Cell(self._cells, place, moment[1].storages[leaf], moment, leaf)

    def hold(self, cells: Cells) -> Cells:
        """Keep cells alive until `drop`."""
        for cell in cells:
            cell.base.holders += 1
        return cells

    def drop(self, cells: Cells) -> None:
        """End a `hold`; a cell that nobody holds is dead."""
        for cell in cells:
            base = cell.base
            base.holders -= 1
            if not base.holders:
                self._die(base)

    def _die(self, cell: Cell) -> None:
        if self.watch is not None and cell.place is not None:
            self.watch.die(cell, cell.place)

    def store(self, cell: Cell, value: Value) -> None:
        """Put a value where its cell lies."""
        if cell.place is None:
            cell.value = value
            return
        array = as_array(value)
        cell.sizes = None if array.shape == cell.storage.dimensions else array.shape
        raw = cell.storage.to_bytes(array)
        self.memory.write(cell.place, raw)
        if self.watch is not None:
            cell.image = raw.copy()
            self.watch.claim(cell, cell.place)

    def load(self, cell: Cell, moment: Moment) -> Value:
        """Return what a cell holds; of memory, a copy."""
        if cell.place is None:
            return cell.value
        raw = self.memory.read(cell.place)
        base = cell.base
        base.read = moment
        if self.watch is not None:
            self.watch.check(base, cell.place, moment)
            if self.watch.fault is not None and base.image is not None:
                raw = base.image
        return cell.storage.to_array(raw, cell.sizes)

    def value_of(self, cells: Cells, step: ArenaStep, moment: Moment) -> Value:
        """Return the value that a step has made, out of its cells."""
        leaves = [self.load(cell, moment) for cell in cells]
        if not step.instruction.shape.is_tuple:
            return leaves[0]
        return from_leaves(step.instruction.shape, leaves)  # type: ignore[arg-type]

    # -- one computation -----------------------------------------------------------------------

    def enter(self, run: CallSiteRun, arguments: Sequence[Cells]) -> ArenaFrame:
        """Return a frame for a run of a call site, its parameters in place."""
        site = self.sites.assignment.call_sites[run.site]
        frame = ArenaFrame(run, self.sites.code(site.computation))
        for number, cells in zip(frame.code.parameters, arguments, strict=True):
            step = frame.code.steps[number]
            self.check_places(frame, step, cells)
            frame.values[number] = self.hold(cells)
        for number in frame.code.parameters:
            self._release(frame, number, 0)
        return frame

    def computation(self, frame: ArenaFrame) -> Events:
        """Run all steps in sequence; `frame.result` is the root, held."""
        for step in frame.code.steps:
            yield self.step(frame, step)
        self.leave(frame)

    def leave(self, frame: ArenaFrame) -> None:
        """Hand the root over to the caller."""
        root = frame.code.root
        frame.result = self.hold(frame.values[root])
        self._release(frame, root, 1)

    def step(self, frame: ArenaFrame, step: ArenaStep) -> Events:
        """Run one step."""
        opcode = step.instruction.opcode
        if opcode is Opcode.PARAMETER:
            return
        if not step.needed:
            self._run_without_result(frame, step)
        elif opcode in self.control_flow:
            yield self.control_flow[opcode](self, frame, step)
            return
        elif step.passed is not None and None not in step.passed:
            self._pass(frame, step)
        elif opcode is Opcode.CONSTANT and step.instruction in self.constants:
            self.set_value(frame, step, self.constants[step.instruction])
        else:
            yield self._compute(frame, step)
        self.release_operands(frame, step)

    def set_value(self, frame: ArenaFrame, step: ArenaStep, cells: Cells) -> None:
        """Say what a step has made, which has to lie where the plan says."""
        self.check_places(frame, step, cells)
        frame.values[step.number] = self.hold(cells)
        self._release(frame, step.number, 0)

    def release_operands(self, frame: ArenaFrame, step: ArenaStep) -> None:
        """Count the operands of a step as read by it."""
        for number in dict.fromkeys(step.operands):
            self._release(frame, number, 1)

    def _release(self, frame: ArenaFrame, number: int, uses: int) -> None:
        frame.left[number] -= uses
        if not frame.left[number]:
            self.drop(frame.values[number])
            frame.values[number] = ()

    # -- places --------------------------------------------------------------------------------

    def places(self, frame: ArenaFrame, step: ArenaStep) -> Places:
        """Return where the plan puts the leaves of a result."""
        return self.sites.places(frame.run.site, step)

    def check_places(self, frame: ArenaFrame, step: ArenaStep, cells: Cells) -> None:
        """See that what a step passes on lies where the plan says that its result lies."""
        for leaf, (place, cell) in enumerate(zip(self.places(frame, step), cells, strict=True)):
            if place is None or cell.place is None or _same_place(place, cell.place):
                continue
            raise ArenaError(
                f"{step.name(leaf)} in {self.sites.path(frame.run)} is {cell.name}: "
                f"the former at {place_text(place)}, the latter at {place_text(cell.place)}"
            )

    # -- steps that move no byte ---------------------------------------------------------------

    def _pass(self, frame: ArenaFrame, step: ArenaStep) -> None:
        assert step.passed is not None
        if step.instruction.opcode is Opcode.BITCAST:
            self.set_value(frame, step, (self._bitcast(frame, step),))
            return
        if step.instruction.opcode in WAITS:
            self._wait(frame, step)
        self.set_value(frame, step, self._passed(frame, step, step.passed))

    def _bitcast(self, frame: ArenaFrame, step: ArenaStep) -> Cell:
        """The operand read as another type, shape and layout."""
        operand = frame.values[step.operands[0]][0]
        if operand.place is None:
            cell = self.new_cell((frame.run, step), 0, None)
            assert step.handler is not None
            cell.value = step.handler(self.interpreter, step.instruction, [operand.value])
            return cell
        _require_same_bytes(step, operand)
        return operand.view(step.storages[0])

    def _passed(
        self, frame: ArenaFrame, step: ArenaStep, sources: Iterable[tuple[int, int] | None]
    ) -> Cells:
        operands = [frame.values[number] for number in step.operands]
        return tuple([operands[x[0]][x[1]] for x in sources if x is not None])

    def _wait(self, frame: ArenaFrame, step: ArenaStep) -> None:
        """See that what an asynchronous operation works on is as it was when it began."""
        moment = (frame.run, step)
        for cell in [x.base for x in frame.values[step.operands[0]]]:
            if cell.place is None or cell.image is None:
                continue
            cell.read = moment
            if self.watch is not None:
                self.watch.check(cell, cell.place, moment)
            elif not np.array_equal(self.memory.read(cell.place)[: cell.image.size], cell.image):
                raise ArenaError(
                    f"{cell.name} in {self.sites.path(frame.run)} changed before "
                    f"%{step.instruction.name}: {place_text(cell.place)}"
                )

    # -- steps that compute --------------------------------------------------------------------

    def _compute(self, frame: ArenaFrame, step: ArenaStep) -> Events:
        operands = [frame.values[number] for number in step.operands]
        if self.sharing.may_pass(frame.run.site, step, self.places(frame, step), operands):
            self.set_value(frame, step, (_relabelled(step, operands[0][0]),))
            return
        cells = self.begin(frame, step, operands)
        yield None
        loaded = self._load_operands(frame, step, operands)
        yield None
        self._check_operands(frame, step, operands)
        assert step.handler is not None
        result = step.handler(self.interpreter, step.instruction, loaded)
        sources = step.passed or (None,) * len(cells)
        for source, cell, value in zip(sources, cells, value_leaves(result), strict=True):
            if source is None:
                self.store(cell, value)
        self.keep_images(step, [*operands, cells])
        self.set_value(frame, step, cells)

    def begin(self, frame: ArenaFrame, step: ArenaStep, operands: Sequence[Cells]) -> Cells:
        """Return the cells of a result, their memory poisoned: the first event of a step.

        What lies over an operand that the operation may overwrite keeps its bytes. Raises
        ArenaError where the result has no place, or one in which it must not lie.
        """
        moment = (frame.run, step)
        places = self.places(frame, step)
        sources = step.passed or (None,) * len(step.storages)
        cells = []
        for leaf, source in enumerate(sources):
            if source is not None:
                cells.append(operands[source[0]][source[1]])
                continue
            place = places[leaf]
            if place is None and step.storages[leaf].nbytes:
                raise ArenaError(
                    f"the plan has no place for {step.name(leaf)} in {self.sites.path(frame.run)}"
                )
            cells.append(self.new_cell(moment, leaf, place))
        self.sharing.check_declared(step, operands, cells)
        for leaf in self.sharing.fresh_leaves(frame.run.site, step, places, operands):
            self._poison(cells[leaf])
        return tuple(cells)

    def _poison(self, cell: Cell) -> None:
        if cell.place is None:
            return
        self.memory.poison(cell.place)
        if self.watch is not None:
            self.watch.claim(cell, cell.place)

    def _load_operands(
        self, frame: ArenaFrame, step: ArenaStep, operands: Sequence[Cells]
    ) -> list[Value]:
        steps = frame.code.steps
        moment = (frame.run, step)
        pairs = zip(step.operands, operands, strict=True)
        return [self.value_of(cells, steps[number], moment) for number, cells in pairs]

    def _check_operands(
        self, frame: ArenaFrame, step: ArenaStep, operands: Sequence[Cells]
    ) -> None:
        """See that what a step reads is still there when it ends."""
        if self.watch is None or not self.mixes_events:
            return
        for cells in operands:
            for cell in [x.base for x in cells]:
                if cell.place is not None and cell.image is not None:
                    self.watch.check(cell, cell.place, (frame.run, step))

    def keep_images(self, step: ArenaStep, values: Sequence[Cells]) -> None:
        """Remember what an asynchronous operation began with, to compare when it ends."""
        if step.instruction.opcode not in STARTS or self.watch is not None:
            return
        for cells in values:
            for cell in cells:
                if cell.place is not None:
                    cell.base.image = self.memory.read(cell.place).copy()

    def _run_without_result(self, frame: ArenaFrame, step: ArenaStep) -> None:
        """Poison what a step writes whose result nobody needs; not what it may only rename."""
        instruction = step.instruction
        if instruction.opcode in self.control_flow:
            return
        places = self.places(frame, step)
        if may_pass(instruction) and keeps_bytes(instruction):
            source = self.places(frame, frame.code.steps[step.operands[0]])
            if None in source or source == places:
                return
        moment = (frame.run, step)
        sources = step.passed or (None,) * len(places)
        for leaf, (place, source_leaf) in enumerate(zip(places, sources, strict=True)):
            if place is not None and source_leaf is None:
                self.sharing.check_writable(step, leaf, place)
                cell = self.new_cell(moment, leaf, place)
                self._poison(cell)
                self._die(cell)


def _same_place(a: BufferSlice, b: BufferSlice) -> bool:
    return a.allocation == b.allocation and a.offset == b.offset


def _require_same_bytes(step: ArenaStep, operand: Cell) -> None:
    """Refuse a bitcast of what does not lie in memory as its type says."""
    result, source = step.instruction, step.instruction.operands[0]
    for shape in (source.shape, result.shape):
        if shape.layout is not None and shape.layout.tiles:
            raise unsupported(result, "tiled layouts are not evaluated; remove the tiles")
    if source.shape.nbytes != result.shape.nbytes or operand.sizes is not None:
        raise unsupported(result, "the sizes in memory differ; use bitcast-convert or reshape")
    if operand.storage != storage_of(source.shape):
        raise _layouts_differ(step)


def _relabelled(step: ArenaStep, operand: Cell) -> Cell:
    """The operand as the result of a copy, reshape, transpose or annotation that moves nothing."""
    if step.instruction.opcode is Opcode.TRANSPOSE:
        dimensions = step.instruction.attributes_as(Dimensions).dimensions
        return operand.view(transposed(operand.storage, dimensions))
    if step.instruction.opcode is Opcode.RESHAPE:
        storage = reshaped(operand.storage, step.instruction.shape.dimensions)
        if storage is None:
            raise _layouts_differ(step)
        return operand.view(storage)
    return operand


def _layouts_differ(step: ArenaStep) -> UnsupportedOpError:
    """The error for a value that comes out of a call in another layout than its type there says."""
    shape = step.instruction.operands[0].shape
    reason = f"its operand does not lie as {shape}: layouts differ at the border of a call"
    return unsupported(step.instruction, reason)
