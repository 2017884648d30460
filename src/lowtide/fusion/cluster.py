"""A set of instructions that run as one kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from lowtide.fusion.access import Access
from lowtide.fusion.code_size import ValueNeeds, most_pieces, needs
from lowtide.ir import Instruction
from lowtide.records import dataclass


class KernelKind(StrEnum):
    """The shapes of kernel, each of which code generation has a template for."""

    LOOP = "loop"
    """Each member is computed at the points of one space; the roots have its dimensions."""
    REDUCTION = "reduction"
    """Reductions of one space along the same dimensions, then a loop over the kept ones.
    Of several results some may be stored in that one pass over the space."""
    ROWS = "rows"
    """Reductions along the last dimensions, and loops that read the results along each row."""
    CONTRACTION = "contraction"
    """One dot or convolution: loops that make its operands, then a loop over its result."""
    UPDATE = "update"
    """A dynamic-update-slice or scatter in place; loops make what is written.
    Several write the same space, and what is written may be stored by itself as well."""
    ATTENTION = "attention"
    """Dots that make scores, what is computed of them row by row, and a dot that sums up rows.

    A row is what the last dot contracts. It lies along what one operand of each first dot (the
    keys) has alone; all other dimensions number the rows. Members that depend on no score are
    loops, computed where they are read; before a dot, while its operand is packed.

    A thread takes a block of at most `TargetRecord.most_rows` rows, which share the batch indices
    of all dots, and computes that block of each first dot into scratch. Then it runs along the
    rows, once for each reduction of a chain, and once more. A reduction yields one number per row,
    elementwise operations, broadcasts, transposes and reshapes keep rows apart, slices and
    concatenations cut and join them. The last run leaves the operand of the last dot in scratch;
    its product with the values goes through elementwise operations, and is stored.

    Scratch of a thread: a block for each first dot and one for what is made of them, each of at
    most `TargetRecord.most_row_bytes` (a row in the widest type, times rows), and the block of the
    result. No score is ever stored elsewhere.
    """


class ClusterRead(NamedTuple):
    """The way in which a cluster reads a value from outside.

    `access` is relative to the space of the cluster; `nbytes` is how much is read at least.
    A `target` is overwritten in place, an `inner` value is an operand of the contraction. `pieces`
    is at how many different indices it is read, at most, and `times` how often for an element of
    the space, at most.
    """

    access: Access
    nbytes: int
    target: bool = False
    inner: bool = False
    pieces: int = 1
    times: float = 1.0


class CountedNeeds(NamedTuple):
    """What each value is needed for by so many members, and the most pieces of one."""

    members: int
    needs: Mapping[Instruction, ValueNeeds]
    most_pieces: int


@dataclass(eq=False, slots=True)
class Cluster:
    """Instructions of one computation that run as one; their values stay in registers or caches.

    A member of several clusters is computed in each of them. `root` is the value that others read;
    `space` the dimensions over which the members are computed, `kept` those that reductions keep,
    `root_access` the dimensions of the space which index the root. `seconds` is the arithmetic of
    all members, once each.
    """

    kind: KernelKind
    root: Instruction
    space: tuple[int, ...]
    kept: tuple[int, ...]
    root_access: Access
    members: dict[Instruction, None]
    inputs: dict[Instruction, ClusterRead] = field(default_factory=dict)
    seconds: float = 0.0
    hero: Instruction | None = None
    packable: bool = False
    """Whether it is simple enough to be computed while an operand of a contraction is packed."""
    position: int = 0
    version: int = 0
    most_pieces: int = 1
    """At how many different indices any one value is computed or read, at most."""
    counted: CountedNeeds = CountedNeeds(0, MappingProxyType({}), 1)
    """What each value was needed for when there were so many members."""
    whole: Mapping[Instruction, None] | None = None
    """What its members will be, while it is put together of these, readers first."""

    def needs(self) -> Mapping[Instruction, ValueNeeds]:
        """Return at how many indices each value is needed, how often; members are only added."""
        return self.count().needs

    def count(self) -> CountedNeeds:
        """Return the same, and the most pieces of one value; of what is put together, in the end.

        A value all of whose readers are there is needed for no more then.
        """
        members = self.members if self.whole is None else self.whole
        if self.counted.members != len(members):
            found = needs(members, self.root)
            self.counted = CountedNeeds(len(members), found, most_pieces(found))
        return self.counted

    def pieces_with(self, producer: Cluster, pieces: int) -> int:
        """Return `most_pieces` once this computes what it reads of a producer, at most.

        The producer's value is read at so many indices. What both have is needed for either.
        """
        own = pieces * producer.most_pieces
        if own + self.most_pieces <= _FEW_PIECES or self._shares(producer):
            return own + self.most_pieces
        return max(own, self.most_pieces)

    def _shares(self, producer: Cluster) -> bool:
        """Whether it has values that the producer computes or reads, besides the one it reads."""
        members, inputs, others = self.members.keys(), self.inputs.keys(), producer.inputs.keys()
        if not (members.isdisjoint(others) and inputs.isdisjoint(others)):
            return True
        made, root = producer.members, producer.root
        if len(made) == 1:  # That is the root.
            return False
        return any(x is not root and (x in members or x in inputs) for x in made)

    @property
    def is_free(self) -> bool:
        """Whether it reads nothing: constants, iotas and what is made of them."""
        return not self.inputs


_FEW_PIECES: Final = 4
"""So few are not worth looking whether they are fewer."""
