"""Object files linked into memory without LLVM: for processors of the family x86-64.

Sections go into one mapping: code, then what is only read with the addresses of symbols outside,
then what is written to. Each part begins with a page and has just the rights that it needs. A
function outside, which may be far away, is called by a jump through its address.

Source of the relocations: the x86-64 supplement of the System V Application Binary Interface,
section 4.4.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final
from weakref import finalize

import numpy as np

from lowtide.llvm.elf import (
    RELOCATIONS,
    UNDEFINED,
    ZEROS,
    ObjectFile,
    ObjectFormatError,
    ObjectSection,
    read_object,
)

X86_64: Final = 62
"""ELF's number of the processor."""

_CONTENTS: Final = 1
_UNWINDING: Final = 0x70000001
"""Types of sections: bytes, and tables for exceptions, which no function here lets through."""

_IN_MEMORY: Final = 2
_WRITTEN: Final = 1
_EXECUTED: Final = 4
_OF_THREADS: Final = 0x400
"""Flags of sections."""

_WEAK: Final = 2

_WORD: Final = 1
_RELATIVE: Final = 2
_CALL: Final = 4
_THROUGH_TABLE: Final = (9, 41, 42)
"""Types of relocations: an address, a distance, that to a function, that to where an address is."""

_MOST_BYTES: Final = 1 << 31
"""Distances of 32 bits reach no farther."""

_JUMP: Final = b"\xff\x25"
_JUMP_BYTES: Final = 8
"""A jump through the address at a distance of 32 bits, in its room."""


class NotLinkedError(Exception):
    """Objects that only LLVM's own linker links: of another processor, or of another form."""


class Image:
    """Objects in memory; `addresses` are those of `names`. The memory goes when this does.

    `outside` gives the address of a symbol that none of them defines. Raises NotLinkedError.
    """

    def __init__(
        self, objects: Iterable[bytes], names: Sequence[str], outside: Callable[[str], int]
    ) -> None:
        try:
            layout = _Layout([read_object(x) for x in objects])
            place = _mapped(layout.nbytes)
            finalize(self, _unmapped, place, layout.nbytes).atexit = False
            found = layout.link(place, outside)
        except (ObjectFormatError, IndexError) as error:
            raise NotLinkedError(str(error)) from error
        for start, end, rights in layout.parts:
            _protect(place + start, end - start, rights)
        missing = [x for x in names if x not in found]
        if missing:
            raise NotLinkedError(f"no object defines {missing[0]}")
        self.addresses = {name: found[name] for name in names}


class _Layout:
    """Where sections lie within a mapping, and what has to be written into them."""

    def __init__(self, files: Sequence[ObjectFile]) -> None:
        self._files = files
        for file in files:
            if file.machine != X86_64:
                raise NotLinkedError(f"code of processor {file.machine}")
        self._outside = self._names_outside()
        self._places: list[dict[int, int]] = [{} for _ in files]
        self._loaded = [_in_memory(x) for x in files]
        self._relocations = [_relocations(x) for x in files]
        self.parts: list[tuple[int, int, int]] = []
        """Begin, end, and rights of each stretch of pages."""
        rooms = len(self._outside)
        both = mmap.PROT_READ | mmap.PROT_WRITE
        self._jumps, end = self._add(0, _EXECUTED, _JUMP_BYTES * rooms, mmap.PROT_EXEC)
        self._table, end = self._add(end, 0, 8 * (rooms + self._words_of_table()), mmap.PROT_READ)
        _, self.nbytes = self._add(end, _WRITTEN, 0, both)

    def _names_outside(self) -> dict[str, int]:
        """The names that no file defines, numbered."""
        defined = {x for file in self._files for x in file.names(defined=True)}
        used = dict.fromkeys([x for file in self._files for x in file.names(defined=False)])
        return {x: number for number, x in enumerate([x for x in used if x not in defined])}

    def _words_of_table(self) -> int:
        """How many addresses inside may be read from the table: one for each that is."""
        tables = [rows for tables in self._relocations for rows, _ in tables]
        return sum([int(np.count_nonzero(_is_through_table(x["type"]))) for x in tables])

    def _add(self, start: int, kind: int, room: int, rights: int) -> tuple[int, int]:
        """Place the sections of a kind, and a room after them; where that is, and the next page."""
        at = start
        for sections, places in zip(self._loaded, self._places, strict=True):
            for number, section in sections:
                if section.flags & (_EXECUTED | _WRITTEN) == kind:
                    at = _up(at, section.align or 1)
                    places[number] = at
                    at += section.nbytes
        room_at = _up(at, 8)
        end = _up(room_at + room, mmap.PAGESIZE)
        if end > start:
            self.parts.append((start, end, rights | mmap.PROT_READ))
        return room_at, end

    def link(self, base: int, outside: Callable[[str], int]) -> dict[str, int]:
        """Write all into a mapping at `base`; return the addresses of global symbols."""
        room: Any = (ctypes.c_uint8 * self.nbytes).from_address(base)
        image: Any = np.frombuffer(room, np.uint8)
        far = {name: outside(name) for name in self._outside}
        self._write_far(image, far)
        found = self._globals(base)
        columns: list[tuple[Any, ...]] = []
        known = {**far, **found}
        parts = zip(self._files, self._places, self._relocations, strict=True)
        for file, places, relocations in parts:
            _copy(image, file, places)
            symbols, calls = self._symbols(base, file, places, known)
            columns += _columns(relocations, places, symbols, calls)
        if columns:
            self._relocate(image, base, [np.concatenate(x) for x in zip(*columns, strict=True)])
        return found

    def _write_far(self, image: Any, far: Mapping[str, int]) -> None:
        """Write the addresses of symbols outside, and the jumps through them."""
        for name, number in self._outside.items():
            word, jump = self._table + 8 * number, self._jumps + _JUMP_BYTES * number
            image[word : word + 8] = _bytes(far[name].to_bytes(8, "little"))
            way = (word - jump - len(_JUMP) - 4).to_bytes(4, "little", signed=True)
            image[jump : jump + len(_JUMP) + 4] = _bytes(_JUMP + way)

    def _globals(self, base: int) -> dict[str, int]:
        found: dict[str, int] = {}
        weak: dict[str, int] = {}
        for file, places in zip(self._files, self._places, strict=True):
            for x in file.globals:
                if x.section == UNDEFINED:
                    continue
                place = places.get(x.section)
                if place is None:
                    raise NotLinkedError(f"symbol {x.name} lies in no section in memory")
                address = base + place + x.value
                if x.binding == _WEAK:
                    weak.setdefault(x.name, address)
                elif found.setdefault(x.name, address) != address:
                    raise NotLinkedError(f"two objects define {x.name}")
        return {**weak, **found}

    def _symbols(
        self, base: int, file: ObjectFile, places: Mapping[int, int], known: Mapping[str, int]
    ) -> tuple[Any, Any]:
        """The addresses of a file's symbols, 0 for none, and the same where they are called."""
        homes = file.symbols["section"].astype(np.int64)
        bases = np.zeros(len(file.sections), np.int64)
        for number, at in places.items():
            bases[number] = base + at
        own = bases[np.where(homes < len(bases), homes, UNDEFINED)]
        symbols = np.where(own, own + file.symbols["value"].astype(np.int64), 0)
        calls = symbols.copy()
        for x in file.globals:
            if x.section == UNDEFINED:
                symbols[x.number] = calls[x.number] = known[x.name]
                if x.name in self._outside:
                    calls[x.number] = base + self._jumps + _JUMP_BYTES * self._outside[x.name]
        return symbols, calls

    def _relocate(self, image: Any, base: int, columns: Sequence[Any]) -> None:
        at, types, addends, symbols, calls = columns
        is_word, through = types == _WORD, _is_through_table(types)
        is_near, is_call = types == _RELATIVE, types == _CALL
        known = is_word | through | is_near | is_call
        if not known.all():
            raise NotLinkedError(f"relocations of types {sorted({*types[~known].tolist()})}")
        if not symbols.all():
            raise NotLinkedError("a relocation by a symbol without a place")
        words = self._table + 8 * (len(self._outside) + np.arange(through.sum()))
        _put(image, words, symbols[through], np.int64)
        targets = np.where(is_call, calls, symbols)
        targets[through] = base + words
        targets += addends
        _put(image, at[is_word], targets[is_word], np.int64)
        _put(image, at[~is_word], (targets - base - at)[~is_word], np.int32)


def _in_memory(file: ObjectFile) -> list[tuple[int, ObjectSection]]:
    """The sections of a file that lie in memory while code runs, with their numbers."""
    found = []
    for number, x in enumerate(file.sections):
        if x.flags & _IN_MEMORY and x.type != _UNWINDING:
            if x.type not in (_CONTENTS, ZEROS) or x.flags & _OF_THREADS:
                raise NotLinkedError(f"a section of type {x.type}, flags {x.flags:#x}")
            found.append((number, x))
    return found


def _copy(image: Any, file: ObjectFile, places: Mapping[int, int]) -> None:
    for number, at in places.items():
        section = file.sections[number]
        if section.type != ZEROS:
            image[at : at + section.nbytes] = _bytes(file.contents(section))


def _relocations(file: ObjectFile) -> list[tuple[Any, int]]:
    """Tables of relocations, each with the section that it is of."""
    return [(file.relocations(x), x.info) for x in file.sections if x.type == RELOCATIONS]


def _is_through_table(types: Any) -> Any:
    """Which relocations read an address from the table."""
    first, *others = [types == x for x in _THROUGH_TABLE]
    for x in others:
        first |= x
    return first


def _columns(
    relocations: Iterable[tuple[Any, int]], places: Mapping[int, int], symbols: Any, calls: Any
) -> Iterator[tuple[Any, ...]]:
    """Yield places, types, addends, addresses of symbols, and those where they are called."""
    for rows, section in relocations:
        if section in places:
            which, at = rows["symbol"], rows["offset"].astype(np.int64) + places[section]
            yield at, rows["type"], rows["addend"], symbols[which], calls[which]


def _put(image: Any, at: Any, values: Any, type_: Any) -> None:
    """Write values at places; raises NotLinkedError for one that the type does not hold."""
    narrow = values.astype(type_)
    if (narrow != values).any():
        raise NotLinkedError("a symbol is too far away")
    width = narrow.itemsize
    image[at[:, None] + np.arange(width)] = narrow.view(np.uint8).reshape(-1, width)


def _bytes(data: bytes) -> Any:
    return np.frombuffer(data, np.uint8)


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


@cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    word, number, integer = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    libc.mmap.restype = word
    libc.mmap.argtypes = (word, number, integer, integer, integer, ctypes.c_long)
    libc.mprotect.argtypes = (word, number, integer)
    libc.munmap.argtypes = (word, number)
    return libc


def _mapped(nbytes: int) -> int:
    if nbytes > _MOST_BYTES:
        raise NotLinkedError(f"{nbytes} bytes of code")
    rights = mmap.PROT_READ | mmap.PROT_WRITE
    kind = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    found = _libc().mmap(None, nbytes, rights, kind, -1, 0)
    if found is None or found == ctypes.c_void_p(-1).value:
        raise NotLinkedError("no memory for code")
    return int(found)


def _protect(start: int, nbytes: int, rights: int) -> None:
    if _libc().mprotect(start, nbytes, rights):
        raise NotLinkedError("the system lets no memory become code")


def _unmapped(start: int, nbytes: int) -> None:
    _libc().munmap(start, nbytes)
