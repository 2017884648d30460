"""The caller of each computation, in a program that runs each one from one place only."""

from __future__ import annotations

from typing import NamedTuple, final

from lowtide.analysis.call_graph import CallRole, call_sites, executed_computations
from lowtide.ir import Computation, Instruction, LowtideError, Module, Opcode


class ControlFlowCall(NamedTuple):
    """A control-flow call; `number` counts what one instruction runs, e.g. its branches."""

    caller: Instruction
    role: CallRole
    number: int


class CallPair(NamedTuple):
    """Two instructions, or those that call what they are part of, in one computation.

    The calls by which they are reached are None where nothing is called in between.
    """

    first: Instruction
    first_call: ControlFlowCall | None
    second: Instruction
    second_call: ControlFlowCall | None


@final
class CallTree:
    """The callers of all that the entry runs as control flow; it does not change once made.

    Questions about a computation with several call sites, or one that runs inside a kernel,
    raise LowtideError.
    """

    def __init__(self, module: Module) -> None:
        self.entry = module.entry
        self._calls: dict[Computation, list[ControlFlowCall]] = {module.entry: []}
        self._depth: dict[Computation, int] = {module.entry: 0}
        self.computations = tuple(reversed(executed_computations(module.entry)))
        """All computations that run as control flow, callers before callees."""
        for computation in self.computations:
            numbers: dict[Instruction, int] = {}
            for caller, role, callee in call_sites(computation):
                number = numbers[caller] = numbers.get(caller, -1) + 1
                self._calls.setdefault(callee, []).append(ControlFlowCall(caller, role, number))
                self._depth[callee] = self._depth[computation] + 1

    def call_of(self, computation: Computation) -> ControlFlowCall | None:
        """Return the one call of a computation, None of the entry."""
        calls = self._calls.get(computation)
        if calls is None:
            raise LowtideError(
                f"%{computation.name} runs inside a kernel, or not at all: it has no place in "
                "the order of the program"
            )
        if len(calls) > 1:
            names = ", ".join([f"%{call.caller.name}" for call in calls[:3]])
            more = ", ..." if len(calls) > 3 else ""
            raise LowtideError(
                f"%{computation.name} is called {len(calls)} times ({names}{more}): orders across "
                "computations need one call site each; flatten the call graph first"
            )
        return calls[0] if calls else None

    def encloses(self, caller: Instruction, inner: Instruction) -> bool:
        """Whether `inner` runs in a computation that `caller` calls, directly or through others."""
        depth = self._depth_of(caller.parent)
        computation = inner.parent
        while self._depth_of(computation) > depth:
            call = self.call_of(computation)
            assert call is not None
            if call.caller is caller:
                return True
            computation = call.caller.parent
        return False

    def within(self, inner: Instruction, computation: Computation) -> bool:
        """Whether an instruction runs in a computation or in one that it calls."""
        depth = self._depth_of(computation)
        found = inner.parent
        while self._depth_of(found) > depth:
            call = self.call_of(found)
            assert call is not None
            found = call.caller.parent
        return found is computation

    def keeps(self, instruction: Instruction) -> bool:
        """Whether what an instruction returns is needed until its computation ends.

        It is where it is the result. It also is where it is given to the condition of a loop, even
        if nothing reads it there: the body, or what follows the loop, is given the same.
        """
        if instruction.is_root:
            return True
        if instruction.opcode is not Opcode.PARAMETER:
            return False
        call = self.call_of(instruction.parent)
        return call is not None and call.role is CallRole.CONDITION

    def meeting(self, first: Instruction, second: Instruction) -> CallPair:
        """Return what stands for two instructions in the innermost computation that has both."""
        a, b = first, second
        call_a: ControlFlowCall | None = None
        call_b: ControlFlowCall | None = None
        while a.parent is not b.parent:
            if self._depth_of(a.parent) >= self._depth_of(b.parent):
                call_a = self.call_of(a.parent)
                assert call_a is not None
                a = call_a.caller
            else:
                call_b = self.call_of(b.parent)
                assert call_b is not None
                b = call_b.caller
        self.call_of(a.parent)
        return CallPair(a, call_a, b, call_b)

    def _depth_of(self, computation: Computation) -> int:
        if computation not in self._depth:
            self.call_of(computation)
        return self._depth[computation]


def end_of(call: ControlFlowCall | None, caller: Instruction) -> Instruction:
    """Return what ends when all that a call runs has: the caller, or the async-done behind it."""
    if call is None or call.role is not CallRole.ASYNC:
        return caller
    found = caller
    while found.opcode is not Opcode.ASYNC_DONE:
        following = [x for x in found.users if x.opcode in _ASYNC_STEPS]
        if len(following) != 1:
            raise LowtideError(f"%{caller.name} has {len(following)} chains to an async-done")
        found = following[0]
    return found


_ASYNC_STEPS = frozenset({Opcode.ASYNC_UPDATE, Opcode.ASYNC_DONE})
