"""Needs of passes, without which they can do nothing, and features of modules that meet them.

What is looked for is told by opcodes, by types of elements, and by traits. What a computation has
is worked out once for each of its versions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from enum import StrEnum
from typing import Final, TypeAlias

from lowtide.ir import Computation, ElementType, Module, Opcode, Shape
from lowtide.ir.attributes import Compare
from lowtide.ir.kept import kept


class Trait(StrEnum):
    """Properties of a module beside its opcodes and the types of its elements."""

    EMPTY = "an array without elements"
    REORDERED = "an array that is not row major"
    MIXED = "numbers of several floating point types, or complex ones"
    TOTAL_ORDER = "a comparison in total order"
    SEVERAL_RESULTS = "a reduction of several arrays"
    SEVERAL_DOTS = "several contractions"
    SEVERAL_CALLED = "several called computations"


Feature: TypeAlias = "Opcode | ElementType | Trait"

Needs: TypeAlias = "tuple[frozenset[Feature], ...]"
"""Of each set a module has to have one feature at least."""


def needs(*alternatives: Collection[Feature]) -> Needs:
    """Return what is needed: one of each of some collections."""
    return tuple([frozenset(x) for x in alternatives])


def features_of(module: Module) -> frozenset[Feature]:
    """Return what a module has of all that passes may need."""
    computations = module.computations.values()
    found: set[Feature] = set().union(*[_features(x) for x in computations])
    types = [x for x in found if isinstance(x, ElementType)]
    if len([x for x in types if x.is_floating]) > 1 or any(x.is_complex for x in types):
        found.add(Trait.MIXED)
    if sum([_dots(x) for x in computations]) > 1:
        found.add(Trait.SEVERAL_DOTS)
    if len(computations) > _ENTRY_AND_ONE:
        found.add(Trait.SEVERAL_CALLED)
    return frozenset(found)


_ENTRY_AND_ONE: Final = 2


def _features(computation: Computation) -> frozenset[Feature]:
    return kept(computation, _features, lambda: frozenset(_found(computation)))


def _dots(computation: Computation) -> int:
    def counted() -> int:
        return sum([x.opcode is Opcode.DOT for x in computation.instructions.values()])

    return kept(computation, _dots, counted) if Opcode.DOT in _features(computation) else 0


def _found(computation: Computation) -> Iterator[Feature]:
    instructions = computation.instructions.values()
    opcodes = {x.opcode for x in instructions}
    yield from opcodes
    if Opcode.COMPARE in opcodes:
        compares = [x for x in instructions if x.opcode is Opcode.COMPARE]
        if any(x.attributes_as(Compare).type == "TOTALORDER" for x in compares):
            yield Trait.TOTAL_ORDER
    if Opcode.REDUCE in opcodes:
        reductions = [x for x in instructions if x.opcode is Opcode.REDUCE]
        if any(x.shape.is_tuple for x in reductions):
            yield Trait.SEVERAL_RESULTS
    for shape in {x.shape for x in instructions}:
        for _, leaf in shape.leaves():
            if leaf.is_array:
                yield from _of_array(leaf)


def _of_array(shape: Shape) -> Iterator[Feature]:
    yield shape.element_type
    if 0 in shape.dimensions:
        yield Trait.EMPTY
    layout = shape.layout
    if layout is not None and layout.minor_to_major != tuple(range(shape.rank - 1, -1, -1)):
        yield Trait.REORDERED
