"""The backend that makes an object of a module, in place of a program of this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, final

from lowtide.backends.build import constant_bytes
from lowtide.backends.cpu import CpuKernels
from lowtide.backends.interface import Progress
from lowtide.codegen.aot.walk import AllocationHome, AotMemory, Home, walk_text
from lowtide.codegen.cpu.kernels import Kernels
from lowtide.codegen.program import thunks_of
from lowtide.compiler import ModulePlan
from lowtide.files.object_cache import ObjectCache
from lowtide.fusion.target_record import CPU_ALONE, TargetRecord
from lowtide.ir import Instruction, Module
from lowtide.ir.errors import LowtideError, UnsupportedOpError
from lowtide.ir.thunk import KernelThunk, Thunk, all_thunks, collective_thunks, host_calls
from lowtide.llvm.elf import undefined_symbols
from lowtide.llvm.lapack import routines_called
from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.merging import merged
from lowtide.llvm.routines import routines_of
from lowtide.llvm.target import Target
from lowtide.records import dataclass
from lowtide.runtime.cpu.arena import LINE, PROVIDED
from lowtide.runtime.cpu.program import Interface, Memory, interface_of
from lowtide.runtime.cpu.results import whole_allocations

_INSTEAD: Final = "`lowtide run` and `lowtide.compile` run it"


@dataclass(frozen=True, slots=True)
class AotProgram:
    """A program in an object file, which C calls.

    `arena_bytes` is what the caller provides, in memory that begins at a multiple of 64. With
    `weights` the constants are not in the object: they are these bytes, which the caller passes as
    one more argument, behind the others; they begin at a multiple of 64, too. Names are those that
    a model has for its inputs and outputs; a module without a model has none.
    """

    name: str
    module: str
    target: Target
    interface: Interface
    arena_bytes: int
    constant_bytes: int
    object: bytes
    weights: bytes | None
    argument_names: tuple[str, ...] = ()
    result_names: tuple[str, ...] = ()

    @property
    def needs(self) -> tuple[str, ...]:
        """The functions that the object calls and does not define, sorted."""
        return undefined_symbols(self.object)


@final
class AotBackend:
    """A processor for which an object is made, on which one thread runs it.

    `name` is the prefix of the symbols. With `weights_apart` constants are not in the object.
    Nothing is known of the stack that it will have: scratch lies in the arena.
    """

    def __init__(self, target: Target, name: str, *, weights_apart: bool = False) -> None:
        self.target = replace(target, has_small_stack=True)
        self.name = name
        self.weights_apart = weights_apart

    @property
    def record(self) -> TargetRecord:
        """The same as for programs of this process, but that no library is there."""
        return CPU_ALONE

    def kernels(self) -> AotKernels:
        """Return the kernels for one module."""
        return AotKernels(self)

    def tuned_kernels(self) -> Iterator[AotKernels]:
        """Yield none: the processor is elsewhere."""
        yield from ()


@final
class AotKernels:
    """The kernels of a module for an object; see `interface.KernelSet`."""

    def __init__(self, backend: AotBackend) -> None:
        self._backend = backend
        self._kernels = Kernels(backend.target, 1)
        self._plain = CpuKernels(self._kernels, ObjectCache(None))

    def has_kernel(self, fusion: Instruction) -> bool:
        """Return whether one kernel can run a fusion."""
        return self._plain.has_kernel(fusion)

    def scratch_bytes(self, instruction: Instruction) -> int:
        """Return the bytes that an instruction needs while it runs."""
        return self._plain.scratch_bytes(instruction)

    def program(self, plan: ModulePlan, progress: Progress | None = None) -> AotProgram:
        """Return the object of a plan that has the scratch of these kernels.

        Raises UnsupportedOpError where the program calls functions of this process.
        """
        assert plan.module.schedule is not None
        kernels, backend = self._kernels, self._backend
        ways = kernels.number, kernels.host_call, kernels.collective
        thunks = thunks_of(plan.assignment, plan.module.schedule.sequences, *ways)
        written = kernels.write()
        _check_alone(plan.module.name, thunks, written.texts)
        interface = interface_of(plan.module, plan.assignment)
        constants = {x: y.tobytes() for x, y in constant_bytes(plan) if y.size}
        homes, arena_bytes = _homes(interface.memories, whole_allocations(interface))
        weights = None
        if backend.weights_apart:
            weights = _laid_out(constants, homes, len(interface.arguments))
        placed = whole_allocations(interface)
        copied = {i: x.place for i, x in enumerate(interface.results) if i not in placed}
        memory = AotMemory(homes, constants, copied)
        name = f"{backend.name}_run"
        text = walk_text(name, thunks, written.entries, written.texts, memory)
        return AotProgram(
            backend.name,
            plan.module.name,
            backend.target,
            interface,
            arena_bytes,
            sum(map(len, constants.values())),
            _object(text, backend.target),
            weights,
            _names(plan.module, "argument", len(interface.arguments)),
            _names(plan.module, "result", len(interface.results)),
        )


def _names(module: Module, kind: str, count: int) -> tuple[str, ...]:
    """The names that a front end left for a module's arguments or results; none if one misses."""
    known = dict(module.frontend_attributes)
    found = [known.get(f"{kind}_{number}") for number in range(count)]
    return tuple([x for x in found if x is not None]) if None not in found else ()


def _object(text: str, target: Target) -> bytes:
    """The object of a module, with the routines in it that LLVM would call."""
    compiler = KernelCompiler(target)
    code = compiler.object_code(text)
    routines = routines_of([code], target)
    return compiler.object_code(merged(text, [routines])) if routines else code


def _check_alone(module: str, thunks: Sequence[Thunk], texts: Sequence[str]) -> None:
    """Raise UnsupportedOpError where a program needs more than the code of its kernels."""
    for call in host_calls(thunks):
        what = f"calls {call.call.target!r}, a function of the process that runs it"
        raise _refused(module, call.name, what)
    for collective in collective_thunks(thunks):
        raise _refused(module, collective.name, "exchanges values with other devices")
    routines = [routines_called(x) for x in texts]
    for thunk in all_thunks(thunks):
        if isinstance(thunk, KernelThunk) and routines[thunk.kernel]:
            what = f"calls {routines[thunk.kernel][0]} of LAPACK"
            raise _refused(module, thunk.name, what)


def _refused(module: str, instruction: str, what: str) -> UnsupportedOpError:
    reason = "an object compiled ahead of time has nothing but its own code"
    return UnsupportedOpError(f"module {module}: %{instruction} {what}; {reason}. {_INSTEAD}")


def _homes(memories: Sequence[Memory], whole: set[int]) -> tuple[dict[int, AllocationHome], int]:
    """Of each allocation where it lies, and how many bytes the arena has.

    An argument that a result overwrites lies in the result's array. Raises LowtideError where it is
    not all of the result.
    """
    homes: dict[int, AllocationHome] = {}
    end = 0
    for index, memory in enumerate(memories):
        if memory.result >= 0 and memory.result in whole:
            source = memory.argument
            homes[index] = AllocationHome(Home.RESULT, memory.result, 0, source, memory.nbytes)
        elif memory.argument >= 0:
            if memory.result >= 0 and memory.nbytes:
                raise LowtideError(f"the plan puts more than result {memory.result} into its array")
            homes[index] = AllocationHome(Home.ARGUMENT, memory.argument)
        elif memory.kind in PROVIDED:
            homes[index] = AllocationHome(Home.ARENA, offset=end)
            end += -(-memory.nbytes // LINE) * LINE
        else:
            homes[index] = AllocationHome(Home.CONSTANT)
    return homes, end


def _laid_out(constants: dict[int, bytes], homes: dict[int, AllocationHome], number: int) -> bytes:
    """Take constants out of the object: one array, which is argument `number`."""
    room = bytearray()
    for index, values in constants.items():
        homes[index] = AllocationHome(Home.ARGUMENT, number, offset=len(room))
        room += values
        room += bytes(-len(values) % LINE)
    return bytes(room)
