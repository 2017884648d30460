"""Sections: instructions that run together in parts, so that no large value exists as a whole.

A section grows from one value and one of its dimensions. It grows back to what the value is
computed from, as far as that dimension leads; then on to all that is computed from the section;
then back to what only the section reads. A fold over the dimension ends it: what reads the folded
value runs after the last part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Final, final

from lowtide.ir import ElementType, Instruction, Opcode
from lowtide.ops.table import TABLE
from lowtide.records import dataclass
from lowtide.transforms.memory.split.alignments import (
    WHOLE,
    Alignment,
    KnownAlignments,
    alignments,
    sizes_of,
)


@dataclass(frozen=True, slots=True)
class Section:
    """Instructions of one computation that can be run in parts.

    `how` has the alignment of each, operands before their readers. `folds` are those whose result
    is complete after the last part; `exits` those of which parts are put together because others
    read them; `copies` those that are also run as a whole, before the parts, for other readers.
    `inputs` are computed before the first part.
    """

    how: Mapping[Instruction, Alignment]
    folds: tuple[Instruction, ...]
    exits: tuple[Instruction, ...]
    copies: frozenset[Instruction]
    inputs: tuple[Instruction, ...]

    def reads_part(self, operand: Instruction, dimension: int) -> bool:
        """Whether a member that needs an operand so split reads the part that the section makes."""
        how = self.how.get(operand)
        return how is not None and not how.folds and how.result == dimension


def grown(
    order: Sequence[Instruction],
    seed: Instruction,
    dimension: int,
    parts: int,
    known: KnownAlignments | None = None,
) -> Section | None:
    """Return the section around a value, to be run in `parts` along one of its dimensions.

    `order` are all instructions of the computation, operands first. Alignments are looked up in
    `known`, and noted there. None where the value is not computed along that dimension, or where
    its readers need it as a whole.
    """
    growth = _Growth(order, parts, {} if known is None else known)
    if not growth.start(seed, dimension):
        return None
    growth.go_on()
    growth.fetch()
    growth.trim()
    section = growth.section()
    usable = len(section.how) > 1 and not any(x.shape.is_tuple for x in section.exits)
    return section if usable else None


class _Place(Enum):
    BEFORE = auto()
    INSIDE = auto()
    BOTH = auto()
    AFTER = auto()


_LARGER: Final = 4
"""A value so many times as large as its operands may be computed twice, if that is cheap."""


@final
class _Growth:
    def __init__(self, order: Sequence[Instruction], parts: int, known: KnownAlignments) -> None:
        self.order, self.parts, self.known = order, parts, known
        self.number = {x: i for i, x in enumerate(order)}
        self.place: dict[Instruction, _Place] = {}
        self.how: dict[Instruction, Alignment] = {}

    # -- back from the seed --------------------------------------------------------------------

    def start(self, seed: Instruction, dimension: int) -> bool:
        """Decide on all that the seed is computed from; return whether it is inside."""
        wanted: dict[Instruction, dict[int, None]] = {seed: {dimension: None}}
        for x in reversed(self.order[: self.number[seed] + 1]):
            if x in wanted:
                self._decide(x, wanted[x])
                if seed not in self.how:
                    return False
                for operand, how in self._demands(x):
                    wanted.setdefault(operand, {})[how] = None
        return True

    def _decide(self, x: Instruction, wanted: Iterable[int]) -> None:
        """Run an instruction in parts where that is all that readers want, or cheap."""
        split = [k for k in wanted if k != WHOLE]
        only = len(split) == 1 and (found := self._part(x, split[0])) is not None
        if not only:
            self.place[x] = _Place.BEFORE
            return
        assert found is not None
        if WHOLE not in wanted:
            self.place[x], self.how[x] = _Place.INSIDE, found
        elif _is_cheap(x):
            self.place[x], self.how[x] = _Place.BOTH, found
        else:
            self.place[x] = _Place.BEFORE

    def _demands(self, x: Instruction) -> Iterable[tuple[Instruction, int]]:
        """How an instruction that is decided on wants its operands."""
        if x in self.how:
            yield from zip(x.operands, self.how[x].operands, strict=True)
        if self.place[x] in (_Place.BEFORE, _Place.BOTH):
            yield from ((y, WHOLE) for y in (*x.operands, *x.control_predecessors))

    def _part(self, x: Instruction, dimension: int) -> Alignment | None:
        """How an instruction makes parts along a dimension of its result."""
        for found in alignments(x, self.known):
            if found.result == dimension and self._divides(x, found):
                return found
        return None

    def _divides(self, x: Instruction, how: Alignment) -> bool:
        """Whether there are as many equal parts of the result and of each operand that is split."""
        split = [(x, how.result), *zip(x.operands, how.operands, strict=True)]
        return all(k == WHOLE or _size(y, k) % self.parts == 0 for y, k in split)

    # -- on to the readers ---------------------------------------------------------------------

    def go_on(self) -> None:
        """Take in what can be computed from parts; the rest of what reads the section comes after.

        What reads nothing of the section is left open.
        """
        for x in self.order:
            if x in self.place:
                continue
            places = [self.place.get(y) for y in (*x.operands, *x.control_predecessors)]
            if _Place.AFTER in places or any(y in self.how and self._folds(y) for y in x.operands):
                self.place[x] = _Place.AFTER
            elif _Place.INSIDE in places:
                self._join(x)

    def _folds(self, x: Instruction) -> bool:
        return self.how[x].folds

    def _join(self, x: Instruction) -> None:
        found = next((y for y in alignments(x, self.known) if self._fits(x, y)), None)
        if found is None or any(self.place.get(y) is _Place.INSIDE for y in x.control_predecessors):
            self.place[x] = _Place.AFTER
            return
        self.place[x], self.how[x] = _Place.INSIDE, found

    def _fits(self, x: Instruction, how: Alignment) -> bool:
        """Whether an instruction can run in parts, given those that there are of its operands."""
        for operand, k in zip(x.operands, how.operands, strict=True):
            inside = self.place.get(operand) is _Place.INSIDE
            if inside and self.how[operand].result != k:
                return False
        if not self._divides(x, how):
            return False
        return not how.folds or _may_fold(x, how)

    # -- back to what only the section reads ----------------------------------------------------

    def fetch(self) -> None:
        """Take in what is computed for the section alone, or cheap to compute for it again."""
        for x in reversed(self.order):
            if x in self.place:
                continue
            wanted: dict[int, None] = {}
            for user in x.users:
                wanted.update(dict.fromkeys(self._wants(user, x)))
            if x.is_root or x.control_successors:
                wanted[WHOLE] = None
            self._decide(x, wanted)

    def _wants(self, user: Instruction, x: Instruction) -> Iterable[int]:
        for operand, k in self._demands(user) if self.place[user] is not _Place.AFTER else ():
            if operand is x:
                yield k
        if self.place[user] is _Place.AFTER:
            yield WHOLE

    # -- borders of fewer bytes ----------------------------------------------------------------

    def trim(self) -> None:
        """Move the borders to where fewer bytes cross them.

        Elements are taken from tuples where these are. What is read only after the parts runs
        after them, unless what it reads is larger. What reads nothing of the section runs before
        it, unless it is larger than what it reads.
        """
        for x in self.order:
            if x.opcode is Opcode.GET_TUPLE_ELEMENT and self._is_read_whole(x):
                self._put(x, _Place.BEFORE)
        for x in reversed(self.order):
            if self._is_last(x):
                made = [y for y in dict.fromkeys(x.operands) if self._would_leave(y)]
                if sum([y.shape.nbytes for y in made]) <= x.shape.nbytes:
                    self._put(x, _Place.AFTER)
        for x in self.order:
            if self.place[x] is _Place.INSIDE and self._is_first(x):
                self._put(x, _Place.BEFORE)

    def _is_read_whole(self, x: Instruction) -> bool:
        """Whether a member is taken from a tuple outside, of which there are no parts."""
        return x in self.how and x.operands[0] not in self.how

    def _put(self, x: Instruction, place: _Place) -> None:
        self.place[x] = place
        del self.how[x]

    def _is_last(self, x: Instruction) -> bool:
        """Whether a member is read outside only, and each part that it reads is one of a member."""
        if self.place[x] is not _Place.INSIDE or any(y in self.how for y in x.users):
            return False
        if x.opcode is Opcode.GET_TUPLE_ELEMENT:
            return False
        return any(self.place[y] is _Place.INSIDE for y in x.operands)

    def _would_leave(self, x: Instruction) -> bool:
        """Whether parts of a member have to be put together because of one more reader outside."""
        return self.place[x] is _Place.INSIDE and not self._leaves(x)

    def _is_first(self, x: Instruction) -> bool:
        if self.how[x].folds or self._leaves(x) or x.shape.is_tuple:
            return False
        if any(self.place[y] is not _Place.BEFORE for y in x.operands):
            return False
        ends = [y for y in dict.fromkeys(x.operands) if self._is_read_once(y)]
        return x.shape.nbytes <= sum([y.shape.nbytes for y in ends])

    def _is_read_once(self, x: Instruction) -> bool:
        return x.opcode not in (Opcode.PARAMETER, Opcode.CONSTANT) and len(x.users) == 1

    # -- what was found ------------------------------------------------------------------------

    def section(self) -> Section:
        """Return the members in order, and what crosses the border."""
        how = {x: self.how[x] for x in self.order if x in self.how}
        folds = [x for x, y in how.items() if y.folds]
        copies = [x for x in how if self.place[x] is _Place.BOTH]
        exits = [x for x in how if self.place[x] is _Place.INSIDE and self._leaves(x)]
        inputs: dict[Instruction, None] = {}
        for x, y in how.items():
            for number, (operand, k) in enumerate(zip(x.operands, y.operands, strict=True)):
                if y.folds and number == _start_of(x, y):
                    continue
                if operand not in how or how[operand].result != k or k == WHOLE:
                    inputs[operand] = None
        return Section(how, tuple(folds), tuple(exits), frozenset(copies), tuple(inputs))

    def _leaves(self, x: Instruction) -> bool:
        if self.how[x].folds:
            return False
        return x.is_root or any(y not in self.how for y in x.users)


def _start_of(x: Instruction, how: Alignment) -> int | None:
    """The operand of a fold that counts once, before the first part."""
    if how.is_update:
        return 0
    return 1 if x.opcode is Opcode.REDUCE else None


def _size(x: Instruction, dimension: int) -> int:
    sizes = sizes_of(x.shape)
    return 1 if sizes is None else sizes[dimension]


def _is_cheap(x: Instruction) -> bool:
    """Whether a value is much larger than what it is computed from, in one simple operation."""
    if x.opcode not in (Opcode.BROADCAST, Opcode.IOTA) and not TABLE[x.opcode].elementwise:
        return False
    return sum([y.shape.nbytes for y in x.operands]) * _LARGER <= x.shape.nbytes


def _may_fold(x: Instruction, how: Alignment) -> bool:
    """Whether terms of the result can be combined: of types with neutral elements."""
    if how.is_update:
        return True
    kind = x.shape.element_type
    if kind.is_complex:
        return how.terms is Opcode.ADD
    return kind is ElementType.PRED or kind.is_integer or (kind.is_floating and kind.bits >= 16)
