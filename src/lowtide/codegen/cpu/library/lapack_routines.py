"""LAPACK's routines, and one of BLAS, as JAX calls them on CPU: what each is given, for one matrix.

Sources: E. Anderson et al. (1999), "LAPACK Users' Guide", for the arguments of the routines and
the lengths of real workspaces. What JAX hands in and takes back is `lapack_<type><routine>_ffi`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Final, TypeAlias

from lowtide.ir import ElementType
from lowtide.records import dataclass

_S32: Final = ElementType.S32


@dataclass(frozen=True, slots=True)
class Area:
    """An array in scratch, column by column, of `sizes` rows and columns.

    It is filled from an operand, else with zeros, and goes to a result, if those have numbers. The
    routine gets the address of element `skip`. Real vectors in `pairs` are those of complex
    eigenvalues, whose imaginary parts stand in the area of that number among the arguments: they
    go to a complex result.

    One that `is_in_place` is no copy: the routine works on the array of the operand, or on that of
    the result once the operand is copied there. One that lies row by row the routine takes for the
    transposed matrix.
    """

    type: ElementType
    sizes: tuple[int, ...]
    operand: int | None = None
    result: int | None = None
    skip: int = 0
    pairs: int | None = None
    is_in_place: bool = False


@dataclass(frozen=True, slots=True)
class Work:
    """A workspace; the routine tells its length, which is given after it."""

    type: ElementType


@dataclass(frozen=True, slots=True)
class One:
    """The number 1 of an element type."""

    type: ElementType


Arguments: TypeAlias = "tuple[str | int | Area | Work | One | None, ...]"


@dataclass(frozen=True, slots=True)
class RoutineCall:
    """The arguments of a routine for one matrix: characters, numbers, arrays, None for null.

    `kept` pairs operands with results that are equal to them. With `is_finite` a matrix with a NaN
    or an infinity is not handed in: its info is -4.
    """

    arguments: Arguments
    kept: tuple[tuple[int, int], ...] = ()
    is_finite: bool = False


class MatrixOrder(Enum):
    """How a matrix lies: row by row, column by column, or otherwise."""

    ROWS = auto()
    COLUMNS = auto()
    OTHER = auto()


@dataclass(frozen=True, slots=True)
class RoutineSetting:
    """What a call is made for: the element type in its name, its options, and sizes of one matrix.

    `operands` and `results` are the sizes of each array without those of the batch, and the others
    how their matrices lie.
    """

    type: ElementType
    options: Mapping[str, str]
    operands: tuple[tuple[int, ...], ...]
    results: tuple[tuple[int, ...], ...]
    operand_orders: tuple[MatrixOrder, ...]
    result_orders: tuple[MatrixOrder, ...]

    @property
    def is_complex(self) -> bool:
        """Whether the matrix is complex."""
        return self.type.is_complex

    @property
    def real(self) -> ElementType:
        """The type of the parts of the elements."""
        return self.type.part

    @property
    def rows(self) -> int:
        """The rows of the first operand."""
        return self.operands[0][0]

    @property
    def columns(self) -> int:
        """The columns of the first operand."""
        return self.operands[0][1]

    @property
    def least(self) -> int:
        """The smaller of rows and columns."""
        return min(self.operands[0])


Describe: TypeAlias = Callable[[RoutineSetting], RoutineCall]


def _lead(rows: int) -> int:
    return max(rows, 1)


def _info(result: int | None) -> Area:
    return Area(_S32, (), result=result)


def _changed(at: RoutineSetting) -> Area:
    """The matrix that becomes the first result: where it lies, if that is column by column."""
    in_place = at.result_orders[0] is MatrixOrder.COLUMNS
    return Area(at.type, (at.rows, at.columns), operand=0, result=0, is_in_place=in_place)


def geev(at: RoutineSetting) -> RoutineCall:
    """Return (eigenvalues, in parts if real, left and right eigenvectors, info)."""
    n, kind = at.rows, at.type
    left, right = [at.options.get(x, "N") for x in ("compute_left", "compute_right")]
    matrix = Area(kind, (n, n), operand=0)
    if at.is_complex:
        values = [Area(kind, (n,), result=0)]
        vectors = [Area(kind, (n, n), result=x) for x in (1, 2)]
        rest: tuple[Area, ...] = (Area(at.real, (2 * n,)), _info(3))
    else:
        values = [Area(kind, (n,), result=x) for x in (0, 1)]
        vectors = [Area(kind, (n, n), result=x, pairs=6) for x in (2, 3)]
        rest = (_info(4),)
    work = (vectors[0], _lead(n), vectors[1], _lead(n), Work(kind))
    return RoutineCall((left, right, n, matrix, _lead(n), *values, *work, *rest), is_finite=True)


def gees(at: RoutineSetting) -> RoutineCall:
    """Return (Schur form, vectors, eigenvalues, in parts if real, how many are selected, info)."""
    n, kind = at.rows, at.type
    form, vectors = Area(kind, (n, n), operand=0, result=0), Area(kind, (n, n), result=1)
    parts = 1 if at.is_complex else 2
    values = [Area(kind, (n,), result=2 + x) for x in range(parts)]
    more = (Area(at.real, (n,)),) if at.is_complex else ()
    head = (at.options.get("mode", "V"), at.options.get("sort", "N"), None, n, form, _lead(n))
    selected, flags = _info(2 + parts), Area(_S32, (n,))
    tail = (vectors, _lead(n), Work(kind), *more, flags, _info(3 + parts))
    return RoutineCall((*head, selected, *values, *tail))


def gehrd(at: RoutineSetting) -> RoutineCall:
    """Return (Hessenberg form with the reflectors below it, their factors, info)."""
    n, kind = at.rows, at.type
    low, high = [int(at.options.get(name, x)) for name, x in (("low", 1), ("high", n))]
    matrix, taus = Area(kind, (n, n), operand=0, result=0), Area(kind, (max(n - 1, 0),), result=1)
    return RoutineCall((n, low, high, matrix, _lead(n), taus, Work(kind), _info(2)))


def sytrd(at: RoutineSetting) -> RoutineCall:
    """Return (reflectors, diagonal, the one beside it, factors of the reflectors, info)."""
    n, kind, less = at.rows, at.type, max(at.rows - 1, 0)
    matrix = Area(kind, (n, n), operand=0, result=0)
    diagonals = (Area(at.real, (n,), result=1), Area(at.real, (less,), result=2))
    rest = (Area(kind, (less,), result=3), Work(kind), _info(4))
    return RoutineCall((at.options.get("uplo", "L"), n, matrix, _lead(n), *diagonals, *rest))


def potrf(at: RoutineSetting) -> RoutineCall:
    """Return (Cholesky factor in its triangle of the operand, info).

    The transposed matrix is the conjugate one, and its factor the transposed factor.
    """
    n, order = at.rows, at.result_orders[0]
    in_place = order is not MatrixOrder.OTHER
    matrix = Area(at.type, (n, n), operand=0, result=0, is_in_place=in_place)
    triangle = at.options.get("uplo", "L")
    if order is MatrixOrder.ROWS:
        triangle = _OTHER[triangle]
    return RoutineCall((triangle, n, matrix, _lead(n), _info(1)))


_OTHER: Final[Mapping[str, str]] = {"L": "U", "U": "L"}
"""The triangle of a transposed matrix."""


def getrf(at: RoutineSetting) -> RoutineCall:
    """Return (L and U in one matrix, the rows of pivots, info)."""
    m, n = at.rows, at.columns
    matrix, pivots = _changed(at), Area(_S32, (at.least,), result=1)
    return RoutineCall((m, n, matrix, _lead(m), pivots, _info(2)))


def geqrf(at: RoutineSetting) -> RoutineCall:
    """Return (R with the reflectors of Q below it, their factors)."""
    m, n, kind = at.rows, at.columns, at.type
    matrix, taus = _changed(at), Area(kind, (at.least,), result=1)
    return RoutineCall((m, n, matrix, _lead(m), taus, Work(kind), _info(None)))


def orgqr(at: RoutineSetting) -> RoutineCall:
    """Return Q by its reflectors and their factors."""
    m, n, kind = at.rows, at.columns, at.type
    (count,) = at.operands[1]
    matrix, taus = _changed(at), Area(kind, (count,), operand=1)
    return RoutineCall((m, n, count, matrix, _lead(m), taus, Work(kind), _info(None)))


def trsm(at: RoutineSetting) -> RoutineCall:
    """Return the solution of equations with a triangular matrix.

    The transposed solution is that of the transposed equations, from the other side.
    """
    kind, sizes = at.type, at.operands[1]
    orders = at.operand_orders[0], at.result_orders[0]
    side, triangle, way, diagonal = [at.options.get(name, x) for name, x in _TRIANGULAR]
    if way == "C" and (orders[0] is MatrixOrder.ROWS) != (orders[1] is MatrixOrder.ROWS):
        orders = (
            MatrixOrder.OTHER,
            MatrixOrder.OTHER,
        )  # There is no call for the conjugate of what lies there.
    is_flipped, is_turned = [x is MatrixOrder.ROWS for x in orders]
    in_place = [x is not MatrixOrder.OTHER for x in orders]
    matrix = Area(kind, at.operands[0], operand=0, is_in_place=in_place[0])
    solution = Area(kind, sizes, operand=1, result=0, is_in_place=in_place[1])
    if is_turned:
        side, sizes = _OTHER_SIDE[side], sizes[::-1]
    if is_flipped:
        triangle = _OTHER[triangle]
    if is_flipped != is_turned:
        way = _OTHER_WAY[way]
    head: Arguments = (side, triangle, way, diagonal, sizes[0], sizes[1], One(kind))
    return RoutineCall((*head, matrix, _lead(at.rows), solution, _lead(sizes[0])))


_TRIANGULAR: Final = (("side", "L"), ("uplo", "L"), ("trans_x", "N"), ("diag", "N"))
"""The options of trsm in the order of its arguments, and what they are otherwise."""

_OTHER_SIDE: Final[Mapping[str, str]] = {"L": "R", "R": "L"}
_OTHER_WAY: Final[Mapping[str, str]] = {"N": "T", "T": "N"}


def geqp3(at: RoutineSetting) -> RoutineCall:
    """Return (R with the reflectors of Q below it, the order of columns, their factors)."""
    kind = at.type
    matrix = Area(kind, (at.rows, at.columns), operand=0, result=0)
    order = Area(_S32, (at.columns,), operand=1, result=1)
    more = (Area(at.real, (2 * at.columns,)),) if at.is_complex else ()
    taus = Area(kind, (at.least,), result=2)
    head = (at.rows, at.columns, matrix, _lead(at.rows), order, taus)
    return RoutineCall((*head, Work(kind), *more, _info(None)))


def syevd(at: RoutineSetting) -> RoutineCall:
    """Return (eigenvectors, ascending eigenvalues, info) of a symmetric or Hermitian matrix."""
    n, kind = at.rows, at.type
    vectors, values = Area(kind, (n, n), operand=0, result=0), Area(at.real, (n,), result=1)
    more = (Work(at.real),) if at.is_complex else ()
    head = (at.options.get("mode", "V"), at.options.get("uplo", "L"), n, vectors, _lead(n))
    return RoutineCall((*head, values, Work(kind), *more, Work(_S32), _info(2)))


def gesdd(at: RoutineSetting) -> RoutineCall:
    """Return (the operand, singular values, U, adjoint of V, info), by halves."""
    k, most = at.least, max(at.rows, at.columns)
    length = max(5 * k * k + 7 * k, 2 * most * k + 2 * k * k + k)
    more = (Area(at.real, (length,)),) if at.is_complex else ()
    mode = at.options.get("mode", "A")
    return _singular_values(at, (mode,), (*more, Area(_S32, (8 * k,))))


def gesvd(at: RoutineSetting) -> RoutineCall:
    """Return (the operand, singular values, U, adjoint of V, info), by QR steps."""
    more = (Area(at.real, (5 * at.least,)),) if at.is_complex else ()
    mode = at.options.get("mode", "A")
    return _singular_values(at, (mode, mode), more)


def _singular_values(
    at: RoutineSetting, modes: tuple[str, ...], more: tuple[Area, ...]
) -> RoutineCall:
    m, n, kind = at.rows, at.columns, at.type
    forms = {"A": ((m, m), (n, n)), "S": ((m, at.least), (at.least, n)), "N": at.results[2:4]}
    of_u, of_v = forms.get(modes[0], (_NO_SIZES, _NO_SIZES))
    u, v = Area(kind, of_u, result=2), Area(kind, of_v, result=3)
    values = Area(at.real, (at.least,), result=1)
    matrix = Area(kind, (m, n), operand=0)
    head: Arguments = (*modes, m, n, matrix, _lead(m), values)
    tail: Arguments = (u, _lead(m), v, _lead(of_v[0]), Work(kind), *more, _info(4))
    return RoutineCall(head + tail, ((0, 0),), is_finite=len(modes) == 1)


_NO_SIZES: Final = (-1, -1)
"""The sizes of no array: no call fits."""


def gtsv(at: RoutineSetting) -> RoutineCall:
    """Return (the three diagonals, the solution, info); the first below is not used."""
    kind, (n, columns) = at.type, at.operands[3]
    below, main, above = [
        Area(kind, (n,), operand=x, skip=skip) for x, skip in ((0, 1), (1, 0), (2, 0))
    ]
    solution = Area(kind, (n, columns), operand=3, result=3)
    kept = ((0, 0), (1, 1), (2, 2))
    return RoutineCall((n, columns, below, main, above, solution, _lead(n), _info(4)), kept)


@dataclass(frozen=True, slots=True)
class Routine:
    """A routine by LAPACK's name, the type of its matrix, and what it is given.

    `operands` and `results` are the ranks of its arrays, without those of the batch.
    """

    name: str
    type: ElementType
    describe: Describe
    operands: tuple[int, ...]
    results: tuple[int, ...]


def _each(
    describe: Describe,
    routine: str,
    operands: tuple[int, ...],
    results: tuple[int, ...],
    types: str = "sdcz",
) -> dict[str, Routine]:
    return {
        f"lapack_{x}{routine}_ffi": Routine(x + routine, _TYPES[x], describe, operands, results)
        for x in types
    }


_TYPES: Final[Mapping[str, ElementType]] = {
    "s": ElementType.F32,
    "d": ElementType.F64,
    "c": ElementType.C64,
    "z": ElementType.C128,
}

ROUTINES: Final[Mapping[str, Routine]] = {
    **_each(geev, "geev", (2,), (1, 1, 2, 2, 0), "sd"),
    **_each(geev, "geev", (2,), (1, 2, 2, 0), "cz"),
    **_each(gees, "gees", (2,), (2, 2, 1, 1, 0, 0), "sd"),
    **_each(gees, "gees", (2,), (2, 2, 1, 0, 0), "cz"),
    **_each(gehrd, "gehrd", (2,), (2, 1, 0)),
    **_each(geqp3, "geqp3", (2, 1), (2, 1, 1)),
    **_each(geqrf, "geqrf", (2,), (2, 1)),
    **_each(getrf, "getrf", (2,), (2, 1, 0)),
    **_each(orgqr, "orgqr", (2, 1), (2,), "sd"),
    **_each(orgqr, "ungqr", (2, 1), (2,), "cz"),
    **_each(potrf, "potrf", (2,), (2, 0)),
    **_each(trsm, "trsm", (2, 2), (2,)),
    **_each(gesdd, "gesdd", (2,), (2, 1, 2, 2, 0)),
    **_each(gesvd, "gesvd", (2,), (2, 1, 2, 2, 0)),
    **_each(gtsv, "gtsv", (1, 1, 1, 2), (1, 1, 1, 2, 0)),
    **_each(syevd, "syevd", (2,), (2, 1, 0), "sd"),
    **_each(syevd, "heevd", (2,), (2, 1, 0), "cz"),
    **_each(sytrd, "sytrd", (2,), (2, 1, 1, 1, 0), "sd"),
    **_each(sytrd, "hetrd", (2,), (2, 1, 1, 1, 0), "cz"),
}
"""The routines by target of their calls."""
