"""Modules compiled for graphics processors, on machines that need have none."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any, Final

from lowtide import compiler
from lowtide.backends.build import Build, build
from lowtide.backends.gpu import GpuBackend
from lowtide.backends.interface import Tell
from lowtide.backends.kept import kept
from lowtide.ir import Module
from lowtide.ir.errors import LowtideError
from lowtide.ir.printer import to_text
from lowtide.ir.thunk import KernelThunk, Thunk, all_thunks
from lowtide.options import Options
from lowtide.records import dataclass
from lowtide.runtime.gpu.assembling import Cubin, KernelResources
from lowtide.runtime.gpu.emulator.running import EmulatedProgram
from lowtide.runtime.gpu.program import GpuProgram

GPU_PREFIX: Final = "cuda"
"""How the names of such targets begin."""

SCHEMA: Final = "lowtide.gpu_program/1"

_NO_TIME: Final = (1980, 1, 1, 0, 0, 0)
"""The date of all files: equal programs are equal bytes."""


class TargetError(LowtideError, ValueError):
    """A target that is not known."""


def is_gpu_target(name: str) -> bool:
    """Return whether the name of a target is that of a graphics processor, known or not."""
    return name.partition(":")[0] == GPU_PREFIX


def gpu_backend(name: str) -> GpuBackend:
    """Return a target by name, "cuda:sm_90"; raises TargetError for one that is not known."""
    try:
        return GpuBackend(name)
    except ValueError as error:
        raise TargetError(str(error)) from None


def planned_for_gpu(options: compiler.PlanOptions, name: str) -> compiler.PlanOptions:
    """Return options by which modules are planned for a target; raises TargetError."""
    return replace(options, target=gpu_backend(name).record)


def machine_note(name: str) -> str:
    """Return in words which machine's figures a target is planned by; raises TargetError."""
    machine = gpu_backend(name).record.machine
    return f"planned for {name} by figures of {machine.name}: modelled, nothing was measured"


@dataclass(frozen=True, slots=True, eq=False)
class GpuExecutable:
    """A program for a graphics processor: what it runs, its plan, and its machine code."""

    program: GpuProgram
    built: Build[GpuProgram]
    cubin: Cubin

    @property
    def report(self) -> dict[str, Any]:
        """The memory report of the plan."""
        return self.built.plan.report.to_json()

    def table(self) -> Iterator[tuple[str, int, str, KernelResources]]:
        """Yield template, runs, symbol and resources of each function, in order."""
        runs = [0] * len(self.program.kernels)
        for thunk in all_thunks(self.program.thunks):
            if isinstance(thunk, KernelThunk):
                runs[thunk.kernel] += 1
        for kernel, count in zip(self.program.kernels, runs, strict=True):
            for launch in kernel.launches:
                found = self.cubin.resources[launch.function]
                yield kernel.template, count, launch.function, found

    def serialize(self) -> bytes:
        """Return an archive of the program: its thunks, machine code, PTX, constants and module."""
        document = {
            "schema": SCHEMA,
            "target": self.program.target.cpu,
            "kernels": [asdict(x) for x in self.program.kernels],
            "allocations": [
                {"kind": x.kind.value, "bytes": x.nbytes, "argument": x.argument}
                for x in self.program.interface.memories
            ],
            "thunks": [_thunk_document(x) for x in self.program.thunks],
            "memory": {name: x for name, x in self.report.items() if name != "seconds"},
        }
        files = {
            "program.json": json.dumps(document, indent=1, default=str).encode(),
            "kernels.cubin": self.cubin.image,
            "kernels.ptx": self.program.ptx().encode(),
            "module.hlo": to_text(self.built.plan.module).encode(),
            **{f"constants/{i}.bin": x.tobytes() for i, x in self.program.constants},
        }
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                archive.writestr(zipfile.ZipInfo(name, _NO_TIME), content)
        return stream.getvalue()


def _thunk_document(thunk: Thunk) -> dict[str, Any]:
    """A thunk as JSON, those within it too."""
    return {"kind": type(thunk).__name__.removesuffix("Thunk").lower(), **asdict(thunk)}


def compile_for_gpu(
    module: Module, name: str, options: Options, tell: Tell | None = None
) -> GpuExecutable:
    """Return a module, which is not changed, as a program for a graphics processor.

    It needs no such processor, and does not run. Raises TargetError, UnsupportedOpError for what
    the target does not have, AssemblerError where there is no ptxas, OverMemoryError where no plan
    is known to fit `options.memory`, and what `compiler.plan` raises.
    """
    built = built_for_gpu(module, name, options, tell)
    return GpuExecutable(built.program, built, built.program.assembled(kept("cubins", options)))


def built_for_gpu(
    module: Module, name: str, options: Options, tell: Tell | None = None
) -> Build[GpuProgram]:
    """Return a program that is not assembled; raises as `compile_for_gpu`, which needs ptxas."""
    planned = compiler.PlanOptions.of(options)
    return build(module, gpu_backend(name), planned, options.memory, None, tell)


def emulated(module: Module, name: str, options: Options) -> EmulatedProgram:
    """Return a module's program for a graphics processor, to be run on this host instead.

    Raises as `built_for_gpu`.
    """
    return EmulatedProgram(built_for_gpu(module, name, options).program)
