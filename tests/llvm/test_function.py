"""Functions as text: what loops and branches compute once they are compiled."""

import ctypes
import re
from collections.abc import Callable

import pytest

from lowtide.llvm.callee import (
    COPY,
    CallError,
    FunctionParameter,
    external,
    parameters,
    pointed,
    suffix,
)
from lowtide.llvm.function import Function, module_text
from lowtide.llvm.library import Library
from lowtide.llvm.machine import CodeError, KernelCompiler
from lowtide.llvm.objects import with_unique_names
from lowtide.llvm.target import AARCH64, Target, host_target, restricted

Write = Callable[[Function], str]


def run(write: Write, *arguments: int) -> int:
    """Compile a function of i64 parameters %a, %b, ... that returns the value that is written."""
    names = "abcdef"[: len(arguments)]
    fn = Function("f", parameters(**dict.fromkeys(names, "i64")), "i64")
    fn.ret("i64", str(write(fn)))
    target = host_target()
    library = Library([KernelCompiler(target).object_code(module_text([fn]))], ["f"], target)
    types = [ctypes.c_int64] * len(arguments)
    result: int = ctypes.CFUNCTYPE(ctypes.c_int64, *types)(library["f"])(*arguments)
    return result


def total(start: str | int, stop: str | int, step: str | int) -> Write:
    def write(fn: Function) -> str:
        with fn.loop(start, stop, step, [("i64", "100")]) as loop:
            loop.next = [str(fn.add(loop.values[0], loop.index))]
        return loop.results[0]

    return write


@pytest.mark.parametrize(
    ("start", "stop", "step"), [(0, 10, 1), (3, 17, 4), (5, 5, 1), (7, 3, 1), (2, 3, 1), (0, 9, 9)]
)
def test_loops_run_over_ranges_known_or_not(start: int, stop: int, step: int) -> None:
    expected = 100 + sum(range(start, stop, step))
    assert run(total(start, stop, step)) == expected
    assert run(total("%a", "%b", step), start, stop) == expected
    assert run(total(start, "%a", step), stop) == expected


@pytest.mark.parametrize("number", [1, 7, 100])
def test_what_repeats_runs_at_least_once(number: int) -> None:
    def write(fn: Function) -> str:
        with fn.repeat([("i64", "%a"), ("i64", "0")]) as loop:
            left = fn.op(f"lshr i64 {loop.values[0]}, 1")
            loop.next = [left, str(fn.add(loop.values[1], 1))]
            loop.again = fn.compare("ne", left, 0)
        return loop.results[1]

    assert run(write, number) == max(number.bit_length(), 1)


@pytest.mark.parametrize("trips", [0, 1, 5])
def test_what_stands_ahead_of_a_loop_may_have_loops(trips: int) -> None:
    """Also ahead of a loop that is known to run once, inside of which others have begun."""

    def write(fn: Function) -> str:
        with fn.loop(0, trips, 1, [("i64", "0")]) as outer:
            with fn.loop(0, "%a", 1, [("i64", outer.values[0])]) as inner:
                with fn.before(outer), fn.loop(0, "%a", 1, [("i64", "0")]) as ahead:
                    ahead.next = [str(fn.add(ahead.values[0], 2))]
                with fn.before(inner):
                    ten = fn.add(ahead.results[0], 4)
                inner.next = [str(fn.add(inner.values[0], ten))]
            outer.next = list(inner.results)
        return outer.results[0]

    assert run(write, 3) == trips * 3 * 10


def test_branches_yield_the_value_of_the_one_that_ran() -> None:
    def write(fn: Function) -> str:
        slot = fn.stack("i64")
        fn.store("i64", 0, slot, 8)
        with fn.when(fn.compare("sgt", "%a", 3)):
            fn.store("i64", 7, slot, 8)

        def loops() -> list[str]:
            with fn.loop(0, "%a", 1, [("i64", "1")]) as loop:
                loop.next = [str(fn.mul(loop.values[0], 2))]
            return loop.results

        (found,) = fn.choose(fn.compare("slt", "%a", 5), ["i64"], loops, lambda: ["-1"])
        return str(fn.add(found, fn.load("i64", slot, 8)))

    assert [run(write, a) for a in (2, 4, 6)] == [4, 16 + 7, -1 + 7]


def test_arithmetic_on_known_numbers_writes_nothing() -> None:
    fn = Function("f", parameters(a="i64"))
    known = fn.add(fn.mul(3, 4), fn.rem(fn.div(17, 2), 5))
    assert (known, fn.add("%a", 0), fn.mul("%a", 1), fn.mul("%a", 0)) == (15, "%a", "%a", 0)
    assert fn.lines == []


def test_functions_of_the_module_are_called_and_not_declared() -> None:
    callee = Function("callee", parameters(a="i64"), "i64")
    callee.ret("i64", "%a")
    caller = Function("caller", parameters(a="i64"), "i64")
    caller.ret("i64", caller.call(callee, ["%a"]))
    text = module_text([callee, caller])
    assert "declare" not in text
    KernelCompiler(host_target()).object_code(text)


def test_calls_declare_what_lies_outside_of_the_module() -> None:
    fn = Function("f", parameters(p="ptr", n="i64"), "i64")
    fn.call(COPY, ["%p", fn.gep("%p", 8), 8, "false"])
    fn.prefetch("%p", 1)
    fn.ret("i64", fn.call(pointed(fn.load("ptr", "%p", 8), "i64", "i64"), ["%n"]))
    text = module_text([fn])
    declared = [x for x in text.splitlines() if x.startswith("declare")]
    assert declared == [
        "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
        "declare void @llvm.prefetch.p0(ptr, i32 immarg, i32 immarg, i32 immarg)",
    ]
    assert "call void @llvm.prefetch.p0(ptr %p, i32 0, i32 3, i32 1)" in text
    KernelCompiler(host_target()).object_code(text)


def test_attributes_of_parameters_stand_in_the_definition_only() -> None:
    callee = Function("callee", [FunctionParameter("ptr", "to", "noalias nocapture")])
    caller = Function("caller", parameters(to="ptr"))
    caller.call(callee, ["%to"])
    text = module_text([callee, caller])
    assert "@callee(ptr noalias nocapture %to)" in text
    assert "call void @callee(ptr %to)" in text
    KernelCompiler(host_target()).object_code(text)


@pytest.mark.parametrize(
    ("values", "given"),
    [
        (["%p", 3], "ptr %p, 3"),
        (["%p", 3, "%x", 4], "ptr %p, 3, double %x, 4"),
        (["%n", 3, "%x"], "i64 %n, 3, double %x"),
        (["%p", "%p", "%x"], "ptr %p, ptr %p, double %x"),
        (["%p", "true", "%x"], "ptr %p, i1 true, double %x"),
        ([0, 3, "%x"], "0, 3, double %x"),
        (["%p", 3, 1], "ptr %p, 3, 1"),
    ],
)
def test_a_call_with_other_values_than_the_callee_takes_is_refused(
    values: list[str | int], given: str
) -> None:
    callee = Function("callee", parameters(a="ptr", b="i64", c="double"))
    caller = Function("caller", parameters(p="ptr", n="i64", x="double"))
    with pytest.raises(CallError) as found:
        caller.call(callee, values)
    taken = "call void @callee(ptr _, i64 _, double _)"
    assert str(found.value) == f"caller writes '{taken}' with the values ({given})"
    assert caller.lines == []
    caller.call(callee, ["%p", 3, "%x"])


@pytest.mark.parametrize(
    "write",
    [
        lambda fn: fn.gep("%p", 8),
        lambda fn: fn.stack("i64"),
        lambda fn: fn.load("ptr", "%p", 8),
        lambda fn: fn.call(external("address", "ptr"), []),
        lambda fn: fn.intrinsic("fabs", "double", "1.0"),
    ],
)
def test_types_of_what_a_function_wrote_itself_are_checked(write: Write) -> None:
    fn = Function("f", parameters(p="ptr"))
    with pytest.raises(CallError, match=r"@g\(i64 _\)' with the values"):
        fn.call(external("g", "void", "i64"), [write(fn)])


def test_a_function_that_the_module_lacks_is_refused() -> None:
    callee, other = Function("callee"), Function("callee", parameters(a="i64"))
    caller = Function("caller")
    caller.call(callee, [])
    for functions in ([caller], [caller, other]):
        with pytest.raises(CallError, match="caller calls @callee, which its module"):
            module_text(functions)


def test_intrinsics_are_spelled_by_their_types() -> None:
    types = ("<16 x float>", "double", "<4 x i32>", "ptr")
    assert [suffix(x) for x in types] == ["v16f32", "f64", "v4i32", "p0"]


def test_a_refused_module_is_an_error_and_leaves_the_machine_usable() -> None:
    machine = KernelCompiler(host_target())
    with pytest.raises(CodeError, match="expected"):
        machine.object_code("define void @f( {")
    fn = Function("f")
    assert machine.object_code(module_text([fn]))


@pytest.mark.parametrize(
    "target", [AARCH64, restricted(host_target(), "avx2")], ids=["arm", "avx2"]
)
def test_other_processors_get_code_with_their_vectors(target: Target) -> None:
    fn = Function("f", parameters(p="ptr"))
    vector = f"<{target.vector_bytes // 4} x float>"
    found = fn.load(vector, "%p", 4)
    fn.store(vector, fn.op(f"fadd {vector} {found}, {found}"), "%p", 4)
    assembly = KernelCompiler(target).assembly(module_text([fn]))
    assert ("fadd" if target is AARCH64 else "ymm0") in assembly
    assert "zmm" not in assembly


def test_what_a_module_defines_gets_unique_names_and_nothing_else() -> None:
    callee = Function("tile", parameters(p="ptr"), linkage="internal")
    caller = Function("phase", parameters(p="ptr"))
    caller.call(callee, ["%p"])
    caller.call(COPY, ["%p", "@table.1", 8, "false"])
    text, ending = with_unique_names(
        module_text([callee, caller], "@table.1 = private constant [1 x i64] [i64 7]")
    )
    defined = {f"@{x}{ending}" for x in ("tile", "phase", "table.1")}
    assert set(re.findall(r"@[\w.]+", text)) == {*defined, "@llvm.memcpy.p0.p0.i64"}
    KernelCompiler(host_target()).object_code(text)
