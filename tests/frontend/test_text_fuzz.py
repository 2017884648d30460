"""Mutated HLO text: only our own errors, and what is accepted prints to a fixed point."""

import json
import lzma
import random
import re
import time

import pytest
from tests.random_modules.module import random_module
from tests.support import CONFORMANCE

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import HloTextError

TOKENS = [
    "{", "}", "(", ")", "[", "]", ",", "=", "%", "ROOT ", "f32", "f32[99999999999999999999]", "-1",
    "{...}", "nan", '"', '"\\x', "/*", "//", "\0", "\xff", "\ud800", "ENTRY ", "1e999", "<=", "?",
    "18446744073709551616", "x", "_", "->", ":", "#1", "metadata={", "{{{{", "((((", "\n", "\r",
    "sharding={devices=[2,2]<=[4]}", "replica_groups={{0,1}}", "window={size=", "s32[]",
    "is_scheduled=true", "f32[4]{0:T(8)}", "custom-call-start", "}, {", "/*index=5*/",
]  # fmt: skip
NUMBERS = [0, 1, -1, 7, 2**31, 2**63, 10**12]


def mutated(rng: random.Random, texts: list[str]) -> str:
    text = rng.choice(texts)
    for _ in range(rng.randint(1, 4)):
        i = rng.randrange(len(text) + 1)
        j = min(len(text), i + rng.randint(0, 30))
        other = rng.choice(texts)
        at = rng.randrange(len(other))
        numbers = list(re.finditer(r"\d+", text))
        number = rng.choice(numbers).span() if numbers else (i, i)
        text = rng.choice(
            [
                text[:i] + text[j:],
                text[:i] + rng.choice(TOKENS) + text[i:],
                text[:i] + text[i:j] * rng.randint(2, 3) + text[j:],
                text[:i],
                text[:i] + other[at : at + rng.randint(1, 80)] + text[j:],
                text[:i] + chr(rng.randrange(0x3000)) + text[i + 1 :],
                text[: number[0]] + str(rng.choice(NUMBERS)) + text[number[1] :],
            ]
        )
    return text


def seeds() -> list[str]:
    """Return texts to mutate: recorded ones where they are at hand, random modules elsewhere."""
    if not CONFORMANCE.is_dir():
        return [str(random_module(seed)) for seed in range(200)]
    with lzma.open(CONFORMANCE / "hlo_text.jsonl.xz", "rt") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    return [text for text in texts if len(text) < 5000]


def fuzz(count: int, seed: int, seconds: float) -> int:
    """Parse mutated texts; return how many were accepted."""
    rng, texts, accepted = random.Random(seed), seeds(), 0
    end = time.monotonic() + seconds
    for _ in range(count):
        text = mutated(rng, texts)
        try:
            module = parse_hlo(text)
        except HloTextError as error:
            assert error.line >= 1
            assert error.column >= 1
            continue
        accepted += 1
        printed = str(module)
        assert str(parse_hlo(printed)) == printed
        if time.monotonic() > end:
            break
    return accepted


def test_mutated_texts() -> None:
    assert fuzz(400, seed=1, seconds=float("inf")) > 0


@pytest.mark.slow
def test_many_mutated_texts(fuzz_seconds: float) -> None:
    assert fuzz(10_000, seed=2, seconds=fuzz_seconds) > 0
