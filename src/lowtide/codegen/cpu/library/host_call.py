"""Calls of functions outside of the program: the walker makes them, no kernel does."""

from __future__ import annotations

from lowtide.codegen.kernel import KernelCode, KernelPlan
from lowtide.host_calls.instructions import host_call_of
from lowtide.ir import Instruction
from lowtide.llvm.target import Target


def plan_host_call(instruction: Instruction, target: Target) -> KernelPlan | None:
    """Return the plan of a call of a function of this process: no code and no scratch.

    None for another call. Raises UnsupportedOpError for a function that is not there.
    """
    call = host_call_of(instruction)
    return None if call is None else KernelPlan(lambda: KernelCode((), ()), call=call)
