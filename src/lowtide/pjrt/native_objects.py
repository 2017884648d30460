"""Machine code for buffers and storages: made, asked, shared, deleted and freed without Python.

What JAX asks of a buffer in every call is answered here. `is_deleted` of a cell is also its lock:
who takes a reference to the storage sets it to 2 meanwhile, so that no deletion comes between.
"""

from __future__ import annotations

from typing import Final

from lowtide.native import (
    ACQUIRE,
    I32,
    RELAXED,
    RELEASE,
    SEQ_CST,
    U8,
    Address,
    NativeRecord,
    address_of,
    at,
    external,
    free,
    native,
    new,
    size_of,
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
from lowtide.pjrt.native_errors import copied, deleted_error
from lowtide.pjrt.native_events import has_happened, release, retain, wait_for
from lowtide.pjrt.native_idle import account, fall, keep_home, signal, unsettle
from lowtide.pjrt.native_python import KIND, RESULT_COUNT, push, python_of, state

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


class NumberCall(NativeRecord):
    """The arguments of one that answers with a number of 32 bits."""

    size: int
    extension: Address
    cell: HandleCell
    number: I32


# -- storages ------------------------------------------------------------------------------------


@native
def new_storage(queue: Queue, data: Address, nbytes: int, held: int) -> BufferStorage:
    """Return a storage with one reference."""
    found = new(BufferStorage)
    found.refs.store(1, RELAXED)
    found.held, found.is_odd = held, 0
    found.data, found.nbytes, found.queue = data, nbytes, queue
    found.next, found.parent, found.block, found.home = 0, None, 0, 0
    if data:
        account(queue, nbytes)
    return found


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


# -- answers -------------------------------------------------------------------------------------


@native
def nothing(a: Address) -> Address:
    """Serve what has nothing to do."""
    return 0


@native
def yes(a: FlagCall) -> Address:
    """Serve what is so."""
    a.flag = 1
    return 0


@native
def no_list(a: CellCall) -> Address:
    """Serve what has no elements."""
    a.first, a.second = 0, 0
    return 0


@native
def device(a: CellCall) -> Address:
    """Serve the device of a buffer."""
    a.first = address_of(a.cell.device)
    return 0


@native
def memory(a: CellCall) -> Address:
    """Serve the memory of a buffer."""
    a.first = address_of(a.cell.memory)
    return 0


@native
def dimensions(a: CellCall) -> Address:
    """Serve the sizes of a buffer and how many there are."""
    a.first, a.second = a.cell.dimensions, a.cell.rank
    return 0


@native
def on_device_size(a: CellCall) -> Address:
    """Serve the bytes of a buffer."""
    a.first = a.cell.nbytes
    return 0


@native
def element_type(a: NumberCall) -> Address:
    """Serve Buffer_ElementType, also of a buffer that was deleted."""
    a.number = a.cell.number
    return 0


# -- layouts: the record of one lies ahead of the sizes of a buffer, and stays for good -----------


class LayoutRecord(NativeRecord):
    """A layout: its text."""

    text: Address
    nbytes: int


class LayoutCall(NativeRecord):
    """The arguments of the one that asks for the text of a layout, which is to be freed."""

    size: int
    extension: Address
    layout: LayoutRecord
    text: Address
    nbytes: int
    holder: LayoutRecord
    free: Address


@native
def layout_of(a: CellCall) -> Address:
    """Serve the layout of a buffer."""
    a.first = a.cell.dimensions - size_of(LayoutRecord)
    return 0


@native
def layout_text(a: LayoutCall) -> Address:
    """Serve the text of a layout."""
    a.text, a.nbytes, a.holder = a.layout.text, a.layout.nbytes, a.layout
    a.free = address_of(nothing)
    return 0


# -- answers that are kept -----------------------------------------------------------------------


@native
def kind(a: CellCall) -> Address:
    """Serve Memory_Kind: Python is asked once for each memory."""
    cell = a.cell
    if cell.dimensions:
        a.first, a.second = cell.dimensions, cell.rank
        return 0
    error = python_of(address_of(a), KIND)
    if not error:
        cell.rank, cell.dimensions = a.second, a.first
    return error


@native
def result_count(a: CellCall) -> Address:
    """Serve Executable_NumOutputs: Python is asked once for each handle."""
    program = a.cell
    if program.rank:
        a.first = program.rank - 1
        return 0
    error = python_of(address_of(a), RESULT_COUNT)
    if not error:
        program.rank = a.first + 1
    return error


# -- the address of an array ---------------------------------------------------------------------


@external
def PyGILState_Check() -> I32:  # noqa: N802
    """Return whether the thread has Python's lock."""
    raise NotImplementedError


@external
def PyEval_SaveThread() -> Address:  # noqa: N802
    """Release Python's lock; return the state of the thread."""
    raise NotImplementedError


@external
def PyEval_RestoreThread(state: Address) -> None:  # noqa: N802
    """Take Python's lock again."""
    raise NotImplementedError


@native
def release_python() -> Address:
    """Release Python's lock if the thread has it; return what `take_python` is to be given."""
    return PyEval_SaveThread() if PyGILState_Check() else 0


@native
def take_python(saved: Address) -> None:
    """Take the lock again if it was released."""
    if saved:
        PyEval_RestoreThread(saved)


@native
def pointer(a: CellCall) -> PluginErrorBlock | None:
    """Serve Buffer_UnsafePointer, which waits until the array is there.

    C++ may call it with Python's lock, which the worker may need before that.
    """
    storage, event = borrow(a.cell), a.cell.event
    if storage is None:
        return deleted_error()
    assert event is not None
    if not has_happened(event):
        saved = release_python()
        free(wait_for(event))
        take_python(saved)
    error = copied(event.error)
    a.first = storage.data
    release_block(storage)
    return error
