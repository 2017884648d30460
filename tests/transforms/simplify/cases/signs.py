"""Absolute values, signs, rounding, complex parts."""

from tests.transforms.simplify.cases.notation import Case

CASES: list[Case] = [
    ("even-function-of-abs", "x: c64[4]; a = f32[4] abs(x); b = f32[4] cosine(a)", None),
    ("square-of-unsigned", "x: c64[4]; a = f32[4] abs(x); b = f32[4] multiply(a, a)", None),
    (
        "abs-of-positive",
        "x: f32[4]; a = f32[4] abs(x); b = f32[4] abs(a)",
        "x: f32[4]; a = f32[4] abs(x)",
    ),
    (
        "abs-of-positive",
        "x: f32[4]; a = f32[4] multiply(x, x); b = f32[4] abs(a)",
        "x: f32[4]; a = f32[4] multiply(x, x)",
    ),
    ("abs-of-positive", "x: s32[4]; a = s32[4] multiply(x, x); b = s32[4] abs(a)", None),
    ("abs-of-positive", "x: f32[4]; a = f32[4] sqrt(x); b = f32[4] abs(a)", None),
    ("abs-of-positive", "x: u8[4]; b = u8[4] abs(x)", "x: u8[4]"),
    (
        "even-function-of-negated",
        "x: f32[4]; a = f32[4] negate(x); b = f32[4] cosine(a)",
        "x: f32[4]; b = f32[4] cosine(x)",
    ),
    (
        "even-function-of-negated",
        "x: s8[4]; a = s8[4] negate(x); b = s8[4] abs(a)",
        "x: s8[4]; b = s8[4] abs(x)",
    ),
    (
        "even-function-of-abs",
        "x: f32[4]; a = f32[4] abs(x); b = f32[4] cosh(a)",
        "x: f32[4]; b = f32[4] cosh(x)",
    ),
    (
        "square-of-unsigned",
        "x: f32[4]; a = f32[4] abs(x); b = f32[4] multiply(a, a)",
        "x: f32[4]; b = f32[4] multiply(x, x)",
    ),
    (
        "square-of-unsigned",
        "x: s8[4]; a = s8[4] negate(x); b = s8[4] multiply(a, a)",
        "x: s8[4]; b = s8[4] multiply(x, x)",
    ),
    (
        "sign-of-sign",
        "x: f32[4]; a = f32[4] sign(x); b = f32[4] sign(a)",
        "x: f32[4]; a = f32[4] sign(x)",
    ),
    ("sign-of-sign", "x: c64[4]; a = c64[4] sign(x); b = c64[4] sign(a)", None),
    (
        "sign-times-abs",
        "x: f32[4]; a = f32[4] sign(x); b = f32[4] abs(x); c = f32[4] multiply(b, a)",
        "x: f32[4]",
    ),
    (
        "maximum-of-positive-and-zero",
        "x: f32[4]; a = f32[4] exponential(x); c: f32[4] = 0; b = f32[4] maximum(a, c)",
        "x: f32[4]; a = f32[4] exponential(x)",
    ),
    ("maximum-of-positive-and-zero", "x: f32[4]; c: f32[4] = 0; b = f32[4] maximum(x, c)", None),
    (
        "round-whole",
        "x: f32[4]; a = f32[4] ceil(x); b = f32[4] floor(a)",
        "x: f32[4]; a = f32[4] ceil(x)",
    ),
    (
        "round-whole",
        "x: s32[4]; a = f32[4] convert(x); b = f32[4] round-nearest-even(a)",
        "x: s32[4]; a = f32[4] convert(x)",
    ),
    ("round-whole", "x: bf16[4]; a = f32[4] convert(x); b = f32[4] floor(a)", None),
    (
        "is-finite-of-finite",
        "x: s32[4]; a = f32[4] convert(x); b = pred[4] is-finite(a)",
        "x: s32[4]; b: pred[4] = true",
    ),
    ("is-finite-of-finite", "x: s32[4]; a = f16[4] convert(x); b = pred[4] is-finite(a)", None),
    (
        "is-finite-of-signed",
        "x: f32[4]; a = f32[4] abs(x); b = pred[4] is-finite(a)",
        "x: f32[4]; b = pred[4] is-finite(x)",
    ),
    ("is-finite-of-signed", "x: c64[4]; a = f32[4] abs(x); b = pred[4] is-finite(a)", None),
    (
        "part-of-complex",
        "x: f32[4]; y: f32[4]; a = c64[4] complex(x, y); b = f32[4] imag(a)",
        "x: f32[4]; y: f32[4]",
    ),
    (
        "complex-of-parts",
        "x: c64[4]; a = f32[4] real(x); b = f32[4] imag(x); c = c64[4] complex(a, b)",
        "x: c64[4]",
    ),
    (
        "complex-of-parts",
        "x: c64[4]; y: c64[4]; a = f32[4] real(x); b = f32[4] imag(y); c = c64[4] complex(a, b)",
        None,
    ),
    ("real-of-real", "x: f32[4]; a = f32[4] real(x)", "x: f32[4]"),
    ("imag-of-real", "x: f32[4]; a = f32[4] imag(x)", "x: f32[4]; a: f32[4] = 0"),
    (
        "part-of-negated",
        "x: c64[4]; a = c64[4] negate(x); b = f32[4] real(a)",
        "x: c64[4]; a = f32[4] real(x); b = f32[4] negate(a)",
    ),
    (
        "part-of-sum",
        "x: c64[4]; y: c64[4]; a = c64[4] subtract(x, y); b = f32[4] imag(a)",
        "x: c64[4]; y: c64[4]; a = f32[4] imag(x); b = f32[4] imag(y); c = f32[4] subtract(a, b)",
    ),
    (
        "part-of-sum",
        "x: c64[4]; y: c64[4]; a = c64[4] subtract(x, y); b = f32[4] imag(a); c = f32[4] real(a); "
        "d = f32[4] add(b, c)",
        None,
    ),
    (
        "part-of-converted",
        "x: s32[4]; a = c64[4] convert(x); b = f32[4] real(a)",
        "x: s32[4]; b = f32[4] convert(x)",
    ),
    (
        "part-of-converted",
        "x: s32[4]; a = c64[4] convert(x); b = f32[4] imag(a)",
        "x: s32[4]; b: f32[4] = 0",
    ),
]
