"""Kernels of a program on two devices, one after the other: the first one whose results differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lowtide.ir import Module
from lowtide.ir.literal import DTYPES, Array
from lowtide.ir.thunk import CopyThunk, KernelThunk
from lowtide.runtime.cpu.program import Bytes
from lowtide.runtime.gpu.execution import LoadedGpuProgram


def first_difference(
    module: Module,
    one: LoadedGpuProgram,
    other: LoadedGpuProgram,
    arguments: Sequence[Any],
    allowed: float,
) -> str:
    """Return the first kernel whose results differ and by how much, "" where none do.

    Both programs are those of the scheduled module. Kernels run in turn, each after all is done;
    `allowed` is an error relative to the greatest magnitude of a result.
    """
    types = {
        x.name: [DTYPES[y.element_type] for _, y in x.shape.leaves() if y.is_array]
        for computation in module.computations.values()
        for x in computation.instructions.values()
    }
    written = [_written(x, arguments) for x in (other, one)]
    for theirs, ours in zip(*written, strict=False):
        thunk, values = ours
        for place, (x, y) in enumerate(zip(values, theirs[1], strict=True)):
            dtypes = types.get(thunk.name, [])
            dtype = dtypes[place] if place < len(dtypes) else np.dtype(np.uint8)
            if (error := apart(x.view(dtype), y.view(dtype))) > allowed:
                kernel = _kernel_of(one, thunk)
                return f"{thunk.name} ({kernel}), result {place}: {error:.2g} apart"
    return ""


def _written(
    program: LoadedGpuProgram, arguments: Sequence[Any]
) -> list[tuple[KernelThunk | CopyThunk, list[Bytes]]]:
    """What each step of a call writes, in turn."""
    found: list[tuple[KernelThunk | CopyThunk, list[Bytes]]] = []
    program.place(*arguments)
    program.run_in_turn(
        lambda thunk: found.append((thunk, [program.read(x) for x in thunk.writes]))
    )
    return found


def _kernel_of(program: LoadedGpuProgram, thunk: KernelThunk | CopyThunk) -> str:
    if isinstance(thunk, CopyThunk):
        return "copy"
    kernel = program.program.kernels[thunk.kernel]
    return ", ".join([kernel.template, *[x.function for x in kernel.launches]])


def apart(got: Array, expected: Array) -> float:
    """Return how far results are apart: relative to the greatest magnitude; of integers a share.

    It is infinite where types, sizes, or the places of NaNs and infinities differ.
    """
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return float("inf")
    if got.dtype.kind in "biu" or "int" in got.dtype.name:
        return float(np.mean(got != expected)) if got.size else 0.0
    wide = np.complex128 if got.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        a, b = got.astype(wide), expected.astype(wide)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        if same.all():
            return 0.0
        distance = np.where(same, 0.0, np.nan_to_num(np.abs(a - b), nan=np.inf, posinf=np.inf))
        size = np.abs(b[np.isfinite(b)]).max(initial=0.0)
    return float(distance.max() / max(size, np.finfo(np.float32).tiny))
