"""Programs of which each MPI rank runs one device, called with whole arrays by all of them."""

from __future__ import annotations

from typing import Any, final

from lowtide.client.executable.on_ranks import RankProgram, compile_for_ranks
from lowtide.ir.errors import LowtideError
from lowtide.ir.module import Module
from lowtide.options import Options


@final
class WholeRankProgram:
    """A program that takes and returns whole arrays, which all ranks call with equal ones."""

    def __init__(self, program: RankProgram) -> None:
        self.program = program

    def __call__(self, *arrays: Any, consume: bool = False) -> Any:
        """Return the whole results, on every rank; raises what `RankProgram` raises."""
        program = self.program
        return program.whole(program(*program.tiles(*arrays)))

    @property
    def memory(self) -> Any:
        """The report of one device, of schema "lowtide.memory/1"."""
        return self.program.executable.memory

    def as_text(self) -> str:
        """Return the scheduled HLO of one device."""
        return self.program.executable.as_text()

    def serialize(self) -> bytes:
        """Raise LowtideError: the program is one with ranks that are running."""
        raise LowtideError("the program of a rank cannot be stored: compile it on all ranks")

    def __repr__(self) -> str:
        return f"<WholeRankProgram of {self.program.executable!r}, rank {self.program.rank}>"


def compiler_for_ranks(comm: Any) -> Any:
    """Return a compiler of modules to programs of the ranks of `comm`, as `jit` takes one."""

    def compile_whole(module: Module, options: Options | None = None) -> WholeRankProgram:
        return WholeRankProgram(compile_for_ranks(module, options, comm=comm))

    return compile_whole
