"""Operations on integers, truth values, f32 and f64 agree with the evaluator on special values."""

import ctypes
from importlib import import_module

import numpy as np
import pytest
from tests.codegen.elementwise import oracle
from tests.codegen.elementwise.kernels import TARGETS, Case, compiled, special_values

from lowtide import parse_hlo
from lowtide.codegen.elementwise import emit, emit_op, memory
from lowtide.codegen.elementwise.dispatch import HOMES, OF_ANY_TYPE
from lowtide.codegen.value import Value
from lowtide.evaluator.elementwise import FUNCTIONS
from lowtide.ir.attributes import NO_ATTRIBUTES
from lowtide.ir.element_type import ElementType
from lowtide.ir.errors import UnsupportedOpError
from lowtide.ir.literal import DTYPES
from lowtide.ir.opcode import Opcode
from lowtide.llvm.callee import parameters
from lowtide.llvm.function import Function, module_text
from lowtide.llvm.library import Library
from lowtide.llvm.machine import KernelCompiler
from lowtide.ops.table import TABLE

FORMS = [("native", 16), ("native", 0), ("avx2", 8), ("avx2", 0)]
EXACT = [x for x in oracle.ARRAY_TYPES if x is ElementType.PRED or x.is_integer]
WIDE = [ElementType.F32, ElementType.F64]

TOLERANCE = {ElementType.F32: 3e-7, ElementType.F64: 1e-15}
"""Relative."""


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("type_", EXACT)
def test_integers_and_predicates_have_the_bits_of_the_evaluator(type_, form):
    target, lanes = form
    cases = oracle.cases(type_)
    assert {x.opcode for x in cases} >= oracle.written(type_) - {Opcode.ABS}
    for case, run in zip(cases, compiled(cases, TARGETS[target], lanes), strict=True):
        arrays = oracle.operands(case)
        got, want = run(*arrays), oracle.expected(case, arrays)
        good = oracle.same_bits(got, want)
        assert good.all(), oracle.report(case, good, arrays, got, want)


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("type_", WIDE)
def test_floats_are_near_the_evaluator_and_have_its_signs(type_, form):
    target, lanes = form
    cases = oracle.cases(type_)
    assert {x.opcode for x in cases} >= oracle.written(type_)
    for case, run in zip(cases, compiled(cases, TARGETS[target], lanes), strict=True):
        arrays = oracle.operands(case)
        got, want = run(*arrays), oracle.expected(case, arrays)
        least = float(np.finfo(want.dtype).tiny) if type_ is case.result else 1.0
        if case.opcode is Opcode.LOGISTIC:
            least *= 1e8  # where the evaluator's exp(-x) is infinite
        good = oracle.close(got, want, TOLERANCE[type_], least)
        good &= np.isnan(want) | (np.signbit(got) == np.signbit(want))
        assert good.all(), oracle.report(case, good, arrays, got, want)


@pytest.mark.parametrize("type_", [ElementType.F32, ElementType.F64])
def test_a_lane_of_a_vector_has_the_bits_of_a_single_element(type_):
    cases = [x for x in oracle.cases(type_) if x.result is type_]
    single = compiled(cases, TARGETS["native"], 0)
    vector = compiled(cases, TARGETS["native"], 16)
    rng = np.random.default_rng(3)
    size = 2048
    a, b = (
        (rng.standard_normal(size) * 2.0 ** rng.integers(-20, 12, size)).astype(f"f{type_.nbytes}")
        for _ in range(2)
    )
    for case, one, many in zip(cases, single, vector, strict=True):
        arrays = (a, b)[: len(case.operands)]
        got, want = many(*arrays), one(*arrays)
        good = (got == want) | (np.isnan(got) & np.isnan(want))
        assert good.all(), oracle.report(case, good, arrays, got, want)


def test_a_product_and_a_sum_are_rounded_each():
    """Else a value that two kernels compute would differ between them."""
    f32 = ElementType.F32
    fn = Function("f", parameters(a="float", b="float", c="float"), "float")
    target = TARGETS["native"]
    a, b, c = (Value((x,), f32) for x in ("%a", "%b", "%c"))
    product = emit_op(fn, target, Opcode.MULTIPLY, NO_ATTRIBUTES, f32, [a, b])
    total = emit_op(fn, target, Opcode.ADD, NO_ATTRIBUTES, f32, [product, c])
    fn.ret("float", total.name)
    assembly = KernelCompiler(target).assembly(module_text([fn]))
    assert "vfmadd" not in assembly
    assert "vmulss" in assembly and "vaddss" in assembly


def test_an_instruction_brings_its_attributes_and_type():
    module = parse_hlo(
        "HloModule m\nENTRY e {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
        "  less = pred[] compare(a, b), direction=LT\n"
        "  ROOT r = bf16[] convert(less)\n}\n"
    )
    fn = Function("f", parameters(a="float", b="float"), "float")
    target = TARGETS["native"]
    root = module.entry.root
    given = [Value((x,), ElementType.F32) for x in ("%a", "%b")]
    less = emit(fn, target, root.operands[0], given)
    found = emit(fn, target, root, [less])
    assert (less.type, found.type) == (ElementType.PRED, ElementType.BF16)
    fn.ret("float", found.name)
    library = Library([KernelCompiler(target).object_code(module_text([fn]))], ["f"], target)
    call = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float, ctypes.c_float)(library["f"])
    assert [call(1, 2), call(2, 2), call(float("nan"), 2)] == [1, 0, 0]
    assert library


@pytest.mark.parametrize("opcode", [Opcode.DIVIDE, Opcode.REMAINDER])
@pytest.mark.parametrize("type_", [ElementType.S32, ElementType.U16, ElementType.S8])
def test_constant_divisors_need_no_division(type_, opcode):
    values = special_values(type_)
    top = int(np.iinfo(values.dtype).max)
    for divisor in (0, 1, 7, -1, -12, top):
        if divisor < 0 and not type_.is_signed:
            continue
        fn = Function("f", parameters(source="ptr", to="ptr", n="i64"))
        target = TARGETS["native"]
        with fn.loop(0, "%n", 16) as loop:
            at = fn.mul(loop.index, type_.nbytes)
            a = memory.load(fn, target, type_, fn.gep("%source", at), 16)
            b = memory.splat(fn, memory.constant(type_, divisor), 16)
            found = emit_op(fn, target, opcode, NO_ATTRIBUTES, type_, [a, b])
            memory.store(fn, target, found, fn.gep("%to", at))
        text = module_text([fn])
        assert "div" not in KernelCompiler(target).assembly(text)
        given = np.resize(values, 64)
        got = np.empty_like(given)
        library = Library([KernelCompiler(target).object_code(text)], ["f"], target)
        pointers = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
        ctypes.CFUNCTYPE(None, *pointers)(library["f"])(given.ctypes.data, got.ctypes.data, 64)
        want = FUNCTIONS[type_][opcode](given, np.full(64, divisor, given.dtype))
        assert (got == want).all()
        assert library


# -- everything is written ---------------------------------------------------------------------


@pytest.mark.parametrize("home", HOMES)
def test_the_table_of_files_has_what_they_define(home):
    functions = import_module(f"lowtide.codegen.elementwise.{home}").FUNCTIONS
    assert {*functions} == {*HOMES[home]}


def test_every_elementwise_opcode_is_written_for_some_type():
    known = {x for type_ in oracle.ARRAY_TYPES for x in oracle.written(type_)}
    missing = {x for x in TABLE if TABLE[x].elementwise} - known - set(OF_ANY_TYPE)
    assert not missing


@pytest.mark.parametrize(
    ("opcode", "type_"),
    [
        (Opcode.ERF, ElementType.S32),
        (Opcode.DIVIDE, ElementType.PRED),
        (Opcode.AND, ElementType.F32),
        (Opcode.FLOOR, ElementType.C64),
        (Opcode.IS_FINITE, ElementType.C64),
        (Opcode.MAP, ElementType.F32),
    ],
)
def test_what_has_no_meaning_is_refused_by_name(opcode, type_):
    fn = Function("f")
    values = [memory.constant(type_, 1)] * 2
    with pytest.raises(UnsupportedOpError, match=f"{opcode.value} of {type_.value}"):
        emit_op(fn, TARGETS["native"], opcode, NO_ATTRIBUTES, type_, values)


@pytest.mark.parametrize("target", sorted(TARGETS))
@pytest.mark.parametrize("lanes", [0, 8, 16])
@pytest.mark.parametrize("type_", [ElementType.F32, ElementType.F64])
def test_remainders_are_exact(type_, lanes, target):
    """Quotients that are nearly whole, short ones and long ones, in one vector and apart."""
    dtype = DTYPES[type_]
    rng = np.random.default_rng(0)
    by = rng.standard_normal(4096).astype(dtype)
    whole = np.trunc(rng.uniform(0, 2, 4096) ** 26)
    near = (by.astype(np.longdouble) * whole).astype(dtype)
    x = np.concatenate([near, np.nextafter(near, np.inf), np.nextafter(near, -np.inf)])
    y = np.tile(by, 3)
    far = np.exp2(rng.uniform(-120, 120, 4096)).astype(dtype)
    special = special_values(type_)
    x = np.concatenate([x, far, np.repeat(special, special.size)])
    y = np.concatenate([y, by, np.tile(special, special.size)])
    count = x.size - x.size % 16
    case = Case(Opcode.REMAINDER, (type_, type_), type_)
    (function,) = compiled([case], TARGETS[target], lanes)
    with np.errstate(all="ignore"):
        want = np.fmod(x[:count], y[:count])
    got = function(x[:count].copy(), y[:count].copy())
    assert np.array_equal(got, want, equal_nan=True)
    assert (np.signbit(got) == np.signbit(want))[~np.isnan(want)].all()
