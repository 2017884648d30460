"""The bound on every compilation of a module, taken when its passes have come to layouts."""

from __future__ import annotations

import time
from typing import Final, final

from lowtide.compiler.proposals import has_barriers
from lowtide.compiler.stages import merging
from lowtide.ir import Module
from lowtide.ir.clone import clone_module
from lowtide.least_memory import LeastMemory, least_memory
from lowtide.passes import run_pipeline
from lowtide.passes.registry import late_passes

_ON_CHIP: Final = "attention-fusion,dce"
"""What joins operations that a kernel runs without storing what is between them."""


@final
class CompilationBound:
    """Looks at a module at the stage "layout", and has the bound afterwards.

    Barriers may go in a compilation: the module without them is one more, and the lower bound of
    both holds.
    """

    def __init__(self) -> None:
        self.found: LeastMemory | None = None
        self.seconds = 0.0

    def look(self, module: Module) -> None:
        """Find the bound of a module, which is not changed."""
        start = time.monotonic()
        form = clone_module(module)
        run_pipeline(form, late_passes(_ON_CHIP))
        self.found = least_memory(form)
        if has_barriers(form):
            merged = clone_module(module)
            run_pipeline(merged, (*merging(), *late_passes(_ON_CHIP)))
            self.found = min(self.found, least_memory(merged), key=lambda x: x.nbytes)
        self.seconds = time.monotonic() - start
