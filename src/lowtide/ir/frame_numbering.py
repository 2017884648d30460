"""Stack frames numbered in order of first use, as XLA numbers them when it loads a module."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

from lowtide.ir.instruction import Instruction
from lowtide.ir.metadata import FileLocation, StackFrame, StackFrames


def number_frames(
    tables: StackFrames, sequences: Iterable[Sequence[Instruction]]
) -> tuple[StackFrames, Mapping[int, int]]:
    """Return tables numbered by first use in `sequences`, and the new number of each used frame.

    Outer frames come before inner ones, unused entries are dropped, equal ones joined. A frame id
    that points nowhere gets the number 0.
    """
    numbering = _Numbering(tables)
    known = numbering.known
    for sequence in sequences:
        for instruction in sequence:
            frame = instruction.raw_metadata.stack_frame_id
            if frame and frame not in known:
                numbering.number(frame)
    return numbering.tables(), known


class _Table:
    """Distinct entries, numbered from 1."""

    def __init__(self) -> None:
        self.entries: dict[Hashable, int] = {}

    def number(self, entry: Hashable) -> int:
        return self.entries.setdefault(entry, len(self.entries) + 1)


class _Numbering:
    def __init__(self, old: StackFrames) -> None:
        self.old = old
        self.files, self.functions = _Table(), _Table()
        self.locations, self.frames = _Table(), _Table()
        self.known: dict[int, int] = {0: 0}

    def number(self, old: int) -> int:
        """Return the new number of a frame; its callers get smaller ones."""
        chain: list[int] = []
        while old not in self.known:
            if not 1 <= old <= len(self.old.frames) or len(chain) > len(self.old.frames):
                self.known[old] = 0
                break
            chain.append(old)
            old = self.old.frames[old - 1].parent_frame_id
        for number in reversed(chain):
            frame = self.old.frames[number - 1]
            parent = self.known[frame.parent_frame_id]
            location = self._location(frame.file_location_id)
            self.known[number] = self.frames.number(StackFrame(location, parent))
        return self.known[chain[0] if chain else old]

    def _location(self, old: int) -> int:
        if not 1 <= old <= len(self.old.file_locations):
            return 0
        place = self.old.file_locations[old - 1]
        return self.locations.number(
            FileLocation(
                self._name(self.files, self.old.file_names, place.file_name_id),
                self._name(self.functions, self.old.function_names, place.function_name_id),
                place.line,
                place.end_line,
                place.column,
                place.end_column,
            )
        )

    def _name(self, table: _Table, names: tuple[str, ...], old: int) -> int:
        return table.number(names[old - 1]) if 1 <= old <= len(names) else 0

    def tables(self) -> StackFrames:
        """Return the new tables."""
        return StackFrames(
            tuple([str(name) for name in self.files.entries]),
            tuple([str(name) for name in self.functions.entries]),
            tuple([x for x in self.locations.entries if isinstance(x, FileLocation)]),
            tuple([x for x in self.frames.entries if isinstance(x, StackFrame)]),
        )
