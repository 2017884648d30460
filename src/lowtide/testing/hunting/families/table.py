"""The families by name, in the order in which a document shows them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Final

from lowtide.testing.hunting.family import HuntedFamily

_FAMILIES: Final[Mapping[str, tuple[str, str]]] = {
    "modules": ("modules", "Modules"),
    "orders": ("modules", "Orders"),
    "devices": ("devices", "OnDevices"),
    "plugin": ("plugin", "PluginPrograms"),
    "options": ("options", "UnderOptions"),
    "stored": ("stored", "StoredPrograms"),
    "onnx": ("onnx_graphs", "OnnxGraphs"),
    "tflite": ("tflite_graphs", "LiteGraphs"),
}
"""By name the file and the class: a family is imported where it is hunted."""

NAMES: Final = tuple(_FAMILIES)


def family(name: str) -> HuntedFamily:
    """Return the family of a name; raises KeyError where there is none."""
    file, kind = _FAMILIES[name]
    found = import_module(f"lowtide.testing.hunting.families.{file}")
    made: HuntedFamily = getattr(found, kind)()
    return made
