"""Tokens in the hands of JAX, by which effects run in order: arrays of no elements.

JAX hands in an array of none for a token, and takes one as such. It is ready when the call that
made it has ended, and the next call waits for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import Array
from lowtide.ir.shape import array_shape

TOKEN_SHAPE: Final = array_shape(ElementType.PRED, (0,))


def without_tokens(arrays: Sequence[Array], tokens: Sequence[int]) -> list[Array]:
    """Return the arguments of a program but for those that are tokens, by their numbers."""
    return [x for i, x in enumerate(arrays) if i not in tokens]


def with_tokens(results: Sequence[Array | None]) -> list[Array]:
    """Return the results of a program with an array for each token, which is None there."""
    return [np.zeros(TOKEN_SHAPE.dimensions, np.bool_) if x is None else x for x in results]
