"""`jax.debug` outside of compiled functions, where JAX has no CPU platform to hand arrays to."""

from __future__ import annotations

from typing import Any

from lowtide.client.jit.host_rules import printer


def call_at_once() -> None:
    """Have `jax.debug.callback` and `jax.debug.print` call their functions with arrays as they are.

    By default JAX moves these to its CPU platform, and refuses where that is not there.
    """
    from jax._src import debugging

    shown: Any = debugging
    shown.debug_callback_p.def_impl(_call)
    shown.debug_print_p.def_impl(_print)


def _call(*arrays: Any, callback: Any, **parameters: Any) -> tuple[()]:
    callback(*arrays)
    return ()


def _print(*arrays: Any, **parameters: Any) -> tuple[()]:
    printer(parameters)(*arrays)
    return ()
