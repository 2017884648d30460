"""`lowtide run --target cuda...`: programs of graphics processors, on a device or emulated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lowtide.cli.runs import Runs, timed

if TYPE_CHECKING:
    from lowtide.cli.programs import NamedProgram
    from lowtide.options import Options


def check_gpu_usage(target: str, *, is_emulated: bool, others: dict[str, Any]) -> None:
    """Raise UsageError for a target that does not go with the other options of the command.

    `others` are options that runs on graphics processors do not have, by whether they are given.
    """
    from lowtide.cli.exit_codes import UsageError
    from lowtide.ir.gpu_names import is_gpu_target

    if is_emulated and not is_gpu_target(target):
        raise UsageError("--emulate needs the --target of a GPU, such as cuda:sm_90")
    if not is_gpu_target(target):
        return
    for name, value in others.items():
        if value:
            raise UsageError(f"{name} is not for runs on a GPU; leave it or --target out")


def gpu_runs(
    program: NamedProgram,
    target: str,
    arguments: Any,
    options: Options,
    repeat: int,
    devices: int = 1,
) -> Runs:
    """Compile a program for graphics processors, and run it there or emulated on this host.

    Where the target of the options is not `target`, it is emulated. For several devices `arguments`
    are those of each, and so is the result.
    """
    from lowtide.cli.exit_codes import UsageError
    from lowtide.cli.progress import progress
    from lowtide.client.gpu import DevicesExecutable, compile_for_device, emulated
    from lowtide.ir.gpu_names import EMULATED

    if program.executable is not None:
        raise UsageError("the executable is native code; give the module")
    is_emulated = EMULATED in (target, options.target)
    with progress(f"running {program.module.name}") as line:
        if is_emulated:
            found = emulated(program.module, target, options, line.show_part)
        else:
            found = compile_for_device(program.module, options, line.show_part)
        if isinstance(found, DevicesExecutable):
            several = found.run
            result, first, seconds = timed(lambda: several(arguments), repeat)
        elif devices > 1:  # They ask for their numbers only, which have no kernel of their own.
            raise UsageError(f"{program.module.name}: its {devices} devices exchange nothing")
        else:
            alone = found
            result, first, seconds = timed(lambda: alone(*arguments), repeat)
    apart = first if repeat > 1 else None
    document: dict[str, object] = {"devices": devices} if devices > 1 else {}
    if is_emulated:
        count = "a device" if devices == 1 else f"{devices} devices"
        how = f"emulated for {target}, not on {count}"
        return Runs("emulated", result, seconds, how, apart, document=document)
    how = f"{target} on {found.device}"
    return Runs("cuda", result, seconds, how, apart, document=document)
