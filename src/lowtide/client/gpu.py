"""Modules compiled for graphics processors, on machines that need have none."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any, Final, final

from lowtide import compiler
from lowtide.backends.build import Build, build
from lowtide.backends.gpu import GpuBackend
from lowtide.backends.interface import Tell
from lowtide.backends.kept import kept
from lowtide.client.executable.device_parts import DeviceParts, device_parts
from lowtide.client.executable.on_devices import on_threads
from lowtide.emulator.device import EmulatedDriver, emulated_devices
from lowtide.evaluator.values import value_leaves
from lowtide.ir import Module
from lowtide.ir.errors import LowtideError
from lowtide.ir.gpu_names import EMULATED, GPU_PREFIX
from lowtide.ir.printer import to_text
from lowtide.ir.thunk import KernelThunk, Thunk, all_thunks
from lowtide.options import Options
from lowtide.records import dataclass
from lowtide.runtime.cpu.program import nested
from lowtide.runtime.devices.rendezvous import current_participant
from lowtide.runtime.gpu.assembling import Cubin, KernelResources
from lowtide.runtime.gpu.cuda import CudaDriver
from lowtide.runtime.gpu.driver import Driver
from lowtide.runtime.gpu.execution import LoadedGpuProgram
from lowtide.runtime.gpu.program import GpuProgram

SCHEMA: Final = "lowtide.gpu_program/1"

_NO_TIME: Final = (1980, 1, 1, 0, 0, 0)
"""The date of all files: equal programs are equal bytes."""


class TargetError(LowtideError, ValueError):
    """A target that is not known."""


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
    """Return a program that is not assembled; raises as `compile_for_gpu`, which needs ptxas.

    Of a module with shardings that is the program of one device.
    """
    return _built(module, name, options, tell)[0]


def _built(
    module: Module, name: str, options: Options, tell: Tell | None
) -> tuple[Build[GpuProgram], DeviceParts]:
    """The program of each device, and how whole arrays lie on them."""
    planned, parts = compiler.PlanOptions.of(options), device_parts(module)
    return build(parts.module, gpu_backend(name), planned, options.memory, None, tell), parts


class _Planned:
    """What the plan of a program says of it."""

    _built: Build[GpuProgram]

    @property
    def name(self) -> str:
        """The name of the module."""
        return self._built.program.name

    @property
    def memory(self) -> dict[str, Any]:
        """What a call needs on each device, in the schema "lowtide.memory/1"; sizes in bytes."""
        return self._built.plan.report.to_json()

    def as_text(self) -> str:
        """Return the scheduled HLO."""
        return to_text(self._built.plan.module)

    @property
    def arena_bytes(self) -> int:
        """The bytes of the arena that a call needs on each device."""
        return int(self.memory["ladder"]["arena_bytes"])


@final
class DevicesExecutable(_Planned):
    """A program of several graphics processors, or emulated ones, each of which has a thread.

    `parts` say how whole arrays lie on them, if that is known.
    """

    def __init__(
        self, built: Build[GpuProgram], drivers: Sequence[Driver], parts: DeviceParts
    ) -> None:
        self._built, self._parts = built, parts
        self._programs = [LoadedGpuProgram(built.program, x) for x in drivers]
        self.device = f"{len(drivers)} times {drivers[0].name}"
        """What the devices are called."""

    def __call__(self, *arrays: Any) -> Any:
        """Return the whole results of whole arrays, which are cut as the module says.

        Raises InputError where an array does not fit, or nobody knows how they are cut, and what
        `run` raises.
        """
        found = self.run(self._parts.dealt(arrays))
        whole = self._parts.whole([value_leaves(x) for x in found])
        return nested(self._built.program.interface.structure, whole)

    execute = __call__

    def run(self, arguments: Sequence[Sequence[Any]]) -> list[Any]:
        """Return what each device computes of its own arguments.

        Raises what the first device to fail raises, and RendezvousError where one waits for ever.
        """
        return on_threads(self._built.program, self._on_own_device, arguments)

    def _on_own_device(self, *arrays: Any) -> Any:
        participant = current_participant()
        assert participant is not None
        return self._programs[participant.number](*arrays)

    def close(self) -> None:
        """Give the memory on the devices back; the program does not run afterwards."""
        for program in self._programs:
            program.close()

    def __repr__(self) -> str:
        total = int(self.memory["total_bytes"])
        return f"<{self.name} for {self.device}: {total:,} bytes each>"


@final
class DeviceExecutable(_Planned):
    """A program on a graphics processor, or on one that is emulated; a call at a time runs."""

    def __init__(self, built: Build[GpuProgram], driver: Driver) -> None:
        self._built = built
        self._program = LoadedGpuProgram(built.program, driver)
        self.device = driver.name
        """What the device is called."""

    def __call__(self, *arrays: Any, keep: bool = False) -> Any:
        """Return the results for the leaves of the parameters, depth first, as new arrays.

        They are nested as the root's shape is. With `keep` they stay on the device, where calls
        take them from, and arrays of other libraries that have `__cuda_array_interface__` or
        DLPack. Raises InputError where an argument does not fit, and DriverError where the device
        fails.
        """
        return self._program(*arrays, keep=keep)

    execute = __call__

    def close(self) -> None:
        """Give the memory on the device back; the program does not run afterwards."""
        self._program.close()

    def __repr__(self) -> str:
        total = int(self.memory["total_bytes"])
        return f"<{self.name} for {self.device}: {total:,} bytes>"


def compile_for_device(
    module: Module, options: Options, tell: Tell | None = None
) -> DeviceExecutable | DevicesExecutable:
    """Return a module, which is not changed, as a program on the device that the options name.

    One for several devices takes as many, the first ones there are. Raises what `compile_for_gpu`
    does, and DriverError where there is no such device, or it runs no code of the architecture; on
    one that is emulated nothing is assembled.
    """
    if options.target == EMULATED:
        return emulated(module, options.target, options, tell)
    driver = CudaDriver(kept("cubins", options))
    architecture = driver.architecture
    name = options.target if options.target != GPU_PREFIX else f"{GPU_PREFIX}:{architecture}"
    driver.calls.check_runs(gpu_backend(name).target.cpu)
    built, parts = _built(module, name, options, tell)
    if not built.program.first_collective:
        return DeviceExecutable(built, driver)
    others = [CudaDriver(kept("cubins", options), i) for i in range(1, parts.devices)]
    return DevicesExecutable(built, [driver, *others], parts)


def emulated(
    module: Module, name: str, options: Options, tell: Tell | None = None
) -> DeviceExecutable | DevicesExecutable:
    """Return a module's program for graphics processors that are emulated on this host.

    Raises as `built_for_gpu`.
    """
    built, parts = _built(module, name, options, tell)
    if not built.program.first_collective:
        return DeviceExecutable(built, EmulatedDriver())
    return DevicesExecutable(built, emulated_devices(parts.devices), parts)
