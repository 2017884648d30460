"""Calls of Python functions: arrays of all types and layouts in, checked results out."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowtide.client.executable import compile_module
from lowtide.evaluator import evaluate
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.host_calls.functions import HostFunction
from lowtide.ir import Module, UnsupportedOpError
from lowtide.ir.errors import LowtideError
from lowtide.ir.literal import DTYPES
from lowtide.ir.shape import array_shape
from lowtide.options import Options

PLAIN = Options(cache=False)


def module(function: HostFunction, operands: Sequence[str], results: Sequence[str]) -> Module:
    """A module that hands its parameters to a function, and returns what it gives back."""
    lines = [f"p{i} = {shape} parameter({i})" for i, shape in enumerate(operands)]
    names = ", ".join([f"p{i}" for i in range(len(operands))])
    lines.append(
        f"ROOT c = ({', '.join(results)}) custom-call({names}), "
        f'custom_call_target="lowtide_python_function", api_version=API_VERSION_TYPED_FFI, '
        f"backend_config={{number = {function.number} : ui64}}"
    )
    return parse_hlo("HloModule m\nENTRY main {\n" + "\n".join(lines) + "\n}\n")


def both(module: Module, *arrays: Any) -> list[Any]:
    """What native code returns, which is what the evaluator does."""
    found = compile_module(module, PLAIN)(*arrays)
    expected = evaluate(module, arrays)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(x, y)
    return list(found)


@pytest.mark.parametrize("element_type", DTYPES, ids=lambda x: x.value)
@pytest.mark.parametrize("sizes", [(), (0, 3), (2, 3), (2, 3, 4)], ids=str)
def test_arrays_of_every_type_go_through(element_type: Any, sizes: tuple[int, ...]) -> None:
    dtype = DTYPES[element_type]
    shape = array_shape(element_type, sizes)
    array = (np.arange(np.prod(sizes, dtype=int)).reshape(sizes) % 2).astype(dtype)
    seen = []

    def function(x: Any) -> tuple[Any]:
        seen.append(x)
        return (x,)

    held = HostFunction(function)
    made = module(held, [str(shape)], [str(shape)])
    (found,) = compile_module(made, PLAIN)(array)
    (other,) = evaluate(made, [array])
    assert other.tobytes() == array.tobytes()
    assert found.dtype == dtype and found.tobytes() == array.tobytes()
    assert all(x.shape == sizes and x.dtype == dtype and x.flags.c_contiguous for x in seen)


def test_layouts_say_where_elements_lie_and_nothing_else() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    held = HostFunction(lambda x: (x, x.T))
    text = str(module(held, ["f32[2,3]{0,1}"], ["f32[2,3]{1,0}", "f32[3,2]{0,1}"]))
    same, turned = both(parse_hlo(text), x)
    np.testing.assert_array_equal(same, x)
    np.testing.assert_array_equal(turned, x.T)


def test_what_a_function_is_given_stays_as_it_is() -> None:
    kept: list[Any] = []
    held = HostFunction(lambda x: (kept.append(x), (x * 2,))[1])
    run = compile_module(module(held, ["f32[4]"], ["f32[4]"]), PLAIN)
    for n in range(3):
        run(np.full(4, n, np.float32))
    gc.collect()
    assert [x[0] for x in kept] == [0, 1, 2]


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ((), "number of outputs .* expected 1, found 0"),
        ((np.zeros(3, np.float32),), r"output shape .* expected \(4,\), found \(3,\)"),
        ((np.zeros(4, np.int32),), "output dtype .* expected float32, found int32"),
    ],
)
def test_results_of_other_types_are_refused(result: Any, message: str) -> None:
    held = HostFunction(lambda x: result, "mine")
    run = compile_module(module(held, ["f32[4]"], ["f32[4]"]), PLAIN)
    with pytest.raises(LowtideError, match=message):
        run(np.zeros(4, np.float32))


def test_a_function_that_nobody_holds_is_refused_in_one_line() -> None:
    held = HostFunction(lambda x: (x,))
    text = str(module(held, ["f32[4]"], ["f32[4]"]))
    run = compile_module(parse_hlo(text), PLAIN)
    other = text.replace(str(held.number), "12")
    del held
    gc.collect()
    np.testing.assert_array_equal(run(np.ones(4, np.float32))[0], 1)  # The program holds it.
    del run
    gc.collect()
    for lost in (text, other):
        for use in (
            lambda x: compile_module(x, PLAIN),
            lambda x: evaluate(x, [np.ones(4, np.float32)]),
        ):
            with pytest.raises(UnsupportedOpError, match=r"%c.*not in this process") as error:
                use(parse_hlo(lost))
            assert "\n" not in str(error.value)


def test_such_a_program_is_neither_stored_nor_cached() -> None:
    held = HostFunction(lambda x: (x + 1,))
    made = module(held, ["f32[4]"], ["f32[4]"])
    run = compile_module(made)
    with pytest.raises(LowtideError, match=r"%c calls a Python function"):
        run.serialize()
    assert not compile_module(made).making.was_cached


def test_two_functions_are_two_computations() -> None:
    plus, times = HostFunction(lambda x: (x + 1,)), HostFunction(lambda x: (x * 7,))
    call = (
        'custom-call(p), custom_call_target="lowtide_python_function", '
        "api_version=API_VERSION_TYPED_FFI, backend_config={{number = {} : ui64}}"
    )
    text = f"""
HloModule m
ENTRY main {{
  p = f32[4] parameter(0)
  a = f32[4] {call.format(plus.number)}
  b = f32[4] {call.format(times.number)}
  ROOT c = f32[4] add(a, b)
}}
"""
    x = np.arange(4, dtype=np.float32)
    run = compile_module(parse_hlo(text), PLAIN)
    np.testing.assert_array_equal(run(x), x + 1 + x * 7)


def test_a_pure_call_runs_once_or_not_at_all() -> None:
    calls: list[int] = []

    def function(x: Any) -> tuple[Any]:
        calls.append(1)
        return (x + 1,)

    held = HostFunction(function)
    call = (
        'custom-call(p), custom_call_target="lowtide_python_function", '
        f"api_version=API_VERSION_TYPED_FFI, backend_config={{number = {held.number} : ui64}}"
    )
    text = f"""
HloModule m
ENTRY main {{
  p = f32[4] parameter(0)
  unread = f32[4] {call}
  e = f32[4] {call}
  n = f32[4] negate(e)
  s = f32[4] sine(e)
  ROOT r = (f32[4], f32[4]) tuple(n, s)
}}
"""
    compile_module(parse_hlo(text), PLAIN)(np.ones(4, np.float32))
    assert len(calls) == 1
    calls.clear()
    dead = text.replace("(f32[4], f32[4]) tuple(n, s)", "f32[4] negate(p)")
    compile_module(parse_hlo(dead), PLAIN)(np.ones(4, np.float32))
    assert not calls


def test_checked_calls_compare_pure_functions_and_spare_effects() -> None:
    x = np.arange(4, dtype=np.float32)
    calls: list[int] = []

    def function(x: Any) -> tuple[Any]:
        calls.append(1)
        return (x * 3,)

    held = HostFunction(function)
    made = module(held, ["f32[4]"], ["f32[4]"])
    checked = Options(cache=False, check="first")
    run = compile_module(made, checked)
    np.testing.assert_array_equal(run(x)[0], x * 3)
    assert len(calls) > 1
    calls.clear()
    run(x)
    assert len(calls) == 1
    calls.clear()
    text = str(made).replace("api_version", "custom_call_has_side_effect=true, api_version")
    run = compile_module(parse_hlo(text), checked)
    with pytest.warns(RuntimeWarning, match="%c has a side effect"):
        np.testing.assert_array_equal(run(x)[0], x * 3)
    assert len(calls) == 1


def test_a_function_that_changes_its_mind_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # The failure leaves a file.
    answers = iter(range(100))
    held = HostFunction(lambda x: (x + next(answers),))
    run = compile_module(module(held, ["f32[4]"], ["f32[4]"]), Options(cache=False, check="first"))
    with pytest.raises(LowtideError, match="returns something else"):
        run(np.zeros(4, np.float32))
