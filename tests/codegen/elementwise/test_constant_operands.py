"""Integer operations with constants: what is known while compiling is not computed."""

import re

import numpy as np
import pytest
from tests.codegen.bundles.programs import program_of, results
from tests.codegen.loops import target_of

from lowtide.client.executable.anew import compile_anew
from lowtide.codegen.elementwise.number import Number
from lowtide.evaluator import array_leaves, evaluate
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.inspection.kernel_texts import kernel_texts
from lowtide.ir import ElementType
from lowtide.ir.literal import DTYPES
from lowtide.llvm.function import Function
from lowtide.options import Options

TYPES = ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64", "s4", "u4"]
OPCODES = [
    *("shift-left", "shift-right-logical", "shift-right-arithmetic"),
    *("divide", "remainder", "maximum", "minimum"),
]


def text_of(opcode: str, type_: str, constant: int, shape: str = "[37]") -> str:
    """Return a module whose second operand is a constant in each place."""
    return f"""HloModule m
    ENTRY e {{
      x = {type_}{shape} parameter(0)
      c = {type_}[] constant({constant})
      many = {type_}{shape} broadcast(c), dimensions={{}}
      ROOT y = {type_}{shape} {opcode}(x, many)
    }}"""


def bounds(type_: str) -> tuple[int, int]:
    """Return the least and the largest integer of a type."""
    bits, is_signed = ElementType(type_).bits, type_.startswith("s")
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)


@pytest.mark.parametrize("shape", ["[37]", "[]"])
@pytest.mark.parametrize("opcode", OPCODES)
@pytest.mark.parametrize("type_", TYPES)
def test_as_the_evaluator(type_: str, opcode: str, shape: str) -> None:
    least, most = bounds(type_)
    bits = ElementType(type_).bits
    values = np.linspace(float(least), float(most), 37).astype(object)
    exact = [min(max(int(x), least), most) for x in values]
    given = np.array(exact, dtype=object).astype(DTYPES[ElementType(type_)])
    if shape == "[]":
        given = given[5].reshape(())
    for constant in sorted(
        {x for x in (least, -1, 0, 1, bits - 1, bits, most) if least <= x <= most}
    ):
        text = text_of(opcode, type_, constant, shape)
        (expected,) = array_leaves(evaluate(parse_hlo(text), [given]))
        (found,) = results(program_of(text), given)
        np.testing.assert_array_equal(found, expected, err_msg=f"{opcode} {constant}")


@pytest.mark.parametrize("opcode, constant", [("shift-left", 13), ("divide", 10), ("remainder", 7)])
def test_what_is_known_is_not_written(opcode: str, constant: int) -> None:
    made = compile_anew(parse_hlo(text_of(opcode, "u32", constant)), Options())
    texts = "\n".join([x for _, x in kernel_texts(made)])
    assert not re.search(r"icmp \w+ <|select i1 \w|select <\d+ x i1>", texts)


def test_truth_is_the_integer_of_its_one_bit() -> None:
    fn = Function("f", (), "void")
    yes, no = (Number(fn, target_of("avx2"), "i1", 0, x) for x in ("true", "false"))
    found = [yes.compare(x, no).name for x in ("slt", "sgt", "ult", "ugt", "ne")]
    assert found == ["true", "false", "false", "true", "true"]
    assert ((yes | no).name, (no | no).name) == ("true", "false")
