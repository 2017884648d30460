"""Long code that hardly ever runs: kernels of a program have it once, and programs of a process."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lowtide
from lowtide.client.executable.anew import compile_anew
from lowtide.codegen.elementwise.number import Number
from lowtide.codegen.elementwise.power import remainder
from lowtide.codegen.elementwise.trigonometric import sin
from lowtide.codegen.value import vector_type
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.inspection.kernel_texts import kernel_texts
from lowtide.llvm.callee import parameters
from lowtide.llvm.function import Function, module_text
from lowtide.llvm.library import Library
from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.merging import merged
from lowtide.llvm.objects import with_unique_names
from lowtide.llvm.target import host_target
from lowtide.options import Options

KERNELS = [("double", 0), ("double", 4), ("double", 8), ("float", 0), ("float", 8)]
FAR = np.array([1e22, -3.5e8, 0.5, 1e6, 2e6, 1e300, -1e15, 4e7])


def sines(element: str, lanes: int, times: int) -> tuple[str, str]:
    """Return a module whose function replaces what lies at an address by its sine, and its name."""
    type_ = vector_type(element, lanes)
    f = Function("sines", parameters(at="ptr"))
    number = Number(f, host_target(), element, lanes, f.load(type_, "%at", 4))
    for _ in range(times):
        number = sin(number)
    f.store(type_, number.name, "%at", 4)
    text, ending = with_unique_names(module_text([f]))
    return text, f"sines{ending}"


def test_modules_have_the_functions_for_far_angles_in_common() -> None:
    modules = [sines(element, lanes, times) for element, lanes in KERNELS for times in (1, 2)]
    text = merged("", [x for x, _ in modules])
    assert text.count("define internal") == 4  # Of doubles; of vectors of three types.
    assert text.count("@common.two_over_pi = ") == 1
    code = KernelCompiler(host_target()).object_code(text, whole=True)
    library = Library([code], [name for _, name in modules], host_target())
    for (element, lanes), (_, name) in zip(KERNELS, modules[::2], strict=True):
        dtype = {"float": np.float32, "double": np.float64}[element]
        x = (FAR if element == "double" else np.minimum(FAR, 3e38)).astype(dtype)[: lanes or 1]
        wanted = np.sin(x.astype(np.longdouble))
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(library[name])(x.ctypes.data)
        np.testing.assert_allclose(x, wanted, rtol=4 * np.finfo(dtype).eps)


def test_a_sine_more_takes_no_loop_over_lanes_more() -> None:
    once, twice = (sines("double", 8, times)[0] for times in (1, 2))
    assert twice.count(" = phi i64") == once.count(" = phi i64")


def program(size: int, operation: str) -> lowtide.Executable:
    text = f"""HloModule m
    ENTRY e {{
      x = f32[{size}] parameter(0)
      y = f32[{size}] parameter(1)
      ROOT z = f32[{size}] {operation}
    }}"""
    return lowtide.compile(lowtide.parse_hlo(text), cache=False)


@pytest.mark.parametrize(
    ("operation", "wanted", "name"),
    [("sine(x)", lambda x, _: np.sin(x), "angle"), ("remainder(x, y)", np.fmod, "remainder")],
)
def test_programs_of_a_process_compile_it_once(
    operation: str,
    wanted: Callable[[np.ndarray, np.ndarray], np.ndarray],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts: list[str] = []
    compiled = KernelCompiler._compiled

    def noted(self: KernelCompiler, text: str, *given: Any, **named: Any) -> bytes:
        texts.append(text)
        return compiled(self, text, *given, **named)

    monkeypatch.setattr(KernelCompiler, "_compiled", noted)
    x = np.array([1e22, -3.5e8, 0.5, 1e6, 3e38, -1e15, 7.0], np.float32)
    y = np.array([3.0, 1e-30, 0.25, 1e-3, 7e-20, -1.5, np.inf], np.float32)
    for size in (7, 6):
        texts.clear()
        found = program(size, operation)(x[:size], y[:size])
        expected = wanted(x.astype(np.float64), y.astype(np.float64))[:size]
        np.testing.assert_allclose(found, expected, rtol=4 * np.finfo(np.float32).eps)
    assert len(texts) == 1
    assert f"@common.{name}." in texts[0]
    assert "define internal" not in texts[0]


def test_remainders_of_one_kernel_have_one_function_for_large_quotients() -> None:
    f = Function("remainders", parameters(at="ptr"))
    x = Number(f, host_target(), "float", 8, f.load("<8 x float>", "%at", 4))
    f.store(x.type, remainder(remainder(x, x.constant(3.0)), x.constant(2.0)).name, "%at", 4)
    assert module_text([f]).count("define internal") == 1


BOTH = """HloModule both

ENTRY e {
  x = f32[64] parameter(0)
  s = f32[64] sine(x)
  c = f32[64] cosine(x)
  ROOT t = (f32[64], f32[64]) tuple(s, c)
}
"""


@pytest.mark.parametrize("target", ["cpu", "cpu:avx2"])
def test_sine_and_cosine_of_an_angle_reduce_it_once(target: str) -> None:
    planned = compile_anew(parse_hlo(BOTH), Options(target=target))
    texts = "".join([text for _, text in kernel_texts(planned)])
    assert texts.count("float 0x3FE45F3060000000") == 1  # 2 / pi


def test_cosines_are_never_above_one() -> None:
    given = np.linspace(-0.01, 0.01, 64, dtype=np.float32)
    sines, cosines = lowtide.compile(parse_hlo(BOTH), cache=False)(given)
    np.testing.assert_array_equal(cosines[:32], cosines[::-1][:32])
    assert cosines.max() == 1
    np.testing.assert_allclose(sines, np.sin(given.astype(np.float64)), rtol=2e-7)
