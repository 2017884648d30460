"""Small programs for graphics processors, and their emulated runs beside the evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowtide.backends.build import build
from lowtide.backends.gpu import GpuBackend
from lowtide.cli.inputs import generated
from lowtide.emulator.device import on_emulated_device
from lowtide.evaluator import array_leaves, evaluate
from lowtide.evaluator.evaluate import parameter_leaves
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.runtime.gpu.program import GpuProgram

TARGET = "cuda:sm_90"

REDUCERS = "".join(
    [
        f"{name} {{\n  a = {type_}[] parameter(0)\n  b = {type_}[] parameter(1)\n"
        f"  ROOT r = {type_}[] {op}(a, b)\n}}\n\n"
        for name, type_, op in (
            ("add", "f32", "add"),
            ("largest", "f32", "maximum"),
            ("addd", "f64", "add"),
            ("least", "s32", "minimum"),
            ("both", "pred", "and"),
            ("addb", "bf16", "add"),
            ("largestd", "f64", "maximum"),
            ("mixed", "u8", "xor"),
            ("addc", "c64", "add"),
            ("largestb", "bf16", "maximum"),
            ("minus", "f32", "subtract"),
        )
    ]
)
REDUCERS += "".join(
    [
        f"{name} {{\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
        f"  ROOT r = pred[] compare(a, b), direction={direction}\n}}\n\n"
        for name, direction in (("less", "LT"), ("ge", "GE"))
    ]
)
REDUCERS += "".join(
    [
        f"""{name} {{
  v = f32[] parameter(0)
  i = s32[] parameter(1)
  w = f32[] parameter(2)
  j = s32[] parameter(3)
  g = pred[] compare(v, w), direction={direction}
  n = pred[] compare(v, v), direction=NE
  o = pred[] or(g, n)
  e = pred[] compare(v, w), direction=EQ
  l = pred[] compare(i, j), direction=LT
  t = pred[] and(e, l)
  k = pred[] or(o, t)
  a = f32[] select(o, v, w)
  b = s32[] select({tie}, i, j)
  ROOT r = (f32[], s32[]) tuple(a, b)
}}

"""
        for name, direction, tie in (
            ("argmax", "GT", "k"),
            ("argmin", "LT", "k"),
            ("anymax", "GE", "o"),
            ("first", "LT", "g"),
        )
    ]
)
"""Computations that programs may name; subtract makes no sum that threads can make together."""


def program_of(entry: str, target: str = TARGET) -> GpuProgram:
    """Return the program of an entry computation, which may name the reducers."""
    return build(parse_hlo(text_of(entry)), GpuBackend(target)).program


def text_of(entry: str) -> str:
    return f"HloModule m\n\n{REDUCERS}ENTRY e {{\n{entry}}}\n"


def templates(program: GpuProgram) -> list[str]:
    """Return the templates of the kernels, sorted."""
    return sorted([x.template for x in program.kernels])


def check(entry: str, tolerance: float = 1e-5, seed: int = 0, target: str = TARGET) -> GpuProgram:
    """Run a program on the emulator and in the evaluator; return it where they agree."""
    module = parse_hlo(text_of(entry))
    program = program_of(entry, target)
    arguments = generated(list(parameter_leaves(module)), seed)
    for mine, theirs in zip(
        flat(on_emulated_device(program)(*arguments)),
        flat(evaluate(module, arguments)),
        strict=True,
    ):
        assert mine.shape == theirs.shape
        assert mine.dtype == theirs.dtype
        a, b = mine.astype(np.complex128), theirs.astype(np.complex128)
        assert np.array_equal(np.isnan(a), np.isnan(b))
        size = max(np.nanmax(np.abs(b), initial=0.0), 1.0)
        assert np.nanmax(np.abs(a - b), initial=0.0) <= tolerance * size
    return program


def flat(result: Any) -> list[Any]:
    return [np.asarray(x) for x in array_leaves(result)]
