"""A plugin by which JAX runs its programs in lowtide: `initialize` registers it.

JAX finds it by the entry point "lowtide" of the group "jax_plugins", so that
`JAX_PLATFORMS=lowtide python train.py` is all that one needs to say. It is a table of C functions
(PJRT's), made of Python functions and, where no Python may run, of machine code.
"""

from __future__ import annotations


def initialize() -> None:
    """Register the platform "lowtide" with JAX, which calls this when it looks for backends."""
    from lowtide.pjrt.registration import register

    register()


__all__ = ["initialize"]
