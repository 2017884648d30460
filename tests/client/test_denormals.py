"""Denormals: kept, or 0 in calls of programs that say so, on all threads, and in no other code."""

import numpy as np
import pytest

import lowtide
from lowtide.client.option_texts import OptionError, options_from_texts
from lowtide.ir import ElementType
from lowtide.ir.literal import DTYPES
from lowtide.onnx import InferenceSession, SessionOptions
from lowtide.options import Options

TINY = np.float32(2.0**-130)
LEAST = np.finfo(np.float32).tiny
HALVED = """HloModule halved
ENTRY e {{
  x = f32[{0}] parameter(0)
  half = f32[] constant(0.5)
  halves = f32[{0}] broadcast(half), dimensions={{}}
  less = f32[{0}] multiply(x, halves)
  back = f32[{0}] divide(less, halves)
  ROOT r = (f32[{0}], f32[{0}]) tuple(less, back)
}}"""


def compiled(size, **options):
    return lowtide.compile(lowtide.parse_hlo(HALVED.format(size)), **options)


@pytest.mark.parametrize("threads", [1, 2])
def test_they_are_0_where_a_program_says_so(threads) -> None:
    x = np.resize(np.array([TINY, LEAST, 1], np.float32), 1 << 20)
    programs = {how: compiled(x.size, threads=threads, denormals=how) for how in ("keep", "zero")}
    expected = {"keep": (x / 2, x), "zero": (np.where(x < 1, 0, x / 2), np.where(x < 1, 0, x))}
    for how in ("keep", "zero", "zero", "keep", "zero", "keep"):
        for found, wanted in zip(programs[how](x), expected[how], strict=True):
            np.testing.assert_array_equal(found, wanted)
        assert TINY * np.float32(0.5) > 0


def test_a_session_of_onnx_takes_the_word_of_its_settings() -> None:
    pytest.importorskip("onnx")
    from tests.onnx.models import FLOAT, helper, model, tensor

    node = helper.make_node("Add", ["x", "x"], ["y"])
    data = model([node], [tensor("x", FLOAT, [3])], [tensor("y", FLOAT, [3])]).SerializeToString()
    for value, wanted in (("0", 2 * TINY), ("1", 0)):
        settings = SessionOptions()
        settings.add_session_config_entry("session.set_denormal_as_zero", value)
        (found,) = InferenceSession(data, settings).run(None, {"x": np.full(3, TINY)})
        np.testing.assert_array_equal(found, np.full(3, wanted, np.float32))


def test_the_settings_of_onnx_runtime_itself_are_read() -> None:
    runtime = pytest.importorskip("onnxruntime")
    from lowtide.onnx.settings import denormals_of

    settings = runtime.SessionOptions()
    assert denormals_of(settings) == denormals_of(None) == "keep"
    settings.add_session_config_entry("session.set_denormal_as_zero", "1")
    assert denormals_of(settings) == "zero"


WIDE = {ElementType.BF16, ElementType.F8E8M0FNU}
"""Types with numbers that are denormals as f32, too."""

NARROW = [x for x in ElementType if x.is_floating and 8 <= x.bits <= 16 and x not in WIDE]


@pytest.mark.parametrize("type_", NARROW)
def test_numbers_of_narrow_types_are_no_denormals_as_f32(type_) -> None:
    """Each of them becomes an f32, and that the number again."""
    count = 1 << (8 * type_.nbytes)
    bits = np.arange(count, dtype=np.uint8 if type_.nbytes == 1 else np.uint16)
    numbers = bits.view(DTYPES[type_])
    text = f"""HloModule m
ENTRY e {{
  x = {type_.value}[{count}] parameter(0)
  wide = f32[{count}] convert(x)
  narrow = {type_.value}[{count}] convert(wide)
  ROOT r = (f32[{count}], {type_.value}[{count}]) tuple(wide, narrow)
}}"""
    module = lowtide.parse_hlo(text)
    kept, zero = [lowtide.compile(module, denormals=x)(numbers) for x in ("keep", "zero")]
    for a, b in zip(kept, zero, strict=True):
        np.testing.assert_array_equal(a.astype(np.float32), b.astype(np.float32))


def test_what_else_is_asked_for_is_an_error() -> None:
    with pytest.raises(ValueError, match="denormals is keep or zero; found 'flush'"):
        Options(denormals="flush")
    with pytest.raises(ValueError, match="programs for cuda:sm_90 keep denormals"):
        Options(denormals="zero", target="cuda:sm_90")
    with pytest.raises(OptionError, match="denormals is keep or zero"):
        options_from_texts({"denormals": "drop"}, "here")
