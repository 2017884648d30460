"""SavedModels without TensorFlow: one that TensorFlow wrote, and what is wrong with a folder."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.support import HANG_SECONDS

from lowtide.cli.main import main
from lowtide.evaluator import evaluate
from lowtide.frontend.files import read_input
from lowtide.frontend.graphs.graph import GraphError, GraphNode, OpGraph
from lowtide.frontend.tensorflow.bundle import CheckpointBundle
from lowtide.frontend.tensorflow.messages import parse
from lowtide.frontend.tensorflow.resources import Stateless
from lowtide.frontend.tensorflow.saved_model import read_saved_model
from lowtide.ir.errors import InputError

COUNTER = Path(__file__).parent / "saved_counter"
"""A module of TensorFlow 2: `v` [2, 3] of ones and `n` 0. A call adds 1 to n, adds x to v where the
sum of x is above 0, else takes it away, and halves v three times."""


def stepped(x, count):
    v = np.ones((2, 3), np.float32)
    found = []
    for number in range(count):
        v = (v + x if x.sum() > 0 else v - x) * np.float32(0.125)
        found.append((number + 1, v))
    return found


@pytest.mark.parametrize("sign", [1, -1])
def test_variables_branches_and_loops_over_several_calls(sign):
    x = (np.arange(6, dtype=np.float32).reshape(2, 3) - 2) * sign
    program = read_saved_model(COUNTER)
    state = [program.state[i] for i in sorted(program.state)]
    assert [y.shape for y in state] in ([(), (2, 3)], [(2, 3), ()])
    for count, wanted in stepped(x, 3):
        n, v, *state = evaluate(program.module, [x, *state])
        assert int(n) == count
        np.testing.assert_allclose(v, wanted, rtol=1e-6)


def test_what_changes_may_be_written_over_what_is_given():
    module = read_saved_model(COUNTER).module
    pairs = [(x.output_index, x.parameter) for x in module.input_output_aliases]
    assert pairs == [((2,), 1), ((3,), 2)]


def test_commands_start_with_the_values_of_the_checkpoint(capsys):
    found = read_input(COUNTER)
    assert sorted(found.initial) == [1, 2]
    assert main(["run", str(COUNTER), "--reference", "--json"]) == 0
    outputs = json.loads(capsys.readouterr().out)["outputs"]
    assert [x["shape"] for x in outputs] == ["s32[]", "f32[2,3]", "s32[]", "f32[2,3]"]
    assert main(["explain", str(COUNTER)]) == 0


def test_the_tensors_of_a_checkpoint():
    bundle = CheckpointBundle(COUNTER / "variables" / "variables")
    values = {x: bundle.array(x) for x in bundle.tensors if "VARIABLE_VALUE" in x}
    assert sorted([y.shape for y in values.values()]) == [(), (2, 3)]
    assert all((y == 1).all() or not y.any() for y in values.values())
    with pytest.raises(InputError, match="holds no tensor"):
        bundle.array("v")


def copied(tmp_path):
    shutil.copytree(COUNTER, tmp_path / "m")
    return tmp_path / "m"


def test_a_folder_without_variables(tmp_path):
    folder = copied(tmp_path)
    shutil.rmtree(folder / "variables")
    with pytest.raises(InputError, match=r"variables\.index: no such file: the weights"):
        read_saved_model(folder)


def test_a_missing_shard(tmp_path):
    folder = copied(tmp_path)
    (folder / "variables" / "variables.data-00000-of-00001").write_bytes(b"1234")
    with pytest.raises(InputError, match=r"data-00000-of-00001: ends before tensor"):
        read_saved_model(folder)


@pytest.mark.parametrize("place", [3, 60, 150, -47, -1])
def test_a_damaged_index(tmp_path, place):
    folder = copied(tmp_path)
    path = folder / "variables" / "variables.index"
    data = bytearray(path.read_bytes())
    data[place] ^= 255
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"variables\.index"):
        read_saved_model(folder)


@pytest.mark.parametrize("size", [0, 1, 47, 48, 100])
def test_a_short_index(tmp_path, size):
    folder = copied(tmp_path)
    path = folder / "variables" / "variables.index"
    path.write_bytes(path.read_bytes()[-size:] if size else b"")
    with pytest.raises(InputError, match=r"variables\.index"):
        read_saved_model(folder)


def changed(folder, change):
    """The model's message after a change, written back."""
    path = folder / "saved_model.pb"
    proto = parse("SavedModel", path.read_bytes(), str(path))
    change(proto.meta_graphs[0])
    path.write_bytes(proto.SerializeToString())


def test_a_checkpoint_of_another_shape(tmp_path):
    folder = copied(tmp_path)

    def widen(meta):
        nodes = [x for x in meta.graph_def.node if x.op == "VarHandleOp"]
        for node in nodes:
            for entry in node.attr:
                if entry.key == "shape" and len(entry.value.shape.dim):
                    entry.value.shape.dim[1].size = 4

    changed(folder, widen)
    with pytest.raises(
        InputError, match=r"'total' takes \[2, 4\], and the checkpoint has \[2, 3\]"
    ):
        read_saved_model(folder)


def test_wrong_names_are_told_with_the_nearest():
    with pytest.raises(InputError, match="no signature 'serving_defalt'; did you mean"):
        read_saved_model(COUNTER, "serving_defalt")
    with pytest.raises(InputError, match="has no input 'y'; it has "):
        read_saved_model(COUNTER, shapes={"y": (2, 3)})
    with pytest.raises(InputError, match=r"'x' takes \[2, 3\], not \[2, 4\]"):
        read_saved_model(COUNTER, shapes={"x": (2, 4)})


def test_open_sizes_are_named(tmp_path):
    folder = copied(tmp_path)

    def open_first(meta):
        for entry in meta.signature_def:
            for given in entry.value.inputs:
                given.value.tensor_shape.dim[0].size = -1

    changed(folder, open_first)
    with pytest.raises(InputError, match=r"open: x \[-1, 3\]; give them: --shape x=1,3"):
        read_saved_model(folder)
    assert read_saved_model(folder, shapes={"x": (2, 3)}).signature.inputs[0].name == "x"


def test_functions_that_call_themselves():
    node = GraphNode("c", "PartitionedCall", ("x:0",), ("c:0",), {"f": "again"})
    graph = OpGraph("again", ("x:0",), (node,), ("c:0",))
    with pytest.raises(GraphError, match="call each other over"):
        Stateless({"again": graph}).graph(graph)


def test_a_read_of_what_is_no_variable():
    node = GraphNode("r", "ReadVariableOp", ("x:0",), ("r:0",))
    with pytest.raises(GraphError, match="no handle of a variable"):
        Stateless({}).graph(OpGraph("g", ("x:0",), (node,), ("r:0",)))


def test_order_of_reads_and_updates_is_that_of_control_inputs():
    """The read that waits for the update has the new value, the other one the old."""
    nodes = (
        GraphNode("late", "ReadVariableOp", ("v:0",), ("late:0",), {}, ("add",)),
        GraphNode("add", "AssignAddVariableOp", ("v:0", "x:0"), (), {}, ("early",)),
        GraphNode("early", "ReadVariableOp", ("v:0",), ("early:0",)),
        GraphNode("v", "VarHandleOp", (), ("v:0",), {"shared_name": b"v"}),
    )
    found = Stateless({}).graph(OpGraph("g", ("x:0",), nodes, ("early:0", "late:0")))
    assert found.graph.outputs == ("variable v:0", "add:0", "add:0")
    assert found.assigned == {"v"}


MODELS = """
import sys
import numpy as np
import tensorflow as tf

out, layers = sys.argv[1], tf.keras.layers
draw = np.random.default_rng(0)


def save(name, module, function, inputs, count=2):
    tf.saved_model.save(module, f"{out}/{name}", signatures={"serving_default": function})
    loaded = tf.saved_model.load(f"{out}/{name}").signatures["serving_default"]
    found = {"in:" + x: y for x, y in inputs.items()}
    for step in range(count):
        results = loaded(**{x: tf.constant(y) for x, y in inputs.items()})
        found |= {f"out:{step}:{x}": y.numpy() for x, y in results.items()}
    np.savez(f"{out}/{name}.npz", **found)


def model(name, parts, sizes):
    network = tf.keras.Sequential([tf.keras.Input(sizes[1:]), *parts])
    spec = [tf.TensorSpec(sizes, tf.float32, name="x")]
    function = tf.function(lambda x: {"y": network(x, training=False)}, input_signature=spec)
    save(name, network, function, {"x": draw.uniform(-1, 1, sizes).astype(np.float32)})


model("cnn", [layers.Conv2D(8, 3, padding="same", activation="relu"), layers.BatchNormalization(),
    layers.MaxPooling2D(), layers.DepthwiseConv2D(3), layers.GlobalAveragePooling2D(),
    layers.Dense(5, activation="softmax")], (2, 16, 16, 3))
model("lstm", [layers.LSTM(6, return_sequences=True), layers.LSTM(5), layers.Dense(2)], (2, 7, 4))
model("gru", [layers.GRU(6)], (2, 7, 4))
x = tf.keras.Input((6, 8))
y = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 4)(x, x))
network = tf.keras.Model(x, layers.Dense(3)(y))
spec = [tf.TensorSpec((2, 6, 8), tf.float32, name="x")]
save("attention", network, tf.function(lambda x: {"y": network(x)}, input_signature=spec),
    {"x": draw.uniform(-1, 1, (2, 6, 8)).astype(np.float32)})


class Training(tf.Module):
    def __init__(self, optimizer):
        self.m = tf.keras.Sequential([tf.keras.Input((4,)), layers.Dense(8, activation="tanh"),
            layers.Dense(2)])
        self.o = optimizer
        self.o.build(self.m.trainable_variables)
        self.step = tf.function(self.one, input_signature=[
            tf.TensorSpec((5, 4), tf.float32, name="x"),
            tf.TensorSpec((5, 2), tf.float32, name="y")])

    def one(self, x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self.m(x) - y) ** 2)
        weights = self.m.trainable_variables
        self.o.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return {"loss": loss}


for name, optimizer in [("sgd", tf.keras.optimizers.SGD(0.05, momentum=0.9)),
                        ("adam", tf.keras.optimizers.Adam(0.05))]:
    module = Training(optimizer)
    inputs = {"x": draw.uniform(-1, 1, (5, 4)), "y": draw.uniform(-1, 1, (5, 2))}
    save(name, module, module.step, {k: v.astype(np.float32) for k, v in inputs.items()}, 4)


class Loops(tf.Module):
    def __init__(self):
        self.v = tf.Variable(tf.ones((2, 3)), name="total")
        spec = [tf.TensorSpec((2, 3), tf.float32, name="x")]
        self.run = tf.function(self.one, input_signature=spec)

    def one(self, x):
        entries = tf.TensorArray(tf.float32, size=4, element_shape=(3,))
        state = tf.zeros(3)
        for i in tf.range(4):
            state = tf.tanh(state + x[i % 2])
            entries = entries.write(i, state)
        k = 0
        while k < 3:
            self.v.assign(self.v * 0.5 + x)
            k += 1
        return {"v": self.v.read_value(), "all": entries.stack(),
                "c": tf.switch_case(tf.cast(state[0] > 0, tf.int32), [lambda: x, lambda: -x])}


def serve(name, function, inputs, module=None, count=2):
    module = module or tf.Module()
    spec = [tf.TensorSpec(v.shape, v.dtype, name=k) for k, v in inputs.items()]
    module.served = tf.function(function, input_signature=spec)
    save(name, module, module.served, inputs, count)


def uniform(*sizes):
    return draw.uniform(-1, 1, sizes).astype(np.float32)


model("bidirectional", [layers.Bidirectional(layers.LSTM(6, return_sequences=True)),
    layers.Bidirectional(layers.GRU(5)), layers.Dense(2)], (2, 7, 4))
model("convlstm", [layers.ConvLSTM2D(4, 3, padding="same", return_sequences=True),
    layers.ConvLSTM2D(3, 3)], (1, 4, 10, 10, 2))
model("three", [layers.Conv3D(4, 3), layers.MaxPooling3D(2), layers.Conv3DTranspose(3, 2, 2),
    layers.GlobalAveragePooling3D()], (2, 7, 7, 7, 2))
x = tf.keras.Input((16, 16, 3))
down = layers.Conv2D(8, 3, padding="same", activation="relu")(x)
low = layers.Conv2D(8, 3, dilation_rate=2, padding="same")(layers.MaxPooling2D()(down))
up = layers.Concatenate()([layers.Conv2DTranspose(8, 3, 2, padding="same")(low), down,
    layers.UpSampling2D(interpolation="bilinear")(low)])
network = tf.keras.Model(x, layers.Conv2D(2, 1, activation="softmax")(up))
serve("unet", lambda x: {"y": network(x)}, {"x": uniform(2, 16, 16, 3)}, network)
x = tf.keras.Input((6,), dtype="int32")
y = layers.Embedding(30, 8, mask_zero=True)(x)
y = layers.LayerNormalization()(y + layers.MultiHeadAttention(2, 4)(y, y, use_causal_mask=True))
words = tf.keras.Model(x, layers.Dense(8)(layers.Dense(16, activation="gelu")(y)))
serve("transformer", lambda x: {"y": words(x)},
    {"x": np.array([[1, 2, 3, 0, 0, 0], [4, 5, 6, 7, 8, 0]], np.int32)}, words)
a, b = tf.keras.Input((3,), name="a"), tf.keras.Input((1,), dtype="int64", name="b")
normal = layers.Normalization()
normal.adapt(uniform(50, 3))
y = layers.Concatenate()([normal(a), layers.CategoryEncoding(6, "one_hot")(b),
    layers.Flatten()(layers.Embedding(5, 3)(layers.IntegerLookup(vocabulary=[3, 5, 9])(b))),
    layers.Discretization([-0.5, 0.0, 0.5], output_mode="one_hot")(layers.Dense(1)(a))])
tabular = tf.keras.Model({"a": a, "b": b}, layers.Dense(1, activation="sigmoid")(y))
serve("tabular", lambda a, b: {"y": tabular({"a": a, "b": b})},
    {"a": uniform(4, 3), "b": np.array([[3], [1], [5], [2]])}, tabular)
noisy = tf.keras.Sequential([tf.keras.Input((4,)), layers.Dense(50), layers.Dropout(0.5, seed=3),
    layers.GaussianNoise(0.1, seed=4)])
noisy.kept = [x.seed_generator.state.value for x in noisy.layers[1:]]
serve("dropout", lambda x: {"y": noisy(x, training=True)}, {"x": uniform(2, 4)}, noisy, 3)
serve("map_fn", lambda x: {"y": tf.map_fn(lambda r: tf.reduce_sum(r * r) + r, x)},
    {"x": uniform(5, 3)})


def train(name, parts, sizes, targets, loss):
    module = tf.Module()
    module.m = tf.keras.Sequential([tf.keras.Input(sizes[1:]), *parts])
    module.o = tf.keras.optimizers.RMSprop(0.01)
    module.o.build(module.m.trainable_variables)

    def one(x, y):
        with tf.GradientTape() as tape:
            found = loss(y, module.m(x, training=True))
        weights = module.m.trainable_variables
        module.o.apply_gradients(zip(tape.gradient(found, weights), weights))
        return {"loss": found}

    serve(name, one, {"x": uniform(*sizes), "y": targets}, module, 3)


train("train_cnn", [layers.Conv2D(4, 3, padding="same"), layers.BatchNormalization(),
    layers.ReLU(), layers.MaxPooling2D(), layers.DepthwiseConv2D(3), layers.AveragePooling2D(2),
    layers.Flatten(), layers.Dense(3)], (4, 12, 12, 3), np.array([0, 1, 2, 1]),
    tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
train("train_lstm", [layers.LSTM(5), layers.Dense(2)], (4, 6, 3), uniform(4, 2),
    tf.keras.losses.MeanSquaredError())
module = Loops()
save("loops", module, module.run, {"x": draw.uniform(-1, 1, (2, 3)).astype(np.float32)}, 3)
"""


@pytest.mark.slow
def test_models_that_tensorflow_makes(tmp_path):
    import importlib.util
    import subprocess
    import sys

    if importlib.util.find_spec("tensorflow") is None:
        pytest.skip("the package tensorflow is not installed")
    script = tmp_path / "models.py"
    script.write_text(MODELS)
    subprocess.run([sys.executable, str(script), str(tmp_path)], check=True, timeout=HANG_SECONDS)
    files = sorted(tmp_path.glob("*.npz"))
    assert len(files) == 17
    for file in files:
        values = dict(np.load(file))
        inputs = {x[3:]: y for x, y in values.items() if x.startswith("in:")}
        program = read_saved_model(file.with_suffix(""))
        state = [program.state[i] for i in sorted(program.state)]
        names = [x.name for x in program.signature.outputs]
        steps = len([x for x in values if x.startswith("out:")]) // len(names)
        for step in range(steps):
            given = [inputs[x.name] for x in program.signature.inputs]
            found = evaluate(program.module, [*given, *state])
            for name, value in zip(names, found, strict=False):
                wanted = values[f"out:{step}:{name}"]
                np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-6, err_msg=file.stem)
            state = list(found[len(names) :])
