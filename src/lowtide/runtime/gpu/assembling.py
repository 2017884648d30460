"""PTX to machine code by ptxas, and what it says that each kernel takes."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, fields
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Protocol

from lowtide.ir.errors import LowtideError
from lowtide.ir.gpu_names import SHARED_BYTES
from lowtide.ir.thunk import GridLaunch
from lowtide.records import dataclass

_IN_WHEELS: Final = ("cuda_nvcc/bin/ptxas", "cu13/bin/ptxas")
"""Where wheels have it, below the packages named nvidia."""

MOST_SHARED_BYTES: Final = 48 << 10
"""Shared memory that a kernel defines by itself, at most; a launch may ask for more."""

MOST_REGISTERS: Final = 1 << 16
"""Registers that the threads of a block have together."""

_SECONDS: Final = 600


class AssemblerError(LowtideError):
    """There is no ptxas, or it refuses what it is given."""


@dataclass(frozen=True, slots=True)
class KernelResources:
    """What a kernel takes: registers of a thread, and bytes.

    `stack` are bytes of local memory of a thread, `spilled` those that are stored or loaded since
    registers did not do. `shared` is that of a block.
    """

    registers: int
    shared: int
    stack: int
    spilled: int


@dataclass(frozen=True, slots=True)
class Cubin:
    """Machine code of a module of kernels, and what each of them takes, by symbol."""

    image: bytes
    resources: dict[str, KernelResources]

    def check(self, launch: GridLaunch, architecture: str) -> None:
        """Raise AssemblerError where a kernel exceeds what a block of an architecture has."""
        function, threads = launch.function, launch.threads
        found = self.resources[function]
        whole, most = found.shared + launch.shared_bytes, SHARED_BYTES[architecture]
        if whole > most:
            raise AssemblerError(f"{function} takes {whole} bytes of shared memory, of {most}")
        if found.shared > MOST_SHARED_BYTES:
            text = f"{found.shared} bytes of shared memory, of {MOST_SHARED_BYTES}"
            raise AssemblerError(f"{function} takes {text}")
        if found.registers * threads > MOST_REGISTERS:
            text = f"{found.registers} registers in each of {threads} threads"
            raise AssemblerError(f"{function} takes {text}, {MOST_REGISTERS} in all")


class CubinCache(Protocol):
    """What is kept between processes: bytes by key."""

    def get(self, key: str) -> bytes | None:
        """Return the bytes of a key, None where there are none."""

    def put(self, key: str, data: bytes) -> None:
        """Keep bytes."""


@cache
def assembler() -> str:
    """Return the path of ptxas: of a wheel, else of the system; raises AssemblerError."""
    spec = find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for name in _IN_WHEELS:
            path = Path(folder, name)
            if path.exists():
                return str(path)
    found = shutil.which("ptxas")
    if found is None:
        raise AssemblerError(
            "there is no ptxas, which assembles kernels of GPUs; it comes with "
            "`pip install lowtide[gpu]` (package nvidia-cuda-nvcc-cu12)"
        )
    return found


@cache
def assembler_version() -> str:
    """Return what ptxas says of itself in one line; raises AssemblerError."""
    done = subprocess.run([assembler(), "--version"], capture_output=True, text=True, check=False)
    return (done.stdout.strip().splitlines() or ["unknown"])[-1]


def assembled(ptx: str, architecture: str, cached: CubinCache) -> Cubin:
    """Return the machine code of a module, from the cache where it is there.

    Raises AssemblerError where there is no ptxas, or it refuses the module.
    """
    form = " ".join([x.name for x in fields(KernelResources)])
    said = f"{assembler_version()}\n{architecture}\n{form}\n{ptx}"
    key = hashlib.sha256(said.encode()).hexdigest()[:40]
    known = cached.get(key)
    if known is None:
        known = _packed(_run(ptx, architecture))
        cached.put(key, known)
    return _unpacked(known)


def _run(ptx: str, architecture: str) -> Cubin:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "kernels.ptx"), Path(folder, "kernels.cubin")
        source.write_text(ptx)
        command = [assembler(), "-v", "-O3", f"-arch={architecture}", "-o", str(target)]
        try:
            done = subprocess.run(
                [*command, str(source)],
                capture_output=True,
                text=True,
                check=False,
                timeout=_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise AssemblerError(f"ptxas took more than {_SECONDS} seconds") from None
        if done.returncode:
            lines = [x.replace(f"{folder}/", "") for x in done.stderr.splitlines()]
            raise AssemblerError("\n".join(["ptxas refuses a module:", *lines[:10]]))
        return Cubin(target.read_bytes(), dict(_resources(done.stderr)))


_NAME: Final = re.compile(r"Compiling entry function '(\w+)'")
_FIGURES: Final = (
    re.compile(r"Used (\d+) registers"),
    re.compile(r"(\d+) bytes smem"),
    re.compile(r"(\d+) bytes stack frame"),
    re.compile(r"(\d+) bytes spill stores"),
    re.compile(r"(\d+) bytes spill loads"),
)


def _resources(log: str) -> Iterator[tuple[str, KernelResources]]:
    """Of each kernel its symbol and what it takes, as the log says."""
    name = ""
    found: dict[str, list[int]] = {}
    for line in log.splitlines():
        if match := _NAME.search(line):
            name = match[1]
            found[name] = [0] * len(_FIGURES)
        for place, pattern in enumerate(_FIGURES):
            if name and (match := pattern.search(line)):
                found[name][place] = max(found[name][place], int(match[1]))
    for symbol, (registers, shared, stack, stores, loads) in found.items():
        yield symbol, KernelResources(registers, shared, stack, stores + loads)


def _packed(cubin: Cubin) -> bytes:
    table = json.dumps({name: asdict(x) for name, x in cubin.resources.items()}).encode()
    return len(table).to_bytes(8, "little") + table + cubin.image


def _unpacked(packed: bytes) -> Cubin:
    size = int.from_bytes(packed[:8], "little")
    table = json.loads(packed[8 : 8 + size])
    return Cubin(packed[8 + size :], {name: KernelResources(**x) for name, x in table.items()})
