"""The machine code that comes with the package, made from its sources.

python -m tests.native_language.shipped            whether each file is there, and its bytes
python -m tests.native_language.shipped --write    put the files there, and remove all others
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

from lowtide.least_memory.network import reach
from lowtide.llvm import shipped
from lowtide.llvm.objects import compiled_unit
from lowtide.native import NativeUnit
from lowtide.native.shipped import FOLDER, file_name
from lowtide.pjrt.native_code import UNIT
from lowtide.planning.scale.gaps import place_all
from lowtide.planning.scale.valleys import fill
from lowtide.runtime.cpu.native import RUNTIME
from lowtide.scheduling.cuts import probe_node
from lowtide.scheduling.settling import settle_order
from lowtide.scheduling.stretches import improve
from lowtide.search.kernels import Kernel, machine

UNITS: Final[tuple[NativeUnit, ...]] = (RUNTIME, UNIT)
UNITS_FOLDER: Final = Path(shipped.__file__).parent / FOLDER

SEARCHES: Final[tuple[Kernel[..., Any], ...]] = (
    *(settle_order, improve, probe_node),
    *(place_all, fill, reach),
)
"""The loops of searches that compilations without a budget call."""

SEARCHES_FOLDER: Final = Path(machine.__file__).parent / FOLDER


def made() -> dict[Path, bytes]:
    """Return the files that belong there."""
    units = {
        UNITS_FOLDER / file_name(unit.name, family, unit.sources): compiled_unit(unit, target)
        for family, target in shipped.FAMILIES.items()
        for unit in UNITS
    }
    return units | {search_file(x): machine.shipped_object(x) for x in SEARCHES}


def search_file(kernel: Kernel[..., Any]) -> Path:
    """Return where the machine code of a search's loop belongs."""
    name = file_name(kernel.name, machine.FAMILY, machine.sources_of(kernel))
    return SEARCHES_FOLDER / name


def main() -> None:
    """Print what there is, or write what belongs there."""
    files = made()
    if "--write" in sys.argv[1:]:
        for folder in (UNITS_FOLDER, SEARCHES_FOLDER):
            folder.mkdir(exist_ok=True)
            for path in folder.iterdir():
                if path not in files:
                    path.unlink()
        for path, code in files.items():
            path.write_bytes(code)
    for path, code in files.items():
        there = path.is_file() and path.read_bytes() == code
        state = "as it should be" if there else "missing or different"
        print(f"{path.name}  {len(code):,} B  {state}")


if __name__ == "__main__":
    main()
