import operator
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from tests.builder_cases import CASES, E, F, P, S, adder, arguments, build, method_name

from lowtide.builder import Builder, BuildError, SubComputation
from lowtide.evaluator import evaluate
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import ElementType, Module, Opcode, array_shape, tuple_shape
from lowtide.ir.annotations import ResultAccuracy
from lowtide.ir.attributes import Dimensions, DotDimensions
from lowtide.ir.literal import DTYPES
from lowtide.ir.metadata import FileLocation, Metadata, StackFrame, StackFrames
from lowtide.ir.module import BufferDonor, InputOutputAlias
from lowtide.ir.printer import COMPLETE, to_text
from lowtide.ir.sharding import REPLICATED
from lowtide.verifier import verify

HERE = __file__.rpartition("/")[2]


def entry_lines(module):
    text = str(module)
    return [line.strip() for line in text[text.index("\nENTRY") :].splitlines()[2:-2]]


# -- every opcode ------------------------------------------------------------------------------


@pytest.mark.parametrize("opcode", Opcode, ids=lambda opcode: opcode.value)
def test_each_opcode_builds_to_text_that_xla_prints_the_same(opcode):
    hlo = pytest.importorskip("jaxlib._hlo")
    module = build(opcode)
    assert hasattr(Builder, method_name(opcode))
    assert any(x.opcode is opcode for x in module.entry.instructions.values())
    verify(module)
    text = to_text(module, COMPLETE)
    assert to_text(parse_hlo(text), COMPLETE) == text
    assert hlo.hlo_module_from_text(text).to_string() == str(module)


def test_each_method_documents_itself():
    for opcode in CASES:
        assert getattr(Builder, method_name(opcode)).__doc__, opcode


# -- operators ---------------------------------------------------------------------------------

ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod]
LEFT = {
    "f32": np.array([7.5, -7.5, 2, -2, 0.5], np.float32),
    "s32": np.array([7, -7, 6, -6, 0], np.int32),
    "u8": np.array([7, 250, 6, 1, 0], np.uint8),
}
RIGHT = {
    "f32": np.array([2, 2, -4, -0.25, 3], np.float32),
    "s32": np.array([2, 2, -3, -4, 3], np.int32),
    "u8": np.array([2, 3, 5, 7, 9], np.uint8),
}


def run(function, *arrays):
    builder = Builder("operators")
    parameters = []
    for number, array in enumerate(arrays):
        element_type = next(t for t, dtype in DTYPES.items() if dtype == array.dtype)
        shape = array_shape(element_type, array.shape)
        parameters.append(builder.parameter(number, shape))
    module = builder.build(function(*parameters))
    verify(module)
    return evaluate(module, arrays)


@pytest.mark.parametrize("kind", LEFT)
@pytest.mark.parametrize("operate", [*ARITHMETIC, operator.truediv, operator.pow])
def test_arithmetic_means_what_it_means_in_numpy(operate, kind):
    left, right = LEFT[kind], RIGHT[kind]
    if operate is operator.pow:
        left, right = abs(left), abs(right)
    expected = operate(left, right)
    if operate is operator.truediv:
        expected = np.trunc(expected) if kind != "f32" else expected
    np.testing.assert_allclose(run(operate, left, right), expected.astype(left.dtype), rtol=1e-6)
    if operate not in (operator.truediv, operator.pow):
        scalar = int(abs(right[0]))
        got = run(lambda x: operate(x, scalar), left)
        np.testing.assert_array_equal(got, operate(left, left.dtype.type(scalar)))
        got = run(lambda x: operate(100, x), right)
        np.testing.assert_array_equal(got, operate(right.dtype.type(100), right))


@pytest.mark.parametrize(
    "operate", [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]
)
@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
def test_bit_operators_mean_what_they_mean_in_numpy(operate, dtype):
    left = np.array([-8, 7, 123456, -1]).astype(dtype)
    right = np.array([1, 2, 3, 4], dtype)
    np.testing.assert_array_equal(run(operate, left, right), operate(left, right))
    np.testing.assert_array_equal(run(operator.invert, left), ~left)


def test_unary_operators_and_comparisons():
    x, y = LEFT["f32"], RIGHT["f32"]
    np.testing.assert_array_equal(run(operator.neg, x), -x)
    np.testing.assert_array_equal(run(abs, x), abs(x))
    for name in ("eq", "ne", "ge", "gt", "le", "lt"):
        expected = getattr(operator, name)(x, y)
        got = run(lambda a, b, name=name: getattr(a, name)(b), x, y)
        np.testing.assert_array_equal(got, expected)


def test_matmul_of_vectors_matrices_and_batches():
    random = np.random.default_rng(0)
    for left, right in (((3,), (3,)), ((2, 3), (3,)), ((2, 3), (3, 4)), ((5, 2, 3), (5, 3, 4))):
        x = random.integers(-4, 4, left).astype(np.float32)
        y = random.integers(-4, 4, right).astype(np.float32)
        np.testing.assert_array_equal(run(operator.matmul, x, y), x @ y)


def test_an_array_on_the_left_leaves_the_operator_to_the_op():
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(run(lambda op: x - op, 3 * x), -2 * x)


@pytest.mark.parametrize(
    "index",
    [
        0,
        -1,
        slice(1, 3),
        slice(None, None, 2),
        (1, slice(2, None)),
        (slice(3, 1), 0),
        slice(-2, 99),
    ],
)
def test_indexing_means_what_it_means_in_numpy(index):
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    np.testing.assert_array_equal(run(lambda op: op[index], x), x[index])


def test_a_tuple_is_indexed_and_iterated_over():
    builder = Builder()
    x, y = builder.tuple(arguments(builder, F, S))
    assert (x.shape, y.shape) == (F, S)
    assert x.builder.tuple([x, y])[1].shape is S


# -- constants and broadcasting ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "element_type", "text"),
    [
        (True, None, "pred[] constant(true)"),
        (3, None, "s32[] constant(3)"),
        (2.5, None, "f32[] constant(2.5)"),
        (1j, None, "c64[] constant((0, 1))"),
        ([[1, 2]], None, "s32[1,2]{1,0} constant({ { 1, 2 } })"),
        (3, E.BF16, "bf16[] constant(3)"),
        (-8, E.S4, "s4[] constant(-8)"),
        (2**63, E.U64, "u64[] constant(9223372036854775808)"),
        ([0, 2**64 - 1], E.U64, "u64[2]{0} constant({0, 18446744073709551615})"),
        ([], None, "f32[0]{0} constant({})"),
        (np.float64(1), None, "f64[] constant(1)"),
        (np.arange(2, dtype=np.uint8), None, "u8[2]{0} constant({0, 1})"),
        (np.arange(2, dtype=ml_dtypes.bfloat16), None, "bf16[2]{0} constant({0, 1})"),
        (np.array([1.5]), E.F16, "f16[1]{0} constant({1.5})"),
    ],
)
def test_constants(value, element_type, text):
    builder = Builder()
    builder.constant(value, element_type)
    assert entry_lines(builder.build()) == [f"ROOT %constant = {text}"]


def test_a_constant_does_not_hold_on_to_the_array():
    builder, array = Builder(), np.zeros(3, np.float32)
    builder.constant(array)
    array[0] = 1
    assert evaluate(builder.build(), []).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("left", "right", "at"),
    [
        ((2, 3), (), ()),
        ((), (2, 3), ()),
        ((2, 3), (3,), (1,)),
        ((2, 3), (2,), (0,)),
        ((3,), (2, 3, 4), (1,)),
        ((2, 1), (1, 3), ()),
        ((1, 3), (2, 1, 4), (0, 1)),
        ((2, 3), (2, 3), (0, 1)),
    ],
)
def test_operands_are_broadcast(left, right, at):
    x = np.arange(np.prod(left), dtype=np.float32).reshape(left)
    y = np.arange(np.prod(right), dtype=np.float32).reshape(right) * 10
    got = run(lambda a, b: a.builder.add(a, b, at), x, y)
    low, high = (x, y) if x.ndim < y.ndim else (y, x)
    if at and low.ndim != high.ndim:
        low = low.reshape([low.shape[at.index(i)] if i in at else 1 for i in range(high.ndim)])
    np.testing.assert_array_equal(got, low + high)


def test_select_and_clamp_take_scalars():
    x = np.array([-3, 0.5, 9], np.float32)
    np.testing.assert_array_equal(run(lambda a: a.builder.clamp(0, a, 6), x), [0, 0.5, 6])
    got = run(lambda a: a.builder.select(a.lt(0), 0, a), x)
    np.testing.assert_array_equal(got, [0, 0.5, 9])


# -- called computations -----------------------------------------------------------------------


def test_the_ten_calling_operations_share_embedded_computations():
    builder = Builder("calls")
    x, i = arguments(builder, F, array_shape(E.S32))
    add = adder(builder)
    nested = builder.sub_builder("nested")
    y = nested.parameter(0, F)
    total = nested.reduce(y, 0, add)
    nested_sub = nested.build_computation(nested.add(y, total))
    builder.call([x], nested_sub)
    builder.conditional(i, [x, x], [nested_sub, nested_sub])
    builder.map([x, x], add)
    builder.reduce(x, 0, add, [0])
    builder.cross_replica_sum(x)
    builder.cross_replica_sum(x)
    module = builder.build()
    verify(module)
    assert list(module.computations) == ["add_f32", "nested", "calls"]
    callee = module.computations["add_f32"]
    callers = [
        x.opcode.value
        for c in module.computations.values()
        for x in c.instructions.values()
        if callee in x.called_computations
    ]
    assert callers == ["reduce", "map", "reduce", "all-reduce", "all-reduce"]


def test_embedded_computations_are_copies_with_names_of_their_own():
    first = Builder("first")
    sub = first.sub_computation("f", [F], lambda x: x + 1)
    modules = []
    for name in ("a", "b"):
        builder = Builder(name)
        (p0,) = arguments(builder, F)
        modules.append(builder.build(builder.call([builder.add(p0, p0)], sub)))
    for module in modules:
        verify(module)
        names = [x.name for c in module.computations.values() for x in c.instructions.values()]
        assert len(set(names)) == len(names)
        assert all(c.module is module for c in module.computations.values())
    assert modules[0].computations["f"] is not modules[1].computations["f"]
    assert sub.computation.module not in modules


def test_a_fusion_owns_its_computation():
    builder = Builder()
    (x,) = arguments(builder, F)
    sub = builder.sub_computation("fused", [F], lambda x: x.builder.reduce(x, 0, adder(x.builder)))
    builder.tuple([builder.call(x, sub), builder.fusion(x, sub), builder.fusion(x, sub)])
    module = builder.build()
    verify(module)
    assert list(module.computations) == ["add_f32", "fused", "fused.1", "fused.2", "main"]


def test_a_computation_fused_by_a_callee_is_not_shared():
    builder = Builder()
    (x,) = arguments(builder, F)
    inner = builder.sub_computation("inner", [F], lambda x: x + 1)
    outer = builder.sub_computation("outer", [F], lambda x: x.builder.fusion(x, inner))
    builder.tuple([builder.call(x, outer), builder.call(x, inner), builder.call(x, outer)])
    module = builder.build()
    verify(module)
    assert list(module.computations) == ["inner", "outer", "inner.1", "main"]


def test_a_parsed_computation_can_be_called_with_its_stack_frames():
    parsed = Builder("parsed")
    with parsed.metadata(stack_frame_id=1):
        parsed.negate(parsed.parameter(0, F))
    called = parsed.build()
    place = FileLocation(1, 1, line=7)
    called.stack_frames = StackFrames(("called.py",), ("f",), (place,), (StackFrame(1),))
    builder = Builder("caller")
    (x,) = arguments(builder, F)
    builder.call(x, SubComputation(called.entry))
    module = builder.build()
    negate = next(
        x
        for c in module.computations.values()
        for x in c.instructions.values()
        if x.opcode is Opcode.NEGATE
    )
    assert (negate.source.file, negate.source.line) == ("called.py", 7)


# -- stamps, aliases, program shape ------------------------------------------------------------


def test_stamps_hold_within_their_blocks():
    builder = Builder()
    (x,) = arguments(builder, F)
    with builder.metadata(Metadata(op_name="jit(f)/scale", source_file="f.py", source_line=3)):
        with builder.sharding(REPLICATED), builder.frontend_attributes({"b": "1"}):
            x = builder.negate(x)
        with builder.annotations(result_accuracy=ResultAccuracy("highest")):
            x = builder.tanh(x)
    builder.negate(x)
    assert entry_lines(builder.build())[1:] == [
        "%scale = f32[4,6]{1,0} negate(%p0), sharding={replicated}, "
        'frontend_attributes={b="1"}, metadata={op_name="jit(f)/scale" source_file="f.py" '
        "source_line=3}",
        "%scale.1 = f32[4,6]{1,0} tanh(%scale), result_accuracy={mode=highest}, "
        'metadata={op_name="jit(f)/scale" source_file="f.py" source_line=3}',
        "ROOT %negate = f32[4,6]{1,0} negate(%scale.1)",
    ]


def test_aliases_and_donors():
    builder = Builder()
    x, y, z = arguments(builder, F, tuple_shape([F, S]), F)
    builder.alias((0,), 0, must=True)
    builder.alias((1,), 1, (1,))
    builder.donate(2)
    module = builder.build(builder.tuple([x + z, y[1]]))
    assert module.input_output_aliases == (
        InputOutputAlias((0,), 0, (), must=True),
        InputOutputAlias((1,), 1, (1,)),
    )
    assert module.buffer_donors == (BufferDonor(2, ()),)
    verify(module)
    assert str(parse_hlo(str(module))) == str(module)


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda b: b.alias((2,), 0), "the result: .* has no element at index"),
        (lambda b: b.alias((0,), 2), "no parameter 2"),
        (lambda b: b.alias((1,), 0), "cannot be written over"),
        (lambda b: (b.alias((0,), 0), b.alias((0,), 0)), "second time"),
        (lambda b: (b.alias((0,), 0), b.donate(0)), "aliased or donated already"),
        (lambda b: b.donate(0, (1,)), "no element at index"),
    ],
)
def test_aliases_that_do_not_fit_are_refused(declare, message):
    builder = Builder()
    x, y = arguments(builder, F, S)
    builder.tuple([x, y])
    declare(builder)
    with pytest.raises(BuildError, match=message):
        builder.build()


def test_program_shape_and_root():
    builder = Builder()
    x, y = arguments(builder, F, S)
    total = x + 1
    builder.negate(y)
    assert str(builder.program_shape()) == "(p0: f32[4,6], p1: s32[4,6]) -> s32[4,6]"
    assert builder.program_shape(total).result is F
    assert builder.build(total).entry.root is total.instruction


# -- mistakes ----------------------------------------------------------------------------------

MISTAKES = {
    "add: the operands differ in size: f32[4,6], f32[4,5]": lambda b, x: x + x[:, 1:],
    "add: f32[6] has a lower rank than 2": lambda b, x: b.add(x, x[0]),
    "add: the operands differ in type": lambda b, x: x + b.iota(S),
    "dot: contracting dimension 1": lambda b, x: b.dot(x, x),
    "dot: contracting dimensions {1} and {}": lambda b, x: b.dot(x, x, DotDimensions((1,), ())),
    "constant: 300 is out of range for s8, -128 to 127": lambda b, x: b.constant(300, E.S8),
    "constant: 1.5 has no place in s32": lambda b, x: b.iota(S) + 1.5,
    "constant: 18446744073709551616 is out of range for s32": lambda b, x: b.constant(2**64),
    "constant: [0, -1] is out of range for u64": lambda b, x: b.constant([0, -1], E.U64),
    "constant: [1.5, 9.22": lambda b, x: b.constant([1.5, 2**63], E.U64),
    "constant: 'a' is not a number": lambda b, x: b.constant("a"),
    "slice: range [0:9] is not within": lambda b, x: b.slice(x, [0, 0], [4, 9]),
    "slice: 1 starts, 2 limits": lambda b, x: b.slice(x, [0], [4, 9]),
    "index 4 is out of range for f32[4,6]": lambda b, x: x[4],
    "transpose: dimensions {0,0}": lambda b, x: b.transpose(x, [0, 0]),
    "reshape: f32[4,6] has 24 elements": lambda b, x: b.reshape(x, [5, 5]),
    "reduce: the reducer must take 2 parameters": lambda b, x: b.reduce(
        x, 0, b.sub_computation("f", [F], lambda x: x)
    ),
    "while: the condition must return pred[], not f32[4,6]": lambda b, x: b.while_(
        *[b.sub_computation("f", [F], lambda x: x)] * 2, x
    ),
    "convert: the attributes must be Attributes, not Dimensions": lambda b, x: b.emit(
        Opcode.CONVERT, [x], Dimensions(()), shape=F
    ),
    "convert: the result shape of convert must be declared": lambda b, x: b.emit(
        Opcode.CONVERT, [x]
    ),
    "negate: the result must be f32[4,6], but is s32[4,6]": lambda b, x: b.emit(
        Opcode.NEGATE, [x], shape=S
    ),
    "parameter: parameter 0 exists already": lambda b, x: b.parameter(0, F),
    "add: operand 1, %p0, belongs to builder 'other', not to 'main'": lambda b, x: (
        x + Builder("other").parameter(0, F)
    ),
    "the root %p0 of 'f' belongs to builder 'main'": lambda b, x: b.sub_computation(
        "f", [F], lambda y: x
    ),
    "%compare has no value yet": lambda b, x: bool(x.lt(0)),
    "only tuples can be iterated over": lambda b, x: list(x),
    "all-gather: ": lambda b, x: b.all_gather(x, 5, 2),
    "parameter 2, but none 1": lambda b, x: (b.parameter(2, F), b.build(x)),
}


@pytest.mark.parametrize("message", MISTAKES, ids=lambda message: message.split(":")[0])
def test_mistakes_name_the_line_of_the_caller(message):
    builder = Builder()
    x = builder.parameter(0, F)
    with pytest.raises(BuildError) as caught:
        MISTAKES[message](builder, x)
    assert message in str(caught.value)
    line = MISTAKES[message].__code__.co_firstlineno
    assert caught.value.file.endswith(HERE)
    assert line <= caught.value.line <= line + 2
    assert str(caught.value).startswith(f"{caught.value.file}:{caught.value.line}: ")


def test_a_mistake_leaves_no_trace():
    builder = Builder()
    (x,) = arguments(builder, F)
    sub = builder.sub_computation("f", [S], lambda x: x)
    with pytest.raises(BuildError):
        builder.call([x], sub)
    module = builder.build(x)
    assert list(module.computations) == ["main"]
    assert len(module.entry.instructions) == 1


def test_a_built_builder_takes_nothing_more():
    builder = Builder()
    (x,) = arguments(builder, F)
    assert isinstance(builder.build(), Module)
    for action in (lambda: x + 1, builder.build, builder.build_computation):
        with pytest.raises(BuildError, match="built already"):
            action()
    with pytest.raises(BuildError, match="no operation to return"):
        Builder().build()


def test_names_are_legal_and_unique():
    builder = Builder("f32")
    builder.parameter(0, F, "x y")
    builder.parameter(1, F, "x y")
    builder.parameter(2, P, "__p")
    text = str(builder.build())
    assert "ENTRY %f32_ (x_y: f32[4,6], x_y.1: f32[4,6], a_p: pred[4,6])" in text
    assert str(parse_hlo(text)) == text


def test_equal_programs_give_equal_bytes_in_every_process():
    program = (
        "from tests.builder_cases import CASES, build\n"
        "import hashlib\n"
        "print(hashlib.sha256(''.join([str(build(o)) for o in CASES]).encode()).hexdigest())"
    )
    path = [p for p in sys.path if p]
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONPATH": ":".join(path), "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]


def test_long_chains_are_built_without_recursion():
    builder = Builder()
    (x,) = arguments(builder, array_shape(ElementType.S32))
    for _ in range(5000):
        x = x + x
    assert builder.build(x).instruction_count == 5001
