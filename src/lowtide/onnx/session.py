"""Sessions: a model that is run on arrays by the names of its inputs."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np

from lowtide.client.executable.executable import Executable
from lowtide.frontend.onnx.interface import ModelInterface
from lowtide.ir.errors import InputError
from lowtide.ir.literal import DTYPES
from lowtide.onnx import settings
from lowtide.onnx.binding import IOBinding
from lowtide.onnx.description import ModelMetadata, NodeArg, metadata_of, node_arg
from lowtide.onnx.feeds import checked_feeds
from lowtide.onnx.known_models import known_interface, may_be_known
from lowtide.onnx.known_steps import (
    KEPT_STEPS,
    KnownProgram,
    KnownSteps,
    RepeatedRun,
    RepeatedRuns,
    WholeStep,
    repeated,
    signature_of,
)
from lowtide.onnx.model_bytes import ModelBytes
from lowtide.onnx.progress import shown_on_terminal
from lowtide.onnx.values import Value, apart
from lowtide.options import Options, options_with
from lowtide.suggestions import nearest

if TYPE_CHECKING:
    from onnx import ModelProto

    from lowtide.frontend.onnx.sizes import Shapes, Sizes
    from lowtide.ir import Module
    from lowtide.onnx.loaded import LoadedModel
    from lowtide.onnx.places import Program
    from lowtide.onnx.runner import Compile, GraphRunner
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
    named in one warning. `memory`, in bytes or as text like "512MiB" or "80%", limits what one
    compiled stretch needs beyond its arguments, `threads` how many run it. The `engine` "reference"
    has modules computed by the evaluator, slowly. With `compile` "ahead" the model is compiled now,
    by one run on zeros, for the sizes that it has; `sizes` of named dimensions and `shapes` of
    inputs give the free ones. With "behind" the evaluator answers until native code is there, which
    is compiled meanwhile: from the first run on for the first shapes, from the second run on for
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
        own.options.setdefault("denormals", settings.denormals_of(sess_options))
        self._options = options_with(Options(), own.options, _Own.NAMES)
        self._own = own
        self._source = path_or_bytes
        self._has_run = False
        self._waits_for_native = False
        self._digest = ""
        self._shown = self._interface()
        self._repeated: RepeatedRun | None = None
        self._earlier = RepeatedRuns(own.kept)
        self._known: KnownSteps | None = None
        if self._digest:
            self._known = KnownSteps(self._digest, self._options, self._shown, own.kept)
        self._overridable = {x.name: x for x in self._shown.overridable}
        self._inputs = {x.name: x for x in self._shown.inputs}
        self._outputs = [x.name for x in self._shown.outputs]
        if own.compile == "behind" and self._options.memory is not None:
            raise ValueError('the evaluator keeps to no memory: compile="behind" goes without it')
        if own.compile == "ahead":
            dimensions = {**settings.free_dimensions_of(sess_options), **own.sizes}
            self._results(_zeros(self._shown, dimensions, own.shapes))

    # -- what is known, and what is loaded otherwise ----------------------------------------------

    def _interface(self) -> ModelInterface:
        """What the model shows, as it is known or as it is read."""
        is_given = isinstance(self._source, str | bytes | os.PathLike)
        if not is_given or self._own.engine != "native" or not may_be_known(self._options):
            return self._loaded.shown
        source = ModelBytes(self._source)
        known = known_interface(source, self._options)
        if known is not None:
            shown, self._digest = known
            return shown
        self._digest = self._loaded.keep(source, self._options)
        return self._loaded.shown

    @cached_property
    def _loaded(self) -> LoadedModel:
        """The model with its nodes, which known programs run without."""
        from lowtide.onnx.loaded import LoadedModel

        if not self._digest:
            return LoadedModel(self._source, {}, self._ways(), self._own.kept)
        weights = self._shown.weights
        loaded = LoadedModel(self._source, weights, self._ways(), self._own.kept)
        if self._digest != ModelBytes(self._source).digest(loaded.model.other_files):
            message = "has changed since the session was made from it"
            raise InputError(message, file=str(self._source))
        return loaded

    def _results(self, values: dict[str, Value]) -> list[Value]:
        program = self._known.program(values) if self._known is not None else None
        if program is not None:
            self._repeat(repeated(values, program))
            return program(values)
        self._repeated = None
        runner = self._loaded.runner
        made = runner.made
        try:
            results = apart(runner.run(values), values)
        except Exception:
            self._repeat(None)  # Some of its programs may have been made.
            raise
        step = self._whole_step(values)
        self._repeat(None if step is None else repeated(values, self._ready(step, values)))
        if step is None:
            return results
        if self._known is not None and (runner.made > made or self._waits_for_native):
            self._known.keep(values, step)
        self._waits_for_native = False
        return results

    def _repeat(self, run: RepeatedRun | None) -> None:
        """Have later runs on such feeds repeat a run."""
        self._repeated = run
        self._earlier.add(run)

    def _again(self, signature: tuple[Any, ...]) -> RepeatedRun | None:
        """The earlier run on feeds of a signature, which becomes the one used last."""
        run = self._earlier.find(signature)
        if run is not None:
            self._repeated = run
            if self._known is not None:
                self._known.touch(run.program)
            if self._runner is not None:
                names = tuple([name for name, _, _ in signature])
                self._runner.touch(names, run.program.step.parameters)
        return run

    def _whole_step(self, values: dict[str, Value]) -> WholeStep | None:
        """The program that computed the whole model for values, once it is native."""
        found = self._loaded.runner.whole_step(values)
        if found is None:
            self._waits_for_native = False
            return None
        fixed, step, endings = found
        program = _native(step.program)
        if program is None:
            self._waits_for_native = step.program is not None
            return None
        made = step.stretch
        return WholeStep(program, made.parameters, made.results, fixed, made.constants, endings)

    def _ready(self, step: WholeStep, values: dict[str, Value]) -> KnownProgram:
        return KnownProgram(step, list(values), self._outputs, self._shown.weights)

    def _ways(self) -> Compile:
        """What makes programs of modules."""
        if self._own.engine == "reference":
            return _evaluated
        return self._compiled_behind if self._own.compile == "behind" else self._compiled

    def _compiled(self, module: Module) -> Executable:
        from lowtide.verifier import verify

        with shown_on_terminal(f"lowtide: compiling {module.name}"):
            verify(module)
            made = self._compile(module)
        if not made.making.was_cached:
            give_back_free_memory()
        return made

    def _compiled_behind(self, module: Module) -> Program:
        from lowtide.client.executable.apart import known_without_compiler
        from lowtide.onnx.behind import BehindProgram
        from lowtide.verifier import verify

        verify(module)
        known = known_without_compiler(module, self._options)
        if known is not None:
            return known
        begin_at = 2 if self._has_run else 1
        return BehindProgram(module, self._compile, begin_at)

    def _compile(self, module: Module) -> Executable:
        if self._own.compiler == "here":
            from lowtide.client.executable.compiling import compile_module

            return compile_module(module, self._options)
        from lowtide.client.executable.apart import compile_apart

        return compile_apart(module, self._options)

    # -- what there is -----------------------------------------------------------------------------

    def get_inputs(self) -> list[NodeArg]:
        """Return the inputs that have to be fed."""
        return [node_arg(x) for x in self._shown.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """Return the outputs."""
        return [node_arg(x) for x in self._shown.outputs]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Return the inputs that the model has values for, which may be fed."""
        return [node_arg(x) for x in self._shown.overridable]

    def get_modelmeta(self) -> ModelMetadata:
        """Return what the model says about itself."""
        return metadata_of(self._shown)

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
        weights = {id(x): x for x in self._shown.weights.values()}.values()
        found = [*self._executables()]
        return {
            "schema": "lowtide.session_memory/1",
            "weight_bytes": sum([x.nbytes for x in weights]),
            "arena_bytes": max([x.arena_bytes for _, _, x in found], default=0),
            "programs": [
                {"parameters": list(parameters), "results": list(results), "memory": program.memory}
                for parameters, results, program in found
            ],
        }

    def explain(self, sizes: Sizes | None = None, shapes: Shapes | None = None) -> MemoryReport:
        """Return the report on the memory of the model as one module, planned as runs are.

        `sizes` are those of named dimensions, `shapes` those of inputs. `str` of it is the screen
        of `lowtide explain`. Raises InputError, GraphError and UnsupportedOpError as `read_module`.
        """
        from lowtide import compiler  # Models that are kept are run without these.
        from lowtide.frontend.onnx.module import module_of
        from lowtide.verifier import verify

        module = module_of(self._loaded.model, sizes, shapes)
        verify(module)
        return compiler.plan(module, compiler.PlanOptions.of(self._options)).report

    def release_memory(self) -> None:
        """Give back what is compiled, and the memory kept for later runs; the next run compiles."""
        self._repeated = None
        self._earlier.clear()
        for _, _, program in self._executables():
            program.release_memory()
        if self._known is not None:
            self._known.forget()
        if self._runner is not None:
            self._runner.forget()
        give_back_free_memory()

    def wait_compiled(self) -> None:
        """Return once all compilations that have begun are done: with `compile` "behind"."""
        for _, program in [] if self._runner is None else self._runner.programs():
            if hasattr(program, "wait"):
                program.wait()

    @property
    def _runner(self) -> GraphRunner | None:
        """What runs the nodes of the model, None where it was not needed so far."""
        loaded: LoadedModel | None = vars(self).get("_loaded")
        return None if loaded is None else loaded.runner

    def _executables(self) -> Iterator[tuple[Sequence[str], Sequence[str], Executable]]:
        """The native code that is there, with the names of what it takes and gives."""
        for step in [] if self._known is None else self._known.steps():
            yield step.parameters, step.results, step.program
        for stretch, program in [] if self._runner is None else self._runner.programs():
            native = _native(program)
            if native is not None:
                yield stretch.parameters, stretch.results, native

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
        if type(input_feed) is not dict and not isinstance(input_feed, Mapping):
            kind = type(input_feed).__name__
            known = ", ".join(self._inputs)
            raise InputError(f"feed a mapping of names ({known}) to values, not {kind}")
        last, signature = self._repeated, signature_of(input_feed)
        if last is None or last.signature != signature:
            last = self._again(signature)
        if last is not None and len(signature) == len(input_feed):
            results = last.program(input_feed)
        else:
            values = checked_feeds(input_feed, self._inputs, self._overridable)
            results = self._results(values)
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


def _zeros(model: ModelInterface, sizes: Sizes, shapes: Shapes) -> dict[str, Value]:
    """Inputs of zeros and empty texts; raises GraphError for sizes that are not known."""
    from lowtide.frontend.onnx.sizes import input_sizes

    found: dict[str, Value] = {}
    for name, dimensions in input_sizes(model.inputs, sizes, shapes).items():
        kind = next(x.element_type for x in model.inputs if x.name == name)
        empty = np.full(dimensions, "", object)
        found[name] = empty if kind is None else np.zeros(dimensions, DTYPES[kind])
    return found


def _native(program: Any) -> Executable | None:
    """The native code of a program, None where it is not there yet."""
    found = getattr(program, "native", program)
    return found if isinstance(found, Executable) else None


def _evaluated(module: Module) -> Program:
    from lowtide.evaluator import evaluate

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
