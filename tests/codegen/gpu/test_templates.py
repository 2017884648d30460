# ruff: noqa: E501
"""Kernels of graphics processors by template: emulated runs equal the evaluator."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from tests.codegen.gpu.programs import check, flat, program_of, templates

from lowtide.backends.build import build
from lowtide.backends.gpu import GpuBackend
from lowtide.emulator.device import on_emulated_device
from lowtide.emulator.shadow import EmulationError
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir.errors import UnsupportedOpError

POINTS = {
    "elementwise": """
  x = f32[37,19] parameter(0)
  y = f32[37,19] parameter(1)
  t = f32[37,19] tanh(x)
  ROOT r = f32[37,19] multiply(t, y)
""",
    "four lanes": """
  x = f32[512,256] parameter(0)
  y = f32[256] parameter(1)
  b = f32[512,256] broadcast(y), dimensions={1}
  ROOT r = f32[512,256] add(x, b)
""",
    "lanes of bf16": """
  x = bf16[512,256] parameter(0)
  ROOT r = bf16[512,256] exponential(x)
""",
    "lanes that read apart": """
  x = f32[512,512] parameter(0)
  t = f32[512,256] slice(x), slice={[0:512],[0:512:2]}
  ROOT r = f32[512,256] negate(t)
""",
    "several columns": """
  x = f32[5,131072] parameter(0)
  y = f32[131072] parameter(1)
  z = f32[] constant(1.5)
  r = f32[131072] reduce(x, z), dimensions={0}, to_apply=add
  ROOT s = f32[131072] multiply(r, y)
""",
    "lanes under one mask": """
  x = f32[300,240] parameter(0)
  z = f32[] constant(7)
  ROOT p = f32[307,252] pad(x, z), padding=3_4x8_4
""",
    "lanes of one of two": """
  x = bf16[300,240] parameter(0)
  y = bf16[300,272] parameter(1)
  ROOT c = bf16[300,512] concatenate(x, y), dimensions={1}
""",
    "lanes under a mask": """
  x = f32[300,200] parameter(0)
  z = f32[] constant(7)
  ROOT p = f32[307,220] pad(x, z), padding=3_4x9_11
""",
    "complex": """
  x = c64[9,7] parameter(0)
  ROOT r = c64[9,7] exponential(x)
""",
    "wide numbers": """
  x = f64[64,512] parameter(0)
  ROOT r = f64[64,512] logistic(x)
""",
    "gather": """
  x = f32[50,8] parameter(0)
  i = s32[11,1] parameter(1)
  ROOT g = f32[11,8] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,8}
""",
    "update in place": """
  x = f32[50,8] parameter(0)
  u = f32[3,8] parameter(1)
  i = s32[] parameter(2)
  z = s32[] constant(0)
  ROOT d = f32[50,8] dynamic-update-slice(x, u, i, z)
""",
    "columns": """
  x = f32[40,5000] parameter(0)
  z = f32[] constant(1.5)
  ROOT r = f32[5000] reduce(x, z), dimensions={0}, to_apply=add
""",
    "convolution": """
  x = f32[2,5,4,3] parameter(0)
  w = f32[3,3,3,4] parameter(1)
  ROOT c = f32[2,5,4,4] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
""",
    "nothing": """
  x = f32[0,4] parameter(0)
  ROOT r = f32[0,4] negate(x)
""",
}

UNITS = {
    "a transform of a large prime length": """
  x = c64[20,58] parameter(0)
  ROOT f = c64[20,58] fft(x), fft_type=FFT, fft_length={58}
""",
    "windows that overlap": """
  x = f32[60] parameter(0)
  i = s32[90,1] parameter(1)
  u = f32[90,8] parameter(2)
  ROOT s = f32[60] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
""",
}

BITS = """
  s = u64[2] parameter(0)
  ROOT r = (u64[2], u32[40000]) rng-bit-generator(s), algorithm=rng_three_fry
"""

ROWS = {
    "rows of a warp": """
  x = f32[33,70] parameter(0)
  z = f32[] constant(2.5)
  ROOT r = f32[33] reduce(x, z), dimensions={1}, to_apply=add
""",
    "rows of a block": """
  x = f32[3,5000] parameter(0)
  z = f32[] constant(2.5)
  ROOT r = f32[3] reduce(x, z), dimensions={1}, to_apply=largest
""",
    "all of an array": """
  x = f64[30,50,7] parameter(0)
  z = f64[] constant(0)
  ROOT r = f64[] reduce(x, z), dimensions={0,1,2}, to_apply=addd
""",
    "integers": """
  x = s32[9,2000] parameter(0)
  z = s32[] constant(100)
  ROOT r = s32[9] reduce(x, z), dimensions={1}, to_apply=least
""",
    "truth": """
  x = pred[9,2000] parameter(0)
  z = pred[] constant(true)
  ROOT r = pred[9] reduce(x, z), dimensions={1}, to_apply=both
""",
    "softmax": """
  x = f32[6,3,1500] parameter(0)
  z = f32[] constant(0)
  n = f32[] constant(-inf)
  m = f32[6,3] reduce(x, n), dimensions={2}, to_apply=largest
  mb = f32[6,3,1500] broadcast(m), dimensions={0,1}
  d = f32[6,3,1500] subtract(x, mb)
  e = f32[6,3,1500] exponential(d)
  s = f32[6,3] reduce(e, z), dimensions={2}, to_apply=add
  sb = f32[6,3,1500] broadcast(s), dimensions={0,1}
  ROOT r = f32[6,3,1500] divide(e, sb)
""",
    "a norm of few numbers": """
  x = f32[100,5] parameter(0)
  z = f32[] constant(0)
  y = f32[100,5] multiply(x, x)
  s = f32[100] reduce(y, z), dimensions={1}, to_apply=add
  sb = f32[100,5] broadcast(s), dimensions={0}
  ROOT r = f32[100,5] subtract(y, sb)
""",
}


def softmax(type_: str, rows: str, length: str, add: str, largest: str) -> str:
    sizes, last = f"{type_}[{rows},{length}]", f"{type_}[{rows}]"
    kept = ",".join([str(i) for i in range(rows.count(",") + 1)])
    summed = ",".join([str(i + rows.count(",") + 1) for i in range(length.count(",") + 1)])
    return f"""
  x = {sizes} parameter(0)
  z = {type_}[] constant(0)
  n = {type_}[] constant(-inf)
  m = {last} reduce(x, n), dimensions={{{summed}}}, to_apply={largest}
  mb = {sizes} broadcast(m), dimensions={{{kept}}}
  d = {sizes} subtract(x, mb)
  e = {sizes} exponential(d)
  s = {last} reduce(e, z), dimensions={{{summed}}}, to_apply={add}
  sb = {sizes} broadcast(s), dimensions={{{kept}}}
  ROOT r = {sizes} divide(e, sb)
"""


ROWS |= {
    "a warp, several lanes": softmax("f32", "5", "256", "add", "largest"),
    "a warp, lanes that are missing": softmax("f32", "5", "300", "add", "largest"),
    "a warp, an odd number": softmax("f32", "5", "301", "add", "largest"),
    "four warps": softmax("f32", "3", "2000", "add", "largest"),
    "sixteen warps": softmax("f32", "2", "5000", "add", "largest"),
    "longer than is kept": softmax("f32", "2", "9000", "add", "largest"),
    "longer than is kept, an odd number": softmax("f32", "2", "9001", "add", "largest"),
    "bf16": softmax("bf16", "5", "1000", "addb", "largestb"),
    "bf16, long": softmax("bf16", "3", "4104", "addb", "largestb"),
    "f64": softmax("f64", "3", "1100", "addd", "largestd"),
    "several dimensions": softmax("f32", "2,3", "7,72", "add", "largest"),
    "bits of bytes": """
  x = u8[9,2000] parameter(0)
  z = u8[] constant(3)
  ROOT r = u8[9] reduce(x, z), dimensions={1}, to_apply=mixed
""",
    "complex": """
  x = c64[9,500] parameter(0)
  z = c64[] constant((1, 2))
  ROOT r = c64[9] reduce(x, z), dimensions={1}, to_apply=addc
""",
    "a number for all of a row": """
  x = f32[9] parameter(0)
  b = f32[9,500] broadcast(x), dimensions={0}
  y = f32[9,500] parameter(1)
  z = f32[] constant(0)
  s = f32[9] reduce(b, z), dimensions={1}, to_apply=add
  sb = f32[9,500] broadcast(s), dimensions={0}
  ROOT r = f32[9,500] subtract(y, sb)
""",
    "the place of the largest": """
  x = f32[5,300] parameter(0)
  i = s32[5,300] iota(), iota_dimension=1
  n = f32[] constant(-inf)
  z = s32[] constant(0)
  ROOT r = (f32[5], s32[5]) reduce(x, i, n, z), dimensions={1}, to_apply=argmax
""",
    "the first of equal ones": """
  s = s32[2,5000] parameter(0)
  o = s32[] constant(7)
  ob = s32[2,5000] broadcast(o), dimensions={}
  m = s32[2,5000] remainder(s, ob)
  x = f32[2,5000] convert(m)
  i = s32[2,5000] iota(), iota_dimension=1
  n = f32[] constant(-inf)
  z = s32[] constant(0)
  p = (f32[2], s32[2]) reduce(x, i, n, z), dimensions={1}, to_apply=anymax
  ROOT r = s32[2] get-tuple-element(p), index=1
""",
    "the place of the least of equal ones": """
  s = s32[2,5000] parameter(0)
  o = s32[] constant(7)
  ob = s32[2,5000] broadcast(o), dimensions={}
  m = s32[2,5000] remainder(s, ob)
  x = f32[2,5000] convert(m)
  i = s32[2,5000] iota(), iota_dimension=1
  n = f32[] constant(inf)
  z = s32[] constant(0)
  p = (f32[2], s32[2]) reduce(x, i, n, z), dimensions={1}, to_apply=argmin
  ROOT r = s32[2] get-tuple-element(p), index=1
""",
    "two sums and a norm": """
  x = f32[7,800] parameter(0)
  z = f32[] constant(0)
  q = f32[7,800] multiply(x, x)
  s = f32[7] reduce(x, z), dimensions={1}, to_apply=add
  t = f32[7] reduce(q, z), dimensions={1}, to_apply=add
  v = f32[7] subtract(t, s)
  i = f32[7] rsqrt(t)
  ib = f32[7,800] broadcast(i), dimensions={0}
  y = f32[7,800] multiply(x, ib)
  ROOT r = (f32[7,800], f32[7]) tuple(y, v)
""",
}

PRODUCTS = {
    "f32": """
  x = f32[133,70] parameter(0)
  y = f32[70,120] parameter(1)
  b = f32[120] parameter(2)
  z = f32[133,120] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  bb = f32[133,120] broadcast(b), dimensions={1}
  s = f32[133,120] add(z, bb)
  ROOT t = f32[133,120] tanh(s)
""",
    "f32, large tiles": """
  x = f32[1600,20] parameter(0)
  y = f32[20,1441] parameter(1)
  ROOT z = f32[1600,1441] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
""",
    "batches": """
  x = f32[3,40,65] parameter(0)
  y = f32[3,50,65] parameter(1)
  ROOT z = f32[3,40,50] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}
""",
    "several dimensions": """
  x = f32[6,5,8,10] parameter(0)
  y = f32[10,6,7,9] parameter(1)
  ROOT z = f32[5,8,7,9] dot(x, y), lhs_contracting_dims={0,3}, rhs_contracting_dims={1,0}
""",
    "convolution": """
  x = f32[2,15,14,5] parameter(0)
  w = f32[3,3,5,20] parameter(1)
  c = f32[2,7,14,20] convolution(x, w), window={size=3x3 stride=2x1 pad=0_1x1_1}, dim_labels=b01f_01io->b01f
  ROOT t = f32[2,7,14,20] tanh(c)
""",
    "convolution, features first, holes": """
  x = f32[2,5,15,14] parameter(0)
  w = f32[20,5,3,3] parameter(1)
  ROOT c = f32[2,20,11,28] convolution(x, w), window={size=3x3 pad=0_0x2_1 lhs_dilate=1x2 rhs_dilate=2x1 rhs_reversal=1x0}, dim_labels=bf01_oi01->bf01
""",
    "f64": """
  x = f64[50,70] parameter(0)
  y = f64[70,50] parameter(1)
  ROOT z = f64[50,50] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
""",
    "s32": """
  x = s32[50,70] parameter(0)
  y = s32[70,51] parameter(1)
  ROOT z = s32[50,51] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
""",
}

TENSOR_CORES = {
    "bf16": """
  x = bf16[133,70] parameter(0)
  y = bf16[70,120] parameter(1)
  z = bf16[133,120] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = bf16[133,120] negate(z)
""",
    "f16, an odd width": """
  x = f16[3,40,65] parameter(0)
  y = f16[3,51,65] parameter(1)
  ROOT z = f32[3,40,51] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}
""",
    "an operand that is computed": """
  x = bf16[64,96] parameter(0)
  y = bf16[96,64] parameter(1)
  e = bf16[64,96] negate(x)
  ROOT z = bf16[64,64] dot(e, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
""",
}


@pytest.mark.parametrize("entry", POINTS.values(), ids=POINTS)
def test_points(entry: str) -> None:
    assert set(templates(check(entry, 1e-2 if "bf16" in entry else 1e-5))) <= {"points"}


@pytest.mark.parametrize("entry", UNITS.values(), ids=UNITS)
def test_units(entry: str) -> None:
    assert "units" in templates(check(entry))


@pytest.mark.parametrize("entry", ROWS.values(), ids=ROWS)
def test_rows(entry: str) -> None:
    found = templates(check(entry, 2e-2 if "bf16" in entry else 1e-5))
    assert set(found) == {"rows"} or ("90" in entry and "rows" in found)


@pytest.mark.parametrize("entry", PRODUCTS.values(), ids=PRODUCTS)
def test_products(entry: str) -> None:
    assert templates(check(entry)) == ["dmma" if "f64" in entry else "ffma"]


@pytest.mark.parametrize("entry", TENSOR_CORES.values(), ids=TENSOR_CORES)
def test_tensor_cores(entry: str) -> None:
    assert "mma" in templates(check(entry, 1e-2 if "bf16" in entry else 1e-5))


def test_a_sum_that_threads_cannot_make_together_has_a_thread_for_each_row() -> None:
    program = check(
        """
  x = f32[20,40] parameter(0)
  z = f32[] constant(0)
  s = f32[20] reduce(x, z), dimensions={1}, to_apply=minus
  sb = f32[20,40] broadcast(s), dimensions={0}
  ROOT r = f32[20,40] subtract(x, sb)
"""
    )
    assert set(templates(program)) <= {"points", "rows"}


def test_choices_whose_order_matters_have_a_thread_for_each_row() -> None:
    """The reducer takes the number and the place of different operands."""
    program = check(
        """
  x = f32[5,300] parameter(0)
  i = s32[5,300] iota(), iota_dimension=1
  n = f32[] constant(inf)
  z = s32[] constant(0)
  ROOT r = (f32[5], s32[5]) reduce(x, i, n, z), dimensions={1}, to_apply=first
"""
    )
    assert set(templates(program)) == {"points"}


def test_numbers_of_short_rows_have_a_thread_each() -> None:
    """Several results of the size of the sums, which are made of one another."""
    program = check(
        """
  x = f32[113,32,16] parameter(0)
  z = f32[] constant(0)
  m = f32[113,32] reduce(x, z), dimensions={2}, to_apply=add
  mb = f32[113,32,16] broadcast(m), dimensions={0,1}
  d = f32[113,32,16] subtract(x, mb)
  q = f32[113,32,16] multiply(d, d)
  v = f32[113,32] reduce(q, z), dimensions={2}, to_apply=add
  w = f32[113,32] rsqrt(v)
  ROOT t = (f32[113,32], f32[113,32]) tuple(w, m)
"""
    )
    assert templates(program) == ["points"]


def test_a_host_call_is_refused_by_name() -> None:
    entry = """
  x = f32[4] parameter(0)
  ROOT c = f32[4] custom-call(x), custom_call_target="xla_ffi_python_cpu_callback", api_version=API_VERSION_TYPED_FFI
"""
    with pytest.raises(UnsupportedOpError, match=r"%c .*the CPU runs it|custom-call"):
        program_of(entry)


IN_PLACE = """HloModule m, input_output_alias={ {0}: (0, {}, may-alias), {1}: (2, {}, may-alias) }

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}

ENTRY e {
  x = f32[10] parameter(0)
  y = f32[10,64] parameter(1)
  z = f32[] constant(0)
  s = f32[10] reduce(y, z), dimensions={1}, to_apply=add
  w = f32[10] parameter(2)
  a = f32[10] add(x, s)
  b = f32[10] subtract(w, a)
  ROOT r = (f32[10], f32[10]) tuple(a, b)
}
"""


def test_a_row_is_read_by_all_before_one_writes_over_it() -> None:
    """All threads of a warp compute what one of them stores: they meet before it does."""
    program = build(parse_hlo(IN_PLACE), GpuBackend("cuda")).program
    draw = np.random.default_rng(0)
    x, y, w = [draw.standard_normal(z).astype(np.float32) for z in ((10,), (10, 64), (10,))]
    first, second = flat(on_emulated_device(program)(x, y, w))
    assert np.allclose(first, x + y.sum(1), atol=1e-4)
    assert np.allclose(second, w - first, atol=1e-4)
    assert templates(program) == ["rows"]
    texts = tuple([re.sub(r"  call void @llvm.nvvm.bar.warp.*\n", "", z) for z in program.texts])
    assert texts != program.texts
    with pytest.raises(EmulationError, match="a race in global memory"):
        on_emulated_device(replace(program, texts=texts))(x, y, w)


OVER_A_ROW = """HloModule m, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}

ENTRY e {
  x = f32[10] parameter(0)
  y = f32[10,LENGTH] parameter(1)
  z = f32[] constant(0)
  xb = f32[10,LENGTH] broadcast(x), dimensions={0}
  d = f32[10,LENGTH] subtract(y, xb)
  p = f32[10,LENGTH] exponential(d)
  s = f32[10] reduce(p, z), dimensions={1}, to_apply=add
  sb = f32[10,LENGTH] broadcast(s), dimensions={0}
  q = f32[10,LENGTH] divide(p, sb)
  a = f32[10] add(x, s)
  ROOT r = (f32[10], f32[10,LENGTH]) tuple(a, q)
}
"""


@pytest.mark.parametrize("length", [64, 2000])
def test_a_number_of_a_row_is_stored_when_all_of_the_row_has_been_read(length: int) -> None:
    """By a warp, and by a block, whose threads all read what one of them stores over."""
    module = parse_hlo(OVER_A_ROW.replace("LENGTH", str(length)))
    program = build(module, GpuBackend("cuda")).program
    draw = np.random.default_rng(0)
    x, y = [draw.standard_normal(z).astype(np.float32) for z in ((10,), (10, length))]
    first, second = flat(on_emulated_device(program)(x, y))
    powers = np.exp(y - x[:, None])
    assert np.allclose(first, x + powers.sum(1), rtol=1e-4)
    assert np.allclose(second, powers / powers.sum(1)[:, None], rtol=1e-4)
    (kernel,) = program.kernels
    assert kernel.template == "rows"
    assert len(kernel.launches) == 1
