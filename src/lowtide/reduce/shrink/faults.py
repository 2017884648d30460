"""Faults of a list of passes: a module that they break, or of which they change the results."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Final, final

from lowtide.analysis.call_graph import executed_computations
from lowtide.analysis.loop_trip_count import trip_count
from lowtide.checking.tolerances import assert_values_close
from lowtide.evaluator import evaluate
from lowtide.ir import LowtideError, Module, Opcode
from lowtide.ir.clone import clone_module
from lowtide.passes import Pass, Step, run_pipeline
from lowtide.passes.instrumentation import Observing
from lowtide.reduce.shrink.arguments import likely_arguments
from lowtide.verifier import verify

FACTOR: Final = 16.0
"""By how much errors may exceed those of one operation: shrunk programs are hundreds deep."""

SEEDS: Final = (0, 1)
"""Positive arguments, and some with signs."""


class Fault(StrEnum):
    """What is wrong with passes on a module."""

    NONE = "the passes compute the same"
    RAISES = "a pass raises an exception"
    INVALID = "the module is not valid after the passes"
    DIFFERS = "the passes change what is computed"


def find_fault(
    module: Module, steps: Sequence[Step], *, evaluated: bool = True
) -> tuple[Fault, str]:
    """Return what passes do wrong on a module, which is not changed, and the words of the error.

    Without `evaluated`, what the module computes is not looked at. Raises LowtideError where the
    module itself cannot be evaluated.
    """
    changed = clone_module(module)
    changed.schedule = None
    try:
        run_pipeline(changed, steps)
    except Exception as error:
        return Fault.RAISES, f"{type(error).__name__}: {error}"
    try:
        verify(changed)
    except LowtideError as error:
        return Fault.INVALID, str(error)
    for seed in SEEDS if evaluated else ():
        arguments = likely_arguments(module, seed)
        expected = evaluate(module, arguments)
        try:
            found = evaluate(changed, arguments)
            assert_values_close(found, expected, module.entry.root.shape, factor=FACTOR)
        except (AssertionError, LowtideError) as error:
            return Fault.DIFFERS, str(error)
    return Fault.NONE, ""


def shows(module: Module, steps: Sequence[Step], fault: Fault) -> bool:
    """Whether passes do the same wrong on a part of a module that they went wrong on.

    A part with a loop that may have no end does not: it is not run.
    """
    if fault is Fault.DIFFERS and _may_run_forever(module):
        return False
    try:
        found, _ = find_fault(module, steps, evaluated=fault is Fault.DIFFERS)
    except LowtideError:
        return False
    return found is fault


def _may_run_forever(module: Module) -> bool:
    for computation in executed_computations(module.entry):
        for x in computation.instructions.values():
            if x.opcode is Opcode.WHILE:
                count = trip_count(x)
                if count is None or count.count > _MOST_TRIPS:
                    return True
    return False


_MOST_TRIPS: Final = 100


def first_fault(
    module: Module, steps: Sequence[Step], fault: Fault
) -> tuple[Module, Sequence[Step]]:
    """Return the module before the pass that goes wrong first, and that pass, by bisection.

    The module and all `steps` are returned where that pass by itself does not go wrong so.
    """
    trace = _Trace()
    with suppress(Exception):
        run_pipeline(clone_module(module), steps, [trace])
    right, wrong = 0, len(trace.steps)
    while wrong - right > 1:
        middle = (right + wrong) // 2
        if find_fault(module, trace.steps[:middle])[0] is Fault.NONE:
            right = middle
        else:
            wrong = middle
    before = clone_module(module)
    before.schedule = None
    run_pipeline(before, trace.steps[:right])
    alone = trace.steps[right:wrong]
    return (before, alone) if find_fault(before, alone)[0] is fault else (module, steps)


@final
class _Trace(Observing):
    """The passes of a pipeline as they ran, the last of which may have raised an exception."""

    def __init__(self) -> None:
        self.steps: list[Pass] = []

    def allows(self, step: Pass) -> bool:
        """Note a pass."""
        self.steps.append(step)
        return True
