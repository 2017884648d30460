"""One compiled function: leaves in, a tree of results out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias, final

import numpy as np

from lowtide.client.jit.arguments import Convert, abstract_key, converter
from lowtide.client.jit.jax_arrays import array_maker, is_empty_type, is_key_type, key_maker
from lowtide.client.jit.lowering import LoweredProgram
from lowtide.client.library import ModuleExecutable
from lowtide.ir import LowtideError, Shape
from lowtide.runtime.cpu.arguments import SharedMemoryError
from lowtide.suggestions import nearest

Call: TypeAlias = Callable[[Sequence[Any]], Any]
"""Takes the leaves of the dynamic arguments to the tree of results."""

OUTPUTS: Final = ("numpy", "jax", "device")
"""Kinds of results: on the host, of JAX, or on a GPU as `DeviceArray`s."""


_WRITABLE: Final = ("C_CONTIGUOUS", "ALIGNED", "WRITEABLE")
"""What an array has to be to become a result."""


def output_kind(name: str, *, on_device: bool) -> str:
    """Return the name of a kind of results; raises ValueError for one that there is not."""
    if name not in OUTPUTS:
        known = " or ".join(map(repr, OUTPUTS))
        raise ValueError(f"output is {known}, not {name!r}{nearest(name, OUTPUTS)}")
    if name == "device" and not on_device:
        raise ValueError('output="device" takes the target of a GPU, such as target="cuda"')
    return name


@final
class JitProgram:
    """An executable between the pytrees of a function's arguments and results."""

    __slots__ = (
        "_executable",
        "_finish",
        "_is_plain",
        "_on_device",
        "_overwritten",
        "_program",
        "_returned",
        "_tokens",
        "_unflatten",
    )

    def __init__(self, program: LoweredProgram, executable: ModuleExecutable, output: str) -> None:
        import jax

        self._program = program
        self._executable = executable
        self._on_device = bool(getattr(executable, "is_on_device", False))
        self._finish = _finishers(program, output, on_device=self._on_device)
        module = program.module
        aliased = [x.parameter for x in module.input_output_aliases]
        donors = [x.parameter for x in module.buffer_donors]
        self._overwritten = tuple(dict.fromkeys([*aliased, *donors]))
        root = module.entry.root.shape
        self._tokens = sum([x.is_token for x in root.tuple_shapes]) if root.is_tuple else 0
        tree = program.out_tree
        self._is_plain = tree == jax.tree_util.tree_structure(0)
        self._unflatten = tree.unflatten
        self._returned = self._as_returned(root, tree)

    def _as_returned(self, root: Shape, tree: Any) -> str:
        """How the tree of results is what the program returns: as "whole", "first", or not: ""."""
        import jax

        parts = root.tuple_shapes
        count = len(self._program.results)
        if self._finish is not None or any(x.is_tuple or x.is_token for x in parts):
            return ""
        if self._is_plain and count == 1:
            return ("first" if len(parts) == 1 else "") if root.is_tuple else "whole"
        tuple_of = jax.tree_util.tree_structure((0,) * count)
        return "whole" if root.is_tuple and len(parts) == count and tree == tuple_of else ""

    def caller(self, leaves: Sequence[Any]) -> Call:
        """Return what takes leaves of the same Python types as these to the tree of results."""
        infos = self._program.arguments
        pairs = zip(leaves, infos, strict=True)
        convert_of = converter
        if self._on_device:
            from lowtide.client.jit.on_device import device_converter as convert_of
        converters = tuple([convert_of(x, info.dtype) for x, info in pairs])
        if self._program.donated and self._on_device:
            return partial(self._call_and_delete, converters)
        if self._program.donated:
            return partial(self._call_and_donate, converters)
        if all(convert is None for convert in converters):
            return self._plain_call()
        if all(convert is None or convert is np.asarray for convert in converters):
            return self._opened_call()
        return partial(self._call_converted, converters)

    def _callee(self) -> Callable[..., Any]:
        """What runs, without a layer around it where the executable is one of native code."""
        found: Callable[..., Any] = getattr(self._executable, "callee", self._executable)
        return found

    def _plain_call(self) -> Call:
        """Return what gives the leaves to the program as they are."""
        run, results = self._callee(), self._results
        if self._returned == "whole":
            return lambda leaves: run(*leaves)
        if self._returned == "first":
            return lambda leaves: run(*leaves)[0]
        return lambda leaves: results(run(*leaves))

    def _opened_call(self) -> Call:
        """Return what gives the arrays of NumPy in the leaves' memory to the program."""
        run, results, opened = self._callee(), self._results, np.asarray
        if self._returned == "whole":
            return lambda leaves: run(*map(opened, leaves))
        if self._returned == "first":
            return lambda leaves: run(*map(opened, leaves))[0]
        return lambda leaves: results(run(*map(opened, leaves)))

    def _call_converted(self, converters: Sequence[Convert | None], leaves: Sequence[Any]) -> Any:
        return self._results(self._executable(*_converted(converters, leaves)))

    def _call_and_donate(self, converters: Sequence[Convert | None], leaves: Sequence[Any]) -> Any:
        """Return the tree of the results; donated arguments are used up.

        What JAX holds is deleted where a result takes its place, as `jax.jit` does, but never
        overwritten, since it may be memory that JAX itself only borrowed: like other arrays that
        must not be written, and those that share memory with another argument, it is copied.
        """
        arrays = _converted(converters, leaves)
        for number in self._overwritten:
            arrays[number] = np.require(arrays[number], None, _WRITABLE)
        try:
            results = self._executable(*arrays, consume=True)
        except SharedMemoryError:
            for number in self._overwritten:
                arrays[number] = arrays[number].copy()
            results = self._executable(*arrays, consume=True)
        self._delete(leaves)
        return self._results(results)

    def _call_and_delete(self, converters: Sequence[Convert | None], leaves: Sequence[Any]) -> Any:
        """Return the tree of the results of a device, which copies what is donated as all else."""
        results = self._executable(*_converted(converters, leaves))
        self._delete(leaves)
        return self._results(results)

    def _delete(self, leaves: Sequence[Any]) -> None:
        """Delete what JAX holds and gave away."""
        for number in self._overwritten:
            if hasattr(leaves[number], "delete"):
                leaves[number].delete()

    def _results(self, value: Any) -> Any:
        if self._is_plain:
            result = value[self._tokens] if type(value) is tuple else value
            finish = self._finish
            return result if finish is None else finish[0](result)
        results = value if type(value) is tuple else (value,)
        if self._tokens:  # They come first.
            results = results[self._tokens :]
        if len(results) != len(self._program.results):
            raise LowtideError(
                f"the function returns {len(self._program.results)} arrays, its program "
                f"{len(results)}"
            )
        if self._finish is not None:
            results = tuple([f(x) for f, x in zip(self._finish, results, strict=True)])
        return self._unflatten(results)

    def check(self, leaves: Sequence[Any]) -> None:
        """Raise TypeError at the first leaf whose type is not that of the program, naming it."""
        program = self._program
        for leaf, info, name in zip(leaves, program.arguments, program.names, strict=True):
            dtype, sizes, _ = abstract_key(leaf)
            if dtype != info.dtype or sizes != tuple(info.shape):
                raise TypeError(
                    f"argument {name}: compiled for {_text(info.dtype, info.shape)}, called with "
                    f"{_text(dtype, sizes)}"
                )


def _converted(converters: Sequence[Convert | None], leaves: Sequence[Any]) -> list[Any]:
    pairs = zip(converters, leaves, strict=True)
    return [x if convert is None else convert(x) for convert, x in pairs]


@final
class JaxFallback:
    """A function that `jax.jit` runs, since lowtide cannot compile it."""

    __slots__ = ("_compiled", "_in_tree", "_output")

    def __init__(self, lowered: Any, output: str) -> None:
        self._in_tree = lowered.in_tree
        self._compiled = lowered.compile()
        self._output = output

    def caller(self, leaves: Sequence[Any]) -> Call:
        """Return what takes leaves to the tree of results."""
        return self._call

    def _call(self, leaves: Sequence[Any]) -> Any:
        import jax

        arguments, keywords = jax.tree_util.tree_unflatten(self._in_tree, leaves)
        results = self._compiled(*arguments, **keywords)
        return results if self._output == "jax" else jax.tree_util.tree_map(_to_numpy, results)


def _to_numpy(x: Any) -> Any:
    return x if is_key_type(x.dtype) else np.asarray(x)


def _text(dtype: Any, sizes: Sequence[int]) -> str:
    name = getattr(dtype, "name", None) or str(dtype)
    return f"{name}[{','.join(map(str, sizes))}]"


def _finishers(
    program: LoweredProgram, output: str, *, on_device: bool
) -> tuple[Callable[[Any], Any], ...] | None:
    """Return what makes each result what the caller gets; None where all are right as they are."""
    special = [is_key_type(x.dtype) or is_empty_type(x.dtype) for x in program.results]
    if output != "jax" and not any(special):
        return None
    return tuple([_finisher(x, output, on_device) for x in program.results])


def _finisher(result: Any, output: str, on_device: bool) -> Callable[[Any], Any]:
    if is_key_type(result.dtype):
        make = key_maker(result.shape, result.dtype)
        return lambda x: make(np.asarray(x))
    if is_empty_type(result.dtype):
        return lambda x: np.zeros(x.shape, result.dtype)
    if output != "jax":
        return lambda x: x
    maker = array_maker
    if on_device:
        from lowtide.client.jit.on_device import device_array_maker as maker
    return maker(result.shape, result.dtype, weak=bool(result.weak_type))
