"""A compiled program: machine code, thunks, memory; frozen, and able to be stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from lowtide.ir.buffer import AllocationKind, BufferAssignment, BufferSlice
from lowtide.ir.errors import InputError, UnsupportedOpError
from lowtide.ir.shape import Shape, ShapeIndex
from lowtide.ir.thunk import HostCall, KernelEntry, Thunk, collective_thunks, host_calls
from lowtide.llvm.target import Target, host_target, lacking
from lowtide.records import dataclass
from lowtide.runtime.cpu.arguments import Argument, major_to_minor

if TYPE_CHECKING:
    from lowtide.ir.module import Module

Structure: TypeAlias = "int | tuple[Structure, ...] | None"
"""How results are nested: the number of an array, a tuple, None for a token."""

Bytes: TypeAlias = "npt.NDArray[np.uint8]"


@dataclass(frozen=True, slots=True)
class Memory:
    """An allocation as a call provides it.

    `argument` is the number of the argument that it holds, -1 for none, and `result` that of the
    result that overwrites it.
    """

    kind: AllocationKind
    nbytes: int
    argument: int = -1
    result: int = -1


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """An array that a program returns, and where it lies after the run."""

    shape: Shape
    place: BufferSlice


@dataclass(frozen=True, slots=True)
class Interface:
    """What goes into a program, what comes out, and the memory between."""

    memories: tuple[Memory, ...]
    arguments: tuple[Argument, ...]
    results: tuple[ProgramResult, ...]
    structure: Structure


@dataclass(frozen=True, slots=True, eq=False)
class NativeProgram:
    """A program for one target and number of threads.

    `objects` are object files that define the functions of bundles and `kernels`, but for those of
    `part_texts`: modules, compressed by zlib, with the numbers of their kernels, that are compiled
    only when the parts of bundles run one by one. `constants` has, per allocation that is a
    constant, its index and its bytes. It runs on `replicas` times `partitions` devices.
    """

    name: str
    target: Target
    threads: int
    thunks: tuple[Thunk, ...]
    kernels: tuple[KernelEntry, ...]
    objects: tuple[bytes, ...]
    interface: Interface
    constants: tuple[tuple[int, Bytes], ...] = ()
    replicas: int = 1
    partitions: int = 1
    part_texts: tuple[tuple[int, bytes], ...] = ()

    @property
    def devices(self) -> int:
        """How many devices run it at once."""
        return self.replicas * self.partitions

    @property
    def first_collective(self) -> str:
        """The name of the first instruction that needs a rendezvous of all devices, or ""."""
        return next((x.name for x in collective_thunks(self.thunks)), "")

    @property
    def python_call(self) -> str:
        """The name of the first call of a Python function, which this process only has; or ""."""
        return next((x.name for x in host_calls(self.thunks) if _is_python(x.call)), "")

    @property
    def side_effect(self) -> str:
        """The name of the first call of a function outside that has a side effect, or ""."""
        return next((x.name for x in host_calls(self.thunks) if x.call.has_side_effect), "")

    def check_host(self) -> None:
        """Raise InputError unless this processor runs the program's code."""
        host = host_target()
        missing = lacking(self.target, host)
        if self.target.triple.split("-")[0] != host.triple.split("-")[0]:
            raise InputError(f"the program is for {self.target.triple}, this is {host.triple}")
        if missing:
            raise InputError(
                f"the program needs a processor with {', '.join(missing)}, which {host.cpu} has "
                "not; compile it here"
            )


def interface_of(module: Module, assignment: BufferAssignment) -> Interface:
    """Return what goes in and out of a module, and the memory that its plan gives it.

    Raises UnsupportedOpError where an array has dynamic sizes or a layout that is not plain.
    """
    numbers: dict[tuple[int, ShapeIndex], int] = {}
    found: list[tuple[str, Shape]] = []
    for number, parameter in enumerate(module.entry.parameters):
        for index, shape in parameter.shape.leaves():
            if not shape.is_token:
                numbers[number, index] = len(found)
                found.append((_label(number, parameter.name, index), shape))
    leaves = list(module.entry.root.shape.leaves())
    results = [
        (index, ProgramResult(shape, place))
        for (index, shape), place in zip(leaves, assignment.outputs, strict=True)
        if not shape.is_token
    ]
    order = {index: number for number, (index, _) in enumerate(results)}
    memories, holders = [], {}
    for x in assignment.allocations:
        # Tokens have allocations of no bytes, and are neither arguments nor results.
        argument = -1 if x.parameter is None else numbers.get(x.parameter, -1)
        result = -1 if x.output is None else order.get(x.output, -1)
        memories.append(Memory(x.kind, x.nbytes, argument, result))
        holders[argument] = x.index
    _check_plain([*[shape for _, shape in found], *[x.shape for _, x in results]])
    arguments = [
        Argument(label, shape, holders.get(number, -1))
        for number, (label, shape) in enumerate(found)
    ]
    return Interface(
        tuple(memories),
        tuple(arguments),
        tuple([result for _, result in results]),
        _structure(module.entry.root.shape, iter(range(len(results)))),
    )


def _check_plain(shapes: Sequence[Shape]) -> None:
    for shape in shapes:
        if shape.is_array:
            major_to_minor(shape)
        if shape.dynamic or not shape.is_array:
            raise UnsupportedOpError(
                f"native code takes and returns arrays of fixed sizes, not {shape}; "
                "the evaluator (--reference) takes any"
            )


def _label(number: int, name: str, index: ShapeIndex) -> str:
    at = f" at index {{{','.join(map(str, index))}}}" if index else ""
    return f"parameter {number} (%{name}){at}"


def _structure(shape: Shape, numbers: Iterator[int]) -> Structure:
    if shape.is_tuple:
        return tuple([_structure(x, numbers) for x in shape.tuple_shapes])
    return None if shape.is_token else next(numbers)


def nested(structure: Structure, arrays: Sequence[object]) -> object:
    """Return arrays nested as a structure says."""
    if isinstance(structure, tuple):
        return tuple([nested(x, arrays) for x in structure])
    return None if structure is None else arrays[structure]


def _is_python(call: HostCall) -> bool:
    from lowtide.host_calls.functions import TARGET  # Few programs have calls.

    return call.target == TARGET
