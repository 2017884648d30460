"""The CUDA driver, by the package cuda-bindings: no toolkit is needed, only NVIDIA's driver.

It has not run on a device yet; its calls are held against the names of the package by a test.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, Final, final

import numpy as np

from lowtide.ir.gpu_names import GPU_ARCHITECTURES
from lowtide.runtime.cpu.program import Bytes
from lowtide.runtime.gpu.assembling import CubinCache
from lowtide.runtime.gpu.driver import DeviceMemoryError, DriverError
from lowtide.runtime.gpu.program import GpuProgram

_MAJOR, _MINOR = "COMPUTE_CAPABILITY_MAJOR", "COMPUTE_CAPABILITY_MINOR"

INSTALLING: Final = "`pip install lowtide[gpu]` installs it"


@final
class CudaDriver:
    """A device by its number; see `driver.Driver`.

    Raises DriverError where there is no package, no driver, or no such device.
    """

    def __init__(self, cached: CubinCache, number: int = 0) -> None:
        self._cuda = _bindings()
        self._cached = cached
        self._device = self._started(number)
        self._context = self._call("cuDevicePrimaryCtxRetain", self._device)
        self._call("cuCtxSetCurrent", self._context)
        self._numbered: dict[int, Any] = {}
        """Functions, streams and events of the driver, by the number that callers know."""
        self._kept: dict[int, list[Any]] = {}
        """By stream what its work reads or writes on the host, until it is waited for."""
        self._modules: list[Any] = []

    def _started(self, number: int) -> Any:
        try:
            self._call("cuInit", 0)
        except DriverError as error:
            raise DriverError(f"no NVIDIA driver that runs: {error}; {_WITHOUT}") from None
        except Exception as error:  # The package has errors of its own for a library not found.
            raise DriverError(f"no NVIDIA driver on this machine; {_WITHOUT}") from error
        devices = int(self._call("cuDeviceGetCount"))
        if not 0 <= number < devices:
            raise DriverError(f"no device {number}: the driver has {devices}; {_WITHOUT}")
        return self._call("cuDeviceGet", number)

    def _call(self, function: str, *arguments: Any) -> Any:
        """What a function of the driver returns beside its error; raises DriverError."""
        error, *found = getattr(self._cuda, function)(*arguments)
        if int(error) != 0:
            name = getattr(error, "name", str(error))
            raised = DeviceMemoryError if name.endswith("OUT_OF_MEMORY") else DriverError
            raise raised(f"{function}: {name.removeprefix('CUDA_ERROR_').lower()}")
        return found[0] if found else None

    @property
    def name(self) -> str:
        """What the device is called."""
        found = self._call("cuDeviceGetName", 128, self._device)
        return bytes(found).split(b"\0")[0].decode()

    @property
    def architecture(self) -> str:
        """The newest architecture that code can be made for and the device runs.

        Raises DriverError where there is none.
        """
        kinds = self._cuda.CUdevice_attribute
        names = [f"CU_DEVICE_ATTRIBUTE_{x}" for x in (_MAJOR, _MINOR)]
        major, minor = [
            int(self._call("cuDeviceGetAttribute", getattr(kinds, x), self._device)) for x in names
        ]
        return architecture_for(major, minor, self.name)

    def load(self, program: GpuProgram) -> Mapping[str, int]:
        """Return the functions of a program's kernels, by symbol; raises AssemblerError."""
        image = program.assembled(self._cached).image
        if not image:
            return {}
        held = np.frombuffer(image, np.uint8)
        module = self._call("cuModuleLoadData", held.ctypes.data)
        self._modules.append(module)
        names = [x.function for kernel in program.kernels for x in kernel.launches]
        return {
            x: self._number(self._call("cuModuleGetFunction", module, x.encode()))
            for x in dict.fromkeys(names)
        }

    def _number(self, found: Any) -> int:
        number = len(self._numbered) + 1
        self._numbered[number] = found
        return number

    # -- memory --------------------------------------------------------------------------------

    def allocate(self, nbytes: int) -> int:
        """Return the address of new memory; raises DeviceMemoryError."""
        try:
            return int(self._call("cuMemAlloc", nbytes))
        except DeviceMemoryError:
            error, free, whole = self._cuda.cuMemGetInfo()
            told = "" if int(error) else f" has {free:,} bytes free of {whole:,}, and"
            raise DeviceMemoryError(
                f"{self.name}{told} {nbytes:,} are needed at once; --memory {free} makes a plan "
                "that fits, if there is one"
            ) from None

    def free(self, address: int) -> None:
        """Give memory back."""
        self._call("cuMemFree", address)

    # -- streams -------------------------------------------------------------------------------

    def stream(self) -> int:
        """Return a new stream, which does not wait for the default one."""
        flags = self._cuda.CUstream_flags.CU_STREAM_NON_BLOCKING
        number = self._number(self._call("cuStreamCreate", int(flags)))
        self._kept[number] = []
        return number

    def event(self) -> int:
        """Return a new event, which keeps no time."""
        flags = self._cuda.CUevent_flags.CU_EVENT_DISABLE_TIMING
        return self._number(self._call("cuEventCreate", int(flags)))

    def record(self, event: int, stream: int) -> None:
        """Have an event happen once what is in a stream now is done."""
        self._call("cuEventRecord", self._numbered[event], self._numbered[stream])

    def wait(self, event: int, stream: int) -> None:
        """Have what follows in a stream wait for an event."""
        self._call("cuStreamWaitEvent", self._numbered[stream], self._numbered[event], 0)

    def upload(self, address: int, data: Bytes, stream: int) -> None:
        """Copy bytes of the host to the device."""
        place = self._keep(data, stream)
        self._call("cuMemcpyHtoDAsync", address, place, data.nbytes, self._numbered[stream])

    def download(self, data: Bytes, address: int, stream: int) -> None:
        """Copy bytes of the device to the host."""
        place = self._keep(data, stream)
        self._call("cuMemcpyDtoHAsync", place, address, data.nbytes, self._numbered[stream])

    def _keep(self, data: Bytes, stream: int) -> int:
        self._kept[stream].append(data)
        return int(data.ctypes.data)

    def copy(self, target: int, source: int, nbytes: int, stream: int) -> None:
        """Copy bytes within the device."""
        self._call("cuMemcpyDtoDAsync", target, source, nbytes, self._numbered[stream])

    def launch(
        self, function: int, grid: tuple[int, int], addresses: Sequence[int], stream: int
    ) -> None:
        """Run a function by a number of blocks of a number of threads."""
        blocks, threads = grid
        given = (ctypes.c_uint64 * len(addresses))(*addresses)
        start, size = ctypes.addressof(given), ctypes.sizeof(ctypes.c_uint64)
        places = [start + i * size for i in range(len(addresses))]
        pointers = (ctypes.c_void_p * len(places))(*places)
        self._call(
            "cuLaunchKernel",
            self._numbered[function],
            *(blocks, 1, 1),
            *(threads, 1, 1),
            0,
            self._numbered[stream],
            ctypes.addressof(pointers),
            0,
        )

    def synchronize(self, stream: int) -> None:
        """Return once all of a stream is done."""
        self._call("cuStreamSynchronize", self._numbered[stream])
        self._kept[stream].clear()

    def close(self) -> None:
        """Give the device's context back, and all that is in it."""
        self._call("cuDevicePrimaryCtxRelease", self._device)


_WITHOUT: Final = "--target cuda:emulated runs the same kernels on this host"


def _bindings() -> Any:
    try:
        from cuda.bindings import driver
    except ImportError:
        raise DriverError(
            f"the package cuda-bindings is not there; {INSTALLING}; {_WITHOUT}"
        ) from None
    return driver


def architecture_for(major: int, minor: int, device: str) -> str:
    """Return the newest architecture for a device of a compute capability; raises DriverError.

    Code of one capability runs on those of the same major number that are not older.
    """
    found = [x for x in GPU_ARCHITECTURES if x[-1].isdigit() and int(x[3:-1]) == major]
    runs = [x for x in found if int(x[-1]) <= minor]
    if not runs:
        known = ", ".join(GPU_ARCHITECTURES)
        raise DriverError(f"{device} has compute capability {major}.{minor}; known are {known}")
    return runs[-1]
