"""Programs as bytes: they come back as they were, and what is no program is refused."""

from dataclasses import replace

import numpy as np
import pytest
from tests.runtime.cpu.handmade import ADD, LESS, MULTIPLY, SUM, SUM_UNITS, Draft, kernel

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir.buffer import NO_BYTES, Allocation, AllocationKind, BufferAssignment, BufferSlice
from lowtide.ir.element_type import ElementType
from lowtide.ir.errors import InputError, LowtideError, UnsupportedOpError
from lowtide.ir.shape import TOKEN, Layout, array_shape
from lowtide.ir.thunk import (
    ConditionalThunk,
    CopyThunk,
    HostCall,
    HostCallThunk,
    KernelThunk,
    WhileThunk,
)
from lowtide.llvm.target import AARCH64, Target
from lowtide.runtime.cpu.call import load
from lowtide.runtime.cpu.program import NativeProgram, interface_of
from lowtide.runtime.cpu.serial import MARK, VERSION, deserialize, serialize


def everything() -> NativeProgram:
    """A program with thunks of all kinds, constants, nested results, and an argument to consume."""
    draft = Draft(units=SUM_UNITS, seconds=2e-6)
    a, b = draft.argument(result=0), draft.argument(array_shape(ElementType.F32, (64, 256)))
    one = draft.constant(np.ones(draft.count, np.float32))
    odd = draft.constant(np.arange(3, dtype=np.uint8))
    flag, total = draft.temporary(1), draft.temporary(4)
    c, scratch, small = draft.temporary(), draft.temporary(64 * SUM_UNITS), draft.temporary(3)
    draft.result(a)
    draft.result(total, array_shape(ElementType.F32))
    draft.result(c, array_shape(ElementType.F32, (128, 128), Layout((0, 1))))
    draft.result(small, array_shape(ElementType.U8, (3,)))
    branches = ((kernel(ADD, a, b, c),), (kernel(MULTIPLY, a, b, c), CopyThunk("copy", c, c)))
    thunks = [
        kernel(SUM, b, total, scratch=scratch),
        CopyThunk("small", odd, small),
        kernel(LESS, a, b, flag),
        ConditionalThunk("choose", flag, True, branches[:1] + branches[:1]),
        WhileThunk("loop", (kernel(LESS, a, b, flag),), flag, (kernel(ADD, a, one, a),), 3),
    ]
    return draft.program(thunks, threads=2, structure=(0, (1, None, (2, 3))))


def equal(one: NativeProgram, other: NativeProgram) -> bool:
    named = "name target threads thunks kernels objects interface part_texts"
    fields = named.split()
    same = all(getattr(one, x) == getattr(other, x) for x in fields)
    constants = zip(one.constants, other.constants, strict=True)
    return same and all(i == j and (a == b).all() for (i, a), (j, b) in constants)


def test_a_program_comes_back_as_it_was() -> None:
    program = everything()
    data = serialize(program)
    again = deserialize(data)
    assert equal(program, again)
    assert serialize(again) == data
    for _, values in again.constants:
        start = np.frombuffer(data, np.uint8).ctypes.data
        assert (values.ctypes.data - start) % 64 == 0


def test_a_program_that_came_back_runs() -> None:
    program = everything()
    x = np.arange(SUM_UNITS * 256, dtype=np.float32) % 17
    y = np.full((64, 256), 20.5, np.float32)
    first, second = load(program), load(deserialize(memoryview(serialize(program))))
    for run in (first, second):
        a, (total, token, (c, small)) = run(x, y)
        assert token is None and total == 20.5 * SUM_UNITS * 256
        np.testing.assert_array_equal(a, x + 21)
        np.testing.assert_array_equal(small, [0, 1, 2])
        np.testing.assert_array_equal(c.T.ravel(), x + 20.5)


def test_what_is_no_program_is_refused() -> None:
    data = serialize(everything())
    for bad in (b"", b"lowtide", data[10:], b"\x7fELF" + data):
        with pytest.raises(InputError, match="no program of lowtide"):
            deserialize(bad)
    other = MARK + (999).to_bytes(4, "little") + data[len(MARK) + 4 :]
    with pytest.raises(InputError, match=rf"version 999.*reads version {VERSION}"):
        deserialize(other)


def test_damage_is_found_wherever_it_is() -> None:
    data = serialize(everything())
    start = len(MARK) + 4
    for place in (start, start + 40, len(data) // 2, len(data) - 1):
        damaged = bytearray(data)
        damaged[place] ^= 1
        with pytest.raises(InputError, match="damaged"):
            deserialize(bytes(damaged))
    for end in (start, start + 36, len(data) - 1):
        with pytest.raises(InputError, match="damaged"):
            deserialize(data[:end])


def test_programs_for_other_processors_are_refused() -> None:
    program = everything()
    with pytest.raises(InputError, match="is for aarch64"):
        load(replace(program, target=AARCH64))
    target = program.target
    more = Target(target.triple, target.cpu, (*target.features, "sse99"), 64)
    with pytest.raises(InputError, match="processor with sse99"):
        load(replace(program, target=more))


def test_a_call_of_a_function_has_a_buffer_for_each_array() -> None:
    program = everything()
    sum_ = next(x for x in program.thunks if isinstance(x, KernelThunk))
    scalar = array_shape(ElementType.F32)
    for result, fits in ((scalar, True), (array_shape(ElementType.F32, (99,)), False)):
        call = HostCall("t", "API_VERSION_TYPED_FFI", "", (TOKEN,), (result,), False, False)
        thunk = HostCallThunk("call", call, (NO_BYTES, sum_.buffers[1]))
        data = serialize(replace(program, thunks=(*program.thunks, thunk)))
        if fits:
            assert deserialize(data).thunks[-1] == thunk
            continue
        with pytest.raises(InputError, match="other buffers than arrays"):
            deserialize(data)


HLO = """HloModule m, input_output_alias={ {0}: (1, {1}, may-alias) }
ENTRY %e (x: f32[2,3], y: (s32[4], (token[], pred[2]))) -> (s32[4], (f32[2,3], token[])) {
  %x = f32[2,3]{0,1} parameter(0)
  %y = (s32[4]{0}, (token[], pred[2]{0})) parameter(1)
  %a = s32[4]{0} get-tuple-element(%y), index=0
  %t = token[] after-all()
  %p = (f32[2,3]{0,1}, token[]) tuple(%x, %t)
  ROOT %r = (s32[4]{0}, (f32[2,3]{0,1}, token[])) tuple(%a, %p)
}
"""


def test_the_interface_of_a_module() -> None:
    module = parse_hlo(HLO)
    kinds = (AllocationKind.ARGUMENT, AllocationKind.ARENA, AllocationKind.ARGUMENT)
    allocations = (
        Allocation(0, kinds[0], 16, parameter=(1, (0,)), output=(0,)),
        Allocation(1, kinds[1], 64),
        Allocation(2, kinds[2], 24, parameter=(0, ())),
    )
    places = (BufferSlice(0, 0, 16), BufferSlice(1, 0, 24), BufferSlice(-1, 0, 0))
    found = interface_of(module, BufferAssignment(allocations, (), places))
    labels = [(x.label, str(x.shape), x.allocation) for x in found.arguments]
    assert labels == [
        ("parameter 0 (%x)", "f32[2,3]{0,1}", 2),
        ("parameter 1 (%y) at index {0}", "s32[4]{0}", 0),
        ("parameter 1 (%y) at index {1,1}", "pred[2]{0}", -1),
    ]
    assert [(x.argument, x.result) for x in found.memories] == [(1, 0), (-1, -1), (0, -1)]
    assert found.structure == (0, (1, None))
    assert [x.place for x in found.results] == list(places[:2])


@pytest.mark.parametrize("shape", ["f32[<=4]", "f32[4]{0:T(4)}", "s4[4]{0:E(4)}", "s32[?]"])
def test_arrays_that_native_code_does_not_take_are_refused(shape: str) -> None:
    text = (
        f"HloModule m\nENTRY %e (x: {shape}) -> {shape} {{\n ROOT %x = {shape} parameter(0)\n}}\n"
    )
    with pytest.raises(UnsupportedOpError, match="evaluator"):
        interface_of(parse_hlo(text), BufferAssignment((), (), (BufferSlice(-1, 0, 0),)))


def test_a_plan_that_overwrites_more_than_the_result_is_refused() -> None:
    draft = Draft()
    a = draft.argument(result=0)
    draft.result(BufferSlice(a.allocation, 64, 64), array_shape(ElementType.F32, (16,)))
    with pytest.raises(LowtideError, match=r"more than one result into parameter 0 \(%x0\)"):
        load(draft.program([kernel(ADD, a, a, a)]))
