"""`jit`: a function for JAX, compiled and run by lowtide, with the stages of `jax.jit`.

>>> fast = lowtide.jit(step, donate_argnums=0, memory="512MiB")
>>> state = fast(state, batch)                       # NumPy arrays
>>> fast.lower(state, batch).compile().memory        # what the plan needs
>>> print(fast.explain(state, batch))
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from html import escape
from types import MethodType
from typing import Any, Final, final

from lowtide.client.compilation_cache import CacheStatistics, CompilationCache
from lowtide.client.jit.arguments import abstract_key, leaf_keys, other_key, spread
from lowtide.client.jit.lowering import (
    closes_over_tracers,
    program_of,
    refuse_several_devices,
    trace_state,
    with_masks_selected,
)
from lowtide.client.jit.meshes import MeshFunction, MeshOptions
from lowtide.client.jit.program import Call, JaxFallback, JitProgram, output_kind
from lowtide.client.jit.stages import Lowered, chosen_options
from lowtide.client.jit.statics import Names, Numbers, StaticArguments
from lowtide.client.library import (
    ModuleCompiler,
    ModuleExecutable,
    native_compiler,
    telling_compiler,
)
from lowtide.ir import Module, UnsupportedOpError
from lowtide.ir.gpu_names import is_gpu_target
from lowtide.options import Options


def jit(
    function: Callable[..., Any],
    donate_argnums: Numbers = None,
    static_argnums: Numbers = None,
    memory: int | str | None = None,
    options: Options | None = None,
    fallback: bool = False,
    *,
    donate_argnames: Names = None,
    static_argnames: Names = None,
    output: str = "numpy",
    compiler: ModuleCompiler | None = None,
    **fields: Any,
) -> Jitted:
    """Return `function`, compiled by lowtide for each type of arguments when it is first called.

    Tracing is JAX's: arguments are pytrees, static ones have to be hashable, Python numbers are
    weakly typed, and 64 bits count if JAX's settings say so when the function is called. Arguments
    may be NumPy or JAX arrays. Results are NumPy arrays, or with output="jax" JAX arrays in the
    same memory. A donated NumPy array may be overwritten, unless another argument shares
    its memory; a donated JAX array is deleted if a result has its type and sizes.

    `memory`, in bytes or as text like "512MiB" or "80%", limits what one call needs beyond its
    arguments: parts of the program run again to fit. `fields` are those of `Options`, such as
    check="first", and take the place of what `options` has. Others are `progress`, a function that
    is told in words which plans are tried and found for a limited memory, and those of meshes.
    `compiler` makes executables of modules; by default it is that of lowtide to native code.

    With the `target` of a GPU (docs/gpu.md) the function runs there. Arguments that lie on the
    device, as JAX's do there or results with output="device", go in by copies within it; results
    with output="jax" are JAX arrays in its memory, if JAX has the device.

    `mesh`, a mesh of JAX or sizes by the names of axes ({"x": 4}), has the function run on as many
    devices, none of them JAX's: threads of this process, or with `comm`, a communicator of mpi4py,
    its ranks. Arguments and results are whole arrays, which all ranks call it with.
    `in_shardings` and `out_shardings` are trees of PartitionSpecs or shardings over that mesh, as
    `jax.jit` has them; the function may name its axes (`with_sharding_constraint`, `shard_map`).

    Inside of `jax.grad`, `jax.vmap` or another `jax.jit`, called with what these trace or using it,
    the function is `jax.jit`'s.

    What JAX raises in tracing is passed on as it is. A call raises UnsupportedOpError, with the
    line of the program, at what cannot be compiled, such as values that are no arrays; with
    `fallback` it says so once, in a RuntimeWarning, and `jax.jit` runs the function. What a
    function that JAX calls back into raises ends the call as it is. Raises ValueError for an
    unknown `output` and for what no option can be, and TypeError for an option that there is not.
    """
    over = MeshOptions.taken_from(fields)
    if over.comm is not None:
        from lowtide.client.executable.rank_arrays import compiler_for_ranks

        compiler = compiler_for_ranks(over.comm)
    numbers = {"donate_argnums": donate_argnums, "static_argnums": static_argnums}
    names = {"donate_argnames": donate_argnames, "static_argnames": static_argnames}
    staged = _staged(function, over, **numbers, **names)
    statics = StaticArguments.of(function, static_argnums, static_argnames)
    progress = fields.pop("progress", None)
    chosen = chosen_options(options, memory, fields, _KEYWORDS)
    compiler = compiler or _compiler_for(chosen, output, progress)
    return Jitted(function, staged, statics, chosen, compiler, output, fallback=fallback)


_KEYWORDS: Final = (
    *("donate_argnums", "static_argnums", "donate_argnames", "static_argnames"),
    *("in_shardings", "out_shardings", "mesh", "comm", "output", "fallback", "progress"),
    *("options", "compiler"),
)
"""What `jit` takes besides the fields of options."""


def _compiler_for(options: Options, output: str, progress: Any) -> ModuleCompiler | None:
    """The compiler for a target; None for that to native code, which tells nothing."""
    if is_gpu_target(options.target):
        from lowtide.client.jit.on_device import device_compiler

        return device_compiler(output, progress)
    return None if progress is None else telling_compiler(progress)


def _staged(function: Callable[..., Any], over: MeshOptions, **arguments: Any) -> Any:
    """Return a function as JAX traces it, over a mesh if there is one."""
    import jax

    staged: Any = jax.jit(function, **arguments, keep_unused=True, **over.shardings)
    return staged if over.mesh is None else MeshFunction(staged, over.mesh)


class _EnclosingTrace(Exception):  # noqa: N818 - it tells who runs the function, and is no error
    """The function belongs to a trace of JAX's."""


def _itself(leaf: Any) -> Any:
    """What JAX traces in place of a leaf that it knows."""
    return leaf


@final
class Jitted:
    """A function that is compiled for each type of arguments, as `jit` says."""

    def __init__(
        self,
        function: Callable[..., Any],
        staged: Any,
        statics: StaticArguments,
        options: Options,
        compiler: ModuleCompiler | None,
        output: str,
        *,
        fallback: bool,
    ) -> None:
        import jax

        functools.update_wrapper(self, function)
        self._staged = staged
        self._devices = staged.mesh.size if isinstance(staged, MeshFunction) else 1
        self._statics = statics
        self._has_statics = bool(statics)
        self._options = options
        self._compiler = compiler
        on_device = is_gpu_target(options.target)
        self._output = output_kind(output, on_device=on_device)
        self._fallback = fallback
        self._has_fallen_back = False
        self._state = trace_state()
        self._flatten, self._map = jax.tree_util.tree_flatten, jax.tree_util.tree_map
        self._spec_of: Callable[[Any], Any] = _itself
        if on_device:
            from lowtide.client.jit.on_device import spec_of

            self._spec_of = spec_of
        self._tracer = jax.core.Tracer
        self._leaf_keys = leaf_keys()
        self._programs: CompilationCache[JitProgram | JaxFallback] = CompilationCache()
        self._calls: dict[Hashable, dict[Hashable, Call]] = {}
        self._latest: tuple[Any, dict[Hashable, Call]] = (None, {})

    # -- calls ---------------------------------------------------------------------------------

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Return the results, compiled for arguments of these types if they are not yet."""
        if keywords or self._has_statics:
            return self._call_with_tree(arguments, keywords)
        kinds = self._leaf_keys
        state = self._state()
        known, calls = self._latest
        if state != known:  # To hash it takes longer than to compare it.
            calls = self._calls_in(state)
        try:
            call = calls[tuple([kinds[type(x)](x) for x in arguments])]
        except KeyError:  # New types, or pytrees. It is no context of what the call raises.
            call = None
        return self._call_with_tree(arguments, keywords) if call is None else call(arguments)

    def _calls_in(self, state: Any) -> dict[Hashable, Call]:
        """The ways to call it in a state of JAX's settings, which the next call tries first."""
        found = self._calls.setdefault(state, {})
        self._latest = state, found
        return found

    def _call_with_tree(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Call with pytrees, keywords, static arguments, or leaves of types not seen yet."""
        dynamic, named = arguments, keywords
        fixed: tuple[Any, ...] = ()
        if self._has_statics:
            dynamic, named, fixed = self._statics.split(arguments, keywords)
        leaves, tree = self._flatten((dynamic, named))
        kinds = self._leaf_keys
        try:
            parts = [kinds[type(x)](x) for x in leaves]
        except KeyError:
            if any(isinstance(x, self._tracer) for x in leaves):
                return self._staged(*arguments, **keywords)
            parts = [kinds.get(type(x), other_key)(x) for x in leaves]
        state = self._state()
        known, calls = self._latest
        if state != known:
            calls = self._calls_in(state)
        key = (tree, fixed, *parts)
        try:
            call = calls.get(key)
        except TypeError:  # A static argument without a hash: JAX says so in its own words.
            self._staged.lower(*arguments, **keywords)
            raise
        if call is None:
            try:
                call = self._program(arguments, keywords, (state, *key), leaves).caller(leaves)
            except _EnclosingTrace:
                return self._staged(*arguments, **keywords)
            self._remember(state, key, call)
            if not keywords and len(parts) == len(arguments) and not self._has_statics:
                self._remember(state, tuple(parts), call)
        return call(leaves)

    def _remember(self, state: Any, key: Hashable, call: Call) -> None:
        if sum(map(len, self._calls.values())) >= _MOST_CALLS:
            self._forget_calls()
        self._calls_in(state)[key] = call

    def _forget_calls(self) -> None:
        self._latest = None, {}
        self._calls.clear()

    def _program(
        self,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
        key: tuple[Any, ...],
        leaves: Sequence[Any],
    ) -> JitProgram | JaxFallback:
        """Return the program for these types; NumPy and JAX arrays of one type share it."""
        try:
            types = [abstract_key(self._spec_of(x)) for x in leaves]
        except TypeError:  # No type of JAX's: its own tracing says so.
            self._staged.lower(*arguments, **keywords)
            raise
        places = spread(leaves)
        whole = (*key[:3], *types, *places)
        compiled = partial(self._compile, arguments, keywords, places)
        return self._programs.get_or_compile(whole, compiled)

    def _compile(
        self, arguments: tuple[Any, ...], keywords: dict[str, Any], places: tuple[Any, ...]
    ) -> JitProgram | JaxFallback:
        if self._spec_of is not _itself:
            arguments, keywords = self._map(self._spec_of, (arguments, keywords))
        traced = self._staged.trace(*arguments, **keywords)
        if closes_over_tracers(traced):
            raise _EnclosingTrace
        try:
            refuse_several_devices(places)
            program = program_of(traced, self._devices)
            return JitProgram(program, self._executable(program.module), self._output)
        except UnsupportedOpError as error:
            if not self._fallback:
                raise
            self._say_once(error)
            return JaxFallback(traced.lower(), self._output)

    def _executable(self, module: Module, options: Options | None = None) -> ModuleExecutable:
        compiler = self._compiler or native_compiler()
        return compiler(with_masks_selected(module), options or self._options)

    def _say_once(self, error: UnsupportedOpError) -> None:
        if self._has_fallen_back:
            return
        self._has_fallen_back = True
        name = getattr(self, "__name__", "the function")
        message = f"{name} is run by jax.jit, since lowtide cannot compile it: {error}"
        warnings.warn(message, RuntimeWarning, stacklevel=_FROM_COMPILE)

    def __repr__(self) -> str:
        name = getattr(self, "__qualname__", "a function")
        count = len(self._programs)
        return f"<lowtide.jit of {name}: {count} program{'s' * (count != 1)} compiled>"

    def _repr_html_(self) -> str:
        return f"<code>{escape(repr(self))}</code>"

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    # -- stages --------------------------------------------------------------------------------

    def lower(self, *arguments: Any, **keywords: Any) -> Lowered:
        """Return the program for arguments, or for `jax.ShapeDtypeStruct`s in their place.

        Raises UnsupportedOpError at what cannot be compiled.
        """
        traced = self._staged.trace(*arguments, **keywords)
        program = program_of(traced, self._devices)
        return Lowered(program, self._executable, self._options, self._output)

    def trace(self, *arguments: Any, **keywords: Any) -> Any:
        """Return JAX's trace, a `jax.stages.Traced`."""
        return self._staged.trace(*arguments, **keywords)

    def explain(self, *arguments: Any, **keywords: Any) -> Any:
        """Return the memory report of the program for arguments or specs."""
        return self.lower(*arguments, **keywords).explain()

    def eval_shape(self, *arguments: Any, **keywords: Any) -> Any:
        """Return shapes and types of the results, as `jax.eval_shape` does."""
        return self._staged.eval_shape(*arguments, **keywords)

    def clear_cache(self) -> None:
        """Forget what is compiled, by lowtide and by JAX."""
        self._forget_calls()
        self._programs.clear()
        self._staged.clear_cache()

    @property
    def statistics(self) -> CacheStatistics:
        """What was compiled; only the first call with arguments of some types counts."""
        return self._programs.statistics


_MOST_CALLS: Final = 4096
"""How many ways to call it a function remembers, before it looks each up among its programs."""

_FROM_COMPILE: Final = 8
"""Frames from the warning up to the line that calls the function."""
