"""Products, convolutions, transforms, factorizations, normalization and random numbers."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.builder.core import BuilderCore
from lowtide.builder.values import BuildError, Op, Value
from lowtide.ir.attributes import (
    DEFAULT_PRECISION,
    BatchNorm,
    Cholesky,
    Convolution,
    ConvolutionDimensions,
    Dot,
    DotDimensions,
    Fft,
    PrecisionConfig,
    RaggedDot,
    Rng,
    RngBitGenerator,
    RngGetAndUpdateState,
    TriangularSolve,
    Window,
    WindowDimension,
)
from lowtide.ir.element_type import ElementType
from lowtide.ir.errors import ShapeError
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import Shape, tuple_shape
from lowtide.ops.infer import infer_shape


class ContractionOps(BuilderCore):
    """Numeric operations on whole arrays."""

    # -- products ------------------------------------------------------------------------------

    def dot(
        self,
        lhs: Value,
        rhs: Value,
        dimensions: DotDimensions | None = None,
        precision: PrecisionConfig = DEFAULT_PRECISION,
        element_type: ElementType | None = None,
    ) -> Op:
        """Return sums of products: batch dimensions, the rest of lhs, the rest of rhs.

        Without `dimensions` the last one of lhs is contracted with the first one of rhs.
        `element_type` is the type of the result where it is not that of the operands.
        """
        a, b = self.op(lhs), self.op(rhs)
        if dimensions is None:
            if not a.rank or not b.rank:
                raise BuildError("scalars are multiplied, not contracted", operation="dot")
            dimensions = DotDimensions((a.rank - 1,), (0,))
        attributes = Dot(dimensions, precision)
        return self._product(Opcode.DOT, [a, b], attributes, element_type)

    def matmul(self, lhs: Value, rhs: Value) -> Op:
        """Return the product of matrices or vectors; leading dimensions are paired, as `@` does."""
        a, b = self.op(lhs), self.op(rhs)
        if a.rank <= 2 and b.rank <= 2:
            return self.dot(a, b)
        if a.rank != b.rank:
            raise BuildError(f"{a.shape} and {b.shape} differ in rank", operation="dot")
        batch = tuple(range(a.rank - 2))
        dimensions = DotDimensions((a.rank - 1,), (a.rank - 2,), batch, batch)
        return self.dot(a, b, dimensions)

    def ragged_dot(
        self,
        lhs: Value,
        rhs: Value,
        group_sizes: Value,
        attributes: RaggedDot,
        element_type: ElementType | None = None,
    ) -> Op:
        """Return a dot whose lhs is split into groups of the given sizes."""
        operands = [self.op(lhs), self.op(rhs), self.op(group_sizes)]
        return self._product(Opcode.RAGGED_DOT, operands, attributes, element_type)

    def scaled_dot(
        self,
        lhs: Value,
        rhs: Value,
        lhs_scale: Value,
        rhs_scale: Value,
        dimensions: DotDimensions,
        precision: PrecisionConfig = DEFAULT_PRECISION,
        element_type: ElementType | None = None,
    ) -> Op:
        """Return a dot of lhs times its scales and rhs times its scales."""
        operands = [self.op(lhs), self.op(rhs), self.op(lhs_scale), self.op(rhs_scale)]
        attributes = Dot(dimensions, precision)
        return self._product(Opcode.SCALED_DOT, operands, attributes, element_type)

    def convolution(
        self,
        lhs: Value,
        rhs: Value,
        dimensions: ConvolutionDimensions,
        window: Window | None = None,
        feature_group_count: int = 1,
        batch_group_count: int = 1,
        precision: PrecisionConfig = DEFAULT_PRECISION,
        element_type: ElementType | None = None,
    ) -> Op:
        """Return lhs convolved with the kernel rhs.

        Without `window` it has the sizes of the kernel and moves by 1, without padding.
        """
        a, b = self.op(lhs), self.op(rhs)
        if window is None:
            sizes = [b.dimensions[i] for i in dimensions.kernel_spatial if i < b.rank]
            window = Window(tuple([WindowDimension(size) for size in sizes]))
        attributes = Convolution(
            dimensions, window, feature_group_count, batch_group_count, precision
        )
        return self._product(Opcode.CONVOLUTION, [a, b], attributes, element_type)

    def _product(
        self,
        opcode: Opcode,
        operands: list[Op],
        attributes: Dot | RaggedDot | Convolution,
        element_type: ElementType | None,
    ) -> Op:
        if element_type is None:
            return self.emit(opcode, operands, attributes)
        try:
            inferred = infer_shape(opcode, [op.shape for op in operands], attributes)
        except ShapeError as error:
            raise BuildError(str(error), operation=opcode.value) from error
        shape = inferred.with_element_type(element_type)
        return self.emit(opcode, operands, attributes, shape=shape)

    # -- transforms and factorizations ---------------------------------------------------------

    def fft(self, operand: Value, kind: str, length: Sequence[int]) -> Op:
        """Return the Fourier transform over the last dimensions: FFT, IFFT, RFFT or IRFFT."""
        return self.emit(Opcode.FFT, [operand], Fft(kind, tuple(length)))

    def cholesky(self, operand: Value, *, lower: bool = False) -> Op:
        """Return the triangular factor of symmetric positive definite matrices."""
        return self.emit(Opcode.CHOLESKY, [operand], Cholesky(lower))

    def triangular_solve(
        self,
        a: Value,
        b: Value,
        *,
        left_side: bool = True,
        lower: bool = True,
        unit_diagonal: bool = False,
        transpose_a: str = "NO_TRANSPOSE",
    ) -> Op:
        """Return x with a x = b (`left_side`) or x a = b, for triangular a."""
        attributes = TriangularSolve(left_side, lower, unit_diagonal, transpose_a)
        return self.emit(Opcode.TRIANGULAR_SOLVE, [a, b], attributes)

    def batch_norm_training(
        self, operand: Value, scale: Value, offset: Value, epsilon: float, feature_index: int
    ) -> Op:
        """Return (the operand normalized per feature, mean, variance)."""
        operands = [operand, scale, offset]
        attributes = BatchNorm(epsilon, feature_index)
        return self.emit(Opcode.BATCH_NORM_TRAINING, operands, attributes)

    def batch_norm_inference(
        self,
        operand: Value,
        scale: Value,
        offset: Value,
        mean: Value,
        variance: Value,
        epsilon: float,
        feature_index: int,
    ) -> Op:
        """Return the operand normalized per feature by given mean and variance."""
        operands = [operand, scale, offset, mean, variance]
        attributes = BatchNorm(epsilon, feature_index)
        return self.emit(Opcode.BATCH_NORM_INFERENCE, operands, attributes)

    def batch_norm_grad(
        self,
        operand: Value,
        scale: Value,
        mean: Value,
        variance: Value,
        grad_output: Value,
        epsilon: float,
        feature_index: int,
    ) -> Op:
        """Return the gradients of (operand, scale, offset)."""
        operands = [operand, scale, mean, variance, grad_output]
        attributes = BatchNorm(epsilon, feature_index)
        return self.emit(Opcode.BATCH_NORM_GRAD, operands, attributes)

    # -- random numbers ------------------------------------------------------------------------

    def rng(self, a: Value, b: Value, shape: Shape, distribution: str = "rng_uniform") -> Op:
        """Return numbers uniform in [a, b), or with rng_normal of mean a and deviation b."""
        operands = [self.op(x, shape.element_type) for x in (a, b)]
        return self.emit(Opcode.RNG, operands, Rng(distribution), shape=shape)

    def rng_bit_generator(self, state: Value, shape: Shape, algorithm: str = "rng_three_fry") -> Op:
        """Return (the next state, random bits of the given shape)."""
        op = self.op(state)
        attributes = RngBitGenerator(algorithm)
        result = tuple_shape([op.shape, shape])
        return self.emit(Opcode.RNG_BIT_GENERATOR, [op], attributes, shape=result)

    def rng_get_and_update_state(self, delta: int) -> Op:
        """Return the device's random state, which then advances."""
        return self.emit(Opcode.RNG_GET_AND_UPDATE_STATE, (), RngGetAndUpdateState(delta))
