"""The plugin at the end of the process, and in processes that are forked from it."""

from __future__ import annotations

import atexit
import os
import sys
from typing import Any, Final

from lowtide.pjrt.devices import client
from lowtide.pjrt.errors import FAILED_PRECONDITION, PluginError
from lowtide.pjrt.queues import all_queues
from lowtide.pjrt.table import refuse_calls

END_SECONDS: Final = 2.0
"""How long the end of the process waits for calls whose results nobody asked for."""

_FORKED: Final = (
    "this process was forked from one that had started lowtide, whose threads are not here: start "
    'it by multiprocessing.get_context("spawn"), or use JAX only after the fork'
)


def watch_process() -> None:
    """Have the end of the process and forks seen to."""
    atexit.register(_end)
    os.register_at_fork(after_in_child=_forked)


def _end() -> None:
    """Let calls with effects come to their end, as JAX does, and others for a moment."""
    import jax

    if not _is_forked():
        barrier: Any = jax.effects_barrier
        barrier()
        for queue in all_queues():
            queue.end(END_SECONDS)


def _is_forked() -> bool:
    return bool(_children)


_children: Final[list[int]] = []


def _forked() -> None:
    """Refuse what would wait for threads that are not there, if there were any in the parent.

    JAX compiles on threads of its own before it comes to the plugin, so it is stopped before that.
    """
    if not client.cache_info().currsize:
        return
    _children.append(os.getpid())
    refuse_calls(_FORKED)
    compiler: Any = sys.modules.get("jax._src.compiler")
    if hasattr(compiler, "backend_compile_and_load"):
        compiler.backend_compile_and_load = _refuse


def _refuse(*_: Any, **__: Any) -> Any:
    raise PluginError(FAILED_PRECONDITION, _FORKED)
