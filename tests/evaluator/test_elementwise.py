import ml_dtypes
import numpy as np
import pytest
from tests.evaluator.against_xla import run_text, run_xla

from lowtide.ir import ElementType, UnsupportedOpError
from lowtide.ir.literal import DTYPES

INF, NAN = np.inf, np.nan

FLOATS = [-INF, -3.5, -2.5, -1.5, -1, -0.5, -1e-3, -0.0, 0.0, 1e-3, 0.49999997, 0.5, 1, 1.5, 3, 88]
FLOAT_TYPES = ["f64", "f32", "f16", "bf16", "f8e5m2", "f8e4m3fn"]
FLOAT_UNARY = [
    "abs",
    "cbrt",
    "ceil",
    "cosine",
    "erf",
    "exponential",
    "exponential-minus-one",
    "floor",
    "log",
    "log-plus-one",
    "logistic",
    "negate",
    "round-nearest-afz",
    "round-nearest-even",
    "rsqrt",
    "sign",
    "sine",
    "sqrt",
    "tan",
    "tanh",
]
FLOAT_BINARY = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "maximum",
    "minimum",
    "power",
    "remainder",
    "atan2",
]

INTEGER_TYPES = ["s2", "s4", "u4", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"]
INTEGER_UNARY = ["negate", "not", "popcnt", "count-leading-zeros"]
SIGNED_UNARY = ["abs", "sign"]
INTEGER_BINARY = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "maximum",
    "minimum",
    "remainder",
    "and",
    "or",
    "xor",
    "shift-left",
    "shift-right-logical",
    "shift-right-arithmetic",
]

COMPLEX_UNARY = [
    "abs",
    "cosine",
    "exponential",
    "exponential-minus-one",
    "log",
    "log-plus-one",
    "logistic",
    "negate",
    "rsqrt",
    "sign",
    "sine",
    "sqrt",
    "tan",
    "tanh",
    "real",
    "imag",
]
COMPLEX_BINARY = ["add", "subtract", "multiply", "divide", "power"]


def module_of(element_type, unary, binary, count):
    """A module with one result per operation, on parameters of `count` elements."""
    part = {"c64": "f32", "c128": "f64"}
    results = []
    lines = [
        f"p = {element_type}[{count}] parameter(0)",
        f"q = {element_type}[{count}] parameter(1)",
    ]
    for i, op in enumerate([*unary, *binary]):
        real = op in ("abs", "real", "imag") and element_type in part
        shape = f"{part[element_type] if real else element_type}[{count}]"
        lines.append(f"r{i} = {shape} {op}({'p' if op in unary else 'p, q'})")
        results.append(shape)
    operands = ", ".join(f"r{i}" for i in range(len(results)))
    lines.append(f"ROOT t = ({', '.join(results)}) tuple({operands})")
    return "HloModule m\nENTRY e {\n  " + "\n  ".join(lines) + "\n}"


def pairs(values):
    return np.repeat(values, len(values)), np.tile(values, len(values))


def assert_ops_agree(text, ops, arguments, tolerance):
    found, expected = run_text(text, *arguments), run_xla(text, *arguments)
    for op, x, y in zip(ops, found, expected, strict=True):
        assert x.dtype == y.dtype
        wide = np.complex128 if x.dtype.kind == "c" else np.float64
        exact = x.dtype.kind in "iu" or "int" in x.dtype.name
        if exact:
            np.testing.assert_array_equal(x, y, err_msg=op)
            continue
        x, y = x.astype(wide), y.astype(wide)
        np.testing.assert_allclose(x, y, tolerance, tolerance, err_msg=op)
        zeros = (x == 0) & (y == 0)
        if wide is np.float64:
            np.testing.assert_array_equal(np.signbit(x)[zeros], np.signbit(y)[zeros], err_msg=op)


@pytest.mark.parametrize("element_type", FLOAT_TYPES)
def test_floats_agree_with_xla_at_special_values(element_type):
    dtype = DTYPES[ElementType(element_type)]
    values = np.array([*FLOATS, INF, NAN]).astype(dtype)
    arguments = pairs(values)
    text = module_of(element_type, FLOAT_UNARY, FLOAT_BINARY, len(arguments[0]))
    tolerance = 4 * float(ml_dtypes.finfo(dtype).eps)
    assert_ops_agree(text, [*FLOAT_UNARY, *FLOAT_BINARY], arguments, tolerance)


@pytest.mark.parametrize("element_type", INTEGER_TYPES)
def test_integers_agree_with_xla_at_the_ends_of_their_range(element_type):
    kind = ElementType(element_type)
    low = -(1 << (kind.bits - 1)) if kind.is_signed else 0
    high = low + (1 << kind.bits) - 1
    chosen = {low, low + 1, -33, -3, -1, 0, 1, 2, 7, kind.bits - 1, kind.bits, high - 1, high}
    wide = np.int64 if kind.is_signed else np.uint64
    values = np.array(sorted(x for x in chosen if low <= x <= high), wide).astype(DTYPES[kind])
    unary = INTEGER_UNARY + (SIGNED_UNARY if kind.is_signed else [])
    if kind.is_signed and kind.bits < 8:
        unary.remove("popcnt")  # XLA counts the bits of the sign extension
    arguments = pairs(values)
    text = module_of(element_type, unary, INTEGER_BINARY, len(arguments[0]))
    assert_ops_agree(text, [*unary, *INTEGER_BINARY], arguments, 0)


@pytest.mark.parametrize("element_type", ["c64", "c128"])
def test_finite_complex_numbers_agree_with_xla(element_type):
    parts = pairs(np.array([-2.0, -0.3, 0.75, 3.0]))
    values = (parts[0] + 1j * parts[1]).astype(DTYPES[ElementType(element_type)])
    arguments = pairs(values)
    text = module_of(element_type, COMPLEX_UNARY, COMPLEX_BINARY, len(arguments[0]))
    tolerance = 1e-4 if element_type == "c64" else 1e-11
    assert_ops_agree(text, [*COMPLEX_UNARY, *COMPLEX_BINARY], arguments, tolerance)


def unary(op, element_type, array, result_type=None, attributes=""):
    """The result of one operation on one array."""
    sizes = ",".join(map(str, array.shape))
    (result,) = run_text(
        f"""HloModule m
    ENTRY e {{
      p = {element_type}[{sizes}] parameter(0)
      ROOT r = {result_type or element_type}[{sizes}] {op}(p){attributes}
    }}""",
        array,
    )
    return result


def binary(op, element_type, a, b, result_type=None):
    (result,) = run_text(
        f"""HloModule m
    ENTRY e {{
      p = {element_type}[{len(a)}] parameter(0)
      q = {element_type}[{len(a)}] parameter(1)
      ROOT r = {result_type or element_type}[{len(a)}] {op}(p, q)
    }}""",
        np.asarray(a, DTYPES[ElementType(element_type)]),
        np.asarray(b, DTYPES[ElementType(element_type)]),
    )
    return result.tolist()


HYPERBOLIC = {
    "acos": (np.arccos, [-1, -0.5, 0, 1, 2]),
    "acosh": (np.arccosh, [0.5, 1, 2, 1e8]),
    "asin": (np.arcsin, [-1, -0.5, 0, 1]),
    "asinh": (np.arcsinh, [-1e8, -1, 0, 1e-8]),
    "atanh": (np.arctanh, [-1, -0.5, 0, 1e-8, 2]),
    "cosh": (np.cosh, [-2, 0, 1e-8, 800]),
    "sinh": (np.sinh, [-2, 0, 1e-8, 800]),
}


@pytest.mark.parametrize("op", HYPERBOLIC)
def test_inverse_and_hyperbolic_functions(op):
    function, points = HYPERBOLIC[op]
    x = np.array(points, np.float64)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(unary(op, "f64", x), function(x))


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("sign", "su")
def test_mulhi_is_the_upper_half_of_the_exact_product(bits, sign):
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if sign == "s" else (0, (1 << bits) - 1)
    values = [low, low + 1, 0, 1, 3, high // 2, high - 1, high]
    a = [x for x in values for _ in values]
    b = values * len(values)
    expected = [(x * y) >> bits for x, y in zip(a, b, strict=True)]
    assert binary("mulhi", f"{sign}{bits}", a, b) == expected


def test_integer_power_wraps_and_truncates_negative_exponents():
    base = [3, -3, 2, 2, 1, -1, -1, 5, 0]
    exponent = [20, 21, 31, 32, -7, -7, -8, -1, 0]
    expected = [3**20 - 2**32, -(3**21) % 2**32, -(2**31), 0, 1, -1, 1, 0, 1]
    expected = [(x + 2**31) % 2**32 - 2**31 for x in expected]
    assert binary("power", "s32", base, exponent) == expected


@pytest.mark.parametrize("element_type", ["c64", "c128"])
@pytest.mark.parametrize(
    ("opcode", "given", "wanted"),
    [
        ("exponential", complex(INF, NAN), complex(NAN, NAN)),
        ("exponential", complex(-INF, NAN), 0),
        ("exponential", complex(NAN, 0), complex(NAN, 0)),
        ("logistic", complex(-INF, INF), complex(NAN, NAN)),
        ("cosh", complex(0, INF), complex(NAN, NAN)),
        ("cosine", complex(NAN, 0), complex(NAN, NAN)),
        ("sine", complex(INF, -INF), complex(NAN, NAN)),
        ("tanh", complex(0, NAN), complex(NAN, NAN)),
        ("asinh", complex(NAN, 0), complex(NAN, NAN)),
        ("asinh", complex(INF, NAN), complex(INF, NAN)),
        ("acos", complex(0, NAN), complex(NAN, NAN)),
    ],
)
def test_an_angle_that_is_none_leaves_no_part_as_for_xla(element_type, opcode, given, wanted):
    shape = f"{element_type}[1]"
    text = f"HloModule m ENTRY e {{ z = {shape} parameter(0) ROOT r = {shape} {opcode}(z) }}"
    (found,) = run_text(text, np.array([given], DTYPES[ElementType(element_type)]))
    for one, other in ((found.real, np.real(wanted)), (found.imag, np.imag(wanted))):
        np.testing.assert_array_equal(one, [other])


def test_division_of_complex_infinities_follows_c99():
    a = [1 + 1j, complex(INF, 1), 1 + 1j, complex(INF, NAN)]
    b = [complex(NAN, INF), 1 + 1j, 0j, 1 + 1j]
    zero, large, pole, recovered = binary("divide", "c64", a, b)
    assert zero == 0
    assert (large.real, large.imag) == (INF, -INF)
    assert (pole.real, pole.imag) == (INF, INF)
    assert (recovered.real, recovered.imag) == (INF, -INF)


@pytest.mark.parametrize("direction", ["EQ", "NE", "GE", "GT", "LE", "LT"])
@pytest.mark.parametrize("element_type", ["f32", "bf16", "f8e4m3fn", "f64"])
def test_total_order_of_floats(element_type, direction):
    ordered = np.array([-NAN, -INF, -2, -0.0, 0.0, 1, INF, NAN])
    if element_type == "f8e4m3fn":
        ordered[[1, 6]] = -300, 300
    values = ordered.astype(DTYPES[ElementType(element_type)])
    position = np.arange(len(values))
    a, b = pairs(position)
    text = f"""HloModule m
    ENTRY e {{
      p = {element_type}[64] parameter(0)
      q = {element_type}[64] parameter(1)
      ROOT r = pred[64] compare(p, q), direction={direction}, type=TOTALORDER
    }}"""
    (found,) = run_text(text, values[a], values[b])
    compare = {"EQ": a == b, "NE": a != b, "GE": a >= b, "GT": a > b, "LE": a <= b, "LT": a < b}
    np.testing.assert_array_equal(found, compare[direction])


def test_comparison_by_value_leaves_nan_unordered():
    text = """HloModule m
    ENTRY e {
      p = bf16[3] parameter(0)
      q = bf16[3] parameter(1)
      a = pred[3] compare(p, q), direction=LE
      b = pred[3] compare(p, q), direction=NE
      ROOT t = (pred[3], pred[3]) tuple(a, b)
    }"""
    dtype = ml_dtypes.bfloat16
    le, ne = run_text(text, np.array([NAN, -0.0, 1], dtype), np.array([NAN, 0.0, NAN], dtype))
    assert le.tolist() == [False, True, False]
    assert ne.tolist() == [True, False, True]


def test_narrow_floats_are_rounded_once_per_operation():
    text = """HloModule m
    ENTRY e {
      p = bf16[] parameter(0)
      q = bf16[] parameter(1)
      s = bf16[] add(p, q)
      ROOT d = bf16[] subtract(s, p)
    }"""
    (found,) = run_text(text, np.array(256, ml_dtypes.bfloat16), np.array(1, ml_dtypes.bfloat16))
    assert float(found) == 0


def test_clamp_and_select_take_scalars_or_arrays():
    text = """HloModule m
    ENTRY e {
      x = f32[4] parameter(0)
      lo = f32[] constant(-1)
      hi = f32[] constant(1)
      c = f32[4] clamp(lo, x, hi)
      p = pred[] constant(true)
      s = f32[4] select(p, c, x)
      m = pred[4] constant({1, 0, 1, 0})
      ROOT r = f32[4] select(m, s, x)
    }"""
    (found,) = run_text(text, np.array([-5, -5, NAN, 0.5], np.float32))
    np.testing.assert_array_equal(found, np.array([-1, -5, NAN, 0.5], np.float32))


def test_truth_values_have_boolean_arithmetic():
    bits = [False, False, True, True], [False, True, False, True]
    truth = {"add": "or", "multiply": "and", "maximum": "or", "minimum": "and"}
    for op, same in truth.items():
        assert binary(op, "pred", *bits) == binary(same, "pred", *bits)
    assert binary("xor", "pred", *bits) == [False, True, True, False]


def test_complex_parts_survive_infinities():
    text = """HloModule m
    ENTRY e {
      a = f32[2] parameter(0)
      b = f32[2] parameter(1)
      z = c64[2] complex(a, b)
      x = f32[2] real(z)
      y = f32[2] imag(z)
      ROOT t = (f32[2], f32[2]) tuple(x, y)
    }"""
    a, b = np.array([1, INF], np.float32), np.array([INF, 2], np.float32)
    x, y = run_text(text, a, b)
    np.testing.assert_array_equal(x, a)
    np.testing.assert_array_equal(y, b)


def test_an_operation_without_meaning_for_its_type_names_its_source_line():
    text = """HloModule m
    ENTRY e {
      p = s32[] parameter(0)
      ROOT r = s32[] tanh(p), metadata={source_file="model.py" source_line=12}
    }"""
    with pytest.raises(UnsupportedOpError, match=r"model\.py:12: tanh \(%r\).*s32"):
        run_text(text, np.array(1, np.int32))


def test_an_operation_without_metadata_names_the_line_of_the_text():
    text = "HloModule m\nENTRY e {\n  p = s32[] parameter(0)\n  ROOT r = s32[] tanh(p)\n}"
    with pytest.raises(UnsupportedOpError, match=r"m:4: tanh"):
        run_text(text, np.array(1, np.int32))
