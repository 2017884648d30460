"""The axes of devices that split the factors of an operation, and the tilings of its arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lowtide.ir import Instruction, Opcode
from lowtide.ir.tilings.grid import DeviceGrid
from lowtide.ir.tilings.tiling import Tiling
from lowtide.ops.factors.record import DimensionFactors, FactorKind, OpFactors, factors_of

FactorAxes = Mapping[int, tuple[int, ...]]
"""The axes that split each factor; a factor without any is absent."""

_FINISHED: Final = frozenset(
    {Opcode.ADD, Opcode.MULTIPLY, Opcode.MINIMUM, Opcode.MAXIMUM, Opcode.AND, Opcode.OR}
)
"""The reductions that an all-reduce does."""


def device_factors(x: Instruction, *, halos: bool = True) -> OpFactors:
    """Return the factors of an instruction that devices may split.

    Those are left out whose terms devices cannot combine, and without `halos` those whose tiles
    would exchange rows.
    """
    found = factors_of(x)
    left_out = () if found.reduction in _FINISHED else (FactorKind.SUMMED, FactorKind.APPLIED)
    exchanged = set() if halos else {halo.factor for halo in found.halos}
    return found.only(lambda f: f not in exchanged and found.kinds[f] not in left_out)


def tiling_of(
    rule: OpFactors, grid: DeviceGrid, factors: DimensionFactors, axes: FactorAxes
) -> Tiling:
    """Return the tiling of an array by the axes of its factors."""
    found = []
    for dimension in factors:
        own: tuple[int, ...] = ()
        for factor in dimension:
            given = axes.get(factor, ())
            own += given
            if grid.extent(given) != rule.sizes[factor]:
                break
        found.append(own)
    return Tiling(tuple(found))


def axes_of(
    rule: OpFactors, grid: DeviceGrid, factors: DimensionFactors, tiling: Tiling
) -> FactorAxes:
    """Return the axes of each factor that a tiling of an array splits, as far as they fit."""
    found: dict[int, tuple[int, ...]] = {}
    for dimension, axes in zip(factors, tiling.axes, strict=True):
        at = 0
        for factor in dimension:
            rest, taken = rule.sizes[factor], at
            while at < len(axes) and rest % grid.sizes[axes[at]] == 0:
                rest //= grid.sizes[axes[at]]
                at += 1
            if at > taken:
                found[factor] = axes[taken:at]
            if rest > 1:
                break
    return found


def legal_axes(rule: OpFactors, grid: DeviceGrid, axes: FactorAxes) -> FactorAxes:
    """Return the axes without those of a factor behind one that is not split in full.

    Nor does it have axes that make tiles shorter than their halos.
    """
    kept = dict(axes)
    for halo in rule.halos:
        own = kept.pop(halo.factor, ())
        length = halo.length // max(halo.left, halo.right, 1)
        while grid.extent(own) > max(length, 1):
            own = own[:-1]
        if own:
            kept[halo.factor] = own
    changed = True
    while changed:
        changed = False
        for dimension in [d for array in rule.arrays for d in array]:
            is_full = True
            for factor in dimension:
                if not is_full and kept.pop(factor, None) is not None:
                    changed = True
                is_full = is_full and grid.extent(kept.get(factor, ())) == rule.sizes[factor]
    return kept


def term_axes(rule: OpFactors, axes: FactorAxes) -> tuple[int, ...]:
    """Return the axes along which devices hold terms of the result, in growing order."""
    return tuple(sorted([axis for f in rule.summed for axis in axes.get(f, ())]))


def chosen_axes(rule: OpFactors, axes: FactorAxes) -> tuple[int, ...]:
    """Return the axes along which results are gathered and worked on once more.

    They are in the order of the parts, so that what does not commute meets these in theirs.
    """
    chosen = [f for f, kind in enumerate(rule.kinds) if kind is FactorKind.CHOSEN]
    return tuple([axis for f in chosen for axis in axes.get(f, ())])
