"""Calls of the CUDA driver by the package cuda-bindings, and what their errors mean in one line."""

from __future__ import annotations

from threading import local
from typing import Any, Final, final

from lowtide.ir.gpu_names import GPU_ARCHITECTURES
from lowtide.runtime.gpu.driver import DeviceMemoryError, DriverError

INSTALLING: Final = "`pip install lowtide[gpu]` installs it"

OLDEST: Final = 12000
"""The oldest version of the driver, as it tells it: 12.0, the first that loads PTX 7.8 and 8.0."""

_WITHOUT: Final = "--target cuda:emulated runs the same kernels on this host"
_PREFIX: Final = "CUDA_ERROR_"

_KERNEL_FAULTS: Final = {
    "illegal_address": "it reads or writes memory that is not there",
    "misaligned_address": "it reads or writes at an address that is no multiple of the size",
    "illegal_instruction": "its code is broken",
    "hardware_stack_error": "its stack is too small",
    "launch_timeout": "it takes longer than the system lets it",
    "launch_failed": "it fails",
    "launch_out_of_resources": "it needs more registers or threads than a block has",
}
"""Errors of kernels, after which a process can do nothing more on the device."""


@final
class CudaCalls:
    """The driver's functions on one device by its number, made from any thread.

    Raises DriverError where there is no package, no driver, one that is too old, or no such device.
    """

    def __init__(self, number: int = 0) -> None:
        self.cuda = _bindings()
        self.running = ""
        """The symbol of the kernel that was launched last, "" before the first."""
        self.device = self._started(number)
        self.context = self("cuDevicePrimaryCtxRetain", self.device)
        """The device's primary context."""
        self._thread = local()
        self._reached: list[Any] = []
        """Devices whose contexts are held since their memory is reached."""
        self.use()

    def _started(self, number: int) -> Any:
        try:
            self("cuInit", 0)
        except DriverError as error:
            said = "the driver finds no device" if "no_device" in str(error) else str(error)
            raise DriverError(f"no NVIDIA driver that runs: {said}; {_WITHOUT}") from None
        except Exception as error:  # The package has errors of its own for a library not found.
            raise DriverError(f"no NVIDIA driver on this machine; {_WITHOUT}") from error
        version = int(self("cuDriverGetVersion"))
        if version < OLDEST:
            raise DriverError(
                f"the NVIDIA driver is for CUDA {cuda_version(version)}, {cuda_version(OLDEST)} is "
                f"the oldest that runs these kernels; {_WITHOUT}"
            )
        devices = int(self("cuDeviceGetCount"))
        if not 0 <= number < devices:
            raise DriverError(f"no device {number}: the driver has {devices}; {_WITHOUT}")
        return self("cuDeviceGet", number)

    def __call__(self, function: str, *arguments: Any) -> Any:
        """Return what a function of the driver returns beside its error, if that is one thing.

        Of several it is a tuple. Raises DriverError.
        """
        error, *found = getattr(self.cuda, function)(*arguments)
        if int(error) != 0:
            raise self._raised(function, getattr(error, "name", str(error)))
        return tuple(found) if len(found) > 1 else found[0] if found else None

    def _raised(self, function: str, name: str) -> DriverError:
        if name.endswith("OUT_OF_MEMORY"):
            return DeviceMemoryError(f"{function}: out_of_memory")
        said = name.removeprefix(_PREFIX).lower()
        meaning = _KERNEL_FAULTS.get(said)
        if meaning is None:
            return DriverError(f"{function}: {said}")
        last = f", {self.running} was started last" if self.running else ""
        return DriverError(f"{function}: {said}: a kernel fails: {meaning}{last}")

    def use(self) -> None:
        """Make the device's context that of this thread, which each thread needs once."""
        if not getattr(self._thread, "is_used", False):
            self("cuCtxSetCurrent", self.context)
            self._thread.is_used = True

    def reach(self, devices: int) -> None:
        """Have kernels of the device reach the memory of the first so many devices.

        Raises DriverError where there are fewer, or no link leads to one.
        """
        self.use()
        for number in range(devices):
            other = self("cuDeviceGet", number)
            if int(other) == int(self.device):
                continue
            if not int(self("cuDeviceCanAccessPeer", self.device, other)):
                raise DriverError(
                    f"{self.name}: no link to the memory of device {number}, which a program of "
                    f"{devices} devices needs; {_WITHOUT}"
                )
            context = self("cuDevicePrimaryCtxRetain", other)
            self._reached.append(other)
            try:
                self("cuCtxEnablePeerAccess", context, 0)
            except DriverError as error:
                if "peer_access_already_enabled" not in str(error):
                    raise

    def close(self) -> None:
        """Let go of the device, and of those whose memory is reached."""
        for device in (*self._reached, self.device):
            self("cuDevicePrimaryCtxRelease", device)
        self._reached.clear()

    def attribute(self, name: str) -> int:
        """Return an attribute of the device by its name without prefix."""
        kind = getattr(self.cuda.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self("cuDeviceGetAttribute", kind, self.device))

    @property
    def name(self) -> str:
        """What the device is called."""
        return bytes(self("cuDeviceGetName", 128, self.device)).split(b"\0")[0].decode()

    @property
    def number(self) -> int:
        """The version of CUDA that the driver is for, as it tells it: 13000 is 13.0."""
        return int(self("cuDriverGetVersion"))

    @property
    def architecture(self) -> str:
        """The newest architecture that code can be made for and the device runs.

        Raises DriverError where there is none.
        """
        major, minor = self.attribute(_MAJOR), self.attribute(_MINOR)
        return architecture_for(major, minor, self.name)

    def check_runs(self, architecture: str) -> None:
        """Raise DriverError where the device does not run the code of an architecture."""
        major, minor = self.attribute(_MAJOR), self.attribute(_MINOR)
        if not runs_on(architecture, major, minor):
            raise DriverError(
                f"{self.name} has compute capability {major}.{minor} and does not run code for "
                f"{architecture}; --target cuda makes what it runs"
            )

    def free_bytes(self) -> tuple[int, int]:
        """Return how many bytes of the device are free, and how many it has."""
        error, free, whole = self.cuda.cuMemGetInfo()
        return (0, 0) if int(error) else (int(free), int(whole))


_MAJOR, _MINOR = "COMPUTE_CAPABILITY_MAJOR", "COMPUTE_CAPABILITY_MINOR"


def cuda_version(number: int) -> str:
    """Return a version as people write it, of one as the driver does: 12080 is 12.8."""
    return f"{number // 1000}.{number % 1000 // 10}"


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

    Code of one capability runs on those of the same major number that are not older. One that has
    instructions of its own, which no other runs, is preferred.
    """
    found = [x for x in GPU_ARCHITECTURES if x[-1].isdigit() and int(x[3:-1]) == major]
    own = f"sm_{major}{minor}a"
    if own in GPU_ARCHITECTURES:
        return own
    runs = [x for x in found if int(x[-1]) <= minor]
    if not runs:
        known = ", ".join(GPU_ARCHITECTURES)
        raise DriverError(f"{device} has compute capability {major}.{minor}; known are {known}")
    return runs[-1]


def runs_on(architecture: str, major: int, minor: int) -> bool:
    """Return whether programs for an architecture run on devices of a compute capability.

    On newer ones the driver assembles their PTX. Those for one with instructions of its own
    ("sm_90a") run on no other.
    """
    number = architecture.removeprefix("sm_")
    least = number.rstrip("abcdefghijklmnopqrstuvwxyz")
    wanted = int(least[:-1]), int(least[-1])
    return (major, minor) == wanted if least != number else (major, minor) >= wanted
