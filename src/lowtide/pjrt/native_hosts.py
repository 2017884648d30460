"""Machine code for small arrays of the host that become arrays of a device, without Python.

A number of Python's or a small array that a jitted function is given is one in every call. What is
known of arrays of a form, Python notes when it meets the first; the others of that form are copied
here. Python sees to all that is unusual.
"""

from __future__ import annotations

from typing import Final

from lowtide.native import (
    ACQUIRE,
    I32,
    RELAXED,
    RELEASE,
    Address,
    Atomic,
    NativeItems,
    NativeRecord,
    address_of,
    array_at,
    at,
    copy_bytes,
    inline,
    native,
    offset,
    shared,
    the,
)
from lowtide.pjrt.blocks import BufferKind, HandleCell, PluginEvent, Queue
from lowtide.pjrt.native_events import retain
from lowtide.pjrt.native_jobs import coming_storage, room
from lowtide.pjrt.native_objects import new_cell, release_block
from lowtide.pjrt.native_python import FROM_HOST, python_of, state

SMALL: Final = 4096
"""Bytes of arrays that are copied here; it takes less than to ask Python."""

SLOTS: Final = 512
"""How many forms are known at once; a new one takes the place of another with its number."""

ZERO_COPY: Final = 2
"""The memory may be read until the buffer dies, and nobody writes to it until then."""

LINE: Final = 64
"""Bytes of a cache line: memory is shared only where one begins."""


class HostBufferCall(NativeRecord):
    """What BufferFromHostBuffer is given, with room for what it answers."""

    size: int
    extension: Address
    client: Address
    data: Address
    number: I32
    dims: NativeItems[int]
    rank: int
    strides: NativeItems[int]
    stride_count: int
    semantics: I32
    device: Address
    memory: HandleCell | None
    layout: Address
    done: PluginEvent
    buffer: HandleCell


class HostForm(NativeRecord):
    """What is known of row-major arrays of some type and sizes in a place, a device or a memory.

    `event` has happened.
    """

    place: Address
    dimensions: NativeItems[int]
    rank: int
    number: int
    nbytes: int
    itemsize: int
    device: HandleCell
    memory: HandleCell
    queue: Queue
    event: PluginEvent


class HostForms(NativeRecord):
    """Forms by their hash; a form stays for good."""

    slots: NativeItems[Atomic[HostForm | None]] = inline(SLOTS)


forms: Final = shared(HostForms)

KIND_AT: Final = offset(HostForm, "dimensions")
"""Where a form has the type of its buffers."""


@native
def slot_of(place: Address, number: int, rank: int, sizes: NativeItems[int]) -> int:
    """Return where a form is looked for."""
    found = (place >> 4) * 31 + number
    for dimension in range(rank):
        found = found * 31 + sizes[dimension]
    return (found ^ found >> 9) & (SLOTS - 1)


@native
def note_form(form: HostForm) -> None:
    """Have a form be known."""
    slot = slot_of(form.place, form.number, form.rank, form.dimensions)
    the(forms).slots[slot].store(form, RELEASE)


@native
def is_of(a: HostBufferCall, place: Address, form: HostForm) -> bool:
    """Return whether an array has a form: the place, the type, the sizes, and dense rows."""
    if form.place != place or form.number != a.number or form.rank != a.rank:
        return False
    for dimension in range(a.rank):
        if a.dims[dimension] != form.dimensions[dimension]:
            return False
    if not a.stride_count:
        return True
    step = form.itemsize
    for number in range(a.rank):
        dimension = a.rank - 1 - number
        if a.dims[dimension] != 1 and a.strides[dimension] != step:
            return False
        step = step * a.dims[dimension]
    return True


@native
def form_of(a: HostBufferCall) -> HostForm | None:
    """Return the form of an array that machine code may see to."""
    if the(state).refusing.load(RELAXED) or a.layout:
        return None
    if a.semantics == ZERO_COPY and not a.data & (LINE - 1):
        return None
    place = a.device if a.memory is None else address_of(a.memory)
    sizes = a.dims if a.rank else array_at(int, 0)
    form = the(forms).slots[slot_of(place, a.number, a.rank, sizes)].load(ACQUIRE)
    if form is None or not is_of(a, place, form):
        return None
    return form


@native
def from_host(a: HostBufferCall) -> Address:
    """Serve Client_BufferFromHostBuffer."""
    form = form_of(a)
    if form is not None:
        storage = coming_storage(form.queue, form.nbytes)
        data = room(storage)
        if data:
            copy_bytes(data, a.data, form.nbytes)
            event = form.event
            retain(event)
            retain(event)
            kind = at(BufferKind, address_of(form) + KIND_AT)
            cell = new_cell(form.device, kind, form.nbytes, storage, event)
            cell.memory = form.memory
            a.buffer, a.done = cell, event
            return 0
        release_block(storage)
    return python_of(address_of(a), FROM_HOST)
