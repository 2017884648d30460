"""From kernels to machine code: one LLVM module for a kernel and all that it calls."""

from __future__ import annotations

from functools import cache
from threading import Lock
from typing import Any, Final

from lowtide.planning.native.kernel import Kernel
from lowtide.planning.native.lowering import lower

_LOCK: Final = Lock()
_ENGINES: Final[list[Any]] = []
"""Engines own the code that they made, and live as long as the process."""


def compiled(kernel: Kernel[..., Any]) -> int:
    """Return the address of the native code of a kernel."""
    import llvmlite.binding as llvm

    with _LOCK:
        text = str(lower(kernel))
        machine = _target_machine()
        module = llvm.parse_assembly(text)
        module.verify()
        options = llvm.create_pipeline_tuning_options(speed_level=2)
        options.loop_vectorization = True
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
        engine = llvm.create_mcjit_compiler(module, machine)
        engine.finalize_object()
        _ENGINES.append(engine)
        address: int = engine.get_function_address(kernel.name)
    return address


def _target_machine() -> Any:
    import llvmlite.binding as llvm

    _initialize()
    target = llvm.Target.from_default_triple()
    features = llvm.get_host_cpu_features().flatten()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=2, jit=True
    )


@cache
def _initialize() -> None:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
