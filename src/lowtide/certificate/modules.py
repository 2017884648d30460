"""The memory graphs of a scheduled module in a certificate, and whether they are the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lowtide.certificate.graphs import exponent_of, graphs_of, tick_name
from lowtide.certificate.numbering import Proved, in_order_of_text
from lowtide.certificate.orders import Ordered, ProgramArena
from lowtide.ir import Module
from lowtide.scheduling.module_model import model_graphs
from lowtide.scheduling.proof import Proof


def module_orders(module: Module, proofs: Mapping[str, Proof]) -> list[Ordered]:
    """Return the scheduled computations of a module for a certificate.

    `proofs` are by name of the computation. Raises ValueError for a module without a schedule.
    """
    if module.schedule is None:
        raise ValueError(f"module {module.name} has no schedule")
    models = model_graphs(module)
    return ordered([(x, proofs.get(x.computation.name)) for x in models])


def ordered(found: Sequence[Proved]) -> list[Ordered]:
    """Return the computations of a module, the entry last, numbered as in its text."""
    return [
        Ordered(x.computation.name, x.graph, x.order, proof, x.calls)
        for x, proof in in_order_of_text(found)
    ]


def differences(
    document: Mapping[str, Any],
    computations: Sequence[Ordered],
    arena: ProgramArena | None = None,
    exponent: int | None = None,
) -> list[str]:
    """Return in what a valid certificate is not about some computations: none if it is.

    Times count where the computations have them, in ticks of 10 to the minus `exponent` seconds, if
    that is given; orders where the certificate has no budget, and what has to lie in an arena where
    that is given.
    """
    problem, plan = document["problem"], document["plan"]
    names = [x.name for x in computations]
    if problem["names"] != names:
        return [f"it is about {_listed(problem['names'])}, not about {_listed(names)}"]
    timed = [(x.graph, x.calls) for x in computations]
    exponent = exponent_of(timed) if exponent is None else exponent
    graphs = graphs_of(timed, exponent)
    found = [] if problem["tick"] == tick_name(exponent) else ["other ticks"]
    for number, computation in enumerate(computations):
        shown = problem["graphs"][number]
        own = graphs[number].document()
        if not len(computation.graph.seconds):
            shown = {**shown, "nodes": [[x, 0, *rest] for x, _, *rest in shown["nodes"]]}
        wrong = [field for field in own if own[field] != shown[field]]
        if wrong:
            found.append(f"{computation.name}: other {', '.join(wrong)}")
        steps = [x + 1 for x in computation.steps]
        if steps and plan and not problem["budget"] and plan["orders"][number]["steps"] != steps:
            found.append(f"{computation.name}: another order")
    if arena is not None and problem["arena"] not in ({}, arena.rows):
        found.append("the arena: other values, or live at other times")
    return found


def _listed(names: Sequence[str]) -> str:
    """The last names, of which the entry is the last one."""
    return ", ".join(names) if len(names) <= _LISTED else f"..., {', '.join(names[-_LISTED:])}"


_LISTED = 4
