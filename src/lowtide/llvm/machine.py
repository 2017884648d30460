"""From the text of a module to an object file.

llvmlite guards each call of LLVM with one lock of the process. LLVM needs less: one thread at a
time for each context. A `KernelCompiler` has a context of its own per module, target machine and
pass manager. It calls the functions below that lock, which also let Python's other threads run.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, Final

from lowtide.llvm.file_pages import forget_llvm_pages
from lowtide.llvm.target import Target

PASSES: Final = ("global_dead_code_eliminate", "simplify_cfg", "instruction_combine")
"""LLVM's passes that run on kernels, of which nobody calls some functions. Loops, vectors and
stores are written as they are to be: to look for dead stores takes a thirtieth of LLVM's time and
finds none. Not NewGVN: that of LLVM 22 makes wrong code of some loops."""

INLINING: Final = ("always_inliner", "loop_rotate", "loop_deletion", "simplify_cfg")
"""LLVM's passes that run on a whole module first: what is inlined loses the loops that run once.
SROA of LLVM 22 makes wrong code of values stored in them in parts."""

WHOLE_PASSES: Final = (
    *INLINING,
    *("global_dead_code_eliminate", "post_order_function_attributes", "instruction_combine"),
)
"""What runs on a whole module before its functions are simplified one by one."""

PIPELINE_LEVEL: Final = 1
"""How hard LLVM's own pipeline for functions tries on modules that are optimized as a whole, 0 to
3. That for modules takes twice as long, for code that is .4% faster: kernels say what is inlined.
It makes no vectors of loops: they are written where they pay."""

CODE_LEVEL: Final = 1
"""How hard LLVM's code generator tries, 0 to 3. Beyond 1 code was not faster."""

COUNTERS: Final = "open"
"""How counters of loops are seen, on x86-64 (`loops.py`); it is part of the keys of objects."""

RUNTIME_LEVEL: Final = 0
"""The same for code of lowtide's own, which each process needs first: level 1 takes LLVM six times
as long, and calls are not measurably faster for it. At level 0 no passes run before either: code is
a fiftieth larger without."""


class CodeError(Exception):
    """LLVM refuses a module, which is a fault of lowtide."""


class KernelCompiler:
    """What one thread needs to compile; not to be shared between threads that run at once."""

    def __init__(self, target: Target, code_level: int = CODE_LEVEL) -> None:
        llvm = ready_llvm()
        self._raw = llvm.ffi.lib._lib
        self._machine = known_target(target.triple).create_target_machine(
            cpu=target.cpu,
            features=target.feature_string,
            opt=code_level,
            reloc="pic",
            codemodel="small",
        )
        self._layout = ""
        if target.has_narrow_addresses:  # Where nothing is said LLVM takes them to have 64 bits.
            self._layout = f'target datalayout = "{self._machine.target_data}"\n'
        options = llvm.create_pipeline_tuning_options(speed_level=2)
        self._builder = llvm.create_pass_builder(self._machine, options)
        self._passes = _manager(PASSES if code_level else ())
        self._opens_counters = bool(code_level) and target.triple.startswith("x86_64")
        self._whole_passes = _manager(WHOLE_PASSES)
        self._inlining = _manager(INLINING)

    def object_code(self, text: str, *, whole: bool = False) -> bytes:
        """Return the object file of a module; raises CodeError where LLVM refuses it.

        With `whole` it is optimized as a whole: what it says is inlined is, and functions are
        simplified then.
        """
        if whole:
            return self._compiled(text, is_object=1, optimize=self._simplify)
        if self._opens_counters:
            from lowtide.llvm.loops import with_open_counters  # Not for code that is kept.

            text = with_open_counters(text)
        return self._compiled(text, is_object=1)

    def assembly(self, text: str) -> str:
        """Return the assembly text of a module; raises CodeError where LLVM refuses it."""
        return self._compiled(text, is_object=0).decode()

    def whole_assembly(self, text: str, level: int) -> str:
        """Return the assembly text of a module that LLVM's own pipeline optimizes, at a level.

        LLVM may inline what it likes, and make vectors of loops.
        """
        optimize = partial(self._optimize, level=level)
        return self._compiled(text, is_object=0, optimize=optimize).decode()

    def _compiled(
        self, text: str, is_object: int, optimize: Callable[[Any], None] | None = None
    ) -> bytes:
        """The code of a module, optimized as a whole where that is given."""
        raw = self._raw
        context = raw.LLVMPY_ContextCreate()
        error = ctypes.c_char_p()
        try:
            given = self._layout + text
            module = raw.LLVMPY_ParseAssembly(context, given.encode(), ctypes.byref(error))
            if not module:
                raise CodeError((error.value or b"no message").decode())
            try:
                if optimize is None:
                    self._run(self._passes, module, self._builder)
                else:
                    optimize(module)
                return self._emitted(module, is_object)
            finally:
                raw.LLVMPY_DisposeModule(module)
        finally:
            raw.LLVMPY_ContextDispose(context)

    def _optimize(self, module: Any, level: int) -> None:
        """Run LLVM's own pipeline, of which each run needs another one."""
        self._run(self._inlining, module, self._builder)
        builder = self._own_builder(level)
        self._run(builder.getModulePassManager(), module, builder)

    def _simplify(self, module: Any) -> None:
        """Inline what the module says is inlined, and simplify each function that is left."""
        raw = self._raw
        self._run(self._whole_passes, module, self._builder)
        builder = self._own_builder(PIPELINE_LEVEL)
        passes = builder.getFunctionPassManager()
        functions = raw.LLVMPY_ModuleFunctionsIter(module)
        try:
            while function := raw.LLVMPY_FunctionsIterNext(functions):
                if not raw.LLVMPY_IsDeclaration(function):
                    raw.LLVMPY_RunNewFunctionPassManager(passes._ptr, function, builder._ptr)
        finally:
            raw.LLVMPY_DisposeFunctionsIter(functions)

    def _run(self, passes: Any, module: Any, builder: Any) -> None:
        self._raw.LLVMPY_RunNewModulePassManager(passes._ptr, module, builder._ptr)

    def _own_builder(self, level: int) -> Any:
        """What makes LLVM's own pipelines of a level."""
        llvm = ready_llvm()
        options = llvm.create_pipeline_tuning_options(speed_level=level)
        return llvm.create_pass_builder(self._machine, options)

    def _emitted(self, module: Any, is_object: int) -> bytes:
        raw = self._raw
        error = ctypes.c_char_p()
        buffer = raw.LLVMPY_TargetMachineEmitToMemory(
            self._machine._ptr, module, is_object, ctypes.byref(error)
        )
        if not buffer:
            raise CodeError((error.value or b"no message").decode())
        try:
            start, size = raw.LLVMPY_GetBufferStart(buffer), raw.LLVMPY_GetBufferSize(buffer)
            return ctypes.string_at(start, size)
        finally:
            raw.LLVMPY_DisposeMemoryBuffer(buffer)


def _manager(names: Sequence[str]) -> Any:
    """A pipeline of passes by name, which may run many times."""
    manager = ready_llvm().create_new_module_pass_manager()
    for name in names:
        getattr(manager, f"add_{name}_pass")()
    return manager


@cache
def ready_llvm() -> Any:
    """Return llvmlite, made ready for this processor; inline assembly needs the parser.

    To be loaded LLVM reads a third of its file, and hardly any of that again.
    """
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    forget_llvm_pages()
    return llvm


def known_target(triple: str) -> Any:
    """Return what LLVM knows of the processors of a triple."""
    llvm = ready_llvm()
    if _family(triple) != _family(llvm.get_process_triple()):
        _ready_for_all()
    return llvm.Target.from_triple(triple)


def _family(triple: str) -> str:
    return triple.partition("-")[0]


@cache
def _ready_for_all() -> None:
    """Make LLVM ready for processors of other families, which takes 10 MB more."""
    llvm = ready_llvm()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
