"""Scatters that are part of a fusion or move elements: arrays are filled first, then updated."""

from __future__ import annotations

from lowtide.codegen.cpu.library.scatter import scatter_code, stands_beside
from lowtide.codegen.cpu.loop import loop_parts
from lowtide.codegen.elements.operands import members
from lowtide.codegen.elements.outputs import KernelOutput
from lowtide.codegen.elements.table import has_rule
from lowtide.codegen.kernel import KernelCode, KernelPlan
from lowtide.codegen.library.updates import UpdatedResults, updated_results
from lowtide.codegen.parts import concatenated
from lowtide.ir import Instruction, Opcode
from lowtide.llvm.target import Target
from lowtide.ops.in_place import in_place_pairs


def plan_moving_scatter(scatter: Instruction, target: Target) -> KernelPlan | None:
    """Return the plan of a scatter of which a result lies unlike its operand, None for others."""
    count = len(scatter.operands) // 2
    if len(in_place_pairs(scatter)) == count:
        return None
    results = UpdatedResults({scatter: {x: x for x in range(count)}}, {})
    return KernelPlan(lambda: _code(scatter, results, target))


def plan_update(fusion: Instruction, target: Target) -> KernelPlan | None:
    """Return the plan of a fusion that scatters in place, None where it is no such fusion.

    An array that is not updated in place is filled first. Each scatter is a phase; then values that
    the fusion also returns are stored. None of them reads what a scatter overwrites. A scatter of
    one element computes single values that are stored beside it, since it is often made of them.
    """
    inner = members(fusion)
    if not any(x.opcode is Opcode.SCATTER for x in inner):
        return None
    results = updated_results(fusion)
    if results is None or not all(x in results.scatters or has_rule(x) for x in inner):
        return None
    return KernelPlan(lambda: _code(fusion, results, target))


def _code(fusion: Instruction, results: UpdatedResults, target: Target) -> KernelCode:
    codes: list[KernelCode] = []
    places = [index for index, leaf in fusion.shape.leaves() if leaf.is_array]
    in_place = {places.index(output) for _, output in in_place_pairs(fusion)}
    plain = [KernelOutput(x, number, x.shape.dimensions) for number, x in results.plain.items()]
    for number, (scatter, found) in enumerate(results.scatters.items()):
        arrays = [found[x] for x in range(len(found))]
        start = [
            KernelOutput(x, array, x.shape.dimensions)
            for x, array in zip(scatter.operands, arrays, strict=False)
            if array not in in_place
        ]
        codes += _loops(fusion, start, target, f"start{number}_")
        beside = [x for x in plain if stands_beside(x, scatter)]
        plain = [x for x in plain if x not in beside]
        codes.append(scatter_code(fusion, scatter, arrays, target, f"scatter{number}", beside))
    codes += _loops(fusion, plain, target, "plain")
    text = "\n".join(dict.fromkeys([x.globals for x in codes if x.globals]))
    functions = [x for code in codes for x in code.functions]
    return KernelCode(tuple(functions), tuple([x for code in codes for x in code.phases]), text)


def _loops(
    fusion: Instruction, outputs: list[KernelOutput], target: Target, name: str
) -> list[KernelCode]:
    """Store plain values; those of equal dimensions together."""
    groups: dict[tuple[int, ...], list[KernelOutput]] = {}
    for output in outputs:
        groups.setdefault(output.dimensions, []).append(output)
    found = [
        loop_parts(fusion, target, group, f"{name}{number}")
        for number, group in enumerate(groups.values())
    ]
    return [concatenated(x, f"{name}parts{i}") for i, x in enumerate(found) if x]
