"""Arguments and results of calls: what is taken as it is, what is copied, what is refused."""

import random

import ml_dtypes
import numpy as np
import pytest
from tests.runtime.cpu.handmade import ADD, MULTIPLY, Draft, kernel, vector

from lowtide.evaluator.evaluate import evaluate
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir.buffer import NO_BYTES, AllocationKind, BufferSlice
from lowtide.ir.element_type import ElementType
from lowtide.ir.errors import InputError
from lowtide.ir.given_arrays import check_count
from lowtide.ir.shape import Layout, array_shape
from lowtide.ir.thunk import CopyThunk
from lowtide.runtime.cpu.arguments import Argument, as_array, in_memory_order
from lowtide.runtime.cpu.call import CallOptions, LinkedExecutable, load
from lowtide.runtime.cpu.program import Memory

TYPES = [ElementType.F32, ElementType.BF16, ElementType.S64, ElementType.PRED, ElementType.S4]


def sum_of_two(**options: object) -> tuple[Draft, LinkedExecutable]:
    draft = Draft()
    a, b, c = draft.argument(), draft.argument(), draft.temporary()
    draft.result(c)
    return draft, load(draft.program([kernel(ADD, a, b, c)]), options=CallOptions(**options))


def copying(shape: object) -> LinkedExecutable:
    """A program that returns its argument."""
    draft = Draft()
    a = draft.argument(shape)
    to = draft.temporary(shape.nbytes)
    draft.result(to if shape.nbytes else NO_BYTES, shape)
    return load(draft.program([CopyThunk("copy", a, to)] if shape.nbytes else []))


class OnlyDLPack:
    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: object) -> object:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


class OnlyArray:
    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return self.array


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x,
        lambda x: np.repeat(x, 2)[::2],
        lambda x: x[::-1].copy()[::-1],
        lambda x: memoryview(x),
        lambda x: x.tobytes() and np.frombuffer(x.tobytes(), np.float32),
        lambda x: np.frombuffer(b"?" + x.tobytes(), np.uint8)[1:].view(np.float32),
        lambda x: x.view(np.uint32),
        lambda x: OnlyDLPack(x),
        lambda x: OnlyArray(x),
        lambda x: x.view(np.recarray),
        lambda x: x.view(np.dtype("f4", metadata={"key": 1})),
    ],
)
def test_anything_that_shows_an_array_is_taken(make: object) -> None:
    draft, run = sum_of_two()
    x = np.random.default_rng(0).random(draft.count, np.float32)
    given = make(x)
    np.testing.assert_array_equal(run(given, x), x + x)
    np.testing.assert_array_equal(run(x, given), x + x)


def test_arrays_that_are_not_aligned_are_copied() -> None:
    count = 8
    for element_type, bytes_ in ((ElementType.F32, 4), (ElementType.C128, 16)):
        dtype = np.dtype({4: "f4", 16: "c16"}[bytes_])
        room = np.zeros(count * bytes_ + 64, np.uint8)
        start = -room.ctypes.data % 64 + bytes_ // 2
        odd = room[start : start + count * bytes_].view(dtype)
        wanted = Argument("x", array_shape(element_type, (count,)), 0)
        assert in_memory_order(wanted, odd).ctypes.data % bytes_ == 0
        even = room[start + bytes_ // 2 :][: count * bytes_].view(dtype)
        assert in_memory_order(wanted, even).ctypes.data == even.ctypes.data


def test_jax_arrays_are_taken() -> None:
    jnp = pytest.importorskip("jax.numpy")
    draft, run = sum_of_two()
    x = jnp.arange(draft.count, dtype=jnp.float32)
    np.testing.assert_array_equal(run(x, x), 2 * np.arange(draft.count, dtype=np.float32))


@pytest.mark.parametrize("element_type", TYPES)
@pytest.mark.parametrize("sizes", [(), (1,), (0,), (3, 0, 2), (2, 3, 5), (1,) * 8, (2,) * 8])
def test_all_shapes_and_layouts_come_back(element_type: ElementType, sizes: tuple) -> None:
    order = list(range(len(sizes)))
    random.Random(len(sizes)).shuffle(order)
    for layout in (None, Layout(tuple(order))):
        shape = array_shape(element_type, sizes, layout)
        given = np.arange(shape.element_count).reshape(sizes)
        argument = as_array(
            Argument("x", shape, 0), given.astype(as_dtype(element_type)).reshape(sizes)
        )
        result = copying(shape)(argument)
        assert result.dtype == argument.dtype and result.shape == sizes
        np.testing.assert_array_equal(result, argument)


def as_dtype(element_type: ElementType) -> np.dtype:
    return {"bf16": ml_dtypes.bfloat16, "s4": ml_dtypes.int4}.get(
        element_type.value,
        np.dtype({"f32": "f4", "s64": "i8", "pred": "?"}.get(element_type, "f4")),
    )


HLO = """HloModule m
ENTRY %e (x: f32[2,3], y: bf16[4], z: (s32[], pred[2])) -> f32[2,3] {
  %y = bf16[4] parameter(1)
  %z = (s32[], pred[2]) parameter(2)
  ROOT %x = f32[2,3] parameter(0)
}
"""
GOOD = (
    np.zeros((2, 3), np.float32),
    np.zeros(4, ml_dtypes.bfloat16),
    np.int32(1),
    np.zeros(2, bool),
)


@pytest.mark.parametrize(
    "change",
    [
        {0: np.zeros((3, 2), np.float32)},
        {0: np.zeros((2, 3))},
        {1: np.zeros(4, np.float16)},
        {2: 10**30},
        {3: np.zeros(2, np.int8)},
        {1: "text"},
        {3: None},
        {4: 1},
    ],
)
def test_errors_are_worded_as_the_evaluator_words_them(change: dict) -> None:
    module = parse_hlo(HLO)
    given = list(GOOD)
    for number, value in change.items():
        if value is None:
            del given[number]
        elif number == len(given):
            given.append(value)
        else:
            given[number] = value
    with pytest.raises(InputError) as expected:
        evaluate(module, given)
    labels = ("0 (%x)", "1 (%y)", "2 (%z) at index {0}", "2 (%z) at index {1}")
    shapes = [shape for x in module.entry.parameters for _, shape in x.shape.leaves()]
    wanted = [Argument(f"parameter {x}", s, 0) for x, s in zip(labels, shapes, strict=True)]
    with pytest.raises(InputError) as found:
        check_count(wanted, len(given))
        for argument, value in zip(wanted, given, strict=True):
            as_array(argument, value)
    assert str(found.value) == str(expected.value)


def test_a_call_with_bad_arguments_leaves_the_executable_sound() -> None:
    draft, run = sum_of_two()
    x = np.ones(draft.count, np.float32)
    for bad in ((x,), (x, x, x), (x, x[:-1]), (x, x.astype(np.float64))):
        with pytest.raises(InputError):
            run(*bad)
    np.testing.assert_array_equal(run(x, x), 2 * x)


# -- arguments that results overwrite ----------------------------------------------------------


def updating() -> tuple[Draft, LinkedExecutable]:
    """Results: the first argument, overwritten by its sum with the second; their product."""
    draft = Draft()
    a, b, c = draft.argument(result=0), draft.argument(), draft.temporary()
    draft.result(a)
    draft.result(c)
    thunks = [kernel(MULTIPLY, a, b, c), kernel(ADD, a, b, a)]
    return draft, load(draft.program(thunks, structure=(0, (1,))))


def test_an_aliased_argument_is_not_written_to() -> None:
    draft, run = updating()
    x, y = (np.full(draft.count, v, np.float32) for v in (2, 5))
    x.flags.writeable = False
    total, (product,) = run(x, y)
    assert (total == 7).all() and (product == 10).all() and (x == 2).all()
    assert not np.shares_memory(total, x)


def test_a_consumed_argument_becomes_the_result() -> None:
    draft, run = updating()
    x, y = (np.full(draft.count, v, np.float32) for v in (2, 5))
    total, (product,) = run(x, y, consume=True)
    assert (total == 7).all() and (product == 10).all()
    assert total.ctypes.data == x.ctypes.data
    again, _ = run(total, y, consume=True)
    assert (again == 12).all() and again.ctypes.data == x.ctypes.data


def test_what_cannot_be_consumed_is_refused_and_left_as_it_is() -> None:
    draft, run = updating()
    x = np.full(2 * draft.count, 2, np.float32)
    y = np.full(draft.count, 5, np.float32)
    frozen = x[: draft.count].copy()
    frozen.flags.writeable = False
    with pytest.raises(InputError, match=r"parameter 0 \(%x0\) is to be consumed.*read-only"):
        run(frozen, y, consume=True)
    with pytest.raises(InputError, match=r"parameter 0 \(%x0\) is to be consumed.*contiguous"):
        run(x[::2], y, consume=True)
    with pytest.raises(InputError, match=r"%x0\) and parameter 1 \(%x1\) share memory"):
        run(x[: draft.count], x[8 : draft.count + 8], consume=True)
    assert (x == 2).all() and (frozen == 2).all()


def test_results_that_are_arguments_constants_or_equal_are_copies() -> None:
    draft = Draft()
    a = draft.argument()
    one = draft.constant(np.ones(draft.count, np.float32))
    t = draft.temporary()
    for place in (a, one, t, t):
        draft.result(place)
    run = load(draft.program([kernel(ADD, a, one, t)], structure=(0, (1, None), 2, 3)))
    x = np.zeros(draft.count, np.float32)
    own, (constant, token), first, second = run(x)
    assert token is None
    for array in (own, constant, first, second):
        array += 100
    own, (constant, _), first, second = run(x)
    assert (x == 0).all() and (own == 0).all() and (constant == 1).all()
    assert (first == 1).all() and (second == 1).all()
    assert not np.shares_memory(first, second)


def test_output_allocations_are_results() -> None:
    draft = Draft()
    a = draft.argument()
    index = len(draft.memories)
    draft.memories.append(Memory(AllocationKind.OUTPUT, 4 * draft.count))
    place = BufferSlice(index, 0, 4 * draft.count)
    draft.result(place)
    run = load(draft.program([kernel(ADD, a, a, place)]))
    x = np.ones(draft.count, np.float32)
    first, second = run(x), run(2 * x)
    assert (first == 2).all() and (second == 4).all()


def test_empty_gives_back_all_idle_memory() -> None:
    draft, run = sum_of_two()
    x = np.ones(draft.count, np.float32)
    run(x, x)
    assert run.idle_bytes > 0
    run.empty()
    assert run.idle_bytes == 0
    assert (run(x, x) == 2).all()


def test_results_do_not_share_memory_with_later_results() -> None:
    draft, run = sum_of_two()
    x = np.ones(draft.count, np.float32)
    found = [run(x * k, x) for k in range(50)]
    for k, array in enumerate(found):
        assert (array == k + 1).all()
    assert vector(draft.count).nbytes == found[0].nbytes
