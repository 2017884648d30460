"""Files of machine code that come with the package, beside the module that takes them.

A file is named after a digest of the sources that it was made from: one of other sources is not
found, and what would take it compiles its code.
"""

from __future__ import annotations

from typing import Final

from lowtide.native.functions import source_of

FOLDER: Final = "machine_code"
"""Where the files lie, beside the module that takes them."""


def family_of(triple: str) -> str:
    """Return the architecture and the system of a triple, which files are told apart by."""
    architecture, _, system = triple.partition("-")
    return f"{architecture}-{'linux' if 'linux' in system else system}"


def file_name(name: str, family: str, sources: str) -> str:
    """Return the name of a file, in which the digest of its sources stands."""
    return f"{name}-{family}-{sources[:40]}.o"


def shipped_code(module: str, name: str, family: str, sources: str) -> bytes | None:
    """Return the machine code that lies beside a module; None where there is none."""
    try:
        return source_of(module, f"{FOLDER}/{file_name(name, family, sources)}")
    except OSError:
        return None
