"""A product while its code is written, whatever its scheme: functions written once, two phases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Generic, Protocol, TypeVar

from lowtide.codegen.cpu.contraction.arithmetic import Arithmetic
from lowtide.codegen.cpu.contraction.finishing import Epilogue, Sums, finish_function
from lowtide.codegen.cpu.contraction.geometry import Geometry
from lowtide.codegen.cpu.contraction.operands import OperandSide
from lowtide.codegen.cpu.contraction.packing import Packer, packer
from lowtide.codegen.cpu.contraction.scheme import seconds_of
from lowtide.codegen.cpu.contraction.tiles import EvenParts
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.kernel import ARGUMENTS, KernelCode, rounded
from lowtide.ir.thunk import Phase
from lowtide.llvm.function import Function
from lowtide.llvm.target import Target
from lowtide.records import dataclass


class Shared(Protocol):
    """How to compute a product, part by part of k if need be."""

    @property
    def geometry(self) -> Geometry:
        """What is multiplied."""

    @property
    def how(self) -> Arithmetic:
        """In which types, by which instructions."""

    @property
    def lanes(self) -> int:
        """Sums in a vector."""

    @property
    def shares(self) -> EvenParts:
        """The parts of k that are added up by themselves, and put together later."""

    @property
    def units(self) -> int:
        """The pieces of work."""

    @property
    def thread_bytes(self) -> int:
        """Scratch of a thread."""


def shared_bytes(scheme: Shared) -> int:
    """Return the scratch for the sums of all shares: matrices, one share after the other."""
    shape, parts = scheme.geometry, scheme.shares.parts
    count = parts * shape.batch * shape.m * shape.n
    return rounded(count * scheme.how.unit_bytes) if parts > 1 else 0


def scratch(scheme: Shared, target: Target) -> tuple[int, int]:
    """Return the scratch for all threads, and of each; one piece of work takes that of one thread.

    What lies on the stack is in neither.
    """
    shared, own = shared_bytes(scheme), scheme.thread_bytes
    if own <= target.stack_bytes:
        return shared, 0
    return (shared + own, 0) if scheme.units == 1 else (shared, own)


S = TypeVar("S", bound=Shared)


@dataclass(eq=False, slots=True)
class ContractionProduct(Generic[S]):
    """A product to be written: its scheme, the operands with rows and columns, what follows."""

    scheme: S
    target: Target
    rows: OperandSide
    columns: OperandSide
    finish: Epilogue
    functions: dict[str, Function] = field(default_factory=dict)
    globals: dict[str, str] = field(default_factory=dict)

    @property
    def lanes(self) -> int:
        """Sums in a vector."""
        return self.scheme.lanes

    def needed(self, name: str, write: Callable[[str], Function]) -> Function:
        """Return the function of a name, which is written once."""
        if name not in self.functions:
            self.functions[name] = write(name)
        return self.functions[name]

    def noted(self, function: Function, elements: Elements) -> Function:
        """Keep the constants that a function needs."""
        self.globals.update(elements.globals)
        return function

    def packer(self, name: str, side: OperandSide, count: int, most: int = 0) -> Packer:
        """Return what writes a function that packs an operand with so many rows or columns.

        At most `most` elements are computed at a time, if that is not 0.
        """
        how, shape = self.scheme.how, self.scheme.geometry
        return packer(name, self.target, how, self.lanes, side, shape.batch, count, shape.k, most)

    def finishing(
        self, name: str, columns: int, sums: Sums, *, is_aligned: bool = True
    ) -> Function:
        """Return the function that finishes the sums of some columns."""
        scheme = self.scheme

        def write(name: str) -> Function:
            return finish_function(
                name,
                self.target,
                scheme.how,
                scheme.lanes,
                scheme.geometry,
                self.finish,
                columns,
                sums,
                self.globals,
                is_aligned=is_aligned,
            )

        return self.needed(name, write)

    def thread(self, fn: Function) -> str:
        """Write the address of the scratch of a thread."""
        nbytes = self.scheme.thread_bytes
        if 0 < nbytes <= self.target.stack_bytes:
            return fn.stack("i8", nbytes)
        _, own = scratch(self.scheme, self.target)
        first = fn.gep("%scratch", shared_bytes(self.scheme))
        return fn.gep(first, fn.mul("%thread", own))

    def code_of(self, products: Function) -> KernelCode:
        """Return the code: the phase that multiplies, and one that adds up the sums of shares."""
        scheme, shape = self.scheme, self.scheme.geometry
        seconds = seconds_of(shape, scheme.how, scheme.lanes)
        phases = [Phase(products.name, scheme.units, seconds / max(1, scheme.units))]
        functions = [products]
        if scheme.shares.parts > 1:
            functions.append(self._results())
            each = shape.n * scheme.shares.parts * 0.3e-9 + 5e-9
            phases.append(Phase(functions[1].name, shape.batch * shape.m, each))
        text = "\n".join(self.globals.values())
        return KernelCode((*self.functions.values(), *functions), tuple(phases), text)

    def _results(self) -> Function:
        """The phase that adds up the sums of all shares; its pieces are rows of the matrices."""
        scheme, shape = self.scheme, self.scheme.geometry
        sums = Sums(shape.n, scheme.shares.parts, shape.batch * shape.m * shape.n)
        finish = self.finishing("put_together", shape.n, sums)
        fn = Function("results", ARGUMENTS)
        with fn.loop("%begin", "%end") as loop:
            batch = 0 if shape.batch == 1 else fn.div(loop.index, shape.m)
            row = loop.index if shape.batch == 1 else fn.rem(loop.index, shape.m)
            there = fn.gep("%scratch", fn.mul(loop.index, shape.n * scheme.how.unit_bytes))
            fn.call(finish, ["%buffers", there, batch, row, 1, 0])
        return fn
