"""Times of the instructions of a module, by the figures of a machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, final

import numpy as np
import numpy.typing as npt

from lowtide.analysis.call_graph import CallRole, call_sites
from lowtide.analysis.dataflow import ComputationDataflow, Dataflow, dataflow
from lowtide.cost.kernels import compute_seconds, move_seconds
from lowtide.cost.machine import Machine
from lowtide.ir import Computation, Instruction, Opcode
from lowtide.ir.opcode import CALLERS
from lowtide.ops.backend_config import known_trip_count
from lowtide.ops.cost import Memo, cost
from lowtide.records import dataclass

Float64Array = npt.NDArray[np.float64]

_CONTRACTIONS: Final = frozenset(
    {
        Opcode.CHOLESKY,
        Opcode.CONVOLUTION,
        Opcode.DOT,
        Opcode.FFT,
        Opcode.RAGGED_DOT,
        Opcode.SCALED_DOT,
        Opcode.TRIANGULAR_SOLVE,
    }
)
_FREE: Final = frozenset(
    {Opcode.BITCAST, Opcode.CONSTANT, Opcode.GET_TUPLE_ELEMENT, Opcode.PARAMETER, Opcode.TUPLE}
)


@dataclass(frozen=True, slots=True)
class NodeRun:
    """Node `node` runs a computation `count` times; of a conditional's, only the longest counts.

    `is_certain` says that it runs at least so often.
    """

    node: int
    callee: Computation
    count: int
    is_certain: bool


@dataclass(frozen=True, eq=False, slots=True)
class Times:
    """Seconds of each node of a computation without those of what it runs, and what it runs."""

    own: Float64Array
    runs: tuple[NodeRun, ...]

    def with_callees(self, totals: Mapping[Computation, float]) -> Float64Array:
        """Return the seconds of each node, given those of one run of each callee."""
        seconds = self.with_branches(totals)
        for run in self.runs:
            if run.is_certain:
                seconds[run.node] += run.count * totals[run.callee]
        return seconds

    def with_branches(self, totals: Mapping[Computation, float]) -> Float64Array:
        """Return the seconds of each node with those of callees only where it may run another."""
        branches: dict[int, float] = {}
        for run in self.runs:
            if not run.is_certain:
                branches[run.node] = max(branches.get(run.node, 0.0), totals[run.callee])
        seconds = self.own.copy()
        for node, longest in branches.items():
            seconds[node] += longest
        return seconds


def module_times(flows: Dataflow, machine: Machine) -> dict[Computation, Times]:
    """Return the times of all computations of a module, callees first.

    A kernel takes the time to start it, to move what it reads and writes, and to compute. A loop
    whose trip count is not known counts as one iteration.
    """
    work = _Work(machine)
    found = {}
    for computation, flow in flows.items():
        kernels = zip(flow.nodes, flow.makes, strict=True)
        own = [work.own(x) if makes else 0.0 for x, makes in kernels]
        found[computation] = Times(np.array(own, np.float64), _runs(flow))
    return found


def run_counts(flows: Dataflow, times: Mapping[Computation, Times]) -> dict[Computation, int]:
    """Return how often each computation runs at least, by trip counts; the entry runs once.

    Branches of a conditional may not run at all: 0.
    """
    computations = list(flows)
    counts = dict.fromkeys(computations, 0)
    counts[computations[-1]] = 1
    for computation in reversed(computations):
        for run in times[computation].runs:
            if run.is_certain:
                counts[run.callee] += counts[computation] * run.count
    return counts


def total_seconds(
    sequences: Mapping[Computation, Sequence[int]], times: Mapping[Computation, Times]
) -> dict[Computation, float]:
    """Return the seconds of one run of each computation, callees first, by what it runs in turn."""
    totals: dict[Computation, float] = {}
    for computation, sequence in sequences.items():
        seconds = times[computation].with_callees(totals)
        totals[computation] = float(seconds[list(sequence)].sum())
    return totals


def run_seconds(root: Computation, machine: Machine) -> float:
    """Return the seconds of one run of a computation that runs each instruction once."""
    flows = dataflow(root)
    sequences = {computation: range(len(flow.nodes)) for computation, flow in flows.items()}
    return total_seconds(sequences, module_times(flows, machine))[root]


# -- one instruction -----------------------------------------------------------------------------


@final
class _Work:
    """The times of instructions by themselves; a body that many kernels call is looked at once."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._costs: Memo = {}
        self._seconds: dict[Computation, float] = {}

    def own(self, instruction: Instruction) -> float:
        """Return the time of an instruction; what control flow runs does not count here."""
        opcode, machine = instruction.opcode, self._machine
        if opcode in _FREE or opcode in CALLERS:
            return 0.0
        if opcode is Opcode.FUSION:
            computing = self._body_seconds(instruction.called_computations[0])
        else:
            computing = self._computing(instruction)
        moved = int(self._moved(instruction))
        return machine.launch_seconds + move_seconds(moved, machine) + computing

    def _moved(self, instruction: Instruction) -> float:
        if instruction.opcode is not Opcode.CUSTOM_CALL:
            return cost(instruction, self._costs).bytes_accessed
        shapes = [instruction.shape, *[x.shape for x in instruction.operands]]
        return sum([leaf.nbytes for shape in shapes for _, leaf in shape.leaves()])

    def _computing(self, instruction: Instruction) -> float:
        flops = cost(instruction, self._costs).flops
        if instruction.opcode in _CONTRACTIONS:
            return flops * self._machine.flop_seconds
        elements = compute_seconds(instruction, self._machine)
        return max(elements, flops * self._machine.element_seconds)

    def _body_seconds(self, body: Computation) -> float:
        """The time to compute what a fused computation has; fusions within it count, too."""
        if body in self._seconds:
            return self._seconds[body]
        total = 0.0
        stack = [body]
        while stack:
            for x in stack.pop().instructions.values():
                if x.opcode is Opcode.FUSION:
                    stack.append(x.called_computations[0])
                else:
                    total += self._computing(x)
        self._seconds[body] = total
        return total


# -- what a node runs ----------------------------------------------------------------------------


def _runs(flow: ComputationDataflow) -> tuple[NodeRun, ...]:
    runs = []
    for instruction, role, callee in call_sites(flow.computation):
        certain = role is not CallRole.BRANCH
        runs.append(NodeRun(flow.number[instruction], callee, _count(instruction, role), certain))
    return tuple(runs)


def _count(instruction: Instruction, role: CallRole) -> int:
    """How often an instruction runs a callee; the condition of a loop once more than the body."""
    if instruction.opcode is not Opcode.WHILE:
        return 1
    count = known_trip_count(instruction)
    if count is None:
        from lowtide.analysis.loop_trip_count import trip_count  # Most loops say it themselves.

        found = trip_count(instruction)
        count = 1 if found is None else found.count
    return count + 1 if role is CallRole.CONDITION else count
