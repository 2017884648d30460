"""Facts that LLVM tells of this processor and of itself, kept so that not each process loads it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Protocol

from lowtide.records import dataclass


class FactStore(Protocol):
    """Bytes by key, kept for other processes."""

    def get(self, key: str) -> bytes | None:
        """Return the bytes of a key, None where there are none."""

    def through(self, key: str, make: Callable[[], bytes]) -> bytes:
        """Return the bytes of a key, made and kept where there are none."""


@dataclass(frozen=True, slots=True)
class HostFacts:
    """A processor as LLVM names it, and the versions of LLVM and llvmlite.

    `features` are all that it has, allowed to this process or not, sorted.
    """

    triple: str
    cpu: str
    features: tuple[str, ...]
    versions: str


_STORES: Final[list[Callable[[], FactStore]]] = []
"""What gives the store in use, if there is one."""


def keep_facts(store: Callable[[], FactStore]) -> None:
    """Take what is known of processors from a store from now on, and put new facts there."""
    _STORES[:] = [store]


@cache
def host_facts() -> HostFacts:
    """Return what is known of this processor: from the store, or as LLVM says."""
    key = _key()
    if not key or not _STORES:
        return _asked()
    kept = _read(_STORES[0]().through(key, lambda: _written(_asked())))
    return kept or _asked()


def are_facts_kept() -> bool:
    """Whether `host_facts` need not load LLVM."""
    if host_facts.cache_info().currsize:
        return True
    key = _key()
    return bool(key and _STORES) and _STORES[0]().get(key) is not None


def _asked() -> HostFacts:
    from lowtide.llvm.entry_points import entry_points, llvm_version, llvmlite_version, told

    raw = entry_points()
    found = told(raw.LLVMPY_GetHostCPUFeatures).split(",")
    return HostFacts(
        told(raw.LLVMPY_GetProcessTriple),
        told(raw.LLVMPY_GetHostCPUName),
        tuple(sorted({x[1:] for x in found if x.startswith("+")})),
        f"{llvmlite_version()} {llvm_version()}",
    )


def _written(facts: HostFacts) -> bytes:
    return json.dumps([facts.triple, facts.cpu, list(facts.features), facts.versions]).encode()


def _read(data: bytes) -> HostFacts | None:
    try:
        triple, cpu, features, versions = json.loads(data)
        return HostFacts(str(triple), str(cpu), tuple(map(str, features)), str(versions))
    except (ValueError, TypeError):
        return None


def _key() -> str:
    """What tells processors and copies of LLVM apart; "" where the system does not say."""
    processor, library = _processor(), _library()
    if not processor or not library:
        return ""
    return hashlib.sha256(f"{processor}\n{library}".encode()).hexdigest()[:40]


_TELLING: Final = frozenset(
    {
        *("vendor_id", "cpu family", "model", "model name", "stepping", "flags"),
        *("Features", "CPU implementer", "CPU architecture", "CPU variant", "CPU part"),
        *("CPU revision", "isa", "uarch"),
    }
)
"""Lines of /proc/cpuinfo that are the same whenever one looks."""

_FIRST_BYTES: Final = 1 << 14
"""As many have the lines of the first processor."""


def _processor() -> str:
    """The lines of the system that tell the kind of processor; "" where there are none."""
    try:
        with open("/proc/cpuinfo", "rb") as file:
            text = file.read(_FIRST_BYTES).decode(errors="replace")
    except OSError:
        return ""
    lines = text.partition("\n\n")[0].splitlines()
    found = [x for x in lines if x.partition(":")[0].strip() in _TELLING]
    return "\n".join([*found, os.uname().machine]) if found else ""


def _library() -> str:
    """The files of llvmlite with their sizes and times; "" where they are not found."""
    spec = find_spec("llvmlite")
    if spec is None or not spec.submodule_search_locations:
        return ""
    folder = Path(spec.submodule_search_locations[0])
    lines = []
    for path in [folder / "_version.py", *sorted((folder / "binding").glob("libllvmlite*"))]:
        try:
            status = path.stat()
        except OSError:
            return ""
        lines.append(f"{path} {status.st_size} {status.st_mtime_ns}")
    return "\n".join(lines)
