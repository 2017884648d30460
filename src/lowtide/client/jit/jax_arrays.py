"""JAX's arrays and keys of random numbers, made of NumPy arrays and opened as such.

The public functions of JAX for that dispatch as operations do, which takes longer than a small
program runs. Where this version of JAX has the function below them at its usual place, that is
called, else the public one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np

Make: TypeAlias = Callable[[Any], Any]
"""Takes a NumPy array, which nobody else may write to, to a value of JAX's."""


def is_key_type(dtype: Any) -> bool:
    """Whether a dtype is one of JAX's keys of random numbers, which are arrays of u32 in HLO."""
    import jax

    return bool(jax.numpy.issubdtype(dtype, jax.dtypes.prng_key))


def is_empty_type(dtype: Any) -> bool:
    """Whether a dtype is float0: that of tangents of integers, of which there is one value."""
    import jax

    return bool(dtype == jax.dtypes.float0)


def array_maker(sizes: tuple[int, ...], dtype: Any, *, weak: bool) -> Make:
    """Return what makes JAX arrays of a type.

    They lie in the memory of the NumPy array if JAX finds that well aligned.
    """
    import jax

    put = _put()
    if put is None:
        return _to_weak if weak else _to_jax
    with jax.ensure_compile_time_eval():  # An array, also while JAX traces something else.
        sharding = jax.device_put(np.zeros(())).sharding
    devices = list(sharding.device_set)
    aval: Any = jax.core.ShapedArray(sizes, dtype, weak_type=weak)
    return lambda x: put(aval, sharding, [x], devices, False)


@cache
def _put() -> Any:
    """Return JAX's function from (type, sharding, arrays, devices, committed) to an array."""
    try:
        library: Any = import_module("jax._src.lib")
    except ImportError:
        return None
    return getattr(getattr(library, "xla_client", None), "batched_device_put", None)


def _to_jax(x: Any) -> Any:
    import jax

    return jax.device_put(x, may_alias=True)


def _to_weak(x: Any) -> Any:
    """Return a JAX array of a weak type, where this version of JAX lets one make those."""
    convert = _convert()
    array = _to_jax(x)
    return array if convert is None else convert(array, weak_type=True)


@cache
def _convert() -> Any:
    try:
        from jax._src.lax.lax import _convert_element_type
    except ImportError:
        return None
    return _convert_element_type


# -- random keys ---------------------------------------------------------------------------------


def key_maker(sizes: tuple[int, ...], dtype: Any) -> Make:
    """Return what makes keys of a type and of given sizes."""
    import jax

    spec: Any = jax.ShapeDtypeStruct
    inner: Any = jax.eval_shape(jax.random.key_data, spec(sizes, dtype))
    to_jax = array_maker(inner.shape, inner.dtype, weak=False)
    kind: Any = key_class()
    if kind is None:
        return lambda x: jax.random.wrap_key_data(to_jax(x), impl=dtype._impl)
    return lambda x: kind(dtype._impl, to_jax(x))


@cache
def opened_key() -> Make:
    """Return the function from keys to their numbers."""
    import jax

    return jax.random.key_data if key_class() is None else attrgetter("_base_array")


@cache
def key_class() -> Any:
    """Return the class of keys, made of a kind of keys and numbers; None where it is another."""
    import jax

    with jax.ensure_compile_time_eval():
        key: Any = jax.random.key(0)
    kind = type(key)
    try:
        same = kind(key.dtype._impl, key._base_array)
    except (AttributeError, TypeError):
        return None
    return kind if same.dtype == key.dtype else None
