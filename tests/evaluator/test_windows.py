import numpy as np
import pytest
from tests.evaluator.against_xla import check_text, dims, run_text

from lowtide.evaluator import windows
from lowtide.ir.attributes import WindowDimension

OPS = {"add": "0", "maximum": "-inf", "minimum": "inf", "multiply": "1"}


def reduce_window_text(op, sizes, window, form):
    places = [windows.output_size(n, d) for n, d in zip(sizes, window, strict=True)]
    parts = {
        "size": [d.size for d in window],
        "stride": [d.stride for d in window],
        "pad": [f"{d.padding_low}_{d.padding_high}" for d in window],
        "lhs_dilate": [d.base_dilation for d in window],
        "rhs_dilate": [d.window_dilation for d in window],
    }
    options = " ".join(f"{name}={'x'.join(map(str, x))}" for name, x in parts.items())
    return f"""HloModule m
    op {{
      a = f32[] parameter(0)
      b = f32[] parameter(1)
      {"u = f32[] abs(b)" if form == "general" else ""}
      ROOT r = f32[] {op}(a, {"u" if form == "general" else "b"})
    }}
    ENTRY e {{
      x = f32[{dims(sizes)}] parameter(0)
      z = f32[] constant({OPS[op]})
      ROOT r = f32[{dims(places)}] reduce-window(x, z), window={{{options}}}, to_apply=op
    }}"""


def random_window(generator, rank, largest):
    return [
        WindowDimension(
            size=int(generator.integers(1, largest)),
            stride=int(generator.integers(1, 3)),
            padding_low=int(generator.integers(-1, 4)),
            padding_high=int(generator.integers(0, 4)),
            window_dilation=int(generator.integers(1, 3)),
            base_dilation=int(generator.integers(1, 3)),
        )
        for _ in range(rank)
    ]


@pytest.mark.parametrize("form", ["plain", "general"])
@pytest.mark.parametrize("seed", range(8))
def test_reduce_window_agrees_with_xla(seed, form):
    generator = np.random.default_rng(seed)
    rank = int(generator.integers(1, 4))
    sizes = generator.integers(8, 11, rank).tolist()
    op = list(OPS)[seed % len(OPS)]
    text = reduce_window_text(op, sizes, random_window(generator, rank, 4), form)
    x = generator.uniform(0.5, 1.5, sizes).astype(np.float32)
    check_text(text, x)


@pytest.mark.parametrize("seed", range(8))
def test_large_windows_reduced_by_doubling_agree_with_the_direct_way(seed, monkeypatch):
    generator = np.random.default_rng(seed)
    rank = int(generator.integers(1, 3))
    sizes = generator.integers(20, 30, rank).tolist()
    op = list(OPS)[seed % len(OPS)]
    text = reduce_window_text(op, sizes, random_window(generator, rank, 14), "plain")
    x = generator.uniform(0.5, 1.5, sizes).astype(np.float32)
    monkeypatch.setattr(windows, "DIRECT_LIMIT", 10**9)
    (direct,) = run_text(text, x)
    monkeypatch.setattr(windows, "DIRECT_LIMIT", 0)
    (doubled,) = run_text(text, x)
    np.testing.assert_allclose(doubled, direct, 1e-6)


def test_cumulative_sum_by_a_window_as_long_as_the_array():
    count = 4096
    window = [WindowDimension(size=count, padding_low=count - 1)]
    text = reduce_window_text("add", [count], window, "plain")
    x = np.random.default_rng(0).standard_normal(count).astype(np.float32)
    (found,) = run_text(text, x)
    np.testing.assert_allclose(found, np.cumsum(x.astype(np.float64)), 1e-4, 1e-5)


def test_padding_does_not_enter_a_reduction():
    window = [WindowDimension(size=2, padding_low=1, padding_high=1)]
    text = reduce_window_text("maximum", [2], window, "plain")
    (found,) = run_text(text, np.array([-5, np.nan], np.float32))
    np.testing.assert_array_equal(found, np.array([-5, np.nan, np.nan], np.float32))


@pytest.mark.parametrize("pad", ["0_0x0_0", "1_1x0_1"])
@pytest.mark.parametrize("direction", ["GE", "LE"])
def test_select_and_scatter_agrees_with_xla(pad, direction):
    rows = 3 if pad.startswith("1") else 2
    columns = 3 if pad.startswith("1") else 2
    generator = np.random.default_rng(0)
    check_text(
        f"""HloModule m
    sel {{
      a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT r = pred[] compare(a, b), direction={direction}
    }}
    sca {{
      a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT r = f32[] add(a, b)
    }}
    ENTRY e {{
      x = f32[5,5] parameter(0)
      s = f32[{rows},{columns}] parameter(1)
      z = f32[] constant(0.5)
      ROOT r = f32[5,5] select-and-scatter(x, s, z),
        window={{size=3x2 stride=2x2 pad={pad}}}, select=sel, scatter=sca
    }}""",
        generator.integers(0, 4, (5, 5)).astype(np.float32),
        generator.standard_normal((rows, columns)).astype(np.float32),
    )


def test_two_arrays_are_reduced_together():
    text = """HloModule m
    op {
      a = f32[] parameter(0)
      i = s32[] parameter(1)
      b = f32[] parameter(2)
      j = s32[] parameter(3)
      gt = pred[] compare(a, b), direction=GE
      x = f32[] select(gt, a, b)
      y = s32[] select(gt, i, j)
      ROOT t = (f32[], s32[]) tuple(x, y)
    }
    ENTRY e {
      x = f32[6] parameter(0)
      i = s32[6] iota(), iota_dimension=0
      lo = f32[] constant(-inf)
      z = s32[] constant(-1)
      ROOT r = (f32[3], s32[3]) reduce-window(x, i, lo, z), window={size=2 stride=2}, to_apply=op
    }"""
    value, index = run_text(text, np.array([1, 5, 7, 2, 3, 3], np.float32))
    assert value.tolist() == [5, 7, 3]
    assert index.tolist() == [1, 2, 4]
