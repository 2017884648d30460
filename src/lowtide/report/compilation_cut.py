"""A moment at which every compilation has much in memory, in lines of the program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final

from lowtide.ir import Instruction, Opcode, SourceLocation
from lowtide.records import dataclass
from lowtide.report.blame import user_frame
from lowtide.report.drawing import elide
from lowtide.report.peak_making import op_name_of, stack_of, who_knows
from lowtide.report.peak_table import place_text
from lowtide.report.schema import Json, source_json
from lowtide.report.units import Unit

_PLURALS: Final = {
    Opcode.DOT: "products",
    Opcode.CONVOLUTION: "convolutions",
    Opcode.WHILE: "loops",
    Opcode.CONDITIONAL: "branches",
    Opcode.SORT: "sorts",
    Opcode.SCATTER: "scatters",
    Opcode.CUSTOM_CALL: "custom calls",
}
"""What operations that run once are called; all others are others."""
_OTHERS: Final = "others"
_GIVEN: Final = {"argument": "arguments", "state": "state"}
"""Words for values that no operation makes."""


@dataclass(frozen=True, slots=True)
class CutValue:
    """A value that is stored at the moment.

    `element` is its place in a tuple, as `{1}`. `kind` is "argument", "state" for what a
    computation that is called is given, or "made".
    """

    instruction: str
    element: str
    kind: str
    nbytes: int
    shape: str
    op_name: str
    source: SourceLocation | None

    def to_json(self) -> Json:
        """Return the entry of `buffers`."""
        return {
            "name": self.instruction + self.element,
            "kind": self.kind,
            "bytes": self.nbytes,
            "shape": self.shape,
            "op_name": self.op_name,
            "source": source_json(self.source),
        }


@dataclass(frozen=True, slots=True)
class CompilationCut:
    """The moment that shows what every compilation needs, and what is stored then, largest first.

    `when` says how the moment stands to `instruction`, which is empty at the end of the program.
    `once` are the kinds of operations that the class of compilations does not compute again.
    `is_whole` says whether all moments were looked at, so that no other one shows more.
    """

    when: str
    instruction: str
    source: SourceLocation | None
    once: tuple[str, ...]
    stored: tuple[CutValue, ...]
    is_whole: bool

    def to_json(self) -> Json:
        """Return the document's `compilation_cut`."""
        return {
            "when": self.when,
            "instruction": self.instruction,
            "source": source_json(self.source),
            "once": list(self.once),
            "buffers": [x.to_json() for x in self.stored],
            "all_moments": self.is_whole,
        }

    def kinds(self) -> str:
        """Return the kinds as words of a sentence; empty for a program without any."""
        names = list(self.once)
        return " and ".join([x for x in (", ".join(names[:-1]), *names[-1:]) if x])

    def line(self, unit: Unit, width: int) -> str:
        """Return the moment and the lines whose values are stored then, in one line of a screen."""
        at = f"{self.when} {elide(self.instruction, 30)}" if self.instruction else "at the end"
        if self.source is not None:
            at += f" ({place_text(self.source, function=False)})"
        sizes = Counter[str]()
        for x in self.stored:
            sizes[_place(x)] += x.nbytes
        rows = [f"{unit.number(nbytes)} of {place}" for place, nbytes in sizes.most_common()]
        for count in range(len(rows), 0, -1):
            more = [f"{len(rows) - count} more"] if count < len(rows) else []
            text = f"shown {at}: {', '.join([*rows[:count], *more])}"
            if len(text) <= width:
                return text
        return elide(f"shown {at}", width)


def _place(x: CutValue) -> str:
    """Where a value comes from, as well as that is known."""
    if x.kind in _GIVEN:
        return _GIVEN[x.kind]
    return elide(x.instruction, 24) if x.source is None else place_text(x.source, function=False)


def compilation_cut(
    when: str,
    at: Instruction | None,
    once: Collection[Opcode],
    stored: Sequence[tuple[Instruction, int, int, int]],
    *,
    is_whole: bool,
) -> CompilationCut:
    """Return the cut at a moment of an operation.

    Values are (maker, leaf, bytes, number of calls around it).
    """
    kinds = [word for opcode, word in _PLURALS.items() if opcode in once]
    if not {*once}.issubset(_PLURALS):
        kinds.append(_OTHERS)
    values = sorted([_value(*x) for x in stored], key=lambda x: (-x.nbytes, x.instruction))
    source = None if at is None else user_frame(stack_of(who_knows([at])))
    name = "" if at is None else at.name
    return CompilationCut(when, name, source, tuple(kinds), tuple(values), is_whole)


def _value(maker: Instruction, leaf: int, nbytes: int, depth: int) -> CutValue:
    index, shape = [*maker.shape.leaves()][leaf]
    known = who_knows([maker])
    element = "{" + ",".join(map(str, index)) + "}" if index else ""
    return CutValue(
        maker.name,
        element,
        _kind(maker, depth),
        nbytes,
        shape.text(layout=False),
        op_name_of(known),
        user_frame(stack_of(known)),
    )


def _kind(maker: Instruction, depth: int) -> str:
    if maker.opcode is not Opcode.PARAMETER:
        return "made"
    return "state" if depth else "argument"
