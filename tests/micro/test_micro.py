"""Plans for microcontrollers: orders, offsets, places shared, files and arenas."""

import json
import re

import numpy as np
import pytest
from tests.frontend.tflite.making import Graph, Text, model_bytes

from lowtide.cli.main import main
from lowtide.frontend.tflite.model import read_tflite
from lowtide.ir.errors import InputError
from lowtide.micro.arena import _reason
from lowtide.micro.banks import Bank, BankError, plan_banks
from lowtide.micro.lifetimes import LINE, lifetimes
from lowtide.micro.planned import planned_model
from lowtide.micro.planning import plan_micro, shared_numbers
from lowtide.micro.writing import OFFLINE_PLAN, planned_file


def chain(width=64):
    """(x + c)^2 + x, where x lives to the end."""
    graph = Graph()
    shape = (1, width)
    x = graph.given(shape)
    c = graph.constant(np.arange(width).reshape(shape))
    t = graph.op("ADD", [x, c], shape)
    u = graph.op("MUL", [t, t], shape)
    graph.outputs = [graph.op("ADD", [u, x], shape)]
    return model_bytes(graph)


def residual(size=12, channels=8):
    """Convolutions of 8-bit numbers around which their input goes, pooled at the end."""
    graph = Graph()
    generator = np.random.default_rng(4)
    shape = (1, size, size, channels)
    x = graph.given(shape, "int8", 0.05, 3)
    before = x
    for _ in range(2):
        scales = np.linspace(0.003, 0.01, channels).astype(np.float32)
        zeros = np.zeros(channels, int)
        sizes = (channels, 3, 3, channels)
        weights = generator.integers(-127, 128, sizes).astype(np.int8)
        filters = graph.constant(weights, "int8", scales, zeros)
        bias = graph.constant(zeros, "int32", scales * np.float32(0.05), zeros)
        options = {0: 0, 1: 1, 2: 1, 3: 1}
        made = graph.op("CONV_2D", [before, filters, bias], shape, options, "int8", 0.05, 3)
        before = graph.op("ADD", [made, before], shape, {0: 0}, "int8", 0.05, 3)
    half = (1, size // 2, size // 2, channels)
    pool = {0: 1, 1: 2, 2: 2, 3: 2, 4: 2}
    graph.outputs = [graph.op("MAX_POOL_2D", [before], half, pool, "int8", 0.05, 3)]
    return model_bytes(graph)


def branches(count=4, width=64):
    """Branches that are wide inside and narrow at their ends, written side by side."""
    graph = Graph()
    generator = np.random.default_rng(3)
    x = graph.given((1, 8))
    wide = []
    for _ in range(count):
        weights = graph.constant(generator.normal(size=(width, 8)))
        bias = graph.constant(generator.normal(size=width))
        wide.append(graph.op("FULLY_CONNECTED", [x, weights, bias], (1, width)))
    narrow = []
    for each in wide:
        weights = graph.constant(generator.normal(size=(4, width)))
        bias = graph.constant(generator.normal(size=4))
        narrow.append(graph.op("FULLY_CONNECTED", [each, weights, bias], (1, 4)))
    total = narrow[0]
    for each in narrow[1:]:
        total = graph.op("ADD", [total, each], (1, 4))
    graph.outputs = [total]
    return model_bytes(graph)


def drawn(seed):
    """A random graph of sums, products and functions of one row."""
    generator = np.random.default_rng(seed)
    graph = Graph()
    made = [graph.given((1, 16)), graph.given((1, 16))]
    for _ in range(int(generator.integers(3, 12))):
        name = str(generator.choice(["ADD", "MUL", "RELU", "LOGISTIC", "ABS"]))
        count = 2 if name in ("ADD", "MUL") else 1
        given = [made[i] for i in generator.integers(0, len(made), count)]
        made.append(graph.op(name, given, (1, 16)))
    graph.outputs = [made[-1], made[-2]]
    return model_bytes(graph)


MODELS = {
    "chain": chain(),
    "branches": branches(),
    "residual": residual(),
    **{f"drawn{i}": drawn(i) for i in range(8)},
}


def run_micro(content, seed=5):
    """Outputs of the package tflite-micro on random inputs."""
    runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime")
    interpreter = runtime.Interpreter.from_bytes(content, arena_size=1 << 20)
    generator = np.random.default_rng(seed)
    model = read_tflite(content)
    for number in range(len(model.main.inputs)):
        wanted = interpreter.get_input_details(number)
        most = 1 if wanted["dtype"] is np.float32 else 100
        values = generator.uniform(-most, most, wanted["shape"]).astype(wanted["dtype"])
        interpreter.set_input(values, number)
    interpreter.invoke()
    return [interpreter.get_output(i) for i in range(len(model.main.outputs))]


def overlaps(model, plan):
    """Pairs of tensors that lie over one another while both live, but not one after the other."""
    found = []
    lives = list(plan.lifetimes)
    for i, a in enumerate(lives):
        for b in lives[i + 1 :]:
            if a.last < b.first or b.last < a.first:
                continue
            x, y = plan.offsets[a.tensor], plan.offsets[b.tensor]
            meets = x < y + b.nbytes and y < x + a.nbytes
            handed_on = plan.overwrites.get(b.tensor) == a.tensor and a.last == b.first
            handed_on |= plan.overwrites.get(a.tensor) == b.tensor and b.last == a.first
            if meets and not (handed_on and x == y):
                found.append((a, b))
    return found


@pytest.mark.parametrize("name", MODELS)
def test_plans_are_free_of_overlap(name):
    model = read_tflite(MODELS[name])
    plan = plan_micro(model)
    assert sorted(plan.order) == list(range(len(model.main.operators)))
    assert overlaps(model, plan) == []
    assert all(x % LINE == 0 for x in plan.offsets.values())
    assert {x.tensor for x in plan.lifetimes} == set(plan.offsets)
    ends = [plan.offsets[x.tensor] + x.nbytes for x in plan.lifetimes]
    assert plan.bound_bytes <= plan.live_bytes <= plan.head_bytes == max(ends)


@pytest.mark.parametrize("name", MODELS)
def test_firmware_runs_the_planned_file(name):
    model = read_tflite(MODELS[name])
    made = planned_model(model)
    for ours, theirs in zip(run_micro(made.content), run_micro(MODELS[name]), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert made.size.is_measured
    if made.before is not None:
        assert made.size.arena_bytes <= made.before.arena_bytes


def test_results_take_the_place_of_what_ends():
    plan = plan_micro(read_tflite(chain()))
    assert plan.head_bytes == 512
    assert set(plan.overwrites) == {3, 4}


def test_the_order_lowers_the_peak():
    model = read_tflite(branches())
    plan = plan_micro(model)
    written = [x.nbytes for x in lifetimes(model.main, range(len(plan.order)))]
    assert plan.is_reordered
    assert plan.head_bytes < sum(written) / 2
    again = read_tflite(planned_file(model, plan))
    inputs = [x.inputs for x in again.main.operators]
    assert inputs == [model.main.operators[x].inputs for x in plan.order]


def test_the_file_keeps_its_tensors_and_buffers():
    model = read_tflite(branches())
    plan = plan_micro(model)
    again = read_tflite(planned_file(model, plan))
    for ours, theirs in zip(again.main.tensors, model.main.tensors, strict=True):
        assert (ours.name, ours.type, ours.shape) == (theirs.name, theirs.type, theirs.shape)
        assert (ours.data is None) == (theirs.data is None)
        if ours.data is not None:
            np.testing.assert_array_equal(ours.data, theirs.data)
    words = again.metadata[OFFLINE_PLAN].view("<i4").tolist()
    offsets = [plan.offsets.get(x.number, -1) for x in model.main.tensors]
    assert words == [1, 1, len(offsets), *offsets]
    thrice = read_tflite(planned_file(again, plan_micro(again)))
    assert list(thrice.metadata) == [OFFLINE_PLAN]


def test_a_model_whose_subgraphs_share_all_numbers_stays_as_it_is():
    graph = Graph()
    graph.outputs = [graph.op("ABS", [graph.given((1, 4))], (1, 4))]
    model = read_tflite(model_bytes(graph, graph))
    made = planned_model(model)
    assert made.content == model.source.data
    assert "2 subgraphs" in made.plan.caveats[0]


def test_hot_and_small_tensors_lie_in_the_first_memory():
    model = read_tflite(branches())
    plan = plan_micro(model)
    small, large = plan_banks(model.main, plan, [Bank("a", 96), Bank("b", 1 << 20)])
    assert small.used_bytes <= 96
    assert set(small.offsets) | set(large.offsets) == set(plan.offsets)
    size = {x.tensor: x.nbytes for x in plan.lifetimes}
    assert max([size[x] for x in small.offsets]) <= min([size[x] for x in large.offsets])
    with pytest.raises(BankError, match="fit none of a"):
        plan_banks(model.main, plan, [Bank("a", 96)])


def test_damaged_files_are_one_error():
    content = branches(2, 8)
    for length in range(0, len(content), 7):
        refuse_or_plan(content[:length])
    generator = np.random.default_rng(1)
    refused = 0
    for _ in range(400):
        damaged = bytearray(content)
        for place in generator.integers(8, len(content), 3):
            damaged[place] = generator.integers(0, 256)
        refused += refuse_or_plan(bytes(damaged))
    assert refused > 50


def refuse_or_plan(content):
    try:
        model = read_tflite(content, "m.tflite")
        if sum([x.nbytes for x in model.main.tensors]) < 1 << 24:
            planned_file(model, plan_micro(model))
    except InputError as error:
        assert str(error).startswith("m.tflite: ")
        return True
    return False


def test_entries_that_are_referred_to_again_and_again_are_refused():
    graph = Graph()
    graph.outputs = [graph.given((1, 4))]
    source = read_tflite(model_bytes(*[graph] * 50)).source
    assert len(source.root().table_list(2, "subgraphs")) == 50
    source.left = 49
    with pytest.raises(InputError, match="again and again"):
        source.root().table_list(2, "subgraphs")


def test_the_command(tmp_path, capsys):
    path, planned = tmp_path / "m.tflite", tmp_path / "planned.tflite"
    path.write_bytes(branches())
    words = ["plan", str(path), "--target", "tflm", "--bank", "sram=200B", "--bank", "psram=1MiB"]
    assert main([*words, "-o", str(planned), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "lowtide.tflm/1"
    assert [x["name"] for x in document["banks"]] == ["sram", "psram"]
    assert OFFLINE_PLAN in read_tflite(planned.read_bytes()).metadata
    header = (tmp_path / "planned.h").read_text()
    sizes = dict(re.findall(r"enum \{ (\w+) = (\d+) \};", header))
    assert int(sizes["kTensorArenaSize"]) == document["arena"]["arena_bytes"]
    assert main(["explain", str(path)]) == 0
    assert "At the peak" in capsys.readouterr().out
    assert main(["plan", str(path)]) == 1
    assert "--target tflm" in capsys.readouterr().err
    assert main(["plan", str(path), "--target", "tflm", "--bank", "sram"]) == 1
    capsys.readouterr()
    path.write_bytes(branches()[:100])
    assert main(["explain", str(path)]) == 1
    assert capsys.readouterr().err.startswith(f"error: {path}: model")


def counting():
    """A chain around a variable that a second subgraph begins, of as many tensors as fit."""
    graph, once = Graph(), Graph()
    handles = [x.tensor((), "resource") for x in (graph, once)]
    graph.ops("CALL_ONCE", [], [], {0: 1})
    x = graph.given((4, 64))
    graph.ops("VAR_HANDLE", [], [handles[0]], {1: Text("total")})
    before = graph.op("READ_VARIABLE", [handles[0]], (4, 64))
    y = graph.op("ADD", [before, x], (4, 64), {0: 0})
    graph.ops("ASSIGN_VARIABLE", [handles[0], y], [])
    for name in ("LOGISTIC", "ABS", "LOGISTIC"):
        y = graph.op(name, [y], (4, 64))
    graph.outputs = [y]
    once.ops("VAR_HANDLE", [], [handles[1]], {1: Text("total")})
    start = once.constant(np.full((4, 64), 0.25, np.float32))
    once.ops("ASSIGN_VARIABLE", [handles[1], start], [])
    return model_bytes(graph, once)


def test_tensors_whose_numbers_other_subgraphs_share_have_no_offsets():
    """So the metadata mean the same to firmware of either way to count."""
    model = read_tflite(counting())
    assert shared_numbers(model) == {0}
    plan = plan_micro(model)
    assert plan.is_planned
    assert 0 not in plan.offsets
    assert 0 < plan.bound_bytes <= plan.live_bytes <= plan.head_bytes
    planned = read_tflite(planned_file(model, plan))
    words = np.frombuffer(planned.metadata["OfflineMemoryAllocation"].tobytes(), "<i4")
    tensors = [len(x.tensors) for x in planned.graphs]
    assert words[:3].tolist() == [1, 2, sum(tensors)]
    assert set(words[3 + tensors[0] :].tolist()) == {-1}
    assert words[3] == -1


def test_firmware_runs_several_subgraphs_with_offsets():
    content = counting()
    planned = planned_file(read_tflite(content), plan_micro(read_tflite(content)))
    assert planned != content
    for seed in range(3):
        for x, y in zip(run_micro(content, seed), run_micro(planned, seed), strict=True):
            np.testing.assert_array_equal(x, y)


def test_why_firmware_cannot_run_a_model_is_said():
    printed = (
        b"INFO: x\nFailed to get registration from op code CUSTOM\n\nTraceback (most recent call"
    )
    printed += b" last):\n  File x\nRuntimeError: arena"
    assert _reason(printed) == ": Failed to get registration from op code CUSTOM"
    alone = (
        b"Traceback (most recent call last):\n  File x\nModuleNotFoundError: No module named 'y'"
    )
    assert _reason(alone) == ": ModuleNotFoundError: No module named 'y'"
    assert not _reason(b"")
