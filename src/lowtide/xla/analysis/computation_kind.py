"""The computations that own buffers of the program, and those that are thread-local."""

from __future__ import annotations

from lowtide.analysis.call_graph import executed_computations
from lowtide.ir import Computation, Instruction, InvalidModuleError, Module, Opcode
from lowtide.ir.opcode import CALLERS
from lowtide.ir.traversal import computation_post_order
from lowtide.records import dataclass

_NAMED_AGAIN = frozenset({Opcode.ASYNC_UPDATE, Opcode.ASYNC_DONE})
"""Operations that name the computation which their async-start runs."""


@dataclass(frozen=True, slots=True)
class ComputationKinds:
    """The computations that the entry reaches, callees first.

    `global_computations` are the entry and what runs as control flow (call, conditional, while,
    async-start). `thread_local` are applied per element or run inside a kernel: the callees of
    fusion, map, reduce, sort, scatter, collectives, custom-call and the like.
    """

    global_computations: tuple[Computation, ...]
    thread_local: tuple[Computation, ...]


def computation_kinds(module: Module) -> ComputationKinds:
    """Return the kind of each computation that the entry reaches.

    Raises InvalidModuleError where one computation would have to be both.
    """
    executed = set(executed_computations(module.entry))
    embedded: dict[Computation, Instruction] = {}
    stack = list(executed)
    while stack:
        for caller in stack.pop().instructions.values():
            if caller.opcode in _NAMED_AGAIN or _is_control_flow(caller, executed):
                continue
            for callee in caller.called_computations:
                if callee not in embedded:
                    embedded[callee] = caller
                    stack.append(callee)
    order = computation_post_order(module)
    for computation in order:
        if computation in executed and computation in embedded:
            raise _conflict(computation, embedded[computation])
    return ComputationKinds(
        tuple([x for x in order if x in executed]), tuple([x for x in order if x in embedded])
    )


def _is_control_flow(caller: Instruction, executed: set[Computation]) -> bool:
    return caller.opcode in CALLERS and caller.parent in executed


def _conflict(computation: Computation, caller: Instruction) -> InvalidModuleError:
    message = (
        f"{caller.opcode} runs computation {computation.name} with buffers of its own thread, and "
        "control flow runs it with buffers of the program; expected one or the other"
    )
    return InvalidModuleError(message, instruction=caller.name)
