"""The version of this package's code, which decides about programs."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path

import lowtide
from lowtide.files.source_digest import tree_digest


@cache
def code_version() -> str:
    """Return a fingerprint of this package: another version may compile otherwise."""
    lines: list[str] = []
    root = os.path.dirname(lowtide.__file__)
    folders = [root]
    while folders:  # Path.rglob takes three times as long, in each process.
        with os.scandir(folders.pop()) as entries:
            for x in entries:
                if x.name.endswith(".py"):
                    status = x.stat()
                    lines.append(f"{x.path[len(root) :]} {status.st_size} {status.st_mtime_ns}\n")
                elif x.name != "__pycache__" and x.is_dir():
                    folders.append(x.path)
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()


@cache
def package_digest() -> str:
    """Return a digest of the source of this package, the same wherever it is installed."""
    return tree_digest(Path(lowtide.__file__).parent)
