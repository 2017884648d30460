"""Registration of the platform with JAX."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from lowtide.client.jit.foreign_targets import know_targets_of_jax
from lowtide.client.jit.host_rules import host_rules
from lowtide.pjrt import PLATFORM
from lowtide.pjrt.algorithms import take_any_algorithm
from lowtide.pjrt.compile_options import card_target, checks_contracts
from lowtide.pjrt.dlpack import register_dlpack
from lowtide.pjrt.family import FAMILY, join_family
from lowtide.pjrt.inspections import register_inspections
from lowtide.pjrt.lifetime import watch_process
from lowtide.pjrt.table import api_capsule

_PARTS = (
    *("buffers", "devices", "execution", "host_memory", "kept_programs", "layouts"),
    *("memory_stats", "program_answers", "program_costs", "programs"),
)
"""The files with functions of the table."""


@cache
def register() -> None:
    """Register the platform; once is enough."""
    import jax
    from jax._src import xla_bridge
    from jax._src.interpreters import mlir

    for part in _PARTS:
        import_module(f"lowtide.pjrt.{part}")
    watch_process()
    bridge: Any = xla_bridge
    is_watched = checks_contracts()
    if is_watched:
        import_module("lowtide.pjrt.contracts.watch")
    capsule = api_capsule(is_watched=is_watched, is_host=not card_target())
    bridge.register_plugin(PLATFORM, c_api=capsule, priority=500)
    rules: Any = mlir
    rules._platforms_with_donation.append(PLATFORM)
    config: Any = jax.config
    platforms = (config.jax_platforms or "").split(",")
    register_dlpack(is_default=platforms[0] == PLATFORM)
    _register_cache()
    _register_exported()
    know_targets_of_jax()
    for primitive, own_rule in host_rules():
        rules.register_lowering(primitive, own_rule, platform=PLATFORM, cacheable=False)
    join_family()
    take_any_algorithm()
    register_inspections()
    _register_library_rules()


def _register_exported() -> None:
    """Have programs that were exported for XLA's processor run here, as its lowering rules do."""
    from jax._src.export import _export
    from jax._src.interpreters import mlir

    home: Any = _export
    rules: Any = mlir

    def lower(ctx: Any, *operands: Any, exported: Any) -> Any:
        if PLATFORM not in exported.platforms:
            names = [PLATFORM if x == "cpu" else x for x in exported.platforms]
            exported = replace(exported, platforms=tuple(names))
        return home._call_exported_lowering(ctx, *operands, exported=exported)

    rules.register_lowering(home.call_exported_p, lower, platform=PLATFORM)


def _register_library_rules() -> None:
    """Have rules of libraries run here that call Python, or that ask for XLA's partitioner.

    What writes them is loaded with the first.
    """
    from jax._src import callback, custom_partitioning
    from jax._src.interpreters import mlir
    from jax.interpreters import mlir as shown_mlir

    calls: Any = callback
    rules: Any = mlir
    shown: Any = shown_mlir
    parts: Any = custom_partitioning

    def emit(usual: Any, *given: Any, **parameters: Any) -> Any:
        from lowtide.pjrt.library_rules import emit_call

        return emit_call(usual, *given, **parameters)

    def lower(usual: Any, *given: Any, **parameters: Any) -> Any:
        from lowtide.pjrt.library_rules import in_place

        return in_place(usual, *given, **parameters)

    calls.emit_python_callback = partial(emit, calls.emit_python_callback)
    shown.emit_python_callback = calls.emit_python_callback
    primitive = parts.custom_partitioning_p
    usual = rules._lowerings[primitive].rule
    rules.register_lowering(primitive, partial(lower, usual), platform=PLATFORM)


def _register_cache() -> None:
    """Have JAX's persistent cache of programs keep ours; it knows by name who has programs."""
    from jax._src import compilation_cache

    cache: Any = compilation_cache
    is_used = cache.is_cache_used
    known = SimpleNamespace(platform=FAMILY, supports_executable_serialization=True)

    def is_ours_used(backend: Any) -> bool:
        return bool(is_used(known if backend.platform == PLATFORM else backend))

    cache.is_cache_used = is_ours_used
