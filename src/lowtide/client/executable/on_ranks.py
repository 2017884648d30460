"""Programs of several devices over MPI: each rank compiles the program and runs one device."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final, final

import numpy as np

from lowtide.backends.kept import linked
from lowtide.client.executable.code_version import package_digest
from lowtide.client.executable.compiling import compile_module
from lowtide.client.executable.device_parts import DeviceParts, device_parts
from lowtide.client.executable.executable import Executable
from lowtide.client.executable.keys import module_digest
from lowtide.client.executable.rank_collectives import (
    collectives_of,
    instructions_named,
    names_before,
    place_in,
)
from lowtide.evaluator.values import value_leaves
from lowtide.ir.errors import InputError, check_class
from lowtide.ir.module import Module
from lowtide.options import Options
from lowtide.runtime.cpu.program import nested
from lowtide.runtime.devices.rendezvous import TIMEOUT_SECONDS, RendezvousError
from lowtide.runtime.mpi.rank_thunks import RankThunks
from lowtide.runtime.mpi.rendezvous import RankRendezvous
from lowtide.runtime.mpi.world import Document, World, world_of


@final
class RankProgram:
    """A program of several devices, one of which the calling rank runs.

    Calls are made by all ranks, in one order, and on one thread of each.
    """

    def __init__(
        self, parts: DeviceParts, executable: Executable, world: World, seconds: float | None
    ) -> None:
        self.parts = parts
        self.executable = executable
        self.world = world
        program = executable.program
        self._given = instructions_named(parts.module)
        self._scheduled = instructions_named(executable.module)
        self._rendezvous = RankRendezvous(world, program.replicas, program.partitions, seconds)
        collectives = collectives_of(program.thunks, self._scheduled, self._given)
        before = names_before(executable.module)
        self._thunks = RankThunks(program, self._rendezvous, collectives, before)
        self._collectives = [(x.name, x.groups) for x in collectives.values()]
        self._linked = linked(self._thunks.program, Options())

    @property
    def rank(self) -> int:
        """The rank, which is the number of its device: replica times partitions plus partition."""
        return self.world.rank

    def __call__(self, *arrays: Any) -> Any:
        """Return the results of the own device for its own arrays, one for each leaf.

        Raises RendezvousError where another rank fails or does not come, and what the own device
        raises, which ends the runs of all ranks.
        """
        self._rendezvous.check()
        self._thunks.failed_at = ""
        try:
            return self._linked(*arrays)
        except RendezvousError:
            raise
        except BaseException as error:
            self._rendezvous.fail(f"{self.failed_at()}{type(error).__name__}: {error}")
            raise

    def failed_at(self) -> str:
        """Return where the last call ended: place and instruction, "" where that is not known."""
        found = self._scheduled.get(self._thunks.failed_at)
        if found is None:
            return ""
        return f"{place_in(self._given, found)}: {found.opcode.value} (%{found.name}): "

    def tiles(self, *arrays: Any) -> list[Any]:
        """Return the own device's tiles of whole arrays, one for each leaf of the parameters.

        Raises InputError for a program that was given partitioned already.
        """
        return self.parts.tiles(arrays, self.rank)

    def whole(self, result: Any, rank: int | None = None) -> Any:
        """Return whole arrays, nested as results are, of the results of all ranks, which all call.

        With `rank` that rank alone gets them, and the others None. Raises InputError for a program
        that was given partitioned already.
        """
        found = self.results_of_all(result, rank)
        if not found:
            return None
        structure = self.executable.program.interface.structure
        return nested(structure, self.parts.whole([value_leaves(x) for x in found]))

    def results_of_all(self, result: Any, rank: int | None = None) -> list[Any]:
        """Return the results of each rank, all of which call this with their own.

        With `rank` that rank alone gets them, and the others an empty list.
        """
        own = [np.asarray(x, order="C") for x in value_leaves(result)]
        found = self._rendezvous.gathered(own, rank)
        structure = self.executable.program.interface.structure
        return [nested(structure, arrays) for arrays in found]

    def fingerprint(self, module: Module, options: Options) -> Document:
        """Return what has to be equal on all ranks, by what another value is called."""
        collectives = hashlib.sha256(repr(self._collectives).encode()).hexdigest()
        return {
            "another version of lowtide": package_digest(),
            "another module": module_digest(module),
            "other options": repr(options),
            "other collectives in its compiled program": collectives,
        }


def compile_for_ranks(
    module: Module,
    options: Options | None = None,
    *,
    comm: Any | None = None,
    timeout_seconds: float | None = TIMEOUT_SECONDS,
) -> RankProgram:
    """Return a module for several devices as a program of which each MPI rank runs one.

    All ranks of `comm`, a communicator of mpi4py (by default of all ranks), call this with the same
    module and options. One with shardings is partitioned first. It runs on one thread of each rank
    unless the options say otherwise. A rank that waits for others longer than `timeout_seconds`
    (None: any time) fails, which ends all.

    Raises MissingMpiError without MPI, InputError where the ranks are not as many as devices or
    differ in what they compile, RendezvousError where this fails on another rank, and what
    `compile_module` and the partitioner raise.
    """
    check_class(module, Module)
    if options is not None:
        check_class(options, Options)
    world = world_of(comm)
    chosen = options or Options()
    try:
        program = _compiled(module, chosen, world, timeout_seconds)
    except BaseException as error:
        world.agreed({"error": str(error) or type(error).__name__}, _FAILED_SECONDS)
        raise
    _check_equal(world.agreed(program.fingerprint(module, chosen), timeout_seconds))
    return program


_FAILED_SECONDS: Final = 2.0
"""How long a rank that failed waits for the others to hear of it."""


def _compiled(module: Module, options: Options, world: World, seconds: float | None) -> RankProgram:
    devices = module.replica_count * module.num_partitions
    if devices != world.count:
        raise InputError(
            f"{module.name} runs on {devices} device{'' if devices == 1 else 's'}, and there are "
            f"{world.count} ranks: start as many ranks as devices"
        )
    parts = device_parts(module)
    return RankProgram(parts, compile_module(parts.module, options), world, seconds)


def _check_equal(found: Sequence[Document | None]) -> None:
    """Raise an error, the same on all ranks, unless all are ready to run the same."""
    missing = [rank for rank, x in enumerate(found) if x is None]
    if missing:
        raise RendezvousError(f"rank {missing[0]} does not come to the start of the program")
    own = found[0]
    assert own is not None
    for rank, other in enumerate(found):
        if other is not None and "error" in other:
            raise RendezvousError(f"rank {rank} failed: {other['error']}")
    for rank, other in enumerate(found):
        for what, value in own.items():
            if other is not None and other[what] != value:
                raise InputError(f"rank {rank} has {what} than rank 0")
