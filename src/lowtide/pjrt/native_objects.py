"""Machine code for buffers and storages: made, asked, shared, deleted and freed without Python.

`is_deleted` of a cell is also its lock: who takes a reference to the storage sets it to 2
meanwhile, so that no deletion comes between.
"""

from __future__ import annotations

from typing import Final

from lowtide.native import (
    ACQUIRE,
    RELAXED,
    RELEASE,
    SEQ_CST,
    U8,
    Address,
    NativeRecord,
    address_of,
    at,
    free,
    native,
    new,
    the,
)
from lowtide.pjrt.blocks import (
    HELD_STORAGE,
    BufferKind,
    BufferStorage,
    Counted,
    HandleCell,
    PluginErrorBlock,
    PluginEvent,
    Queue,
)
from lowtide.pjrt.native_errors import deleted_error
from lowtide.pjrt.native_events import release, retain
from lowtide.pjrt.native_idle import account, fall, keep_home, signal, unsettle
from lowtide.pjrt.native_python import push, state

NUDGED_BYTES: Final = 1 << 20
"""Arrays of Python's of so many bytes or more are given back at once, others at its next turn."""

ALIVE, DELETED, LOCKED = 0, 1, 2
"""What `is_deleted` of a cell is."""


class CellCall(NativeRecord):
    """The arguments of a function about an object, with room for what it answers."""

    size: int
    extension: Address
    cell: HandleCell
    first: int
    second: int


class FlagCall(NativeRecord):
    """The arguments of one that answers yes or no."""

    size: int
    extension: Address
    cell: HandleCell
    flag: U8


# -- storages ------------------------------------------------------------------------------------


@native
def new_storage(queue: Queue, data: Address, nbytes: int, held: int) -> BufferStorage:
    """Return a storage with one reference."""
    found = new(BufferStorage)
    begin_storage(found, queue, nbytes)
    found.held, found.data = held, data
    if data:
        account(queue, nbytes)
    return found


@native
def begin_storage(found: BufferStorage, queue: Queue, nbytes: int) -> None:
    """Have a record be a storage with one reference and no memory."""
    found.refs.store(1, RELAXED)
    found.held, found.is_odd = 0, 0
    found.data, found.nbytes, found.queue, found.near = 0, nbytes, queue, 0
    found.next, found.parent, found.block, found.home = 0, None, 0, 0


@native
def free_storage(storage: BufferStorage) -> None:
    """Free a storage without references."""
    queue, nbytes, parent = storage.queue, storage.nbytes, storage.parent
    if parent is None and storage.data:
        account(queue, -nbytes)
        fall(queue)
    free(storage.block)
    if nbytes >= NUDGED_BYTES:
        unsettle(queue)
    if storage.home:
        keep_home(queue, storage.home, storage.pages, storage.inner, storage.inner_bytes)
    free(storage)
    if parent is not None:
        release_block(parent)


@native
def release_block(block: Counted) -> None:
    """Give a reference of a counted block back; nothing of it is read after it was pushed."""
    if block.refs.add(-1, SEQ_CST) != 1:
        return
    if not block.held:
        free_storage(at(BufferStorage, block))
    elif block.held != HELD_STORAGE:
        push(address_of(block))
    else:
        storage = at(BufferStorage, block)
        queue, is_large = storage.queue, storage.nbytes >= NUDGED_BYTES
        push(address_of(block))
        if is_large:
            queue.sweep.store(1, RELAXED)
            signal(queue)


# -- cells ---------------------------------------------------------------------------------------


@native
def lock(cell: HandleCell) -> bool:
    """Return whether a cell has a storage, which nobody deletes from now on until `unlock`."""
    found = LOCKED
    while found == LOCKED:
        found = cell.is_deleted.compare_exchange(ALIVE, LOCKED, ACQUIRE)
    return found == ALIVE


@native
def unlock(cell: HandleCell, value: int) -> None:
    """End a lock; the cell is then as it was, or deleted."""
    cell.is_deleted.store(value, RELEASE)


@native
def storage_of(cell: HandleCell) -> BufferStorage:
    """Return the storage of a buffer."""
    return at(BufferStorage, cell.of)


@native
def new_cell(
    device: HandleCell, kind: BufferKind, nbytes: int, storage: BufferStorage, event: PluginEvent
) -> HandleCell:
    """Return the cell of a buffer, which takes the references to storage and event over."""
    cell = new(HandleCell)
    cell.table, cell.next, cell.held = 0, 0, 0
    cell.device, cell.memory = device, device.memory
    cell.dimensions, cell.rank, cell.number = kind.dimensions, kind.rank, kind.number
    cell.event, cell.of, cell.nbytes = event, address_of(storage), nbytes
    cell.is_deleted.store(ALIVE, RELAXED)
    return cell


@native
def drop(cell: HandleCell) -> None:
    """Delete what a buffer has, if anything."""
    if lock(cell):
        unlock(cell, DELETED)
        if cell.of:
            release_block(storage_of(cell))


@native
def let_go(cell: HandleCell) -> None:
    """End what a cell of a buffer or a program refers to."""
    drop(cell)
    if cell.event is not None:
        release(cell.event)


@native
def destroy(a: CellCall) -> Address:
    """Destroy an object: what Python holds goes on its list.

    A worker is asked to see to that at once: there may be a program in it, with all that it has.
    """
    cell = a.cell
    if not cell:
        return 0
    if not cell.held:
        let_go(cell)
        free(cell)
        return 0
    push(address_of(cell))
    sweeper = the(state).sweeper.load(ACQUIRE)
    if sweeper is not None:
        sweeper.sweep.store(1, RELAXED)
        unsettle(sweeper)
        signal(sweeper)
    return 0


@native
def delete(a: CellCall) -> Address:
    """Serve Buffer_Delete."""
    drop(a.cell)
    return 0


@native
def is_deleted(a: FlagCall) -> Address:
    """Serve Buffer_IsDeleted."""
    a.flag = int(a.cell.is_deleted.load(ACQUIRE) == DELETED)
    return 0


@native
def borrow(cell: HandleCell) -> BufferStorage | None:
    """Return a new reference to the storage, or None for a buffer that was deleted."""
    if not lock(cell):
        return None
    storage = storage_of(cell)
    retain(storage)
    unlock(cell, ALIVE)
    return storage


@native
def share(a: CellCall) -> PluginErrorBlock | None:
    """Serve Buffer_IncreaseExternalReferenceCount: the storage gets one more reference."""
    return deleted_error() if borrow(a.cell) is None else None


@native
def give_back(a: CellCall) -> Address:
    """Serve Buffer_DecreaseExternalReferenceCount, also for a buffer that was deleted since."""
    release_block(storage_of(a.cell))
    return 0
