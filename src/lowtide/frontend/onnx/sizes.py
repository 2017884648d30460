"""Sizes of the free dimensions of a model: by their names, or by whole shapes of inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from lowtide.frontend.graphs.graph import GraphError
from lowtide.frontend.onnx.interface import ValueType
from lowtide.suggestions import nearest

Sizes: TypeAlias = "Mapping[str, int]"
Shapes: TypeAlias = "Mapping[str, Sequence[int]]"


def input_sizes(
    inputs: Sequence[ValueType], sizes: Sizes, shapes: Shapes
) -> dict[str, tuple[int, ...]]:
    """Return the sizes of each input, given those of named dimensions and of whole inputs.

    A name that a whole shape has a size for counts for the other inputs too, unless shapes differ
    in it. Raises GraphError for a name that there is not, for a shape that does not fit, and for
    what is not given: all of that at once.
    """
    names = dict.fromkeys([x for y in inputs for x in y.sizes or () if isinstance(x, str)])
    for name in sizes:
        if name not in names:
            listed = ", ".join(names) or "none"
            raise GraphError(
                f"no dimension is called {name!r}{nearest(name, names)}; there are: {listed}"
            )
    by_name = {x.name: x for x in inputs}
    for name, shape in shapes.items():
        if name not in by_name:
            listed = ", ".join(by_name) or "none"
            raise GraphError(
                f"no input is called {name!r}{nearest(name, by_name)}; there are: {listed}"
            )
        _check_fits(by_name[name], shape)
    known = {**_told_by(by_name, shapes), **sizes}
    found: dict[str, tuple[int, ...]] = {}
    missing: list[ValueType] = []
    for value in inputs:
        given = shapes.get(value.name)
        if given is None and value.sizes is not None:
            entries = [known.get(x) if isinstance(x, str) else x for x in value.sizes]
            given = [-1 if x is None else x for x in entries]
        if given is None or min(given, default=0) < 0:
            missing.append(value)
        else:
            found[value.name] = tuple(given)
    if missing:
        raise GraphError(_missing(missing, known))
    return found


def _check_fits(value: ValueType, shape: Sequence[int]) -> None:
    if value.kind != "tensor":
        raise GraphError(f"input {value.name!r} is a {value.kind}, which has no shape")
    if value.sizes is None:
        return
    expected = [x if isinstance(x, int) else -1 for x in value.sizes]
    fits = len(expected) == len(shape) and all(
        x in (-1, y) for x, y in zip(expected, shape, strict=True)
    )
    if not fits:
        raise GraphError(
            f"input {value.name!r} is of shape {_shown(value)}, which {_list(shape)} does not fit"
        )


def _told_by(inputs: Mapping[str, ValueType], shapes: Shapes) -> dict[str, int]:
    """The sizes of named dimensions that whole shapes agree on."""
    found: dict[str, set[int]] = {}
    for name, shape in shapes.items():
        for entry, size in zip(inputs[name].sizes or (), shape, strict=False):
            if isinstance(entry, str):
                found.setdefault(entry, set()).add(size)
    return {name: min(given) for name, given in found.items() if len(given) == 1}


def _missing(values: Sequence[ValueType], known: Sizes) -> str:
    """What to give, for dimensions with names and for inputs with others."""
    names: dict[str, list[str]] = {}
    whole: list[str] = []
    for value in values:
        if value.kind != "tensor":
            return f"input {value.name!r} is a {value.kind}, which no module takes"
        entries = value.sizes
        if entries is None:
            whole.append(f"--shape {value.name}=SIZE,...")
        elif None in entries:
            example = [str(known.get(x, "?")) if isinstance(x, str) else x for x in entries]
            shown = ",".join(["?" if x is None else str(x) for x in example])
            whole.append(f"--shape {value.name}={shown}")
        else:
            for entry in entries:
                if isinstance(entry, str) and entry not in known:
                    names.setdefault(entry, []).append(value.name)
    options = [f"--dim {name}=SIZE" for name in names]
    given = " ".join([*options, *whole])
    shapes = ", ".join([f"{x.name}: {_shown(x)}" for x in values])
    return f"sizes of inputs are not known ({shapes}): give {given}"


def _shown(value: ValueType) -> str:
    if value.sizes is None:
        return "of any rank"
    return _list(["?" if x is None else x for x in value.sizes])


def _list(entries: Sequence[int | str]) -> str:
    return f"[{', '.join([str(x) for x in entries])}]"
