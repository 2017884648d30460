"""`lowtide verify CERTIFICATE [MODULE]` where it is about all compilations of a program."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lowtide.cli.verify_certificate import CompileRequest
    from lowtide.ir import Module


def is_about_compilations(data: bytes) -> bool:
    """Whether a certificate, be it right or not, says what no compilation can do without."""
    from lowtide.checking.compilation_proof import KIND

    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and document.get("kind") == KIND


def verify_compilation(
    data: bytes, file: str, path: str | None, as_json: bool, request: CompileRequest
) -> None:
    """Write whether a certificate is valid and, with a module, about that.

    Raises UsageError for options that change plans, and for a module that is scheduled, and
    VerificationError where the certificate is rejected.
    """
    from lowtide.checking.compilation_proof import REJECTED, CompilationVerdict, check_compilation
    from lowtide.cli import console
    from lowtide.cli.exit_codes import VerificationError
    from lowtide.cli.progress import progress
    from lowtide.cli.verify_certificate import CompileRequest

    if CompileRequest(reoptimize=request.reoptimize) != request:
        _refuse(file)
    with progress(f"checking {file}"):
        verdict = check_compilation(data)
    if path is not None and verdict.answer != REJECTED:
        found = _compare(data, path, reoptimize=request.reoptimize)
        if found:
            verdict = CompilationVerdict(REJECTED, f"{path}: {'; '.join(found)}")
    if as_json:
        console.write_json(verdict._asdict())
    else:
        console.write(f"{verdict.answer}: {verdict.detail}")
    if verdict.answer == REJECTED:
        raise VerificationError(f"{file}: the certificate is rejected")


def _refuse(file: str) -> None:
    from lowtide.cli.exit_codes import UsageError

    raise UsageError(
        f"{file}: --budget, --stage and --effort change plans; it is about all compilations"
    )


def _compare(data: bytes, path: str, *, reoptimize: bool) -> list[str]:
    """In what a valid certificate is not about the module in a file."""
    from lowtide.cli.exit_codes import UsageError
    from lowtide.cli.modules import load
    from lowtide.cli.one_device import of_one_device
    from lowtide.cli.progress import progress
    from lowtide.compiler.compilation_bound import normal_forms

    module = of_one_device(load(path, reoptimize=reoptimize), None, whole=False).module
    if module.is_scheduled:
        raise UsageError(f"{path} is scheduled, so its kernels are chosen: give --reoptimize")
    with progress(f"simplifying {module.name}"):
        return differences(json.loads(data), normal_forms(module))


def differences(document: Mapping[str, Any], forms: Sequence[Module]) -> list[str]:
    """Return in what a valid certificate is not about the forms of a program; none if it is."""
    from lowtide.checking.compilation_problem import differences as differences_of_form

    shown = document["problem"]["forms"]
    if len(shown) != len(forms):
        return [f"it has {len(shown)} forms of the program, which has {len(forms)}"]
    found = []
    for form, own in zip(shown, forms, strict=True):
        found += differences_of_form(form, own)
        if form["text"] != sha256(str(own).encode()).hexdigest():
            found.append("another text")
    return found
