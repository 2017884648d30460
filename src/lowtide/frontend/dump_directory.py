"""The file of an XLA dump directory that a user means.

XLA names the files of one module `module_0001.jit_f.STAGE.EXTENSION`. The stages of a module are
one module here, of which the last one counts. Of several modules the newest is meant.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from lowtide.frontend.compressed import first_bytes
from lowtide.ir.errors import InputError
from lowtide.records import dataclass

_LISTED: Final = 10
_HEAD_BYTES: Final = 1 << 16

_EXTENSION: Final = re.compile(r"(\.hlo)?(\.(pb|txt|hlo))?(\.(xz|gz))?$")
_MODULE_NUMBER: Final = re.compile(r"^(.*?\bmodule_\d+\.[^.]*)\.")
_IS_HLO_TEXT: Final = re.compile(rb"\s*(//[^\n]*\s*|/\*.*?\*/\s*)*HloModule\s", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ModuleFile:
    """A file with a module: which module it is, and how far XLA had taken it."""

    path: Path
    module: str
    stage: tuple[int, str]
    modified: float
    nbytes: int

    @property
    def preference(self) -> tuple[tuple[int, str], bool, float, str]:
        """What the greatest of is taken among the files of one module.

        The protobuf comes before the text of the same stage, which leaves large constants out.
        """
        return self.stage, self.path.name.endswith(".pb"), self.modified, self.path.name


def find_module(directory: Path) -> tuple[Path, str]:
    """Return the file with the last stage of the newest module, and a list of the others.

    The list is text for the user, "" where there is no other module. Raises InputError for a
    directory without modules.
    """
    modules: dict[str, ModuleFile] = {}
    for found in _module_files(directory):
        known = modules.get(found.module)
        if known is None or known.preference < found.preference:
            modules[found.module] = found
    if not modules:
        raise InputError(
            "no module in this directory; expected HLO text (.hlo, .txt) or protobuf (.pb), as "
            "XLA_FLAGS=--xla_dump_to=DIR writes them",
            file=str(directory),
        )
    newest, *others = sorted(
        modules.values(), key=lambda x: (x.modified, x.path.name), reverse=True
    )
    return newest.path, _choices(others) if others else ""


def _choices(modules: list[ModuleFile]) -> str:
    lines = ["other modules in this directory, newest first; give the path of one to read it:"]
    lines += [f"  {_kilobytes(x.nbytes):>12}  {x.path}" for x in modules[:_LISTED]]
    if len(modules) > _LISTED:
        lines.append(f"  {'':>12}  and {len(modules) - _LISTED} more")
    return "\n".join(lines)


def _kilobytes(nbytes: int) -> str:
    return f"{max(1, round(nbytes / 1000)):,} KB"


def _module_files(directory: Path) -> list[ModuleFile]:
    paths = sorted([path for path in directory.iterdir() if path.is_file()])
    named = [path for path in paths if _holds_module(path)]
    if not named:
        named = [path for path in paths if path.name.endswith(".pb")]
    return [_describe(path) for path in named]


def _holds_module(path: Path) -> bool:
    match = _EXTENSION.search(path.name)
    if match is None or not match[0]:
        return False
    if match[3] == "pb":
        return match[1] is not None
    with path.open("rb") as stream:
        return _IS_HLO_TEXT.match(first_bytes(stream, _HEAD_BYTES)) is not None


def _describe(path: Path) -> ModuleFile:
    stem = _EXTENSION.sub("", path.name)
    match = _MODULE_NUMBER.match(stem + ".")
    status = path.stat()
    return ModuleFile(
        path, match[1] if match else stem, _stage(stem), status.st_mtime, status.st_size
    )


def _stage(stem: str) -> tuple[int, str]:
    """Before all optimizations, between the passes by their numbers, after all of them."""
    last = stem.rsplit(".", 1)[-1]
    if last.endswith("after_optimizations"):
        return 2, ""
    if last.endswith("before_optimizations"):
        return 0, ""
    return 1, stem
