"""From the text of a module to an object file.

LLVM needs one thread at a time for each context. A `KernelCompiler` has a context of its own per
module, target machine and pass manager. While LLVM runs, Python's other threads do, too.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, Final

from lowtide.llvm.entry_points import LlvmThing, adder, entry_points, told
from lowtide.llvm.file_pages import forget_llvm_pages
from lowtide.llvm.target import Target

PASSES: Final = ("GlobalDCEPass", "SimplifyCFGPass", "InstCombinePass")
"""LLVM's passes that run on kernels, of which nobody calls some functions. Loops, vectors and
stores are written as they are to be: to look for dead stores takes a thirtieth of LLVM's time and
finds none. Not NewGVN: that of LLVM 22 makes wrong code of some loops."""

INLINING: Final = ("AlwaysInlinerPass", "LoopRotatePass", "LoopDeletionPass", "SimplifyCFGPass")
"""LLVM's passes that run on a whole module first: what is inlined loses the loops that run once.
SROA of LLVM 22 makes wrong code of values stored in them in parts."""

WHOLE_PASSES: Final = (
    *INLINING,
    *("GlobalDCEPass", "PostOrderFunctionAttrsPass", "InstCombinePass"),
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

CALLS: Final = "; calls\n"
"""What a module begins with whose functions only call others with numbers of their own. The code
is the same at level 0, which takes LLVM a third of the time."""

RUNTIME_LEVEL: Final = 0
"""The same for code of lowtide's own, which each process needs first: level 1 takes LLVM six times
as long, and calls are not measurably faster for it. At level 0 no passes run before either: code is
a fiftieth larger without."""


class CodeError(Exception):
    """LLVM refuses a module, which is a fault of lowtide."""


class KernelCompiler:
    """What one thread needs to compile; not to be shared between threads that run at once."""

    def __init__(self, target: Target, code_level: int = CODE_LEVEL) -> None:
        self._raw = ready_llvm()
        self._target = target
        self._machine = _target_machine(target, code_level)
        self._quick: LlvmThing | None = None
        self._layout = ""
        if target.has_narrow_addresses:  # Where nothing is said LLVM takes them to have 64 bits.
            self._layout = f'target datalayout = "{_data_layout(self._machine)}"\n'
        self._builder = self._own_builder()
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
        if text.startswith(CALLS) and self._opens_counters:
            if self._quick is None:
                self._quick = _target_machine(self._target, 0)
            return self._compiled(text, is_object=1, optimize=_unchanged, machine=self._quick)
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
        self,
        text: str,
        is_object: int,
        optimize: Callable[[Any], None] | None = None,
        machine: LlvmThing | None = None,
    ) -> bytes:
        """The code of a module, optimized as a whole where that is given, made by a machine."""
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
                return self._emitted(machine or self._machine, module, is_object)
            finally:
                raw.LLVMPY_DisposeModule(module)
        finally:
            raw.LLVMPY_ContextDispose(context)

    def _optimize(self, module: Any, level: int) -> None:
        """Run LLVM's own pipeline, of which each run needs another one."""
        self._run(self._inlining, module, self._builder)
        raw, builder = self._raw, self._own_builder()
        made = raw.LLVMPY_buildPerModuleDefaultPipeline(builder.address, level)
        self._run(LlvmThing(made, raw.LLVMPY_DisposeNewModulePassManger), module, builder)

    def _simplify(self, module: Any) -> None:
        """Inline what the module says is inlined, and simplify each function that is left."""
        raw = self._raw
        self._run(self._whole_passes, module, self._builder)
        builder = self._own_builder()
        made = raw.LLVMPY_buildFunctionSimplificationPipeline(builder.address, PIPELINE_LEVEL)
        passes = LlvmThing(made, raw.LLVMPY_DisposeNewFunctionPassManger)
        functions = raw.LLVMPY_ModuleFunctionsIter(module)
        try:
            while function := raw.LLVMPY_FunctionsIterNext(functions):
                if not raw.LLVMPY_IsDeclaration(function):
                    raw.LLVMPY_RunNewFunctionPassManager(passes.address, function, builder.address)
        finally:
            raw.LLVMPY_DisposeFunctionsIter(functions)

    def _run(self, passes: LlvmThing, module: Any, builder: LlvmThing) -> None:
        self._raw.LLVMPY_RunNewModulePassManager(passes.address, module, builder.address)

    def _own_builder(self) -> LlvmThing:
        """What runs pipelines, and makes LLVM's own."""
        raw = self._raw
        options = LlvmThing(
            raw.LLVMPY_CreatePipelineTuningOptions(), raw.LLVMPY_DisposePipelineTuningOptions
        )
        made = raw.LLVMPY_CreatePassBuilder(self._machine.address, options.address)
        return LlvmThing(made, raw.LLVMPY_DisposePassBuilder, self._machine, options)

    def _emitted(self, machine: LlvmThing, module: Any, is_object: int) -> bytes:
        raw = self._raw
        error = ctypes.c_char_p()
        buffer = raw.LLVMPY_TargetMachineEmitToMemory(
            machine.address, module, is_object, ctypes.byref(error)
        )
        if not buffer:
            raise CodeError((error.value or b"no message").decode())
        try:
            start, size = raw.LLVMPY_GetBufferStart(buffer), raw.LLVMPY_GetBufferSize(buffer)
            return ctypes.string_at(start, size)
        finally:
            raw.LLVMPY_DisposeMemoryBuffer(buffer)


def _unchanged(module: Any) -> None:
    """Leave a module as it is written."""


def _target_machine(target: Target, code_level: int) -> LlvmThing:
    """What makes code for a target; raises CodeError where LLVM knows none of that triple."""
    raw = ready_llvm()
    if _family(target.triple) != _family(told(raw.LLVMPY_GetProcessTriple)):
        _ready_for_all()
    error = ctypes.c_char_p()
    known = raw.LLVMPY_GetTargetFromTriple(target.triple.encode(), ctypes.byref(error))
    if not known:
        raise CodeError((error.value or b"no message").decode())
    made = raw.LLVMPY_CreateTargetMachine(
        known,
        *(x.encode() for x in (target.triple, target.cpu, target.feature_string)),
        code_level,
        *(b"pic", b"small", 0, 0, b""),
    )
    if not made:
        raise CodeError(f"LLVM makes no code for {target.cpu} of {target.triple}")
    return LlvmThing(made, raw.LLVMPY_DisposeTargetMachine)


def _data_layout(machine: LlvmThing) -> str:
    raw = ready_llvm()
    made = raw.LLVMPY_CreateTargetMachineData(machine.address)
    data = LlvmThing(made, raw.LLVMPY_DisposeTargetData, machine)
    return told(raw.LLVMPY_CopyStringRepOfTargetData, data.address)


def _manager(names: Sequence[str]) -> LlvmThing:
    """A pipeline of passes by name, which may run many times."""
    raw = ready_llvm()
    made = LlvmThing(raw.LLVMPY_CreateNewModulePassManager(), raw.LLVMPY_DisposeNewModulePassManger)
    for name in names:
        adder(name)(made.address)
    return made


@cache
def ready_llvm() -> Any:
    """Return LLVM's functions, made ready for this processor; inline assembly needs the parser.

    To be loaded LLVM reads a third of its file, and hardly any of that again.
    """
    raw = entry_points()
    raw.LLVMPY_InitializeNativeTarget()
    raw.LLVMPY_InitializeNativeAsmPrinter()
    raw.LLVMPY_InitializeNativeAsmParser()
    forget_llvm_pages()
    return raw


def _family(triple: str) -> str:
    return triple.partition("-")[0]


@cache
def _ready_for_all() -> None:
    """Make LLVM ready for processors of other families, which takes 10 MB more."""
    raw = ready_llvm()
    for what in ("TargetInfos", "Targets", "TargetMCs", "AsmPrinters"):
        getattr(raw, f"LLVMPY_InitializeAll{what}")()
