"""Arguments for `lowtide run`: generated from a seed, or read from an .npz file or .npy files."""

from __future__ import annotations

import os
import re
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from lowtide.evaluator.evaluate import Leaf
from lowtide.ir import ElementType, InputError, Module
from lowtide.ir.given_arrays import sizes_fit
from lowtide.ir.literal import DTYPES, Array
from lowtide.suggestions import nearest

_LOW: Final = -1.0
_HIGH: Final = 1.0
_FIRST_BYTES: Final = (b"P", b"\x93", b"")
"""Of an archive, of a single array, and of an empty file: NumPy takes any other for a pickle."""

_ILLEGAL: Final = re.compile(r"[^A-Za-z0-9_.-]")
"""What names of parameters have an underscore for."""

_CHUNK: Final = 1 << 20
_TWO_VALUES: Final = frozenset(
    {ElementType.PRED, ElementType.S1, ElementType.S2, ElementType.U1, ElementType.U2}
)


def default_seed(module: Module) -> int:
    """Return the CRC-32 of the module's name: the seed where none is given."""
    return zlib.crc32(module.name.encode("utf-8", "surrogateescape"))


def generated(leaves: Sequence[Leaf], seed: int) -> list[Array]:
    """Return an array per leaf, drawn one after the other from PCG64(seed), row major.

    Booleans and integers of up to 2 bits are 0 or 1, other integers 0 to 3, so that they serve as
    indices and shift counts. Floating point numbers are uniform from -1 to 1, drawn as float64;
    complex ones have all real parts before all imaginary parts. Dynamic dimensions have their
    bounds. Raises InputError for more bytes than the machine has memory.
    """
    _check_memory(leaves)
    generator = np.random.Generator(np.random.PCG64(seed))
    return [_drawn(leaf, generator) for leaf in leaves]


def _check_memory(leaves: Sequence[Leaf]) -> None:
    needed = sum([leaf.shape.nbytes for leaf in leaves])
    try:
        installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return
    if needed > installed:
        raise InputError(
            f"the arguments take {needed / 1e9:,.1f} GB, this machine has "
            f"{installed / 1e9:,.1f} GB of memory; explain and plan need none of it"
        )


def _drawn(leaf: Leaf, generator: np.random.Generator) -> Array:
    shape = leaf.shape
    if not shape.is_array or any(size < 0 for size in shape.dimensions):
        raise InputError(f"{leaf} is {shape}, for which no argument can be made")
    dtype = DTYPES[shape.element_type]
    if shape.element_type.is_floating:
        return _uniform(generator, shape.dimensions, dtype)
    if shape.element_type.is_complex:
        part = np.dtype(np.float64)
        real = _uniform(generator, shape.dimensions, part)
        return np.asarray(real + 1j * _uniform(generator, shape.dimensions, part)).astype(dtype)
    top = 2 if shape.element_type in _TWO_VALUES else 4
    return np.asarray(generator.integers(0, top, shape.dimensions)).astype(dtype)


def _uniform(generator: np.random.Generator, sizes: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Numbers drawn as float64 in pieces, so that they never all take 8 bytes at once."""
    values = np.empty(sizes, dtype)
    flat = values.reshape(-1)
    for start in range(0, flat.size, _CHUNK):
        piece = flat[start : start + _CHUNK]
        piece[:] = generator.uniform(_LOW, _HIGH, piece.size).astype(dtype)
    return values


def from_npy(path: Path) -> Array:
    """Return the array in an .npy file, which is mapped; raises InputError where there is none."""
    try:
        with path.open("rb") as stream:
            if stream.read(1) != _FIRST_BYTES[1]:
                raise InputError("is not an .npy file", file=str(path))
        return np.load(path, mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]
    except FileNotFoundError:
        raise InputError("no such file", file=str(path)) from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot be read: {reason}", file=str(path)) from None
    except ValueError as error:
        raise InputError(f"is no array of numbers: {error}", file=str(path)) from error


def from_files(
    files: Mapping[str, Path], leaves: Sequence[Leaf], initial: Mapping[int, Array]
) -> list[Array]:
    """Return the arrays of .npy files by the names of inputs, one per leaf.

    `initial` has what parameters hold that need not be given, by their numbers. Raises InputError
    for a name that no input has, an input without an array, and an array of another type or shape.
    """
    known = {leaf.name: leaf for leaf in leaves if not leaf.index}
    found = {}
    for name, path in files.items():
        leaf = known.get(name) or known.get(_ILLEGAL.sub("_", name))
        if leaf is None:
            listed = ", ".join(known) or "none"
            raise InputError(f"no input {name!r}{nearest(name, known)}; inputs are: {listed}")
        found[leaf.name] = _fitting(path, leaf)
    missing = [x for x in leaves if x.name not in found and x.number not in initial]
    if missing:
        listed = ", ".join([f"{x.name}: {x.shape.text(layout=False)}" for x in missing])
        raise InputError(f"--input gives no array for {listed}")
    return [found[x.name] if x.name in found else initial[x.number] for x in leaves]


def _fitting(path: Path, leaf: Leaf) -> Array:
    """The array in a file, of the type of a leaf or of its bits as unsigned ones, and its shape."""
    array, shape = _array(from_npy(path), leaf), leaf.shape
    dtype = DTYPES[shape.element_type]
    is_stored = array.dtype.kind == "u" and array.dtype.itemsize == dtype.itemsize
    if not (array.dtype == dtype or is_stored) or not sizes_fit(array.shape, shape):
        sizes = ",".join(map(str, array.shape))
        raise InputError(
            f"holds {array.dtype.name}[{sizes}]; expected {shape.text(layout=False)} ({dtype}), "
            f"which is {leaf}",
            file=str(path),
        )
    return array


def from_npz(path: Path, leaves: Sequence[Leaf]) -> list[Array]:
    """Return the arrays of an .npz file, one per leaf: `in_0`, `in_1`, ..., or by their names.

    Types that NumPy does not know may be stored as they are saved by NumPy (raw bytes) or as
    unsigned integers of equal width. Raises InputError for a file that has other keys.
    """
    try:
        with path.open("rb") as stream:
            if stream.peek(1)[:1] not in _FIRST_BYTES:
                raise InputError("is not an .npz archive", file=str(path))
            archive = np.load(stream, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise InputError("is a single array; expected an .npz archive", file=str(path))
            keys = [x.name for x in leaves]
            if not set(keys) <= set(archive.files):
                keys = [f"in_{i}" for i in range(len(leaves))]
            _check_keys(path, archive.files, keys, leaves)
            return [_array(archive[x], leaf) for x, leaf in zip(keys, leaves, strict=True)]
    except FileNotFoundError:
        raise InputError("no such file", file=str(path)) from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot be read: {reason}", file=str(path)) from None
    except (ValueError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise InputError(f"is not an .npz archive: {error}", file=str(path)) from error


def _check_keys(path: Path, keys: list[str], wanted: Sequence[str], leaves: Sequence[Leaf]) -> None:
    for key, leaf in zip(wanted, leaves, strict=True):
        if key not in keys:
            shape = leaf.shape.text(layout=False)
            raise InputError(f"has no {key}, which is {leaf}: {shape}", file=str(path))
    extra = [key for key in keys if key not in wanted]
    if extra:
        expected = " to ".join(dict.fromkeys([*wanted[:1], *wanted[-1:]])) or "none"
        raise InputError(
            f"has {extra[0]}, which is no argument; there are {expected}", file=str(path)
        )


def _array(array: Array, leaf: Leaf) -> Array:
    """The array; raw bytes, as NumPy stores types that it does not know, become unsigned."""
    if array.dtype.kind != "V" or array.dtype.names is not None or not leaf.shape.is_array:
        return array
    dtype = DTYPES[leaf.shape.element_type]
    return array.view(dtype) if array.dtype.itemsize == dtype.itemsize else array
