"""Fourier transforms natively and by the evaluator."""

import numpy as np
import pytest
from tests.codegen.cpu.library.running import TARGETS, check, run, target_of

from lowtide.client.executable.anew import compile_anew
from lowtide.codegen.cpu.library import fft
from lowtide.codegen.library.fft_form import FoldPass, PassLimits, factors_of, halves_of, passes_of
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.inspection.kernel_texts import kernel_texts
from lowtide.options import Options

CASES = [
    # shape, dimensions that are transformed
    ((1,), 1),
    ((5,), 1),
    ((3, 8), 1),
    ((40, 37), 1),  # a prime, by convolution
    ((2, 67), 1),  # the same by other transforms
    ((7, 143), 1),
    ((5, 17 * 19), 1),
    ((3, 23 * 4), 1),
    ((40, 48), 1),
    ((1, 1000), 1),  # two shorter transforms
    ((2, 5000), 1),
    ((4, 6, 10), 2),
    ((3, 5, 7), 3),
    ((64, 20), 2),
    ((1, 1024), 1),  # real lines by pairs of neighbours
    ((2, 4100), 1),
    ((1, 2022), 1),  # of which the half has no such factors
    ((2, 3, 2048), 2),
    ((0, 4), 1),
]

PRECISIONS = {"c64": ("f32", np.complex64, 2e-6), "c128": ("f64", np.complex128, 1e-13)}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("type_", PRECISIONS)
@pytest.mark.parametrize("kind", ["FFT", "IFFT", "RFFT", "IRFFT"])
def test_transforms(kind, type_, target):
    real, dtype, tolerance = PRECISIONS[type_]
    random = np.random.default_rng(11)
    for shape, count in CASES:
        half = (*shape[:-1], shape[-1] // 2 + 1)
        given = half if kind == "IRFFT" else shape
        result = half if kind == "RFFT" else shape
        values = (random.standard_normal(given) + 1j * random.standard_normal(given)).astype(dtype)
        types = [real if kind == "RFFT" else type_, real if kind == "IRFFT" else type_]
        sizes = [",".join(map(str, x)) for x in (given, result, shape[len(shape) - count :])]
        text = f"""
HloModule m

ENTRY main {{
  x = {types[0]}[{sizes[0]}] parameter(0)
  ROOT y = {types[1]}[{sizes[1]}] fft(x), fft_type={kind}, fft_length={{{sizes[2]}}}
}}
"""
        inputs = [values.real.copy() if kind == "RFFT" else values]
        check(text, inputs, target, tolerance=tolerance)


@pytest.mark.parametrize("kind", ["RFFT", "IRFFT"])
@pytest.mark.parametrize("lines", [1, 40])
def test_long_real_lines_are_half_as_many_complex_ones(kind, lines, monkeypatch):
    """Where they are few or too long for one pass, another one puts halves together or apart."""
    monkeypatch.setattr(fft, "_LONGEST_HALVED", 32)
    half, given = f"c64[{lines},1051]", f"f32[{lines},2100]"
    operand, result = (given, half) if kind == "RFFT" else (half, given)
    text = f"""
HloModule m

ENTRY main {{
  x = {operand} parameter(0)
  ROOT y = {result} fft(x), fft_type={kind}, fft_length={{2100}}
}}
"""
    random = np.random.default_rng(13)
    values = random.standard_normal((lines, 2100)).astype(np.float32)
    spectrum = random.standard_normal((2, lines, 1051)).astype(np.float32)
    inputs = values if kind == "RFFT" else (spectrum[0] + 1j * spectrum[1]).astype(np.complex64)
    check(text, [inputs], tolerance=2e-6)
    passes = passes_of(parse_hlo(text).entry.root, PassLimits(16, 32, 32))
    assert [type(x) for x in passes].count(FoldPass) == 1 and len(passes) == 3
    assert all(x.length <= 35 for x in passes if not isinstance(x, FoldPass))


def test_scratch_of_real_lines_is_no_more_than_their_spectrum():
    """Lines of up to 65,536 numbers need what one vector of them takes."""
    text = """
HloModule m

ENTRY main {
  x = f32[512,16384] parameter(0)
  ROOT y = c64[512,8193] fft(x), fft_type=RFFT, fft_length={16384}
}
"""
    root = parse_hlo(text).entry.root
    plan = fft.plan_fft(root, target_of("avx2"))
    assert plan is not None
    assert plan.shared_bytes == 0 and plan.thread_bytes < root.shape.nbytes / 8


def test_factors():
    assert factors_of(360) == [4, 2, 3, 3, 5]
    assert factors_of(2 * 29) is None
    assert halves_of(1000) == (25, 40)
    assert halves_of(29 * 29) is None


@pytest.mark.parametrize("size", [48, 35])
def test_a_line_does_no_harm_to_others(size):
    values = np.random.default_rng(12).standard_normal((5, size)).astype(np.float32)
    values[1] *= 1e30
    values[3, 2] = np.nan
    text = f"""
HloModule m

ENTRY main {{
  x = f32[5,{size}] parameter(0)
  ROOT y = c64[5,{size // 2 + 1}] fft(x), fft_type=RFFT, fft_length={{{size}}}
}}
"""
    (found,) = run(text, [values])
    wanted = np.fft.rfft(values)
    for row in (0, 2, 4):
        np.testing.assert_allclose(found[row], wanted[row], rtol=0, atol=1e-4)
    assert np.isnan(found[3]).all()


LONG_CASES = [(lines, n) for lines in (7, 8, 33) for n in (8192, 5 * 4096, 65536)]


def _text(kind: str, sizes: str, given: int, result: int, n: int) -> str:
    types = ("f32" if kind == "RFFT" else "c64", "f32" if kind == "IRFFT" else "c64")
    return f"""
HloModule m

ENTRY main {{
  x = {types[0]}[{sizes},{given}] parameter(0)
  ROOT y = {types[1]}[{sizes},{result}] fft(x), fft_type={kind}, fft_length={{{n}}}
}}
"""


@pytest.mark.parametrize("kind", ["FFT", "IFFT", "RFFT", "IRFFT"])
@pytest.mark.parametrize(("lines", "n"), LONG_CASES)
def test_many_long_lines_need_scratch_for_one_a_thread(kind, lines, n):
    """Of complex numbers: a line and two grids of lanes; of real ones, which are half as many."""
    given, result = (n // 2 + 1 if kind == x else n for x in ("IRFFT", "RFFT"))
    root = parse_hlo(_text(kind, str(lines), given, result, n)).entry.root
    target = target_of("native")
    plan = fft.plan_fft(root, target)
    lanes = target.vector_bytes // 4
    is_whole = kind in ("RFFT", "IRFFT") and n // 2 <= fft._LONGEST_HALVED_OF_MANY
    length = n if kind in ("FFT", "IFFT") else n // 2
    grid = 8 * lanes * (length + 1 if is_whole else 4096)
    if lines >= 8:
        assert plan.shared_bytes == 0
        assert plan.thread_bytes <= 2 * grid + 8 * length + 64
    else:
        assert plan.shared_bytes <= 8 * lines * n


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["FFT", "IFFT", "RFFT", "IRFFT"])
@pytest.mark.parametrize("sizes", [(9,), (2, 5), (8, 1), (11, 3)])
def test_groups_that_go_through_all_passes_in_turn(kind, sizes, target, monkeypatch):
    """Also beside a dimension that is transformed before or after, and behind another one."""
    monkeypatch.setattr(fft, "_LONGEST", 32)
    monkeypatch.setattr(fft, "_LONGEST_HALVED", 32)
    n, count = 2100, len(sizes)
    given, result = (n // 2 + 1 if kind == x else n for x in ("IRFFT", "RFFT"))
    text = _text(kind, ",".join(map(str, sizes)), given, result, n)
    if count == 2:
        text = text.replace("fft_length={", f"fft_length={{{sizes[1]},")
    random = np.random.default_rng(17)
    values = random.standard_normal((*sizes, given)) + 1j * random.standard_normal((*sizes, given))
    values = values.astype(np.complex64)
    check(text, [values.real.copy() if kind == "RFFT" else values], target, tolerance=4e-6)


@pytest.mark.parametrize("kind", ["FFT", "IFFT"])
def test_groups_of_long_columns(kind, monkeypatch):
    monkeypatch.setattr(fft, "_LONGEST", 32)
    text = f"""
HloModule m

ENTRY main {{
  x = c64[9,1050,7] parameter(0)
  ROOT y = c64[9,1050,7] fft(x), fft_type={kind}, fft_length={{1050,7}}
}}
"""
    random = np.random.default_rng(19)
    values = random.standard_normal((9, 1050, 7)) + 1j * random.standard_normal((9, 1050, 7))
    check(text, [values.astype(np.complex64)], tolerance=4e-6)


LINES = """HloModule lines

ENTRY e {{
  x = c64[{lines},20] parameter(0)
  ROOT y = c64[{lines},20] fft(x), fft_type=FFT, fft_length={{20}}
}}
"""


@pytest.mark.parametrize("target", ["cpu", "cpu:avx2"])
@pytest.mark.parametrize("lines", [1, 2, 3, 4])
def test_vectors_have_no_more_lanes_than_there_are_lines(lines: int, target: str) -> None:
    planned = compile_anew(parse_hlo(LINES.format(lines=lines)), Options(target=target))
    texts = "".join([text for _, text in kernel_texts(planned)])
    assert "<4 x float>" in texts
    assert "<8 x float>" not in texts and "<16 x float>" not in texts
