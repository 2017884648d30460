"""Objects in the hands of C++: it has an address, Python keeps what that stands for."""

from __future__ import annotations

import ctypes
from typing import Any, Final

from lowtide.pjrt.native_code import immortal, native_code


class HandleCell(ctypes.Structure):
    """What an address points to: see `native_code`."""

    _fields_ = (
        ("table", ctypes.c_void_p),
        ("next", ctypes.c_void_p),
        ("device", ctypes.c_void_p),
        ("memory", ctypes.c_void_p),
        ("dimensions", ctypes.c_void_p),
        ("rank", ctypes.c_size_t),
        ("event", ctypes.c_void_p),
        ("is_deleted", ctypes.c_size_t),
    )


_held: Final[dict[int, tuple[Any, HandleCell]]] = immortal({})
"""By address what C++ holds, and the cell: the only references for its sake."""


def handle(value: Any, cell: HandleCell | None = None) -> int:
    """Return a new address that stands for a value until C++ destroys it."""
    sweep()
    cell = cell or HandleCell()
    address = ctypes.addressof(cell)
    _held[address] = (value, cell)
    return address


def value_of(address: int) -> Any:
    """Return what an address stands for."""
    return _held[address][0]


def cell_of(address: int) -> HandleCell:
    """Return the cell at an address."""
    return _held[address][1]


def sweep() -> None:
    """Let go of what C++ has destroyed since the last time."""
    code = native_code()
    address = code.take()
    while address:
        value, cell = _held.pop(address)
        address = cell.next
        if cell.event:
            code.release(cell.event)
        del value


def held_count() -> int:
    """Return how many objects C++ holds, after a sweep."""
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
