"""A module as a list of its kernels, short enough for a table of cases."""

import re

from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.attributes import Fusion
from lowtide.ir.traversal import computation_post_order, fused_computations, post_order

_NO_KERNELS = (
    Opcode.CONSTANT,
    Opcode.GET_TUPLE_ELEMENT,
    Opcode.OPTIMIZATION_BARRIER,
    Opcode.PARAMETER,
    Opcode.RESHAPE,
    Opcode.TUPLE,
)


def kernel_list(module: Module) -> str:
    """Return `kind(operands): members` of each fusion and the names of other kernels.

    A fusion is named as its root, the last of its members; `rows` is the kind of one that works
    row by row. Constants are left out, and so is the number that makes a name unique.
    """
    applied = fused_computations(module) | {
        callee
        for computation in module.computations.values()
        for x in computation.instructions.values()
        if x.opcode not in (Opcode.CALL, Opcode.WHILE, Opcode.CONDITIONAL)
        for callee in x.called_computations
    }
    return " | ".join(
        [
            _kernel(x)
            for computation in computation_post_order(module)
            if computation not in applied
            for x in post_order(computation)
            if x.opcode not in _NO_KERNELS
        ]
    )


def _kernel(x: Instruction) -> str:
    if x.opcode is not Opcode.FUSION:
        return _name(x)
    operands = ", ".join([_name(operand) for operand in x.operands])
    members = " ".join(
        [
            _name(member)
            for member in post_order(x.called_computations[0])
            if member.opcode not in (Opcode.PARAMETER, Opcode.CONSTANT)
        ]
    )
    kind = x.attributes_as(Fusion).kind[1:].lower()
    marked = re.search(r'"kernel":"(\w+)"', x.annotations.backend_config)
    return f"{marked[1] if marked else kind}({operands}): {members}"


def _name(x: Instruction) -> str:
    if x.opcode is Opcode.FUSION:
        x = x.called_computations[0].root
    return re.sub(r"\.\d+$", "", x.name)
