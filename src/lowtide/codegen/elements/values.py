"""Elements of arrays: what one is, how it is asked for, and what computes it."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import field
from typing import NamedTuple, TypeAlias

from lowtide.codegen.arrays import Array
from lowtide.codegen.indexing import Index
from lowtide.codegen.value import Value
from lowtide.ir import Instruction
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class Mask:
    """Where elements are wanted: an i1, or one per lane; `level` as of `Variable`.

    `count` is the number of lanes where it holds, if these are known to be the first ones, else 0.
    """

    name: str
    lanes: int
    level: int
    count: int = 0

    @property
    def holds_first(self) -> bool:
        """Whether it is a constant that holds in the first lane."""
        return self.name.startswith("<i1 true")


class Element(NamedTuple):
    """The values of an instruction at an index (several where it yields a tuple of scalars).

    `level` is the depth of loops at which they are known.
    """

    values: tuple[Value, ...]
    level: int


class Request(NamedTuple):
    """What a rule asks for: an instruction's element; where `mask` is false any value will do."""

    instruction: Instruction
    at: Index
    mask: Mask | None
    frame: CallFrame


Rule: TypeAlias = "Generator[Request, Element, Element]"
"""Computes an element: yields the elements that it needs, and gets their values."""


@dataclass(frozen=True, eq=False, slots=True)
class CallFrame:
    """One use of a computation: what its parameters stand for.

    They are arrays in memory, elements, or operands of `caller` in the frame `parent`. `tuples` has
    the arrays of parameters that are tuples, depth first.
    """

    arrays: Mapping[Instruction, Array] = field(default_factory=dict)
    elements: Mapping[Instruction, Element] = field(default_factory=dict)
    caller: Instruction | None = None
    parent: CallFrame | None = None
    tuples: Mapping[Instruction, tuple[Array, ...]] = field(default_factory=dict)
