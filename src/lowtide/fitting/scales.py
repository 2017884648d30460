"""Scales: by how much each dimension of a module grows when some of its arguments do.

What an operation makes of a dimension is told by its factors, as for shardings. A dimension that
windows, padding or joining make has the size that follows from the operands.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import prod
from typing import Final

from lowtide.analysis.forwarding import ANNOTATIONS
from lowtide.fitting.arrays import ModuleArrays
from lowtide.fitting.dimensions import SpecializedError
from lowtide.fitting.made_sizes import made_sizes, makes_sizes
from lowtide.fitting.own_rows import with_own_rows
from lowtide.ir import Instruction, Opcode, Shape
from lowtide.ir.attributes import CustomCall
from lowtide.ops.factors.record import (
    DimensionFactors,
    OpFactors,
    arrays_of,
    factors_of,
    same_dimensions,
)
from lowtide.records import dataclass

Place = tuple[int, int]
"""An array and one of its dimensions."""

_ALIKE: Final = frozenset(
    {
        *(Opcode.REVERSE, Opcode.SORT, Opcode.TRIANGULAR_SOLVE, Opcode.CHOLESKY, Opcode.FFT),
        *(Opcode.SELECT_AND_SCATTER, Opcode.CUSTOM_CALL, Opcode.ALL_REDUCE, Opcode.DOMAIN),
        *(Opcode.COLLECTIVE_PERMUTE, Opcode.BITCAST_CONVERT, Opcode.SCATTER),
        *(Opcode.BATCH_NORM_GRAD, Opcode.BATCH_NORM_TRAINING, Opcode.BATCH_NORM_INFERENCE),
    }
)
"""Operations whose result has the dimensions of the operands of its shape."""


@dataclass(frozen=True, eq=False, slots=True)
class OpLink:
    """The factors of arrays: those of the operands, then those of the results.

    One that `is_alike` says only that dimensions are equal, not what is computed along them.
    """

    x: Instruction
    rule: OpFactors
    arrays: tuple[int, ...]
    is_alike: bool = False

    @property
    def factors(self) -> tuple[DimensionFactors, ...]:
        """The factors of each array."""
        return self.rule.arrays


class Sizing:
    """What the operations of a module say of the sizes of its arrays, read once for all seeds."""

    def __init__(self, arrays: ModuleArrays) -> None:
        self.arrays = arrays
        self.links = [link for x in arrays.nodes for link in _links(arrays, x)]
        self.makers = [x for x in arrays.nodes if makes_sizes(x)]
        self.links_of: dict[int, list[int]] = {}
        for number, link in enumerate(self.links):
            for array in dict.fromkeys(link.arrays):
                self.links_of.setdefault(array, []).append(number)

    def scales(self, seeds: Mapping[Place, Fraction]) -> dict[Place, Fraction]:
        """Return the scale of each dimension that grows with the `seeds`; the others stay.

        Raises SpecializedError where an operation cannot take its operands at these sizes.
        """
        return _Scaling(self, seeds).run()


class _Scaling:
    def __init__(self, sizing: Sizing, seeds: Mapping[Place, Fraction]) -> None:
        self.sizing = sizing
        self.arrays = sizing.arrays
        self.scales: dict[Place, Fraction] = {}
        self.queue: deque[int] = deque()
        self.waiting: set[int] = set()
        for (array, dimension), scale in seeds.items():
            self.set((self.arrays.find(array), dimension), scale, None)

    def run(self) -> dict[Place, Fraction]:
        """The scales once nothing follows from anything any more."""
        self.follow_all()
        while self.make():
            pass
        return self.scales

    def follow_all(self) -> None:
        """Let what is known follow until nothing new does."""
        while self.queue:
            number = self.queue.popleft()
            self.waiting.discard(number)
            self.follow(self.sizing.links[number])

    def set(self, place: Place, scale: Fraction, x: Instruction | None) -> None:
        """Give a dimension a scale; `x` is the instruction from which it follows."""
        known = self.scales.get(place)
        if known == scale or (known is None and scale == 1):
            return
        if known is not None:
            size = self.arrays.shapes[place[0]].dimensions[place[1]]
            raise SpecializedError(
                f"a dimension of {size} would be {size * known} and {size * scale}", x
            )
        self.scales[place] = scale
        for number in self.sizing.links_of.get(place[0], ()):
            if number not in self.waiting:
                self.waiting.add(number)
                self.queue.append(number)

    def follow(self, link: OpLink) -> None:
        """Let what is known of some arrays of an operation follow for the others."""
        found = self.factor_scales(link)
        for array, factors in zip(link.arrays, link.factors, strict=True):
            for dimension, own in enumerate(factors):
                grown = [found[f] for f in own if f in found]
                if grown:
                    self.set((array, dimension), prod(grown, start=Fraction(1)), link.x)

    def factor_scales(self, link: OpLink) -> dict[int, Fraction]:
        """The scales of the factors: those of single ones first, then what is left of others."""
        found: dict[int, Fraction] = {}
        known = [
            (own, self.scales[array, dimension])
            for array, factors in zip(link.arrays, link.factors, strict=True)
            for dimension, own in enumerate(factors)
            if own and (array, dimension) in self.scales
        ]
        for own, scale in sorted(known, key=lambda row: len(row[0])):
            rest = scale / prod([found[f] for f in own if f in found], start=Fraction(1))
            if rest == 1:
                continue
            free = [f for f in own if f not in found]
            whole = [f for f in free if (link.rule.sizes[f] * rest).denominator == 1]
            if not free:
                raise SpecializedError("its dimensions grow differently", link.x)
            found[(whole or free)[0]] = rest
        return found

    def make(self) -> bool:
        """Give dimensions that follow from no factor their sizes; whether there were any."""
        found = False
        for x in self.sizing.makers:
            operands = self.arrays.operands(x)
            if not any(self.is_scaled(array) for array in operands):
                continue
            array = self.arrays.of(x)[0]
            given = [self.sizes(operand) for operand in operands]
            for place, size in made_sizes(x, given).items():
                before = self.arrays.shapes[array].dimensions[place]
                if size <= 0 < before:
                    raise SpecializedError(f"nothing would be left of a dimension of {before}", x)
                scale = Fraction(size, before) if before else Fraction(1)
                if scale != 1 and (array, place) not in self.scales:
                    self.set((array, place), scale, x)
                    self.follow_all()
                    found = True
        return found

    def is_scaled(self, array: int) -> bool:
        """Whether any dimension of an array has another size."""
        shape = self.arrays.shapes[array]
        return shape.is_array and any((array, d) in self.scales for d in range(shape.rank))

    def sizes(self, array: int) -> tuple[int, ...]:
        """The sizes of an array as far as they are known; raises SpecializedError for a half."""
        return scaled_sizes(self.arrays.shapes[array], array, self.scales)


def scaled_sizes(shape: Shape, array: int, scales: Mapping[Place, Fraction]) -> tuple[int, ...]:
    """Return the sizes of an array by the scales; raises SpecializedError for parts of elements."""
    sizes = []
    for dimension, size in enumerate(shape.dimensions if shape.is_array else ()):
        scaled = size * scales.get((array, dimension), Fraction(1))
        if scaled.denominator != 1 or scaled < 0:
            raise SpecializedError(f"a dimension of {size} would be {scaled}", None)
        sizes.append(int(scaled))
    return tuple(sizes)


def _links(arrays: ModuleArrays, x: Instruction) -> Iterator[OpLink]:
    """Yield the factors of an instruction, and those by which dimensions are equal."""
    operands, results = arrays.operands(x), arrays.of(x)
    shapes = [arrays.shapes[array] for array in (*operands, *results)]
    if not all(shape.is_array for shape in shapes) or not results:
        return
    numbers = (*operands, *results)
    rule = _rule(x)
    if rule.sizes:
        yield OpLink(x, rule, numbers)
    if x.opcode in _ALIKE and operands:
        rule = _alike(arrays_of(x.shape), shapes[: len(operands)])
        if rule.sizes:
            yield OpLink(x, rule, numbers, is_alike=True)


def _rule(x: Instruction) -> OpFactors:
    if x.opcode is Opcode.CUSTOM_CALL and x.attributes_as(CustomCall).target in ANNOTATIONS:
        return same_dimensions([x.operands[0].shape], [x.shape]).done()
    return with_own_rows(x, factors_of(x))


def _alike(results: Sequence[Shape], operands: Sequence[Shape]) -> OpFactors:
    """The factors by which what has the shape of the first result grows as it does."""
    alike = [shape for shape in results if shape.dimensions == results[0].dimensions]
    draft = same_dimensions(operands, alike if len(alike) == len(results) else results[:1])
    draft.results += [[[] for _ in shape.dimensions] for shape in results[len(draft.results) :]]
    return draft.done()
