"""Programs as bytes, which JAX keeps and hands in again: signed, as programs in files are."""

from __future__ import annotations

import ctypes
import hashlib
import json
from ctypes import c_char_p, c_size_t, c_void_p
from typing import Any, Final

from lowtide.client.errors import UntrustedProgramError
from lowtide.ir.errors import InputError
from lowtide.options import Options
from lowtide.pjrt.compile_options import lowtide_options
from lowtide.pjrt.device_assignment import read_options
from lowtide.pjrt.errors import INVALID_ARGUMENT, PluginError
from lowtide.pjrt.getters import HELD_TEXT, TEXT, reads
from lowtide.pjrt.handles import handle, kept_text
from lowtide.pjrt.program_answers import KEEP
from lowtide.pjrt.programs import AnyExecutable, PluginProgram
from lowtide.pjrt.signatures import signature_of
from lowtide.pjrt.table import serves

_MARK: Final = b"lowtide program of JAX 1\n"
"""What these bytes begin with; then come the options' length, the options, and the executable."""

CARD_MARK: Final = b"lowtide module of a GPU 1\n"
"""What the bytes of a program of a card begin with; its module follows as protobuf."""

_LENGTH: Final = 8


def _serialized(program: PluginProgram) -> tuple[int, int, None, int | None]:
    options = program.options.serialized
    head = _MARK + len(options).to_bytes(_LENGTH, "little") + options
    data = head + program.alive().serialize()
    # It stays as long as the program, which JAX asks once.
    address = program.lists.of(c_char_p, [data])
    return c_void_p.from_address(address).value or 0, len(data), None, KEEP


def _fingerprint(program: PluginProgram) -> tuple[int, int]:
    """A text that is the same for the same program; JAX asks for it after each compilation."""
    executable = program.alive()
    found = hashlib.blake2b(executable.as_text().encode(), digest_size=16)
    for _, values in executable.program.constants:
        found.update(values.tobytes())
    found.update(json.dumps(program.options.devices).encode())
    return kept_text(found.hexdigest())


reads("Executable_Serialize", HELD_TEXT, _serialized)
reads("Executable_Fingerprint LoadedExecutable_Fingerprint", TEXT, _fingerprint)


def _read(data: bytes) -> AnyExecutable:
    if data.startswith(CARD_MARK):
        from lowtide.pjrt.card_programs import read_card_program

        return read_card_program(data, lowtide_options(()))
    from lowtide.client.executable import deserialize_executable

    return deserialize_executable(data, Options())


@serves(
    "Executable_DeserializeAndLoad",
    client=c_void_p,
    data=c_void_p,
    size=c_size_t,
    executable=c_void_p,
    options=c_void_p,
    options_size=c_size_t,
)
def _load(arguments: Any) -> None:
    data = ctypes.string_at(arguments.data, arguments.size)
    if not data.startswith(_MARK):
        raise PluginError(INVALID_ARGUMENT, "no program that lowtide's platform has made")
    start = len(_MARK) + _LENGTH
    end = start + int.from_bytes(data[len(_MARK) : start], "little")
    given = data[start:end]
    known = arguments.struct_size >= type(arguments).options_size.offset + 8
    if known and arguments.options:
        given = ctypes.string_at(arguments.options, arguments.options_size)
    try:
        executable = _read(data[end:])
    except UntrustedProgramError as error:
        raise PluginError(
            INVALID_ARGUMENT,
            "the program is native code that this user did not compile here, and is not run: "
            "compile it again",
        ) from error
    except InputError as error:
        raise PluginError(INVALID_ARGUMENT, f"the program {error.message}") from error
    program = PluginProgram(signature_of(executable.module), executable, read_options(given))
    arguments.executable = handle(program, program.cell())
