"""Fusions that overwrite what they read: whatever the order of writing, values are right."""

from __future__ import annotations

import numpy as np
import pytest
from tests.native.comparing import compiled, flat, reference

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.fusion.conflicts import overwrites_what_it_reads
from lowtide.ir import Opcode

HEAD = "HloModule m, is_scheduled=true\n"
ENTRY = """
ENTRY e {
  p = f32[4096] parameter(0)
  i = s32[] parameter(1)
  c = f32[4096] add(p, p)
  ROOT r = %s
}
"""
UPDATE = "f32[4096] dynamic-update-slice(a, new, i)"

BODIES = {
    "another slice": (
        True,
        "z = s32[] constant(7)\n new = f32[2048] dynamic-slice(a, i), dynamic_slice_sizes={2048}\n"
        "ROOT u = f32[4096] dynamic-update-slice(a, new, z)",
    ),
    "the slice itself": (
        False,
        "s = f32[2048] dynamic-slice(a, i), dynamic_slice_sizes={2048}\n"
        f"new = f32[2048] add(s, s)\n ROOT u = {UPDATE}",
    ),
    "the slice of all of it": (
        False,
        "d = f32[4096] exponential(a)\n"
        "new = f32[2048] dynamic-slice(d, i), dynamic_slice_sizes={2048}\n"
        f"ROOT u = {UPDATE}",
    ),
    "constant starts": (
        False,
        "z = s32[] constant(5)\n s = f32[2048] slice(a), slice={[5:2053]}\n"
        "new = f32[2048] negate(s)\n ROOT u = f32[4096] dynamic-update-slice(a, new, z)",
    ),
    "other constant starts": (
        True,
        "z = s32[] constant(6)\n s = f32[2048] slice(a), slice={[5:2053]}\n"
        "new = f32[2048] negate(s)\n ROOT u = f32[4096] dynamic-update-slice(a, new, z)",
    ),
    "reversed": (
        True,
        "s = f32[2048] dynamic-slice(a, i), dynamic_slice_sizes={2048}\n"
        f"new = f32[2048] reverse(s), dimensions={{0}}\n ROOT u = {UPDATE}",
    ),
    "the index": (
        True,
        "s = f32[1] slice(a), slice={[9:10]}\n t = f32[] reshape(s)\n j = s32[] convert(t)\n"
        "k = f32[] constant(3)\n new = f32[2048] broadcast(k), dimensions={}\n"
        "ROOT u = f32[4096] dynamic-update-slice(a, new, j)",
    ),
    "under other dimensions": (
        False,
        "b = f32[2,2048] bitcast(a)\n z = s32[] constant(1)\n"
        "s = f32[1,2048] dynamic-slice(b, z, i), dynamic_slice_sizes={1,2048}\n"
        "new = f32[1,2048] add(s, s)\n"
        "v = f32[2,2048] dynamic-update-slice(b, new, z, i)\n ROOT u = f32[4096] bitcast(v)",
    ),
}
TWO_RESULTS = {
    "a second result of the old values": (
        True,
        "k = f32[] constant(3)\n new = f32[2048] broadcast(k), dimensions={}\n"
        f"u = {UPDATE}\n v = f32[4096] reverse(a), dimensions={{0}}\n"
        "ROOT t = (f32[4096], f32[4096]) tuple(u, v)",
    ),
    "a second result of the new values": (
        True,
        "k = f32[] constant(3)\n new = f32[2048] broadcast(k), dimensions={}\n"
        f"u = {UPDATE}\n v = f32[4096] reverse(u), dimensions={{0}}\n"
        "ROOT t = (f32[4096], f32[4096]) tuple(u, v)",
    ),
}
DECLARED = {
    "reversed in place": (True, "ROOT u = f32[4096] reverse(a), dimensions={0}"),
    "negated in place": (False, "ROOT u = f32[4096] negate(a)"),
}


def text(body: str, call: str) -> str:
    inner = f"f {{\n a = f32[4096] parameter(0)\n i = s32[] parameter(1)\n {body}\n}}\n"
    return HEAD + inner + ENTRY % call


CASES = {
    **{
        name: (conflict, text(body, "f32[4096] fusion(c, i), kind=kLoop, calls=f"))
        for name, (conflict, body) in BODIES.items()
    },
    **{
        name: (conflict, text(body, "(f32[4096], f32[4096]) fusion(c, i), kind=kLoop, calls=f"))
        for name, (conflict, body) in TWO_RESULTS.items()
    },
    **{
        name: (
            conflict,
            text(
                body,
                "f32[4096] fusion(c, i), kind=kLoop, output_to_operand_aliasing={{}: (0, {})}, "
                "calls=f",
            ),
        )
        for name, (conflict, body) in DECLARED.items()
    },
}


@pytest.mark.parametrize("name", CASES)
def test_conflicts_are_found(name: str) -> None:
    conflict, hlo = CASES[name]
    (fusion,) = (x for x in parse_hlo(hlo).entry.instructions.values() if x.opcode is Opcode.FUSION)
    assert overwrites_what_it_reads(fusion) == conflict


@pytest.mark.parametrize("start", [0, 1, 2047, 5000])
@pytest.mark.parametrize("name", CASES)
def test_values_are_right(name: str, start: int) -> None:
    _, hlo = CASES[name]
    arguments = [np.arange(4096, dtype=np.float32) / 4096, np.int32(start)]
    for got, expected in zip(
        flat(program(name)(*arguments)), flat(reference(hlo, arguments)), strict=True
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def program(name: str):
    if name not in _PROGRAMS:
        _PROGRAMS[name] = compiled(CASES[name][1])
    return _PROGRAMS[name]


_PROGRAMS: dict = {}

SCHEDULED = """HloModule m, is_scheduled=true
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
f {
  a = f32[64,1000] parameter(0)
  i = s32[64,1] parameter(1)
  ROOT s = f32[64,1000] scatter(a, i, a), update_window_dims={1}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
}
ENTRY e {
  p = f32[64,1000] parameter(0)
  i = s32[64,1] parameter(1)
  before = f32[64,1000] negate(p)
  u = f32[64,1000] fusion(before, i), kind=kInput, calls=f, control-predecessors={before}
  after = f32[64,1000] negate(u), control-predecessors={u}
  ROOT r = f32[64,1000] add(after, p)
}
"""


def test_a_scatter_of_what_it_adds_to_keeps_its_place_in_the_schedule() -> None:
    module = parse_hlo(SCHEDULED)
    rng = np.random.default_rng(3)
    p = rng.random((64, 1000), np.float32)
    i = rng.integers(0, 64, (64, 1)).astype(np.int32)
    (got,) = flat(compiled(module)(p, i))
    (expected,) = flat(reference(module, [p, i]))
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    assert "fusion(" in str(module), "the module given is not changed"


TUPLE_OPERAND = """HloModule m
f {
  t = (f32[33], f32[33]) parameter(0)
  a = f32[33] get-tuple-element(t), index=0
  b = f32[33] get-tuple-element(t), index=1
  ROOT r = f32[33] subtract(a, b)
}
ENTRY e {
  p = f32[33] parameter(0)
  q = f32[33] parameter(1)
  t = (f32[33], f32[33]) tuple(p, q)
  ROOT r = f32[33] fusion(t), kind=kLoop, calls=f
}
"""

NO_KERNEL = """HloModule m
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT l = pred[] compare(a, b), direction=LT }
f {
  p = f32[6] parameter(0)
  q = f32[6] negate(p)
  ROOT s = f32[6] sort(q), dimensions={0}, to_apply=less
}
ENTRY e { p = f32[6] parameter(0)  ROOT r = f32[6] fusion(p), kind=kCustom, calls=f }
"""


@pytest.mark.parametrize("hlo", [TUPLE_OPERAND, NO_KERNEL], ids=["of a tuple", "with a sort"])
def test_fusions_that_are_no_kernel_run_in_parts(hlo: str) -> None:
    count = 2 if "parameter(1)\n  t" in hlo else 1
    arguments = [np.linspace(-1, 5, 33 if count == 2 else 6, dtype=np.float32)] * count
    (got,) = flat(compiled(hlo)(*arguments))
    (expected,) = flat(reference(hlo, arguments))
    np.testing.assert_array_equal(got, expected)
