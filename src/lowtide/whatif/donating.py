"""Donations: arguments that outputs may overwrite."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from lowtide import compiler
from lowtide.analysis.donation import Donation, aliases, possible_donations
from lowtide.autopsy.compilers import alias_entries
from lowtide.compiler import ModulePlan
from lowtide.ir import Instruction, Module
from lowtide.report.donations import argument_name
from lowtide.whatif.baseline import Baseline
from lowtide.whatif.change import ImpossibleChangeError, ProgramChange

_MOST = 6
"""So many arguments are tried one by one; all of them are tried together."""


def donation_changes(base: Baseline) -> list[ProgramChange]:
    """Return the donation of all arguments that could be, and of each, the largest first."""
    module = base.module
    by_argument: dict[str, list[Donation]] = {}
    for donation in possible_donations(module, aliases(module)):
        by_argument.setdefault(_argument(donation.parameter), []).append(donation)
    if not by_argument:
        return []
    size = {name: sum([x.nbytes for x in found]) for name, found in by_argument.items()}
    names = sorted(by_argument, key=lambda name: (-size[name], name))
    single = [_change(base, f"donate:{name}", [name]) for name in names[:_MOST]]
    if len(names) == 1:
        return single
    return [_change(base, "donate:all", names), *single]


def _argument(parameter: Instruction) -> str:
    return argument_name(parameter.metadata.op_name or parameter.name)


def _change(base: Baseline, name: str, names: Sequence[str]) -> ProgramChange:
    listed = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return ProgramChange(
        name,
        f"donate {listed}, if not needed after the call",
        base.function.decorator.donating(base.function.name, names),
        base.function.source,
        partial(_planned, names=frozenset(names)),
        written=None if base.has_given_order else partial(_written, names=frozenset(names)),
    )


def _planned(base: Baseline, names: frozenset[str]) -> ModulePlan:
    module = base.copy()
    _donate(module, names)
    return base.planned(module)


def _written(base: Baseline, names: frozenset[str]) -> ModulePlan:
    module = base.as_given()
    _donate(module, names)
    return compiler.plan(module, base.options)


def _donate(module: Module, names: frozenset[str]) -> None:
    named = {x for x in module.entry.parameters if _argument(x) in names}
    given = possible_donations(module, aliases(module), named)
    if not given:
        raise ImpossibleChangeError("no result has its shape")
    module.input_output_aliases += alias_entries(module, given)
