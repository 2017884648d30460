"""Factors of an operation, as in an einsum: what its dimensions are made of, and how each works."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from enum import Enum, auto
from functools import cache
from importlib import import_module

from lowtide.ir.instruction import Instruction
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import Shape
from lowtide.ops.table import TABLE
from lowtide.records import dataclass

DimensionFactors = tuple[tuple[int, ...], ...]
"""Of one array, per dimension: its factors, major first. What they leave over stays whole."""


class FactorKind(Enum):
    """What an operation does with equal parts of its operands along a factor."""

    PASSED = auto()
    """It gives the parts of its results, by the same attributes but for their sizes."""

    SUMMED = auto()
    """It gives terms of its results, which `OpFactors.reduction` combines."""

    CHOSEN = auto()
    """It gives results of parts, of which it chooses once more, as argmax does."""

    WINDOWED = auto()
    """As passed or summed, with other windows, and perhaps rows of the neighbouring parts."""

    PLACED = auto()
    """As passed, but it has to be told which part it is given: where that begins, or its groups."""

    PICKED = auto()
    """It finds its elements by number: those of a part and zeros for others are terms of a sum."""

    APPLIED = auto()
    """Parts of updates change operand 0 one after the other; by `reduction`, in any order."""


@dataclass(frozen=True, slots=True)
class Halo:
    """Rows of neighbours that a part needs where a factor is split along a dimension of operands.

    `left` of them stand before it, `right` behind; no part may be shorter than either. `window` is
    the place of that dimension in the window, `length` its size in the whole operands.
    """

    factor: int
    operands: tuple[int, ...]
    dimension: int
    left: int
    right: int
    window: int
    length: int


@dataclass(frozen=True, slots=True)
class OpFactors:
    """What is split together in one operation.

    `sizes` and `kinds` have a row for each factor. Operands and results are the arrays among the
    leaves of their shapes, in order. `reduction` combines terms, None where nothing can. `linear`
    lists sets of operands: where all of one set are terms of sums, so is the result. Operands in
    `once`, such as an initial value, count once however many terms there are. `halos` are rows that
    parts need of others. `why` says why dimensions without a factor are whole.
    """

    sizes: tuple[int, ...]
    kinds: tuple[FactorKind, ...]
    operands: tuple[DimensionFactors, ...]
    results: tuple[DimensionFactors, ...]
    halos: tuple[Halo, ...] = ()
    reduction: Opcode | None = None
    linear: tuple[tuple[int, ...], ...] = ()
    once: tuple[int, ...] = ()
    why: str = ""

    @property
    def arrays(self) -> tuple[DimensionFactors, ...]:
        """The factors of each operand, then those of each result."""
        return (*self.operands, *self.results)

    @property
    def summed(self) -> frozenset[int]:
        """The factors of operands alone along which parts give terms that can be combined."""
        if self.reduction is None:
            return frozenset()
        kept = {f for array in self.results for own in array for f in own}
        kinds = enumerate(self.kinds)
        return frozenset([f for f, x in kinds if f not in kept and x is not FactorKind.CHOSEN])

    def only(self, holds: Callable[[int], bool]) -> OpFactors:
        """Return the record with those factors alone of which something holds, numbered anew."""
        kept = [f for f in range(len(self.sizes)) if holds(f)]
        if len(kept) == len(self.sizes):
            return self
        number = {f: i for i, f in enumerate(kept)}

        def renumbered(arrays: Sequence[DimensionFactors]) -> tuple[DimensionFactors, ...]:
            return tuple(
                [tuple([tuple([number[f] for f in d if f in number]) for d in x]) for x in arrays]
            )

        return replace(
            self,
            sizes=tuple([self.sizes[f] for f in kept]),
            kinds=tuple([self.kinds[f] for f in kept]),
            operands=renumbered(self.operands),
            results=renumbered(self.results),
            halos=tuple(
                [replace(x, factor=number[x.factor]) for x in self.halos if x.factor in number]
            ),
        )


FactorRule = Callable[[Instruction, Sequence[Shape], Sequence[Shape]], OpFactors]
"""(instruction, the arrays of its operands, those of its results) -> its factors."""


@dataclass(slots=True)
class FactorDraft:
    """Factors that are being written down: arrays start with none in any dimension.

    `lengths` has the sizes of the operands.
    """

    operands: list[list[list[int]]]
    results: list[list[list[int]]]
    lengths: tuple[tuple[int, ...], ...]
    sizes: list[int] = field(default_factory=list)
    kinds: list[FactorKind] = field(default_factory=list)
    halos: list[Halo] = field(default_factory=list)

    @classmethod
    def of(cls, operands: Sequence[Shape], results: Sequence[Shape]) -> FactorDraft:
        """Return a draft for arrays of these shapes."""
        return cls(
            [[[] for _ in shape.dimensions] for shape in operands],
            [[[] for _ in shape.dimensions] for shape in results],
            tuple([shape.dimensions for shape in operands]),
        )

    def join(
        self,
        size: int,
        operands: Mapping[int, int],
        results: Mapping[int, int] | None = None,
        kind: FactorKind = FactorKind.PASSED,
    ) -> None:
        """Add a factor that is the next one of a dimension in each array given: {array: dimension}.

        One of size 1 is left out, since nothing can split it.
        """
        if size <= 1:
            return
        factor = len(self.sizes)
        self.sizes.append(size)
        self.kinds.append(kind)
        for array, dimension in operands.items():
            self.operands[array][dimension].append(factor)
        for array, dimension in (results or {}).items():
            self.results[array][dimension].append(factor)

    def halo(
        self, operands: tuple[int, ...], dimension: int, rows: tuple[int, int], window: int
    ) -> None:
        """Say of the factor added next that parts of operands need rows (before, behind) of others.

        The factor has to be larger than 1.
        """
        if any(rows):
            length = self.lengths[operands[0]][dimension]
            factor = len(self.sizes)
            self.halos.append(Halo(factor, operands, dimension, *rows, window, length))

    def done(
        self,
        linear: tuple[tuple[int, ...], ...] = (),
        reduction: Opcode | None = None,
        why: str = "",
        once: tuple[int, ...] = (),
    ) -> OpFactors:
        """Return the factors."""
        return OpFactors(
            tuple(self.sizes),
            tuple(self.kinds),
            tuple([tuple([tuple(d) for d in array]) for array in self.operands]),
            tuple([tuple([tuple(d) for d in array]) for array in self.results]),
            tuple(self.halos),
            reduction,
            linear,
            once,
            why,
        )


def same_dimensions(operands: Sequence[Shape], results: Sequence[Shape]) -> FactorDraft:
    """Return a draft in which dimension i of all arrays of full rank is one factor."""
    draft = FactorDraft.of(operands, results)
    model = results[0].dimensions
    for dimension, size in enumerate(model):
        matching = {i: dimension for i, shape in enumerate(operands) if shape.dimensions == model}
        draft.join(size, matching, dict.fromkeys(range(len(results)), dimension))
    return draft


# -- of an instruction -------------------------------------------------------------------------


def has_factors(opcode: Opcode) -> bool:
    """Whether operations of an opcode have factors."""
    return bool(_name(opcode))


def factors_of(x: Instruction) -> OpFactors:
    """Return the factors of an instruction.

    There are none where its row says nothing of them, nor among arrays of dynamic sizes.
    """
    operands = [shape for operand in x.operands for shape in arrays_of(operand.shape)]
    results = arrays_of(x.shape)
    name = _name(x.opcode)
    if not name or any(not s.is_array or s.is_dynamic for s in (*operands, *results)):
        why = f"no rule for {x.opcode.value}"
        return FactorDraft.of(operands, results).done(why=why)
    return _rule(name)(x, operands, results)


def _name(opcode: Opcode) -> str:
    row = TABLE[opcode]
    return row.factors or ("computing.elementwise" if row.elementwise else "")


@cache
def _rule(name: str) -> FactorRule:
    file, function = name.split(".")
    found: FactorRule = getattr(import_module(f"lowtide.ops.factors.{file}"), function)
    return found


def arrays_of(shape: Shape) -> list[Shape]:
    """Return the shapes of the leaves."""
    return [leaf for _, leaf in shape.leaves()]
