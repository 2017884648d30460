"""From kernels of several parts to fusion instructions, with a tuple of results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lowtide.fusion.cluster import KernelKind
from lowtide.fusion.kernels import FusedKernel
from lowtide.fusion.materialize import FUSION_KINDS, origin, rewire, with_config
from lowtide.ir import Computation, Instruction, Opcode
from lowtide.ir.attributes import Fusion, GetTupleElement, Parameter
from lowtide.ir.shape import tuple_shape
from lowtide.ir.traversal import post_order
from lowtide.ops.in_place import EPILOGUE, LOOPS, ONE_PASS, ROWS
from lowtide.records.late import late_pattern

_SEVERAL_RESULTS: Final = {KernelKind.REDUCTION: ONE_PASS, KernelKind.UPDATE: ONE_PASS}


_NUMBER: Final = late_pattern(r"\.\d+$")
"""What makes a name unique."""


def materialize_kernels(computation: Computation, kernels: Sequence[FusedKernel]) -> None:
    """Make one fusion of the parts of each kernel, and remove these; kernels stand in order.

    Results are the values that others read. Parts in bodies of fusions are copied.
    """
    made: dict[Instruction, Instruction] = {}
    for kernel in kernels:
        _fuse(computation, kernel, made)
    rewire(computation, made)
    for kernel in reversed(kernels):
        for part in reversed(kernel.parts):
            for element in list(part.users):
                computation.remove(element)
            computation.remove(part)


def _fuse(
    computation: Computation, kernel: FusedKernel, replaced: dict[Instruction, Instruction]
) -> None:
    """Make a fusion, and note in `replaced` what stands for the values of the parts."""
    body = computation.module.add_computation("fused_computation")
    inside, outside = _body_of_parts(body, kernel)
    inner = set(kernel.parts)
    results: dict[Instruction, list[Instruction]] = {}
    for value in kernel.outputs:
        if value.is_root or any(user not in inner for user in value.users):
            results.setdefault(inside[value], []).append(value)
    made = tuple(results)
    body.root = made[0]
    shape = made[0].shape
    if len(made) > 1:
        shape = tuple_shape([x.shape for x in made])
        body.root = body.add(Opcode.TUPLE, shape, made)
    name = "multi_output_fusion" if len(made) > 1 else f"{made[0].opcode.value}_fusion"
    operands = tuple([replaced.get(x, x) for x in outside])
    kind = Fusion(FUSION_KINDS[kernel.kind])
    fusion = computation.add(Opcode.FUSION, shape, operands, kind, (body,), name.replace("-", "_"))
    largest = results[max(made, key=lambda x: x.shape.nbytes)][0]
    fusion.set_metadata(origin(largest, kernel.parts).raw_metadata)
    for number, values in enumerate(results.values()):
        replaced.update(dict.fromkeys(values, _result(values[0], fusion, number)))
    config = _config(kernel, made)
    fusion.set_annotations(with_config(fusion.annotations, config))


def _result(value: Instruction, fusion: Instruction, number: int) -> Instruction:
    """Return what stands for a value: a result of the fusion, or the fusion itself."""
    result = fusion
    if fusion.shape.is_tuple:
        shape = fusion.shape.tuple_shapes[number]
        attributes = GetTupleElement(number)
        name = _NUMBER.sub("", value.name)
        result = fusion.parent.add(
            Opcode.GET_TUPLE_ELEMENT, shape, (fusion,), attributes, name=name
        )
        result.set_metadata(value.raw_metadata)
    result.set_annotations(with_config(value.annotations, ""))
    return result


def _config(kernel: FusedKernel, made: Sequence[Instruction]) -> str:
    """The backend configuration, which says how results are stored."""
    if kernel.kind is KernelKind.ROWS:
        return ROWS
    if kernel.kind is KernelKind.CONTRACTION:
        return EPILOGUE
    if kernel.kind is KernelKind.LOOP and len({x.shape.dimensions for x in made}) > 1:
        return LOOPS
    return _SEVERAL_RESULTS.get(kernel.kind, "") if len(made) > 1 else ""


def _body_of_parts(
    body: Computation, kernel: FusedKernel
) -> tuple[dict[Instruction, Instruction], list[Instruction]]:
    """Fill a body; return what stands in it for each value, and the operands of the fusion."""
    inside: dict[Instruction, Instruction] = {}
    outside: list[Instruction] = []
    for part in kernel.parts:
        for operand in part.operands:
            if operand not in inside:
                number = len(outside)
                attributes = Parameter(number)
                inside[operand] = body.add(
                    Opcode.PARAMETER, operand.shape, (), attributes, name=f"param_{number}"
                )
                outside.append(operand)
        operands = tuple([inside[x] for x in part.operands])
        if part.opcode is not Opcode.FUSION:
            inside[part] = body.add_like(part, operands)
            continue
        results = _copied_body(part, body, operands)
        inside[part] = results[0]
        if part.shape.is_tuple:
            for element in part.users:
                inside[element] = results[element.attributes_as(GetTupleElement).index]
    return inside, outside


def _copied_body(
    fusion: Instruction, body: Computation, operands: tuple[Instruction, ...]
) -> list[Instruction]:
    """Copy what a fusion computes into a body; return the results, one by one."""
    callee = fusion.called_computations[0]
    copies = dict(zip(callee.parameters, operands, strict=True))
    for x in post_order(callee):
        if x.opcode is Opcode.PARAMETER:
            continue
        if x is callee.root and x.opcode is Opcode.TUPLE:
            return [copies[y] for y in x.operands]
        copies[x] = body.add_like(x, tuple([copies[y] for y in x.operands]))
    return [copies[callee.root]]
