"""Certificates of the least memory of any compilation: the moments that show it, with flows."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

from lowtide.analysis.call_graph import while_body
from lowtide.ir import Instruction, Module, Opcode
from lowtide.least_memory import BindingMoment, LeastMemory
from lowtide.least_memory.kinds import Kind, runs_behind
from lowtide.least_memory.moments import When
from lowtide.planning.certificates import signed

_HOW: Final = {Kind.FREE: "free", Kind.IN_PLACE: "once", Kind.APART: "apart"}


def compilation_certificate(forms: Sequence[tuple[Module, LeastMemory]]) -> dict[str, Any]:
    """Return the certificate of the least of the bounds of some forms of one program.

    A compilation may begin with any of them.
    """
    sections = [_form(module, found) for module, found in forms]
    evidence = [[_step(moment) for moment in found.moments] for _, found in forms]
    bounds = [
        max(0, found.nbytes - section["arguments"])
        for section, (_, found) in zip(sections, forms, strict=True)
    ]
    return signed("compilation", {"forms": sections}, {}, min(bounds), evidence)


def _form(module: Module, found: LeastMemory) -> dict[str, Any]:
    entry = found.moments[0].flow
    return {
        "text": sha256(str(module).encode()).hexdigest(),
        "arguments": sum([entry.value_bytes[v] for v in entry.parameters]),
        "lasting": found.lasting_bytes,
        "computations": [_section(moment) for moment in found.moments],
    }


def _section(moment: BindingMoment) -> dict[str, Any]:
    """A computation: what is there from the start, then what it runs."""
    flow, values = moment.flow, moment.values
    given = [
        [x.name, "given", [], list(makes), [], []]
        for x, makes in zip(flow.nodes, flow.makes, strict=True)
        if makes and values.given.issuperset(makes)
    ]
    rows = zip(values.instructions, values.kinds, values.reads, values.makes, strict=True)
    made = [
        [x.name, _how(x, kind), list(reads), list(makes), *_called(moment, x, reads, makes)]
        for x, kind, reads, makes in rows
    ]
    return {
        "name": moment.computation.name,
        "operations": [*made, *given],
        "bytes": values.nbytes.tolist(),
        "kept": sorted(values.kept),
    }


def _how(x: Instruction, kind: Kind) -> str:
    return "behind" if kind is Kind.FREE and runs_behind(x) else _HOW[kind]


def _called(
    moment: BindingMoment, x: Instruction, reads: Sequence[int], makes: Sequence[int]
) -> tuple[list[int], list[str]]:
    """The values that are those of the computation that an operation runs, and what that may be."""
    if x.opcode is Opcode.CONDITIONAL:
        return sorted({*reads, *makes}), [y.name for y in x.called_computations]
    if x.opcode is not Opcode.WHILE:
        return [], []
    initial = zip(moment.flow.leaves_of(x.operands[0]), moment.flow.leaves_of(x), strict=True)
    changed = [before for before, after in initial if after in makes]
    return sorted({*changed, *makes}), [while_body(x).name]


def _step(moment: BindingMoment) -> dict[str, Any]:
    if moment.when is When.END:
        return {"at": 0, "when": When.END.value, "flow": []}
    count, made = len(moment.values.nbytes), len(moment.values.kinds)
    # What is given has nodes of its own in the certificate, behind those of operations.
    rest = sum([1 for x in moment.flow.makes if x and moment.values.given.issuperset(x)])
    shift = {0: 0, 1: rest, 2: 2 * rest}
    flow = [
        [_node(tail, count, made, shift), _node(head, count, made, shift), amount]
        for tail, head, amount in moment.cut().flow
    ]
    return {"at": moment.number, "when": moment.when.value, "flow": flow}


def _node(node: int, count: int, made: int, shift: dict[int, int]) -> int:
    """The number of a node where operations have been added."""
    return node if node < count else node + shift[(node - count) // made]
