"""A rule: the factors of an operation, as in an einsum, and the dimensions that they make up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from lowtide.ir import Opcode, Shape
from lowtide.ir.tilings.grid import DeviceGrid
from lowtide.ir.tilings.tiling import Tiling
from lowtide.records import dataclass

DimensionFactors = tuple[tuple[int, ...], ...]
"""Of one array, per dimension: its factors, major first. What they leave over is not split."""

FactorAxes = Mapping[int, tuple[int, ...]]
"""The axes that split each factor; a factor without any is absent."""


@dataclass(frozen=True, slots=True)
class TileHalo:
    """Rows of neighbours that a tile needs where a factor is split along a dimension of operands.

    `left` of them stand before it, `right` behind; no tile may be shorter than either. `window` is
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
class OpRule:
    """What is split together in one operation.

    `sizes` has the size of each factor. Operands and results are the arrays among the leaves of
    their shapes, in order. A factor in `reduced` is in operands only: where it is split, devices
    hold terms, whose `reduction` is the result. `linear` lists sets of operands: where all of one
    set are terms of sums, so is the result. Operands in `once`, such as an initial value, count
    once however many devices hold terms. Results along a factor in `staged` are gathered and worked
    on once more. `halos` are rows that tiles exchange first. `why` says why dimensions without a
    factor are whole.
    """

    sizes: tuple[int, ...]
    operands: tuple[DimensionFactors, ...]
    results: tuple[DimensionFactors, ...]
    reduced: frozenset[int] = frozenset()
    reduction: Opcode = Opcode.ADD
    linear: tuple[tuple[int, ...], ...] = ()
    why: str = ""
    once: tuple[int, ...] = ()
    staged: frozenset[int] = frozenset()
    halos: tuple[TileHalo, ...] = ()

    def without_halos(self) -> OpRule:
        """Return the rule in which no factor is split whose tiles would exchange rows."""
        if not self.halos:
            return self
        exchanged = {halo.factor for halo in self.halos}

        def kept(arrays: tuple[DimensionFactors, ...]) -> tuple[DimensionFactors, ...]:
            return tuple(
                [
                    tuple([tuple([f for f in own if f not in exchanged]) for own in dimensions])
                    for dimensions in arrays
                ]
            )

        return replace(self, operands=kept(self.operands), results=kept(self.results), halos=())

    def tiling(self, grid: DeviceGrid, factors: DimensionFactors, axes: FactorAxes) -> Tiling:
        """Return the tiling of an array by the axes of its factors."""
        found = []
        for dimension in factors:
            own: tuple[int, ...] = ()
            for factor in dimension:
                given = axes.get(factor, ())
                own += given
                if grid.extent(given) != self.sizes[factor]:
                    break
            found.append(own)
        return Tiling(tuple(found))

    def project(self, grid: DeviceGrid, factors: DimensionFactors, tiling: Tiling) -> FactorAxes:
        """Return the axes of each factor that a tiling of an array splits, as far as they fit."""
        found: dict[int, tuple[int, ...]] = {}
        for dimension, axes in zip(factors, tiling.axes, strict=True):
            at = 0
            for factor in dimension:
                rest, taken = self.sizes[factor], at
                while at < len(axes) and rest % grid.sizes[axes[at]] == 0:
                    rest //= grid.sizes[axes[at]]
                    at += 1
                if at > taken:
                    found[factor] = axes[taken:at]
                if rest > 1:
                    break
        return found

    def legal(self, grid: DeviceGrid, axes: FactorAxes) -> FactorAxes:
        """Return the axes without those of a factor behind one that is not split in full.

        Nor does it have axes that make tiles shorter than their halos.
        """
        kept = dict(axes)
        for halo in self.halos:
            own = kept.pop(halo.factor, ())
            length = halo.length // max(halo.left, halo.right, 1)
            while grid.extent(own) > max(length, 1):
                own = own[:-1]
            if own:
                kept[halo.factor] = own
        changed = True
        while changed:
            changed = False
            for dimension in [d for array in (*self.operands, *self.results) for d in array]:
                is_full = True
                for factor in dimension:
                    if not is_full and kept.pop(factor, None) is not None:
                        changed = True
                    is_full = is_full and grid.extent(kept.get(factor, ())) == self.sizes[factor]
        return kept

    def partial_axes(self, axes: FactorAxes) -> tuple[int, ...]:
        """Return the axes along which devices hold terms of the result, in growing order."""
        return tuple(sorted([axis for f in self.reduced for axis in axes.get(f, ())]))

    def staged_axes(self, axes: FactorAxes) -> tuple[int, ...]:
        """Return the axes along which results are gathered and worked on once more."""
        return tuple(sorted([axis for f in self.staged for axis in axes.get(f, ())]))


@dataclass(slots=True)
class RuleDraft:
    """A rule that is being written down: arrays start with no factor in any dimension.

    `lengths` has the sizes of the operands.
    """

    operands: list[list[list[int]]]
    results: list[list[list[int]]]
    lengths: tuple[tuple[int, ...], ...]
    sizes: list[int] = field(default_factory=list)
    reduced: set[int] = field(default_factory=set)
    staged: set[int] = field(default_factory=set)
    halos: list[TileHalo] = field(default_factory=list)

    @classmethod
    def of(cls, operands: Sequence[Shape], results: Sequence[Shape]) -> RuleDraft:
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
        *,
        is_reduced: bool = False,
        is_staged: bool = False,
    ) -> None:
        """Add a factor that is the next one of a dimension in each array given: {array: dimension}.

        One of size 1 is left out, since nothing can split it.
        """
        if size <= 1:
            return
        factor = len(self.sizes)
        self.sizes.append(size)
        for array, dimension in operands.items():
            self.operands[array][dimension].append(factor)
        for array, dimension in (results or {}).items():
            self.results[array][dimension].append(factor)
        if is_reduced:
            self.reduced.add(factor)
        if is_staged:
            self.staged.add(factor)

    def halo(
        self, operands: tuple[int, ...], dimension: int, rows: tuple[int, int], window: int
    ) -> None:
        """Say of the factor added next that tiles of operands exchange rows (before, behind).

        The factor has to be larger than 1.
        """
        if any(rows):
            length = self.lengths[operands[0]][dimension]
            factor = len(self.sizes)
            self.halos.append(TileHalo(factor, operands, dimension, *rows, window, length))

    def done(
        self,
        linear: tuple[tuple[int, ...], ...] = (),
        reduction: Opcode = Opcode.ADD,
        why: str = "",
        once: tuple[int, ...] = (),
    ) -> OpRule:
        """Return the rule."""
        return OpRule(
            tuple(self.sizes),
            tuple([tuple([tuple(d) for d in array]) for array in self.operands]),
            tuple([tuple([tuple(d) for d in array]) for array in self.results]),
            frozenset(self.reduced),
            reduction,
            linear,
            why,
            once,
            frozenset(self.staged),
            tuple(self.halos),
        )


def same_dimensions(operands: Sequence[Shape], results: Sequence[Shape]) -> RuleDraft:
    """Return a draft in which dimension i of all arrays of full rank is one factor."""
    draft = RuleDraft.of(operands, results)
    model = results[0].dimensions
    for dimension, size in enumerate(model):
        matching = {i: dimension for i, shape in enumerate(operands) if shape.dimensions == model}
        draft.join(size, matching, dict.fromkeys(range(len(results)), dimension))
    return draft
