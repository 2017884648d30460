"""A program's machine code in the process, and the tables by which it runs."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from lowtide.ir.errors import UnsupportedOpError
from lowtide.ir.thunk import BundleThunk, HostCall, all_thunks, collective_thunks, host_calls
from lowtide.llvm.lapack import MissingRoutineError
from lowtide.llvm.library import Library
from lowtide.llvm.machine import KernelCompiler
from lowtide.runtime.cpu.native import Native
from lowtide.runtime.cpu.program import NativeProgram
from lowtide.runtime.cpu.table import Table, build_table
from lowtide.runtime.devices.collective_block import CollectiveBlock
from lowtide.runtime.devices.rendezvous import current_participant

if TYPE_CHECKING:
    from lowtide.host_calls.calls import Runner


class Linked:
    """The linked objects of a program, its thunks and kernels."""

    def __init__(self, program: NativeProgram, native: Native) -> None:
        self.native = native
        self.threads = program.threads
        self._program = program
        self._runners = _runners([x.call for x in host_calls(program.thunks)])
        self._allocations = len(program.interface.memories)
        parts = {number for number, _ in program.part_texts}
        kernels = [x for number, x in enumerate(program.kernels) if number not in parts]
        names = dict.fromkeys([p.function for kernel in kernels for p in kernel.phases])
        bundles = (x for x in all_thunks(program.thunks) if isinstance(x, BundleThunk))
        names |= dict.fromkeys([x.function for x in bundles])
        self._library: Library | None = None
        if names:
            try:
                self._library = Library(list(program.objects), list(names), program.target)
            except MissingRoutineError as error:
                raise UnsupportedOpError(str(error)) from None

    def address(self, name: str) -> int:
        """Return the address of a phase's function, or of that of a bundle."""
        if self._library is not None and name in self._library.addresses:
            return self._library[name]
        return self._parts[name]

    @cached_property
    def _parts(self) -> Library:
        """The kernels that only bundles run, for runs of their parts one by one."""
        program = self._program
        compiler = KernelCompiler(program.target)
        texts = dict.fromkeys([text for _, text in program.part_texts])
        kernels = [program.kernels[number] for number, _ in program.part_texts]
        names = dict.fromkeys([p.function for kernel in kernels for p in kernel.phases])
        objects = [compiler.object_code(zlib.decompress(x).decode()) for x in texts]
        return Library(objects, list(names), program.target)

    def runner(self, call: HostCall) -> Runner:
        """Return what makes a call of a function outside of the program."""
        return self._runners[call]

    @cached_property
    def collectives(self) -> dict[str, CollectiveBlock]:
        """The collectives with other devices by name, which several places may call."""
        program = self._program
        return {
            x.name: CollectiveBlock(
                x, program.kernels, self.address, program.replicas, program.partitions
            )
            for x in collective_thunks(program.thunks)
        }

    def _table(self, *, stamped: bool) -> Table:
        return build_table(
            self._program.thunks,
            self._program.kernels,
            self.address,
            self.native.copy,
            lambda call: id(self._runners[call]),
            lambda thunk: self.collectives[thunk.name],
            threads=self.threads,
            allocations=self._allocations,
            stamped=stamped,
        )

    @cached_property
    def table(self) -> Table:
        """The table of ordinary runs."""
        return self._table(stamped=False)

    @cached_property
    def stamped(self) -> Table:
        """The table of runs in which each thunk runs by itself and its times are noted."""
        return self._table(stamped=True)


def _runners(calls: Sequence[HostCall]) -> dict[HostCall, Runner]:
    """What makes each of a program's calls of functions outside, with one counter for all."""
    if not calls:
        return {}
    from lowtide.host_calls.calls import runner  # Most programs call none.
    from lowtide.host_calls.random_counter import RandomCounter

    counter = RandomCounter(_device)
    return {x: runner(x, counter) for x in calls}


def _device() -> int:
    """The number of the device that the calling thread is; 0 outside of rendezvous."""
    participant = current_participant()
    return 0 if participant is None else participant.number
