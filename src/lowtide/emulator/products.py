"""Products of small matrices that the threads of a warp make together.

Where the numbers of a thread lie in the matrices is as NVIDIA's "PTX ISA" (sections on `mma`) shows
them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Final

import numpy as np
import numpy.typing as npt

from lowtide.codegen.emulated.products import PRODUCTS, WARP, WarpProduct
from lowtide.emulator.warp import Lanes

Places = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""Rows and columns of what each thread holds of a matrix, in the order of its numbers."""


def multiply(product: WarpProduct, lanes: Lanes) -> None:
    """Replace the sums in the words of a warp's threads, behind the operands."""
    left, right, sums = _places(product.rows, product.depth, product.packed)
    wide, nbytes = np.dtype(product.wide), np.dtype(product.operand).itemsize
    words = (left[0].shape[1] + right[0].shape[1]) * nbytes // 4
    given = np.ascontiguousarray(lanes[:, :words]).view(product.operand).astype(wide)
    count = sums[0].shape[1]
    end = words + count * wide.itemsize // 4
    a, b = np.empty((product.rows, product.depth), wide), np.empty((product.depth, 8), wide)
    total = np.empty((product.rows, 8), wide)
    a[left], b[right] = given[:, : left[0].shape[1]], given[:, left[0].shape[1] :]
    total[sums] = np.ascontiguousarray(lanes[:, words:end]).view(wide)
    lanes[:, words:end] = np.ascontiguousarray((a @ b + total)[sums]).view(np.int32)


@cache
def _places(rows: int, depth: int, packed: int) -> tuple[Places, Places, Places]:
    """Where the numbers of each thread lie: of both operands, and of the sums.

    A parameter holds `packed` numbers along the depth. Those of a thread follow first 8 rows below,
    then the depth of 4 threads further.
    """
    lane = np.arange(WARP)[:, None]
    group, member = lane // 4, lane % 4
    blocks = rows // 8
    number = np.arange(rows * depth // WARP)[None, :]
    word, part = number // packed, number % packed
    deep = (member + word // blocks * 4) * packed + part
    left = (group + word % blocks * 8, deep)
    number = np.arange(depth * 8 // WARP)[None, :]
    right = ((member + number // packed * 4) * packed + number % packed, group + 0 * number)
    number = np.arange(rows * 8 // WARP)[None, :]
    sums = (group + number // 2 * 8, member * 2 + number % 2)
    return left, right, sums


PRODUCT_WAITS: Final[dict[int, Callable[[Lanes], None]]] = {
    x.wait: partial(multiply, x) for x in PRODUCTS
}
"""What a warp does all of whose threads wait for it."""
