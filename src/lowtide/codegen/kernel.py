"""Results of a template: the plan of a kernel, and its code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice

from lowtide.ir import Instruction
from lowtide.ir.collective import DeviceCollective
from lowtide.ir.thunk import HostCall, Phase
from lowtide.llvm.callee import parameters
from lowtide.llvm.function import Function
from lowtide.records import dataclass

ARGUMENTS = parameters(buffers="ptr", scratch="ptr", begin="i64", end="i64", thread="i64")
"""The parameters of the function of a phase.

`%buffers` points to the addresses of the operands' arrays, depth first, then of the results'.
`%scratch` points to the kernel's scratch: `shared_bytes`, then `thread_bytes` for each thread.
"""


def thread_scratch(fn: Function, thread_bytes: int) -> str:
    """Return the address of the scratch of this thread, of a kernel without shared scratch."""
    return fn.gep("%scratch", fn.mul("%thread", thread_bytes))


@dataclass(frozen=True, slots=True)
class KernelCode:
    """The functions of a kernel, and the phases that run them; `globals` are constants in IR.

    Symbols are neutral ("phase0", "tile"): they are made unique by what the text contains.
    """

    functions: tuple[Function, ...]
    phases: tuple[Phase, ...]
    globals: str = ""


@dataclass(frozen=True, slots=True)
class KernelPlan:
    """How an instruction will run, decided before buffers are assigned and code is written.

    `shared_bytes` and `thread_bytes` are the scratch that it needs, multiples of 64; `emit` writes
    the code. Equal instructions (see `kernels.py`) get equal code. `others` lists other ways to run
    it, those first that the model of costs takes for faster; they have no others in turn. `call` is
    the function outside of the program that runs it instead of a kernel, if one does, and
    `collective` what it exchanges with other devices, if it does.
    """

    emit: Callable[[], KernelCode]
    shared_bytes: int = 0
    thread_bytes: int = 0
    others: Callable[[], tuple[KernelPlan, ...]] = tuple
    call: HostCall | None = None
    collective: CollectivePlan | None = None


@dataclass(frozen=True, slots=True)
class CollectivePart:
    """A kernel of a collective: how a processor runs it.

    `fusion` does the same, for targets with other kernels; there is none for a ragged-all-to-all.
    """

    plan: KernelPlan
    fusion: Instruction | None = None


@dataclass(frozen=True, slots=True)
class CollectivePlan:
    """What an instruction exchanges with other devices; its steps number the kernels in `parts`."""

    collective: DeviceCollective
    parts: tuple[CollectivePart, ...]


def first_of(ways: Callable[[], Iterator[KernelPlan]]) -> KernelPlan:
    """Return the first of some ways to run an instruction; the others are made if asked for."""
    return replace(next(ways()), others=lambda: tuple(islice(ways(), 1, None)))


def rounded(nbytes: int) -> int:
    """Return the least multiple of 64 that is not less."""
    return -(-nbytes // 64) * 64
