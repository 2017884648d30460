"""From a scheduled module and its buffers to thunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from lowtide.ir import Computation, Instruction, Opcode
from lowtide.ir.attributes import Conditional
from lowtide.ir.buffer import NO_BYTES, BufferAssignment, BufferSlice
from lowtide.ir.collective import DeviceCollective
from lowtide.ir.errors import unsupported
from lowtide.ir.loop_counter import LoopCounter
from lowtide.ir.opcode import COLLECTIVES
from lowtide.ir.thunk import (
    CollectiveThunk,
    ConditionalThunk,
    CopyThunk,
    HostCall,
    HostCallThunk,
    KernelThunk,
    Thunk,
    WhileThunk,
)
from lowtide.ops.backend_config import known_trip_count

NO_CODE: Final = frozenset(
    {
        Opcode.ADD_DEPENDENCY,
        Opcode.AFTER_ALL,
        Opcode.ALL_GATHER_DONE,
        Opcode.ALL_REDUCE_DONE,
        Opcode.ASYNC_DONE,
        Opcode.ASYNC_UPDATE,
        Opcode.BITCAST,
        Opcode.COLLECTIVE_PERMUTE_DONE,
        Opcode.CONSTANT,
        Opcode.COPY_DONE,
        Opcode.DOMAIN,
        Opcode.GET_TUPLE_ELEMENT,
        Opcode.OPTIMIZATION_BARRIER,
        Opcode.PARAMETER,
        Opcode.TUPLE,
    }
)
"""Operations that pass on what they are given."""

BETWEEN_DEVICES: Final = COLLECTIVES | {Opcode.PARTITION_ID, Opcode.REPLICA_ID}
"""Operations by which devices exchange values, or that ask which one runs."""

_MAY_STAY: Final = frozenset({Opcode.COPY, Opcode.RESHAPE, Opcode.TRANSPOSE, Opcode.CUSTOM_CALL})
"""Operations whose result may lie where the operand does, where no byte differs."""

Kernels = Callable[[Instruction], "int | None"]
"""The number of the kernel of an instruction, None where nothing is to be done."""

HostCalls = Callable[[Instruction], "HostCall | None"]
"""The call of a function outside of the program that runs a custom call; None for a kernel."""

Collectives = Callable[[Instruction], "DeviceCollective | None"]
"""What an instruction exchanges with other devices; None where it has a kernel."""


Counters = Callable[[Instruction], "LoopCounter | None"]
"""How often a loop is certain to run; None where its condition has to be asked each time."""


def no_counter(_: Instruction) -> None:
    """Say of each loop that its condition is asked each time."""


def thunks_of(
    assignment: BufferAssignment,
    sequences: Mapping[Computation, Sequence[Instruction]],
    kernel_of: Kernels,
    call_of: HostCalls,
    collective_of: Collectives,
    counter_of: Counters = no_counter,
) -> tuple[Thunk, ...]:
    """Return the program of the entry computation."""
    return _Writer(assignment, sequences, kernel_of, call_of, collective_of, counter_of).site(0)


class _Writer:
    def __init__(
        self,
        assignment: BufferAssignment,
        sequences: Mapping[Computation, Sequence[Instruction]],
        kernel_of: Kernels,
        call_of: HostCalls,
        collective_of: Collectives,
        counter_of: Counters,
    ) -> None:
        self.sites = assignment.call_sites
        self.sequences = sequences
        self.kernel_of = kernel_of
        self.call_of = call_of
        self.collective_of = collective_of
        self.counter_of = counter_of
        self.callees: dict[tuple[int, Instruction], list[int]] = {}
        for number, site in enumerate(self.sites):
            if site.caller is not None:
                self.callees.setdefault((site.parent, site.caller), []).append(number)

    def site(self, entry: int) -> tuple[Thunk, ...]:
        """The thunks of a call site and all that it calls, callees first."""
        done: dict[int, tuple[Thunk, ...]] = {}
        stack = [entry]
        while stack:
            number = stack[-1]
            order = self.sequences[self.sites[number].computation]
            missing = [
                callee
                for instruction in order
                for callee in self.callees.get((number, instruction), ())
                if callee not in done
            ]
            if missing:
                stack += reversed(missing)
                continue
            stack.pop()
            done[number] = tuple(self._thunks(number, order, done))
        return done[entry]

    def _thunks(
        self, number: int, order: Sequence[Instruction], done: Mapping[int, tuple[Thunk, ...]]
    ) -> Iterator[Thunk]:
        for instruction in order:
            if instruction.opcode in NO_CODE:
                continue
            rule = _CONTROL.get(instruction.opcode)
            if rule is not None:
                yield from rule(self, number, instruction, done)
                continue
            thunk = self._kernel(number, instruction)
            if thunk is not None:
                yield thunk

    def _kernel(self, number: int, instruction: Instruction) -> KernelThunk | None:
        site = self.sites[number]
        results = self.leaves(number, instruction)
        operands = [x for y in instruction.operands for x in self.leaves(number, y)]
        if instruction.opcode in _MAY_STAY and operands == results:
            return None
        kernel = self.kernel_of(instruction)
        if kernel is None:
            return None
        scratch = site.scratch.get(instruction)
        buffers = (*operands, *results)
        return KernelThunk(instruction.name, kernel, buffers, len(operands), scratch)

    def custom_call(
        self, number: int, instruction: Instruction, done: Mapping[int, tuple[Thunk, ...]]
    ) -> Iterator[Thunk]:
        """The call of a function outside, or a kernel."""
        call = self.call_of(instruction)
        if call is None:
            thunk = self._kernel(number, instruction)
            if thunk is not None:
                yield thunk
            return
        slices = self.sites[number].slices
        places = [x for y in (*instruction.operands, instruction) for x in slices[y]]
        leaves = (*call.operands, *call.results)
        pairs = zip(places, leaves, strict=True)
        buffers = [NO_BYTES if x is None or not leaf.is_array else x for x, leaf in pairs]
        yield HostCallThunk(instruction.name, call, tuple(buffers))

    def collective(
        self, number: int, instruction: Instruction, done: Mapping[int, tuple[Thunk, ...]]
    ) -> Iterator[Thunk]:
        """A collective with other devices, or a kernel where the device is alone.

        What starts a collective has its operands as results too, in front of what is received.
        """
        collective = self.collective_of(instruction)
        if collective is None:
            thunk = self._kernel(number, instruction)
            if thunk is not None:
                yield thunk
            return
        results = self.leaves(number, instruction)
        operands = [x for y in instruction.operands for x in self.leaves(number, y)]
        kept = len(results) - len(collective.results)
        yield from self.moved(instruction.name, operands[:kept], results[:kept])
        buffers = (*operands, *results[kept:])
        scratch = self.sites[number].scratch.get(instruction)
        yield CollectiveThunk(instruction.name, collective, buffers, scratch)

    def leaves(self, number: int, instruction: Instruction) -> list[BufferSlice]:
        """Where the arrays of a value lie, depth first."""
        found = self.sites[number].slices[instruction]
        shapes = instruction.shape.leaves()
        places = [x for x, (_, leaf) in zip(found, shapes, strict=True) if leaf.is_array]
        assert None not in places, instruction.name
        return [x for x in places if x is not None]

    # -- control flow --------------------------------------------------------------------------

    def moved(
        self, name: str, sources: Sequence[BufferSlice], targets: Sequence[BufferSlice]
    ) -> Iterator[Thunk]:
        """Copies of values that a computation hands over and that lie elsewhere there."""
        for source, target in zip(sources, targets, strict=True):
            if source != target and target.nbytes:
                yield CopyThunk(name, source, target)

    def given(self, callee: int) -> list[BufferSlice]:
        """Where the parameters of a callee lie."""
        parameters = self.sites[callee].computation.parameters
        return [x for y in parameters for x in self.leaves(callee, y)]

    def call(
        self, number: int, instruction: Instruction, done: Mapping[int, tuple[Thunk, ...]]
    ) -> Iterator[Thunk]:
        """The thunks of a call: those of the callee."""
        operands = [x for y in instruction.operands for x in self.leaves(number, y)]
        for callee in self.callees[number, instruction]:
            self._require_layouts(callee, instruction)
            assert self.given(callee) == operands, instruction.name
            yield from done[callee]

    def _require_layouts(self, callee: int, instruction: Instruction) -> None:
        """Raise UnsupportedOpError where a computation reads its operands in other layouts."""
        parameters = self.sites[callee].computation.parameters
        for operand, parameter in zip(instruction.operands, parameters, strict=True):
            if operand.shape is not parameter.shape:
                reason = f"it takes {parameter.shape}, not {operand.shape}"
                raise unsupported(instruction, f"{reason}; native code copies no operands of calls")

    def loop(
        self, number: int, instruction: Instruction, done: Mapping[int, tuple[Thunk, ...]]
    ) -> Iterator[Thunk]:
        """A while: initial state to its place, condition and body."""
        condition, body = self.callees[number, instruction]
        start = self.leaves(number, instruction.operands[0])
        state = self.leaves(number, instruction)
        yield from self.moved(instruction.name, start, state)
        for callee in (condition, body):
            assert self.given(callee) == state, instruction.name
        root = self.sites[body].computation.root
        assert self.leaves(body, root) == state, instruction.name
        if not done[body]:
            return  # The state stays as it is: the loop does not run, or would never end.
        test = self.leaves(condition, self.sites[condition].computation.root)
        trips, counter = known_trip_count(instruction), self.counter_of(instruction)
        counted = _counted(counter, instruction, state)
        name = instruction.name
        yield WhileThunk(name, done[condition], test[0], done[body], trips, counter, counted)

    def conditional(
        self, number: int, instruction: Instruction, done: Mapping[int, tuple[Thunk, ...]]
    ) -> Iterator[Thunk]:
        """A conditional: a branch each, whose results end where those of the conditional lie."""
        results = self.leaves(number, instruction)
        branches = []
        for callee in self.callees[number, instruction]:
            made = self.leaves(callee, self.sites[callee].computation.root)
            after = self.moved(instruction.name, made, results)
            branches.append((*done[callee], *after))
        selector = self.leaves(number, instruction.operands[0])[0]
        is_predicate = instruction.attributes_as(Conditional).is_predicated
        yield ConditionalThunk(instruction.name, selector, is_predicate, tuple(branches))


def _counted(
    counter: LoopCounter | None, loop: Instruction, state: Sequence[BufferSlice]
) -> tuple[BufferSlice, ...]:
    """Where the numbers lie that say how often a loop runs."""
    if counter is None or counter.trips is not None:
        return ()
    elements = [counter.element]
    elements += [] if counter.limit_element is None else [counter.limit_element]
    arrays = [index for index, leaf in loop.shape.leaves() if leaf.is_array]
    return tuple([state[arrays.index((x,))] for x in elements])


_Rule = Callable[[_Writer, int, Instruction, Mapping[int, tuple[Thunk, ...]]], Iterator[Thunk]]

_CONTROL: Final[dict[Opcode, _Rule]] = {
    Opcode.CALL: _Writer.call,
    Opcode.CUSTOM_CALL: _Writer.custom_call,
    Opcode.RNG_GET_AND_UPDATE_STATE: _Writer.custom_call,
    Opcode.ASYNC_START: _Writer.call,
    Opcode.WHILE: _Writer.loop,
    Opcode.CONDITIONAL: _Writer.conditional,
    **dict.fromkeys(BETWEEN_DEVICES, _Writer.collective),
}
