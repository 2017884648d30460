"""Data classes that cost little to define; all rooms make theirs by `dataclass` from here."""

from lowtide.records.record import dataclass, is_frozen

__all__ = ["dataclass", "is_frozen"]
