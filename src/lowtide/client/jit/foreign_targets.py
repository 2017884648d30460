"""Foreign functions that are registered with JAX, for the platform "lowtide" or for its CPU's."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from lowtide.host_calls.foreign.targets import ForeignTarget, look_also, register_target, target_of

PLATFORM: Final = "lowtide"
_CPU: Final = "cpu"
_CPU_REGISTER: Final = "Host"

_NOT_TAKEN: Final = ("xla_", "dce_sink", "lapack_")
"""How functions begin that only XLA can call, since they look into its objects, or that lowtide has
itself."""


@cache
def know_targets_of_jax() -> None:
    """Have calls find what users register by `jax.ffi.register_ffi_target`, before or after this.

    A function for the platform "lowtide" comes before one of the same name for "cpu".
    """
    from jaxlib import xla_client

    library: Any = xla_client
    library.register_custom_call_handler(PLATFORM, _register)
    # Without a client for the CPU nobody else takes what was registered for it.
    library.register_custom_call_handler(_CPU, library._xla.register_custom_call_target)
    look_also(_of_cpu)


def _register(name: Any, function: Any, platform: str, api_version: int, traits: Any = 0) -> None:
    """Take a function as JAX hands it over; its version is 1 for typed ones, 0 for others."""
    text = name.decode() if isinstance(name, bytes) else str(name)
    register_target(text, target_of(function, typed=api_version == 1))


def _of_cpu(name: str) -> ForeignTarget | None:
    """Return what XLA has for a name on its CPU: a dictionary by stage for a typed function."""
    from jaxlib import xla_client

    library: Any = xla_client
    found = library.custom_call_targets(_CPU_REGISTER).get(name)
    if found is None or name.startswith(_NOT_TAKEN):
        return None
    return target_of(found, typed=isinstance(found, dict))
