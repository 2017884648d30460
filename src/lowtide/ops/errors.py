"""The exceptions of shape inference. The caller adds the place in the input."""

from lowtide.ir.errors import LowtideError


class ShapeError(LowtideError):
    """Operands, attributes and called computations do not fit; says what was expected and found."""


class CannotInferError(LowtideError):
    """The result shape is a free choice of the program and has to be declared."""
