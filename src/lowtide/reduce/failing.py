"""The test of passes that are wrong on a module: the few lines on which they still are."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from lowtide.compiler.stages import STAGES, pipeline
from lowtide.ir import LowtideError, Module
from lowtide.passes import Step
from lowtide.passes.registry import parse_passes
from lowtide.reduce.minimize import as_test, minimize
from lowtide.reduce.shrink.faults import Fault, find_fault, first_fault, shows


def failing_test(module: Module, passes: str) -> str:
    """Return the source of a test with the least module on which passes are wrong as on this one.

    `passes` is a list of passes or a stage, of which only the first wrong one stays, if it is so by
    itself. Raises LowtideError where they do nothing wrong.
    """
    steps = steps_of(passes)
    fault, words = find_fault(module, steps)
    if fault is Fault.NONE:
        raise LowtideError(f"{module.name}: {fault}")
    print(f"{fault}: {words}", file=sys.stderr)
    before, alone = first_fault(module, steps, fault)
    least = minimize(before, lambda x: shows(x, alone, fault))
    for text in (",".join(map(str, alone)), passes):
        if before is not module and shows(least, steps_of(text), fault):
            return as_test(least, fault.name.lower(), text)
    least = minimize(module, lambda x: shows(x, steps, fault))
    return as_test(least, fault.name.lower(), passes)


def steps_of(passes: str) -> Sequence[Step]:
    """Return the steps of a stage, or of a list of passes; raises LowtideError for neither."""
    return pipeline(passes) if passes in STAGES else parse_passes(passes)
