"""From kernels to machine code: one LLVM module for a kernel and all that it calls."""

from __future__ import annotations

import hashlib
from functools import cache
from threading import Lock
from typing import Any, Final, Protocol

from lowtide.planning.native.kernel import Kernel
from lowtide.planning.native.lowering import lower

_LOCK: Final = Lock()
_ENGINES: Final[list[Any]] = []
"""Engines own the code that they made, and live as long as the process."""


_PASSES: Final = ("sroa", "simplify_cfg", "instruction_combine")
"""LLVM's passes that run on kernels. Those of its level 2 take five times as long, for a tenth."""


class ObjectStore(Protocol):
    """Objects by key, kept for other processes."""

    def get(self, key: str) -> bytes | None:
        """Return the object of a key, None where there is none."""

    def put(self, key: str, body: bytes) -> None:
        """Keep an object."""


_STORES: Final[list[ObjectStore]] = []
"""Where objects are kept: in the last one, if there is any."""


def keep_objects(store: ObjectStore) -> None:
    """Take the objects of kernels from a store from now on, and put new ones there."""
    if store not in _STORES:
        _STORES.append(store)


def compiled(kernel: Kernel[..., Any]) -> int:
    """Return the address of the native code of a kernel."""
    import llvmlite.binding as llvm

    with _LOCK:
        text = str(lower(kernel))
        machine = _target_machine()
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        engine.add_object_file(llvm.ObjectFileRef.from_data(_object(text, machine)))
        engine.finalize_object()
        _ENGINES.append(engine)
        address: int = engine.get_function_address(kernel.name)
    return address


def _object(text: str, machine: Any) -> bytes:
    if not _STORES:
        return _compiled_object(text, machine)
    store, key = _STORES[-1], _key(text)
    known = store.get(key)
    if known is None:
        known = _compiled_object(text, machine)
        store.put(key, known)
    return known


def _key(text: str) -> str:
    import llvmlite
    import llvmlite.binding as llvm

    parts = (text, llvm.get_host_cpu_name(), _features(), llvmlite.__version__)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _compiled_object(text: str, machine: Any) -> bytes:
    import llvmlite.binding as llvm

    module = llvm.parse_assembly(text)
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
    import llvmlite.binding as llvm

    found: str = llvm.get_host_cpu_features().flatten()
    return found


def _target_machine() -> Any:
    import llvmlite.binding as llvm

    _initialize()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=_features(), opt=2, jit=True
    )


@cache
def _initialize() -> None:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
