"""Attributes of elementwise operations, linear algebra and random numbers."""

from __future__ import annotations

from typing import Final

from lowtide.ir.attribute_fields import Form, Shown, attribute, attribute_record
from lowtide.ir.attributes.base import Attributes
from lowtide.ir.element_type import ElementType


@attribute_record
class Compare(Attributes):
    """Of `compare`: `direction` (EQ NE GE GT LE LT) and the order, e.g. FLOAT or TOTALORDER.

    `type` is the order in force; text and protobuf leave out the default of the element type.
    """

    direction: str = attribute(
        Form.DIRECTION,
        proto="comparison_direction",
        words=("EQ", "NE", "GE", "GT", "LE", "LT"),
        what="comparison direction",
    )
    type: str = attribute(
        Form.COMPARISON_TYPE,
        proto="comparison_type",
        words=("FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"),
        what="comparison type",
    )


def default_comparison(element_type: ElementType) -> str:
    """Return the order that `compare` uses on a type unless told otherwise."""
    if element_type.is_floating or element_type.is_complex:
        return "FLOAT"
    return "SIGNED" if element_type.is_signed else "UNSIGNED"


@attribute_record
class ReducePrecision(Attributes):
    """Of `reduce-precision`: the sizes of the floating point format to round to."""

    exponent_bits: int = attribute(Form.INTEGER)
    mantissa_bits: int = attribute(Form.INTEGER)


@attribute_record
class Fft(Attributes):
    """Of `fft`: the kind (FFT, IFFT, RFFT, IRFFT) and the lengths of the last dimensions."""

    kind: str = attribute(
        Form.WORD, text="fft_type", words=("FFT", "IFFT", "RFFT", "IRFFT"), what="fft type"
    )
    length: tuple[int, ...] = attribute(Form.INTEGERS, text="fft_length")


@attribute_record
class Cholesky(Attributes):
    """Of `cholesky`: whether the lower triangle is read and written."""

    lower: bool = attribute(Form.BOOLEAN, default=False, proto="cholesky_options.")


_TRIANGULAR: Final = "triangular_solve_options."


@attribute_record
class TriangularSolve(Attributes):
    """Of `triangular-solve`; `transpose_a` is NO_TRANSPOSE, TRANSPOSE or ADJOINT."""

    left_side: bool = attribute(Form.BOOLEAN, default=False, proto=_TRIANGULAR)
    lower: bool = attribute(Form.BOOLEAN, default=False, proto=_TRIANGULAR)
    unit_diagonal: bool = attribute(Form.BOOLEAN, default=False, proto=_TRIANGULAR)
    transpose_a: str = attribute(
        Form.WORD,
        default="NO_TRANSPOSE",
        shown=Shown.ALWAYS,
        proto=_TRIANGULAR,
        words=("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"),
        what="transposition",
    )


@attribute_record
class BatchNorm(Attributes):
    """Of the batch-norm operations; `epsilon` is exactly representable in f32."""

    epsilon: float = attribute(Form.SINGLE)
    feature_index: int = attribute(Form.NATURAL)


@attribute_record
class Rng(Attributes):
    """Of `rng`: rng_uniform or rng_normal."""

    distribution: str = attribute(
        Form.WORD, words=("rng_uniform", "rng_normal"), what="distribution", any_case=True
    )


@attribute_record
class RngBitGenerator(Attributes):
    """Of `rng-bit-generator`: rng_default, rng_three_fry or rng_philox."""

    algorithm: str = attribute(
        Form.WORD,
        proto="rng_algorithm",
        words=("rng_default", "rng_three_fry", "rng_philox"),
        what="algorithm",
        any_case=True,
    )


@attribute_record
class RngGetAndUpdateState(Attributes):
    """Of `rng-get-and-update-state`: by how much the state advances."""

    delta: int = attribute(Form.INTEGER)
