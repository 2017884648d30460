"""Random graphs: plans against a walk that looks at lives only, and parts against naive ones."""

import random
from itertools import pairwise

import pytest

from lowtide.planning import nnvm
from lowtide.planning.nnvm.allocator import BlockAllocator

OPS = {
    "add2": {"inplace_pairs": [[0, 0], [1, 0]], "pattern": "element_wise"},
    "relu": {"inplace_pairs": [[0, 0]], "pattern": "element_wise"},
    "ident": {"inplace_pairs": [[0, 0]], "identity": [True]},
    "conv": {},
    "split2": {},
    "split2i": {"inplace_pairs": [[0, 0], [0, 1]]},
    "like": {"inplace_pairs": [[0, 0]], "ignore_inputs": [1]},
    "zeros": {"inplace_pairs": [[0, 0]], "ignore_inputs": [0]},
}
ARITY = {"add2": (2, 1), "conv": (2, 1), "like": (2, 1), "split2": (1, 2), "split2i": (1, 2)}
SIZES = (1, 4, 8, 64, 65, 1000, 0)


def random_graph(seed):
    rng = random.Random(seed)
    nodes, entries = [], []
    for number in range(rng.randint(2, 30)):
        op = None if number == 0 or rng.random() < 0.15 else rng.choice(list(OPS))
        inputs, outputs = (0, 1) if op is None else ARITY.get(op, (1, 1))
        read = [rng.choice(entries[-6:] + entries[:1]) for _ in range(inputs)]
        like = nodes[read[0][0]]["sizes"][read[0][1]] if read else rng.choice(SIZES)
        sizes = [like if rng.random() < 0.7 else rng.choice(SIZES) for _ in range(outputs)]
        nodes.append(
            {
                "op": op,
                "inputs": [list(entry) for entry in read],
                "sizes": sizes,
                "dtype": rng.choice(("float32", "float32", "int8", "float64")),
                "device": int(rng.random() < 0.1),
            }
        )
        entries += [(number, output) for output in range(outputs)]
    outputs = [list(rng.choice(entries)) for _ in range(rng.randint(1, 3))]
    return {"nodes": nodes, "outputs": outputs}


def settings(seed):
    variant = ("nnvm", "nnvm", "tvm", "relay")[seed % 4]
    return {
        "match_range": (16, 0, 1, 3)[seed // 4 % 4],
        "num_temp": (1, 1, 3)[seed % 3],
        "variant": variant,
    }


def carry_out(graph, plan, variant):
    """Walk the nodes with what each block holds: whoever reads finds there what was written.

    A value is the number of the entry that was computed; an identity in place passes it on.
    """
    holds, value = {}, {}
    for number, node in enumerate(graph.nodes):
        op = {} if variant == "relay" else OPS.get(node.op, {})
        read = {
            position: graph.entry_id(entry)
            for position, entry in enumerate(node.inputs)
            if position not in op.get("ignore_inputs", ())
        }
        for entry in read.values():
            if plan.storage_id[entry] >= 0:
                assert holds[plan.storage_id[entry]] == value[entry], (number, entry)
        written = set()
        for entry in graph.entries(number):
            block, over = plan.storage_id[entry], plan.inplace_index[entry]
            if block < 0:
                assert node.is_variable
                continue
            assert block not in written, (number, entry)
            written.add(block)
            others = [x for position, x in read.items() if position != over]
            assert block not in [plan.storage_id[x] for x in others] or op.get("identity")
            source = graph.entry_id(node.inputs[over]) if over >= 0 else None
            assert source is None or plan.storage_id[source] == block
            passed = source is not None and op.get("identity")
            value[entry] = holds[block] = value[source] if passed else entry
    for entry in map(graph.entry_id, graph.outputs):
        if plan.storage_id[entry] >= 0:
            assert holds[plan.storage_id[entry]] == value[entry]


@pytest.mark.parametrize("seed", range(400))
def test_what_is_still_read_is_not_overwritten(seed):
    source = random_graph(seed)
    graph = nnvm.read_graph(source)
    options = settings(seed)
    plan = nnvm.plan(graph, ops=OPS, **options)
    carry_out(graph, plan, options["variant"])
    assert plan.bytes == sum(plan.block_bytes)
    if options["variant"] != "relay":
        sizes = [size for node in graph.nodes for size in node.sizes]
        most = [0] * len(plan.block_bytes)
        for block, size in zip(plan.storage_id, sizes, strict=True):
            if block >= 0:
                most[block] = max(most[block], 4 * size)
        assert list(plan.block_bytes) == most
    assert nnvm.plan(source, ops=OPS, **options) == plan


@pytest.mark.parametrize("seed", range(100))
def test_search_finds_the_first_of_the_best_ranges(seed):
    graph = nnvm.read_graph(random_graph(seed))
    fixed = [nnvm.plan(graph, ops=OPS, match_range=x) for x in (1, 2, 4, 8, 16)]
    best = min(fixed, key=lambda plan: plan.bytes)
    assert nnvm.plan(graph, ops=OPS, auto_search_match_range=True) == best


# -- naive doubles of the parts ----------------------------------------------------------------


class NaiveBlocks:
    """All free blocks in one list, looked through as the original does."""

    def __init__(self, match_range, colours):
        self.match_range, self.colours = match_range, colours
        self.nbytes, self.device, self.releaser, self.free = [], [], [], []

    def request(self, device, nbytes, node):
        ordered = sorted(self.free, key=lambda block: self.nbytes[block])  # keeps equal ones apart
        most, least = nbytes * self.match_range, nbytes // (self.match_range or 1)
        larger = [b for b in ordered if nbytes <= self.nbytes[b] <= most]
        smaller = [b for b in ordered if least <= self.nbytes[b] < nbytes]
        for block in [*larger, *reversed(smaller)] if self.match_range else []:
            same = self.colours[self.releaser[block]] == self.colours[node]
            if self.device[block] == device and same:
                self.free.remove(block)
                self.nbytes[block] = max(nbytes, self.nbytes[block])
                return block
        self.nbytes.append(nbytes)
        self.device.append(device)
        self.releaser.append(0)
        return len(self.nbytes) - 1

    def release(self, block, node):
        self.releaser[block] = node
        self.free.append(block)


@pytest.mark.parametrize("seed", range(60))
def test_blocks_match_as_in_one_long_list(seed):
    rng = random.Random(seed)
    nodes = 80
    colours = [rng.randrange(1 + seed % 3) for _ in range(nodes)]
    match_range = rng.choice((0, 1, 2, 16))
    ours, naive = BlockAllocator(match_range, colours), NaiveBlocks(match_range, colours)
    used = []
    for node in range(nodes):
        for _ in range(rng.randint(0, 3)):
            request = rng.randrange(1 + seed % 2), rng.choice((0, 1, 4, 5, 8, 8, 16, 100)), node
            used.append(naive.request(*request))
            assert ours.request(*request) == used[-1]
        for _ in range(rng.randint(0, min(3, len(used)))):
            block = used.pop(rng.randrange(len(used)))
            ours.release(block, node)
            naive.release(block, node)
    assert ours.block_bytes == naive.nbytes
    assert ours.total_bytes == sum(naive.nbytes)


@pytest.mark.parametrize("seed", range(60))
def test_nodes_of_a_colour_run_one_after_another(seed):
    graph = nnvm.read_graph(random_graph(seed))
    reach = [set() for _ in graph.nodes]
    for number, node in enumerate(graph.nodes):
        for source, _ in node.inputs:
            reach[number] |= reach[source] | {source}
    for most in (2, 3, 5):
        colours = nnvm.colour_nodes(graph, most)
        assert max(colours) < most
        for colour in range(max(colours)):
            alike = [k for k, x in enumerate(colours) if x == colour]
            assert alike
            assert all(a in reach[b] for a, b in pairwise(alike))


def test_the_first_colour_is_a_longest_path():
    nodes = [{"op": None, "inputs": [], "sizes": [1]}]
    nodes += [{"op": "conv", "inputs": [[k, 0], [k, 0]], "sizes": [1]} for k in (0, 1, 0, 3, 4)]
    graph = nnvm.read_graph({"nodes": nodes, "outputs": [[2, 0], [5, 0]]})
    assert nnvm.colour_nodes(graph, 2) == [1, 1, 1, 0, 0, 0]
    assert nnvm.colour_nodes(graph, 3) == [2, 1, 1, 0, 0, 0]


def test_of_equal_paths_the_later_one_is_first():
    nodes = [{"op": None, "inputs": [], "sizes": [1]}]
    nodes += [{"op": "conv", "inputs": [[k, 0], [k, 0]], "sizes": [1]} for k in (0, 0)]
    apart = [nodes[0], nodes[0]]
    apart += [{"op": "conv", "inputs": [[k, 0], [k, 0]], "sizes": [1]} for k in (0, 1)]
    apart = nnvm.read_graph({"nodes": apart, "outputs": [[2, 0], [3, 0]]})
    assert nnvm.colour_nodes(apart, 2) == [1, 1, 1, 0]
    nodes += [{"op": "conv", "inputs": [[k, 0], [k, 0]], "sizes": [1]} for k in (1, 1)]
    forked = nnvm.read_graph({"nodes": nodes, "outputs": [[2, 0], [3, 0], [4, 0]]})
    assert nnvm.colour_nodes(forked, 3) == [2, 0, 2, 1, 0]
