"""The options --dim and --shape: sizes that an ONNX model leaves free."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Annotated, Final

import typer

_SIZES: Final[ContextVar[dict[str, int]]] = ContextVar("sizes of named dimensions")
_SHAPES: Final[ContextVar[dict[str, tuple[int, ...]]]] = ContextVar("shapes of inputs")


def named_sizes() -> dict[str, int]:
    """Return the sizes that the command line gives, by the names of dimensions."""
    return _SIZES.get({})


def input_shapes() -> dict[str, tuple[int, ...]]:
    """Return the shapes that the command line gives, by the names of inputs."""
    return _SHAPES.get({})


def _remember(given: list[str] | None) -> list[str] | None:
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
    typer.Option(
        "--dim",
        metavar="NAME=SIZE",
        callback=_remember,
        show_default=False,
        help="Size of a dimension that an ONNX model names.",
    ),
]


def _remember_shapes(given: list[str] | None) -> list[str] | None:
    found: dict[str, tuple[int, ...]] = {}
    for text in given or ():
        name, equals, sizes = text.rpartition("=")
        parts = [x.strip() for x in sizes.strip("[]").split(",")] if sizes.strip("[]") else []
        if not equals or not name or not all(x.isdecimal() and len(x) <= 18 for x in parts):
            raise typer.BadParameter(
                f"expected INPUT=SIZE,..., such as x=1,3,48,192, found {text!r}"
            )
        found[name] = tuple([int(x) for x in parts])
    _SHAPES.set(found)
    return given


ShapesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="INPUT=SIZE,...",
        callback=_remember_shapes,
        show_default=False,
        help="Shape of an input of an ONNX model.",
    ),
]
