"""Whether two arrays agree as results of one function in two libraries, element by element."""

from __future__ import annotations

from typing import Any, Final

import jax.numpy as jnp
import numpy as np

UNITS: Final = 64
"""Units in the last place that an element may be away."""

UNITS_OF_EIGHT_BITS: Final = 2
"""The same of numbers of eight bits or less."""

UNITS_OF_ALL: Final = 16
"""Units of the greatest element, if that is below 1, or of 1, that every element may be away."""

UNITS_OF_SUMS: Final = 1
"""Units of the greatest element that a result may be away from what 64 bits say."""


def difference(ours: np.ndarray, theirs: np.ndarray) -> str:
    """Return in words how arrays differ, "" where they do not."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return f"{ours.dtype}{ours.shape} for {theirs.dtype}{theirs.shape}"
    if jnp.issubdtype(ours.dtype, jnp.inexact):
        same = _close(ours, theirs)
    else:
        same = np.asarray(ours == theirs)
    if same.all():
        return ""
    at = tuple(int(i) for i in np.argwhere(~np.atleast_1d(same))[0]) if ours.ndim else ()
    return f"{int((~same).sum())} of {ours.size} differ, {list(at)}: {ours[at]} for {theirs[at]}"


def is_near_exact(ours: np.ndarray, theirs: np.ndarray, exact: np.ndarray | None) -> bool:
    """Return whether our result is about as near to that of 64 bits as the other one is."""
    if exact is None or ours.shape != theirs.shape or ours.shape != exact.shape:
        return False
    if not (jnp.issubdtype(exact.dtype, jnp.inexact) and jnp.issubdtype(ours.dtype, jnp.inexact)):
        return False
    with np.errstate(all="ignore"):
        right = _wide(exact.astype(ours.dtype))
        size = np.where(np.isfinite(right), np.abs(right), 0)
        unit = float(jnp.finfo(ours.dtype).eps)
        allowed = 4 * _distance(_wide(theirs), right) + 16 * unit * size
        allowed += UNITS_OF_SUMS * unit * size.max(initial=0.0)
        return bool((_distance(_wide(ours), right) <= allowed).all())


def _distance(found: np.ndarray, right: np.ndarray) -> np.ndarray:
    same = (found == right) | (np.isnan(found) & np.isnan(right))
    return np.where(same, 0, np.nan_to_num(np.abs(found - right), nan=np.inf))


def _close(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Return which elements are close: NaN to NaN, an infinity to itself, by parts if complex."""
    about = jnp.finfo(ours.dtype)
    unit, least = float(about.eps), float(about.tiny)
    units = UNITS if about.bits > 8 else UNITS_OF_EIGHT_BITS
    a, b = _wide(ours), _wide(theirs)
    size = np.abs(b)
    with np.errstate(all="ignore"):
        greatest = min(1.0, size[np.isfinite(size)].max(initial=0.0))
        near = np.ones(a.shape, bool)
        for x, y in [(a.real, b.real), (a.imag, b.imag)]:
            here = np.where(np.isfinite(size), size, np.abs(y))
            allowed = units * unit * here + min(units, UNITS_OF_ALL) * unit * greatest + least
            near &= (np.isnan(x) & np.isnan(y)) | (x == y) | (np.abs(x - y) <= allowed)
    return near


def _wide(array: np.ndarray) -> Any:
    is_complex = jnp.issubdtype(array.dtype, jnp.complexfloating)
    return array.astype(np.complex128 if is_complex else np.float64)
