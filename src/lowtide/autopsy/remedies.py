"""Remedies for the memory of a program that XLA:CPU compiled, predicted and tried."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from lowtide import compiler
from lowtide.analysis.donation import Donation
from lowtide.autopsy.compilers import Compiler, Options, RebuiltCompiler, XlaOutcome, alias_entries
from lowtide.autopsy.report import Remedy
from lowtide.ir import Module
from lowtide.ir.clone import clone_module
from lowtide.records import dataclass
from lowtide.report.donations import argument_name
from lowtide.report.memory import donation_savings
from lowtide.report.units import unit_for

_MEMORY_ORDER: Final = {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}
_NO_LIBRARY: Final = {"xla_cpu_experimental_ynn_fusion_type": ""}
_NOT_COMPILED: Final = "not compiled again"

OPTIONS: Final[tuple[tuple[str, Options], ...]] = (
    ("XLA's default options", {}),
    ("the scheduler that looks at memory", _MEMORY_ORDER),
    ("no fusions for the YNN library", _NO_LIBRARY),
    ("both: that scheduler, and no fusions for the YNN library", _MEMORY_ORDER | _NO_LIBRARY),
)
"""What is tried, in words and as options of the compiler."""

_CLOSE: Final = 20
"""A rebuilt program stands for the one at hand where some plan of it is as large, to one part in
so many."""


@dataclass(frozen=True, slots=True)
class Planned:
    """The figures of a plan that remedies are compared with, in bytes.

    `arena_bytes` is what it takes beyond arguments, `output_bytes` the size of all outputs,
    `other_order_bytes` what the program would take in the best order found.
    """

    arena_bytes: int
    output_bytes: int
    other_order_bytes: int


def option_remedies(planned: Planned, compile_with: Compiler | None) -> list[Remedy]:
    """Return what each set of options leads to, in the order of `OPTIONS`.

    Without a compiler only the effect of another order is predicted.
    """
    if compile_with is None:
        change, options = OPTIONS[1]
        how = f"predicted: the best order that lowtide found; {_NOT_COMPILED}"
        return [Remedy(change, _code(options), planned.other_order_bytes, None, how)]
    outcomes = compile_with.compile([options for _, options in OPTIONS])
    doubt = _doubt(planned, compile_with, outcomes)
    return [
        _option_remedy(planned, compile_with, doubt, change, options, outcome)
        for (change, options), outcome in zip(OPTIONS, outcomes, strict=True)
    ]


def _option_remedy(
    planned: Planned,
    compile_with: Compiler,
    doubt: str,
    change: str,
    options: Options,
    outcome: XlaOutcome,
) -> Remedy:
    predicted = planned.other_order_bytes if options == _MEMORY_ORDER else None
    if outcome.error:
        how = f"{compile_with.what} could not be compiled: {outcome.error}"
        return Remedy(change, _code(options), predicted, None, how)
    nbytes = _arena_bytes(planned, outcome)
    if doubt:
        return Remedy(change, _code(options), predicted, None, f"{doubt}; this gives {nbytes:,}")
    how = f"{compile_with.what}, compiled again"
    return Remedy(change, _code(options), predicted, nbytes, how, compile_with.is_rebuilt)


def donation_remedies(
    planned: Planned, module: Module, donations: Sequence[Donation], *, compile_again: bool
) -> list[Remedy]:
    """Return the donation of all arguments that outputs could overwrite, as one remedy or none."""
    savings = donation_savings(donations)
    if not savings:
        return []
    names = list(dict.fromkeys([argument_name(x.name) for x in savings]))
    listed = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    change = f"donate {listed}, if not needed after the call"
    code = f"jax.jit(f, donate_argnames={json.dumps(names)})"
    predicted = planned.arena_bytes - _predicted_saving(module, donations)
    if not compile_again:
        how = f"predicted: what our own plan of the same order saves; {_NOT_COMPILED}"
        return [Remedy(change, code, predicted, None, how)]
    before, after = RebuiltCompiler(module), RebuiltCompiler(module, donations)
    outcomes = [x.compile([{}])[0] for x in (before, after)]
    failed = next((x.error for x in outcomes if x.error), "")
    if failed:
        how = f"{before.what} could not be compiled: {failed}"
        return [Remedy(change, code, predicted, None, how)]
    saved = _arena_bytes(planned, outcomes[0]) - _arena_bytes(planned, outcomes[1])
    how = f"{before.what}, compiled with and without: {saved:,} bytes less"
    return [Remedy(change, code, predicted, planned.arena_bytes - saved, how, rebuilt=True)]


def _predicted_saving(module: Module, donations: Sequence[Donation]) -> int:
    """How much less our plan takes, in the order of the module, once outputs overwrite them."""
    donated = clone_module(module)
    donated.input_output_aliases += alias_entries(module, donations)
    before, after = [
        compiler.plan(x, compiler.PlanOptions("input")).report.ladder.arena_bytes
        for x in (module, donated)
    ]
    return max(0, before - after)


def _doubt(planned: Planned, compile_with: Compiler, outcomes: Sequence[XlaOutcome]) -> str:
    """Why a rebuilt program does not stand for the one at hand; "" where it does."""
    if not compile_with.is_rebuilt:
        return ""
    found = [_arena_bytes(planned, x) for x in outcomes if not x.error]
    if any(abs(x - planned.arena_bytes) * _CLOSE <= planned.arena_bytes for x in found):
        return ""
    least = min(found, default=0)
    unit = unit_for(planned.arena_bytes)
    return (
        f"{compile_with.what} has no such plan with any of the options tried (at least "
        f"{unit.text(least)})"
    )


def _arena_bytes(planned: Planned, outcome: XlaOutcome) -> int:
    return outcome.temp_bytes + planned.output_bytes - outcome.alias_bytes


def _code(options: Options) -> str:
    if not options:
        return ".compile()"
    pairs = [f'"{name}": "{value}"' for name, value in options.items()]
    return f".compile(compiler_options={{{', '.join(pairs)}}})"
