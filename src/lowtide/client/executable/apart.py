"""Compiling in a process of its own: what a compiler needs of memory is not needed in this one.

The process begins with the first program that no cache has, and ends once it was not asked for
`_PATIENCE_SECONDS`. A request is options as JSON in a line, and a module as protobuf. An answer is
the seconds of its making and its key in the cache as JSON in a line, and the executable as bytes;
or that there is none.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from threading import Lock
from time import perf_counter
from typing import Any, Final, final

from lowtide.client.executable.compiling import compile_module, executable_of_bytes, known_program
from lowtide.client.executable.executable import Executable, Making
from lowtide.client.executable.keys import module_digest
from lowtide.ir import Module
from lowtide.ir.errors import LowtideError
from lowtide.llvm.host import are_facts_kept
from lowtide.llvm.target import Target, pretend_host, pretended_host
from lowtide.options import Options, cache_setting, set_cache_folder
from lowtide.processes.child import Answer, Child, ChildEndedError, can_begin_children

_PATIENCE_SECONDS: Final = 5.0
_SERVER: Final = "lowtide.client.executable.apart:answers"
_WAITED_TOO_LONG: Final = 0
"""The status of a process that ended because it was not asked."""


def compile_apart(module: Module, options: Options) -> Executable:
    """Return what `compile_module` does, compiled in another process where no cache has it.

    What has to be done in this one is: measuring (`autotune`), calls that are checked, and all of
    it in an application that is no Python. Raises what `compile_module` raises, and
    CompilerEndedError where the process ended.
    """
    if options.autotune or options.check != "never" or not can_begin_children():
        return compile_module(module, options)
    found = known_without_compiler(module, options)
    if found is not None:
        return found
    from lowtide.frontend.hlo_proto import write_hlo_module_with_config  # Not for known ones.

    start = perf_counter()
    host = pretended_host()
    given = {"options": asdict(options), "cache": cache_setting()}
    head = json.dumps({**given, "host": None if host is None else asdict(host)}).encode()
    data = _COMPILER.ask(head + b"\n" + write_hlo_module_with_config(module), module.name)
    if data is None:
        return compile_module(module, options)  # Its error is raised here.
    said, _, program = data.partition(b"\n")
    seconds, key = json.loads(said)
    making = Making({**seconds, "apart": perf_counter() - start}, key=key)
    return executable_of_bytes(program, options, making)


def known_without_compiler(module: Module, options: Options) -> Executable | None:
    """Return a module for one device as the cache has it, None where it has not.

    Without the facts that LLVM tells of a processor no program is known, and LLVM is not loaded.
    """
    return known_program(module_digest(module), options) if are_facts_kept() else None


@final
class _CompilerProcess:
    """The process that compiles for this one, which threads ask one after the other."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._running: Child | None = None
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """A process that was forked has another one compile."""
        self._lock, self._running = Lock(), None

    def ask(self, request: bytes, name: str) -> bytes | None:
        """Return what the process makes of a request, None where it cannot."""
        with self._lock:
            was_running = self._running is not None
            try:
                return self._asked(request)
            except ChildEndedError as error:
                self._running = None
                if not was_running or error.status != _WAITED_TOO_LONG:
                    from lowtide.llvm.isolated import ended

                    raise ended(f"{name} was compiled", error) from None
            except BaseException:
                self._running = None
                raise
            return self._asked(request)

    def _asked(self, request: bytes) -> bytes | None:
        if self._running is None:
            self._running = Child(_SERVER)
        is_made, data = self._running.ask(0, request)
        return data if is_made else None


_COMPILER: Final = _CompilerProcess()


def answers(_: Any) -> tuple[Answer, float]:
    """Return what compiles, and for how long it waits to be asked."""
    return _answer, _PATIENCE_SECONDS


def _answer(_: int, request: bytes) -> tuple[int, bytes]:
    from lowtide.frontend.hlo_proto import read_hlo_proto

    head, data = request.split(b"\n", 1)
    given = json.loads(head)
    set_cache_folder(given["cache"])
    pretend_host(_target(given["host"]))
    try:
        made = compile_module(read_hlo_proto(data), Options(**given["options"]))
        said = json.dumps([dict(made.making.seconds), made.making.key]).encode()
        return 1, said + b"\n" + made.serialize()
    except LowtideError:
        return 0, b""


def _target(fields: dict[str, Any] | None) -> Target | None:
    """Return a processor that was written as JSON."""
    return None if fields is None else Target(**{**fields, "features": tuple(fields["features"])})
