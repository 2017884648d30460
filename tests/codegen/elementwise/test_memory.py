"""Elements come from memory and go back with the same bits, and nothing beside them is touched."""

import ctypes
import re
from dataclasses import replace

import numpy as np
import pytest
from tests.codegen.elementwise import oracle
from tests.codegen.elementwise.kernels import TARGETS

from lowtide.codegen.cpu.strided import first_lanes
from lowtide.codegen.elementwise import memory
from lowtide.codegen.value import Value
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES
from lowtide.llvm.callee import parameters
from lowtide.llvm.function import Function, module_text
from lowtide.llvm.library import Library
from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.target import Target

FORMS = [("native", 16), ("native", 5), ("avx2", 8)]


def _run(fn: Function, target, *arrays: np.ndarray) -> None:
    library = Library([KernelCompiler(target).object_code(module_text([fn]))], [fn.name], target)
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arrays))(library[fn.name])
    call(*[x.ctypes.data for x in arrays])
    assert library


def _elements(type_: ElementType, count: int) -> np.ndarray:
    """Random elements; memory of narrow types has nothing above their bits."""
    raw = np.random.default_rng(type_.bits).integers(0, 256, count * DTYPES[type_].itemsize)
    if type_ is ElementType.PRED or type_.bits < 8:
        raw &= (1 << (1 if type_ is ElementType.PRED else type_.bits)) - 1
    found = raw.astype(np.uint8).view(DTYPES[type_]).copy()
    if type_.is_floating:
        found[np.isnan(found.astype(np.float64))] = 1
    return found


def _mask(fn: Function, pointer: str, lanes: int) -> str:
    raw = fn.load(f"<{lanes} x i8>", pointer, 1)
    return fn.op(f"icmp ne <{lanes} x i8> {raw}, zeroinitializer")


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("type_", oracle.ARRAY_TYPES)
@pytest.mark.parametrize("apart", [3, 100])
def test_masked_lanes_are_neither_read_nor_written(type_, form, apart):
    name, lanes = form
    target = TARGETS[name]
    fn = Function("f", parameters(source="ptr", mask="ptr", to="ptr", all="ptr"))
    mask = _mask(fn, "%mask", lanes)
    value = memory.load(fn, target, type_, "%source", lanes, mask)
    memory.store(fn, target, value, "%to", mask)
    memory.store(fn, target, value, "%all")
    given = _elements(type_, lanes)
    chosen = np.arange(lanes) % apart != apart - 1
    to, all_ = (np.full(lanes * given.itemsize, 0xA5, np.uint8) for _ in range(2))
    _run(fn, target, given, chosen.astype(np.uint8), to, all_)
    rows = to.reshape(lanes, -1)
    assert (rows[chosen] == given.view(np.uint8).reshape(lanes, -1)[chosen]).all()
    assert (rows[~chosen] == 0xA5).all()
    assert oracle.same_bits(all_.view(given.dtype)[chosen], given[chosen]).all()
    zero = np.zeros(1, np.uint8 if type_ is ElementType.F8E8M0FNU else given.dtype)
    if type_ is not ElementType.F8E8M0FNU:
        assert (all_.view(given.dtype)[~chosen] == zero).all()


def test_bytes_whose_mask_holds_are_loaded_at_once_where_loads_take_no_masks():
    zen = Target("x86_64-unknown-linux-gnu", "znver4", ("avx2", "avx512bw"), 64)
    older = Target("x86_64-unknown-linux-gnu", "x86-64-v3", ("avx2",), 32)
    for target, type_, is_asked in (
        (older, ElementType.S8, True),
        (older, ElementType.BF16, True),
        (older, ElementType.F32, False),
        (zen, ElementType.S8, False),
    ):
        for mask in ("%m", "<" + ", ".join(["i1 true"] * 7 + ["i1 false"]) + ">"):
            fn = Function("f", parameters(source="ptr"))
            memory.load(fn, target, type_, "%source", 8, mask)
            plain = re.findall(r"= load <8 x", fn.text())
            assert len(plain) == (is_asked and mask == "%m"), (target, type_, mask)


def test_a_masked_load_stops_before_memory_that_is_not_there():
    import mmap

    page = mmap.PAGESIZE
    libc = ctypes.CDLL(None)
    area = mmap.mmap(-1, 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    assert libc.mprotect(ctypes.c_void_p(start + page), page, 0) == 0
    target = TARGETS["native"]
    fn = Function("f", parameters(source="ptr", mask="ptr", to="ptr"))
    mask = _mask(fn, "%mask", 16)
    value = memory.load(fn, target, ElementType.C64, "%source", 16, mask)
    memory.store(fn, target, value, "%to", mask)
    library = Library([KernelCompiler(target).object_code(module_text([fn]))], ["f"], target)
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(library["f"])
    ctypes.memmove(start + page - 24, np.arange(6, dtype=np.float32).ctypes.data, 24)
    to, chosen = np.zeros(16, np.complex64), (np.arange(16) < 3).astype(np.uint8)
    call(start + page - 24, chosen.ctypes.data, to.ctypes.data)
    libc.mprotect(ctypes.c_void_p(start + page), page, 3)
    assert to[:4].tolist() == [1j, 2 + 3j, 4 + 5j, 0]


@pytest.mark.parametrize("is_whole", [False, True])
@pytest.mark.parametrize("form", [*FORMS, ("native", 0)], ids=str)
@pytest.mark.parametrize("type_", oracle.ARRAY_TYPES)
def test_gathered_and_scattered_elements(type_, form, is_whole):
    name, lanes = form
    target, many = TARGETS[name], max(1, lanes)
    fn = Function("f", parameters(table="ptr", index="ptr", mask="ptr", to="ptr"))
    index = fn.load(f"<{lanes} x i64>" if lanes else "i64", "%index", 8)
    mask = _mask(fn, "%mask", lanes) if lanes else None
    value = memory.gather(fn, target, type_, "%table", index, lanes, None if is_whole else mask)
    memory.scatter_store(fn, target, value, "%to", index, mask)
    table = _elements(type_, 64)
    places = np.random.default_rng(1).permutation(64)[:many].astype(np.int64)
    chosen = np.arange(many) % 2 == 0
    to = np.full(64 * table.itemsize, 0x5A, np.uint8)
    _run(fn, target, table, places, chosen.astype(np.uint8), to)
    want = np.full((64, table.itemsize), 0x5A, np.uint8)
    want[places[chosen]] = table.view(np.uint8).reshape(64, -1)[places[chosen]]
    assert (to.reshape(64, -1) == want).all()


@pytest.mark.parametrize("type_", oracle.ARRAY_TYPES)
def test_constants_are_rounded_to_their_type_and_spread_over_lanes(type_):
    target = TARGETS["native"]
    number = 1.7 - 0.3j if type_.is_complex else 1
    if type_.is_floating:
        number = 1.7
    fn = Function("f", parameters(one="ptr", all="ptr"))
    value = memory.constant(type_, number)
    memory.store(fn, target, value, "%one")
    memory.store(fn, target, memory.splat(fn, value, 4), "%all")
    one, all_ = np.zeros(1, DTYPES[type_]), np.zeros(4, DTYPES[type_])
    _run(fn, target, one, all_)
    want = np.array([number]).astype(DTYPES[type_])
    assert oracle.same_bits(one, want).all()
    assert oracle.same_bits(all_, np.repeat(want, 4)).all()


def test_single_elements_take_no_mask():
    with pytest.raises(ValueError, match="no mask"):
        memory.load(Function("f"), TARGETS["native"], ElementType.F32, "%p", 0, "%m")


def test_lane_numbers():
    fn = Function("f", parameters(to="ptr"))
    target = TARGETS["native"]
    memory.store(fn, target, Value((memory.lane_numbers(4),), ElementType.S64, 4), "%to")
    to = np.zeros(4, np.int64)
    _run(fn, target, to)
    assert to.tolist() == [0, 1, 2, 3]
    assert memory.lane_numbers(0) == "0"


@pytest.mark.parametrize("is_whole", [False, True])
@pytest.mark.parametrize("form", [x for x in FORMS if x[1] % 2 == 0], ids=str)
@pytest.mark.parametrize("type_", oracle.ARRAY_TYPES)
def test_elements_that_are_found_two_indices_at_once(type_, form, is_whole):
    name, lanes = form
    target = TARGETS[name]
    target = replace(target, features=tuple([x for x in target.features if x != "serialize"]))
    fn = Function("f", parameters(table="ptr", index="ptr", mask="ptr", to="ptr"))
    index = fn.load(f"<{lanes} x i64>", "%index", 8)
    narrow = fn.op(f"trunc <{lanes} x i64> {index} to <{lanes} x i32>")
    chosen = np.arange(lanes) < (lanes if is_whole else lanes - 1)
    mask = None if is_whole else first_lanes(lanes - 1, lanes)
    value = memory.gather(fn, target, type_, "%table", index, lanes, mask, narrow=narrow)
    memory.scatter_store(fn, target, value, "%to", index, mask, narrow=narrow)
    assert "masked.gather" not in fn.text() and "masked.scatter" not in fn.text()
    table = _elements(type_, 64)
    places = np.random.default_rng(1).permutation(64)[:lanes].astype(np.int64)
    to = np.full(64 * table.itemsize, 0x5A, np.uint8)
    _run(fn, target, table, places, chosen.astype(np.uint8), to)
    want = np.full((64, table.itemsize), 0x5A, np.uint8)
    want[places[chosen]] = table.view(np.uint8).reshape(64, -1)[places[chosen]]
    assert (to.reshape(64, -1) == want).all()


@pytest.mark.parametrize("type_", [ElementType.F32, ElementType.C64, ElementType.U8])
def test_lanes_that_a_mask_leaves_out_are_not_gathered_where_they_say(type_):
    lanes, target = 8, TARGETS["avx2"]
    fn = Function("f", parameters(table="ptr", index="ptr", mask="ptr", to="ptr"))
    narrow = fn.load(f"<{lanes} x i32>", "%index", 4)
    index = fn.op(f"zext <{lanes} x i32> {narrow} to <{lanes} x i64>")
    mask = _mask(fn, "%mask", lanes)
    value = memory.gather(fn, target, type_, "%table", index, lanes, mask, narrow=narrow)
    memory.store(fn, target, value, "%to", mask)
    assert "masked.gather" not in fn.text()  # LLVM would write a branch for each lane.
    table = _elements(type_, 16)
    chosen = np.arange(lanes) % 3 == 0
    places = np.where(chosen, np.arange(lanes) * 2 + 1, 2**30).astype(np.int32)
    to = np.zeros(lanes, table.dtype)
    _run(fn, target, table, places, chosen.astype(np.uint8), to)
    assert to[chosen].tobytes() == table[places[chosen]].tobytes()
    assert not to[~chosen].view(np.uint8).any()
