"""Other programs of the same results: within a budget, in parts, with loops that compute again."""

from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple

from lowtide import compiler
from lowtide.analysis.donation import aliases, possible_donations
from lowtide.autopsy.remedies import argument_name
from lowtide.budgeting.variants import ProgramVariant, variant_of
from lowtide.compiler import ModulePlan
from lowtide.fitting.errors import SpecializedError
from lowtide.fitting.resizing import ResizableModule
from lowtide.ir import Instruction, SourceLocation
from lowtide.whatif.baseline import Baseline
from lowtide.whatif.change import ImpossibleChangeError, ProgramChange, Weight

_SHARES: Final = (75, 50)
"""Budgets, in per cent of what the plan needs beyond arguments."""


def budget_changes(base: Baseline) -> list[ProgramChange]:
    """Return plans within shares of what the plan needs beyond its arguments."""
    return [_budget(base, share) for share in _SHARES]


def _budget(base: Baseline, share: int) -> ProgramChange:
    nbytes = base.report.ladder.arena_bytes * share // 100
    return ProgramChange(
        f"budget:{share}%",
        f"a budget of {nbytes:,} bytes: lowtide runs parts of the program again",
        f'lowtide.jit({base.function}, memory="{nbytes}B")',
        base.outermost,
        partial(_within, nbytes=nbytes),
        weight=Weight.BUDGET,
    )


def _within(base: Baseline, nbytes: int) -> ModulePlan:
    fit = base.budgets.within(nbytes)
    if fit.point is None:
        raise ImpossibleChangeError("no plan is known that fits")
    return base.budgets.with_remarks(fit.point.plan)


class _Variant(NamedTuple):
    """A variant by the name of its change, in words, and as the user writes it."""

    name: str
    passes: str
    what: str
    code: str


_SCAN: Final = "jax.lax.scan(jax.checkpoint(body), ...)"
_VARIANTS: Final = (
    _Variant(
        "checkpoint:loops",
        "loop-residual-recompute{contractions=true}",
        "compute again in loops what they save for the backward pass",
        _SCAN,
    ),
    _Variant(
        "segments",
        "loop-segments",
        "loops keep every few states only, and compute the ones between again",
        "jax.lax.scan(jax.checkpoint(lambda c, x: jax.lax.scan(body, c, x)), ...)",
    ),
    _Variant(
        "chunk:2",
        "split-large-instructions{parts=2,rounds=1}",
        "what makes the largest array runs in 2 parts, one after the other",
        "jax.lax.map(f, x, batch_size=len(x) // 2)",
    ),
    _Variant(
        "chunk:8",
        "split-large-instructions{parts=8,rounds=1}",
        "what makes the largest array runs in 8 parts, one after the other",
        "jax.lax.map(f, x, batch_size=len(x) // 8)",
    ),
)


def variant_changes(base: Baseline) -> list[ProgramChange]:
    """Return the variants that passes make of a module that is to be optimized."""
    if base.has_given_order:
        return []
    return [
        ProgramChange(
            x.name,
            x.what,
            x.code,
            _largest_place(base) or base.outermost,
            partial(_variant, passes=x.passes),
            weight=Weight.PASSES,
        )
        for x in _VARIANTS
    ]


def _largest_place(base: Baseline) -> SourceLocation | None:
    """The line that makes the largest value at the peak which is no argument."""
    made = [x for x in base.report.peak.buffers if x.kind != "argument"]
    return next((x.source for x in made), base.report.peak.source)


def _variant(base: Baseline, passes: str) -> ModulePlan:
    module = variant_of(base.given, ProgramVariant(passes), base.options.stage)
    if module is None:
        raise ImpossibleChangeError("the program has nothing that this would change")
    return compiler.plan(module, base.options)


def batch_changes(base: Baseline) -> list[ProgramChange]:
    """Return the program with half of its batch, run twice; none where no batch can be told.

    The batch is the first axis of an argument that no result could overwrite, where only such
    arguments grow with it.
    """
    if base.given.is_scheduled:
        return []
    module = base.given
    found = possible_donations(module, aliases(module))
    kept = {x.parameter for x in found} | {
        module.entry.parameters[x.parameter] for x in module.input_output_aliases
    }
    for number, parameter in enumerate(module.entry.parameters):
        shape = parameter.shape
        if parameter in kept or not shape.rank or shape.dimensions[0] % 2:
            continue
        resizable = ResizableModule(module, [(number, 0, 0)])
        grown = resizable.grown_parameters()
        if grown and not kept & set(grown):
            return [_half(base, argument_name(_name(parameter)), resizable)]
    return []


def _name(parameter: Instruction) -> str:
    return parameter.metadata.op_name or parameter.name


def _half(base: Baseline, name: str, resizable: ResizableModule) -> ProgramChange:
    half = resizable.size // 2
    return ProgramChange(
        "batch:1/2",
        f"half of the batch of {resizable.size:,}, run twice",
        f"for part in jnp.split({name}, 2): ...  # batches of {half:,}",
        base.outermost,
        partial(_resized, resizable=resizable),
        runs=2,
        weight=Weight.PASSES,
        remark="two runs of half the batch",
    )


def _resized(base: Baseline, resizable: ResizableModule) -> ModulePlan:
    try:
        module = resizable.at(resizable.size // 2)
    except SpecializedError as error:
        raise ImpossibleChangeError(str(error)) from None
    return compiler.plan(module, base.options)
