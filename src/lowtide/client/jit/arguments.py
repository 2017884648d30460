"""Leaves of arguments: the types that a call is compiled for, and the arrays that go in."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cache, partial
from operator import attrgetter
from typing import Any, Final, TypeAlias

import numpy as np

from lowtide.client.jit.jax_arrays import is_empty_type, is_key_type, opened_key
from lowtide.ir.literal import DTYPES

KeyOf: TypeAlias = Callable[[Any], Hashable]
Convert: TypeAlias = Callable[[Any], Any]

_PYTHON_NUMBERS: Final = (bool, int, float, complex)
_NUMPY_SCALARS: Final = tuple({x.type: None for x in DTYPES.values()})


_type_key: KeyOf = type
_array_key: KeyOf = attrgetter("dtype", "shape")


def _jax_array_key(array: type) -> KeyOf:
    """The function to the key of JAX's arrays, of which `array` is the class.

    JAX has one object for each abstract value. Where an array says what it was made with, that is
    read without the property around it.
    """
    import jax

    one_device = jax.sharding.SingleDeviceSharding
    place_of: KeyOf = attrgetter("_sharding" if hasattr(array, "_sharding") else "sharding")

    def key(x: Any) -> Hashable:
        place = place_of(x)
        return x.aval if type(place) is one_device else (x.aval, place)

    return key


@cache
def leaf_keys() -> dict[type, KeyOf]:
    """Return, for each usual type of leaf, the function to the part of a key that stands for it.

    Equal parts mean equal abstract values in JAX: dtype, shape and whether the type is weak; and
    equal places, unless that is a single device.
    """
    import jax

    with jax.ensure_compile_time_eval():  # No tracers, whatever JAX traces now.
        array, key = type(jax.numpy.zeros(())), type(jax.random.key(0))
    keys: dict[type, KeyOf] = {np.ndarray: _array_key, array: _jax_array_key(array)}
    keys[key] = _array_key
    for number in _PYTHON_NUMBERS:
        keys[number] = _type_key
    for scalar in _NUMPY_SCALARS:
        keys[scalar] = _type_key
    return keys


def other_key(x: Any) -> Hashable:
    """Return the part of a key that stands for a leaf of a type not in `leaf_keys`."""
    if hasattr(x, "dtype") and hasattr(x, "shape"):
        return type(x), x.dtype, x.shape, bool(getattr(x, "weak_type", False))
    return _type_key(x)


def abstract_key(x: Any) -> tuple[Any, tuple[int, ...], bool]:
    """Return what JAX makes a leaf under its present settings: dtype, sizes, whether weak.

    Raises TypeError for what is no array or number.
    """
    import jax

    aval: Any = jax.typeof(x)
    if not isinstance(aval, jax.core.ShapedArray):
        return aval, (), False
    return aval.dtype, aval.shape, aval.weak_type


def spread(leaves: Sequence[Any]) -> tuple[Any, ...]:
    """Return the shardings of leaves that lie on several devices, in order."""
    found = [getattr(x, "sharding", None) for x in leaves]
    return tuple([x for x in found if x is not None and len(x.device_set) > 1])


def converter(leaf: Any, dtype: Any) -> Convert | None:
    """Return what makes an array of leaves like this one, None where they are right as they are.

    `dtype` is the one that JAX says the parameter has.
    """
    if is_key_type(dtype):
        return _key_opener(opened_key())
    if is_empty_type(dtype):
        return _no_tangent
    if getattr(leaf, "dtype", None) != dtype:
        return partial(np.asarray, dtype=np.dtype(dtype))
    return None if type(leaf) is np.ndarray else np.asarray


def _key_opener(opened: Convert) -> Convert:
    as_array = np.asarray
    return lambda x: as_array(opened(x))


def _no_tangent(x: Any) -> Any:
    """Return the array that stands for one of type float0 in HLO."""
    return np.zeros(x.shape, np.bool_)
