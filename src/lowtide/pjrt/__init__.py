"""A plugin by which JAX runs its programs in lowtide.

JAX finds it by the entry point "lowtide" of the group "jax_plugins", and calls `initialize` when it
looks for backends. `JAX_PLATFORMS=lowtide python train.py` is all that one needs to say. The plugin
is a table of C functions (PJRT's), made of Python functions and, where no Python may run, of
machine code.
"""

from __future__ import annotations

from typing import Any, Final

PLATFORM: Final = "lowtide"


def initialize() -> None:
    """Register the platform if the user asks for it, by JAX_PLATFORMS or `jax_platforms`.

    Otherwise JAX would start it beside the platform that runs, and take it for the default.
    """
    import jax

    config: Any = jax.config
    if PLATFORM in (config.jax_platforms or "").split(","):
        from lowtide.ir.garbage_collection import count_as_lasting, without_collection

        with without_collection():
            from lowtide.pjrt.registration import register

            register()
            count_as_lasting()


__all__ = ["PLATFORM", "initialize"]
