"""Functions of `jit` on a graphics processor: arrays of the device go in and come out uncopied."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, final

import numpy as np

from lowtide.backends.interface import Tell
from lowtide.client.gpu import DeviceExecutable, compile_for_device
from lowtide.client.jit.arguments import Convert, converter
from lowtide.client.jit.jax_arrays import Make, array_maker, is_empty_type, is_key_type
from lowtide.client.library import ModuleCompiler
from lowtide.ir import Module
from lowtide.ir.errors import LowtideError
from lowtide.options import Options
from lowtide.runtime.gpu.device_array import DeviceArray
from lowtide.runtime.gpu.driver import CUDA


@final
class DeviceFunction:
    """A module on a device, in the form of other executables; with `keep` results stay there."""

    is_on_device = True

    def __init__(self, executable: Any, *, keep: bool) -> None:
        self._executable = executable
        stays = keep and isinstance(executable, DeviceExecutable)
        self._run = partial(executable, keep=True) if stays else executable

    def __call__(self, *arrays: Any, consume: bool = False) -> Any:
        """Return the results; arguments are copied to their places, and never overwritten."""
        return self._run(*arrays)

    @property
    def memory(self) -> Any:
        """The report of schema "lowtide.memory/1"."""
        return self._executable.memory

    def as_text(self) -> str:
        """Return the scheduled HLO."""
        text: str = self._executable.as_text()
        return text

    def serialize(self) -> bytes:
        """Raise LowtideError: programs of a device are stored by `lowtide compile`."""
        raise LowtideError("programs of a GPU are stored by lowtide compile --target cuda:sm_90")

    def close(self) -> None:
        """Give the memory on the device back; the function is not called afterwards."""
        self._executable.close()

    def __repr__(self) -> str:
        return repr(self._executable)


def device_compiler(output: str, tell: Tell | None) -> ModuleCompiler:
    """Return what makes functions on the device that options name; "numpy" results leave it."""

    def compiled(module: Module, options: Options) -> DeviceFunction:
        return DeviceFunction(compile_for_device(module, options, tell), keep=output != "numpy")

    return compiled


def device_converter(leaf: Any, dtype: Any) -> Convert | None:
    """Return what makes an argument of leaves like this one: what is on a device stays there."""
    plain = is_key_type(dtype) or is_empty_type(dtype) or getattr(leaf, "dtype", None) != dtype
    if plain or type(leaf) is np.ndarray:
        return converter(leaf, dtype)
    return None if isinstance(leaf, DeviceArray) else _on_host_or_device


def _on_host_or_device(x: Any) -> Any:
    place = getattr(x, "__dlpack_device__", None)
    return x if place is not None and place()[0] == CUDA else np.asarray(x)


def spec_of(leaf: Any) -> Any:
    """Return what JAX traces in place of a leaf, which it knows unless it is ours."""
    if not isinstance(leaf, DeviceArray):
        return leaf
    import jax

    spec: Callable[..., Any] = jax.ShapeDtypeStruct
    return spec(leaf.shape, leaf.dtype)


def device_array_maker(sizes: tuple[int, ...], dtype: Any, *, weak: bool) -> Make:
    """Return what makes JAX arrays of results of a type.

    They lie in the same memory where JAX has that device and DLPack the type, else they are copies.
    """
    to_jax = array_maker(sizes, dtype, weak=weak)

    def make(x: Any) -> Any:
        if weak or not isinstance(x, DeviceArray) or not x.nbytes or not _is_shared(x):
            return to_jax(np.asarray(x))
        import jax

        return jax.dlpack.from_dlpack(x)

    return make


def _is_shared(x: DeviceArray) -> bool:
    """Whether JAX can have an array where it lies."""
    import jax

    if x.dtype.isbuiltin != 1 and x.dtype.name != "bfloat16":
        return False
    return x.driver.dlpack_device[0] != CUDA or jax.default_backend() == "gpu"
