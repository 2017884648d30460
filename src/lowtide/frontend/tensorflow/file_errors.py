"""Errors of readers of graphs, each told with the file that it is about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lowtide.ir.errors import InputError, LowtideError, UnsupportedOpError


@contextmanager
def told_with(file: str) -> Iterator[None]:
    """Raise InputError or UnsupportedOpError with the name of a file for what is raised within."""
    try:
        yield
    except UnsupportedOpError as error:
        raise UnsupportedOpError(f"{file}: {error}") from error
    except InputError as error:
        if error.file:
            raise
        raise InputError(error.message, file=file, position=error.position) from error
    except LowtideError as error:
        raise InputError(str(error), file=file) from error
