"""Bytes that loops copy in each iteration, as planned and as needed."""

from __future__ import annotations

from collections.abc import Iterator

from lowtide.analysis.call_graph import while_body
from lowtide.analysis.dataflow import dataflow
from lowtide.autopsy.report import LoopState
from lowtide.compiler import ModulePlan
from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.report.blame import user_frame


def loop_states(module: Module, bare: ModulePlan) -> tuple[LoopState, ...]:
    """Return what each loop that runs copies, in order of the text; scalars do not count.

    `bare` is the plan of the module without its own copies, in which only those were put back that
    have to be.
    """
    reasons: dict[Computation, list[str]] = {}
    for inserted in bare.copies.copies:
        if inserted.copy.shape.dimensions:
            reasons.setdefault(inserted.copy.parent, []).append(inserted.reason.text())
    bodies = {loop.name: while_body(loop) for loop in _loops(bare.module)}
    found = []
    for loop in _loops(module):
        body = bodies[loop.name]
        planned = _copied_bytes(while_body(loop))
        why = tuple(reasons.get(body, ()))
        source = user_frame(loop.stack)
        found.append(LoopState(loop.name, planned, _copied_bytes(body), why, source))
    return tuple(found)


def _loops(module: Module) -> Iterator[Instruction]:
    """Yield the loops that run, callees first."""
    for computation in dataflow(module.entry):
        for instruction in computation.instructions.values():
            if instruction.opcode is Opcode.WHILE:
                yield instruction


def _copied_bytes(body: Computation) -> int:
    """Bytes of the arrays that a body copies as they are."""
    return sum(
        [
            x.shape.nbytes
            for x in body.instructions.values()
            if x.opcode is Opcode.COPY and x.shape is x.operands[0].shape and x.shape.dimensions
        ]
    )
