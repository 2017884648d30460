"""All passes together keep what a program computes, on random modules."""

from pathlib import Path

import pytest
from tests.random_modules import MEMORY, Recipe, random_module
from tests.support import CORPUS, EXAMPLES, needs_shared

import lowtide
from lowtide import compiler
from lowtide.checking.tolerances import assert_values_close
from lowtide.compiler.stages import STAGES, pipeline
from lowtide.evaluator import evaluate
from lowtide.ir import LowtideError
from lowtide.ir.clone import clone_module
from lowtide.passes.instrumentation import Checking
from lowtide.reduce.shrink import shrink
from lowtide.reduce.shrink.arguments import likely_arguments
from lowtide.reduce.shrink.faults import FACTOR, SEEDS
from lowtide.testing.check_pass import assert_same_values
from lowtide.verifier import verify

RECIPES = (MEMORY, Recipe(max_instructions=40))


def check(seed: int) -> None:
    module = random_module(seed, RECIPES[seed % len(RECIPES)])
    module.schedule = None
    original = clone_module(module)
    compiler.optimize(module, compiler.PlanOptions("fused"), [Checking(verify)])
    assert_same_values(original, module, seeds=1)


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_random_modules(first: int) -> None:
    for seed in range(first, first + 50):
        check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(400, 20_000, 200))
def test_many_random_modules(first: int) -> None:
    for seed in range(first, first + 200):
        check(seed)


def check_shrunk(path: Path) -> None:
    """All passes together keep what a program computes whose arrays are small."""
    small = shrink(lowtide.read(path))
    optimized = clone_module(small)
    compiler.optimize(optimized, compiler.PlanOptions("fused"), [Checking(verify)])
    for seed in SEEDS:
        arguments = likely_arguments(small, seed)
        expected, found = evaluate(small, arguments), evaluate(optimized, arguments)
        assert_values_close(found, expected, small.entry.root.shape, factor=FACTOR)


@pytest.mark.parametrize("name", ["mlp", "mnist_cnn", "lstm", "llama_1b"])
def test_shrunk_examples(name: str) -> None:
    check_shrunk(EXAMPLES / f"{name}.hlo.xz")


@needs_shared
@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.xz")), ids=lambda x: x.name.split(".hlo")[0])
def test_shrunk_corpus(path: Path) -> None:
    check_shrunk(path)


def test_each_stage_has_the_passes_of_those_before() -> None:
    lengths = [len(pipeline(stage)) for stage in STAGES]
    assert lengths == sorted(lengths)
    assert lengths[0] == 0 < lengths[1]
    with pytest.raises(LowtideError, match="no stage 'fuse'; there are: input, simplified"):
        pipeline("fuse")
