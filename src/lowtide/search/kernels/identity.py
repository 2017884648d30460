"""The identity of a kernel: its machine code is kept by that, and found without parsing.

Python has compiled a kernel already when its module was loaded, and has taken off what does not
matter: comments, and where lines break. What counts besides are the kernels that are called, the
numbers of modules that are read, and the layout of records.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from lowtide.search.kernels.kernel import Kernel
from lowtide.search.kernels.records import Kind, kinds_of


def identity(kernel: Kernel[..., Any]) -> str:
    """Return a digest, in hexadecimal digits, of a kernel and of all that it calls.

    Kernels with the same digest have the same machine code. Also a part of it is the text of this
    folder, which says how kernels are compiled.
    """
    digest = hashlib.sha256(_compiler())
    digest.update(repr(sys.version_info[:2]).encode())
    known, waiting = {kernel}, [kernel]
    while waiting:
        current = waiting.pop()
        for line in _lines(current):
            digest.update(line.encode() + b"\n")
        called = [x for _, x in _outside(current) if isinstance(x, Kernel) and x not in known]
        known.update(called)
        waiting.extend(called)
    return digest.hexdigest()


def _lines(kernel: Kernel[..., Any]) -> Iterator[str]:
    """The lines that tell a kernel from others; what it calls stands there by name only."""
    code = kernel.python.__code__
    yield f"{code.co_name} {code.co_varnames} {code.co_names} {code.co_code.hex()}"
    yield repr(code.co_consts)
    signature = kernel.signature
    yield from [f"{name}: {_layout(kind)}" for name, kind in signature.parameters]
    yield signature.result
    for name, value in _outside(kernel):
        yield f"{name} = {f'kernel {value.name}' if isinstance(value, Kernel) else repr(value)}"


def _outside(kernel: Kernel[..., Any]) -> list[tuple[str, Any]]:
    """The kernels and numbers of a kernel's module that it names, in the order of its code."""
    names = kernel.python.__globals__
    found = [(x, names.get(x)) for x in kernel.python.__code__.co_names]
    return [(name, value) for name, value in found if isinstance(value, Kernel | int | float)]


def _layout(kind: Kind) -> str:
    """The fields of a record with their types; records lie in records only a few deep."""
    if isinstance(kind, str):
        return kind
    fields = [f"{name} {_layout(x)}" for name, x in kinds_of(kind).items()]
    return f"{kind.__module__}.{kind.__qualname__} ({', '.join(fields)})"


@cache
def _compiler() -> bytes:
    """The digest of the files that say how kernels are compiled."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.digest()
