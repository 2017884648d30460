"""Sorts of long rows by the bytes of their keys: their scratch, and every way the passes can go."""

import numpy as np
import pytest
from tests.codegen.cpu.library.running import TARGETS, check, target_of
from tests.codegen.cpu.library.test_sort import BY_TWO_KEYS, numbers, plain, text_of

from lowtide.codegen.cpu.library.sort import plan_sort
from lowtide.codegen.cpu.library.sort_digits import SortDigits
from lowtide.codegen.cpu.library.sort_parts import PART
from lowtide.frontend.hlo_text import parse_hlo

LONG = PART + 1003

ALONE = """HloModule m
less {{
  a = {type}[] parameter(0)
  b = {type}[] parameter(1)
  ROOT r = pred[] compare(a, b), direction={direction}
}}
ENTRY main {{
  x = {type}[{sizes}] parameter(0)
  {made}
  ROOT s = {type}[{sizes}] sort({sorted}), dimensions={{{dimension}}}, to_apply=less
}}
"""


def alone(type_: str, shape, *, in_place: bool = False, direction: str = "LT") -> str:
    """A sort of one array, perhaps of one that is made just for it and can be written over."""
    return ALONE.format(
        type=type_,
        sizes=",".join(map(str, shape)),
        dimension=len(shape) - 1,
        direction=direction,
        made=f"y = {type_}[{','.join(map(str, shape))}] negate(x)" if in_place else "",
        sorted="y" if in_place else "x",
    )


@pytest.mark.parametrize("size", [LONG, 5 * PART, 100 * PART, 4000 * PART])
@pytest.mark.parametrize("type_", ["f32", "s8", "bf16", "f64", "u32"])
@pytest.mark.parametrize("rows", [1, 3, 4, 40])
def test_scratch_is_one_more_copy_of_operands_at_most(type_, size, rows):
    for text in (alone(type_, (rows, size)), text_of(type_, (rows, size), 1, plain("LT"))):
        sort = parse_hlo(text).entry.root
        plan = plan_sort(sort, target_of("native"))
        each = sum(x.shape.element_type.nbytes for x in sort.operands)
        counts = 65 * 1024 + 64 * 16
        copies = rows if rows < 4 else 1
        most = copies * (each * size + 64 * len(sort.operands) + counts)
        assert plan.shared_bytes + plan.thread_bytes <= most


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("type_", ["s8", "s16", "s32", "f32", "f64", "bf16", "f16"])
def test_types_and_places(type_, target, in_place):
    text = alone(type_, (LONG,), in_place=in_place)
    assert SortDigits(parse_hlo(text).entry.root).fits
    check(text, [numbers(type_, (LONG,))], target, stage="fused")


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("bits", range(16))
def test_passes_of_bytes_that_differ(bits, in_place):
    """Bytes in which keys are alike are passed over: any number of passes ends in the results."""
    random = np.random.default_rng(bits)
    mask = sum(255 << 8 * x for x in range(4) if bits >> x & 1)
    values = random.integers(0, 2**31, 2 * PART + 5, np.int64) & mask | 0x01020304 & ~mask
    text = alone("s32", values.shape, in_place=in_place)
    check(text, [values.astype(np.int32)], stage="fused")


@pytest.mark.parametrize("shape", [(2, LONG), (5, LONG), (3, 1, PART + 8), (4, 2 * PART)])
@pytest.mark.parametrize("target", TARGETS)
def test_rows_with_places(shape, target):
    text = text_of("f32", shape, len(shape) - 1, plain("GT", total=True))
    assert SortDigits(parse_hlo(text).entry.root).fits
    check(text, [numbers("f32", shape)], target)


@pytest.mark.parametrize("type_", ["s32", "u8", "s8"])
def test_two_keys(type_):
    """A second key makes keys of 40 and 64 bits; equal ones keep their order."""
    shape = (LONG,)
    text = text_of(type_, shape, 0, BY_TWO_KEYS)
    assert SortDigits(parse_hlo(text).entry.root).fits
    check(text, [numbers(type_, shape)])


def test_columns_are_sorted_in_another_way():
    text = text_of("f32", (LONG, 2), 0, plain("LT"))
    assert not SortDigits(parse_hlo(text).entry.root).fits
    check(text, [numbers("f32", (LONG, 2))])


def test_wide_operands_are_sorted_by_their_places():
    """Where elements of all operands are more than two records, records take less scratch."""
    names = "abcdefgh"
    inside = "\n".join(f"  {x} = f64[] parameter({i})" for i, x in enumerate(names))
    given = "\n".join(f"  x{i} = f64[{LONG}] parameter({i})" for i in range(4))
    result = ", ".join([f"f64[{LONG}]"] * 4)
    text = f"""HloModule m
less {{
{inside}
  ROOT r = pred[] compare(a, b), direction=LT
}}
ENTRY main {{
{given}
  ROOT s = ({result}) sort(x0, x1, x2, x3), dimensions={{0}}, is_stable=true, to_apply=less
}}
"""
    assert not SortDigits(parse_hlo(text).entry.root).fits
    check(text, [numbers("f64", (LONG,), seed) for seed in range(4)])
