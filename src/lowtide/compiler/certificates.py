"""Certificates of plans: what is proved about the order and the arena of a scheduled module."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lowtide.analysis.module_graphs import ComputationGraph
from lowtide.buffers.packing import packing_problem
from lowtide.certificate.modules import ordered
from lowtide.certificate.orders import ProgramArena, order_certificate
from lowtide.compiler import ModulePlan, plan
from lowtide.ir import LowtideError, Module
from lowtide.planning.certificates import packing_sections
from lowtide.planning.plans import Packing
from lowtide.planning.problem import ARENA
from lowtide.scheduling.module_model import model_order
from lowtide.scheduling.proof import Exhausted, Proof
from lowtide.scheduling.search import search_order


def certify(module: Module) -> dict[str, Any]:
    """Return the certificate of a scheduled module, and of the arena that it is planned in.

    It is of schema "lowtide.certificate/2", for the text `str(module)`, and counts no memory that
    kernels need while they run. Raises LowtideError for a module that is not scheduled or lacks
    copies.
    """
    return certificate_of(scheduled_plan(module))


def scheduled_plan(module: Module) -> ModulePlan:
    """Return the plan of a scheduled module in its own order; raises as `certify` does."""
    if module.schedule is None:
        raise LowtideError(f"{module.name} is not scheduled: certify what compiling it gives")
    made = plan(module)
    if made.copies.copies:
        raise LowtideError(f"{module.name} lacks copies: certify what compiling it gives")
    return made


def certificate_of(made: ModulePlan) -> dict[str, Any]:
    """Return the certificate of a plan, as `certify` does; the plan must be without scratch."""
    needs: list[int] = []
    proofs: list[tuple[ComputationGraph, Proof]] = []
    for x in made.bounds.values():
        proof = x.found.proof
        if isinstance(proof, Exhausted):
            proof = search_order(x.model.holding(needs)).proof
        needs.append(x.bytes)
        proofs.append((_as_scheduled(x.model, made.module), proof))
    computations = ordered(proofs)
    return order_certificate(computations, str(made.module).encode(), arena=arena_of(made))


def _as_scheduled(model: ComputationGraph, module: Module) -> ComputationGraph:
    """The model in the order of the schedule: bounds may be older than a better order."""
    assert module.schedule is not None
    order = module.schedule.sequences[model.computation]
    return replace(model, order=model_order([model.flow.number[x] for x in order], model))


def arena_of(made: ModulePlan) -> ProgramArena:
    """Return where the buffers of a plan lie; arenas of several memory spaces, one behind another.

    Rows and places are per buffer of `made.ranges`.
    """
    problem, packed = packing_problem(made.ranges), made.packed
    alignment = made.ranges.alignment
    offset = packed.offset.copy()
    begin = height = 0
    for space in packed.arena_sizes:
        here = (packed.colour == space) & (packed.region == ARENA)
        offset[here] += begin
        height = max(height, int((offset[here] + problem.nbytes[here]).max(initial=0)))
        begin = -(-height // alignment) * alignment
    rows, places = packing_sections(problem, Packing(packed.region, offset, height))
    return ProgramArena(rows, places)
