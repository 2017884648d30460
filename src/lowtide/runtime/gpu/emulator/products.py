"""Products of small matrices that the threads of a warp make together, by the intrinsics' names.

Each thread hands over numbers of both operands and of the sums, and gets sums back. Where these lie
in the matrices is as NVIDIA's "PTX ISA" (sections on `mma`) shows them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

import ml_dtypes
import numpy as np
import numpy.typing as npt

from lowtide.records import dataclass
from lowtide.runtime.gpu.emulator.state import Wait
from lowtide.runtime.gpu.emulator.warp import WARP, Lanes

Places = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""Rows and columns of what each thread holds of a matrix, in the order of its numbers."""


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

    @property
    def parameters(self) -> list[str]:
        """The types of the parameters: of both operands, and of the sums."""
        operands = (self.rows + 8) * self.depth // (WARP * self.packed)
        return [self.parameter] * operands + [self.result] * (self.rows * 8 // WARP)

    def run(self, lanes: Lanes) -> None:
        """Replace the sums in the words of a warp's threads, behind the operands."""
        left, right, sums = _places(self.rows, self.depth, self.packed)
        wide, nbytes = np.dtype(self.wide), np.dtype(self.operand).itemsize
        words = (left[0].shape[1] + right[0].shape[1]) * nbytes // 4
        given = np.ascontiguousarray(lanes[:, :words]).view(self.operand).astype(wide)
        count = sums[0].shape[1]
        end = words + count * wide.itemsize // 4
        a, b = np.empty((self.rows, self.depth), wide), np.empty((self.depth, 8), wide)
        total = np.empty((self.rows, 8), wide)
        a[left], b[right] = given[:, : left[0].shape[1]], given[:, left[0].shape[1] :]
        total[sums] = np.ascontiguousarray(lanes[:, words:end]).view(wide)
        lanes[:, words:end] = np.ascontiguousarray((a @ b + total)[sums]).view(np.int32)

    def text(self) -> str:
        """Return the function in IR."""
        types, results = self.parameters, self.rows * 8 // WARP
        size = 2 if self.result == "double" else 1
        whole = f"{{ {', '.join([self.result] * results)} }}"
        head = ", ".join([f"{type_} %x{i}" for i, type_ in enumerate(types)])
        lines = ["  %lane = call ptr @gpu_lane()"]
        for i, type_ in enumerate(types):
            lines.append(f"  %p{i} = getelementptr i32, ptr %lane, i64 {i * size}")
            lines.append(f"  store {type_} %x{i}, ptr %p{i}, align 4")
        lines.append(f"  call void @gpu_wait(i64 {int(self.wait)})")
        for i in range(results):
            before = f"%s{i - 1}" if i else "poison"
            place = len(types) - results + i
            lines.append(f"  %r{i} = load {self.result}, ptr %p{place}, align 4")
            lines.append(f"  %s{i} = insertvalue {whole} {before}, {self.result} %r{i}, {i}")
        lines.append(f"  ret {whole} %s{results - 1}")
        body = "\n".join(lines)
        return f"define internal {whole} @{self.function}({head}) noinline {{\n{body}\n}}\n"


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

PRODUCT_WAITS: Final[dict[int, Callable[[Lanes], None]]] = {x.wait: x.run for x in PRODUCTS}
"""What a warp does all of whose threads wait for it."""
