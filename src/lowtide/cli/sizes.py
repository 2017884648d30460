"""The option --dim: sizes of dimensions that an ONNX model names."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Annotated, Final

import typer

_SIZES: Final[ContextVar[dict[str, int]]] = ContextVar("sizes of named dimensions")


def named_sizes() -> dict[str, int]:
    """Return the sizes that the command line gives, by the names of dimensions."""
    return _SIZES.get({})


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
