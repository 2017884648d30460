"""Constants without values in a text have those that XLA's parser puts in."""

import subprocess
import sys

import numpy as np
import pytest

import lowtide
from lowtide.client.executable import compile_module
from lowtide.frontend.hlo_proto.reader import read_hlo_proto
from lowtide.frontend.hlo_proto.writer import write_hlo_proto
from lowtide.ir import Opcode
from lowtide.ir.attributes import Constant

TYPES = (
    "f32[2,3]", "s32[4]", "pred[20]", "bf16[4]", "s4[20]", "u8[300]", "c64[3]", "f64[2]", "s8[3]",
    "f32[2,3]{0,1}", "u8[7]", "u8[2,2]", "pred[7]", "f16[3]", "u8[21]", "u4[6]", "pred[66]",
)  # fmt: skip
LINES = "\n".join(f"  c{i} = {kind} constant({{...}})" for i, kind in enumerate(TYPES))
TEXT = f"HloModule m\n\nENTRY e {{\n{LINES}\n  ROOT t = () tuple()\n}}\n"
XLA = """
import sys
from jaxlib import _hlo
options = _hlo.HloPrintOptions()
options.print_large_constants = True
print(_hlo.hlo_module_from_text(sys.stdin.read()).to_string(options))
"""


def values(module):
    constants = module.entry.instructions.values()
    return {
        x.name: x.attributes_as(Constant).literal.array
        for x in constants
        if x.opcode is Opcode.CONSTANT
    }


def flushed(array):
    """Without what XLA's programs take for zero: subnormal parts, but those of f16."""
    array = np.asarray(array)
    if array.dtype == np.float16:
        return array.astype("c16")
    least = np.finfo(np.float64 if array.dtype.itemsize == 16 else np.float32).tiny
    if array.dtype == np.float64:
        least = np.finfo(np.float64).tiny
    wide = array.astype("c16")
    parts = wide.view("f8")
    parts[np.abs(parts) < least] = 0
    return wide


def test_values_are_those_of_xla():
    pytest.importorskip("jaxlib")
    found = subprocess.run(
        [sys.executable, "-c", XLA], input=TEXT, capture_output=True, text=True, check=True
    )
    theirs = values(lowtide.parse_hlo(found.stdout))
    ours = values(lowtide.parse_hlo(TEXT))
    assert list(ours) == [f"c{i}" for i in range(len(TYPES))]
    for name, array in ours.items():
        np.testing.assert_allclose(
            np.asarray(array).astype("c16"),
            flushed(theirs[name]),
            rtol=1e-2 if array.dtype.itemsize == 2 else 1e-6,
            err_msg=name,
        )


def test_texts_begin_at_zero_and_equal_lines_differ():
    module = lowtide.parse_hlo(
        "HloModule m\nENTRY e {\n  a = s32[2] constant({...})\n  b = s32[2] constant({...})\n"
        "  c = s32[2] constant({...})\n  ROOT s = s32[2] add(a, c)\n}"
    )
    assert [x.tolist() for x in values(module).values()] == [[0, 1], [2, 3], [4, 5]]
    assert np.asarray(lowtide.evaluate(module, [])).tolist() == [4, 6]
    assert np.asarray(compile_module(module)()).tolist() == [4, 6]


def test_very_large_constants_take_no_memory():
    module = lowtide.parse_hlo(
        "HloModule m\nENTRY e { ROOT a = f32[1000000,1000000] constant({...}) }"
    )
    assert not values(module)["a"].strides[0]


def test_protobuf_keeps_the_values_and_the_mark():
    module = lowtide.parse_hlo(TEXT)
    again = read_hlo_proto(write_hlo_proto(module))
    for name, array in values(module).items():
        literal = again.entry.instructions[name].attributes_as(Constant).literal
        assert literal.elided
        assert literal.array.tobytes() == array.tobytes()
