"""Objects in the hands of C++: it has an address, Python keeps what that stands for."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final

from lowtide.native import make, view
from lowtide.pjrt.blocks import HELD_LAUNCH, HELD_STORAGE, WORD, HandleCell
from lowtide.pjrt.native_code import immortal, native_code

_held: Final[dict[int, tuple[Any, Any]]] = immortal({})
"""By address what C++ or a counted block holds, and the block if it is Python's: the only
references for their sake."""

_unknown: Final[list[Callable[[int], Any]]] = []


def handle(value: Any, cell: Any = None) -> int:
    """Return a new address that stands for a value until C++ destroys it."""
    sweep()
    cell = cell or make(HandleCell)
    cell.held = 1
    address = ctypes.addressof(cell)
    _held[address] = (value, cell)
    return address


def hold(address: int, value: Any, block: Any = None) -> None:
    """Keep a value, and a block of Python's, until the counted block at an address is gone."""
    _held[address] = (value, block)


def stand_in(make: Callable[[int], Any]) -> None:
    """Have `value_of` make what stands for an address that Python does not hold: a buffer."""
    _unknown.append(make)


def value_of(address: int) -> Any:
    """Return what an address stands for."""
    found = _held.get(address)
    return _unknown[0](address) if found is None else found[0]


def cell_of(address: int) -> Any:
    """Return the cell at an address."""
    return view(HandleCell, address)


def destroy(address: int) -> None:
    """Destroy an object in the name of C++, which never gets it."""
    function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(native_code().library["destroy"])
    given = (ctypes.c_int64 * 3)(3 * WORD, 0, address)  # It has to last as long as the call.
    function(ctypes.addressof(given))


def sweep() -> None:
    """Let go of what has been destroyed since the last time."""
    code = native_code()
    while address := code.take():
        while address:
            held = _held.pop(address)
            cell = view(HandleCell, address)
            address, kind, here = cell.next, cell.held, address
            if kind == HELD_STORAGE:
                code.free_storage(here)
            elif kind != HELD_LAUNCH:
                code.let_go(here)  # What it has may be on the list by that.
            del held


def held_count() -> int:
    """Return how many objects Python holds for others, after a sweep."""
    sweep()
    return len(_held)


class KeptLists:
    """Arrays in C that live as long as their owner does."""

    def __init__(self) -> None:
        self._kept: list[Any] = []

    def of(self, kind: Any, values: Any) -> int:
        """Return the address of an array of values, never null."""
        values = list(values)
        block = (kind * max(1, len(values)))(*values)
        self._kept.append(block)
        return ctypes.addressof(block)


_texts: Final[dict[bytes, Any]] = immortal({})


def kept_text(value: str | bytes) -> tuple[int, int]:
    """Return the address of a text and its length in bytes.

    It stays in memory for good, so only what is few may be given.
    """
    data = value.encode() if isinstance(value, str) else value
    block = _texts.get(data)
    if block is None:
        block = _texts[data] = ctypes.create_string_buffer(data)
    return ctypes.addressof(block), len(data)


def put_text(arguments: Any, field: str, value: str | bytes) -> None:
    """Set a field to a text that is kept, and the field that ends in "_size" to its length."""
    address, length = kept_text(value)
    setattr(arguments, field, address)
    setattr(arguments, f"{field}_size", length)
