"""Programs compiled by JAX: the module and the plan in a `jax.stages.Compiled`."""

from __future__ import annotations

from typing import Any, Final

from lowtide.autopsy.autopsy import explain_plan
from lowtide.autopsy.compilers import LoweredCompiler
from lowtide.autopsy.report import PlanReport
from lowtide.frontend.hlo_proto import read_buffer_assignment, read_hlo_proto
from lowtide.ir import LowtideError, Module

_COMPILED: Final = ("runtime_executable", "memory_analysis")
_LOWERED: Final = ("compile", "compiler_ir")


def is_compiled(candidate: object) -> bool:
    """Whether something is a `jax.stages.Compiled`, or works like one."""
    return all(callable(getattr(candidate, name, None)) for name in _COMPILED)


def is_lowered(candidate: object) -> bool:
    """Whether something is a `jax.stages.Lowered`, or works like one."""
    return all(callable(getattr(candidate, name, None)) for name in _LOWERED)


def program_of_jax(candidate: Any) -> Any:
    """Return the program of JAX that a library's own one holds, else the candidate itself.

    What `filter_jit` of equinox and `jit` of flax.nnx lower or compile has JAX's own as `lowered`
    or `compiled`.
    """
    for name, is_one in (("compiled", is_compiled), ("lowered", is_lowered)):
        own = getattr(candidate, name, None)
        if is_one(own):
            return own
    return candidate


def explain_compiled(compiled: Any, lowered: Any = None) -> PlanReport:
    """Return the report on what XLA planned for a compiled program.

    What would lower it is compiled to see what it does: `lowered`, the `jax.stages.Lowered` that
    `compiled` was made from, or else a program rebuilt from the optimized module. On other
    platforms than the CPU nothing is compiled. Raises LowtideError where the program does not say
    what was planned.
    """
    executable, module = compiled.runtime_executable(), module_of(compiled)
    analysis = compiled.memory_analysis()
    blob = getattr(analysis, "serialized_buffer_assignment_proto", b"")
    if not blob:
        raise LowtideError(
            f"the program does not say what memory was planned; platform: {_platform(executable)}"
        )
    assignment = read_buffer_assignment(blob, module)
    compiler = None if lowered is None else LoweredCompiler(program_of_jax(lowered))
    on_cpu = _platform(executable) == "cpu"
    return explain_plan(module, assignment, made_by_xla_cpu=on_cpu, compile_with=compiler)


def module_of(compiled: Any) -> Module:
    """Return the module of a compiled program, as it runs; raises LowtideError for several."""
    modules = compiled.runtime_executable().hlo_modules()
    if len(modules) != 1:
        raise LowtideError(f"expected one module in the program, found {len(modules)}")
    return read_hlo_proto(modules[0].as_serialized_hlo_module_proto())


def own_module_of(compiled: Any) -> Module:
    """Return the module of a program that lowtide runs, as one device of its runs it.

    The protobuf that JAX hands out leaves out for how many devices the module is.
    """
    found = module_of(compiled)
    found.num_partitions = len(compiled.runtime_executable().local_devices())
    return found


def platform_of(compiled: Any) -> str:
    """Return the platform that a program was compiled for, "unknown" where it does not say."""
    return _platform(compiled.runtime_executable())


def explain_lowered(lowered: Any) -> PlanReport:
    """Return the report on what XLA plans for a lowered program with default options."""
    return explain_compiled(lowered.compile(), lowered)


def _platform(executable: Any) -> str:
    return str(getattr(getattr(executable, "client", None), "platform", "unknown"))
