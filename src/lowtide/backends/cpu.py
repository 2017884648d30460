"""The CPU: kernels compiled by LLVM, programs that run on a team of threads."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, final

from lowtide.backends.build import constant_bytes
from lowtide.backends.interface import Progress
from lowtide.backends.kept import kept, target_of
from lowtide.codegen.bundles.bundles import bundled
from lowtide.codegen.cpu.kernels import Kernels
from lowtide.codegen.program import NO_CODE, thunks_of
from lowtide.compiler import ModulePlan
from lowtide.files.object_cache import ObjectCache
from lowtide.fusion.target_record import CPU_ALONE, CPU_TARGET, TargetRecord
from lowtide.ir import Instruction
from lowtide.ir.opcode import CALLERS
from lowtide.ir.thunk import kernels_of_bundles
from lowtide.llvm import lapack
from lowtide.llvm.objects import COMMON, common_object, compile_modules, environment
from lowtide.llvm.routines import routines_of
from lowtide.llvm.target import Target, host_target
from lowtide.options import Options
from lowtide.runtime.cpu.program import NativeProgram, interface_of
from lowtide.runtime.cpu.results import PLACED_BYTES

if TYPE_CHECKING:
    from lowtide.ir.buffer import BufferAssignment
    from lowtide.tuning.tuner import Tuner

_SMALL_BYTES: Final = 64
"""Constants of so many bytes are written into the code of bundles."""


@final
class CpuBackend:
    """A processor and how many of its threads run a program.

    Machine code is taken from `cached`, where it is there. A `tuner` measures ways to run kernels.
    With `isolate` LLVM runs in processes of its own.
    """

    def __init__(
        self,
        threads: int,
        target: Target | None = None,
        cached: ObjectCache | None = None,
        tuner: Tuner | None = None,
        *,
        isolate: bool = False,
    ) -> None:
        self.threads = threads
        self.target = target or host_target()
        self.cached = cached or ObjectCache(None)
        self._tuner = tuner
        self._isolate = isolate

    @property
    def record(self) -> TargetRecord:
        """The same for all processors: equal options give equal programs where SciPy is as well."""
        return CPU_TARGET if lapack.is_installed() else CPU_ALONE

    @property
    def environment(self) -> str:
        """What besides a module and its options decides about a program."""
        return f"{environment(self.target)} lapack={lapack.is_installed()}"

    def kernels(self) -> CpuKernels:
        """Return the kernels that the cost model takes for the fastest, for one module."""
        kernels = Kernels(self.target, self.threads)
        return CpuKernels(kernels, self.cached, isolate=self._isolate)

    def tuned_kernels(self) -> Iterator[CpuKernels]:
        """Yield kernels chosen by measuring: any, then those with no more scratch than usual."""
        if self._tuner is None:
            return
        for lean in (False, True):
            yield TunedKernels(self.kernels(), self._tuner, lean=lean)


def cpu_backend(options: Options) -> CpuBackend:
    """Return the processor that options ask for, with what is kept for it."""
    target, threads = target_of(options), options.thread_count
    objects = kept("objects", options)
    if not options.autotune:
        return CpuBackend(threads, target, objects, isolate=options.isolate)
    from lowtide.tuning.tuner import Tuner  # Programs that are not tuned load nothing.

    tuner = Tuner(target, threads, objects, kept("times", options))
    return CpuBackend(threads, target, objects, tuner, isolate=options.isolate)


class CpuKernels:
    """The kernels of a module for a processor; see `interface.KernelSet`."""

    def __init__(self, kernels: Kernels, cached: ObjectCache, *, isolate: bool = False) -> None:
        self.kernels = kernels
        self._cached = cached
        self._isolate = isolate

    def has_kernel(self, fusion: Instruction) -> bool:
        """Return whether one kernel can run a fusion."""
        return self.kernels.has_plan(fusion)

    def scratch_bytes(self, instruction: Instruction) -> int:
        """Return the bytes that an instruction needs while it runs."""
        if instruction.opcode in NO_CODE or instruction.opcode in CALLERS:
            return 0
        return self.kernels.scratch_bytes(instruction)

    def program(self, plan: ModulePlan, progress: Progress | None = None) -> NativeProgram:
        """Return the native program of a plan that has the scratch of these kernels."""
        assert plan.module.schedule is not None
        kernels = self.kernels
        sequences = plan.module.schedule.sequences
        ways = kernels.number, kernels.host_call, kernels.collective
        assignment = _placed(plan.assignment)
        thunks = thunks_of(assignment, sequences, *ways)
        written = kernels.write()
        constants = constant_bytes(plan)
        small = {i: x.tobytes() for i, x in constants if x.size <= _SMALL_BYTES}
        found = bundled(thunks, written.entries, written.texts, small, assignment.outputs)
        parts = frozenset() if self._isolate else kernels_of_bundles(found.thunks)
        alone = [x for number, x in enumerate(written.texts) if number not in parts]
        make = partial(compile_modules, isolated=self._isolate)
        single, bundles, common = _without_common(_shared(alone), found.texts)
        objects = make(single, kernels.target, self._cached, 0, progress)
        objects += make(bundles, kernels.target, self._cached, whole=True)
        objects += [common_object(x, kernels.target, self._cached, self._isolate) for x in common]
        if routines := routines_of(objects, kernels.target):
            objects += make([routines], kernels.target, self._cached)
        return NativeProgram(
            plan.module.name,
            kernels.target,
            kernels.threads,
            found.thunks,
            written.entries,
            tuple(dict.fromkeys(objects)),
            interface_of(plan.module, assignment),
            constants,
            plan.module.replica_count,
            plan.module.num_partitions,
            tuple([(x, zlib.compress(written.texts[x].encode(), 1)) for x in sorted(parts)]),
        )


def _shared(texts: list[str]) -> list[str]:
    """Modules, each once, and those of functions that several of them have in common."""
    different = list(dict.fromkeys(texts))
    if len(different) < 2:
        return different
    from lowtide.llvm.sharing import with_shared_functions  # Small programs do not load it.

    left, shared = with_shared_functions(different)
    return [*left, *shared]


def _without_common(
    single: Sequence[str], bundles: Sequence[str]
) -> tuple[list[str], list[str], list[str]]:
    """The modules of kernels and of bundles without what all programs have in common, and that."""
    if not any(COMMON in x for x in (*single, *bundles)):
        return [*single], [*bundles], []
    from lowtide.llvm.sharing import without_common  # Most small programs do not load it.

    found = [without_common(x) for x in (*single, *bundles)]
    left = [x for x, _ in found]
    common = dict.fromkeys([x for _, modules in found for x in modules])
    return left[: len(single)], left[len(single) :], list(common)


def _placed(assignment: BufferAssignment) -> BufferAssignment:
    """An assignment in which large results are allocations of their own where they can be."""
    if not any(x.nbytes >= PLACED_BYTES for x in assignment.outputs):
        return assignment
    from lowtide.runtime.cpu.own_results import with_own_results  # Small programs do not load it.

    return with_own_results(assignment, PLACED_BYTES)


@final
class TunedKernels(CpuKernels):
    """Kernels that are tuned when the scratch of the first one is asked for.

    That is when the module has been fused and scheduled, and nothing has been packed.
    """

    def __init__(self, plain: CpuKernels, tuner: Tuner, *, lean: bool) -> None:
        super().__init__(plain.kernels, plain._cached)
        self._tuner: Tuner | None = tuner
        self._lean = lean

    def scratch_bytes(self, instruction: Instruction) -> int:
        """Return the bytes that an instruction needs while it runs in the way that was chosen."""
        if self._tuner is not None:
            tuner, self._tuner = self._tuner, None
            tuner.tune(instruction.parent.module, self.kernels, lean=self._lean)
        return super().scratch_bytes(instruction)
