"""Programs by the bytes that JAX hands in: what was compiled before needs no module again.

What is kept is the signature of a program and its key in the cache of executables.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Final

from lowtide.backends.kept import environment_of, kept
from lowtide.client.executable.code_version import code_version
from lowtide.client.executable.executable import Executable, kept_executable
from lowtide.options import Options
from lowtide.pjrt.device_assignment import CompileOptions
from lowtide.pjrt.signatures import ProgramSignature, read, written
from lowtide.pjrt.stablehlo import MOST_BYTES, without_locations

_KIND: Final = "plugin"

_CALLS: Final = (b"custom_call", b"custom-call")
"""How the names of calls are spelled in StableHLO and HLO: what they do, or whether they may be
made, can be another matter in each process."""


class ProgramKeys:
    """The keys of a program, which its bytes and the options of its compilation decide.

    `exact` is that of the bytes as they are; `elsewhere` is the same for a program that came from
    other lines of the user's program, or from another file.
    """

    def __init__(self, form: str, code: bytes, chosen: Options) -> None:
        self._form, self._code, self.chosen = form, code, chosen
        self.exact = self._key(code)

    @cached_property
    def elsewhere(self) -> str:
        """The key without locations; that of HLO, which has no other, is the exact one."""
        if self._form != "mlir":
            return self.exact
        return self._key(b"without locations\n" + without_locations(self._code))

    def _key(self, code: bytes) -> str:
        from jaxlib.version import __version__

        said = f"{self._form} of jaxlib {__version__}\n{self.chosen} {self.chosen.thread_count}\n"
        made = f"{environment_of(self.chosen)}\n{code_version()}\n"
        return hashlib.sha256(f"{said}{made}".encode() + code).hexdigest()[:40]


def keys_of(form: str, code: bytes, options: CompileOptions, chosen: Options) -> ProgramKeys | None:
    """Return the keys of a program; None where more than its bytes and options decides about it."""
    is_alone = options.partitions * options.replicas == 1
    is_plain = chosen.check == "never" and chosen.memory is None and chosen.deadline is None
    calls = any(x in code for x in _CALLS)
    if not (chosen.cache and is_alone and is_plain) or calls or len(code) > MOST_BYTES:
        return None
    return ProgramKeys(form, code, chosen)


def known_program(keys: ProgramKeys) -> tuple[ProgramSignature, Executable] | None:
    """Return a program that was compiled before, None where there is none.

    The text and the reports of one that came from elsewhere name the lines that it was compiled
    from, as with JAX's own cache.
    """
    cached = kept(_KIND, keys.chosen)
    data = cached.get(keys.exact)
    if data is None:
        data = cached.get(keys.elsewhere)
        if data is None:
            return None
        cached.put(keys.exact, data)  # The next process need not look for locations.
    key, _, text = data.decode().partition("\n")
    executable = kept_executable(key, keys.chosen)
    return None if executable is None else (read(text), executable)


def keep_program(keys: ProgramKeys, signature: ProgramSignature, key: str) -> None:
    """Keep what a program is, whose key in the cache of executables is given, "" for none."""
    if key:
        data = f"{key}\n{written(signature)}".encode()
        for x in (keys.exact, keys.elsewhere):
            kept(_KIND, keys.chosen).put(x, data)
