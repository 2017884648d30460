"""Calls of libraries, for which HLO has an operation or a loop of some: top-k and LAPACK's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from lowtide.builder.values import Op
from lowtide.evaluator.lapack import options, target_names
from lowtide.ir import ElementType, Instruction, Module, Opcode, Shape, array_shape
from lowtide.ir.attributes import CustomCall, TriangularSolve
from lowtide.passes.interface import Pass
from lowtide.passes.matching import is_plain
from lowtide.passes.rewriting import Rewriter, rule
from lowtide.transforms.expand import eigenvalues, factorizations, singular_values
from lowtide.transforms.expand.loops import index
from lowtide.transforms.expand.support import expand, spread_to
from lowtide.transforms.simplify.support import Made

_Expand: TypeAlias = Callable[[Instruction, Sequence[Op]], "list[Op] | None"]


def expand_custom_calls(module: Module) -> int:
    """Write calls of known libraries as operations of HLO; return the number of changes.

    `TopK` becomes topk, `potrf` cholesky, `trsm` triangular-solve. Loops are written for `getrf`
    (LU with pivots), `geqrf`, `orgqr` and `ormqr` (QR by reflectors), and of real matrices `syevd`
    (eigenvalues) and `gesdd` (singular values). Layouts that a call wants are those of copies then.
    Other calls stay.
    """
    return expand(module, RULES)


@rule(Opcode.CUSTOM_CALL, exact=False)
def call_of_library(x: Instruction, at: Rewriter) -> Made:
    """custom-call(x), custom_call_target="lapack_spotrf_ffi" => cholesky(x), ..."""
    write = _CALLS.get(x.attributes_as(CustomCall).target)
    results = x.shape.tuple_shapes if x.shape.is_tuple else (x.shape,)
    shapes = [*results, *[y.shape for y in x.operands]]
    if write is None or not all(y.is_array and not y.is_dynamic for y in shapes):
        return None
    if any(0 in y.dimensions for y in shapes):
        return None
    made = write(x, [_in_layout(at(y), _row_major(y.shape)) for y in x.operands])
    if made is None:
        return None
    found = [_in_layout(y, shape) for y, shape in zip(made, results, strict=True)]
    return at.build.tuple(found) if x.shape.is_tuple else found[0]


def _row_major(shape: Shape) -> Shape:
    return shape if is_plain(shape) else array_shape(shape.element_type, shape.dimensions)


def _in_layout(value: Op, shape: Shape) -> Op:
    if value.shape is shape:
        return value
    return value.builder.emit(Opcode.COPY, [value], shape=shape)


# -- one operation each ------------------------------------------------------------------------


def top_k(x: Instruction, operands: Sequence[Op]) -> list[Op] | None:
    """Return (values, places) by topk."""
    values, places = x.shape.tuple_shapes
    if places.element_type is not ElementType.S32 or len(operands) != 1:
        return None
    return list(operands[0].builder.topk(operands[0], values.dimensions[-1]))


def potrf(x: Instruction, operands: Sequence[Op]) -> list[Op]:
    """Return (factor, info) by cholesky; `info` is 1 where there is no factor, whichever minor."""
    (a,) = operands
    build = a.builder
    lower = options(x).get("uplo", "L") == "L"
    factor = build.cholesky(a, lower=lower)
    rows, columns = index(a, a.rank - 2), index(a, a.rank - 1)
    is_kept = rows.ge(columns) if lower else rows.le(columns)
    ends = [n - 1 for n in a.dimensions[-2:]]
    last = build.slice(factor, [*[0] * (a.rank - 2), *ends], a.dimensions)
    info = build.convert(build.reshape(last.ne(last), a.dimensions[:-2]), ElementType.S32)
    return [build.select(is_kept, factor, a), info]


_TRANSPOSES: Final = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}


def trsm(x: Instruction, operands: Sequence[Op]) -> list[Op] | None:
    """Return the solution by triangular-solve."""
    chosen = options(x)
    if not {"side", "uplo", "diag", "trans_x"} <= chosen.keys():
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
    chosen = options(x)
    is_left, is_adjoint = [chosen.get(name) == "true" for name in ("left", "transpose")]
    return factorizations.times_reflectors(*operands, is_left=is_left, is_adjoint=is_adjoint)


def syevd(x: Instruction, operands: Sequence[Op]) -> list[Op]:
    """Return (eigenvectors, eigenvalues, info) by rotations."""
    return eigenvalues.symmetric(operands[0], lower=options(x).get("uplo", "L") == "L")


def gesdd(x: Instruction, operands: Sequence[Op]) -> list[Op]:
    """Return (the operand, singular values, U, adjoint of V, info) by rotations."""
    (a,) = operands
    *_, u, v, _ = x.shape.tuple_shapes
    if options(x).get("mode", "A") != "N":
        is_full = u.dimensions[-1] == u.dimensions[-2] and v.dimensions[-1] == v.dimensions[-2]
        return [a, *singular_values.decomposed(a, is_full=is_full)]
    values, _, _, info = singular_values.decomposed(a, is_full=False)
    nothing = a.builder.constant(0, a.element_type)
    return [a, values, *[spread_to(nothing, shape.dimensions) for shape in (u, v)], info]


def _each(write: _Expand, *routines: str, types: str = "sdcz") -> dict[str, _Expand]:
    return {name: write for routine in routines for name in target_names(routine, types)}


_CALLS: Final[Mapping[str, _Expand]] = {
    "TopK": top_k,
    **_each(potrf, "potrf"),
    **_each(trsm, "trsm"),
    **_each(_plain(factorizations.with_pivots), "getrf"),
    **_each(_plain(factorizations.by_reflectors), "geqrf"),
    **_each(_plain(factorizations.product_of_reflectors), "orgqr", types="sd"),
    **_each(_plain(factorizations.product_of_reflectors), "ungqr", types="cz"),
    **_each(ormqr, "ormqr", types="sd"),
    **_each(ormqr, "unmqr", types="cz"),
    **_each(syevd, "syevd", types="sd"),
    **_each(gesdd, "gesdd", types="sd"),
}

RULES: Final = (call_of_library,)

PASSES: Final = (
    Pass(
        "expand-custom-calls",
        expand_custom_calls,
        "Writes calls of known libraries, top-k and LAPACK's, as operations of HLO.",
        before="""
HloModule m

ENTRY main {
  x = f32[2,8] parameter(0)
  ROOT y = (f32[2,3], s32[2,3]) custom-call(x), custom_call_target="TopK"
}
""",
        after="""
HloModule m

ENTRY main {
  x = f32[2,8] parameter(0)
  topk = (f32[2,3], s32[2,3]) topk(x), k=3, largest=true
  get-tuple-element = f32[2,3] get-tuple-element(topk), index=0
  get-tuple-element.1 = s32[2,3] get-tuple-element(topk), index=1
  ROOT tuple = (f32[2,3], s32[2,3]) tuple(get-tuple-element, get-tuple-element.1)
}
""",
    ),
)
