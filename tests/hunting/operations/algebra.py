"""Linear algebra, Fourier transforms, normalization over a batch, and random bits."""

from __future__ import annotations

from math import prod
from typing import Final

from tests.hunting.arrays import COMPLEX, FLOATS, WIDE_FLOATS, DrawnArray, braced, one, zero
from tests.hunting.scope import Maker, Scope, halved, joined

_MOST_ROWS: Final = 200
"""The sizes of matrices of equations: in larger ones roundings grow too far."""

_MATRICES: Final = (*WIDE_FLOATS, *COMPLEX)


def _eye(scope: Scope, type_: str, sizes: tuple[int, ...]) -> DrawnArray:
    """The identity matrix, as often as the sizes before the last two say."""
    rank = len(sizes)
    rows = scope.emit("s32", sizes, f"iota(), iota_dimension={rank - 2}")
    columns = scope.emit("s32", sizes, f"iota(), iota_dimension={rank - 1}")
    same = scope.emit("pred", sizes, f"compare({joined([rows, columns])}), direction=EQ")
    return scope.emit(type_, sizes, f"convert({same.name})")


def _filled(scope: Scope, type_: str, sizes: tuple[int, ...], text: str) -> DrawnArray:
    scalar = scope.constant(type_, text)
    return scope.emit(type_, sizes, f"broadcast({scalar.name}), dimensions={{}}")


def _matrices(scope: Scope) -> tuple[int, ...]:
    size = min(scope.size(), _MOST_ROWS)
    batch = halved(scope.sizes(0, 1), scope.draft.most // (size * size or 1))
    return (*batch, size, size)


def _cholesky(scope: Scope, type_: str) -> DrawnArray | None:
    if type_ not in _MATRICES:
        return None
    sizes = _matrices(scope)
    rank = len(sizes)
    x = scope.array(type_, sizes, 0)
    batch = braced(list(range(rank - 2)))
    part = {"c64": "f32", "c128": "f64"}.get(type_, type_)
    if type_ in COMPLEX:
        x = scope.emit(part, sizes, f"real({x.name})")
    # Beside squares of large numbers the identity is lost, and a rounding makes the matrix one
    # that has no factors.
    ends = [scope.constant(part, text) for text in ("-99", "99")]
    x = scope.emit(part, sizes, f"clamp({joined([ends[0], x, ends[1]])})")
    if type_ in COMPLEX:
        x = scope.emit(type_, sizes, f"convert({x.name})")
    product = scope.emit(
        type_,
        sizes,
        f"dot({joined([x, x])}), lhs_batch_dims={batch}, lhs_contracting_dims={{{rank - 1}}}, "
        f"rhs_batch_dims={batch}, rhs_contracting_dims={{{rank - 1}}}",
        1,
    )
    eye = _eye(scope, type_, sizes)
    ten = _filled(scope, type_, sizes, "(10, 0)" if type_ in COMPLEX else "10")
    eyes = scope.emit(type_, sizes, f"multiply({joined([eye, ten])})")
    positive = scope.emit(type_, sizes, f"add({joined([product, eyes])})", 1)
    lower = scope.chance(2)
    made = scope.emit(
        type_, sizes, f"cholesky({positive.name}), lower={'true' if lower else 'false'}", 2
    )
    # The other triangle holds anything.
    rows = scope.emit("s32", sizes, f"iota(), iota_dimension={rank - 2}")
    columns = scope.emit("s32", sizes, f"iota(), iota_dimension={rank - 1}")
    direction = "GE" if lower else "LE"
    inside = scope.emit("pred", sizes, f"compare({joined([rows, columns])}), direction={direction}")
    nothing = _filled(scope, type_, sizes, zero(type_))
    scope.arrays.remove(made)
    return scope.emit(type_, sizes, f"select({joined([inside, made, nothing])})", 2)


def _triangular_solve(scope: Scope, type_: str) -> DrawnArray | None:
    if type_ not in _MATRICES:
        return None
    sizes = _matrices(scope)
    rank = len(sizes)
    left = scope.chance(2)
    (other,) = halved([scope.size()], scope.draft.most // (prod(sizes[:-1]) or 1))
    right_sizes = (*sizes[:-1], other) if left else (*sizes[:-2], other, sizes[-1])
    x = scope.array(type_, sizes, 0)
    eye = _eye(scope, type_, sizes)
    part = "0.00390625"  # Beside 4 it is little even of large arguments: solutions stay small.
    parts = _filled(scope, type_, sizes, f"({part}, 0)" if type_ in COMPLEX else part)
    small = scope.emit(type_, sizes, f"multiply({joined([x, parts])})")
    four = _filled(scope, type_, sizes, "(4, 0)" if type_ in COMPLEX else "4")
    diagonal = scope.emit(type_, sizes, f"multiply({joined([eye, four])})")
    matrix = scope.emit(type_, sizes, f"add({joined([small, diagonal])})")
    b = scope.array(type_, right_sizes, 0)
    words = {True: "true", False: "false"}
    attributes = [
        f"left_side={words[left]}",
        f"lower={words[scope.chance(2)]}",
        f"unit_diagonal={words[scope.chance(2)]}",
        f"transpose_a={scope.random.choice(('NO_TRANSPOSE', 'TRANSPOSE', 'ADJOINT'))}",
    ]
    assert rank >= 2
    expression = f"triangular-solve({joined([matrix, b])}), {', '.join(attributes)}"
    return scope.emit(type_, right_sizes, expression, 2)


def _fft(scope: Scope, type_: str) -> DrawnArray | None:
    if type_ not in _MATRICES:
        return None
    sizes = scope.sizes(1, 3)
    count = scope.random.randint(1, min(2, len(sizes)))
    lengths = sizes[-count:]
    if type_ in COMPLEX:
        half = (*sizes[:-1], sizes[-1] // 2 + 1)
        if scope.chance(3) and all(lengths):
            part = "f32" if type_ == "c64" else "f64"
            x = scope.array(type_, half, 0)
            expression = f"fft({x.name}), fft_type=IRFFT, fft_length={braced(lengths)}"
            return scope.emit(part, sizes, expression, 2)
        kind = scope.random.choice(("FFT", "IFFT"))
        x = scope.array(type_, sizes, 0)
        expression = f"fft({x.name}), fft_type={kind}, fft_length={braced(lengths)}"
        return scope.emit(type_, sizes, expression, 2)
    if not all(lengths):
        return None
    x = scope.array(type_, sizes, 0)
    whole = "c64" if type_ == "f32" else "c128"
    half = (*sizes[:-1], sizes[-1] // 2 + 1)
    expression = f"fft({x.name}), fft_type=RFFT, fft_length={braced(lengths)}"
    return scope.emit(whole, half, expression, 2)


def _batch_norm(scope: Scope, type_: str) -> DrawnArray | None:
    if type_ not in FLOATS:
        return None
    sizes = scope.sizes(2, 4)
    place = scope.random.randrange(len(sizes))
    if 0 in sizes:
        return None
    x = scope.array(type_, sizes, 0)
    feature = (sizes[place],)
    scale, offset = scope.array(type_, feature, 0), scope.array(type_, feature, 0)
    attributes = f"epsilon=0.25, feature_index={place}"
    if scope.chance(2):
        parts = [(type_, sizes), (type_, feature), (type_, feature)]
        expression = f"batch-norm-training({joined([x, scale, offset])}), {attributes}"
        return scope.emit_parts(parts, expression, 2)[0]
    mean = scope.array(type_, feature, 0)
    ones = _filled(scope, type_, feature, one(type_))
    expression = f"batch-norm-inference({joined([x, scale, offset, mean, ones])}), {attributes}"
    return scope.emit(type_, sizes, expression, 2)


def _batch_norm_grad(scope: Scope, type_: str) -> DrawnArray | None:
    if type_ not in FLOATS:
        return None
    sizes = scope.sizes(2, 4)
    place = scope.random.randrange(len(sizes))
    if 0 in sizes:
        return None
    feature = (sizes[place],)
    x, gradient = scope.array(type_, sizes, 0), scope.array(type_, sizes, 0)
    scale, mean = scope.array(type_, feature, 0), scope.array(type_, feature, 0)
    ones = _filled(scope, type_, feature, one(type_))
    attributes = f"epsilon=0.25, feature_index={place}"
    expression = f"batch-norm-grad({joined([x, scale, mean, ones, gradient])}), {attributes}"
    parts = [(type_, sizes), (type_, feature), (type_, feature)]
    return scope.random.choice(scope.emit_parts(parts, expression, 2))


def _random_bits(scope: Scope, type_: str) -> DrawnArray | None:
    if type_ not in ("u32", "u64", "s32", "u8", "u16", "s64"):
        return None
    algorithm = scope.random.choice(("rng_three_fry", "rng_philox"))
    words = 2 if algorithm == "rng_three_fry" else 3
    state = scope.array("u64", (words,), 0)
    sizes = scope.sizes(1, 3)
    parts = [("u64", (words,)), (type_, sizes)]
    expression = f"rng-bit-generator({state.name}), algorithm={algorithm}"
    return scope.emit_parts(parts, expression)[1]


MAKERS: Final[dict[str, Maker]] = {
    "cholesky": _cholesky,
    "triangular-solve": _triangular_solve,
    "fft": _fft,
    "batch-norm-training": _batch_norm,
    "batch-norm-grad": _batch_norm_grad,
    "rng-bit-generator": _random_bits,
}
