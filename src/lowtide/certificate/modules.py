"""The memory graphs of a scheduled module in a certificate, and whether they are the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from lowtide.certificate.graphs import exponent_of, graphs_of, tick_name
from lowtide.certificate.numbering import Proved, in_order_of_text
from lowtide.certificate.orders import Ordered
from lowtide.ir import Module
from lowtide.scheduling.module_model import model_graphs
from lowtide.scheduling.proof import Proof

_NO_ARENA: Final[Mapping[str, Any]] = {}


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
    arena: Mapping[str, Any] = _NO_ARENA,
    exponent: int | None = None,
) -> list[str]:
    """Return in what a valid certificate is not about some computations: none if it is.

    All that its problem has counts, but for text and budget; of its plan, orders where the
    computations have steps, and that there is an arena where `arena` has what lies in one: the
    section of that name of the problem. Ticks are of 10 to the minus `exponent` seconds, where that
    is given.
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
        wrong = [name for name, own in graphs[number].document().items() if own != shown[name]]
        if wrong:
            found.append(f"{computation.name}: other {', '.join(wrong)}")
    if problem["arena"] != arena:
        found.append("the arena: other values, regions, or live at other times")
    return found + (_of_plan(plan, computations, bool(arena)) if plan else [])


def _of_plan(
    plan: Mapping[str, Any], computations: Sequence[Ordered], has_arena: bool
) -> list[str]:
    """In what a plan is not one of some computations, in an arena if they have one."""
    if "orders" not in plan:
        return ["it has the program of a module, not an order"]
    found = [] if plan["arena"] or not has_arena else ["it has no places in the arena"]
    for computation, order in zip(computations, plan["orders"], strict=True):
        if computation.steps and order["steps"] != [x + 1 for x in computation.steps]:
            found.append(f"{computation.name}: another order")
    return found


def _listed(names: Sequence[str]) -> str:
    """The last names, of which the entry is the last one."""
    return ", ".join(names) if len(names) <= _LISTED else f"..., {', '.join(names[-_LISTED:])}"


_LISTED = 4
