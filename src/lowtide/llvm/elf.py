"""Object files as LLVM writes them: ELF, 64 or 32 bits, least byte first, not linked yet.

Source: the System V Application Binary Interface, chapter 4, and its supplements for processors.
"""

from __future__ import annotations

import struct
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from lowtide.records import dataclass

Table: TypeAlias = "npt.NDArray[Any]"
"""Rows of one of the record types below."""

_RELOCATABLE: Final = 1

_SECTION: Final = np.dtype(
    [
        *[(x, "<u4") for x in ("name", "type")],
        *[(x, "<u8") for x in ("flags", "address", "offset", "nbytes")],
        *[(x, "<u4") for x in ("link", "info")],
        *[(x, "<u8") for x in ("align", "entry")],
    ]
)
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
_NARROW_SECTION: Final = np.dtype(
    [
        (x, "<u4")
        for x in (
            *("name", "type", "flags", "address", "offset"),
            *("nbytes", "link", "info", "align", "entry"),
        )
    ]
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
    how it writes the former.
    """

    identity: bytes
    address: str
    start: int
    count: int
    section: np.dtype[Any]
    symbol: np.dtype[Any]


_FORMS: Final = (
    _Form(b"\x7fELF\x02\x01", "<Q", 40, 60, _SECTION, _SYMBOL),
    _Form(b"\x7fELF\x01\x01", "<I", 32, 48, _NARROW_SECTION, _NARROW_SYMBOL),
)

SYMBOLS: Final = 2
RELOCATIONS: Final = 4
ZEROS: Final = 8
"""Types of sections: a table of symbols, one of relocations, and bytes that are all 0."""

UNDEFINED: Final = 0
LOCAL: Final = 0


class ObjectFormatError(ValueError):
    """Bytes are no object file of this kind."""


@dataclass(frozen=True, slots=True, eq=False)
class ObjectFile:
    """An object file for a processor (`machine` is ELF's number), with its tables.

    The first row of `symbols` stands for none; `strings` has their names from `symbols["name"]` on,
    each up to a byte 0.
    """

    code: bytes
    machine: int
    sections: Table
    symbols: Table
    strings: bytes

    def name(self, symbol: int) -> str:
        """Return the name of a symbol by its number."""
        start = int(self.symbols["name"][symbol])
        end = self.strings.find(b"\0", start)
        if end < 0:
            raise ObjectFormatError("a damaged object file: a name does not end")
        return self.strings[start:end].decode(errors="replace")

    def globals(self) -> list[int]:
        """Return the numbers of the symbols that have a name outside of the file."""
        rows = self.symbols
        found: list[int] = np.flatnonzero(
            (rows["info"] >> 4 != LOCAL) & (rows["name"] != 0)
        ).tolist()
        return found

    def names(self, *, defined: bool) -> list[str]:
        """Return the names of global symbols that the file defines, or of those that it uses."""
        homes = self.symbols["section"]
        return [self.name(x) for x in self.globals() if (homes[x] != UNDEFINED) == defined]

    def contents(self, section: int) -> bytes:
        """Return the bytes of a section that has some in the file."""
        row = self.sections[section]
        start = int(row["offset"])
        return self.code[start : start + int(row["nbytes"])]

    def relocations(self, section: int) -> Table:
        """Return the rows of a section of relocations; `info` of its row is where they apply.

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
        sections = np.frombuffer(code, form.section, count, start)
        _check_ends(sections, len(code))
        tables = np.flatnonzero(sections["type"] == SYMBOLS)
        if len(tables) != 1:
            raise ObjectFormatError(f"an object file with {len(tables)} tables of symbols")
        symbols, names = sections[tables[0]], sections[int(sections[tables[0]]["link"])]
        rows = int(symbols["nbytes"]) // form.symbol.itemsize
        first, nbytes = int(names["offset"]), int(names["nbytes"])
        return ObjectFile(
            code,
            machine,
            sections,
            np.frombuffer(code, form.symbol, rows, int(symbols["offset"])),
            code[first : first + nbytes],
        )
    except (struct.error, IndexError, ValueError) as error:
        raise ObjectFormatError(f"a damaged object file: {error}") from error


def _check_ends(sections: Table, nbytes: int) -> None:
    """Raise ObjectFormatError where a section goes beyond the file, or a table has half a row."""
    ends = sections["offset"].astype(np.float64) + sections["nbytes"]
    halves = sections["nbytes"] % _RELOCATION.itemsize
    for kind, is_wrong in (
        (sections["type"] != ZEROS, ends > nbytes),
        (sections["type"] == RELOCATIONS, halves != 0),
        (sections["type"] == RELOCATIONS, sections["info"] >= len(sections)),
    ):
        if (kind & is_wrong).any():
            raise ObjectFormatError("a damaged object file: a section is cut off")


def undefined_symbols(code: bytes) -> tuple[str, ...]:
    """Return the names that an object file uses and does not define, sorted."""
    return tuple(sorted(read_object(code).names(defined=False)))
