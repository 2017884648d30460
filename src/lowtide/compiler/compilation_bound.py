"""The bound on every compilation of a module, taken when its passes have come to layouts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final, final

from lowtide.certificate.compilation import compilation_certificate
from lowtide.compiler.options import DEFAULT_PLAN, PlanOptions
from lowtide.compiler.proposals import given_to_fusion, has_barriers
from lowtide.compiler.stages import merging, pipeline
from lowtide.ir import LowtideError, Module
from lowtide.ir.clone import clone_module
from lowtide.least_memory import LeastMemory, least_memory
from lowtide.least_memory.results import with_own_results
from lowtide.passes import run_pipeline
from lowtide.passes.dead_code import has_dead_code
from lowtide.passes.registry import late_passes
from lowtide.report.compilation_cut import CompilationCut, compilation_cut
from lowtide.transforms.layout.handed_on import obey_layouts

_ON_CHIP: Final = "attention-fusion,dce"
"""What joins operations that a kernel runs without storing what is between them."""
_NORMAL: Final = "layout"
"""The stage at which the bound is taken."""


@final
class CompilationBound:
    """Looks at a module at the stage "layout", and has the bound afterwards."""

    def __init__(self) -> None:
        self.found: LeastMemory | None = None
        self.seconds = 0.0

    def look(self, module: Module, on_chip: Module | None = None) -> None:
        """Find the bound of a module, which is not changed.

        `on_chip` is the same with what runs on chip as one kernel, None where that is not known.
        """
        start = time.monotonic()
        self.found = min([least_memory(x) for x in _forms(module, on_chip)], key=lambda x: x.nbytes)
        self.seconds = time.monotonic() - start


def _forms(module: Module, on_chip: Module | None = None) -> Iterator[Module]:
    """Yield the forms of a module at the stage "layout" from which a compilation may begin.

    Barriers may go in a compilation: the module without them is one more, and the lower bound of
    both holds. Each result has a buffer of its own.
    """
    if on_chip is None or has_dead_code(on_chip):
        form = clone_module(module)
        run_pipeline(form, late_passes(_ON_CHIP))
    else:
        form = on_chip  # The values that were found for its kernels are kept with it.
    yield with_own_results(form)
    if has_barriers(form):
        merged = clone_module(module)
        run_pipeline(merged, (*merging(), *late_passes(_ON_CHIP)))
        yield with_own_results(merged)


def shown_by(least: LeastMemory) -> CompilationCut:
    """Return what is stored at the moments that show a bound."""
    stored = [
        (moment.flow.nodes[moment.flow.value_node[v]], moment.flow.value_leaf[v], nbytes, depth)
        for depth, moment in enumerate(least.moments)
        for v in moment.cut().stored
        if (nbytes := int(moment.values.nbytes[v]))
    ]
    last = least.moments[-1]
    return compilation_cut(last.when.value, last.at, least.once, stored, is_whole=least.is_whole)


# -- certificates ----------------------------------------------------------------------------------


def certify_compilations(module: Module, options: PlanOptions = DEFAULT_PLAN) -> dict[str, Any]:
    """Return the certificate of what every compilation of a module needs.

    It is of kind "compilation". Raises LowtideError for a module that is scheduled.
    """
    forms = normal_forms(module, options)
    return compilation_certificate([(form, least_memory(form)) for form in forms])


def normal_forms(module: Module, options: PlanOptions = DEFAULT_PLAN) -> list[Module]:
    """Return the forms of a module as it was written, from which a compilation may begin.

    Raises LowtideError for a module that is scheduled.
    """
    if module.is_scheduled:
        raise LowtideError(f"{module.name} is scheduled: its kernels are chosen already")
    copy = clone_module(module)
    obey_layouts(copy)
    run_pipeline(copy, pipeline(_NORMAL, target=options.target))
    return [*_forms(given_to_fusion(copy, options))]
