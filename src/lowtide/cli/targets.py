"""Targets as the command line names them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lowtide.options import Options


def for_processor(options: Options, target: str) -> Options:
    """Return options for a processor by name; raises UsageError for one that is not known."""
    from lowtide.cli.exit_codes import UsageError
    from lowtide.client.gpu import GPU_PREFIX
    from lowtide.ir.suggestions import nearest
    from lowtide.options import TARGETS

    if target not in TARGETS:
        known = (*TARGETS, GPU_PREFIX)
        listed = ", ".join([*known, f"{GPU_PREFIX}:sm_90"])
        raise UsageError(f"--target: no {target!r}{nearest(target, known)}; there are: {listed}")
    return replace(options, target=target)
