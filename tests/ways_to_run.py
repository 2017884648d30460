"""The evaluator, native code and an emulated GPU as functions from HLO text to flat outputs."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from lowtide.backends.build import build
from lowtide.backends.cpu import CpuBackend
from lowtide.evaluator import array_leaves, evaluate
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir.literal import Array
from lowtide.runtime.cpu.call import LinkedExecutable


def run(hlo_text: str, inputs: Sequence[Array]) -> list[Array]:
    """Return the arrays of the result, depth first, of the module for the given inputs."""
    result = evaluate(parse_hlo(hlo_text), inputs)
    return array_leaves(result)


def run_native(hlo_text: str, inputs: Sequence[Array]) -> list[Array]:
    """Return the arrays of the result, depth first, of the compiled module."""
    program = build(parse_hlo(hlo_text), CpuBackend(2)).program
    return array_leaves(LinkedExecutable(program)(*inputs))


def run_emulated(hlo_text: str, inputs: Sequence[Array]) -> list[Array]:
    """Return the arrays of the result, depth first, of the module through the driver layer.

    The order of work in streams is drawn from the text. It is called twice: in streams, then by
    graphs of the same work. Raises RuntimeError where these give other bits.
    """
    from lowtide.backends.gpu import GpuBackend  # Not for native code.
    from lowtide.emulator.device import on_emulated_device

    program = build(parse_hlo(hlo_text), GpuBackend("cuda")).program
    device = on_emulated_device(program, zlib.crc32(hlo_text.encode()))
    first, second = [array_leaves(device(*inputs)) for _ in range(2)]
    if any(x.tobytes() != y.tobytes() for x, y in zip(first, second, strict=True)):
        raise RuntimeError("graphs give other bits than streams")
    return second
