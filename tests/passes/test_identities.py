"""What a reducer leaves out, for the elements of every type."""

import ml_dtypes
import numpy as np
import pytest

from lowtide.evaluator.evaluate import evaluate
from lowtide.frontend.hlo_text.parser import parse_hlo
from lowtide.ir import ElementType, Opcode
from lowtide.ir.literal import DTYPES
from lowtide.ops.reducers import REDUCERS
from lowtide.passes.matching import identity_of

LOGICAL = {Opcode.AND, Opcode.OR, Opcode.XOR}
TYPES = [x for x in DTYPES if not (x.is_floating and x.bits > 16) and x.bits <= 16]


def has(opcode: Opcode, type_: ElementType) -> bool:
    if type_ is ElementType.PRED:
        return opcode in LOGICAL
    if type_ is ElementType.F8E8M0FNU and opcode is Opcode.ADD:
        return False  # It has no 0.
    return opcode not in LOGICAL or not type_.is_floating


def every_value(type_: ElementType) -> np.ndarray:
    bits = np.arange(1 << min(type_.bits, 8), dtype=np.uint8)
    dtype = DTYPES[type_]
    if type_.bits == 8 and type_ is not ElementType.PRED:
        return bits.view(dtype)
    if type_.bits < 8:
        signed = bits.astype(np.int8) - ((1 << type_.bits - 1) if type_.is_signed else 0)
        return signed.astype(dtype) if not type_.is_floating else bits.view(dtype)
    return np.array([0, 1], dtype) if type_ is ElementType.PRED else bits.astype(dtype)


@pytest.mark.parametrize(
    ("opcode", "type_"), [(x, t) for x in sorted(REDUCERS) for t in TYPES if has(x, t)], ids=str
)
def test_an_identity_has_the_type_and_changes_no_element(opcode, type_):
    found = np.asarray(identity_of(opcode, type_))
    assert found.dtype == DTYPES[type_] and found.shape == ()
    values = every_value(type_)
    n = len(values)
    form = f"{type_.value}[{n}]{{0}}"
    module = parse_hlo(
        f"HloModule m\nENTRY e {{\n  e = {form} parameter(0)\n  x = {form} parameter(1)\n"
        f"  ROOT y = {form} {opcode.value}(e, x)\n}}\n"
    )
    got = np.asarray(evaluate(module, [np.broadcast_to(found, n), values]))
    if type_.is_floating:
        got, values = got.astype(np.float32), values.astype(np.float32)
        np.testing.assert_array_equal(got, values)
    else:
        assert got.tobytes() == values.tobytes()


def test_a_type_without_infinities_has_its_largest_number():
    found = identity_of(Opcode.MAXIMUM, ElementType.F8E4M3FN)
    assert float(found) == float(ml_dtypes.finfo(ml_dtypes.float8_e4m3fn).min)
