"""The key of a program in the cache: all that decides about it."""

from __future__ import annotations

import hashlib

from lowtide.client.executable.code_version import code_version
from lowtide.ir import Module, Opcode
from lowtide.ir.attributes import Constant
from lowtide.ir.literal import Literal
from lowtide.ir.printer import to_text
from lowtide.options import Options


def program_key(module: str, options: Options, environment: str) -> str:
    """Return what decides about a program: the module, what is asked for, and who compiles.

    `module` is its digest, as `module_digest` makes it of the whole text. `environment` is what the
    target says of itself and of its compiler.
    """
    digest = hashlib.sha256()
    for part in (
        module,
        f"{options.stage} {options.effort} {options.thread_count}",
        f"tuned {options.autotune} within {options.memory} for {options.memory_priority}",
        environment,
        code_version(),
    ):
        digest.update(f"{part}\n".encode())
    return digest.hexdigest()[:40]


def module_digest(module: Module) -> str:
    """Return what is different for different modules: a digest of the text and all constants."""
    digest = hashlib.sha256(to_text(module).encode())
    for computation in module.computations.values():
        for x in computation.instructions.values():
            if x.opcode is Opcode.CONSTANT:
                digest.update(_constant_bytes(x.attributes_as(Constant).literal))
    return digest.hexdigest()[:40]


def _constant_bytes(literal: Literal) -> bytes:
    if literal.shape.is_array:
        return literal.array.tobytes()
    return literal.text(large=True).encode()
