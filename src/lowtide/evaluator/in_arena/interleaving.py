"""Drivers: run events one after the other, or those of unordered steps in a random order."""

from __future__ import annotations

from random import Random
from typing import TypeVar

from lowtide.evaluator.in_arena.code import ArenaStep
from lowtide.evaluator.in_arena.machine import ArenaFrame, ArenaMachine, Events
from lowtide.ir.computation import Computation
from lowtide.ir.errors import LowtideError
from lowtide.ir.instruction import Instruction
from lowtide.ir.opcode import Opcode
from lowtide.ir.schedule import PartialOrder

T = TypeVar("T")


class Activity:
    """A coroutine with all that it waits for, on a stack of its own."""

    __slots__ = ("_stack",)

    def __init__(self, events: Events) -> None:
        self._stack = [events]

    def advance(self) -> bool:
        """Run to the next border between two events; False at the end."""
        stack = self._stack
        while stack:
            try:
                inner = next(stack[-1])
            except StopIteration:
                stack.pop()
                continue
            if inner is None:
                return True
            stack.append(inner)
        return False


def run_in_sequence(machine: ArenaMachine, frame: ArenaFrame) -> None:
    """Run a computation step by step."""
    activity = Activity(machine.computation(frame))
    while activity.advance():
        continue


def run_interleaved(
    machine: ArenaMachine, frame: ArenaFrame, order: PartialOrder, random: Random
) -> None:
    """Run a computation in a random order of events that the partial order allows.

    Operations that draw random numbers keep their sequence. Raises LowtideError where the order
    has a cycle.
    """
    waits, followers = _dependencies(machine, frame, order)
    ready = [step for step in frame.code.steps if not waits[step.number]]
    active: list[tuple[Activity, ArenaStep]] = []
    done = 0
    while ready or active:
        choice = random.randrange(len(ready) + len(active))
        if choice < len(ready):
            step = _taken(ready, choice)
            active.append((Activity(machine.step(frame, step)), step))
            choice = len(active) - 1
        else:
            choice -= len(ready)
        activity, step = active[choice]
        if activity.advance():
            continue
        _taken(active, choice)
        done += 1
        for follower in followers[step.number]:
            waits[follower] -= 1
            if not waits[follower]:
                ready.append(frame.code.steps[follower])
    if done != len(frame.code.steps):
        raise LowtideError(f"the partial order of %{frame.code.computation.name} has a cycle")
    machine.leave(frame)


def _taken(items: list[T], index: int) -> T:
    """Remove one item, whatever the order of the others then is."""
    items[index], items[-1] = items[-1], items[index]
    return items.pop()


def _dependencies(
    machine: ArenaMachine, frame: ArenaFrame, order: PartialOrder
) -> tuple[list[int], list[list[int]]]:
    """Return per step the number of steps that it waits for, and the steps that wait for it."""
    steps = frame.code.steps
    number = {step.instruction: step.number for step in steps}
    waits = [0] * len(steps)
    followers: list[list[int]] = [[] for _ in steps]
    last_draw: int | None = None
    for step in steps:
        before = [number[x] for x in order.predecessors.get(step.instruction, ())]
        before += step.operands
        before += [number[x] for x in step.instruction.control_predecessors]
        if _draws(step.instruction):
            before += [] if last_draw is None else [last_draw]
            last_draw = step.number
        for predecessor in dict.fromkeys(before):
            waits[step.number] += 1
            followers[predecessor].append(step.number)
    return waits, followers


_DRAWS = frozenset({Opcode.RNG, Opcode.RNG_GET_AND_UPDATE_STATE})


def _draws(instruction: Instruction) -> bool:
    """Whether running it, or what it calls, advances the state of the random numbers."""
    stack = [instruction]
    seen: set[Computation] = set()
    while stack:
        found = stack.pop()
        if found.opcode in _DRAWS:
            return True
        for computation in found.called_computations:
            if computation not in seen:
                seen.add(computation)
                stack.extend(computation.instructions.values())
    return False
