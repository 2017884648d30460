"""A call graph in which control flow runs each computation from one place only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, final

from lowtide.ir import Computation, Instruction, Module, Opcode, Schedule
from lowtide.ir.clone import CloneMap, clone_computation
from lowtide.ir.opcode import CALLERS
from lowtide.ir.traversal import callees, computation_post_order

_FOLLOWS_START: Final = frozenset({Opcode.ASYNC_UPDATE, Opcode.ASYNC_DONE})


def flatten_call_graph(module: Module) -> bool:
    """Give each call, while, conditional and async-start computations of its own.

    Returns whether the module changed. The bodies of fusions, reducers and the like stay shared,
    also by the copies; a computation that is applied per element too is copied for control flow.
    A schedule gets the orders of the copies. The size of the module grows to that of its flattened
    schedule. Expects a module without recursion.
    """
    flattening = _Flattening(module)
    flattening.run()
    return flattening.changed


@final
class _Flattening:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.changed = False
        self.sequences = dict(module.schedule.sequences) if module.schedule else None
        self.taken = _applied_per_element(module)
        """The computations that may not be run from one more place."""

    def run(self) -> None:
        """Walk from callers to callees, copying what is taken already."""
        self.taken.add(self.module.entry)
        waiting = [self.module.entry]
        for computation in waiting:
            for caller in computation.instructions.values():
                if caller.opcode in CALLERS:
                    waiting += self._own_callees(caller)
        if self.changed:
            self._finish()

    def _own_callees(self, caller: Instruction) -> tuple[Computation, ...]:
        """Return what an instruction calls, copied where something else runs it."""
        called = tuple([self._own(x) for x in caller.called_computations])
        if called != caller.called_computations:
            self.changed = True
            for instruction in (caller, *_following(caller)):
                instruction.set_called_computations(called)
        return called

    def _own(self, callee: Computation) -> Computation:
        if callee not in self.taken:
            self.taken.add(callee)
            return callee
        mapping = CloneMap()
        name = f"{callee.name}.clone"
        copy = clone_computation(callee, self.module, name, mapping, keep_callees=True)
        self.taken.add(copy)
        if self.sequences is not None and callee in self.sequences:
            order = self.sequences[callee]
            self.sequences[copy] = tuple([mapping.instructions[x] for x in order])
        return copy

    def _finish(self) -> None:
        if self.sequences is not None:
            self.module.schedule = Schedule(self.sequences)
        order = computation_post_order(self.module)
        self.module.computations.clear()
        self.module.computations.update({x.name: x for x in order})


def _following(start: Instruction) -> Iterator[Instruction]:
    """Yield the async-updates and async-dones that name the computation of an async-start."""
    waiting = [start] if start.opcode is Opcode.ASYNC_START else []
    for instruction in waiting:
        found = [x for x in instruction.users if x.opcode in _FOLLOWS_START]
        yield from found
        waiting += found


def _applied_per_element(module: Module) -> set[Computation]:
    """Return what runs within kernels, and what that calls."""
    found: dict[Computation, None] = {}
    for computation in module.computations.values():
        for instruction in computation.instructions.values():
            if instruction.opcode not in CALLERS | _FOLLOWS_START:
                found.update(dict.fromkeys(instruction.called_computations))
    waiting = list(found)
    for computation in waiting:
        fresh = [x for x in callees(computation) if x not in found]
        found.update(dict.fromkeys(fresh))
        waiting += fresh
    return set(found)
