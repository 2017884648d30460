"""What the evaluator gives for an operation on arrays, and where results agree with it."""

import numpy as np
from tests.codegen.elementwise.kernels import Case, special_values

from lowtide.codegen.elementwise import complex_functions, dispatch, integers
from lowtide.evaluator.elementwise import FUNCTIONS
from lowtide.evaluator.numeric import narrow, widen
from lowtide.ir.element_type import ElementType
from lowtide.ir.opcode import Opcode
from lowtide.ops.table import TABLE

ARRAY_TYPES = [x for x in ElementType if x.is_array]
WITHOUT_NAN = {ElementType.F4E2M1FN, ElementType.F6E2M3FN, ElementType.F6E3M2FN}
"""Types to which NaN converts as a zero whose sign depends on that of the NaN."""

_PARTS = {ElementType.C64: ElementType.F32, ElementType.C128: ElementType.F64}
_REAL_RESULT = {Opcode.ABS, Opcode.REAL, Opcode.IMAG}


def written(type_: ElementType) -> set[Opcode]:
    """Return the opcodes that have a function for elements of a type."""
    if type_ is ElementType.PRED:
        return set(integers.PREDICATES)
    if type_.is_integer:
        return set(integers.FUNCTIONS)
    if type_.is_floating:
        return set(dispatch.FLOATS)
    return {*complex_functions.AS_THEY_ARE, *complex_functions.IN_DOUBLE}


def cases(type_: ElementType) -> list[Case]:
    """Return each function of a type that the evaluator has, and `is-finite`."""
    found = []
    for opcode in FUNCTIONS[type_]:
        if opcode is Opcode.COMPLEX or (opcode is Opcode.ABS and type_ is ElementType.PRED):
            continue  # another result type; not possible in the evaluator
        result = _PARTS.get(type_, type_) if opcode in _REAL_RESULT else type_
        if opcode is Opcode.IS_FINITE:
            result = ElementType.PRED
        found.append(Case(opcode, (type_,) * TABLE[opcode].arity[0], result))
    return found


def operands(case: Case, limit: int = 70000) -> tuple[np.ndarray, ...]:
    """Return special values of each operand, all pairs where there are two."""
    values = special_values(case.operands[0])
    if len(case.operands) == 1:
        return (values,)
    if len(values) ** 2 > limit:
        return values, np.roll(values, len(values) // 3 + 1)
    a, b = np.meshgrid(values, values)
    return a.ravel(), b.ravel()


def expected(case: Case, arrays: tuple[np.ndarray, ...]) -> np.ndarray:
    """Return what the evaluator computes."""
    function = FUNCTIONS[case.operands[0]][case.opcode]
    return narrow(function(*[widen(x) for x in arrays]), case.result)


def same_bits(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Return where elements have the same bytes."""
    a, b = (np.ascontiguousarray(x).view(np.uint8).reshape(len(x), -1) for x in (got, want))
    return np.asarray((a == b).all(axis=1))


def same_values(got: np.ndarray, want: np.ndarray, *, signs: bool = True) -> np.ndarray:
    """Return where numbers are equal, zeros in sign too, or both NaN."""
    a, b = got.astype(np.float64), want.astype(np.float64)
    equal = (a == b) & ((np.signbit(a) == np.signbit(b)) | (not signs))
    return np.asarray(equal | (np.isnan(a) & np.isnan(b)))


def close(got: np.ndarray, want: np.ndarray, tolerance: float, least: float) -> np.ndarray:
    """Return where numbers are equal, both NaN, or near one another; `least` bounds the scale."""
    a, b = got.astype(np.complex128), want.astype(np.complex128)
    near = np.abs(a - b) <= tolerance * np.maximum(np.abs(b), least)
    return np.asarray((a == b) | (np.isnan(a) & np.isnan(b)) | near)


def report(
    case: Case, good: np.ndarray, arrays: tuple[np.ndarray, ...], *results: np.ndarray
) -> str:
    """Return the first operands with wrong results, in words."""
    wrong = np.flatnonzero(~good)
    rows = [tuple([x[i] for x in (*arrays, *results)]) for i in wrong[:5]]
    return f"{case.opcode.value} of {case.operands[0].value}: {len(wrong)} wrong: {rows}"
