"""Operations that run call sites: calls, loops, conditionals, asynchronous computations.

The state of a loop and the result of a conditional are values passed on. Where a plan puts one of
them elsewhere than the value that it is, the plan is at fault, and nothing is copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lowtide.evaluator.in_arena.cells import CallSiteRun, Cell, Cells
from lowtide.evaluator.in_arena.code import ArenaStep
from lowtide.evaluator.in_arena.errors import ArenaError, place_text
from lowtide.evaluator.in_arena.machine import ArenaFrame, ArenaMachine, ControlFlow, Events
from lowtide.evaluator.in_arena.sharing import declared
from lowtide.evaluator.in_arena.storage import leaf_count, leaf_position
from lowtide.evaluator.values import as_array, zeros
from lowtide.ir.attributes import Conditional
from lowtide.ir.opcode import Opcode
from lowtide.ops.in_place import in_place_pairs

if TYPE_CHECKING:
    from lowtide.ir.buffer import BufferSlice


def call(machine: ArenaMachine, frame: ArenaFrame, step: ArenaStep) -> Events:
    """Run the callee on the caller's values; its result is theirs."""
    callee = step.instruction.called_computations[0]
    site = machine.sites.called(frame.run.site, step.instruction, callee)
    arguments = [frame.values[number] for number in step.operands]
    inner = machine.enter(CallSiteRun(site, frame.run), arguments)
    machine.release_operands(frame, step)
    yield machine.computation(inner)
    machine.set_value(frame, step, inner.result)
    machine.drop(inner.result)


def conditional(machine: ArenaMachine, frame: ArenaFrame, step: ArenaStep) -> Events:
    """Run the chosen branch on its operand."""
    instruction = step.instruction
    branches = instruction.called_computations
    chosen = machine.load(frame.values[step.operands[0]][0], (frame.run, step))
    index = int(as_array(chosen))
    if instruction.attributes_as(Conditional).is_predicated:
        index = 1 - index
    if not 0 <= index < len(branches):
        index = len(branches) - 1
    before = branches[:index].count(branches[index])
    site = machine.sites.called(frame.run.site, instruction, branches[index], before)
    inner = machine.enter(CallSiteRun(site, frame.run), [frame.values[step.operands[1 + index]]])
    machine.release_operands(frame, step)
    yield machine.computation(inner)
    machine.set_value(frame, step, inner.result)
    machine.drop(inner.result)


# -- loops -------------------------------------------------------------------------------------


def while_loop(machine: ArenaMachine, frame: ArenaFrame, step: ArenaStep) -> Events:
    """Run the body on the state for as long as the condition holds."""
    condition, body = _callees(machine, frame, step)
    state = machine.hold(frame.values[step.operands[0]])
    machine.release_operands(frame, step)
    _check_state(machine, frame, step, (condition, body), state)
    iteration = 0
    while True:
        inner = machine.enter(CallSiteRun(condition, frame.run, iteration), [state])
        yield machine.computation(inner)
        if not _holds(machine, inner):
            break
        inner = machine.enter(CallSiteRun(body, frame.run, iteration), [state])
        before = _scalars(machine, state)
        drawn = machine.interpreter.random_counter
        machine.drop(state)
        yield machine.computation(inner)
        _check_updated(machine, inner, step, state)
        is_same = _same(state, inner.result) and before == _scalars(machine, inner.result)
        state = inner.result
        iteration += 1
        if is_same and machine.interpreter.random_counter == drawn:
            break
    machine.set_value(frame, step, state)
    machine.drop(state)


def _callees(machine: ArenaMachine, frame: ArenaFrame, step: ArenaStep) -> tuple[int, int]:
    """The call sites of condition and body, which may be the same computation."""
    condition, body = step.instruction.called_computations
    site, called = frame.run.site, machine.sites.called
    return (
        called(site, step.instruction, condition),
        called(site, step.instruction, body, int(body is condition)),
    )


def _holds(machine: ArenaMachine, condition: ArenaFrame) -> bool:
    root = condition.code.steps[condition.code.root]
    going = machine.load(condition.result[0], (condition.run, root))
    machine.drop(condition.result)
    return bool(as_array(going))


def _scalars(machine: ArenaMachine, state: Cells) -> list[bytes]:
    """The bytes of the small elements, to tell whether an iteration changes anything."""
    places = [cell.place for cell in state]
    return [machine.memory.read(x).tobytes() for x in places if x is not None and _is_small(x)]


def _is_small(place: BufferSlice) -> bool:
    return place.nbytes <= _SMALL_BYTES


_SMALL_BYTES: Final = 16
"""The size of the largest scalar, c128."""


def _same(before: Cells, after: Cells) -> bool:
    return all(
        a is b or (a.place is not None and a.place == b.place and _is_small(a.place))
        for a, b in zip(before, after, strict=True)
    )


def _check_state(
    machine: ArenaMachine, frame: ArenaFrame, step: ArenaStep, sites: tuple[int, int], state: Cells
) -> None:
    """See that the initial values lie where condition, body and result expect the state."""
    rows = [("result", machine.places(frame, step))]
    for site in sites:
        code = machine.sites.code(machine.sites.assignment.call_sites[site].computation)
        rows.append(("state", machine.sites.places(site, code.steps[code.parameters[0]])))
    for what, places in reversed(rows):
        for leaf, (cell, place) in enumerate(zip(state, places, strict=True)):
            if place is not None and cell.place is not None and cell.place != place:
                _refuse_state(step, leaf, "initial value", cell, what, place)


def _check_updated(machine: ArenaMachine, body: ArenaFrame, step: ArenaStep, state: Cells) -> None:
    """See that the body leaves each element where the next iteration reads it."""
    for leaf, (before, after) in enumerate(zip(state, body.result, strict=True)):
        if before.place != after.place and before.place is not None:
            _refuse_state(step, leaf, "updated value", after, "state", before.place)


def _refuse_state(
    step: ArenaStep, leaf: int, what: str, cell: Cell, other: str, place: BufferSlice
) -> None:
    name = step.name(leaf).partition(" ")
    found = "no memory" if cell.place is None else place_text(cell.place)
    element = f"loop state {name[2]}" if name[2] else "the loop state"
    raise ArenaError(
        f"{element} of {name[0]}: {what} {cell.name} at {found}, {other} at {place_text(place)}"
    )


# -- asynchronous computations -----------------------------------------------------------------


def async_start(machine: ArenaMachine, frame: ArenaFrame, step: ArenaStep) -> Events:
    """Run the computation at once; its operands are looked at again when it is waited for."""
    instruction = step.instruction
    callee = instruction.called_computations[0]
    site = machine.sites.called(frame.run.site, instruction, callee)
    operands = [frame.values[number] for number in step.operands]
    given = [cell for cells in operands for cell in cells]
    inner = machine.enter(CallSiteRun(site, frame.run), operands)
    yield machine.computation(inner)
    contexts = _contexts(machine, frame, step, len(given) + len(inner.result))
    result = [*given, *inner.result, *contexts]
    _check_overwritten(step, result, len(given))
    machine.keep_images(step, [tuple(result)])
    machine.set_value(frame, step, tuple(_overwritten(step, result)))
    machine.drop(inner.result)
    machine.release_operands(frame, step)


def _contexts(machine: ArenaMachine, frame: ArenaFrame, step: ArenaStep, first: int) -> list[Cell]:
    """The values behind the result, which only the runtime reads."""
    shapes = [shape for _, shape in step.instruction.shape.leaves()]
    places = machine.places(frame, step)
    made = []
    for leaf in range(first, len(shapes)):
        cell = machine.new_cell((frame.run, step), leaf, places[leaf])
        machine.store(cell, zeros(shapes[leaf]))
        made.append(cell)
    return made


def _check_overwritten(step: ArenaStep, result: list[Cell], shift: int) -> None:
    """See that the declared aliases of the computation lie in one place."""
    starts = [0]
    for operand in step.instruction.operands:
        starts.append(starts[-1] + leaf_count(operand.shape))
    for number, source, leaf in declared(step.instruction):
        before, after = result[starts[number] + source], result[leaf]
        if before.place != after.place and before.place is not None and after.place is not None:
            raise ArenaError(
                f"{step.name(leaf)} has to overwrite {before.name}: the former at "
                f"{place_text(after.place)}, the latter at {place_text(before.place)}"
            )


def _overwritten(step: ArenaStep, result: list[Cell]) -> list[Cell]:
    """Put the result where the operand stood that it overwrites."""
    shape = step.instruction.shape
    leaves = list(result)
    for (operand, index), output in in_place_pairs(step.instruction):
        before = leaf_position(shape, (0, operand, *index))
        after = leaf_position(shape, output)
        for leaf in range(leaf_count(shape.at(output))):
            if result[before + leaf].place == result[after + leaf].place:
                leaves[before + leaf] = result[after + leaf]
    return leaves


CONTROL_FLOW: Final[dict[Opcode, ControlFlow]] = {
    Opcode.ASYNC_START: async_start,
    Opcode.CALL: call,
    Opcode.CONDITIONAL: conditional,
    Opcode.WHILE: while_loop,
}
