"""Kernels around single elementwise operations: compiled, run on arrays, compared."""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from ml_dtypes import finfo

from lowtide.codegen.elementwise import emit_op
from lowtide.codegen.elementwise.memory import load, store
from lowtide.ir.attributes import NO_ATTRIBUTES, Attributes
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES
from lowtide.ir.opcode import Opcode
from lowtide.llvm.callee import parameters
from lowtide.llvm.function import Function, module_text
from lowtide.llvm.library import Library
from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.target import Target, host_target, restricted

TARGETS = {"native": host_target(), "avx2": restricted(host_target(), "avx2")}


@dataclass(frozen=True)
class Case:
    """An operation on operand types, with its result type."""

    opcode: Opcode
    operands: tuple[ElementType, ...]
    result: ElementType
    attributes: Attributes = NO_ATTRIBUTES


def kernel(name: str, case: Case, target: Target, lanes: int, unroll: int = 1) -> Function:
    """Return a function (ptr a, ptr b, ptr c, ptr result, i64 n) over n, a multiple of lanes."""
    fn = Function(name, parameters(a="ptr", b="ptr", c="ptr", result="ptr", n="i64"))
    step = max(1, lanes)
    with fn.loop(0, "%n", step * unroll) as loop:
        for part in range(unroll):
            at = fn.add(loop.index, step * part)
            values = []
            for type_, base in zip(case.operands, ("%a", "%b", "%c"), strict=False):
                pointer = fn.gep(base, fn.mul(at, DTYPES[type_].itemsize))
                values.append(load(fn, target, type_, pointer, lanes))
            value = emit_op(fn, target, case.opcode, case.attributes, case.result, values)
            assert value.type is case.result
            assert value.lanes == lanes
            pointer = fn.gep("%result", fn.mul(at, DTYPES[case.result].itemsize))
            store(fn, target, value, pointer)
    return fn


def compiled(cases: Sequence[Case], target: Target, lanes: int) -> list[Callable[..., np.ndarray]]:
    """Return for each case a function of arrays, all of one length."""
    names = [f"k{i}" for i in range(len(cases))]
    functions = [kernel(name, case, target, lanes) for name, case in zip(names, cases, strict=True)]
    library = Library([KernelCompiler(target).object_code(module_text(functions))], names, target)
    return [
        runner(library, name, case.result, max(1, lanes))
        for name, case in zip(names, cases, strict=True)
    ]


def runner(
    library: Library, name: str, result: ElementType, step: int
) -> Callable[..., np.ndarray]:
    """Return a function of arrays that runs a kernel."""
    pointers = [ctypes.c_void_p] * 4
    call = ctypes.CFUNCTYPE(None, *pointers, ctypes.c_int64)(library[name])

    def run(*arrays: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        n = len(arrays[0])
        padded = -(-n // step) * step
        given = [_padded(x, padded) for x in arrays]
        found = np.empty(padded, DTYPES[result]) if out is None else out
        addresses = [x.ctypes.data for x in given] + [None] * (3 - len(given))
        call(*addresses, found.ctypes.data, padded)
        assert library  # the code lives as long
        return found[:n]

    return run


def _padded(array: np.ndarray, length: int) -> np.ndarray:
    if len(array) == length:
        return np.ascontiguousarray(array)
    return np.concatenate([array, np.repeat(array[:1], length - len(array))])


def special_values(type_: ElementType) -> np.ndarray:
    """Return the elements of a type on which functions are likely to be wrong."""
    dtype = DTYPES[type_]
    if type_ is ElementType.PRED:
        return np.array([False, True])
    if type_.bits <= 8 and not type_.is_complex:
        raw = np.arange(1 << type_.bits).astype(np.uint8)
        return raw.view(dtype)
    if type_.is_integer:
        top = 1 << (type_.bits - int(type_.is_signed))
        some = {0, 1, 2, 3, 7, 8, 31, 32, 33, 63, 64, 100, top - 1, top - 2, top // 2, top // 3}
        values = [x for x in sorted(some) if x < top]
        if type_.is_signed:
            values += [-x for x in values] + [-top]
        return np.array(values, dtype)
    if type_.is_complex:
        part = special_values(ElementType.F32 if dtype == np.complex64 else ElementType.F64)
        some = part[np.abs(part) < 1e4]
        real, imaginary = np.meshgrid(some, some)
        return (real + 1j * imaginary).ravel().astype(dtype)
    info = finfo(dtype)
    tiny, largest = float(info.smallest_normal), float(info.max)
    some = [0.0, tiny, tiny / 4, float(info.smallest_subnormal), largest, np.inf, np.nan]
    some += [0.1, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 0.9, 1.1, 10.0, 87.0, 100.0, 600.0]
    some += [1e4, 2.0**31, 2.0**32, 2.0**63, 2.0**64, largest / 2, 0.3333, 7.7]
    with np.errstate(all="ignore"):
        return np.array(some + [-x for x in some]).astype(dtype)
