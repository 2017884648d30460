"""Products of small matrices that the threads of a warp make together, by the intrinsics' names.

Each thread hands over numbers of both operands and of the sums, and gets sums back.
"""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes
import numpy as np

from lowtide.codegen.emulated.calls import Wait, handing_over
from lowtide.records import dataclass

WARP: Final = 32
"""The threads of a warp."""


@dataclass(frozen=True, slots=True)
class WarpProduct:
    """A product of `rows` x `depth` by `depth` x 8 numbers of a warp.

    `parameter` is the type in IR of a parameter that holds numbers of `operand`, NumPy's type;
    `result` is that of a sum, and `wide` NumPy's.
    """

    intrinsic: str
    wait: Wait
    rows: int
    depth: int
    parameter: str
    result: str
    operand: Any
    wide: Any

    @property
    def function(self) -> str:
        """The function that stands for the intrinsic on the host."""
        return f"gpu_{self.wait.name.lower()}"

    @property
    def packed(self) -> int:
        """How many numbers of an operand a parameter holds."""
        nbytes: int = np.dtype(self.operand).itemsize
        return max(4 // nbytes, 1)

    def text(self) -> str:
        """Return the function in IR."""
        operands, sums = (self.rows + 8) * self.depth // (WARP * self.packed), self.rows * 8 // WARP
        stored = [self.parameter] * operands + [self.result] * sums
        call = f"call void @gpu_wait(i64 {int(self.wait)})"
        return handing_over(self.function, (), stored, sums, "gpu_lane", call)


_WIDE: Final = "llvm.nvvm.mma.m16n8k16.row.col"
_BYTES: Final = "llvm.nvvm.mma.m16n8k32.row.col"
_F64: Final = "row.col.f64"

PRODUCTS: Final = (
    WarpProduct(
        f"{_WIDE}.bf16", Wait.BFLOAT_PRODUCT, 16, 16, "i32", "float", ml_dtypes.bfloat16, np.float32
    ),
    WarpProduct(
        f"{_WIDE}.f32.f32", Wait.HALF_PRODUCT, 16, 16, "<2 x half>", "float", np.float16, np.float32
    ),
    WarpProduct(f"{_BYTES}.s8", Wait.SIGNED_PRODUCT, 16, 32, "i32", "i32", np.int8, np.int32),
    WarpProduct(f"{_BYTES}.u8", Wait.UNSIGNED_PRODUCT, 16, 32, "i32", "i32", np.uint8, np.int32),
    WarpProduct(
        f"llvm.nvvm.mma.m8n8k4.{_F64}",
        Wait.SMALL_DOUBLE_PRODUCT,
        8,
        4,
        "double",
        "double",
        np.float64,
        np.float64,
    ),
    WarpProduct(
        f"llvm.nvvm.mma.m16n8k8.{_F64}",
        Wait.DOUBLE_PRODUCT,
        16,
        8,
        "double",
        "double",
        np.float64,
        np.float64,
    ),
)
"""The products that there are."""
