"""What callers may hand over: wrong, odd, empty, far out of range; and too little memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from tests.native.comparing import compiled, flat, reference

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import ElementType
from lowtide.ir.errors import InputError
from lowtide.ir.literal import DTYPES
from lowtide.runtime.cpu.call import LinkedExecutable

ADD = """HloModule m
ENTRY e {
  first = f32[6,5] parameter(0)
  second = (s32[3], f32[]) parameter(1)
  i = s32[3] get-tuple-element(second), index=0
  k = f32[] get-tuple-element(second), index=1
  b = f32[6,5] broadcast(k), dimensions={}
  s = f32[6,5] add(first, b)
  ROOT t = (f32[6,5], s32[3]) tuple(s, i)
}
"""
FIRST = np.arange(30, dtype=np.float32).reshape(6, 5)
SECOND = np.arange(3, dtype=np.int32)


@cache
def program(text: str) -> LinkedExecutable:
    return compiled(text)


def same(text: str, arguments: list) -> None:
    """Native code and evaluator agree, bit by bit but for NaN."""
    got, expected = flat(program(text)(*arguments)), flat(reference(text, arguments))
    for a, b in zip(got, expected, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


# -- what does not fit -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], r"3 arguments, found 0.*parameter 0 \(%first\), f32\[6,5\]"),
        ([FIRST, SECOND], r"3 arguments, found 2.*parameter 1 \(%second\) at index \{1\}, f32\[\]"),
        ([FIRST, SECOND, 1.0, 1.0], r"3 arguments, found 4"),
        ([FIRST.T, SECOND, 1.0], r"parameter 0 \(%first\) needs f32\[6,5\].*float32\[5, 6\]"),
        ([FIRST.astype("d"), SECOND, 1.0], r"parameter 0 \(%first\) needs.*float64\[6, 5\]"),
        ([FIRST.astype(">f4"), SECOND, 1.0], r"found float32\[6, 5\] in the other order of bytes"),
        ([FIRST, SECOND[:2], 1.0], r"parameter 1 \(%second\) at index \{0\} needs s32\[3\]"),
        ([FIRST, SECOND.astype("f"), 1.0], r"index \{0\} needs s32\[3\].*float32\[3\]"),
        ([FIRST, SECOND, FIRST], r"index \{1\} needs f32\[\].*float32\[6, 5\]"),
        ([FIRST, SECOND, "one"], r"index \{1\}"),
        ([FIRST, SECOND, None], r"index \{1\}"),
        ([FIRST, SECOND, 1j], r"index \{1\}"),
    ],
)
def test_an_error_names_the_parameter(arguments: list, message: str) -> None:
    with pytest.raises(InputError, match=message):
        program(ADD)(*arguments)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_what_no_integer_is_cannot_be_one(number: float) -> None:
    text = "HloModule m\nENTRY e {\n  a = s32[] parameter(0)\n  ROOT n = s32[] negate(a)\n}\n"
    with pytest.raises(InputError, match=rf"parameter 0 \(%a\) cannot be {number}"):
        program(text)(number)


# -- what fits, but lies oddly ---------------------------------------------------------------------


def unaligned(array: np.ndarray) -> np.ndarray:
    room = np.zeros(array.nbytes + 1, np.uint8)
    odd = room[1:].view(array.dtype).reshape(array.shape)
    odd[...] = array
    return odd


def read_only(array: np.ndarray) -> np.ndarray:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


LYING = {
    "read-only": read_only,
    "in Fortran's order": np.asfortranarray,
    "every other element": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "backwards": lambda x: x[::-1].copy()[::-1],
    "broadcast": lambda x: np.broadcast_to(x[:1], x.shape),
    "unaligned": unaligned,
    "a list": lambda x: x,
    "another byte order": lambda x: x.astype(x.dtype.newbyteorder()),
}


@pytest.mark.parametrize("how", LYING)
def test_arguments_may_lie_anywhere(how: str) -> None:
    argument = LYING[how](FIRST)
    before = argument.copy()
    if how == "another byte order":
        with pytest.raises(InputError, match="%first"):
            program(ADD)(argument, SECOND, 2.0)
        return
    got, _ = program(ADD)(argument, SECOND, np.float32(2))
    np.testing.assert_array_equal(got, before + 2)
    np.testing.assert_array_equal(argument, before)
    assert got.flags.writeable and got.flags.c_contiguous
    assert not np.shares_memory(got, argument)


ALIASED = """HloModule m, input_output_alias={ {}: (0, {}, may-alias) }
ENTRY e { p = f32[6,5] parameter(0)  ROOT n = f32[6,5] negate(p) }
"""


def test_what_is_consumed_has_to_be_writable_and_plain() -> None:
    own = FIRST.copy()
    result = program(ALIASED)(own, consume=True)
    assert np.shares_memory(result, own)
    np.testing.assert_array_equal(result, -FIRST)
    for bad in (read_only(FIRST), np.asfortranarray(FIRST), unaligned(FIRST)):
        before = bad.copy()
        with pytest.raises(InputError, match=r"parameter 0 \(%p\) is to be consumed"):
            program(ALIASED)(bad, consume=True)
        np.testing.assert_array_equal(bad, before)
        np.testing.assert_array_equal(program(ALIASED)(bad), -before)


# -- indices ---------------------------------------------------------------------------------------

INDEXED = """HloModule m
add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }}
ENTRY e {{
  x = f32[13,7] parameter(0)
  i = {type}[] parameter(1)
  j = {type}[4,2] parameter(2)
  s = f32[5,3] dynamic-slice(x, i, i), dynamic_slice_sizes={{5,3}}
  u = f32[13,7] dynamic-update-slice(x, s, i, i)
  g = f32[4,2,2] gather(x, j), offset_dims={{1,2}}, collapsed_slice_dims={{}},
    start_index_map={{0,1}}, index_vector_dim=1, slice_sizes={{2,2}}
  w = f32[13,7] scatter(x, j, g), update_window_dims={{1,2}}, inserted_window_dims={{}},
    scatter_dims_to_operand_dims={{0,1}}, index_vector_dim=1, to_apply=add
  ROOT t = (f32[5,3], f32[13,7], f32[4,2,2], f32[13,7]) tuple(s, u, g, w)
}}
"""
FAR = (0, 1, -1, 6, 12, 13, 100, -100, 1 << 31, 1 << 32, -(1 << 31), (1 << 63) - 1, -(1 << 63))


@pytest.mark.parametrize("kind", ["s8", "u8", "s32", "u32", "s64", "u64"])
def test_indices_out_of_range_touch_nothing_else(kind: str) -> None:
    text = INDEXED.format(type=kind)
    dtype = DTYPES[parse_hlo(text).entry.parameters[1].shape.element_type]
    limits = np.iinfo(dtype)
    room = np.full((40, 7), np.nan, np.float32)
    x = room[13:26]
    x[...] = np.arange(91, dtype=np.float32).reshape(13, 7)
    known = [np.array(n, np.object_) for n in FAR if limits.min <= n <= limits.max]
    for n in known:
        i = n.astype(dtype)
        rest = [known[(k * 3) % len(known)] for k in range(7)]
        j = np.array([n, *rest], np.object_).reshape(4, 2).astype(dtype)
        same(text, [x, i, j])
    assert np.isnan(room[:13]).all() and np.isnan(room[26:]).all()


# -- numbers ---------------------------------------------------------------------------------------

UNARY = (
    *("abs", "ceil", "floor", "negate", "round-nearest-afz", "round-nearest-even", "sign"),
    *("cbrt", "cosine", "erf", "exponential", "exponential-minus-one", "log", "log-plus-one"),
    *("logistic", "rsqrt", "sine", "sqrt", "tan", "tanh", "is-finite"),
)
BINARY = (
    *("add", "atan2", "divide", "maximum", "minimum", "multiply", "power", "remainder"),
    "subtract",
)
TYPES = {x.value: x for x in (ElementType.F32, ElementType.F64, ElementType.BF16, ElementType.F16)}


def special(dtype: np.dtype) -> np.ndarray:
    """Every kind of number that a type has."""
    info = np.finfo(dtype) if dtype.kind == "f" else ml_dtypes.finfo(dtype)
    least, most, tiny = float(info.smallest_subnormal), float(info.max), float(info.tiny)
    values = [0.0, 0.5, 1.0, 1.5, 2.5, 3.0, 100.0, least, tiny / 2, tiny, most, np.inf]
    values = [*values, *[-x for x in values], np.nan]
    with np.errstate(all="ignore"):
        return np.array(values).astype(dtype)


@pytest.mark.parametrize("kind", TYPES)
def test_special_numbers_through_every_operation(kind: str) -> None:
    values = special(DTYPES[TYPES[kind]])
    n = values.size
    lines, shapes = [], []
    for number, opcode in enumerate((*UNARY, *BINARY)):
        count = n if opcode in UNARY else n * n
        given = "a" if opcode in UNARY else "x, y"
        shapes.append(f"{'pred' if opcode == 'is-finite' else kind}[{count}]")
        lines.append(f" r{number} = {shapes[-1]} {opcode}({given})")
    given = [f" a = {kind}[{n}] parameter(0)"]
    given += [f" {x} = {kind}[{n * n}] parameter({i})" for i, x in ((1, "x"), (2, "y"))]
    results = ", ".join([f"r{number}" for number in range(len(lines))])
    root = f" ROOT t = ({', '.join(shapes)}) tuple({results})"
    text = "\n".join(["HloModule m", "ENTRY e {", *given, *lines, root, "}"])
    x, y = (z.reshape(-1) for z in np.meshgrid(values, values))
    arguments = [values, np.ascontiguousarray(x), np.ascontiguousarray(y)]
    with np.errstate(all="ignore"):
        expected = flat(reference(text, arguments))
    got = flat(compiled(text)(*arguments))
    for opcode, a, b in zip((*UNARY, *BINARY), got, expected, strict=True):
        check_numbers(opcode, a, b)


def check_numbers(opcode: str, got: np.ndarray, expected: np.ndarray) -> None:
    if got.dtype == bool:
        np.testing.assert_array_equal(got, expected, opcode)
        return
    tiny = float(np.finfo(expected.dtype).tiny) if expected.dtype.kind == "f" else 1.2e-38
    ulps = {8: 1e-13, 4: 2e-5, 2: 2e-2}[expected.dtype.itemsize]
    with np.errstate(all="ignore"):
        a, b = got.astype(np.float64), expected.astype(np.float64)
        near = np.isfinite(b) & (np.abs(a - b) <= ulps * np.abs(b) + tiny)
        right = (a == b) | (np.isnan(a) & np.isnan(b)) | near
    wrong = np.flatnonzero(~right)
    assert not wrong.size, f"{opcode}: {got[wrong[:4]]} instead of {expected[wrong[:4]]}"


# -- sizes -----------------------------------------------------------------------------------------

CHAIN = """HloModule m
add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }}
ENTRY e {{
  p = f32[{sizes}] parameter(0)
  k = f32[] constant(0.5)
  n = f32[{sizes}] negate(p)
  m = f32[{sizes}] multiply(n, p)
  r = f32[] reduce(m, k), dimensions={{{all}}}, to_apply=add
  t = f32[{turned}] transpose(m), dimensions={{{order}}}
  v = f32[{sizes}] reverse(m), dimensions={{{all}}}
  f = f32[{count}] reshape(t)
  ROOT z = (f32[], f32[{turned}], f32[{sizes}], f32[{count}]) tuple(r, t, v, f)
}}
"""


@pytest.mark.parametrize(
    "sizes",
    [
        *((), (0,), (1,), (3, 0, 5), (15,), (16,), (17,), (31, 33), (1, 63, 1), (65, 1)),
        *((2, 1, 3, 1, 2, 3, 1, 5), (1, 1, 1, 1, 1, 1, 1, 1), (2, 0, 2, 2, 2, 2, 2, 2)),
    ],
    ids=str,
)
def test_any_rank_and_size(sizes: tuple[int, ...]) -> None:
    text = CHAIN.format(
        sizes=_listed(sizes),
        turned=_listed(sizes[::-1]),
        order=_listed(range(len(sizes))[::-1]),
        all=_listed(range(len(sizes))),
        count=int(np.prod(sizes)),
    )
    values = np.random.default_rng(0).integers(-4, 5, sizes).astype(np.float32)
    same(text, [values])


def _listed(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))


# -- memory ----------------------------------------------------------------------------------------

OUT_OF_MEMORY = """
import resource, sys
import numpy as np
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.backends.build import build
from lowtide.backends.cpu import CpuBackend
from lowtide.runtime.cpu.call import CallOptions, LinkedExecutable
TEXT = '''HloModule m
ENTRY e {
  p = f32[] parameter(0)
  b = f32[64,1000,1000] broadcast(p), dimensions={}
  i = f32[64,1000,1000] iota(), iota_dimension=0
  s = f32[64,1000,1000] sort(b), dimensions={2}, to_apply=less
  ROOT r = f32[64,1000,1000] add(s, i)
}'''
TEXT = TEXT.replace('ENTRY', 'less { a = f32[] parameter(0) b = f32[] parameter(1) '
    'ROOT l = pred[] compare(a, b), direction=LT }\\nENTRY')
executable = LinkedExecutable(build(parse_hlo(TEXT), CpuBackend(2)).program,
                        options=CallOptions(huge_pages=False))
def used():
    lines = open('/proc/self/status').read().splitlines()
    return int([x for x in lines if x.startswith('VmSize:')][0].split()[1]) << 10
executable.empty()
before = used()
soft, hard = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (before + (100 << 20), hard))
for _ in range(20):
    try:
        executable(1.0)
    except MemoryError as error:
        message = str(error)
    else:
        sys.exit('it ran in too little memory')
left = used() - before
resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
result = executable(1.0)
assert result[63, 999, 999] == 64 and result[0, 0, 0] == 1
print(left, message)
"""


def test_too_little_memory_is_an_error_that_leaves_nothing_behind() -> None:
    source = Path(__file__).parents[2] / "src"
    run = subprocess.run(
        [sys.executable, "-c", OUT_OF_MEMORY],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(source), "PATH": "/usr/bin:/bin"},
        check=False,
    )
    assert run.returncode == 0, run.stderr
    left, _, message = run.stdout.partition(" ")
    assert int(left) < 16 << 20  # A worker may start only now: its stack takes 8 MiB and a page.
    assert any(x.isdigit() for x in message), "the bytes wanted are named"
