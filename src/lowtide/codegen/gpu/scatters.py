"""Scatters: arrays that are not updated in place are filled, then updated; the rest comes last."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from lowtide.codegen.elements.operands import members
from lowtide.codegen.elements.outputs import KernelOutput
from lowtide.codegen.elements.table import has_rule
from lowtide.codegen.gpu.kernel import GpuCode, GpuPlan
from lowtide.codegen.gpu.points import PointGroup, point_kernel
from lowtide.codegen.gpu.scatter_ways import GpuScatter, Part
from lowtide.codegen.library.scatter_form import ScatterForm
from lowtide.codegen.library.updates import UpdatedResults, updated_results
from lowtide.ir import Instruction, Opcode
from lowtide.llvm.target import Target
from lowtide.ops.in_place import in_place_pairs


def plan_gpu_scatter(instruction: Instruction, target: Target) -> GpuPlan | None:
    """Return how scatters run, by themselves or in a fusion; None for single elements.

    It is also None where many windows may overlap without being equal.
    """
    inner = members(instruction)
    if not any(x.opcode is Opcode.SCATTER for x in inner):
        return None
    results = _results(instruction)
    if results is None or not all(x in results.scatters or has_rule(x) for x in inner):
        return None
    scatters = []
    first = 0
    for number, (scatter, found) in enumerate(results.scatters.items()):
        arrays = tuple([found[x] for x in range(len(found))])
        work = GpuScatter(instruction, ScatterForm(scatter), arrays, target, number, first)
        if prod(work.form.update_sizes) == 1 or work.way is None:
            return None
        scatters.append(work)
        first += work.scratch_bytes
    return GpuPlan("scatters", lambda: _code(instruction, results, scatters, target), first)


def _results(instruction: Instruction) -> UpdatedResults | None:
    if instruction.opcode is Opcode.FUSION:
        return updated_results(instruction)
    count = len(instruction.operands) // 2
    return UpdatedResults({instruction: {x: x for x in range(count)}}, {})


def _code(
    instruction: Instruction,
    results: UpdatedResults,
    scatters: Sequence[GpuScatter],
    target: Target,
) -> GpuCode:
    """What is not updated in place is filled first; values beside scatters are stored last."""
    places = [index for index, leaf in instruction.shape.leaves() if leaf.is_array]
    in_place = {places.index(output) for _, output in in_place_pairs(instruction)}
    parts: list[Part] = []
    for work in scatters:
        start = [
            KernelOutput(x, array, x.shape.dimensions)
            for x, array in zip(work.form.inputs, work.arrays, strict=True)
            if array not in in_place
        ]
        parts += [_points(instruction, target, x, "start") for x in start]
        parts.append(work.write())
    plain = [KernelOutput(x, number, x.shape.dimensions) for number, x in results.plain.items()]
    parts += [_points(instruction, target, x, "plain") for x in plain]
    functions = [x for found, _, _ in parts for x in found]
    launches = [x for _, found, _ in parts for x in found]
    texts = [x for _, _, found in parts for x in found]
    return GpuCode(tuple(functions), tuple(launches), "\n".join(dict.fromkeys(texts)))


def _points(instruction: Instruction, target: Target, output: KernelOutput, name: str) -> Part:
    if 0 in output.dimensions:
        return [], [], []
    group = PointGroup(instruction, target, (output,), f"{name}{output.array}_")
    function, launch, texts = point_kernel(group)
    return [function], [launch], texts
