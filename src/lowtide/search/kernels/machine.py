"""From kernels to machine code: one LLVM module for a kernel and all that it calls."""

from __future__ import annotations

import hashlib
import os
from functools import cache, partial
from threading import Lock
from typing import Any, Final

import llvmlite
import llvmlite.binding as llvm

from lowtide.native.unit import NativeUnit
from lowtide.search.kernels.kernel import Kernel
from lowtide.search.kernels.objects import kept_object

_LOCK: Final = Lock()
os.register_at_fork(  # A forked process finds it free.
    before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release
)
_ENGINES: Final[list[Any]] = []
"""Engines own the code that they made, and live as long as the process."""

_PACKAGE: Final = f"{__name__.partition('.')[0]}."

_PASSES: Final = ("sroa", "simplify_cfg", "instruction_combine")
"""LLVM's passes that run on kernels. Those of its level 2 take five times as long, for a tenth."""


def compiled(kernel: Kernel[..., Any]) -> int:
    """Return the address of the native code of a kernel."""
    with _LOCK:
        machine = _target_machine()
        made = kept_object(_key(kernel), partial(_compiled_object, kernel, machine))
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        engine.add_object_file(llvm.ObjectFileRef.from_data(made))
        engine.finalize_object()
        _ENGINES.append(engine)
        address: int = engine.get_function_address(kernel.name)
    return address


def text_of(kernel: Kernel[..., Any]) -> str:
    """Return the LLVM module of a kernel and of all that it calls."""
    from lowtide.native.module import module_text  # What is kept needs no compiler.

    return module_text([kernel], llvm.get_process_triple())


def _key(kernel: Kernel[..., Any]) -> str:
    """What machine code is kept by: sources of this package, so that no text has to be written.

    Kernels that are defined elsewhere, in a notebook perhaps, may have none: there it is the text.
    """
    is_ours = kernel.__module__.startswith(_PACKAGE)
    told = NativeUnit(kernel.name, [kernel]).sources if is_ours else text_of(kernel)
    parts = (told, llvm.get_host_cpu_name(), _features(), llvmlite.__version__)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _compiled_object(kernel: Kernel[..., Any], machine: Any) -> bytes:
    module = llvm.parse_assembly(text_of(kernel))
    module.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options())
    passes = llvm.create_new_module_pass_manager()
    for name in _PASSES:
        getattr(passes, f"add_{name}_pass")()
    passes.run(module, builder)
    made: bytes = machine.emit_object(module)
    return made


@cache
def _features() -> str:
    found: str = llvm.get_host_cpu_features().flatten()
    return found


def _target_machine() -> Any:
    _initialize()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=_features(), opt=2, jit=True
    )


@cache
def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
