"""Arrays held against the type and the place that they are to have."""

from __future__ import annotations

from ctypes import c_uint8
from hashlib import blake2b
from typing import Any

import numpy as np

from lowtide.native import view
from lowtide.pjrt.blocks import BufferStorage
from lowtide.pjrt.contracts.findings import require
from lowtide.pjrt.devices import MEMORY_KINDS, PluginDevice
from lowtide.pjrt.element_types import dtype_of
from lowtide.pjrt.handles import cell_of, value_of
from lowtide.pjrt.layouts import Order
from lowtide.pjrt.native_code import native_code
from lowtide.pjrt.storage import Buffer
from lowtide.records import dataclass

_DELETED = 1


@dataclass(frozen=True, slots=True)
class ArrayFacts:
    """What is told of an array: its sizes, element type by PJRT's number, order, memory, device."""

    sizes: tuple[int, ...]
    number: int
    order: Order
    memory: str
    device: PluginDevice

    def __str__(self) -> str:
        kind = dtype_of(self.number).name
        sizes = ",".join([str(x) for x in self.sizes])
        order = ",".join([str(x) for x in self.order])
        return f"{kind}[{sizes}]{{{order}}} in {self.memory} memory of {self.device}"


def facts_of(address: int) -> ArrayFacts:
    """Return what the handle of a buffer tells; raises BrokenContractError for what cannot be."""
    cell, buffer = cell_of(address), Buffer(address)
    memory = value_of(cell.memory)
    device: PluginDevice = value_of(cell.device)
    found = ArrayFacts(buffer.shape, buffer.number, buffer.order, memory.kind, device)
    require(memory.kind in MEMORY_KINDS, f"{found}: there is no such memory")
    require(memory.device is device, f"{found}: its memory is one of {memory.device}")
    ranks = sorted(found.order) == list(range(len(found.sizes)))
    require(ranks, f"{found}: its layout is no order of its dimensions")
    nbytes = int(np.prod(found.sizes, dtype=np.int64)) * dtype_of(found.number).itemsize
    require(buffer.nbytes == nbytes, f"{found} says that it has {buffer.nbytes} bytes")
    require(bool(cell.event), f"{found} has no event to wait for")
    return found


def is_deleted(address: int) -> bool:
    """Whether a buffer was deleted or donated."""
    return bool(cell_of(address).is_deleted == _DELETED)


def require_equal(found: ArrayFacts, wanted: ArrayFacts, what: str) -> None:
    """Raise BrokenContractError where an array is not as told; `what` names it."""
    require(found == wanted, f"{what} is {found}, and JAX is told of {wanted}")


@dataclass(frozen=True, slots=True)
class HeldStorage:
    """The memory of an array that is held while something goes on; `what` names the array.

    `digest` is that of its bytes before, empty where they are not looked at.
    """

    address: int
    what: str
    digest: bytes = b""

    @property
    def span(self) -> tuple[int, int]:
        """Where the memory begins and ends."""
        block: Any = view(BufferStorage, self.address)
        return block.data, block.data + block.nbytes

    def release(self) -> None:
        """Hold the memory no more."""
        native_code().release_block(self.address)


def held(address: int, what: str, *, reads: bool) -> HeldStorage | None:
    """Return the memory of a buffer, held, None where it was deleted.

    With `reads`, its bytes are looked at if they are there.
    """
    code = native_code()
    storage: int | None = code.borrow(address)
    if not storage:
        return None
    looks = reads and code.has_happened(cell_of(address).event)
    return HeldStorage(storage, what, digest(storage) if looks else b"")


def digest(storage: int) -> bytes:
    """Return a digest of the bytes of a storage, empty where there are none or none yet."""
    block: Any = view(BufferStorage, storage)
    if not block.data or not block.nbytes:
        return b""
    found: Any = (c_uint8 * block.nbytes).from_address(block.data)
    return blake2b(found, digest_size=16).digest()
