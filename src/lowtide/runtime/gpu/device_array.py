"""Arrays that stay on a device between calls, and those of others that lie there.

Other libraries take them, and hand theirs in, by `__cuda_array_interface__` (version 3) and by
DLPack; the memory of an emulated device is the host's, and so DLPack says.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from math import prod
from typing import Any, Final, final

import numpy as np

from lowtide.ir.errors import InputError
from lowtide.ir.literal import DTYPES, Array
from lowtide.ir.shape import Shape
from lowtide.records import dataclass
from lowtide.runtime.cpu.arguments import Argument, major_to_minor
from lowtide.runtime.gpu.dlpack import SharedTensor, capsule_of, taken
from lowtide.runtime.gpu.driver import CUDA, Driver


@final
class DeviceArray:
    """A result on a device: `numpy.asarray` copies it to the host, calls take it as it is.

    It has its memory until nobody holds it. Its bytes are there when it is.
    """

    def __init__(self, driver: Driver, address: int, shape: Shape) -> None:
        self.driver, self.address, self.kind = driver, address, shape
        self.dtype: np.dtype[Any] = DTYPES[shape.element_type]
        self.shape: tuple[int, ...] = shape.dimensions
        if address:
            weakref.finalize(self, driver.free, address)

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return prod(self.shape) * self.dtype.itemsize

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        """The bytes from an element to the next along each dimension."""
        return strides_of(self.kind)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Return the elements on the host."""
        data = np.empty(self.nbytes, np.uint8)
        if data.size:
            self.driver.use()
            stream = self.driver.stream()
            self.driver.download(data, self.address, stream)
            self.driver.synchronize(stream)
        found = np.ndarray(self.shape, self.dtype, data, strides=self.strides)
        return found if dtype is None else found.astype(dtype)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """What libraries for CUDA need; only there on such a device, and for NumPy's own types."""
        if self.driver.dlpack_device[0] != CUDA or self.dtype.isbuiltin != 1:
            raise AttributeError("__cuda_array_interface__")
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, True),
            "strides": self.strides,
            "version": 3,
            "stream": None,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.driver.dlpack_device

    def __dlpack__(self, **how: Any) -> Any:
        steps = [x // self.dtype.itemsize for x in self.strides]
        shared = SharedTensor(
            self.address, self.driver.dlpack_device, self.dtype, self.shape, steps
        )
        return capsule_of(shared, self)

    def __repr__(self) -> str:
        return f"<{self.kind} on {self.driver.name}>"


def strides_of(shape: Shape) -> tuple[int, ...]:
    """Return the bytes from an element to the next along each dimension, as an array lies."""
    steps, step = [0] * shape.rank, DTYPES[shape.element_type].itemsize
    for dimension in reversed(major_to_minor(shape)):
        steps[dimension] = step
        step *= shape.dimensions[dimension]
    return tuple(steps)


@dataclass(frozen=True, slots=True)
class Resident:
    """The bytes of an argument that lie on the device already; `owner` keeps them there."""

    address: int
    nbytes: int
    owner: Any


_NEITHER: Final = (None, None)


def resident(wanted: Argument, given: Any, driver: Driver) -> Resident | None:
    """Return an argument that lies on the device, None for one of the host.

    Work that another library has put into the stream which it names is waited for. Raises
    InputError for one of another type, other sizes, or in another order of memory.
    """
    if isinstance(given, DeviceArray):
        if given.driver is not driver and not _is_same_device(given.driver, driver):
            return None
        if given.kind is wanted.shape:
            return Resident(given.address, given.nbytes, given)
        found = SharedTensor(given.address, driver.dlpack_device, given.dtype, given.shape, ())
        return _checked(wanted, found, given.strides, given)
    if driver.dlpack_device[0] != CUDA:
        return None
    place = getattr(given, "__dlpack_device__", lambda: _NEITHER)()
    if place[0] == CUDA:
        return _by_dlpack(wanted, given, place, driver)
    interface = getattr(given, "__cuda_array_interface__", None)
    if interface is None:
        return None
    if interface.get("stream") is not None:
        driver.wait_for_stream(int(interface["stream"]))
    found = SharedTensor(
        interface["data"][0],
        driver.dlpack_device,
        np.dtype(interface["typestr"]),
        tuple(interface["shape"]),
        (),
    )
    return _checked(wanted, found, interface.get("strides"), given)


def _is_same_device(one: Driver, other: Driver) -> bool:
    """Whether two drivers are of one card, whose memory each of them reaches."""
    return one.dlpack_device == other.dlpack_device and one.dlpack_device[0] == CUDA


def _by_dlpack(wanted: Argument, given: Any, place: Any, driver: Driver) -> Resident:
    """An array on a device in DLPack's form, which knows more types than the other way."""
    if tuple(map(int, place)) != driver.dlpack_device:
        raise InputError(f"{wanted} lies on device {place[1]}, not {driver.dlpack_device[1]}")
    owner = taken(given.__dlpack__(stream=_LEGACY))
    driver.wait_for_stream(_LEGACY)  # Streams of programs do not wait for that one.
    found = owner.shared
    steps = [x * found.dtype.itemsize for x in found.steps] if found.steps else None
    return _checked(wanted, found, steps, owner)


_LEGACY: Final = 1
"""The stream that DLPack's other side puts its work before: CUDA's default one."""


def _checked(
    wanted: Argument, found: SharedTensor, strides: Sequence[int] | None, owner: Any
) -> Resident:
    shape, dtype = wanted.shape, DTYPES[wanted.shape.element_type]
    if found.shape != shape.dimensions or found.dtype != dtype:
        said = f"{found.dtype}{list(found.shape)}"
        raise InputError(f"{wanted} takes {dtype}{list(shape.dimensions)}, {said} was given")
    expected = strides_of(shape)
    if strides is None:
        strides = np.empty(found.shape, np.bool_).strides
        strides = [x * dtype.itemsize for x in strides]
    apart = [d for d, size in enumerate(found.shape) if size > 1 and strides[d] != expected[d]]
    if apart and all(found.shape):
        raise InputError(
            f"{wanted} is an array of the device in another order of memory than {shape}; give a "
            "contiguous copy"
        )
    count = int(np.prod(found.shape, dtype=np.int64))
    return Resident(found.address, count * dtype.itemsize, owner)
