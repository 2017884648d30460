"""Reasons in words: for each instruction that was split, how, and why so."""

from __future__ import annotations

from functools import lru_cache

from lowtide.ir import Instruction
from lowtide.ir.tilings.grid import DeviceGrid
from lowtide.ir.tilings.sharding_forms import sharding_of
from lowtide.ir.tilings.tiling import Tiling
from lowtide.records import dataclass
from lowtide.spmd.choice import OperationSplit


@dataclass(frozen=True, slots=True)
class SplitReason:
    """What became of one instruction: its sharding, the bytes that it moves, and why."""

    instruction: str
    opcode: str
    sharding: str
    nbytes: float
    why: str


def split_reason(
    x: Instruction, split: OperationSplit, why: str, whole: str, grid: DeviceGrid
) -> SplitReason:
    """Return the reason in words: where the tiling comes from, and why dimensions are whole."""
    text = ", ".join([_sharding_text(t.whole(), grid) for t in split.results])
    told = f"{why}; {whole} is not split" if split.nbytes and whole else why
    return SplitReason(x.name, x.opcode.value, text, split.nbytes, told)


@lru_cache(maxsize=4096)
def _sharding_text(tiling: Tiling, grid: DeviceGrid) -> str:
    return str(sharding_of(tiling, grid))
