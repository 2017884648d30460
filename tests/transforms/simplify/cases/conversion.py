"""Conversions, copies, bitcasts."""

from tests.transforms.simplify.cases.notation import Case


def twice(first: str, second: str, last: str, opcode: str = "convert") -> str:
    """Return the body of two conversions."""
    return f"x: {first}[4]; a = {second}[4] {opcode}(x); b = {last}[4] {opcode}(a)"


def clamped(first: str, low: int, high: int, last: str) -> str:
    """Return the body of a conversion of what is clamped."""
    ends = f"p = {first}[] constant({low}); q = {first}[] constant({high})"
    return f"x: {first}[4]; {ends}; a = {first}[4] clamp(p, x, q); b = {last}[4] convert(a)"


def bounded(bound: str, end: float, zero: int, last: str, by: float = 0.5) -> str:
    """Return the body of a conversion of what is bounded, divided, rounded and moved."""
    ends = f"e: f32[4] = {end}; s: f32[4] = {by}; z: f32[4] = {zero}"
    quotient = "c = f32[4] divide(a, s); d = f32[4] round-nearest-even(c)"
    return (
        f"x: f32[4]; {ends}; a = f32[4] {bound}; {quotient}; "
        f"f = f32[4] add(d, z); b = {last}[4] convert(f)"
    )


def unbounded(zero: int, last: str) -> str:
    """Return the body of the same without a bound."""
    whole = bounded("", 0, zero, last).replace("(a, s)", "(x, s)")
    return whole.replace("a = f32[4] ; ", "").replace("e: f32[4] = 0; ", "")


CASES: list[Case] = [
    ("convert-to-same", "x: f32[4]; a = f32[4] convert(x)", "x: f32[4]"),
    ("convert-widened", twice("bf16", "f32", "s32"), "x: bf16[4]; b = s32[4] convert(x)"),
    ("convert-widened", twice("s8", "s32", "f32"), "x: s8[4]; b = f32[4] convert(x)"),
    ("convert-widened", twice("f16", "f32", "f16"), "x: f16[4]"),
    ("convert-widened", twice("pred", "u8", "f32"), "x: pred[4]; b = f32[4] convert(x)"),
    ("convert-widened", twice("f32", "bf16", "f32"), None),
    ("convert-widened", twice("f16", "bf16", "f32"), None),
    ("convert-widened", twice("s8", "u32", "f32"), None),
    ("convert-widened", twice("s8", "f32", "u8"), None),  # which saturates
    ("convert-widened", twice("s8", "f16", "u2"), None),  # too
    ("convert-widened", twice("pred", "f64", "s1"), None),  # 1 is beyond its range
    ("convert-widened", twice("f32", "s64", "s32"), None),
    ("convert-wrapped", twice("s32", "u16", "s8"), "x: s32[4]; b = s8[4] convert(x)"),
    ("convert-wrapped", twice("s32", "u32", "s32"), "x: s32[4]"),
    ("convert-wrapped", twice("s32", "s8", "s16"), None),
    ("convert-clamped", clamped("f32", 0, 255, "u8"), "x: f32[4]; b = u8[4] convert(x)"),
    ("convert-clamped", clamped("f32", -128, 127, "s8"), "x: f32[4]; b = s8[4] convert(x)"),
    ("convert-clamped", clamped("f16", -9, 300, "u8"), "x: f16[4]; b = u8[4] convert(x)"),
    (
        "convert-sum-with-zero",
        "x: f32[4]; z: f32[4] = 0; a = f32[4] add(x, z); b = u8[4] convert(a)",
        "x: f32[4]; b = u8[4] convert(x)",
    ),
    (
        "convert-sum-with-zero",
        "x: f32[4]; z: f32[4] = -0.0; a = f32[4] add(z, x); b = s32[4] convert(a)",
        "x: f32[4]; b = s32[4] convert(x)",
    ),
    (
        "convert-sum-with-zero",
        "x: f32[4]; z: f32[4] = 0; a = f32[4] add(x, z); b = f16[4] convert(a)",
        None,
    ),
    ("convert-bounded", bounded("maximum(x, e)", 0, 0, "u8"), unbounded(0, "u8")),
    ("convert-bounded", bounded("maximum(x, e)", 0, -128, "s8"), unbounded(-128, "s8")),
    ("convert-bounded", bounded("maximum(x, e)", -3.5, 7, "u8"), unbounded(7, "u8")),
    ("convert-bounded", bounded("minimum(x, e)", 127.5, 0, "u8"), unbounded(0, "u8")),
    ("convert-bounded", bounded("clamp(e, x, e)", 0, 0, "u8"), None),
    ("convert-bounded", bounded("maximum(x, e)", 0, 1, "u8"), None),
    ("convert-bounded", bounded("maximum(x, e)", 0, -127, "s8"), None),
    ("convert-bounded", bounded("maximum(x, e)", 0, 0, "s8"), None),
    ("convert-bounded", bounded("maximum(x, e)", 0.5, 0, "u8"), None),
    ("convert-bounded", bounded("minimum(x, e)", 127, 0, "u8"), None),
    ("convert-bounded", bounded("maximum(x, e)", 0, 0, "u8", -0.5), None),
    ("convert-clamped", clamped("f32", 0, 127, "s8"), None),
    ("convert-clamped", clamped("f32", 0, 254, "u8"), None),
    ("convert-clamped", clamped("f32", 1, 255, "u8"), None),
    ("convert-clamped", clamped("s32", -128, 127, "s8"), None),  # which wraps around
    ("convert-there-and-back", twice("bf16", "f16", "bf16"), "x: bf16[4]"),
    ("convert-there-and-back", twice("s32", "f32", "s32"), None),
    (
        "convert-iota",
        "x = s32[4] iota(), iota_dimension=0; a = f32[4] convert(x)",
        "x = f32[4] iota(), iota_dimension=0",
    ),
    ("convert-iota", "x = s32[300] iota(), iota_dimension=0; a = bf16[300] convert(x)", None),
    ("bitcast-to-same", "x: f32[4]; a = f32[4] bitcast-convert(x)", "x: f32[4]"),
    (
        "bitcast-twice",
        twice("f32", "u32", "s32", "bitcast-convert"),
        "x: f32[4]; b = s32[4] bitcast-convert(x)",
    ),
    (
        "bitcast-twice",
        "x: u32[4]; a = u8[4,4] bitcast-convert(x); b = u32[4] bitcast-convert(a)",
        "x: u32[4]",
    ),
    (
        "bitcast-of-integers",
        "x: s32[4]; a = u32[4] bitcast-convert(x)",
        "x: s32[4]; a = u32[4] convert(x)",
    ),
    ("bitcast-of-integers", "x: s32[4]; a = f32[4] bitcast-convert(x)", None),
    (
        "round-to-own-precision",
        "x: bf16[4]; a = bf16[4] reduce-precision(x), exponent_bits=8, mantissa_bits=10",
        "x: bf16[4]",
    ),
    (
        "round-to-own-precision",
        "x: f32[4]; a = f32[4] reduce-precision(x), exponent_bits=8, mantissa_bits=10",
        None,
    ),
    (
        "round-twice",
        "x: f32[4]; a = f32[4] reduce-precision(x), exponent_bits=5, mantissa_bits=10; "
        "b = f32[4] reduce-precision(a), exponent_bits=5, mantissa_bits=10",
        "x: f32[4]; a = f32[4] reduce-precision(x), exponent_bits=5, mantissa_bits=10",
    ),
    (
        "bits-of-truth-values",
        "x: pred[4]; y: pred[4]; a = s32[4] convert(x); b = s32[4] convert(y); "
        "c = s32[4] xor(a, b)",
        "x: pred[4]; y: pred[4]; a = pred[4] xor(x, y); c = s32[4] convert(a)",
    ),
    (
        "bits-of-widened",
        "x: u8[4]; y: u8[4]; a = s32[4] convert(x); b = s32[4] convert(y); c = s32[4] and(a, b)",
        "x: u8[4]; y: u8[4]; a = u8[4] and(x, y); c = s32[4] convert(a)",
    ),
    (
        "bits-of-widened",
        "x: u8[4]; y: u16[4]; a = s32[4] convert(x); b = s32[4] convert(y); c = s32[4] and(a, b)",
        None,
    ),
    (
        "concatenate-widened",
        "x: bf16[4]; y: bf16[2]; a = f32[4] convert(x); b = f32[2] convert(y); "
        "c = f32[6] concatenate(a, b), dimensions={0}",
        "x: bf16[4]; y: bf16[2]; a = bf16[6] concatenate(x, y), dimensions={0}; "
        "c = f32[6] convert(a)",
    ),
    (
        "concatenate-widened",
        "x: f32[4]; y: f32[2]; a = bf16[4] convert(x); b = bf16[2] convert(y); "
        "c = bf16[6] concatenate(a, b), dimensions={0}",
        None,
    ),
    ("copy-to-same-layout", "x: f32[2,3]; a = f32[2,3] copy(x)", "x: f32[2,3]"),
    ("copy-to-same-layout", "x: f32[2,3]; a = f32[2,3]{0,1} copy(x)", None),
    (
        "copy-of-copy",
        "x: f32[2,3]; a = f32[2,3]{0,1} copy(x); b = f32[2,3] copy(a)",
        "x: f32[2,3]; b = f32[2,3] copy(x)",
    ),
    ("bitcast-to-same-shape", "x: f32[2,3]; a = f32[2,3] bitcast(x)", "x: f32[2,3]"),
    (
        "bitcast-of-bitcast",
        "x: f32[2,3]; a = f32[3,2]{0,1} bitcast(x); b = f32[6] bitcast(a)",
        "x: f32[2,3]; b = f32[6] bitcast(x)",
    ),
    (
        "bitcast-of-reshape",
        "x: f32[2,3]; a = f32[6] reshape(x); b = f32[3,2]{0,1} bitcast(a)",
        "x: f32[2,3]; b = f32[3,2]{0,1} bitcast(x)",
    ),
]
