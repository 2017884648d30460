"""Sessions: a model that is run on arrays by the names of its inputs."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np
from onnx import ModelProto

from lowtide.client.executable.apart import compile_apart, known_without_compiler
from lowtide.client.executable.compiling import compile_module
from lowtide.client.executable.executable import Executable
from lowtide.evaluator import evaluate
from lowtide.frontend.onnx.model import OnnxModel, load_model
from lowtide.frontend.onnx.module import module_of
from lowtide.frontend.onnx.sizes import Shapes, Sizes, input_sizes
from lowtide.frontend.onnx.stretch import Stretch
from lowtide.ir import Module
from lowtide.ir.errors import InputError
from lowtide.ir.literal import DTYPES
from lowtide.ir.suggestions import nearest
from lowtide.onnx import settings
from lowtide.onnx.behind import BehindProgram
from lowtide.onnx.binding import IOBinding
from lowtide.onnx.description import ModelMetadata, NodeArg, metadata_of, node_arg
from lowtide.onnx.feeds import checked_feeds
from lowtide.onnx.integer_weights import with_integer_weights_prepared
from lowtide.onnx.places import KEPT_STEPS, Program
from lowtide.onnx.progress import shown_on_terminal
from lowtide.onnx.runner import Compile, GraphRunner
from lowtide.onnx.values import Value
from lowtide.onnx.weights import with_weights_prepared
from lowtide.options import Options, options_with
from lowtide.verifier import verify

if TYPE_CHECKING:
    from lowtide.report.memory import MemoryReport


ENGINES: Final = ("native", "reference")
"""What computes stretches: native code, or the evaluator."""

TIMES: Final = ("lazy", "ahead", "behind")
"""When a session compiles: at the first run of each shape, when it is made too, or while it runs
by the evaluator."""

COMPILERS: Final = ("child", "here")
"""Where programs are compiled: in a process that ends afterwards, or in this one."""


@final
class InferenceSession:
    """A model that is compiled once for each set of shapes it is run with.

    The first four parameters are those of ONNX Runtime: the model as a path, as bytes or as a
    ModelProto, a `SessionOptions` of either package, and providers; what has no meaning here is
    named in one warning. `memory`, in bytes or as text like "512MiB", limits what one compiled
    stretch needs beyond its arguments, `threads` how many run it. The `engine` "reference" has
    modules computed by the evaluator, slowly. With `compile` "ahead" the model is compiled now, by
    one run on zeros, for the sizes that it has; `sizes` of named dimensions and `shapes` of inputs
    give the free ones. With "behind" the evaluator answers until native code is there, which is
    compiled meanwhile: from the first run on for the first shapes, from the second run on for
    others. Results may differ in the last bits before and after. The `compiler` is a "child", a
    process that ends afterwards, or "here", in this one. Programs are kept for the `kept` sets of
    shapes used last. `options` are other fields of `Options`. Raises InputError and GraphError for
    what is no valid model, ValueError for settings that cannot be.
    """

    def __init__(
        self,
        path_or_bytes: str | os.PathLike[str] | bytes | ModelProto,
        sess_options: Any = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        **options: Any,
    ) -> None:
        own = _Own(options)
        settings.tell_ignored(sess_options, providers, provider_options, 2)
        self._settings = sess_options if sess_options is not None else settings.SessionOptions()
        own.options.setdefault("threads", settings.threads_of(sess_options))
        self._options = options_with(Options(), own.options, _Own.NAMES)
        self._compile = compile_apart if own.compiler == "child" else compile_module
        model = with_weights_prepared(load_model(path_or_bytes))
        self._model: OnnxModel = with_integer_weights_prepared(model)
        self._overridable = frozenset([x.name for x in self._model.overridable])
        self._inputs = {x.name: x for x in self._model.inputs}
        self._outputs = [x.name for x in self._model.outputs]
        self._has_run = False
        compile_ = self._ways(own)
        model = self._model
        self._runner = GraphRunner(model.graph, compile_, model.initializers, own.kept)
        if own.compile == "ahead":
            dimensions = {**settings.free_dimensions_of(sess_options), **own.sizes}
            self._runner.run(_zeros(model, dimensions, own.shapes))

    def _ways(self, own: _Own) -> Compile:
        """What makes programs of modules."""
        if own.engine == "reference":
            return _evaluated
        if own.compile != "behind":
            return self._compiled
        if self._options.memory is not None:
            raise ValueError('the evaluator keeps to no memory: compile="behind" goes without it')
        return self._compiled_behind

    def _compiled(self, module: Module) -> Executable:
        with shown_on_terminal(f"lowtide: compiling {self._model.name}"):
            verify(module)
            made = self._compile(module, self._options)
        if not made.making.was_cached:
            give_back_free_memory()
        return made

    def _compiled_behind(self, module: Module) -> Program:
        verify(module)
        known = known_without_compiler(module, self._options)
        if known is not None:
            return known
        begin_at = 2 if self._has_run else 1
        return BehindProgram(module, lambda x: self._compile(x, self._options), begin_at)

    # -- what there is -----------------------------------------------------------------------------

    def get_inputs(self) -> list[NodeArg]:
        """Return the inputs that have to be fed."""
        return [node_arg(x) for x in self._model.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """Return the outputs."""
        return [node_arg(x) for x in self._model.outputs]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Return the inputs that the model has values for, which may be fed."""
        return [node_arg(x) for x in self._model.overridable]

    def get_modelmeta(self) -> ModelMetadata:
        """Return what the model says about itself."""
        return metadata_of(self._model)

    def get_providers(self) -> list[str]:
        """Return the providers that run the model."""
        return [settings.PROVIDER]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """Return the options of providers, of which there are none."""
        return {settings.PROVIDER: {}}

    def set_providers(
        self,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Take other providers, which changes nothing; those that are not here are told of."""
        settings.tell_ignored(None, providers, provider_options, 2)

    def get_session_options(self) -> Any:
        """Return the options that the session was made with."""
        return self._settings

    def enable_fallback(self) -> None:
        """Do nothing: there is one provider."""

    def disable_fallback(self) -> None:
        """Do nothing: there is one provider."""

    def end_profiling(self) -> str:
        """Return the name of the file with a profile: none is written."""
        return ""

    @property
    def memory(self) -> dict[str, Any]:
        """What the session needs as compiled so far; sizes in bytes.

        `programs` has for each compiled stretch its `parameters` and `results` by the names of
        values, and its `memory` in the schema "lowtide.memory/1"; `arena_bytes` is the greatest
        need of one of them beyond its arguments, `weight_bytes` that of initializers.
        """
        weights = {id(x): x for x in self._model.initializers.values()}.values()
        found = [(x, y) for x, y in self._executables() if y is not None]
        return {
            "schema": "lowtide.session_memory/1",
            "weight_bytes": sum([x.nbytes for x in weights]),
            "arena_bytes": max([x.arena_bytes for _, x in found], default=0),
            "programs": [
                {
                    "parameters": list(stretch.parameters),
                    "results": list(stretch.results),
                    "memory": program.memory,
                }
                for stretch, program in found
            ],
        }

    def explain(self, sizes: Sizes | None = None, shapes: Shapes | None = None) -> MemoryReport:
        """Return the report on the memory of the model as one module, planned as runs are.

        `sizes` are those of named dimensions, `shapes` those of inputs. `str` of it is the screen
        of `lowtide explain`. Raises InputError, GraphError and UnsupportedOpError as `read_module`.
        """
        from lowtide import compiler  # Models that are kept are run without it.

        module = module_of(self._model, sizes, shapes)
        verify(module)
        return compiler.plan(module, compiler.PlanOptions.of(self._options)).report

    def release_memory(self) -> None:
        """Give back what is compiled, and the memory kept for later runs; the next run compiles."""
        for _, program in self._executables():
            if program is not None:
                program.release_memory()
        self._runner.forget()
        give_back_free_memory()

    def wait_compiled(self) -> None:
        """Return once all compilations that have begun are done: with `compile` "behind"."""
        for _, program in self._runner.programs():
            if isinstance(program, BehindProgram):
                program.wait()

    def _executables(self) -> Iterator[tuple[Stretch, Executable | None]]:
        """The stretches with their native code, None where it is not there yet."""
        for stretch, program in self._runner.programs():
            if isinstance(program, BehindProgram):
                yield stretch, program.native
            elif isinstance(program, Executable):
                yield stretch, program

    # -- runs --------------------------------------------------------------------------------------

    def io_binding(self) -> IOBinding:
        """Return an empty binding of arrays to inputs and outputs."""
        return IOBinding()

    def run_with_iobinding(self, iobinding: IOBinding, run_options: Any = None) -> None:
        """Run on the bound inputs; bound outputs are filled, others come as new arrays."""
        names = iobinding.output_names()
        results = self.run(names, iobinding.inputs(), run_options)
        iobinding.store(dict(zip(names, results, strict=True)))

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: Any = None,
    ) -> list[Value]:
        """Return the named outputs, None or [] for all, of the model on values by input names.

        `run_options` are those of ONNX Runtime, which change nothing here. Raises InputError for
        feeds and names that do not fit the model.
        """
        for name in output_names or ():
            if name not in self._outputs:
                raise InputError(f"Invalid Output Name: {name!r}{nearest(name, self._outputs)}")
        values = checked_feeds(input_feed, self._inputs, self._overridable)
        results = self._runner.run(values)
        self._has_run = True
        if not output_names:
            return results
        found = dict(zip(self._outputs, results, strict=True))
        return [found[x] for x in output_names]


class _Own:
    """What a session is told besides the options of compilations."""

    NAMES: Final = ("engine", "compile", "compiler", "kept", "sizes", "shapes")

    def __init__(self, given: Mapping[str, Any]) -> None:
        options = dict(given)
        self.engine: str = _one_of("engine", options.pop("engine", "native"), ENGINES)
        self.compile: str = _one_of("compile", options.pop("compile", "lazy"), TIMES)
        self.compiler: str = _one_of("compiler", options.pop("compiler", "child"), COMPILERS)
        self.kept = int(options.pop("kept", KEPT_STEPS))
        if self.kept < 1:
            raise ValueError(f"kept is the number of sets of shapes, at least 1; found {self.kept}")
        self.sizes: Sizes = options.pop("sizes", None) or {}
        self.shapes: Shapes = options.pop("shapes", None) or {}
        self.options = options


def _one_of(name: str, value: Any, known: Sequence[str]) -> str:
    if value not in known:
        raise ValueError(f"{name} is one of {', '.join(known)}; found {value!r}")
    return str(value)


def _zeros(model: OnnxModel, sizes: Sizes, shapes: Shapes) -> dict[str, Value]:
    """Inputs of zeros and empty texts; raises GraphError for sizes that are not known."""
    found: dict[str, Value] = {}
    for name, dimensions in input_sizes(model.inputs, sizes, shapes).items():
        kind = next(x.element_type for x in model.inputs if x.name == name)
        empty = np.full(dimensions, "", object)
        found[name] = empty if kind is None else np.zeros(dimensions, DTYPES[kind])
    return found


def _evaluated(module: Module) -> Program:
    def run(*arguments: Any) -> Any:
        return evaluate(module, list(arguments))

    return run


def give_back_free_memory() -> None:
    """Have the C library return what it holds and nobody uses; nothing happens where it cannot."""
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Any:
    """The function of glibc that does so, None where the library is another one."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return None
