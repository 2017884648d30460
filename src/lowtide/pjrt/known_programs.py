"""Programs by the bytes that JAX hands in: what was compiled before needs no module again.

What is kept is the signature of a program and its key in the cache of executables.
"""

from __future__ import annotations

import hashlib

from lowtide.backends.kept import environment_of, kept
from lowtide.client.executable.code_version import code_version
from lowtide.client.executable.executable import Executable
from lowtide.client.executable.kept_executables import kept_executable
from lowtide.options import Options
from lowtide.pjrt.program_options import CompileOptions
from lowtide.pjrt.signatures import ProgramSignature, read, written
from lowtide.pjrt.stablehlo import MOST_BYTES

_KIND = "plugin"

_CALLS = (b"custom_call", b"custom-call")
"""How the names of calls are spelled in StableHLO and HLO: what they do, or whether they may be
made, can be another matter in each process."""


def known_program(
    form: str, code: bytes, options: CompileOptions, chosen: Options
) -> tuple[ProgramSignature, Executable] | None:
    """Return a program that was compiled before with the same options, None where there is none."""
    if not _is_kept(code, options, chosen):
        return None
    found = kept(_KIND, chosen).get(_key(form, code, chosen))
    if found is None:
        return None
    key, _, text = found.decode().partition("\n")
    executable = kept_executable(key, chosen)
    return None if executable is None else (read(text), executable)


def keep_program(
    form: str,
    code: bytes,
    options: CompileOptions,
    chosen: Options,
    signature: ProgramSignature,
    key: str,
) -> None:
    """Keep what a program is, whose key in the cache of executables is given, "" for none."""
    if key and _is_kept(code, options, chosen):
        data = f"{key}\n{written(signature)}".encode()
        kept(_KIND, chosen).put(_key(form, code, chosen), data)


def _is_kept(code: bytes, options: CompileOptions, chosen: Options) -> bool:
    """Whether nothing but its bytes and options decides about a program."""
    return (
        len(code) <= MOST_BYTES
        and options.partitions * options.replicas == 1
        and chosen.check == "never"
        and chosen.memory is None
        and chosen.deadline is None
        and not any(x in code for x in _CALLS)
    )


def _key(form: str, code: bytes, chosen: Options) -> str:
    """What decides about a program of one device; JAX's own options say nothing more of it."""
    from jaxlib.version import __version__

    said = f"{form} of jaxlib {__version__}\n{chosen} {chosen.thread_count}\n"
    made = f"{environment_of(chosen)}\n{code_version()}\n"
    return hashlib.sha256(f"{said}{made}".encode() + code).hexdigest()[:40]
