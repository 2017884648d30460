"""Quantized products of integers: what is recognized, its values, and what is left alone."""

import itertools
from typing import Any

import numpy as np
import pytest
from tests.codegen.byte_targets import TARGETS

from lowtide import evaluate, parse_hlo
from lowtide.backends.build import build
from lowtide.backends.cpu import CpuBackend
from lowtide.ir import ElementType, Module, Opcode
from lowtide.ir.literal import DTYPES, Array
from lowtide.runtime.cpu.call import LinkedExecutable
from lowtide.transforms.quantization.integer_products import take_integer_products

ZEROS = {"none": None, "odd": 7, "middle": 128, "most": 255}
DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
CONVOLUTION = "window={size=3x3 stride=2x1 pad=1_0x1_1}, dim_labels=b01f_01io->b01f"


def _centered(name: str, shape: str, type_: str, zero: int | None) -> str:
    """Numbers less a zero point."""
    sizes = shape[shape.index("[") :]
    if zero is None:
        return f"  {name}_less = s32{sizes} convert({name})\n"
    stored = zero if type_ == "u8" else zero - 128
    return (
        f"  {name}_wide = s32{sizes} convert({name})\n"
        f"  {name}_zero = {type_}[] constant({stored})\n"
        f"  {name}_zero_wide = s32[] convert({name}_zero)\n"
        f"  {name}_zeros = s32{sizes} broadcast({name}_zero_wide), dimensions={{}}\n"
        f"  {name}_less = s32{sizes} subtract({name}_wide, {name}_zeros)\n"
    )


def _scaled(name: str, shape: str, channel: int | None) -> str:
    """Centered numbers times a scale, for all or for each slice along a dimension."""
    sizes = shape[shape.index("[") :]
    lines = f"  {name}_floats = f32{sizes} convert({name}_less)\n"
    if channel is None:
        lines += f"  {name}_scale = f32[] constant(0.01)\n"
        dimensions = ""
    else:
        count = int(sizes[1:-1].split(",")[channel])
        values = ", ".join([f"{0.001 * (i + 1):.4f}" for i in range(count)])
        lines += f"  {name}_scale = f32[{count}] constant({{{values}}})\n"
        dimensions = str(channel)
    lines += f"  {name}_scales = f32{sizes} broadcast({name}_scale), dimensions={{{dimensions}}}\n"
    return lines + f"  {name}_real = f32{sizes} multiply({name}_floats, {name}_scales)\n"


def _text(
    types: tuple[str, str],
    zeros: tuple[int | None, int | None],
    result: str,
    *,
    product: str = DOT,
    shapes: tuple[str, str, str] = ("[19,37]", "[37,21]", "[19,21]"),
    channel: int | None = None,
) -> str:
    opcode = "dot" if product == DOT else "convolution"
    x, y, out = shapes
    lines = f"  x = {types[0]}{x} parameter(0)\n  y = {types[1]}{y} parameter(1)\n"
    suffix = "less" if result == "s32" else "real"
    for name, shape, type_, zero in zip("xy", (x, y), types, zeros, strict=True):
        lines += _centered(name, shape, type_, zero)
        if result == "f32":
            lines += _scaled(name, shape, channel if name == "y" else None)
    call = f"{opcode}(x_{suffix}, y_{suffix}), {product}"
    return f"HloModule m\nENTRY e {{\n{lines}  ROOT d = {result}{out} {call}\n}}"


IMAGES = ("[2,9,8,5]", "[3,3,5,17]", "[2,4,8,17]")
SIGNS = list(itertools.product(("u8", "s8"), ("u8", "s8")))


def _drawn(module: Module, seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    found = []
    for x in module.entry.parameters:
        low = -128 if x.shape.element_type is ElementType.S8 else 0
        dtype = DTYPES[x.shape.element_type]
        found.append(rng.integers(low, low + 256, x.shape.dimensions).astype(dtype))
    return found


def _product(module: Module) -> str:
    """The types of the operands and of the result of the one product of a module."""
    heroes = [
        x
        for computation in module.computations.values()
        for x in computation.instructions.values()
        if x.opcode in (Opcode.DOT, Opcode.CONVOLUTION)
    ]
    (hero,) = heroes
    return " ".join([x.shape.element_type.value for x in (*hero.operands, hero)])


@pytest.mark.parametrize("types", SIGNS)
@pytest.mark.parametrize("product", [DOT, CONVOLUTION])
def test_integers_are_equal_to_the_last_bit(types: tuple[str, str], product: str) -> None:
    shapes = {"shapes": IMAGES} if product == CONVOLUTION else {}
    for zeros in itertools.product(ZEROS.values(), ZEROS.values()):
        text = _text(types, zeros, "s32", product=product, **shapes)
        module, changed = parse_hlo(text), parse_hlo(text)
        assert take_integer_products(changed)
        arrays = _drawn(module)
        np.testing.assert_array_equal(evaluate(changed, arrays), evaluate(module, arrays))
        lhs, rhs, result = _product(changed).split()
        centered = "s16" if product == CONVOLUTION and zeros[1] not in (None, 0) else types[1]
        if types[1] == "s8" and zeros[1] == 128:  # It is stored as 0.
            centered = "s8"
        assert (lhs, rhs, result) == (types[0], centered, "s32")


@pytest.mark.parametrize("types", SIGNS)
@pytest.mark.parametrize("product", [DOT, CONVOLUTION])
@pytest.mark.parametrize("is_per_channel", [False, True])
def test_floats_differ_by_the_rounding_of_their_sums(
    types: tuple[str, str], product: str, is_per_channel: bool
) -> None:
    shapes = {"shapes": IMAGES} if product == CONVOLUTION else {}
    channel = {DOT: 1, CONVOLUTION: 3}[product] if is_per_channel else None
    for zeros in ((None, None), (7, None), (128, 7), (255, 128)):
        text = _text(types, zeros, "f32", product=product, channel=channel, **shapes)
        module, changed = parse_hlo(text), parse_hlo(text)
        assert take_integer_products(changed)
        arrays = _drawn(module)
        wanted = np.asarray(evaluate(module, arrays))
        found = np.asarray(evaluate(changed, arrays))
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-6 * np.abs(wanted).max())
        assert _product(changed).endswith("s32")


@pytest.mark.parametrize("target", TARGETS)
def test_compiled_programs_are_equal(target: str) -> None:
    """Through all passes, in native code of several processors."""
    for types, product in itertools.product(SIGNS, (DOT, CONVOLUTION)):
        shapes = {"shapes": IMAGES} if product == CONVOLUTION else {}
        text = _text(types, (7, 255), "s32", product=product, **shapes)
        arrays = _drawn(parse_hlo(text))
        program = build(parse_hlo(text), CpuBackend(2, TARGETS[target])).program
        wanted = evaluate(parse_hlo(text), arrays)
        np.testing.assert_array_equal(np.asarray(LinkedExecutable(program)(*arrays)), wanted)


MOVED = """
HloModule m
ENTRY e {
  x = u8[4,6] parameter(0)
  y = s8[3,6] parameter(1)
  x_wide = s32[4,6] convert(x)
  z = s32[] constant(9)
  zs = s32[4,6] broadcast(z), dimensions={}
  x_less = s32[4,6] subtract(x_wide, zs)
  x_more = s32[1,4,6] reshape(x_less)
  y_wide = s32[3,6] convert(y)
  w = s8[3] constant({1, -2, 3})
  w_wide = s32[3] convert(w)
  ws = s32[3,6] broadcast(w_wide), dimensions={0}
  y_less = s32[3,6] subtract(y_wide, ws)
  y_turned = s32[6,3] transpose(y_less), dimensions={1,0}
  y_more = s32[1,6,3] broadcast(y_turned), dimensions={1,2}
  ROOT d = s32[1,4,3] dot(x_more, y_more), lhs_batch_dims={0}, rhs_batch_dims={0},
    lhs_contracting_dims={2}, rhs_contracting_dims={1}
}
"""


def test_operands_behind_moves() -> None:
    """A zero point for each column goes with it through what only moves elements."""
    module, changed = parse_hlo(MOVED), parse_hlo(MOVED)
    assert take_integer_products(changed)
    assert _product(changed) == "u8 s8 s32"
    arrays = _drawn(module)
    np.testing.assert_array_equal(evaluate(changed, arrays), evaluate(module, arrays))


SUMS_TOO_LARGE = _text(("u8", "u8"), (7, 9), "f32", shapes=("[2,40000]", "[40000,3]", "[2,3]"))
ALONG_K = _text(("u8", "s8"), (7, None), "f32", channel=0)
ONE_OF_FLOATS = """
HloModule m
ENTRY e {
  x = f32[4,6] parameter(0)
  y = s8[6,3] parameter(1)
  y_floats = f32[6,3] convert(y)
  s = f32[] constant(0.5)
  ss = f32[6,3] broadcast(s), dimensions={}
  w = f32[6,3] multiply(y_floats, ss)
  ROOT d = f32[4,3] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
OF_INTEGERS = """
HloModule m
ENTRY e {
  x = u8[4,6] parameter(0)
  y = s8[6,3] parameter(1)
  ROOT d = s32[4,3] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
SPREAD_IMAGE = _text(
    ("u8", "s8"),
    (7, None),
    "s32",
    product="window={size=3x3 lhs_dilate=2x1}, dim_labels=b01f_01io->b01f",
    shapes=("[2,9,8,5]", "[3,3,5,17]", "[2,15,6,17]"),
)


@pytest.mark.parametrize(
    "text", [SUMS_TOO_LARGE, ALONG_K, ONE_OF_FLOATS, OF_INTEGERS, SPREAD_IMAGE]
)
def test_what_is_left_alone(text: str) -> None:
    """Sums that 32 bits do not hold, scales along k, floats, and what has its form already."""
    module = parse_hlo(text)
    before = _product(module)
    take_integer_products(module)
    assert _product(module) == before


def _greatest(
    type_: str = "u8",
    zero: int | None = 7,
    *,
    init: str = "-inf",
    scale: float = 0.01,
    window: str = "size=1x3x3x1 stride=1x2x1x1 pad=0_0x1_1x2_0x0_0",
    out: str = "[2,5,8,5]",
    opcode: str = "maximum",
) -> str:
    """The greatest of quantized numbers in windows of an image of 9 x 8."""
    shape = f"{type_}[2,9,8,5]"
    body = _centered("x", shape, type_, zero) + _scaled("x", shape, None)
    body = body.replace("constant(0.01)", f"constant({scale})")
    call = f"reduce-window(x_real, init), window={{{window}}}, to_apply=of_two"
    return f"""HloModule m
of_two {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] {opcode}(a, b)
}}
ENTRY e {{
  x = {shape} parameter(0)
{body}  init = f32[] constant({init})
  ROOT r = f32{out} {call}
}}"""


@pytest.mark.parametrize("zero", [None, 0, 7, 128, 255])
@pytest.mark.parametrize("type_", ["u8", "s8"])
def test_the_greatest_in_windows_is_found_among_the_numbers(type_: str, zero: int | None) -> None:
    before, after = parse_hlo(_greatest(type_, zero)), parse_hlo(_greatest(type_, zero))
    assert take_integer_products(after)
    (window,) = [x for x in after.entry.instructions.values() if x.opcode is Opcode.REDUCE_WINDOW]
    assert window.shape.element_type is {"u8": ElementType.U8, "s8": ElementType.S8}[type_]
    arguments = _drawn(before)
    np.testing.assert_array_equal(evaluate(after, arguments), evaluate(before, arguments))


@pytest.mark.parametrize(
    "given",
    [
        {"init": "-1"},
        {"scale": -0.01},
        {"scale": "inf"},
        {"opcode": "minimum"},
        {"window": "size=1x2x3x1 stride=1x2x1x1 pad=0_0x2_1x2_0x0_0", "out": "[2,6,8,5]"},
        {"window": "size=1x2x1x1 stride=1x1x1x1 pad=0_0x0_2x0_0x0_0", "out": "[2,10,8,5]"},
        {"window": "size=1x2x1x1 lhs_dilate=1x3x1x1", "out": "[2,24,8,5]"},
    ],
)
def test_windows_that_need_not_meet_a_greatest_number_stay(given: dict[str, Any]) -> None:
    module = parse_hlo(_greatest(**given))
    text = str(module)
    assert not take_integer_products(module)
    assert str(module) == text
