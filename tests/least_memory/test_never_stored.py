"""Values that no minimum cut stores: the contracted network has the cuts of the whole one."""

from pathlib import Path

import numpy as np
import pytest
from tests.generated.layers import layered_module
from tests.least_memory.programs import entry

import lowtide
from lowtide.analysis.dataflow import dataflow
from lowtide.compiler.stages import pipeline
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.least_memory.moments import Moments, When
from lowtide.least_memory.values import values_of
from lowtide.passes import run_pipeline

EXAMPLES = Path(__file__).parents[2] / "examples"


def moments_of(module):
    """The moments of the entry of a module, and of the loops that it runs."""
    return [Moments(values_of(flow, ())) for flow in dataflow(module.entry).values()]


def at_layout(module):
    run_pipeline(module, pipeline("layout"))
    return module


@pytest.mark.parametrize("name", ["mlp", "mnist_cnn", "lstm"])
def test_an_example_has_the_cuts_of_the_whole_network(name):
    module = at_layout(lowtide.read(str(EXAMPLES / f"{name}.hlo.xz")))
    for moments in moments_of(module):
        check(moments, moments.once[::3])


def test_a_generated_step_has_the_cuts_of_the_whole_network():
    (moments,) = moments_of(at_layout(layered_module(1_500)))
    assert moments.arcs > 1_000
    check(moments, moments.once[::7])


def check(moments, numbers):
    """The least at some operations is that of the network with all values."""
    for number in numbers:
        for when in (When.BEFORE, When.DURING, When.AFTER):
            assert moments.least(number, when) == moments.cut(number, when).nbytes


def test_what_is_smaller_than_what_it_is_made_of_is_stored():
    """Bytes that are made of numbers are kept in place of these, also for what is made of them."""
    text = entry(
        """
  p = f32[64] parameter(0)
  x = f32[64] sort(p), dimensions={0}, to_apply=less
  y = s8[64] convert(x)
  s = f32[64] sort(x), dimensions={0}, to_apply=less
  z = f32[64] convert(y)
  t = f32[64] sort(z), dimensions={0}, to_apply=less
  ROOT r = (f32[64], f32[64]) tuple(s, t)
""",
        before="""
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}
""",
    )
    moments = moments_of(parse_hlo(text))[-1]
    names = [x.name for x in moments.values.instructions]
    check(moments, moments.once)
    number = names.index("s")
    stored = moments.cut(number, When.AFTER).stored
    makers = {v: names[i] for i, made in enumerate(moments.values.makes) for v in made}
    assert {makers[v] for v in stored} == {"y", "s"}
    assert moments.least(number, When.AFTER) == 64 + 256
    assert np.all(moments.values.nbytes > 0)
