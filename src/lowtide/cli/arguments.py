"""The argument and the options that several commands share."""

from __future__ import annotations

import re
from typing import Annotated, Final

import typer

ModuleArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODULE",
        help="HLO text (.hlo, .txt), protobuf (.pb), either with .xz or .gz, an XLA dump "
        "directory, or - for standard input.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Write JSON for programs.")]
StageOption = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Optimize up to `input` (not at all), `simplified`, `layout`, `fused`, `scheduled`.",
    ),
]
EffortOption = Annotated[
    str,
    typer.Option(
        metavar="NAME", show_default=False, help="How far to search: fast, default, proof."
    ),
]
ReoptimizeOption = Annotated[
    bool,
    typer.Option("--reoptimize", help="Also a module that is scheduled."),
]


_SIZE: Final = re.compile(r"(\d+)(?:\.(\d+))?\s*([kKMGTP]?)(i?)(B?)", re.ASCII)
_POWERS: Final = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_MOST_BYTES: Final = 1 << 62


def size_in_bytes(text: str) -> int:
    """Return the whole bytes of a size such as `512MiB`, `1.5GB` or `123`; a MB are 10^6 bytes.

    Raises typer.BadParameter for what is none, and for 2^62 bytes or more.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None or (found[4] and not found[3]) or len(text) > 40:
        raise typer.BadParameter(f"expected a size such as 512MiB, 1.5GB or 123, found {text!r}")
    whole, digits, prefix, binary, _ = found.groups()
    unit = (1024 if binary else 1000) ** _POWERS[prefix]
    nbytes = int(whole + (digits or "")) * int(unit) // int(10 ** len(digits or ""))
    if nbytes >= _MOST_BYTES:
        raise typer.BadParameter(f"expected a size below 2^62 bytes, found {text!r}")
    return nbytes
