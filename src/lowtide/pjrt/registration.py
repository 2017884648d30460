"""Registration of the platform with JAX."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, Final

from lowtide.pjrt import PLATFORM
from lowtide.pjrt.lifetime import watch_process
from lowtide.pjrt.table import api_capsule

_PARTS = ("buffers", "devices", "execution", "memory_stats", "programs")
"""The files with functions of the table."""


_RESTRICTED: Final = frozenset({"dot_general"})
"""Operations whose rule for XLA:CPU refuses what lowtide can do: precisions of products."""


@cache
def register() -> None:
    """Register the platform; once is enough."""
    from jax._src import xla_bridge
    from jax._src.interpreters import mlir

    for part in _PARTS:
        import_module(f"lowtide.pjrt.{part}")
    watch_process()
    bridge: Any = xla_bridge
    bridge.register_plugin(PLATFORM, c_api=api_capsule(), priority=500)
    rules: Any = mlir
    rules._platforms_with_donation.append(PLATFORM)
    own = rules._platform_specific_lowerings[PLATFORM]
    for primitive, rule in rules._platform_specific_lowerings["cpu"].items():
        if primitive.name not in _RESTRICTED:
            own.setdefault(primitive, rule)
