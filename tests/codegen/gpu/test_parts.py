"""Products whose depth is divided among blocks: beside the evaluator, and equal in each run."""

from __future__ import annotations

import pytest
from tests.codegen.gpu.programs import check, program_of, text_of
from tests.codegen.gpu.test_tiles import laid_out

from lowtide.cli.inputs import generated
from lowtide.emulator.device import on_emulated_device
from lowtide.evaluator.evaluate import parameter_leaves
from lowtide.frontend.hlo_text import parse_hlo

EPILOGUE = """
  x = f32[640,20] parameter(0)
  y = f32[640,36] parameter(1)
  b = f32[36] parameter(2)
  d = f32[20,36] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  w = f32[20,36] broadcast(b), dimensions={1}
  a = f32[20,36] add(d, w)
  ROOT r = f32[20,36] tanh(a)
"""
BATCHED = """
  x = bf16[3,1200,20] parameter(0)
  y = bf16[3,1200,33] parameter(1)
  ROOT d = bf16[3,20,33] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0},
    lhs_contracting_dims={1}, rhs_contracting_dims={1}
"""
KERNEL_GRADIENT = """
  x = f32[4,16,16,8] parameter(0)
  g = f32[4,16,16,12] parameter(1)
  ROOT c = f32[3,3,8,12] convolution(x, g), window={size=16x16 pad=1_1x1_1},
    dim_labels=f01b_i01o->01bf
"""
CASES = {
    "f32": (laid_out("f32", "f32", (1, 0), (40, 70, 768)), 24, 1e-5),
    "f32, an end": (laid_out("f32", "f32", (0, 1), (40, 70, 1017)), 32, 1e-5),
    "f64": (laid_out("f64", "f64", (1, 0), (40, 70, 512)), 8, 1e-13),
    "bf16": (laid_out("bf16", "f32", (1, 1), (40, 70, 1280)), 4, 1e-5),
    "bytes": (laid_out("s8", "s32", (0, 0), (40, 36, 2048)), 2, 0.0),
    "one number": (laid_out("f32", "f32", (1, 0), (1, 1, 1 << 17)), 2, 1e-5),
    "what is made of them": (EPILOGUE, 10, 1e-5),
    "batches": (BATCHED, 6, 1e-2),
    "gradient of a kernel": (KERNEL_GRADIENT, 32, 1e-5),
}
"""Programs, blocks of the parts of each, and tolerances."""


@pytest.mark.parametrize("name", CASES)
def test_products_in_parts(name: str) -> None:
    entry, blocks, tolerance = CASES[name]
    (kernel,) = check(entry, tolerance).kernels
    first, _ = kernel.launches
    assert first.blocks == blocks


def test_parts_are_added_up_in_order() -> None:
    entry = CASES["f32"][0]
    program = program_of(entry)
    arguments = generated(list(parameter_leaves(parse_hlo(text_of(entry)))), 0)
    one, other = [on_emulated_device(program)(*arguments) for _ in range(2)]
    assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("sizes", [(4096, 4096, 4096), (1280, 1280, 64), (40, 70, 12)])
def test_enough_blocks_or_a_short_depth_have_no_parts(sizes: tuple[int, int, int]) -> None:
    program = program_of(laid_out("f32", "f32", (1, 0), sizes))
    assert [len(x.launches) for x in program.kernels] == [1]
