"""Native code as a function from HLO text and flat inputs to flat outputs."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.backends.build import build
from lowtide.backends.cpu import CpuBackend
from lowtide.evaluator import Token, value_leaves
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir.literal import Array
from lowtide.runtime.cpu.call import LinkedExecutable


def run_native(hlo_text: str, inputs: Sequence[Array]) -> list[Array]:
    """Return the arrays of the result, depth first, of the compiled module."""
    program = build(parse_hlo(hlo_text), CpuBackend(2)).program
    result = LinkedExecutable(program)(*inputs)
    return [x for x in value_leaves(result) if x is not None and not isinstance(x, Token)]
