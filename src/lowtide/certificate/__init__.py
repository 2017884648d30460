"""What is proved about a plan, as JSON, and the stand-alone checker of it."""

from lowtide.certificate.checker import NOT_CERTIFIED, OPTIMAL, REJECTED, Verdict, check
from lowtide.certificate.document import certify, is_certificate, write_certificate

__all__ = [
    "NOT_CERTIFIED",
    "OPTIMAL",
    "REJECTED",
    "Verdict",
    "certify",
    "check",
    "is_certificate",
    "write_certificate",
]
