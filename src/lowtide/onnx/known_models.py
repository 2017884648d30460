"""Models by their bytes: what was read before is there without the package onnx.

What is kept is what the model shows, the weights that were prepared, and where in its files the
others lie.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from lowtide.backends.kept import kept
from lowtide.client.executable.code_version import code_version
from lowtide.frontend.onnx.interface import LabelColumns, ModelInterface, ValueType
from lowtide.ir.element_type import BY_KEYWORD
from lowtide.ir.literal import DTYPES, ELEMENT_TYPES, Array
from lowtide.onnx.kept_arrays import can_be_kept, read, written
from lowtide.onnx.model_bytes import ArrayPlace, ModelBytes
from lowtide.options import Options, is_cache_off

if TYPE_CHECKING:
    from lowtide.frontend.onnx.tensors import RawPlace

KIND: Final = "models"

_MOST_BYTES: Final = 1 << 28
"""As many bytes may have the weights that are kept, those that lie in no file of the model."""


def may_be_known(options: Options) -> bool:
    """Whether nothing but a model and options decides about programs, and some may be kept."""
    is_plain = options.check == "never" and options.memory is None and options.deadline is None
    return options.cache and not is_cache_off() and is_plain and not options.autotune


def known_interface(source: ModelBytes, options: Options) -> tuple[ModelInterface, str] | None:
    """Return what a model shows that was read before, and the digest of all its files.

    None where there is none.
    """
    own = source.digest()
    data = kept(KIND, options).mapped(_key(own)) if own else None
    if data is None:
        return None
    header, weights = read(data)
    digest = source.digest(header["other_files"])
    if digest != header["digest"]:
        return None
    try:
        lying = source.arrays([_array_place(*x) for x in header["places"].values()])
    except (OSError, ValueError):
        return None
    weights.update(zip(header["places"], lying, strict=True))
    inputs, outputs, overridable = [tuple(map(_value_type, header[name])) for name in _TYPES]
    labels = LabelColumns(**header["labels"])
    ordered = {name: weights[name] for name in header["order"]}
    shown = ModelInterface(
        header["name"], inputs, outputs, overridable, header["metadata"], labels, ordered
    )
    return shown, digest


def keep_interface(
    shown: ModelInterface,
    places: Mapping[str, RawPlace],
    source: ModelBytes,
    other_files: Sequence[str],
    options: Options,
) -> str:
    """Keep what a model shows; return the digest of all its files, "" where it cannot be kept.

    `places` say of weights where they begin that lie in a file as they are.
    """
    own, digest = source.digest(), source.digest(other_files)
    rest = {name: x for name, x in shown.weights.items() if name not in places}
    is_large = sum({id(x): x.nbytes for x in rest.values()}.values()) > _MOST_BYTES
    if not own or not digest or is_large or not can_be_kept(shown.weights):
        return ""
    header = {
        "digest": digest,
        "other_files": list(other_files),
        "name": shown.name,
        **{name: [_fields(x) for x in getattr(shown, name)] for name in _TYPES},
        "metadata": dict(shown.metadata),
        "labels": asdict(shown.labels),
        "order": list(shown.weights),
        "places": {name: _place(x, shown.weights[name]) for name, x in places.items()},
    }
    kept(KIND, options).put(_key(own), written(header, rest))
    return digest


_TYPES: Final = ("inputs", "outputs", "overridable")


def _place(place: RawPlace, value: Array) -> list[Any]:
    return [place.file, place.begin, ELEMENT_TYPES[value.dtype].value, list(value.shape)]


def _array_place(file: str, begin: int, keyword: str, sizes: Sequence[int]) -> ArrayPlace:
    return ArrayPlace(file, begin, DTYPES[BY_KEYWORD[keyword]], tuple(sizes))


def _fields(value: ValueType) -> dict[str, Any]:
    kind = value.element_type
    return {**asdict(value), "element_type": None if kind is None else kind.value}


def _value_type(fields: Mapping[str, Any]) -> ValueType:
    kind, sizes = fields["element_type"], fields["sizes"]
    return ValueType(
        fields["name"],
        fields["kind"],
        None if kind is None else BY_KEYWORD[kind],
        None if sizes is None else tuple(sizes),
        fields["text"],
    )


def _key(digest: str) -> str:
    return hashlib.sha256(f"{digest}\n{code_version()}\n".encode()).hexdigest()[:40]
