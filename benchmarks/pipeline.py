"""Seconds of the pipeline from text to fused program, and the share of each pass.

    python benchmarks/pipeline.py [--instructions N] [--stage NAME] [FILE ...]

Two modules of repeated layers are generated (`tests.generated.layers`): a training step with
gradients and updates, all in the entry, and the same with each layer in computations of its own.
Files, e.g. `shared/corpus/*.xz`, come after them. `parse` and `passes` are wall seconds on this
machine, `out` is the number of instructions afterwards, those inside fusions included, and `rows`
the same without the parameters of fusions. Below 2 % of the time passes are not shown.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

import lowtide
from lowtide import compiler
from lowtide.ir import Module, Opcode
from lowtide.ir.printer import COMPLETE, to_text
from lowtide.ir.traversal import fused_computations
from lowtide.passes.instrumentation import Timing

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.generated.layers import layered_module

INSTRUCTIONS = 60_000


def generated(count: int) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of the generated modules."""
    for name, calls in (("unrolled", False), ("calls", True)):
        yield name, to_text(layered_module(count, calls=calls), COMPLETE)


def rows(module: Module) -> int:
    """Return the number of instructions, parameters of fusions left out."""
    inside = [
        x
        for computation in fused_computations(module)
        for x in computation.instructions.values()
        if x.opcode is Opcode.PARAMETER
    ]
    return module.instruction_count - len(inside)


def report(name: str, module: Module, parsing: float, stage: str) -> None:
    """Optimize a module; print its line."""
    count = module.instruction_count
    module.schedule = None
    timing = Timing()
    start = perf_counter()
    compiler.optimize(module, compiler.PlanOptions(stage), [timing])
    seconds = perf_counter() - start
    ordered = sorted(timing.passes.items(), key=lambda item: -item[1].seconds)
    shares = [
        f"{step} {row.seconds / seconds:.0%} in {row.runs}"
        for step, row in ordered
        if row.seconds >= 0.02 * seconds
    ]
    out = module.instruction_count
    print(
        f"{name:32s} {count:7,d} {out:7,d} {rows(module):7,d} {parsing:6.2f} {seconds:6.2f}  "
        f"{', '.join(shares)}",
        flush=True,
    )


def main() -> None:
    """Print one line a module."""
    parser = argparse.ArgumentParser(description="seconds of the pipeline, by pass")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--instructions", type=int, default=INSTRUCTIONS)
    parser.add_argument("--stage", default="fused")
    arguments = parser.parse_args()
    print(
        f"{'module':32s} {'in':>7s} {'out':>7s} {'rows':>7s} {'parse':>6s} {'passes':>6s}  "
        "share of each pass, runs"
    )
    for name, text in generated(arguments.instructions):
        start = perf_counter()
        module = lowtide.parse_hlo(text)
        report(name, module, perf_counter() - start, arguments.stage)
    for path in arguments.files:
        start = perf_counter()
        module = lowtide.read(path)
        report(path.rpartition("/")[2][:32], module, perf_counter() - start, arguments.stage)


if __name__ == "__main__":
    main()
