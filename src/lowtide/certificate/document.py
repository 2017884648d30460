"""Certificates as files: which files are meant to be one, and how one is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from lowtide.files.writing import write_text
from lowtide.planning.certificates import certificate_text
from lowtide.planning.plans import ObjectsAssignment, OffsetsAssignment

_SIGNS: Final = (b'"lowtide.certificate/', b'"evidence":', b'"sha256":')
"""What no other document has; one of them is left where a certificate is damaged a little."""


def certify(assignment: OffsetsAssignment | ObjectsAssignment) -> dict[str, Any]:
    """Return the certificate of a plan; raises ValueError as its method `certificate` does."""
    return assignment.certificate()


def write_certificate(assignment: OffsetsAssignment | ObjectsAssignment, path: Path) -> None:
    """Write the certificate of a plan to a file, as compact JSON."""
    write_text(path, certificate_text(certify(assignment)))


def is_certificate(data: bytes) -> bool:
    """Whether the bytes of a file are meant to be a certificate, be it right or not."""
    return data.lstrip()[:1] == b"{" and any(sign in data for sign in _SIGNS)
