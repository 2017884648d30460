"""Calls of libraries, for which HLO has an operation or a loop of some: top-k and LAPACK's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from lowtide.builder.values import Op
from lowtide.evaluator.lapack import target_names
from lowtide.ir import ElementType, Instruction, Module, Opcode, Shape, array_shape, tuple_shape
from lowtide.ir.attributes import CustomCall, TriangularSolve
from lowtide.ops.custom_call import (
    LAPACK_LETTERS,
    call_options,
    lapack_target,
    options_text,
    spectrum_triangle,
)
from lowtide.passes.interface import Pass, example
from lowtide.passes.matching import is_plain
from lowtide.passes.rewriting import Rewriter, rule
from lowtide.transforms.expand import factorizations, library_shapes
from lowtide.transforms.expand.loops import index
from lowtide.transforms.expand.support import expand
from lowtide.transforms.expand.tridiagonal import perturbed_solution
from lowtide.transforms.simplify.support import Made

_Expand: TypeAlias = Callable[[Instruction, Sequence[Op]], "list[Op] | None"]


class Libraries(Protocol):
    """What runs a program: whether large matrices are factorized by LAPACK there."""

    @property
    def has_lapack(self) -> bool:
        """Whether there are LAPACK's routines."""


def expand_custom_calls(module: Module, target: Libraries | None = None) -> int:
    """Write calls of known libraries as operations of HLO; return the number of changes.

    Calls of LAPACK stay where a `target` has it and matrices are so large that it is faster, and
    calls that a kernel of the target computes.

    `TopK` becomes topk, `potrf` cholesky, `trsm` triangular-solve. Loops are written for `getrf`
    (LU with pivots), `geqrf`, `orgqr` and `ormqr` (QR by reflectors), and tridiagonal systems.
    What XLA calls by names of its own, `Qr` and others, gets LAPACK's names first.
    Layouts that a call wants are those of copies then. Other calls stay, those for eigenvalues and
    singular values among them, and so do those whose operands and results are not what their name
    says.
    """
    has_lapack = target is not None and target.has_lapack
    return expand(module, (call_by_xlas_name, _call_of_little) if has_lapack else RULES)


@rule(Opcode.CUSTOM_CALL, exact=False)
def call_by_xlas_name(x: Instruction, at: Rewriter) -> Made:
    """custom-call(x), custom_call_target="Qr" => the same of "lapack_sgeqrf_ffi"

    XLA's library writes these names, for TensorFlow's operations among others; its result for
    "Eigh" has no `info`.
    """
    routine = _XLAS_NAMES.get(x.attributes_as(CustomCall).target)
    if routine is None or not x.operands:
        return None
    target = lapack_target(routine, x.operands[0].shape.element_type)
    if not target:
        return None
    operands = [at(y) for y in x.operands]
    if routine != _SPECTRUM:
        return at.build.custom_call(target, operands, x.shape)
    leaves = [library_shapes.leaf(y) for y in x.shape.tuple_shapes if y.is_array]
    if not library_shapes.eigh(x.operands[0].shape, leaves):
        return None
    info = array_shape(ElementType.S32, x.operands[0].shape.dimensions[:-2])
    config = options_text({"mode": "V", "uplo": spectrum_triangle(x)})
    shape = tuple_shape([*x.shape.tuple_shapes, info])
    found = at.build.custom_call(target, operands, shape, backend_config=config)
    return at.build.tuple([at.build.get_tuple_element(found, i) for i in range(2)])


_SPECTRUM: Final = "syevd"

_XLAS_NAMES: Final[Mapping[str, str]] = {
    "Eigh": _SPECTRUM,
    "ProductOfElementaryHouseholderReflectors": "orgqr",
    "Qr": "geqrf",
}
"""LAPACK's names of what XLA calls otherwise."""


@rule(Opcode.CUSTOM_CALL, exact=False)
def call_of_library(x: Instruction, at: Rewriter) -> Made:
    """custom-call(x), custom_call_target="lapack_spotrf_ffi" => cholesky(x), ..."""
    call = _CALLS.get(x.attributes_as(CustomCall).target)
    results = x.shape.tuple_shapes if x.shape.is_tuple else (x.shape,)
    shapes = [*results, *[y.shape for y in x.operands]]
    if call is None or not all(y.is_array and not y.is_dynamic for y in shapes):
        return None
    if any(0 in y.dimensions for y in shapes) or not _fits(call, x, results):
        return None
    made = call.write(x, [_in_layout(at(y), _row_major(y.shape)) for y in x.operands])
    if made is None:
        return None
    found = [_in_layout(y, shape) for y, shape in zip(made, results, strict=True)]
    return at.build.tuple(found) if x.shape.is_tuple else found[0]


def _fits(call: _Call, x: Instruction, results: Sequence[Shape]) -> bool:
    operands = [library_shapes.leaf(y.shape) for y in x.operands]
    return call.fits(x, call.kind, operands, [library_shapes.leaf(y) for y in results])


def _row_major(shape: Shape) -> Shape:
    return shape if is_plain(shape) else array_shape(shape.element_type, shape.dimensions)


def _in_layout(value: Op, shape: Shape) -> Op:
    if value.shape is shape:
        return value
    return value.builder.emit(Opcode.COPY, [value], shape=shape)


# -- one operation each ------------------------------------------------------------------------


def top_k(x: Instruction, operands: Sequence[Op]) -> list[Op]:
    """Return (values, places) by topk."""
    k = x.shape.tuple_shapes[0].dimensions[-1]
    return list(operands[0].builder.topk(operands[0], k))


def potrf(x: Instruction, operands: Sequence[Op]) -> list[Op]:
    """Return (factor, info) by cholesky; `info` is 1 where there is no factor, whichever minor."""
    (a,) = operands
    build = a.builder
    lower = call_options(x).get("uplo", "L") == "L"
    factor = build.cholesky(a, lower=lower)
    rows, columns = index(a, a.rank - 2), index(a, a.rank - 1)
    is_kept = rows.ge(columns) if lower else rows.le(columns)
    ends = [n - 1 for n in a.dimensions[-2:]]
    last = build.slice(factor, [*[0] * (a.rank - 2), *ends], a.dimensions)
    info = build.convert(build.reshape(last.ne(last), a.dimensions[:-2]), ElementType.S32)
    return [build.select(is_kept, factor, a), info]


@rule(Opcode.CUSTOM_CALL, exact=False)
def _call_of_little(x: Instruction, at: Rewriter) -> Made:
    """The same where the library's own routine would take longer, and loops less than a kernel."""
    call = _CALLS.get(x.attributes_as(CustomCall).target)
    if call is not None and call.rows and _least(x) >= call.rows:
        return None
    if call is not None and call.kernel and call.kernel <= _least(x) and _most(x) < call.rows:
        return _row_by_row(call, x, at)
    return call_of_library.apply(x, at)


def _row_by_row(call: _Call, x: Instruction, at: Rewriter) -> Made:
    """custom-call(x) => the same call, all arrays of which lie row by row, in memory of their own

    A library takes columns; what is copied for it anyway would be copied twice.
    """
    results = x.shape.tuple_shapes
    shapes = [*results, *[y.shape for y in x.operands]]
    if not all(y.is_array and not y.is_dynamic for y in shapes) or not _fits(call, x, results):
        return None
    how = x.attributes_as(CustomCall)
    if all(map(is_plain, shapes)) and not how.output_to_operand_aliasing:
        return None
    operands = [_in_layout(at(y), _row_major(y.shape)) for y in x.operands]
    made = at.build.custom_call(how.target, operands, tuple_shape([_row_major(y) for y in results]))
    found = [at.build.get_tuple_element(made, i) for i in range(len(results))]
    return at.build.tuple([_in_layout(y, z) for y, z in zip(found, results, strict=True)])


def _least(x: Instruction) -> int:
    """The least number of rows or columns of the matrices of a call."""
    return min(_sizes(x))


def _most(x: Instruction) -> int:
    """The greatest number of rows or columns of the matrices of a call."""
    return max(_sizes(x))


def _sizes(x: Instruction) -> list[int]:
    shapes = [y.shape for y in x.operands]
    return [n for y in shapes if y.rank == shapes[0].rank for n in y.dimensions[-2:]]


_TRANSPOSES: Final = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}


def trsm(x: Instruction, operands: Sequence[Op]) -> list[Op] | None:
    """Return the solution by triangular-solve."""
    chosen = call_options(x)
    if not {"side", "uplo", "diag"} <= chosen.keys() or chosen.get("trans_x") not in _TRANSPOSES:
        return None
    how = TriangularSolve(
        left_side=chosen["side"] == "L",
        lower=chosen["uplo"] == "L",
        unit_diagonal=chosen["diag"] == "U",
        transpose_a=_TRANSPOSES[chosen["trans_x"]],
    )
    return [operands[0].builder.emit(Opcode.TRIANGULAR_SOLVE, operands, how)]


def _plain(write: Callable[..., list[Op]]) -> _Expand:
    """A function of operands alone."""
    return lambda x, operands: write(*operands)


def ormqr(x: Instruction, operands: Sequence[Op]) -> list[Op]:
    """Return the target times Q by reflections."""
    chosen = call_options(x)
    is_left, is_adjoint = [chosen.get(name) == "true" for name in ("left", "transpose")]
    return factorizations.times_reflectors(*operands, is_left=is_left, is_adjoint=is_adjoint)


_KINDS: Final = {letter: kind for kind, letter in LAPACK_LETTERS.items()}


class _Call(NamedTuple):
    """What a call becomes, and for which operands and results; `kind` is the type in its name.

    From matrices of `rows` rows and columns on, if that is not 0, the library is faster. Where
    all are less, but `kernel` at least, a kernel of the call is faster than loops of operations.
    """

    write: _Expand
    fits: library_shapes.Fits
    kind: ElementType
    rows: int = 0
    kernel: int = 0


def _each(
    write: _Expand,
    fits: library_shapes.Fits,
    routine: str,
    types: str = "sdcz",
    rows: int = 0,
    kernel: int = 0,
) -> dict[str, _Call]:
    names = target_names(routine, types)
    return {
        name: _Call(write, fits, _KINDS[letter], rows, kernel)
        for name, letter in zip(names, types, strict=True)
    }


_CALLS: Final[Mapping[str, _Call]] = {
    "TopK": _Call(top_k, library_shapes.top_k, ElementType.F32),
    **_each(potrf, library_shapes.potrf, "potrf", rows=128),
    **_each(trsm, library_shapes.trsm, "trsm", rows=96),
    "tridiagonal_solve_perturbed_ffi": _Call(
        _plain(perturbed_solution), library_shapes.tridiagonal, ElementType.F32
    ),
    **_each(_plain(factorizations.with_pivots), library_shapes.getrf, "getrf", rows=32, kernel=5),
    **_each(_plain(factorizations.by_reflectors), library_shapes.geqrf, "geqrf", rows=40),
    **_each(_plain(factorizations.product_of_reflectors), library_shapes.orgqr, "orgqr", "sd", 40),
    **_each(_plain(factorizations.product_of_reflectors), library_shapes.orgqr, "ungqr", "cz", 40),
    **_each(ormqr, library_shapes.ormqr, "ormqr", "sd"),
    **_each(ormqr, library_shapes.ormqr, "unmqr", "cz"),
}

RULES: Final = (call_by_xlas_name, call_of_library)

PASSES: Final = (
    Pass(
        "expand-custom-calls",
        expand_custom_calls,
        "Writes calls of known libraries, top-k and LAPACK's, as operations of HLO.",
        *example(
            """
HloModule m

ENTRY main {
  x = f32[2,8] parameter(0)
- ROOT y = (f32[2,3], s32[2,3]) custom-call(x), custom_call_target="TopK"
+ topk = (f32[2,3], s32[2,3]) topk(x), k=3, largest=true
+ get-tuple-element = f32[2,3] get-tuple-element(topk), index=0
+ get-tuple-element.1 = s32[2,3] get-tuple-element(topk), index=1
+ ROOT tuple = (f32[2,3], s32[2,3]) tuple(get-tuple-element, get-tuple-element.1)
}
"""
        ),
    ),
)
