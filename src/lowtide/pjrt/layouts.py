"""Layouts: in which order of dimensions an array lies, and how JAX asks for it.

The sizes of a buffer, to which its cell points, follow a record of the buffer's layout: the address
of the layout's text and its length. C++ asks for a buffer's layout under a lock, so these functions
are machine code, which reads that record.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_int64, c_size_t, c_void_p
from functools import cache
from typing import Any, Final

from lowtide.ir.literal import Array
from lowtide.ir.shape import Layout
from lowtide.pjrt.handles import kept_text
from lowtide.pjrt.native_code import immortal, native_code
from lowtide.pjrt.table import address_of, extends, serves

Order = tuple[int, ...]
"""The dimensions of an array from the one that varies fastest in memory to the slowest."""


def row_major(rank: int) -> Order:
    """Return the order of an array whose last dimension varies fastest."""
    return tuple(range(rank - 1, -1, -1))


def order_of(array: Array) -> Order:
    """Return the order in which a dense array lies."""
    if array.flags.c_contiguous:
        return row_major(array.ndim)
    return tuple(sorted(range(array.ndim), key=lambda x: (array.strides[x], -x)))


_records: Final[list[Any]] = immortal([])


@cache
def sizes_at(sizes: tuple[int, ...], order: Order) -> int:
    """Return the address of sizes behind the record of a layout; it stays: a program has few."""
    block = (c_int64 * (2 + len(sizes)))(*kept_text(str(Layout(order))), *sizes)
    _records.append(block)
    address = ctypes.addressof(block) + 16
    _orders[address] = order
    return address


_orders: Final[dict[int, Order]] = immortal({})


def order_behind(sizes: int) -> Order:
    """Return the order of the layout whose record sizes follow, by their address."""
    return _orders[sizes]


@cache
def layout_at(order: Order) -> int:
    """Return the address of a layout as C++ holds it."""
    return sizes_at((), order) - 16


class MemoryLayout(ctypes.Structure):
    """A layout as C++ says it: tiled, of which the order is read, or strided."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("tiled_size", c_size_t),
        ("tiled_extension", c_void_p),
        ("minor_to_major", c_void_p),
        ("rank", c_size_t),
        ("tile_dims", c_void_p),
        ("tile_dim_sizes", c_void_p),
        ("num_tiles", c_size_t),
        ("kind", c_int),
    )


def order_at(address: int | None, rank: int) -> Order:
    """Return the order of a layout at an address, the usual one for null and for strides."""
    if address:
        layout = MemoryLayout.from_address(address)
        if layout.kind == 0 and layout.rank == rank and rank:
            return tuple((c_int64 * rank).from_address(layout.minor_to_major))
    return row_major(rank)


@serves(
    "Layouts_Client_GetDefaultLayout",
    "Layouts_Topology_GetDefaultLayout",
    client=c_void_p,
    type=c_int,
    dims=c_void_p,
    rank=c_size_t,
    layout=c_void_p,
)
def _default_layout(arguments: Any) -> None:
    arguments.layout = layout_at(row_major(arguments.rank))


_EXTENSION: Final = 4
"""The number of this extension of PJRT."""


@extends
def layouts_extension() -> tuple[int, list[int]]:
    """Return the number of the extension and the addresses of its functions, in its order."""
    native = native_code().library
    return _EXTENSION, [
        native["nothing"],
        native["layout_text"],
        address_of("Layouts_Client_GetDefaultLayout"),
        native["layout_of"],
        address_of("Layouts_Topology_GetDefaultLayout"),
        address_of("Layouts_Executable_GetOutputLayouts"),
        address_of("Layouts_Executable_GetParameterLayouts"),
    ]
