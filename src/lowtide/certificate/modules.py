"""The memory graphs of a scheduled module in a certificate, and whether they are the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lowtide.analysis.memory_graph import Float64Array
from lowtide.analysis.module_graphs import module_graphs
from lowtide.certificate.graphs import exponent_of, graph_of
from lowtide.certificate.orders import Ordered
from lowtide.ir import Module
from lowtide.scheduling.proof import Proof


def module_orders(
    module: Module,
    proofs: Mapping[str, Proof],
    seconds: Mapping[str, Float64Array] | None = None,
) -> list[Ordered]:
    """Return the scheduled computations of a module for a certificate.

    `proofs` and `seconds`, of each node, are by name of the computation. Raises ValueError for a
    module without a schedule.
    """
    if module.schedule is None:
        raise ValueError(f"module {module.name} has no schedule")
    known = seconds or {}
    return [
        Ordered(
            name=x.computation.name,
            graph=replace(x.graph, seconds=known.get(x.computation.name, x.graph.seconds)),
            steps=x.order,
            proof=proofs.get(x.computation.name),
            calls=x.calls,
        )
        for x in module_graphs(module)
    ]


def differences(document: Mapping[str, Any], computations: Sequence[Ordered]) -> list[str]:
    """Return in what a valid certificate is not about some computations: none if it is.

    Times count where the computations have them, orders where the certificate has no budget.
    """
    problem, plan = document["problem"], document["plan"]
    names = [x.name for x in computations]
    if problem["names"] != names:
        return [f"it is about {', '.join(problem['names'])}, not about {', '.join(names)}"]
    exponent = exponent_of([x.graph for x in computations])
    found = []
    for number, computation in enumerate(computations):
        shown = problem["graphs"][number]
        own = graph_of(computation.graph, computation.calls, exponent).document()
        if not len(computation.graph.seconds):
            shown = {**shown, "nodes": [[x, 0, *rest] for x, _, *rest in shown["nodes"]]}
        wrong = [field for field in own if own[field] != shown[field]]
        if wrong:
            found.append(f"{computation.name}: other {', '.join(wrong)}")
        steps = [x + 1 for x in computation.steps]
        if steps and plan and not problem["budget"] and plan["orders"][number]["steps"] != steps:
            found.append(f"{computation.name}: another order")
    return found
