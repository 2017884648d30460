"""Registration of the platform with JAX."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, Final

from lowtide.client.jit.foreign_targets import know_targets_of_jax
from lowtide.client.jit.host_rules import host_rules
from lowtide.pjrt import PLATFORM
from lowtide.pjrt.eager_effects import call_at_once
from lowtide.pjrt.table import api_capsule

_PARTS = ("buffers", "devices", "execution", "programs")
"""The files with functions of the table."""


_RESTRICTED: Final = frozenset({"dot_general"})
"""Operations whose rule for XLA:CPU refuses what lowtide can do: precisions of products."""


@cache
def register() -> None:
    """Register the platform; once is enough."""
    import jax
    from jax._src import xla_bridge
    from jax._src.interpreters import mlir

    for part in _PARTS:
        import_module(f"lowtide.pjrt.{part}")
    bridge: Any = xla_bridge
    bridge.register_plugin(PLATFORM, c_api=api_capsule(), priority=500)
    rules: Any = mlir
    rules._platforms_with_donation.append(PLATFORM)
    config: Any = jax.config
    if "cpu" not in (config.jax_platforms or "").split(","):
        call_at_once()
    own = rules._platform_specific_lowerings[PLATFORM]
    know_targets_of_jax()
    for primitive, own_rule in host_rules():
        rules.register_lowering(primitive, own_rule, platform=PLATFORM, cacheable=False)
    for primitive, rule in rules._platform_specific_lowerings["cpu"].items():
        if primitive.name not in _RESTRICTED:
            own.setdefault(primitive, rule)
