"""Modules put together, and accesses under masks made short."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from lowtide.llvm.callee import Callee, external, parameters
from lowtide.llvm.function import Function, module_text
from lowtide.llvm.library import Library
from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.merging import inlined_once, inner_text, merged
from lowtide.llvm.short_vectors import with_short_vectors
from lowtide.llvm.target import host_target

LANES = 8
MASK = f"<{LANES} x i1>"
WHOLE = f"<{LANES} x float>"
LOAD = external("llvm.masked.load.v8f32.p0", WHOLE, "ptr", "i32 immarg", MASK, WHOLE)
STORE = external("llvm.masked.store.v8f32.p0", "void", WHOLE, "ptr", "i32 immarg", MASK)
GATHER = external(
    "llvm.masked.gather.v8f32.v8p0", WHOLE, f"<{LANES} x ptr>", "i32 immarg", MASK, WHOLE
)


def mask(bits: str) -> str:
    return f"<{', '.join([f'i1 {x}' for x in bits.split()])}>"


def doubling(bits: str) -> Function:
    """to[i] = 2 * from[i] for the lanes that the mask leaves; the load is a gather for even i."""
    f = Function("doubling", parameters(buffers="ptr"))
    source, target = f.load("ptr", "%buffers", 8), f.load("ptr", f.gep("%buffers", 8), 8)
    value = f.call(LOAD, [source, 4, mask(bits), "zeroinitializer"])
    lanes = ", ".join([f"i64 {x}" for x in range(LANES)])
    places = f.op(f"getelementptr float, ptr {source}, <{LANES} x i64> <{lanes}>")
    again = f.call(GATHER, [places, 4, mask(bits), "zeroinitializer"])
    total = f.op(f"fadd {WHOLE} {value}, {again}")
    f.call(STORE, [total, target, 4, mask(bits)])
    return f


def run(text: str, name: str, *arrays: np.ndarray) -> None:
    library = Library([KernelCompiler(host_target()).object_code(text)], [name], host_target())
    addresses = np.array([x.ctypes.data for x in arrays], np.uint64)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(library[name])(addresses.ctypes.data)


@pytest.mark.parametrize("inlined_lines", [0, 1000])
def test_long_modules_have_short_vectors_too(inlined_lines: int) -> None:
    """LLVM inlines what is called once, however long it is."""
    text, _ = inner_text(module_text([doubling("1 1 1 1 0 0 0 0")]), inlined_lines)
    assert "call" not in text
    assert ("alwaysinline" in text) == (inlined_lines > 0)


@pytest.mark.parametrize("count", range(1, LANES + 1))
@pytest.mark.parametrize("spelling", [("true", "false"), ("1", "0")])
def test_first_lanes_become_a_shorter_vector(count: int, spelling: tuple[str, str]) -> None:
    yes, no = spelling
    bits = " ".join([yes] * count + [no] * (LANES - count))
    text = module_text([doubling(bits)])
    short = with_short_vectors(text)
    assert "call" in text
    assert "call" not in short
    for code in (text, short):
        x, y = np.arange(LANES, dtype=np.float32), np.full(LANES, -1, np.float32)
        run(code, "doubling", x, y)
        np.testing.assert_array_equal(y, np.where(np.arange(LANES) < count, 2 * x, -1))


def test_other_masks_stay() -> None:
    text = module_text([doubling("true false true true true true true true")])
    assert with_short_vectors(text) == text


def test_functions_of_other_modules_are_internal_and_lines_outside_stand_once() -> None:
    others = []
    for name in ("first", "second"):
        f = Function(name, parameters(buffers="ptr"))
        place = f.load("ptr", "%buffers", 8)
        value = f.intrinsic("fabs", "float", f.load("float", place, 4))
        f.store("float", f.op(f"fadd float {value}, 1.0"), place, 4)
        others.append(module_text([f]))
    g = Function("both", parameters(buffers="ptr"))
    for name in ("first", "second"):
        g.call(Callee(f"@{name}", "void", ("ptr",)), ["%buffers"])
    text = merged(module_text([g]), [inner_text(x, 100)[0] for x in others])
    assert text.count("declare float @llvm.fabs.f32") == 1
    assert text.count("define internal") == 2
    assert text.count("alwaysinline") == 2
    assert "alwaysinline" not in "".join([inner_text(x, 1)[0] for x in others])
    x = np.array([-3], np.float32)
    run(text, "both", x)
    assert x[0] == 5


def test_functions_that_one_place_calls_are_inlined() -> None:
    inner = "".join(
        f"define internal void @{name}(ptr %x) {attributes} {{\n  ret void\n}}\n"
        for name, attributes in (
            ("once", "nounwind"),
            ("twice", "nounwind"),
            ("cold", "nounwind noinline cold"),
            ("never", "nounwind"),
        )
    )
    calls = "".join(f"  call void @{x}(ptr %x)\n" for x in ("once", "twice", "twice", "cold"))
    caller = f"define void @all(ptr %x) nounwind {{\n{calls}  ret void\n}}\n"
    (text,) = inlined_once([inner], caller)
    lines = [x for x in text.splitlines() if "alwaysinline" in x]
    assert lines == ["define internal void @once(ptr %x) nounwind alwaysinline {"]


def phase(name: str) -> tuple[Function, str, str]:
    """A function of units, as kernels are: a loop from %begin to %end, which is open still."""
    f = Function(name, parameters(buffers="ptr", begin="i64", end="i64"))
    return f, f.load("ptr", "%buffers", 8), f.load("ptr", f.gep("%buffers", 1, "ptr"), 8)


def test_values_stored_in_parts_in_loops_that_run_once() -> None:
    halves, source, target = phase("halves")
    with halves.loop("%begin", "%end") as each:
        place = halves.gep(source, each.index, "<4 x i32>")
        value = halves.load("<4 x i32>", place, 4)
        for part in range(2):
            to = halves.gep(target, halves.add(halves.mul(each.index, 32), 16 * part))
            halves.store("<4 x i32>", halves.op(f"add <4 x i32> {value}, {value}"), to, 4)
    whole, source, target = phase("whole")
    with whole.loop("%begin", "%end") as each:
        value = whole.load("<8 x i32>", whole.gep(source, each.index, "<8 x i32>"), 4)
        whole.store("<8 x i32>", value, whole.gep(target, each.index, "<8 x i32>"), 4)
    both = Function("both", parameters(buffers="ptr"))
    between = both.stack("i8", 32, 64)
    ends = both.load("ptr", "%buffers", 8), both.load("ptr", both.gep("%buffers", 8), 8)
    for name, places in (("halves", (ends[0], between)), ("whole", (between, ends[1]))):
        both.call(Callee(f"@{name}", "void", ("ptr", "ptr", "i64", "i64")), [*places, 0, 1])
    outer = Function("outer", parameters(buffers="ptr"))
    outer.call(Callee("@both", "void", ("ptr",)), ["%buffers"])
    inner = [inner_text(module_text([x]), 100) for x in (halves, whole)]
    assert [x for _, x in inner] == [{"halves": 2}, {"whole": 2}]
    text = merged(module_text([both]), [x for x, _ in inner])
    text = merged(module_text([outer]), [inner_text(text, 0)[0]])
    code = KernelCompiler(host_target()).object_code(text, whole=True)
    library = Library([code], ["outer"], host_target())
    x, y = np.arange(4, dtype=np.int32), np.zeros(8, np.int32)
    addresses = np.array([x.ctypes.data, y.ctypes.data], np.uint64)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(library["outer"])(addresses.ctypes.data)
    np.testing.assert_array_equal(y, np.tile(2 * x, 2))
