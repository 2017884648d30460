"""Processors that multiply bytes by different instructions, as far as this one can run them."""

from __future__ import annotations

from dataclasses import replace

from lowtide.llvm.target import Target, host_target, restricted

HOST = host_target()
AVX2 = restricted(HOST, "avx2")


def _without(target: Target, *names: str) -> Target:
    return replace(target, features=tuple([x for x in target.features if x not in names]))


TARGETS = {"native": _without(HOST, "amx-tile"), "avx2": AVX2}
_PAIRS = _without(HOST, "amx-tile", "avx512vnni", "avxvnni")
if TARGETS["native"] != _PAIRS:
    TARGETS["pairs"] = _PAIRS
if HOST.has("avxvnni"):
    features = tuple(sorted([*AVX2.features, "avxvnni"]))
    TARGETS["avx-vnni"] = replace(AVX2, features=features)
