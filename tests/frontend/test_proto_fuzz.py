"""Damaged HLO protobufs: only our own errors, and what is read prints, writes and verifies."""

import json
import lzma
import random
import time
from collections.abc import Callable

import pytest
from tests.frontend.proto_cases import CASES, SMALL
from tests.frontend.proto_mutations import damage_bytes, damage_fields
from tests.random_modules.module import random_module
from tests.support import CONFORMANCE

from lowtide.frontend.hlo_proto import (
    read_hlo_proto,
    write_hlo_module_proto,
    write_hlo_module_with_config,
    write_hlo_proto,
)
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import HloProtoError, LowtideError, Module, UnsupportedOpError
from lowtide.verifier import verify

SECONDS_EACH = 60.0
"""Of the processor."""


def check(data: bytes) -> bool:
    """Read damaged data and use the module; return whether it was accepted."""
    start = time.process_time()
    try:
        module = read_hlo_proto(data)
    except (HloProtoError, UnsupportedOpError):
        return False
    finally:
        assert time.process_time() - start < SECONDS_EACH
    text = str(module)
    if not module.origin_recovery_table:
        assert str(read_hlo_proto(write_hlo_module_with_config(module))) == text
    try:
        verify(module)
    except LowtideError as error:
        assert str(error)
    return True


def fuzz(seeds: list[bytes], count: int, seed: int, seconds: float = float("inf")) -> None:
    rng = random.Random(seed)
    end = time.monotonic() + seconds
    accepted = done = 0
    while done < count and time.monotonic() < end:
        data = rng.choice(seeds)
        if rng.random() < 0.3:
            damaged = damage_bytes(rng, data, rng.choice(seeds))
        else:
            damaged = damage_fields(rng, data)
        accepted += check(damaged)
        done += 1
    assert 0.2 * done < accepted < 0.9 * done


def bare(texts: list[str]) -> list[bytes]:
    return [write_hlo_module_proto(parse_hlo(text)) for text in texts]


def test_damaged_modules() -> None:
    fuzz(bare([SMALL, *CASES.values()]), 1200, seed=1)


@pytest.mark.parametrize(
    ("kind", "write"),
    [("HloProto", write_hlo_proto), ("HloModuleProtoWithConfig", write_hlo_module_with_config)],
)
def test_damaged_files_of_other_kinds(kind: str, write: Callable[[Module], bytes]) -> None:
    rng = random.Random(2)
    seeds = [write(parse_hlo(text)) for text in (SMALL, CASES["loop"])]
    for _ in range(150):
        check(damage_bytes(rng, rng.choice(seeds), rng.choice(seeds)))
    accepted = [check(damage_fields(rng, rng.choice(seeds), kind)) for _ in range(150)]
    assert 15 < sum(accepted) < 135


@pytest.mark.slow
def test_damaged_fuzz_of_many_modules(fuzz_seconds: float) -> None:
    fuzz(bare(many_texts()), 10_000, 3, fuzz_seconds)


def many_texts() -> list[str]:
    """Return recorded texts where they are at hand, random modules elsewhere."""
    if not CONFORMANCE.is_dir():
        return [str(random_module(seed)) for seed in range(200)]
    with lzma.open(CONFORMANCE / "hlo_text.jsonl.xz", "rt") as lines:
        records = [json.loads(line) for line in lines]
    texts = [r["text"] for r in records if r["accepted"] and len(r["text"]) < 5000]
    return [text for text in texts if "..." not in text][::3]
