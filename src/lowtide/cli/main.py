"""The entry point: `lowtide COMMAND ...`."""

from __future__ import annotations

import atexit
import errno
import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, TextIO

import typer

from lowtide import __version__
from lowtide.cli.bench import bench
from lowtide.cli.check import check
from lowtide.cli.compile import compile
from lowtide.cli.diff import diff
from lowtide.cli.explain import explain
from lowtide.cli.fit import fit
from lowtide.cli.interrupted import INTERRUPTED, STAGE, interrupted
from lowtide.cli.ops import ops
from lowtide.cli.opt import opt
from lowtide.cli.partition import partition
from lowtide.cli.passes import passes
from lowtide.cli.plan import plan
from lowtide.cli.planners import planners
from lowtide.cli.reduce import reduce
from lowtide.cli.run import run
from lowtide.cli.shard import shard
from lowtide.cli.verify import verify
from lowtide.search.interrupts import PressedAgainError

app = typer.Typer(
    name="lowtide",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
_COMMANDS: Final = (
    *(explain, diff, fit, check, plan, verify, compile, run, bench, opt, shard, partition, reduce),
    *(passes, planners, ops),
)
for _command in _COMMANDS:
    app.command()(_command)

_NAMES: Final = frozenset([x.__name__ for x in _COMMANDS])

atexit.register(gc.freeze)
"""When the process ends, the system takes the graphs back: no look for garbage in them."""

_USAGE_ERROR: Final[type[BaseException]] = typer.BadParameter.__bases__[0]
"""What every wrong use of the command line is raised as."""


def _show_version(wanted: bool) -> None:
    if wanted:
        from lowtide.files.source_digest import source_digest

        tree = source_digest(Path(__file__).parents[1])
        typer.echo(f"lowtide {__version__} (sources {tree})")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def lowtide(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            help="Show the version with the digest of the sources, and exit.",
        ),
    ] = False,
) -> None:
    """A tensor compiler whose centre is memory: it reads HLO, explains its peak and runs it."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return the exit status; see `lowtide.cli.exit_codes`."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if sys.stdout is None:
        return _fail(OSError(errno.EBADF, "standard output is closed"))
    command = typer.main.get_command(app)
    STAGE.begin(next((x for x in arguments if x in _NAMES), ""))
    try:
        status = command.main(arguments, prog_name="lowtide", standalone_mode=False)
        sys.stdout.flush()
    except _USAGE_ERROR as error:
        return _usage(error)
    except (typer.Abort, KeyboardInterrupt, PressedAgainError):
        return interrupted()
    except Exception as error:
        return _fail(error)
    if status == INTERRUPTED:  # Typer makes it of KeyboardInterrupt.
        return interrupted()
    return status if isinstance(status, int) else 0


def _usage(error: BaseException) -> int:
    from lowtide.cli import console
    from lowtide.cli.exit_codes import ExitCode
    from lowtide.options import started_rank

    if started_rank():  # All ranks are used in the same way: rank 0 says so.
        return ExitCode.BAD_INPUT
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "lowtide"
    message = getattr(error, "format_message", error.__str__)()
    console.report_error(f"{message.rstrip('.')}. See '{path} --help'.")
    return ExitCode.BAD_INPUT


def _fail(error: BaseException) -> int:
    from lowtide.cli.exit_codes import ClosedPipeError, ExitCode, error_text, exit_code
    from lowtide.options import wants_traceback

    code = exit_code(error)
    if isinstance(error, OSError | ClosedPipeError):
        _discard_unwritten(sys.stdout)
    if code is not ExitCode.BROKEN_PIPE and wants_traceback():
        raise error
    if text := error_text(error, STAGE.place):
        _report(text)
    return code


def _report(text: str) -> None:
    """Report an error to whoever still reads."""
    from lowtide.cli import console
    from lowtide.cli.exit_codes import ClosedPipeError

    try:
        console.report_error(text)
    except (OSError, ClosedPipeError):
        _discard_unwritten(sys.stderr)


def _discard_unwritten(stream: TextIO | None) -> None:
    """Let what a stream cannot write go nowhere, so that nothing fails when the process ends."""
    if stream is None:
        return
    try:
        stream.flush()
    except (OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


if __name__ == "__main__":
    sys.exit(main())
