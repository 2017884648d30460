"""Places in a function and of its calls, which tell the calls of it from one another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import final

from lowtide.ir import Instruction
from lowtide.ir.metadata import FileLocation
from lowtide.report.blame import is_backward
from lowtide.whatif.baseline import Baseline
from lowtide.whatif.makers import SHAPING, Maker, call_in, lines_in


@final
class CallPlaces:
    """Lines in a function, and the sites at which it is called, for what comes from it.

    Calls that stand side by side on a line have sites of their own. Those of a loop have one, as
    has the function whose calls differ further out; there a call ends where lines begin anew.
    """

    def __init__(self, base: Baseline, maker: Maker) -> None:
        self.maker = maker
        self.line: dict[Instruction, int] = {}
        """What was taken in, with its line in the function, in order."""
        self.site: dict[Instruction, FileLocation | None] = {}
        """The place of its call, None where that is unknown."""
        self.once = _sites_called_once(base, maker)
        """Sites at which the program calls the function once."""

    def take(self, x: Instruction) -> bool:
        """Take in an instruction that comes from the function; whether it does."""
        lines = lines_in(x, self.maker)
        if lines:
            self.line[x], self.site[x] = lines[0], call_in(x, self.maker)
        return bool(lines)

    def are_apart(self, x: Instruction, y: Instruction) -> bool:
        """Whether two come from calls at two sites."""
        sites = self.site[x], self.site[y]
        return None not in sites and sites[0] != sites[1]

    def begins(self, x: Instruction, y: Instruction) -> bool:
        """Whether what reads a value of the function is of another call than that one."""
        if self.are_apart(x, y):
            return True
        return self.site[x] not in self.once and self.line[x] < self.line[y]

    def gives_again(self, x: Instruction, readers: Iterable[Instruction]) -> bool:
        """Whether some readers from the function may be of another call than a value."""
        own = self.site[x] in self.once
        return any(
            self.are_apart(y, x) or (not own and self.line[y] <= self.line[x]) for y in readers
        )


def _sites_called_once(base: Baseline, maker: Maker) -> frozenset[FileLocation | None]:
    """The sites of a function at which the program as given calls it once.

    Its first or its last line comes once there: lines that begin anew are those of a loop in it.
    """
    if maker.kind != "function":
        return frozenset()
    counts: dict[FileLocation | None, dict[int, dict[object, int]]] = {}
    for x in base.given.entry.instructions.values():
        if x.opcode not in SHAPING and not is_backward(x.metadata.op_name):
            for line in lines_in(x, maker):
                own = counts.setdefault(call_in(x, maker), {}).setdefault(line, {})
                own[x.stack, x.opcode] = own.get((x.stack, x.opcode), 0) + 1
    return frozenset([site for site, own in counts.items() if _ends_come_once(own)])


def _ends_come_once(counts: Mapping[int, Mapping[object, int]]) -> bool:
    """Whether the first or the last of some lines has nothing that comes again."""
    return any(max(counts[line].values()) == 1 for line in (min(counts), max(counts)))
