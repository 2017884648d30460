"""`lowtide run --target cuda:... --emulate`: kernels of graphics processors on this host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lowtide.cli.runs import Runs, timed

if TYPE_CHECKING:
    from lowtide.cli.programs import NamedProgram
    from lowtide.options import Options


def check_emulated(target: str, *, is_emulated: bool, others: dict[str, Any]) -> None:
    """Raise UsageError for a target that does not go with the other options of the command.

    `others` are options that emulated runs do not have, by whether they are given.
    """
    from lowtide.cli.exit_codes import UsageError
    from lowtide.client.gpu import is_gpu_target

    if is_emulated and not is_gpu_target(target):
        raise UsageError("--emulate needs the --target of a GPU, such as cuda:sm_90")
    if not is_gpu_target(target):
        return
    if not is_emulated:
        raise UsageError(
            f"there is no driver that runs {target}; --emulate runs its kernels on this host"
        )
    for name, value in others.items():
        if value:
            raise UsageError(f"{name} is not for emulated runs; leave it or --target out")


def emulated_runs(
    program: NamedProgram, target: str, arguments: Any, options: Options, repeat: int
) -> Runs:
    """Compile a program for a graphics processor, and run its kernels on this host."""
    from lowtide.cli.exit_codes import UsageError
    from lowtide.cli.progress import progress
    from lowtide.client.gpu import emulated

    if program.executable is not None:
        raise UsageError("the executable is native code; give the module")
    with progress(f"emulating {program.module.name}"):
        found = emulated(program.module, target, options)
        result, first, seconds = timed(lambda: found(*arguments), repeat)
    apart = first if repeat > 1 else None
    return Runs("emulated", result, seconds, f"emulated for {target}, not on a device", apart)
