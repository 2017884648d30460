"""`lowtide run` on the ranks of MPI: each runs one device, and all end together."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Any, Final

from lowtide.cli.runs import Runs, timed
from lowtide.ir import LowtideError

if TYPE_CHECKING:
    from lowtide.client.executable.on_ranks import RankProgram
    from lowtide.ir import Module
    from lowtide.options import Options
    from lowtide.runtime.mpi.world import Document, World

END_SECONDS: Final = 2.0
"""How long a rank that failed waits for the others, before it ends them."""


class RankError(LowtideError):
    """What the device of one rank raised while it ran."""


def rank_runs(
    world: World,
    module: Module,
    arguments: Sequence[Sequence[Any]],
    options: Options,
    repeat: int,
    timeout: float | None,
) -> Runs:
    """Compile the program of a device and run the own one, whose arguments are one of `arguments`.

    The result has, on rank 0, those of all ranks; on the others nothing.
    """
    from lowtide.cli.progress import progress
    from lowtide.client.executable.on_ranks import compile_for_ranks

    with progress(f"compiling {module.name}"):
        program = compile_for_ranks(module, options, timeout_seconds=timeout)
    with progress(f"running {module.name}"):
        own = arguments[world.rank]
        result, first, seconds = timed(lambda: _call(program, own), repeat)
        found = program.results_of_all(result, 0)
    threads = program.executable.program.threads
    arena = program.executable.arena_bytes
    return Runs(
        "native",
        found,
        seconds,
        f"native code on {world.count} ranks, arena of {arena:,} bytes each",
        first if repeat > 1 else None,
        document={"devices": world.count, "threads": threads, "arena_bytes": arena},
    )


def _call(program: RankProgram, arguments: Sequence[Any]) -> Any:
    from lowtide.runtime.devices.rendezvous import RendezvousError

    try:
        return program(*arguments)
    except RendezvousError:
        raise
    except Exception as error:
        where = program.failed_at()
        raise RankError(f"rank {program.rank}: {where}{type(error).__name__}: {error}") from error


# -- one voice ------------------------------------------------------------------------------------


@contextmanager
def together() -> Iterator[World]:
    """Have all ranks do the same: rank 0 writes, and where one fails, all end with one error.

    Raises MissingMpiError on rank 0.
    """
    from lowtide.options import started_rank
    from lowtide.runtime.mpi.world import MissingMpiError, world_of

    try:
        world = world_of()
    except MissingMpiError:
        if started_rank():
            os._exit(1)
        raise
    failure: BaseException | None = None
    before = world.agreements
    with ExitStack() as stack:
        if world.rank:
            nowhere = stack.enter_context(open(os.devnull, "w"))
            stack.enter_context(redirect_stdout(nowhere))
            stack.enter_context(redirect_stderr(nowhere))
        try:
            yield world
        except BaseException as error:
            failure = error
    if failure is not None and world.agreements == before:  # Others are yet to agree on a start.
        world.agreed({"error": str(failure)}, END_SECONDS)
    _end(world, failure)


def _end(world: World, failure: BaseException | None) -> None:
    """Return where no rank failed, or else report what did, once, and end the process."""
    own = _outcome(world, failure)
    found = world.agreed(own, None if failure is None else END_SECONDS)
    failed = [(rank, x) for rank, x in enumerate(found) if x is not None and x["code"]]
    if not failed and None not in found:
        return
    first = min(failed, key=lambda x: (x[1]["is_relayed"], x[0]))
    all_came = None not in found
    if first[0] == world.rank or (not all_came and not own["is_relayed"]):
        _report(own["text"], failure)
    sys.stdout.flush()
    if all_came:
        world.agreed({}, END_SECONDS)
        os._exit(first[1]["code"])
    world.data.Abort(first[1]["code"])


def _outcome(world: World, failure: BaseException | None) -> Document:
    """What a rank tells of itself; what another rank told it is relayed."""
    from lowtide.cli.exit_codes import error_text, exit_code
    from lowtide.cli.interrupted import STAGE
    from lowtide.runtime.devices.rendezvous import RendezvousError

    if failure is None:
        return {"code": 0, "text": "", "is_relayed": False}
    own_words = f"rank {world.rank} "
    is_relayed = isinstance(failure, RendezvousError) and not str(failure).startswith(own_words)
    text = error_text(failure, STAGE.place)
    return {"code": int(exit_code(failure)), "text": text, "is_relayed": is_relayed}


def _report(text: str, failure: BaseException | None) -> None:
    from lowtide.cli import console
    from lowtide.options import wants_traceback

    if text:
        console.report_error(text)
    if wants_traceback() and failure is not None:
        traceback.print_exception(failure)
