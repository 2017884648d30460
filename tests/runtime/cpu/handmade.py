"""Programs of handmade kernels on vectors of f32, for tests of the runtime without a compiler."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from lowtide.ir.buffer import AllocationKind, BufferSlice
from lowtide.ir.element_type import ElementType
from lowtide.ir.shape import Shape, array_shape
from lowtide.ir.thunk import KernelEntry, KernelThunk, Phase, Thunk
from lowtide.llvm.callee import parameters
from lowtide.llvm.function import Function, module_text
from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.target import host_target
from lowtide.runtime.cpu.arguments import Argument
from lowtide.runtime.cpu.program import Interface, Memory, NativeProgram, ProgramResult, Structure

ARGUMENTS = parameters(buffers="ptr", scratch="ptr", begin="i64", end="i64", thread="i64")
UNIT = 256
"""Elements of one unit of a kernel."""


def elementwise(name: str, operation: str) -> Function:
    """result[i] = operation(first[i], second[i]) for the elements of the units given."""
    f = Function(name, ARGUMENTS)
    first, second, result = [f.load("ptr", f.gep("%buffers", 8 * i), 8) for i in range(3)]
    with f.loop(f.mul("%begin", UNIT), f.mul("%end", UNIT)) as each:
        a = f.load("float", f.gep(first, each.index, "float"), 4)
        b = f.load("float", f.gep(second, each.index, "float"), 4)
        f.store("float", f.op(f"{operation} float {a}, {b}"), f.gep(result, each.index, "float"), 4)
    return f


def less() -> Function:
    """result[0], a byte, says whether first[0] < second[0]."""
    f = Function("less", ARGUMENTS)
    first, second, result = [f.load("ptr", f.gep("%buffers", 8 * i), 8) for i in range(3)]
    test = f.op(f"fcmp olt float {f.load('float', first, 4)}, {f.load('float', second, 4)}")
    f.store("i8", f.op(f"zext i1 {test} to i8"), result, 1)
    return f


def truncated() -> Function:
    """result[0], an i32, is first[0] without its fraction."""
    f = Function("truncated", ARGUMENTS)
    first, result = [f.load("ptr", f.gep("%buffers", 8 * i), 8) for i in range(2)]
    f.store("i32", f.op(f"fptosi float {f.load('float', first, 4)} to i32"), result, 4)
    return f


def reset() -> Function:
    """The first phase of a sum: each thread's partial sum in scratch, and the shared one, are 0."""
    f = Function("reset", ARGUMENTS)
    with f.loop("%begin", "%end") as each:
        f.store("float", "0.0", f.gep("%scratch", f.mul(each.index, 64)), 4)
    return f


def partial_sums() -> Function:
    """The second phase: unit u of the operand is summed into scratch[u]."""
    f = Function("partial", ARGUMENTS)
    source = f.load("ptr", "%buffers", 8)
    with f.loop("%begin", "%end") as unit:
        start = f.mul(unit.index, UNIT)
        with f.loop(0, UNIT, carry=[("float", "0.0")]) as each:
            value = f.load("float", f.gep(source, f.add(start, each.index), "float"), 4)
            each.next = [f.op(f"fadd float {each.values[0]}, {value}")]
        f.store("float", each.results[0], f.gep("%scratch", f.mul(unit.index, 64)), 4)
    return f


def total(units: int) -> Function:
    """The third phase: the partial sums are added up in order."""
    f = Function(f"total{units}", ARGUMENTS)
    target = f.load("ptr", f.gep("%buffers", 8), 8)
    with f.loop(0, units, carry=[("float", "0.0")]) as each:
        value = f.load("float", f.gep("%scratch", f.mul(each.index, 64)), 4)
        each.next = [f.op(f"fadd float {each.values[0]}, {value}")]
    f.store("float", each.results[0], target, 4)
    return f


SUM_UNITS = 64
ADD, MULTIPLY, SUBTRACT, LESS, TRUNCATE, SUM = range(6)


@cache
def library() -> bytes:
    functions = [
        elementwise("plus", "fadd"),
        elementwise("times", "fmul"),
        elementwise("minus", "fsub"),
        less(),
        truncated(),
        reset(),
        partial_sums(),
        total(SUM_UNITS),
    ]
    return KernelCompiler(host_target()).object_code(module_text(functions))


def kernels(units: int, seconds: float) -> tuple[KernelEntry, ...]:
    """The kernels, in the order of their numbers, for arrays of that many units."""
    maps = [KernelEntry((Phase(x, units, seconds),)) for x in ("plus", "times", "minus")]
    small = [KernelEntry((Phase(x, 1, 1e-8),)) for x in ("less", "truncated")]
    sums = KernelEntry(
        (
            Phase("reset", SUM_UNITS, seconds),
            Phase("partial", SUM_UNITS, seconds),
            Phase(f"total{SUM_UNITS}", 1, 1e-7),
        ),
        shared_bytes=64 * SUM_UNITS,
    )
    return (*maps, *small, sums)


def vector(count: int) -> Shape:
    return array_shape(ElementType.F32, (count,))


@dataclass
class Draft:
    """A program being put together: allocations, thunks and what goes in and out."""

    units: int = 4
    seconds: float = 1e-6
    memories: list[Memory] = field(default_factory=list)
    arguments: list[Argument] = field(default_factory=list)
    results: list[ProgramResult] = field(default_factory=list)
    constants: list[tuple[int, np.ndarray]] = field(default_factory=list)
    arena: int = 0

    def __post_init__(self) -> None:
        self.memories.append(Memory(AllocationKind.ARENA, 0))

    @property
    def count(self) -> int:
        return self.units * UNIT

    def argument(self, shape: Shape | None = None, result: int = -1) -> BufferSlice:
        shape = shape or vector(self.count)
        number, index = len(self.arguments), len(self.memories)
        self.memories.append(Memory(AllocationKind.ARGUMENT, shape.nbytes, number, result))
        self.arguments.append(Argument(f"parameter {number} (%x{number})", shape, index))
        return BufferSlice(index, 0, shape.nbytes)

    def constant(self, values: np.ndarray) -> BufferSlice:
        index = len(self.memories)
        self.memories.append(Memory(AllocationKind.CONSTANT, values.nbytes))
        self.constants.append((index, values.reshape(-1).view(np.uint8)))
        return BufferSlice(index, 0, values.nbytes)

    def temporary(self, nbytes: int | None = None) -> BufferSlice:
        nbytes = 4 * self.count if nbytes is None else nbytes
        place = BufferSlice(0, self.arena, nbytes)
        self.arena += -(-nbytes // 64) * 64
        return place

    def result(self, place: BufferSlice, shape: Shape | None = None) -> None:
        self.results.append(ProgramResult(shape or vector(self.count), place))

    def program(
        self, thunks: Sequence[Thunk], *, threads: int = 1, structure: Structure = 0
    ) -> NativeProgram:
        self.memories[0] = Memory(AllocationKind.ARENA, self.arena)
        interface = Interface(
            tuple(self.memories), tuple(self.arguments), tuple(self.results), structure
        )
        return NativeProgram(
            "handmade",
            host_target(),
            threads,
            tuple(thunks),
            kernels(self.units, self.seconds),
            (library(),),
            interface,
            tuple(self.constants),
        )


def kernel(number: int, *buffers: BufferSlice, scratch: BufferSlice | None = None) -> KernelThunk:
    """A run of a kernel that reads all buffers but the last one, which it writes."""
    return KernelThunk(f"k{number}", number, buffers, len(buffers) - 1, scratch)
