"""Machine code for what JAX asks of a buffer or a program: answers without Python, or kept ones."""

from __future__ import annotations

from lowtide.native import I32, Address, NativeRecord, address_of, external, free, native, size_of
from lowtide.pjrt.blocks import HandleCell, PluginErrorBlock
from lowtide.pjrt.native_errors import copied, deleted_error
from lowtide.pjrt.native_events import has_happened, wait_for
from lowtide.pjrt.native_objects import CellCall, FlagCall, borrow, release_block
from lowtide.pjrt.native_python import KIND, RESULT_COUNT, python_of


class NumberCall(NativeRecord):
    """The arguments of one that answers with a number of 32 bits."""

    size: int
    extension: Address
    cell: HandleCell
    number: I32


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
def no(a: FlagCall) -> Address:
    """Serve what is not so."""
    a.flag = 0
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
