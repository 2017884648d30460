"""The machine code that comes with the package, made from its sources.

python -m tests.native_language.shipped            whether each file is there, and its bytes
python -m tests.native_language.shipped --write    put the files there, and remove all others
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from lowtide.llvm import shipped
from lowtide.llvm.objects import compiled_unit
from lowtide.native import NativeUnit
from lowtide.pjrt.native_code import UNIT
from lowtide.runtime.cpu.native import RUNTIME

FOLDER: Final = Path(shipped.__file__).parent / shipped.FOLDER
UNITS: Final[tuple[NativeUnit, ...]] = (RUNTIME, UNIT)


def made() -> dict[str, bytes]:
    """Return the files that belong there, by name."""
    return {
        shipped.file_name(unit, family, unit.sources): compiled_unit(unit, target)
        for family, target in shipped.FAMILIES.items()
        for unit in UNITS
    }


def main() -> None:
    """Print what there is, or write what belongs there."""
    files = made()
    if "--write" in sys.argv[1:]:
        FOLDER.mkdir(exist_ok=True)
        for path in FOLDER.iterdir():
            if path.name not in files:
                path.unlink()
        for name, code in files.items():
            (FOLDER / name).write_bytes(code)
    for name, code in files.items():
        path = FOLDER / name
        there = path.is_file() and path.read_bytes() == code
        print(f"{name}  {len(code):,} B  {'as it should be' if there else 'missing or different'}")


if __name__ == "__main__":
    main()
