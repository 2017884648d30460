"""Results of a template for graphics processors: the plan of a kernel, and its code."""

from __future__ import annotations

from collections.abc import Callable

from lowtide.codegen.elements.operands import leaves
from lowtide.ir import Instruction
from lowtide.ir.collective import DeviceCollective
from lowtide.ir.errors import unsupported
from lowtide.ir.thunk import GridLaunch
from lowtide.llvm.callee import FunctionParameter
from lowtide.llvm.function import Function
from lowtide.records import dataclass

MOST_BUFFERS = 500
"""Operands and results of a kernel, at most: its parameters have 4 KiB."""


@dataclass(frozen=True, slots=True)
class GpuCode:
    """The functions of a kernel, and their launches; `globals` are constants in IR.

    Symbols are neutral ("points0"): they are made unique by what the text contains.
    """

    functions: tuple[Function, ...]
    launches: tuple[GridLaunch, ...]
    globals: str = ""


@dataclass(frozen=True, slots=True)
class GpuPlan:
    """How an instruction will run, decided before buffers are assigned and code is written.

    `template` is the name of what writes it, and `scratch_bytes` is how much scratch it needs.
    `collective` is what it does with other devices, if it does: it has no code of its own then.
    """

    template: str
    emit: Callable[[], GpuCode]
    scratch_bytes: int = 0
    collective: GpuCollective | None = None


@dataclass(frozen=True, slots=True)
class GpuCollective:
    """What an instruction does with other devices.

    Its steps number the kernels in `parts`: a fusion each, and how it runs.
    """

    collective: DeviceCollective
    parts: tuple[tuple[Instruction, GpuPlan], ...]


def buffer_count(instruction: Instruction) -> int:
    """Return how many arrays an instruction reads and writes."""
    shapes = [*[x.shape for x in instruction.operands], instruction.shape]
    return sum([len(leaves(x)) for x in shapes])


def buffer_names(instruction: Instruction) -> list[str]:
    """Return the names of the parameters with the addresses of the arrays."""
    return [f"%a{i}" for i in range(buffer_count(instruction))]


def kernel_function(name: str, instruction: Instruction, threads: int, blocks: int = 0) -> Function:
    """Return an empty kernel, of blocks of so many threads.

    So many `blocks` are to run at once on a multiprocessor, which has registers for them; where it
    is not told, ptxas spills a few registers for the sake of one block more.
    Raises UnsupportedOpError for more arrays than a kernel takes.
    """
    count = buffer_count(instruction)
    if count > MOST_BUFFERS:
        reason = f"a kernel takes {MOST_BUFFERS} arrays at most, not {count}"
        raise unsupported(instruction, f"{reason}; the CPU runs it (lowtide run)")
    parameters = [FunctionParameter("ptr", f"a{i}") for i in range(count)]
    parameters.append(FunctionParameter("ptr", "scratch"))
    attributes = f'nounwind convergent "nvvm.maxntid"="{threads}"'
    if blocks:
        attributes += f' "nvvm.minctasm"="{blocks}"'
    return Function(name, parameters, attributes=attributes, linkage="ptx_kernel")
