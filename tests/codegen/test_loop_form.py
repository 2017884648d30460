"""The prototype of a loop form: nests of both targets beside the evaluator and the templates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from benchmarks.loop_form.form import Kind, forms_of
from benchmarks.loop_form.instead import nests_on_the_cpu, nests_on_the_gpu, used
from benchmarks.loop_form.schedule import schedule_of, thread_schedule_of
from tests.codegen.gpu.programs import check, flat, templates, text_of

from lowtide.backends.build import build
from lowtide.backends.cpu import CpuBackend
from lowtide.cli.inputs import generated
from lowtide.evaluator import evaluate
from lowtide.evaluator.evaluate import parameter_leaves
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.llvm.named_targets import gpu_target
from lowtide.llvm.target import host_target, restricted
from lowtide.runtime.cpu.call import LinkedExecutable


def reduced(type_: str, sizes: str, result: str, dimensions: str, by: str, first: str = "0") -> str:
    return f"""
  x = {type_}[{sizes}] parameter(0)
  z = {type_}[] constant({first})
  ROOT r = {type_}[{result}] reduce(x, z), dimensions={{{dimensions}}}, to_apply={by}
"""


def transposed(type_: str, rows: int, columns: int) -> str:
    return f"""
  x = {type_}[{rows},{columns}] parameter(0)
  ROOT r = {type_}[{columns},{rows}] transpose(x), dimensions={{1,0}}
"""


SOFTMAX = """
  x = f32[20,300] parameter(0)
  m = f32[] constant(-inf)
  z = f32[] constant(0)
  a = f32[20] reduce(x, m), dimensions={1}, to_apply=largest
  b = f32[20,300] broadcast(a), dimensions={0}
  s = f32[20,300] subtract(x, b)
  e = f32[20,300] exponential(s)
  t = f32[20] reduce(e, z), dimensions={1}, to_apply=add
  u = f32[20,300] broadcast(t), dimensions={0}
  ROOT r = f32[20,300] divide(e, u)
"""

STATISTICS = """
  x = f32[40,30,64] parameter(0)
  z = f32[] constant(0)
  q = f32[40,30,64] multiply(x, x)
  a = f32[64] reduce(x, z), dimensions={0,1}, to_apply=add
  b = f32[64] reduce(q, z), dimensions={0,1}, to_apply=add
  ROOT r = (f32[64], f32[64]) tuple(a, b)
"""

ALONE = {
    "elementwise": """
  x = f32[7,50,37] parameter(0)
  y = f32[37] parameter(1)
  b = f32[7,50,37] broadcast(y), dimensions={2}
  a = f32[7,50,37] multiply(x, b)
  ROOT r = f32[7,50,37] tanh(a)
""",
    "joined": """
  x = f32[30,50] parameter(0)
  y = f32[40,50] parameter(1)
  ROOT r = f32[70,50] concatenate(x, y), dimensions={0}
""",
    "padded": """
  x = bf16[30,100] parameter(0)
  c = bf16[] constant(3)
  ROOT r = bf16[40,150] pad(x, c), padding=3_7x20_30
""",
    "numbered anew": """
  x = f32[30,50] parameter(0)
  t = f32[50,30] transpose(x), dimensions={1,0}
  ROOT r = f32[10,150] reshape(t)
""",
    "few columns": transposed("f32", 500, 3),
    "transposed": transposed("f32", 131, 257),
    "transposed bytes": transposed("s8", 192, 256),
    "transposed f64": transposed("f64", 130, 130),
}
"""Each element by itself: the bits of templates."""

SUMS = {
    "rows": reduced("f32", "50,1003", "50", "1", "add", "2"),
    "short rows": reduced("f32", "301,20", "301", "1", "add"),
    "columns in registers": reduced("f32", "300,77", "77", "0", "largest", "-inf"),
    "columns in scratch": reduced("f32", "300,777", "777", "0", "add"),
    "columns in parts": reduced("f32", "3001,77", "77", "0", "add"),
    "all": reduced("f32", "400,301", "", "0,1", "add"),
    "middle": reduced("bf16", "9,300,50", "9,50", "1", "addb"),
    "outer and inner": reduced("s32", "20,30,50", "30", "0,2", "least", "5"),
    "complex": reduced("c64", "20,70", "20", "1", "addc", "(0,1)"),
    "truth": reduced("pred", "40,70", "40", "1", "both", "true"),
    "softmax": SOFTMAX,
    "statistics": STATISTICS,
}

CHOICES = {
    name: f"""
  x = f32[{sizes}] parameter(0)
  i = s32[{sizes}] iota(), iota_dimension={along}
  c = f32[] constant(-inf)
  z = s32[] constant(0)
  ROOT r = (f32[{kept}], s32[{kept}]) reduce(x, i, c, z), dimensions={{{along}}}, to_apply=argmax
"""
    for name, sizes, kept, along in (("along", "31,203", "31", 1), ("across", "203,131", "131", 0))
}


def run(entry: str, *, with_nests: bool) -> tuple[list[Any], list[Any]]:
    """Return the results of a program on the CPU, and those of the evaluator."""
    module = parse_hlo(text_of(entry))
    arguments = generated(list(parameter_leaves(module)), 1)
    target = restricted(host_target(), "native")
    if with_nests:
        used.clear()
        with nests_on_the_cpu():
            program = build(module, CpuBackend(2, target)).program
        assert used, "no nest was planned"
    else:
        program = build(module, CpuBackend(2, target)).program
    return flat(LinkedExecutable(program)(*arguments)), flat(evaluate(module, arguments))


@pytest.mark.parametrize("name", ALONE)
def test_elements_by_themselves_have_the_bits_of_templates(name):
    mine, wanted = run(ALONE[name], with_nests=True)
    theirs, _ = run(ALONE[name], with_nests=False)
    for a, b, c in zip(mine, theirs, wanted, strict=True):
        assert a.tobytes() == b.tobytes()
        np.testing.assert_allclose(a.astype(np.float64), c.astype(np.float64), rtol=1e-5)


@pytest.mark.parametrize("name", [*SUMS, *CHOICES])
def test_sums_equal_the_evaluator(name):
    mine, wanted = run({**SUMS, **CHOICES}[name], with_nests=True)
    for a, b in zip(mine, wanted, strict=True):
        assert a.shape == b.shape
        size = max(np.abs(b.astype(np.complex128)).max(initial=0.0), 1.0)
        error = np.abs(a.astype(np.complex128) - b.astype(np.complex128)).max(initial=0.0)
        assert error <= (2e-2 if a.dtype.itemsize == 2 else 1e-5) * size


@pytest.mark.parametrize("name", [*ALONE, *SUMS])
def test_nests_of_threads_equal_the_evaluator(name):
    tolerance = 2e-2 if "bf16" in {**ALONE, **SUMS}[name] else 1e-5
    with nests_on_the_gpu():
        program = check({**ALONE, **SUMS}[name], tolerance)
    assert set(templates(program)) == {"nests"}


@pytest.mark.parametrize(
    ("name", "parallel", "along"),
    [("outer and inner", [30], [20, 50]), ("all", [], [120400]), ("rows", [50], [1003])],
)
def test_a_form_has_the_axes_that_memory_tells_apart(name, parallel, along):
    ((form,),) = forms_of(parse_hlo(text_of(SUMS[name])).entry.root, host_target())
    assert [form.axes[x].size for x in form.numbers(Kind.PARALLEL)] == parallel
    assert [form.axes[x].size for x in form.numbers(Kind.REDUCED)] == along


def test_one_form_has_a_schedule_for_each_target():
    root = parse_hlo(text_of(SUMS["rows"])).entry.root
    ((form,),) = forms_of(root, host_target())
    assert [x.steps for x in form.accesses] == [(1003, 1), (1, 0)]
    assert not schedule_of(form).is_across
    ((form,),) = forms_of(root, gpu_target("cuda:sm_90"), has_boxes=False)
    assert thread_schedule_of(form).warps
