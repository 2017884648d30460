"""Kernels that run once more behind the peak, next to those that read their results there.

Computing a value in its readers may be dear: a convolution meets each element at every tap of its
window. Where it is stored for a short time, in a kernel of its own, it is computed only once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Final, NamedTuple, final

from lowtide.analysis.dataflow import dataflow
from lowtide.analysis.memory_profile import lifetimes
from lowtide.cost.machine import Machine
from lowtide.cost.module_times import module_times, total_seconds
from lowtide.fusion.merging import calls_of
from lowtide.fusion.order_memory import ModuleMemory, OrderMemory, Scheduler
from lowtide.fusion.peak import tops
from lowtide.fusion.target_record import CPU_TARGET, TargetRecord
from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.attributes import Fusion
from lowtide.ir.traversal import running_computations
from lowtide.ops.table import TABLE
from lowtide.passes.interface import Pass

_LEAST_SHARE: Final = 1 / 256
"""Values that are a smaller part of the peak are left alone."""

_RATE: Final = 0.5
"""A part of the peak may cost at most this part of it of the time."""

_ROUNDS: Final = 4
"""How often the entry is scheduled to look for its peak."""

_AGAIN: Final = "runs_again"
"""The attribute of a kernel that runs once more: nothing is to merge it with the first one."""

DEFAULT_SHARE: Final = 0.03
"""Which part of the time of a run may be spent where nobody says so."""


class _Again(NamedTuple):
    """A kernel that may run once more, for which readers, and what lives less at the peak then.

    `place` is where it runs first.
    """

    kernel: Instruction
    readers: tuple[Instruction, ...]
    gained: int
    place: int


def run_kernels_late(
    module: Module,
    scheduler: Scheduler | None = None,
    time_share: float = DEFAULT_SHARE,
    target: TargetRecord = CPU_TARGET,
) -> int:
    """Run kernels of the entry once more where that lowers the peak; return how many do.

    The `scheduler` says where the peak is, by default the order of the text. All of them take at
    most the part `time_share` of the time of a run.
    """
    return _LateKernels(module, scheduler, target.machine).run(time_share) if time_share > 0 else 0


@final
class _LateKernels:
    """The entry of a module while kernels of it are run once more; what it runs stays as it is."""

    def __init__(self, module: Module, scheduler: Scheduler | None, machine: Machine) -> None:
        run = running_computations(module)
        self.memory = ModuleMemory(module, run, calls_of(module), scheduler)
        self.entry, self.machine = module.entry, machine

    def run(self, time_share: float) -> int:
        """Run kernels again at each peak, as long as that lowers the highest one."""
        count, left = 0, inf
        for _ in range(_ROUNDS):
            base = self.memory.of(self.entry)
            found = [x for at in tops(base.steps) for x in _Candidates(base).at(at)]
            if not found:
                break
            own, whole = self._times()
            left = min(left, time_share * whole)
            chosen = _chosen(found, own, left, _RATE * whole / base.peak)
            made = self._run_again(chosen)
            self.memory.update(self.entry)
            if self.memory.of(self.entry).peak >= base.peak:
                self._undo(made)
                break
            left -= sum([own[x.kernel] for x in chosen])
            count += len(made)
        return count

    def _times(self) -> tuple[dict[Instruction, float], float]:
        """The seconds of each instruction of the entry, and of a run of all."""
        flows = dataflow(self.entry)
        times = module_times(flows, self.machine)
        sequences = {x: range(len(flow.nodes)) for x, flow in flows.items()}
        own = times[self.entry].own.tolist()
        by_instruction = dict(zip(flows[self.entry].nodes, own, strict=True))
        return by_instruction, total_seconds(sequences, times)[self.entry]

    def _run_again(self, chosen: Sequence[_Again]) -> dict[Instruction, _Again]:
        """The kernels that run once more, each of what others of them made anew."""
        made: dict[Instruction, _Again] = {}
        anew: dict[Instruction, Instruction] = {}
        for found in chosen:
            kernel = found.kernel
            operands = tuple([anew.get(x, x) for x in kernel.operands])
            again = self.entry.add_like(kernel, operands)
            known = again.annotations
            mark = (*known.frontend_attributes, (_AGAIN, again.name))
            again.set_annotations(replace(known, frontend_attributes=mark))
            for reader in found.readers:
                _read_instead(reader, kernel, again)
            made[again], anew[kernel] = found, again
        return made

    def _undo(self, made: Mapping[Instruction, _Again]) -> None:
        for again, found in reversed(list(made.items())):
            for reader in found.readers:
                _read_instead(reader, again, found.kernel)
            self.entry.remove(again)


def _chosen(
    found: Sequence[_Again], own: Mapping[Instruction, float], most: float, per_byte: float
) -> list[_Again]:
    """What takes least time for a byte, each kernel once, in at most so many seconds together.

    They come in the order in which they run first.
    """
    chosen: dict[Instruction, _Again] = {}
    for x in sorted(found, key=lambda x: own[x.kernel] / x.gained):
        seconds = own[x.kernel]
        if x.kernel in chosen or seconds > x.gained * per_byte or seconds > most:
            continue
        chosen[x.kernel] = x
        most -= seconds
    return sorted(chosen.values(), key=lambda x: x.place)


@final
class _Candidates:
    """The kernels of an order whose results live over some position, and may be made behind it."""

    def __init__(self, base: OrderMemory) -> None:
        graph = base.graph
        self.nodes, self.least = base.flow.nodes, base.peak * _LEAST_SHARE
        self.position, self.first, self.last = lifetimes(graph, base.order)
        self.bytes, self.consumers = graph.buffer_bytes.tolist(), graph.consumers.rows()
        self.live_out, self.producer = graph.live_out, graph.producer.tolist()
        self.reads = base.flow.reads

    def at(self, at: int) -> Iterator[_Again]:
        """Yield what is read in front of a position and behind it, made of what lives anyway."""
        spanning = (self.first < at) & (self.last > at) & ~self.live_out
        for buffer in spanning.nonzero()[0].tolist():
            node, consumers = self.producer[buffer], self.consumers[buffer]
            if node < 0 or self.bytes[buffer] < self.least or not _may_run_again(self.nodes[node]):
                continue
            kernel = self.nodes[node]
            late = [x for x in consumers if self.position[x] > at]
            readers = tuple([self.nodes[x] for x in late if kernel in self.nodes[x].operands])
            if len(late) == len(consumers) or len(readers) != len(late):
                continue
            read = [x for x in dict.fromkeys(self.reads[node]) if self.last[x] <= at]
            gained = self.bytes[buffer] - sum([self.bytes[x] for x in read])
            if gained >= self.least:
                yield _Again(kernel, readers, gained, int(self.position[node]))


def _may_run_again(x: Instruction) -> bool:
    """Whether an instruction is a kernel of loops over its result, and nothing else."""
    if not x.shape.is_array or x.has_control_edges:
        return False
    if x.opcode is Opcode.FUSION:
        return x.attributes_as(Fusion).kind == "kLoop"
    return TABLE[x.opcode].elementwise and x.opcode is not Opcode.COPY


def _read_instead(reader: Instruction, old: Instruction, new: Instruction) -> None:
    reader.set_operands(tuple([new if x is old else x for x in reader.operands]))


PASSES: Final = (
    Pass(
        "late-kernels",
        run_kernels_late,
        "Runs kernels once more for late readers, where their results would live at the peak.",
        before="""
HloModule m

ENTRY main {
  x = f32[512,512] parameter(0)
  e = f32[512,512] negate(x)
  y = f32[1024,512] concatenate(e, e), dimensions={0}
  z = f32[2048,512] concatenate(y, y), dimensions={0}
  all = f32[2048,2048] dot(z, z), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  some = f32[512,512] slice(all), slice={[0:512], [0:512]}
  ROOT product = f32[512,512] dot(some, e), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
""",
        after="""
HloModule m

ENTRY main {
  x = f32[512,512] parameter(0)
  e = f32[512,512] negate(x)
  y = f32[1024,512] concatenate(e, e), dimensions={0}
  z = f32[2048,512] concatenate(y, y), dimensions={0}
  all = f32[2048,2048] dot(z, z), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  some = f32[512,512] slice(all), slice={[0:512], [0:512]}
  e.1 = f32[512,512] negate(x), frontend_attributes={runs_again="e.1"}
  ROOT product = f32[512,512] dot(some, e.1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
""",
    ),
)
