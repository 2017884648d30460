"""The error of a call for which the system has not the memory: what takes it, and what would do."""

from __future__ import annotations

from typing import Final

from lowtide.client.executable.executable import Executable
from lowtide.pjrt.errors import RESOURCE_EXHAUSTED, PluginError

SHOWN_LINES: Final = 10
"""How much of the report on the plan is in the text."""

_MIB: Final = 1 << 20


def exhausted(executable: Executable, error: MemoryError) -> PluginError:
    """Return the error with the beginning of the report on the plan, and the option that helps."""
    from lowtide.client.executable.anew import compile_anew  # Programs that fit load no compiler.

    parts = [f"{executable.name}: {error}"]
    try:
        report = str(compile_anew(executable.module).plan.report)
        parts += report.splitlines()[:SHOWN_LINES]
    except MemoryError:
        parts.append("(and none for the report on its plan)")
    available = _available_bytes()
    wanted, memory = executable.arena_bytes, executable.memory
    returned = memory["output_bytes"] - memory["alias_bytes"]
    if 0 < available < returned:
        parts.append(
            f"what it returns takes {returned:,} bytes, more than the {available:,} that are "
            "available: no option makes that less, but donated arguments may"
        )
    elif 0 < available < wanted:
        budget = max(1, available // _MIB)
        parts.append(
            f'jax.jit(..., compiler_options={{"memory": "{budget}MiB"}}) has parts of it run again '
            f"to fit into the {available:,} bytes that are available; it needs {wanted:,}"
        )
    else:
        parts.append(
            'jax.jit(..., compiler_options={"memory": "..."}) has parts of it run again to fit '
            f"into less than the {wanted:,} bytes that it needs beyond its arguments"
        )
    return PluginError(RESOURCE_EXHAUSTED, "\n".join(parts))


def _available_bytes() -> int:
    """What the system and the limit of this process leave, 0 where that is not known."""
    try:
        import resource

        with open("/proc/meminfo") as lines:
            found = [int(x.split()[1]) * 1024 for x in lines if x.startswith("MemAvailable")]
        most, _ = resource.getrlimit(resource.RLIMIT_AS)
        if most != resource.RLIM_INFINITY:
            with open("/proc/self/statm") as sizes:
                taken = int(sizes.read().split()[0]) * resource.getpagesize()
            found.append(max(0, most - taken))
        return min(found, default=0)
    except (OSError, ImportError, ValueError):
        return 0
