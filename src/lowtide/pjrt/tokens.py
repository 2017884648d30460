"""Tokens in the hands of JAX, by which effects run in order: arrays of no elements.

JAX hands in an array of none for a token, and takes one as such. It is ready when the call that
made it has ended, and the next call waits for it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import Array
from lowtide.ir.shape import array_shape

TOKEN_SHAPE: Final = array_shape(ElementType.PRED, (0,))


def token_array() -> Array:
    """Return a new array that stands for a token."""
    return np.zeros(TOKEN_SHAPE.dimensions, np.bool_)
