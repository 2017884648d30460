"""Long functions that a kernel has many times: in short kernels the further ones are calls."""

from __future__ import annotations

import numpy as np
import pytest

import lowtide
from lowtide.codegen.elementwise import emit, repeated
from lowtide.codegen.elementwise.dispatch import LONG
from lowtide.codegen.elementwise.operation import FEW
from lowtide.codegen.elementwise.repeated import MOST_WRITTEN
from lowtide.codegen.value import Value, vector_type
from lowtide.ir import ElementType, Opcode
from lowtide.ir.instruction import Instruction
from lowtide.ir.traversal import post_order
from lowtide.llvm.callee import parameters
from lowtide.llvm.function import Function, module_text
from lowtide.llvm.target import host_target

COUNT = MOST_WRITTEN + 3


def module_of(kind: str, size: int, lines: list[str]) -> lowtide.Module:
    """Return a module of instructions on `x`, a parameter."""
    array = f"{kind}[{size}]"
    body = "\n".join(["x = T parameter(0)", *lines]).replace("T ", f"{array} ")
    return lowtide.parse_hlo(f"HloModule m\nENTRY e {{\n{body}\n}}")


def written(kind: str, size: int, calls: list[str]) -> str:
    """Return the module in which opcodes are written for the elements of `x`."""
    lines = [f"y{i} = T {call}" for i, call in enumerate(calls)]
    module = module_of(kind, size, lines)
    element, lanes = {"f32": "float", "f64": "double"}[kind], 8
    f = Function("written", parameters(x=vector_type(element, lanes)))
    values: dict[Instruction, Value] = {}
    for x in post_order(module.entry):
        if x.opcode is Opcode.PARAMETER:
            values[x] = Value(("%x",), ElementType(kind), lanes)
        else:
            values[x] = emit(f, host_target(), x, [values[y] for y in x.operands])
    return module_text([f])


def test_further_ones_are_calls_where_there_are_few_elements() -> None:
    calls = [f"sine(y{i - 1})" if i else "sine(x)" for i in range(MOST_WRITTEN + 3)]
    text = written("f32", FEW, calls)
    assert text.count("= call { <8 x float>, <8 x float> } @common.sine_and_cosine.") == 3
    assert "@common.sine_and_cosine." not in written("f32", FEW + 1, calls)
    assert "@common.sine_and_cosine." not in written("f32", FEW, calls[:MOST_WRITTEN])


def test_sine_and_cosine_of_one_angle_are_one_call() -> None:
    calls = [f"sine(y{i - 1})" if i else "sine(x)" for i in range(MOST_WRITTEN + 1)]
    calls.append(f"cosine(y{MOST_WRITTEN - 1})")
    text = written("f64", 8, calls)
    assert text.count("@common.sine_and_cosine.") == 2  # The call, and what is called.


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("opcode", sorted(LONG))
def test_results_have_the_same_bits(
    kind: str, opcode: Opcode, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = "{0}, {0}" if opcode in (Opcode.ATAN2, Opcode.POWER) else "{0}"
    lines = []
    for i in range(COUNT):
        lines += [
            f"c{i} = T constant({{{', '.join([str(0.3 + 0.1 * i)] * 7)}}})",
            f"m{i} = T multiply(x, c{i})",
            f"y{i} = T {opcode.value}({given.format(f'm{i}')})",
        ]
    lines += [f"z{i} = T add({f'z{i - 1}' if i > 1 else 'y0'}, y{i})" for i in range(1, COUNT)]
    module = module_of(kind, 7, lines)
    dtype = {"f32": np.float32, "f64": np.float64}[kind]
    x = np.array([-0.9, -0.0, 0.001, 0.5, 1.7, 4e7, np.nan], dtype)
    found = lowtide.compile(module, cache=False)(x)
    monkeypatch.setattr(repeated, "MOST_WRITTEN", 1000)
    wanted = lowtide.compile(module, cache=False)(x)
    assert np.asarray(found).tobytes() == np.asarray(wanted).tobytes()
