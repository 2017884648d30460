"""Foreign functions as targets of custom calls: call frames, services, older functions."""

from __future__ import annotations

import ctypes
from ctypes import c_float, c_int, c_int64, c_void_p
from itertools import count
from threading import Timer
from typing import Any

import numpy as np
import pytest

from lowtide.client.executable import compile_module, deserialize_executable
from lowtide.evaluator import evaluate
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.host_calls.foreign import targets
from lowtide.host_calls.foreign.structures import (
    DATA_TYPES,
    FRAME_BYTES,
    FfiBuffer,
    FfiBytes,
    FfiErrorArguments,
    FfiFrame,
    FfiFutureArguments,
    FfiMemory,
    FfiScalar,
    FfiTask,
)
from lowtide.host_calls.foreign.targets import ForeignTarget, register_target
from lowtide.ir import Module, UnsupportedOpError
from lowtide.ir.element_type import ElementType
from lowtide.ir.errors import LowtideError
from lowtide.options import Options

PLAIN = Options(cache=False)
X = np.arange(6, dtype=np.float32).reshape(2, 3)
names = count()
kept: list[Any] = []


def registered(function: Any, *, typed: bool = True, stages: tuple[str, ...] = ("execute",)) -> str:
    """The name of a new target for a callback of ctypes."""
    kept.append(function)
    name = f"target{next(names)}"
    address = ctypes.cast(function, c_void_p).value or 0
    register_target(name, ForeignTarget(dict.fromkeys(stages, address), typed))
    return name


def module(target: str, config: str = "{}", extra: str = "", layout: str = "{1,0}") -> Module:
    """A module that calls a target on a sum, of which the sine is returned, too."""
    return parse_hlo(f"""
HloModule m, entry_computation_layout={{(f32[2,3]{{1,0}})->(f32[2,3]{{1,0}}, f32[2,3]{{1,0}})}}
ENTRY main {{
  p = f32[2,3]{{1,0}} parameter(0)
  a = f32[2,3]{{1,0}} add(p, p)
  c = f32[2,3]{{1,0}} custom-call(a), custom_call_target="{target}", \
operand_layout_constraints={{f32[2,3]{layout}}}, api_version=API_VERSION_TYPED_FFI, \
backend_config={config}{extra}
  s = f32[2,3]{{1,0}} negate(a)
  ROOT r = (f32[2,3]{{1,0}}, f32[2,3]{{1,0}}) tuple(c, s)
}}
""")


HANDLER = ctypes.CFUNCTYPE(c_void_p, c_void_p)


def service(frame: FfiFrame, number: int, arguments: Any) -> Any:
    """Call a service of the table by its number."""
    table = (c_void_p * (6 + number + 1)).from_address(frame.api)
    return HANDLER(table[6 + number])(ctypes.addressof(arguments))


def item(items: int, number: int, kind: Any) -> Any:
    pointer = (c_void_p * (number + 1)).from_address(items)[number]
    return kind.from_address(pointer)


def copied(frame: FfiFrame, factor: float = 1.0) -> None:
    """Set the result of six numbers to the operand times a factor."""
    source = item(frame.operands.items, 0, FfiBuffer)
    target = item(frame.results.items, 0, FfiBuffer)
    given = (c_float * 6).from_address(source.data)
    (c_float * 6).from_address(target.data)[:] = [factor * x for x in given]


def failing(frame: FfiFrame, message: bytes) -> Any:
    return service(frame, 0, FfiErrorArguments(0, None, message, 3))


def test_a_frame_has_buffers_types_sizes_and_sorted_attributes() -> None:
    seen: list[Any] = []

    @HANDLER
    def handler(address: int) -> Any:
        frame = FfiFrame.from_address(address)
        buffer = item(frame.operands.items, 0, FfiBuffer)
        sizes = list((c_int64 * buffer.rank).from_address(buffer.sizes))
        kinds = list((c_int * frame.attributes.count).from_address(frame.attributes.kinds))
        keys = [item(frame.attributes.names, i, FfiBytes).data for i in range(len(kinds))]
        scale = item(frame.attributes.items, 1, FfiScalar)
        factor = c_float.from_address(scale.value).value
        seen.append((frame.struct_size, frame.stage, buffer.type, sizes, kinds, keys, scale.type))
        seen.append(item(frame.attributes.items, 0, FfiBytes).data)
        copied(frame, factor)
        return None

    config = '{scale = 2.5 : f32, name = "mine"}'
    made = module(registered(handler), config)
    run = compile_module(made, PLAIN)
    np.testing.assert_array_equal(run(X)[0], 5 * X)
    f32 = DATA_TYPES[ElementType.F32]
    frame = (FRAME_BYTES, 3, f32, [2, 3], [4, 3], [b"name", b"scale"], f32)
    assert seen == [frame, b"mine"]
    np.testing.assert_array_equal(evaluate(made, [X])[0], 5 * X)


def test_functions_get_memory_tasks_and_may_answer_later() -> None:
    @HANDLER
    def handler(address: int) -> Any:
        frame = FfiFrame.from_address(address)
        memory = FfiMemory(0, None, frame.context, 1000, 256)
        assert service(frame, 9, memory) is None and memory.data % 256 == 0
        ctypes.memset(memory.data, 1, 1000)
        ran: list[int] = []
        task = ctypes.CFUNCTYPE(None, c_void_p)(ran.append)
        at = ctypes.cast(task, c_void_p).value
        assert service(frame, 11, FfiTask(0, None, frame.context, at, 7)) is None and ran == [7]
        future = FfiFutureArguments()
        assert service(frame, 13, future) is None
        frame.future = future.future

        def finish() -> None:
            copied(frame)
            service(frame, 14, future)

        Timer(0.05, finish).start()
        return None

    np.testing.assert_array_equal(compile_module(module(registered(handler)), PLAIN)(X)[0], 2 * X)


def test_errors_at_once_and_later_end_the_call_with_their_text() -> None:
    @HANDLER
    def at_once(address: int) -> Any:
        return failing(FfiFrame.from_address(address), b"not today")

    @HANDLER
    def later(address: int) -> Any:
        frame = FfiFrame.from_address(address)
        future = FfiFutureArguments()
        service(frame, 13, future)
        frame.future = future.future
        future.error = failing(frame, b"not today")
        service(frame, 15, future)
        return None

    @HANDLER
    def state(address: int) -> Any:
        return service(FfiFrame.from_address(address), 8, FfiMemory())

    for function, text in ((at_once, "not today"), (later, "not today"), (state, "State_Get")):
        name = registered(function)
        run = compile_module(module(name), PLAIN)
        for _ in range(2):
            with pytest.raises(LowtideError, match=f"{name} failed: .*{text}"):
                run(X)


def test_operands_come_in_the_layouts_of_the_call() -> None:
    @HANDLER
    def handler(address: int) -> Any:
        copied(FfiFrame.from_address(address))
        return None

    made = module(registered(handler), layout="{0,1}")
    expected = (2 * X).T.reshape(2, 3)  # The bytes, column by column, read row by row.
    np.testing.assert_array_equal(compile_module(made, PLAIN)(X)[0], expected)


def test_an_operand_of_a_call_with_two_results_has_the_layout_of_the_call() -> None:
    @HANDLER
    def handler(address: int) -> Any:
        copied(FfiFrame.from_address(address))
        return None

    made = parse_hlo(f"""
HloModule m
ENTRY main {{
  p = f32[6] parameter(0)
  a = f32[2,3]{{0,1}} reshape(p)
  ROOT c = (f32[2,3]{{1,0}}, f32[2]{{0}}) custom-call(a), api_version=API_VERSION_TYPED_FFI, \
custom_call_target="{registered(handler)}", operand_layout_constraints={{f32[2,3]{{0,1}}}}
}}
""")
    expected = X.T.reshape(2, 3)  # The bytes, column by column, read row by row.
    np.testing.assert_array_equal(compile_module(made, PLAIN)(X.reshape(6))[0], expected)


def test_a_result_may_be_the_memory_of_an_operand() -> None:
    @HANDLER
    def handler(address: int) -> Any:
        frame = FfiFrame.from_address(address)
        source = item(frame.operands.items, 0, FfiBuffer)
        assert source.data == item(frame.results.items, 0, FfiBuffer).data
        copied(frame, 3)
        return None

    made = module(registered(handler), extra=", output_to_operand_aliasing={{}: (0, {})}")
    for found in (compile_module(made, PLAIN)(X), evaluate(made, [X])):
        np.testing.assert_array_equal(found[0], 6 * X)
        np.testing.assert_array_equal(found[1], -2 * X)


@pytest.mark.parametrize("version", ["API_VERSION_ORIGINAL", "API_VERSION_STATUS_RETURNING"])
def test_older_functions_take_pointers(version: str) -> None:
    has_status = version != "API_VERSION_ORIGINAL"
    more = (c_void_p, ctypes.c_size_t, c_void_p) if has_status else ()
    texts: list[bytes] = []

    @ctypes.CFUNCTYPE(None, c_void_p, c_void_p, *more)
    def function(result: int, operands: int, *rest: Any) -> None:
        source = c_void_p.from_address(operands).value
        assert source
        (c_float * 6).from_address(result)[:] = list((c_float * 6).from_address(source))
        if rest:
            texts.append(ctypes.string_at(rest[0], rest[1]))

    name = registered(function, typed=False)
    text = str(module(name, '"hello"')).replace("API_VERSION_TYPED_FFI", version)
    np.testing.assert_array_equal(compile_module(parse_hlo(text), PLAIN)(X)[0], 2 * X)
    assert texts == ([b"hello"] if has_status else [])
    with pytest.raises(UnsupportedOpError, match="without a call frame"):
        compile_module(module(name), PLAIN)


def test_a_status_of_an_older_function_is_an_error() -> None:
    message = ctypes.create_string_buffer(b"no such thing")

    @ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_void_p, ctypes.c_size_t, c_void_p)
    def function(result: int, operands: int, text: int, size: int, status: int) -> None:
        (ctypes.c_uint64 * 2).from_address(status)[:] = [ctypes.addressof(message), 13]

    text = str(module(registered(function, typed=False)))
    made = parse_hlo(text.replace("API_VERSION_TYPED_FFI", "API_VERSION_STATUS_RETURNING"))
    with pytest.raises(LowtideError, match="failed: no such thing"):
        compile_module(made, PLAIN)(X)


def test_what_cannot_be_called_is_refused_in_one_line() -> None:
    @HANDLER
    def handler(address: int) -> Any:
        return None

    staged = registered(handler, stages=("instantiate", "execute"))
    name = registered(handler)
    for made, text in (
        (module("nobody"), 'target "nobody".*register_ffi_target'),
        (module(staged), "stages execute, instantiate"),
        (module(name, "{a = @b}"), "attributes of the call, at character 4"),
    ):
        with pytest.raises(UnsupportedOpError, match=rf"%c.*{text}") as error:
            compile_module(made, PLAIN)
        assert "\n" not in str(error.value)


def test_a_stored_program_finds_its_function_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    @HANDLER
    def handler(address: int) -> Any:
        copied(FfiFrame.from_address(address), 2)
        return None

    name = registered(handler)
    data = compile_module(module(name), PLAIN).serialize()
    np.testing.assert_array_equal(deserialize_executable(data)(X)[0], 4 * X)
    monkeypatch.setattr(targets, "_targets", {})
    with pytest.raises(UnsupportedOpError, match=f'registered for the target "{name}"'):
        deserialize_executable(data)


def test_functions_of_jaxlib_run_by_our_frames() -> None:
    jax = pytest.importorskip("jax")
    import lowtide

    lower, upper = np.array([0, 1, 2, 1], np.float32), np.array([1, 1, 3, 0], np.float32)
    middle, right = np.array([5, 6, 7, 8], np.float32), np.ones((4, 2), np.float32)
    found = lowtide.jit(jax.lax.linalg.tridiagonal_solve)(lower, middle, upper, right)
    matrix = np.diag(middle) + np.diag(lower[1:], -1) + np.diag(upper[:-1], 1)
    np.testing.assert_allclose(matrix @ found, right, atol=1e-5)
