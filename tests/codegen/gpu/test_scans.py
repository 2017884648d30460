"""Running sums on the emulator: parts of rows are added up before threads step through them."""

from __future__ import annotations

import numpy as np
import pytest
from tests.codegen.gpu.programs import TARGET, flat

from lowtide.backends.build import build
from lowtide.backends.gpu import GpuBackend
from lowtide.emulator.device import on_emulated_device
from lowtide.evaluator import evaluate
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.runtime.gpu.program import GpuProgram

RANDOM = np.random.default_rng(0)


def running(
    type_: str, combined: str, sizes: tuple[int, ...], along: int, initial: str, *, to_end: bool
) -> str:
    """Return the text of a module with a running sum along a dimension."""
    size = sizes[along]
    padding = f"0_{size - 1}" if to_end else f"{size - 1}_0"
    window = "x".join([str(size) if d == along else "1" for d in range(len(sizes))])
    padded = "x".join([padding if d == along else "0_0" for d in range(len(sizes))])
    shape = f"{type_}[{','.join(map(str, sizes))}]"
    return (
        f"HloModule m\n\ncombined {{\n  a = {type_}[] parameter(0)\n  b = {type_}[] parameter(1)\n"
        f"{combined}}}\n\nENTRY e {{\n  x = {shape} parameter(0)\n"
        f"  z = {type_}[] constant({initial})\n  ROOT s = {shape} reduce-window(x, z), "
        f"window={{size={window} pad={padded}}}, to_apply=combined\n}}\n"
    )


def near(text: str, argument: np.ndarray, tolerance: float) -> GpuProgram:
    """Return the program of a module whose result on the emulator is the evaluator's, about."""
    program = build(parse_hlo(text), GpuBackend(TARGET)).program
    (mine,) = flat(on_emulated_device(program)(argument))
    (theirs,) = flat(evaluate(parse_hlo(text), [argument]))
    assert np.max(np.abs(np.subtract(mine, theirs, dtype=np.float64))) <= tolerance
    (kernel,) = [x for x in program.kernels if x.template != "points"]
    assert kernel.template == "scans"
    return program


ADD = "  ROOT r = f32[] add(a, b)\n"
NORM = """  x = f32[] exponential(a)
  y = f32[] exponential(b)
  s = f32[] add(x, y)
  ROOT r = f32[] log(s)
"""


@pytest.mark.parametrize(
    ("sizes", "along"),
    [
        ((9000,), 0),
        ((5,), 0),
        ((2, 4099), 1),
        ((70, 130), 1),
        ((700, 10), 0),
        ((9000, 2), 0),
        ((40, 7, 5), 1),
    ],
)
def test_sums_from_the_start_and_to_the_end(sizes: tuple[int, ...], along: int) -> None:
    x = RANDOM.normal(size=sizes).astype(np.float32)
    for to_end in (False, True):
        near(running("f32", ADD, sizes, along, "2.5", to_end=to_end), x, 1e-5)


def test_rows_that_are_spread_over_blocks_take_two_launches() -> None:
    text = running("f32", ADD, (9000,), 0, "0", to_end=False)
    x = RANDOM.normal(size=9000).astype(np.float32)
    (kernel,) = [x for x in near(text, x, 1e-5).kernels if x.template == "scans"]
    assert [x.blocks for x in kernel.launches] == [5, 5]


@pytest.mark.parametrize(
    ("type_", "combined", "initial"),
    [
        ("s32", "  ROOT r = s32[] add(a, b)\n", "5"),
        ("f64", "  ROOT r = f64[] maximum(a, b)\n", "-inf"),
        ("pred", "  ROOT r = pred[] and(a, b)\n", "true"),
    ],
)
def test_sums_that_depend_on_no_order_are_exact(type_: str, combined: str, initial: str) -> None:
    kind = {"s32": np.int32, "f64": np.float64, "pred": np.bool_}[type_]
    x = (RANDOM.random(5000) * 9000).astype(kind)
    near(running(type_, combined, (5000,), 0, initial, to_end=False), x, 0.0)


def test_sums_by_a_computation_that_is_no_single_operation() -> None:
    text = running("f32", NORM, (600, 3), 0, "-inf", to_end=False)
    near(text, RANDOM.normal(size=(600, 3)).astype(np.float32), 1e-5)
