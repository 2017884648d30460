"""The sanitizer: right programs pass, and each kind of fault is found and named."""

import os
from dataclasses import replace

import numpy as np
import pytest

import lowtide
from lowtide.client.errors import SanitizerError
from lowtide.client.executable.anew import compile_anew
from lowtide.evaluator import evaluate
from lowtide.inspection.reproducer import is_faulty, reproducer, single
from lowtide.inspection.sanitizer import check_program, sanitize
from lowtide.ir.thunk import KernelEntry, KernelThunk, Phase, unbundled
from lowtide.llvm.callee import parameters
from lowtide.llvm.function import Function, module_text
from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.target import host_target
from lowtide.options import Options
from lowtide.reduce.shrink.arguments import likely_arguments

ARGUMENTS = parameters(buffers="ptr", scratch="ptr", begin="i64", end="i64", thread="i64")
COUNT = 96
TEXT = f"""HloModule steps
ENTRY main {{
  x = f32[{COUNT}] parameter(0)
  a = f32[{COUNT}] sine(x), metadata={{source_file="a/net.py" source_line=12}}
  b = f32[{COUNT}] negate(a)
  ROOT c = f32[{COUNT}] multiply(b, x)
}}
"""
INPUT = np.linspace(-1, 1, COUNT, dtype=np.float32)


def compiled():
    """A program of three kernels, one for each instruction."""
    return compile_anew(lowtide.parse_hlo(TEXT), Options(stage="input", threads=2))


def negation(f, shift=0, first=0):
    """Write result[i] = -operand[i] for i from begin to end, `shift` elements away."""
    source, target = (f.load("ptr", f.gep("%buffers", 8 * i), 8) for i in range(2))
    with f.loop(f.max("%begin", first), "%end") as each:
        value = f.op(f"fneg float {f.load('float', f.gep(source, each.index, 'float'), 4)}")
        f.store("float", value, f.gep(target, f.add(each.index, shift), "float"), 4)
    return source, target


def right(f):
    negation(f)


def wrong(f):
    source, target = negation(f)
    with f.when(f.compare("eq", "%end", COUNT)):
        f.store("float", f.load("float", source, 4), f.gep(target, 40), 4)


def too_far(f):
    negation(f, shift=1)


def into_the_operand(f):
    source, _ = negation(f)
    f.store("float", "0.0", source, 4)


def far_away(f):
    _, target = negation(f)
    f.store("float", "0.0", f.gep(target, -100_000_000_000), 4)


def unwritten_result(f):
    negation(f, first=1)


def unwritten_scratch(f):
    _, target = negation(f)
    value = f.load("float", f.gep("%scratch", f.mul("%thread", 64)), 4)
    zero = f.op(f"fmul float {value}, 0.0")
    place = f.gep(target, "%begin", "float")
    f.store("float", f.op(f"fadd float {zero}, {f.load('float', place, 4)}"), place, 4)


def thread_in_the_result(f):
    _, target = negation(f)
    number = f.op("uitofp i64 %thread to float")
    place = f.gep(target, "%begin", "float")
    f.store("float", f.op(f"fsub float {f.load('float', place, 4)}, {number}"), place, 4)


def endless(f):
    negation(f)
    f.do("br label %again")
    f.label("again")
    f.do("br label %again")
    f.label("never")


def with_kernel(made, name, write, scratch=False):
    """The program with another kernel for an instruction."""
    f = Function("planted", ARGUMENTS)
    write(f)
    code = KernelCompiler(host_target()).object_code(module_text([f]))
    program = made.program
    thunks = unbundled(program.thunks)
    (thunk,) = [x for x in thunks if x.name == name]
    place = len(program.kernels)
    own = program.interface.memories
    changed = replace(thunk, kernel=place)
    if scratch:
        arena = next(i for i, x in enumerate(own) if x.kind.value == "arena")
        spare = replace(thunk.buffers[-1], allocation=arena, offset=own[arena].nbytes, nbytes=128)
        changed = replace(changed, scratch=spare)
        own = tuple(
            [replace(x, nbytes=x.nbytes + 128) if i == arena else x for i, x in enumerate(own)]
        )
    return replace(
        program,
        thunks=tuple([changed if x is thunk else x for x in thunks]),
        kernels=(*program.kernels, KernelEntry((Phase("planted", COUNT, 1e-9),))),
        objects=(*program.objects, code),
        interface=replace(program.interface, memories=own),
    )


def test_right_programs_pass():
    made = compiled()
    for program in (made.program, with_kernel(made, "b", right)):
        found = check_program(program, made.plan.module, [INPUT])
        np.testing.assert_allclose(found.result, -np.sin(INPUT) * INPUT, rtol=1e-6)
        assert (found.thunks, found.not_compared) == (3, ())


FAULTS = [
    (
        "b",
        wrong,
        r"does not compute what the evaluator does: result 0, f32\[96\]: 1 elements differ",
    ),
    ("b", too_far, r"writes where it must not: "),
    ("a", into_the_operand, r"writes where it must not: byte \d of argument 0 was"),
    ("b", far_away, r"crashes: SIG"),
    ("a", unwritten_result, r"reads what it has not written"),
    ("b", thread_in_the_result, r"depends on the order of its pieces, or on the threads"),
]


@pytest.mark.parametrize(("name", "write", "message"), FAULTS, ids=[x[1].__name__ for x in FAULTS])
def test_each_kind_of_fault_is_found_and_named(name, write, message):
    made = compiled()
    with pytest.raises(SanitizerError, match=message) as error:
        check_program(with_kernel(made, name, write), made.plan.module, [INPUT])
    assert error.value.thunk == name
    assert f" (%{name}): " in str(error.value)


def test_scratch_that_is_read_before_it_is_written():
    made = compiled()
    program = with_kernel(made, "b", unwritten_scratch, scratch=True)
    with pytest.raises(SanitizerError, match=r"\(%b\): reads what it has not written"):
        check_program(program, made.plan.module, [INPUT])
    check_program(with_kernel(made, "b", right, scratch=True), made.plan.module, [INPUT])


def test_a_kernel_without_an_end(monkeypatch):
    """It is the first one, so that no other has to be done in time."""
    if not hasattr(os, "fork"):
        pytest.skip("the system has no fork")
    monkeypatch.setattr("lowtide.inspection.sanitizer.PATIENCE_SECONDS", 1)
    made = compiled()
    with pytest.raises(SanitizerError, match=r"\(%a\): does not end within 1 s"):
        check_program(with_kernel(made, "a", endless), made.plan.module, [INPUT])


def test_the_first_thunk_at_fault_is_named_with_its_line():
    made = compiled()
    with pytest.raises(SanitizerError, match=r"^a/net\.py:12: sine \(%a\): ") as error:
        check_program(with_kernel(made, "a", right), made.plan.module, [INPUT])
    assert error.value.thunk == "a"


def test_thunks_that_are_right_on_wrong_slices():
    made = compiled()
    first, second, third = unbundled(made.program.thunks)
    assert isinstance(third, KernelThunk)
    swapped = replace(third, buffers=(third.buffers[1], third.buffers[1], third.buffers[2]))
    program = replace(made.program, thunks=(first, second, swapped))
    with pytest.raises(SanitizerError, match="each thunk is right, but the results are not") as e:
        check_program(program, made.plan.module, [INPUT])
    assert e.value.thunk == ""


CONTROL = """HloModule control

less { s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(20)
  ROOT c = pred[] compare(i, n), direction=LT }

body { s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  h = f32[] constant(0.875)
  hs = f32[8] broadcast(h), dimensions={}
  y = f32[8] multiply(x, hs)
  ROOT t = (s32[], f32[8]) tuple(j, y) }

up { p = f32[8] parameter(0)
  ROOT e = f32[8] exponential(p) }

down { p = f32[8] parameter(0)
  ROOT n = f32[8] negate(p) }

ENTRY main {
  x = f32[8] parameter(0)
  which = s32[] parameter(1)
  zero = s32[] constant(0)
  s = (s32[], f32[8]) tuple(zero, x)
  w = (s32[], f32[8]) while(s), condition=less, body=body
  y = f32[8] get-tuple-element(w), index=1
  z = f32[8] conditional(which, y, y), branch_computations={up, down}
  q = pred[8] compare(z, x), direction=GT
  ROOT r = (f32[8], pred[8]) tuple(z, q)
}
"""


@pytest.mark.parametrize("which", [0, 1, 7, -3])
def test_loops_and_branches(which):
    module = lowtide.parse_hlo(CONTROL)
    x = np.linspace(-2, 2, 8, dtype=np.float32)
    found = sanitize(module, [x, np.int32(which)], Options(threads=2))
    expected = evaluate(module, [x, np.int32(which)])
    np.testing.assert_allclose(found.result[0], expected[0], rtol=1e-5)
    assert found.result[1].tolist() == expected[1].tolist()


def test_arguments_are_checked_and_not_changed():
    module = lowtide.parse_hlo(
        "HloModule m, input_output_alias={ {}: (0, {}, must-alias) }\n"
        "ENTRY e { x = f32[40] parameter(0) ROOT y = f32[40] negate(x) }"
    )
    x = np.arange(40, dtype=np.float32)
    assert sanitize(module, [x]).result.tolist() == (-x).tolist()
    assert x.tolist() == list(range(40))
    with pytest.raises(lowtide.InputError, match="the module takes 1 arguments, found 0"):
        sanitize(module, [])


# -- results that hang on the last bit -----------------------------------------------------------


def test_results_may_differ_as_far_as_last_bits_move_them():
    from lowtide.inspection.expected_results import Expected

    module = lowtide.parse_hlo(
        "HloModule m\nENTRY e { x = f32[4] parameter(0) y = f32[4] parameter(1)\n"
        "d = f32[4] subtract(x, y)\n ROOT s = s32[4] convert(x) }"
    )
    difference, conversion = (module.entry.instructions[x] for x in ("d", "s"))
    x = np.float32([1e7, 2, 3, 1.9999999])
    y = x.copy()
    expected = Expected(module)
    assert expected.difference(difference, [x, y], [np.float32([1, 0, 0, 0])]) == ""
    assert expected.difference(difference, [x, y], [np.float32([1e4, 0, 0, 0])]) != ""
    exact = np.int32([10_000_000, 2, 3, 1])
    assert expected.difference(conversion, [x], [exact]) == ""
    assert expected.difference(conversion, [x], [exact + np.int32([0, 0, 0, 1])]) == ""
    assert expected.difference(conversion, [x], [exact + np.int32([0, 5, 0, 0])]) != ""


# -- reproducers ---------------------------------------------------------------------------------


def test_one_instruction_by_itself():
    module = compile_anew(lowtide.parse_hlo(CONTROL)).plan.module
    for computation in module.computations.values():
        for x in computation.instructions.values():
            if x.opcode.value in ("fusion", "multiply", "compare", "while", "conditional"):
                alone = single(module, x.name)
                lowtide.verify(alone)
                assert alone.entry.root.opcode is x.opcode
                assert not is_faulty(alone, Options(stage="input"), 0)


def test_a_reproducer_is_small_and_fails(monkeypatch):
    from lowtide.inspection.expected_results import Expected

    usual = Expected.difference

    def difference(self, instruction, operands, found):
        inside = [x for c in instruction.called_computations for x in c.instructions.values()]
        opcodes = {x.opcode.value for x in (instruction, *inside)}
        if "exponential" in opcodes:
            found = [x + 1 if x.dtype == np.float32 else x for x in found]
        return usual(self, instruction, operands, found)

    monkeypatch.setattr(Expected, "difference", difference)
    module = compile_anew(lowtide.parse_hlo(CONTROL)).plan.module
    with pytest.raises(SanitizerError) as error:
        sanitize(module, [np.ones(8, np.float32), np.int32(0)])
    text, fails = reproducer(module, error.value.thunk, 1)
    assert fails
    assert len(text.splitlines()) < 25
    names: dict[str, object] = {}
    exec(compile(text, "test", "exec"), names)
    (test,) = [x for name, x in names.items() if name.startswith("test_")]
    with pytest.raises(SanitizerError):
        test()
    monkeypatch.undo()
    test()


def test_a_fault_that_arguments_do_not_show(monkeypatch):
    module = compile_anew(lowtide.parse_hlo(TEXT), Options(stage="input")).plan.module
    text, fails = reproducer(module, "b", 1)
    assert not fails
    assert "negate" in text
    assert likely_arguments(single(module, "b"), 0)[0].shape == (COUNT,)
