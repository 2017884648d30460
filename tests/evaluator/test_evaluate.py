import gc
import subprocess
import sys
import weakref

import ml_dtypes
import numpy as np
import pytest

from lowtide.evaluator import TOKEN, evaluate
from lowtide.evaluator.registry import handler_of, handlers
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import InputError, Opcode

TWO = """HloModule m
ENTRY e {
  a = bf16[2] parameter(0)
  t = (s32[], (f32[3], pred[2])) parameter(1)
  i = s32[] get-tuple-element(t), index=0
  u = (bf16[2], s32[]) tuple(a, i)
  ROOT r = (s32[], (bf16[2], s32[])) tuple(i, u)
}"""


def arguments():
    return [
        np.array([1, 2], ml_dtypes.bfloat16),
        np.array(5, np.int32),
        np.zeros(3, np.float32),
        np.zeros(2, np.bool_),
    ]


def test_every_opcode_has_one_handler():
    assert set(handlers()) == set(Opcode) - {Opcode.PARAMETER, Opcode.CONSTANT}
    assert [x for x in Opcode if handler_of(x) is None] == [
        x for x in Opcode if x not in handlers()
    ]


LOADING = """
import sys
from lowtide.analysis.minimum_cut import minimum_cut
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.transforms.constant_folding import fold_constants

minimum_cut([(0, 2, 1), (2, 1, 1)], 0, 1)
two = "x = s32[] constant(1)\\n y = s32[] constant(2)"
fold_constants(parse_hlo(f"HloModule m\\nENTRY e {{\\n {two}\\n ROOT z = s32[] add(x, y)\\n}}"))
rooms = [x for x in sys.modules if x.startswith(("lowtide.evaluator.", "ortools"))]
assert "lowtide.evaluator.elementwise" in rooms
print([x for x in rooms if "collective" in x or "custom_call" in x or "ortools" in x])
"""


def test_what_is_not_computed_with_is_not_loaded():
    ended = subprocess.run(
        [sys.executable, "-c", LOADING], capture_output=True, text=True, check=True
    )
    assert ended.stdout == "[]\n"


def test_the_result_mirrors_the_shape_of_the_root():
    i, (a, j) = evaluate(parse_hlo(TWO), arguments())
    assert int(i) == int(j) == 5
    assert a.astype(float).tolist() == [1, 2]


def test_a_root_that_is_an_array_is_an_array_and_owned():
    module = parse_hlo("HloModule m\nENTRY e {\n ROOT p = f32[2] parameter(0)\n}")
    given = np.ones(2, np.float32)
    found = evaluate(module, [given])
    found[0] = 7
    assert given.tolist() == [1, 1]


def test_unsigned_arrays_are_read_as_the_type_of_the_parameter():
    given = arguments()
    given[0] = given[0].view(np.uint16)
    given[1] = given[1].view(np.uint32)
    given[3] = np.array([1, 0], np.uint8)
    i, (a, _) = evaluate(parse_hlo(TWO), given)
    assert a.dtype == ml_dtypes.bfloat16
    assert a.astype(float).tolist() == [1, 2]
    assert int(i) == 5


def test_narrow_types_take_bytes():
    text = "HloModule m\nENTRY e {\n p = s4[2] parameter(0)\n ROOT r = s4[2] negate(p)\n}"
    found = evaluate(parse_hlo(text), [np.array([1, 15], np.uint8)])
    assert found.astype(int).tolist() == [-1, 1]


def test_python_numbers_are_converted():
    given = arguments()
    given[1] = 5
    i, _ = evaluate(parse_hlo(TWO), given)
    assert i.dtype == np.int32


WRONG = {
    "too few": (lambda x: x[:2], r"4 arguments, found 2.*parameter 1 \(%t\) at index \{1,0\}"),
    "too many": (lambda x: [*x, x[0]], r"4 arguments, found 5"),
    "shape": (
        lambda x: [*x[:2], np.zeros(4, np.float32), x[3]],
        r"parameter 1 \(%t\) at index \{1,0\} needs f32\[3\] .*found float32\[4\]",
    ),
    "dtype": (
        lambda x: [np.zeros(2, np.float32), *x[1:]],
        r"parameter 0 \(%a\) needs bf16\[2\] \(dtype bfloat16\), found float32\[2\]",
    ),
    "signed": (
        lambda x: [np.zeros(2, np.int16), *x[1:]],
        r"parameter 0 \(%a\) needs bf16\[2\] \(dtype bfloat16\), found int16\[2\]",
    ),
    "number": (lambda x: [x[0], 2**80, *x[2:]], r"parameter 1 \(%t\) at index \{0\} cannot be"),
    "complex": (lambda x: [x[0], 1j, *x[2:]], r"cannot be 1j: it is no complex number"),
    "infinity": (lambda x: [x[0], float("inf"), *x[2:]], r"cannot be inf: it is an integer"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_are_named(case):
    change, message = WRONG[case]
    with pytest.raises(InputError, match=message):
        evaluate(parse_hlo(TWO), change(arguments()))


def test_tokens_take_no_argument():
    text = """HloModule m
    ENTRY e {
      k = token[] parameter(0)
      p = f32[] parameter(1)
      ROOT t = (token[], f32[]) tuple(k, p)
    }"""
    token, value = evaluate(parse_hlo(text), [np.float32(3)])
    assert token is TOKEN
    assert float(value) == 3


def test_an_argument_may_be_smaller_than_a_dynamic_bound():
    text = """HloModule m
    ENTRY e {
      p = f32[<=4] parameter(0)
      ROOT r = f32[<=4] negate(p)
    }"""
    assert evaluate(parse_hlo(text), [np.ones(2, np.float32)]).tolist() == [-1, -1]
    with pytest.raises(InputError, match="found float32"):
        evaluate(parse_hlo(text), [np.ones(5, np.float32)])


def test_a_long_chain_needs_neither_stack_nor_memory(monkeypatch):
    count = 10_000
    lines = [f"x{i} = f32[64] negate(x{i - 1})" for i in range(1, count)]
    body = "\n".join(
        ["x0 = f32[64] parameter(0)", *lines, f"ROOT r = f32[64] negate(x{count - 1})"]
    )
    module = parse_hlo(f"HloModule m\nENTRY e {{\n{body}\n}}")
    alive = most = 0

    def counted(interpreter, instruction, operands):
        nonlocal alive, most
        result = np.negative(operands[0])
        alive += 1
        most = max(most, alive)
        weakref.finalize(result, released)
        return result

    def released():
        nonlocal alive
        alive -= 1

    monkeypatch.setattr("lowtide.evaluator.program.handler_of", lambda opcode: counted)
    found = evaluate(module, [np.ones(64, np.float32)])
    gc.collect()
    assert found.tolist() == [1] * 64
    assert 0 < most <= 3


def test_a_changed_computation_is_compiled_again():
    text = "HloModule m\nENTRY e {\n p = f32[] parameter(0)\n ROOT r = f32[] negate(p)\n}"
    module = parse_hlo(text)
    assert float(evaluate(module, [1.0])) == -1
    entry = module.entry
    entry.root = entry.add(Opcode.ABS, entry.root.shape, (entry.root,))
    assert float(evaluate(module, [1.0])) == 1
