"""The program with half of its batch, run twice."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import Final

from lowtide import compiler
from lowtide.compiler import ModulePlan
from lowtide.fitting.batch import Axis, axis_text
from lowtide.fitting.dimensions import NamedDimension, SpecializedError, module_leaves
from lowtide.fitting.resizing import ResizableModule
from lowtide.ir import Module
from lowtide.report.donations import argument_name
from lowtide.whatif.baseline import Baseline
from lowtide.whatif.change import ImpossibleChangeError, ProgramChange, Weight

_SHOWN: Final = 3
"""A question names at most so many dimensions, and so many arguments of each."""


def batch_changes(base: Baseline) -> list[ProgramChange]:
    """Return the program with half of its batch; none where the batch is not sure, or is odd.

    Raises DimensionError where the user names a dimension that there is not.
    """
    if base.has_given_order:
        return []
    named = base.batch_axis
    seeds = base.batch.axes if named is None else named_batch(base.given, named)
    if not seeds:
        return []
    places = [(leaf.key[0], leaf.key[1], axis) for leaf, axis in seeds]
    resizable = ResizableModule(base.given, places)
    return [] if resizable.size % 2 else [_half(base, resizable)]


def batch_question(base: Baseline) -> str:
    """Return what the user is to say, where the program does not tell its batch; else ""."""
    if base.has_given_order or base.batch_axis is not None or base.batch.axes:
        return ""
    ask = "say which it is with --batch ARGUMENT:AXIS"
    groups = base.batch.candidates
    if not groups:
        return f"No dimension of the arguments is sure to be the batch: {ask}."
    listed = " or ".join([_short(axes) for axes in groups[:_SHOWN]])
    more = f", or {len(groups) - _SHOWN} more" if len(groups) > _SHOWN else ""
    return f"The batch may be {listed}{more}: {ask}."


def _short(axes: Sequence[Axis]) -> str:
    more = ", ..." if len(axes) > _SHOWN else ""
    return ", ".join([axis_text(axis) for axis in axes[:_SHOWN]]) + more


def named_batch(module: Module, text: str) -> list[Axis]:
    """Return the axes that a text such as "images:0" names; raises DimensionError."""
    return NamedDimension.of("batch", text).leaves(module_leaves(module))


def _half(base: Baseline, resizable: ResizableModule) -> ProgramChange:
    half = resizable.size // 2
    try:
        axes = resizable.grown_axes()
    except SpecializedError:
        axes = []  # The plan says why.
    return ProgramChange(
        "batch:1/2",
        f"half of the batch of {resizable.size:,} ({_short(axes)}), run twice",
        f"{_split(axes)}  # batches of {half:,}",
        base.function.source,
        partial(_resized, resizable=resizable),
        runs=2,
        weight=Weight.PASSES,
        remark="two calls with half the batch",
        is_about=False,
    )


def _split(axes: Sequence[Axis]) -> str:
    """What to write so that each run has one half of the arguments that have the batch."""
    parts = sorted({(argument_name(leaf.name), axis) for leaf, axis in axes})
    names = [name for name, _ in parts]
    along = {axis for _, axis in parts}
    are_arrays = {leaf.name for leaf, _ in axes}.issuperset(names)
    if len(along) != 1 or not are_arrays:
        by_axis = groupby(sorted(parts, key=lambda part: part[1]), key=lambda part: part[1])
        text = " and ".join(
            [
                f"{', '.join([name for name, _ in group])} along axis {axis}"
                for axis, group in by_axis
            ]
        )
        return f"two halves of {text}"
    axis = f", axis={along.pop()}" if along != {0} else ""
    if len(names) == 1:
        return f"for part in jnp.split({names[0]}, 2{axis}): ..."
    return f"for part in zip(*[jnp.split(x, 2{axis}) for x in ({', '.join(names)})]): ..."


def _resized(base: Baseline, resizable: ResizableModule) -> ModulePlan:
    try:
        module = resizable.at(resizable.size // 2)
    except SpecializedError as error:
        raise ImpossibleChangeError(str(error)) from None
    return compiler.plan(module, base.options)
