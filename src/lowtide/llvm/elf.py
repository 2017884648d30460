"""Object files as LLVM writes them: ELF, 64 or 32 bits, least byte first, not linked yet.

Source: the System V Application Binary Interface, chapter 4, and its supplements for processors.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from lowtide.records import dataclass

Table: TypeAlias = "npt.NDArray[Any]"
"""Rows of one of the record types below."""

_RELOCATABLE: Final = 1

_SYMBOL: Final = np.dtype(
    [
        ("name", "<u4"),
        ("info", "u1"),
        ("other", "u1"),
        ("section", "<u2"),
        ("value", "<u8"),
        ("nbytes", "<u8"),
    ]
)
_RELOCATION: Final = np.dtype(
    [("offset", "<u8"), ("type", "<u4"), ("symbol", "<u4"), ("addend", "<i8")]
)
_NARROW_SYMBOL: Final = np.dtype(
    [
        *[(x, "<u4") for x in ("name", "value", "nbytes")],
        ("info", "u1"),
        ("other", "u1"),
        ("section", "<u2"),
    ]
)


@dataclass(frozen=True, slots=True)
class _Form:
    """How files of a width of addresses lie.

    `start` and `count` say where the header has the place and the number of sections, and `address`
    how it writes the former; `section` is how the fields of a section lie, which are those of
    `ObjectSection`.
    """

    identity: bytes
    address: str
    start: int
    count: int
    section: struct.Struct
    symbol: np.dtype[Any]


_FORMS: Final = (
    _Form(b"\x7fELF\x02\x01", "<Q", 40, 60, struct.Struct("<2I4Q2I2Q"), _SYMBOL),
    _Form(b"\x7fELF\x01\x01", "<I", 32, 48, struct.Struct("<10I"), _NARROW_SYMBOL),
)

SYMBOLS: Final = 2
RELOCATIONS: Final = 4
ZEROS: Final = 8
"""Types of sections: a table of symbols, one of relocations, and bytes that are all 0."""

UNDEFINED: Final = 0
LOCAL: Final = 0


class ObjectFormatError(ValueError):
    """Bytes are no object file of this kind."""


@dataclass(frozen=True, slots=True)
class ObjectSection:
    """A section of an object file, as its header says: places and sizes in bytes."""

    name: int
    type: int
    flags: int
    address: int
    offset: int
    nbytes: int
    link: int
    info: int
    align: int
    entry: int


@dataclass(frozen=True, slots=True)
class GlobalSymbol:
    """A symbol that has a name outside of its file; `number` is that of its row.

    `value` counts from the begin of its section, which is UNDEFINED where the file only uses it.
    """

    number: int
    name: str
    section: int
    value: int
    binding: int


@dataclass(frozen=True, slots=True, eq=False)
class ObjectFile:
    """An object file for a processor (`machine` is ELF's number), with its tables.

    The first row of `symbols` stands for none; `globals` are those that have a name outside.
    """

    code: bytes
    machine: int
    sections: tuple[ObjectSection, ...]
    symbols: Table
    globals: tuple[GlobalSymbol, ...]

    def names(self, *, defined: bool) -> list[str]:
        """Return the names of global symbols that the file defines, or of those that it uses."""
        return [x.name for x in self.globals if (x.section != UNDEFINED) == defined]

    def contents(self, section: ObjectSection) -> bytes:
        """Return the bytes of a section that has some in the file."""
        return self.code[section.offset : section.offset + section.nbytes]

    def relocations(self, section: ObjectSection) -> Table:
        """Return the rows of a section of relocations; its `info` is the section they apply to.

        Those of 64 bits only are read: files of 32 bits are for other machines.
        """
        return np.frombuffer(self.contents(section), _RELOCATION)


def read_object(code: bytes) -> ObjectFile:
    """Return the tables of an object file; raises ObjectFormatError for anything else."""
    try:
        kind, machine = struct.unpack_from("<HH", code, 16)
        form = next((x for x in _FORMS if code.startswith(x.identity)), None)
        if form is None or kind != _RELOCATABLE:
            raise ObjectFormatError("no object file in ELF, least byte first")
        (start,) = struct.unpack_from(form.address, code, form.start)
        (count,) = struct.unpack_from("<H", code, form.count)
        headers = code[start : start + count * form.section.size]
        sections = tuple([ObjectSection(*x) for x in form.section.iter_unpack(headers)])
        if len(sections) != count:
            raise ObjectFormatError("a damaged object file: sections are cut off")
        _check_ends(sections, len(code))
        tables = [x for x in sections if x.type == SYMBOLS]
        if len(tables) != 1:
            raise ObjectFormatError(f"an object file with {len(tables)} tables of symbols")
        (table,) = tables
        names = sections[table.link]
        rows = table.nbytes // form.symbol.itemsize
        symbols = np.frombuffer(code, form.symbol, rows, table.offset)
        strings = code[names.offset : names.offset + names.nbytes]
        return ObjectFile(code, machine, sections, symbols, tuple(_globals(symbols, strings)))
    except (struct.error, IndexError, ValueError) as error:
        raise ObjectFormatError(f"a damaged object file: {error}") from error


def _globals(symbols: Table, strings: bytes) -> Iterator[GlobalSymbol]:
    """Yield the symbols that have a name outside: each name ends with a byte 0."""
    numbers = np.flatnonzero((symbols["info"] >> 4 != LOCAL) & (symbols["name"] != 0))
    rows = symbols[numbers]
    columns = [rows[x].tolist() for x in ("name", "section", "value", "info")]
    for number, start, section, value, info in zip(numbers.tolist(), *columns, strict=True):
        end = strings.find(b"\0", start)
        if end < 0:
            raise ObjectFormatError("a damaged object file: a name does not end")
        name = strings[start:end].decode(errors="replace")
        yield GlobalSymbol(number, name, section, value, info >> 4)


def _check_ends(sections: Sequence[ObjectSection], nbytes: int) -> None:
    """Raise ObjectFormatError where a section goes beyond the file, or a table has half a row."""
    for x in sections:
        is_cut = x.type != ZEROS and x.offset + x.nbytes > nbytes
        if x.type == RELOCATIONS:
            is_cut |= x.nbytes % _RELOCATION.itemsize != 0 or x.info >= len(sections)
        if is_cut:
            raise ObjectFormatError("a damaged object file: a section is cut off")


def undefined_symbols(code: bytes) -> tuple[str, ...]:
    """Return the names that an object file uses and does not define, sorted."""
    return tuple(sorted(read_object(code).names(defined=False)))
