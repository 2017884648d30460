"""Certificates of plans as JSON, and the checker that shares no code with their maker."""

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
