"""Options of graphs: sizes, shapes, files of inputs, a signature, how NNVM's algorithm plans."""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Final

import typer

from lowtide.cli.arguments import option

_SIZES: Final[ContextVar[dict[str, int]]] = ContextVar("sizes of named dimensions")


def named_sizes() -> dict[str, int]:
    """Return the sizes that the command line gives, by the names of dimensions."""
    return _SIZES.get({})


def _keep_sizes(given: list[str] | None) -> list[str] | None:
    found: dict[str, int] = {}
    for text in given or ():
        name, equals, size = text.rpartition("=")
        if not equals or not name or not size.isdecimal() or len(size) > 18:
            raise typer.BadParameter(f"expected NAME=SIZE, such as batch=8, found {text!r}")
        found[name] = int(size)
    _SIZES.set(found)
    return given


SizesOption = Annotated[
    list[str] | None,
    option(
        "NAME=SIZE", "Size of a dimension that an ONNX model names.", "--dim", callback=_keep_sizes
    ),
]


_SHAPES: Final[ContextVar[dict[str, tuple[int, ...]]]] = ContextVar("shapes of arguments")


_SIGNATURE: Final[ContextVar[str | None]] = ContextVar("signature", default=None)


def given_signature() -> str | None:
    """Return the signature that the command line names."""
    return _SIGNATURE.get()


def given_shapes() -> dict[str, tuple[int, ...]]:
    """Return the shapes that the command line gives, by the names of arguments."""
    return _SHAPES.get({})


def _keep_shapes(given: list[str] | None) -> list[str] | None:
    found: dict[str, tuple[int, ...]] = {}
    for text in given or ():
        name, equals, sizes = text.rpartition("=")
        inner = sizes.strip("[]")
        parts = [x.strip() for x in inner.split(",")] if inner else []
        if not equals or not name or not all(x.isdecimal() and len(x) <= 18 for x in parts):
            raise typer.BadParameter(
                f"expected INPUT=SIZE,..., such as x=1,3,48,192, found {text!r}"
            )
        found[name] = tuple([int(x) for x in parts])
    _SHAPES.set(found)
    return given


_INPUTS: Final[ContextVar[dict[str, Path]]] = ContextVar("files of arguments")


def given_inputs() -> dict[str, Path]:
    """Return the files of arguments that the command line gives, by the names of inputs."""
    return _INPUTS.get({})


def _keep_inputs(given: list[str] | None) -> list[str] | None:
    found: dict[str, Path] = {}
    for text in given or ():
        name, _, file = text.partition("=")
        if not name or not file:
            raise typer.BadParameter(f"expected NAME=FILE.npy, such as x=x.npy, found {text!r}")
        if name in found:
            raise typer.BadParameter(f"{name!r} is given twice")
        found[name] = Path(file)
    _INPUTS.set(found)
    return given


def _keep_signature(given: str | None) -> str | None:
    _SIGNATURE.set(given)
    return given


SignatureOption = Annotated[
    str | None,
    option(
        "NAME",
        "Of a SavedModel; serving_default if not given.",
        "--signature",
        callback=_keep_signature,
    ),
]
ShapesOption = Annotated[
    list[str] | None,
    option(
        "INPUT=SIZE,...",
        "Shape of an input: of ONNX, StableHLO, ...",
        "--shape",
        callback=_keep_shapes,
    ),
]
InputsOption = Annotated[
    list[str] | None,
    option("NAME=FILE.npy", "Argument of one input.", "--input", callback=_keep_inputs),
]
VariantOption = Annotated[str | None, option("NAME", "Of NNVM: nnvm, tvm or relay.")]
MatchRangeOption = Annotated[
    int | None, option("N", "Of NNVM: by what factor sizes may differ.", "--match-range", min=0)
]
InPlaceOption = Annotated[
    bool, typer.Option("--no-in-place", help="Of NNVM: outputs take the place of no input.")
]
