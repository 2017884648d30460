"""Targets as the command line names them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lowtide.options import Options


def for_gpu(options: Options, target: str) -> Options:
    """Return options for a graphics processor by name; raises UsageError for one not known."""
    from lowtide.cli.exit_codes import UsageError

    try:
        return replace(options, target=target)
    except ValueError as error:
        raise UsageError(f"--target: {error}") from None


def for_processor(options: Options, target: str) -> Options:
    """Return options for a processor by name; raises UsageError for one that is not known."""
    from lowtide.cli.exit_codes import UsageError
    from lowtide.ir.gpu_names import GPU_PREFIX
    from lowtide.options import PROCESSORS
    from lowtide.suggestions import nearest

    if target not in PROCESSORS:
        known = (*PROCESSORS, GPU_PREFIX)
        listed = ", ".join(["cpu", "cpu:avx2", GPU_PREFIX, f"{GPU_PREFIX}:sm_90"])
        raise UsageError(
            f"--target: no {target!r} to run here{nearest(target, known)}; there are: {listed}; "
            "compile --aot has others"
        )
    return replace(options, target=target)
