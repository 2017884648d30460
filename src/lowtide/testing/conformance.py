"""The evaluator as a function from HLO text and flat inputs to flat outputs."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.evaluator import array_leaves, evaluate
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir.literal import Array


def run(hlo_text: str, inputs: Sequence[Array]) -> list[Array]:
    """Return the arrays of the result, depth first, of the module for the given inputs."""
    result = evaluate(parse_hlo(hlo_text), inputs)
    return array_leaves(result)


def run_optimized(hlo_text: str, inputs: Sequence[Array]) -> list[Array]:
    """Return what `run` does, of the module after all passes."""
    from lowtide import compiler

    module = parse_hlo(hlo_text)
    compiler.optimize(module, compiler.PlanOptions("fused"))
    result = evaluate(module, inputs)
    return array_leaves(result)
