"""The memory of a program under watch: all of it in one block, between canaries, with a shadow."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from lowtide.ir.buffer import AllocationKind, BufferSlice
from lowtide.ir.literal import DTYPES, Array
from lowtide.ir.shape import Shape
from lowtide.records import dataclass
from lowtide.runtime.cpu.arguments import alignment, major_to_minor, physical_sizes
from lowtide.runtime.cpu.program import NativeProgram

CANARY_BYTES: Final = 4096
"""The bytes before and behind each allocation that nobody may write to."""

_CANARY: Final = 0xA7
_LINE: Final = 64
_CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Stray:
    """A byte that was written and must not have been: where it lies, in words."""

    place: str
    before: int
    after: int


class WatchedMemory:
    """A block with the allocations of a program; the shadow is what it is to be.

    Arguments lie at addresses that are multiples of what they are promised to be, and of no more.
    """

    def __init__(self, program: NativeProgram, arguments: Sequence[Array], fill: int) -> None:
        self._memories = program.interface.memories
        self._shapes = {
            x.allocation: x.shape for x in program.interface.arguments if x.allocation >= 0
        }
        self._offsets: list[int] = []
        end = CANARY_BYTES
        for index, memory in enumerate(self._memories):
            self._offsets.append(end + self._shift(index))
            end = -(-(self._offsets[-1] + memory.nbytes) // _LINE) * _LINE + CANARY_BYTES
        room = np.empty(end + _LINE, np.uint8)
        start = -room.ctypes.data % _LINE
        self._room = room
        self.block = room[start : start + end]
        self.block[:] = _CANARY
        self._owners: dict[BufferSlice, str] = {}
        self._fill(program, arguments, fill)
        self.shadow = self.block.copy()

    def _shift(self, index: int) -> int:
        """How far an allocation lies behind a multiple of a line."""
        shape = self._shapes.get(index)
        return 0 if shape is None else alignment(shape)

    def _fill(self, program: NativeProgram, arguments: Sequence[Array], fill: int) -> None:
        for index, memory in enumerate(self._memories):
            if memory.kind not in (AllocationKind.ARGUMENT, AllocationKind.CONSTANT):
                self.view(BufferSlice(index, 0, memory.nbytes))[:] = fill
        for index, values in program.constants:
            self.view(BufferSlice(index, 0, values.nbytes))[:] = values
        for argument, array in zip(program.interface.arguments, arguments, strict=True):
            if argument.allocation >= 0:
                self.write(BufferSlice(argument.allocation, 0, array.nbytes), argument.shape, array)

    # -- slices --------------------------------------------------------------------------------

    def _range(self, place: BufferSlice) -> tuple[int, int]:
        if place.allocation < 0:
            return 0, 0
        begin = self._offsets[place.allocation] + place.offset
        return begin, begin + place.nbytes

    def address(self, place: BufferSlice | None) -> int:
        """Return the address of a slice; of one without bytes, one among canaries."""
        begin = self._range(place)[0] if place is not None else 0
        return int(self.block.ctypes.data) + (begin or CANARY_BYTES // 2)

    def view(self, place: BufferSlice) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Return the bytes of a slice."""
        begin, end = self._range(place)
        return self.block[begin:end]

    def read(self, place: BufferSlice, shape: Shape) -> Array:
        """Return a copy of the array in a slice."""
        order = major_to_minor(shape)
        dtype = DTYPES[shape.element_type]
        values = self.view(place).copy().view(dtype).reshape(physical_sizes(shape))
        return values.transpose([order.index(x) for x in range(len(order))])

    def write(self, place: BufferSlice, shape: Shape, array: Array) -> None:
        """Put an array into a slice."""
        values = np.ascontiguousarray(array.transpose(major_to_minor(shape)))
        self.view(place)[:] = values.reshape(-1).view(np.uint8)

    # -- watching ------------------------------------------------------------------------------

    def accept(self, places: Iterable[BufferSlice], name: str) -> None:
        """Take what slices hold, which the thunk `name` wrote, to be what they are to hold."""
        for place in places:
            begin, end = self._range(place)
            self.shadow[begin:end] = self.block[begin:end]
            self._owners.pop(place, None)
            self._owners[place] = name

    def stray(self) -> Stray | None:
        """Return the first byte that is not what it is to be, None where all are."""
        same = ctypes.CDLL(None).memcmp
        same.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
        if not same(self.block.ctypes.data, self.shadow.ctypes.data, self.block.nbytes):
            return None
        for start in range(0, self.block.size, _CHUNK):
            pair = self.block[start : start + _CHUNK], self.shadow[start : start + _CHUNK]
            differing = np.flatnonzero(pair[0] != pair[1])
            if differing.size:
                at = start + int(differing[0])
                return Stray(self._words(at), int(self.shadow[at]), int(self.block[at]))
        return None

    def _words(self, at: int) -> str:
        """Where a byte of the block lies."""
        for index, memory in enumerate(self._memories):
            begin = self._offsets[index]
            what = self._label(index)
            if begin - CANARY_BYTES <= at < begin:
                return f"{begin - at:,} bytes before {what}"
            if begin <= at < begin + memory.nbytes:
                return f"byte {at - begin:,} of {what}{self._owner(at)}"
            following = self._offsets[index + 1] if index + 1 < len(self._offsets) else None
            if following is None or at < following - CANARY_BYTES:
                return f"{at - begin - memory.nbytes:,} bytes behind {what}"
        return "before all allocations"

    def _label(self, index: int) -> str:
        memory = self._memories[index]
        if memory.argument >= 0:
            return f"argument {memory.argument}"
        return f"{memory.kind.value} {index} of {memory.nbytes:,} bytes"

    def _owner(self, at: int) -> str:
        for place in reversed(self._owners):
            begin, end = self._range(place)
            if begin <= at < end:
                return f", last written by %{self._owners[place]}"
        return ""
