"""Other programs of the same results: within a budget, in parts, with loops that compute again."""

from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple

from lowtide import compiler
from lowtide.budgeting.variants import ProgramVariant, variant_of
from lowtide.compiler import ModulePlan
from lowtide.ir import Instruction, Module, Opcode, SourceLocation
from lowtide.report.blame import is_backward, user_frames
from lowtide.report.peak import PeakBuffer
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
        base.function.decorator.within(base.function.name, nbytes),
        base.function.source,
        partial(_within, nbytes=nbytes),
        weight=Weight.BUDGET,
        is_about=False,
        estimate=base.report.ladder.arena_bytes - nbytes,
    )


def _within(base: Baseline, nbytes: int) -> ModulePlan:
    fit = base.budgets.within(nbytes)
    if fit.point is None:
        raise ImpossibleChangeError("no plan is known that fits")
    return base.budgets.with_remarks(fit.point.plan)


class _Variant(NamedTuple):
    """A variant by the name of its change, in words, and as the user writes it.

    `{}` in `code` stands for the function that runs in parts.
    """

    name: str
    passes: str
    what: str
    code: str


_LOOPS: Final = "loop-residual-recompute{contractions=true}"
_SCAN: Final = "jax.lax.scan(jax.checkpoint(body), ...)"
_VARIANTS: Final = (
    _Variant(
        "checkpoint:loops",
        _LOOPS,
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
        "jax.lax.map({}, x, batch_size=len(x) // 2)",
    ),
    _Variant(
        "chunk:8",
        "split-large-instructions{parts=8,rounds=1}",
        "what makes the largest array runs in 8 parts, one after the other",
        "jax.lax.map({}, x, batch_size=len(x) // 8)",
    ),
)


def variant_changes(base: Baseline) -> list[ProgramChange]:
    """Return the variants that passes make of a module that is to be optimized."""
    if base.has_given_order:
        return []
    largest = _largest(base)
    peak = (largest.source if largest else base.report.peak.source) or base.function.source
    loop = _place_of_largest_loop(base) or peak
    # A part that is not computed again saves for its gradient what the parts were to spare.
    part = "jax.checkpoint(f)" if base.backward and _has_gradient(largest) else "f"
    return [
        ProgramChange(
            x.name,
            x.what,
            x.code.format(part),
            peak if x.name.startswith("chunk") else loop,
            partial(_variant, passes=x.passes),
            weight=Weight.PASSES,
        )
        for x in _VARIANTS
    ]


def _place_of_largest_loop(base: Baseline) -> SourceLocation | None:
    """The place of the loop that carries and stacks most, of those ahead of gradients."""
    loops = [
        x
        for computation in base.given.computations.values()
        for x in computation.instructions.values()
        if x.opcode is Opcode.WHILE and not is_backward(x.metadata.op_name)
    ]
    frames = user_frames(max(loops, key=_nbytes).stack) if loops else ()
    return frames[0] if frames else None


def _nbytes(x: Instruction) -> int:
    return sum([leaf.nbytes for _, leaf in x.shape.leaves()])


def _largest(base: Baseline) -> PeakBuffer | None:
    """The largest value at the peak which is no argument."""
    return next((x for x in base.report.peak.buffers if x.kind != "argument"), None)


def _has_gradient(value: PeakBuffer | None) -> bool:
    """Whether a value was made in a function whose gradient is taken, if its name tells."""
    return value is None or not value.op_name or "jvp(" in value.op_name


def loops_compute_again(base: Baseline, module: Module) -> Module | None:
    """Return a program whose loops compute again what they save; None where none saves that."""
    return variant_of(module, ProgramVariant(_LOOPS), base.options.stage)


def _variant(base: Baseline, passes: str) -> ModulePlan:
    module = variant_of(base.given, ProgramVariant(passes), base.options.stage)
    if module is None:
        raise ImpossibleChangeError("the program has nothing that this would change")
    return compiler.plan(module, base.options)
