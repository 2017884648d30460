"""Each command: what it prints, the documents that it writes, and its own errors."""

import json
import zipfile
import zlib

import ml_dtypes
import numpy as np
import pytest
from tests.cli.conftest import SMALL, edited
from tests.support import EXAMPLES

from lowtide.cli.inputs import generated
from lowtide.evaluator.evaluate import parameter_leaves
from lowtide.frontend.hlo_proto import read_hlo_proto_plan
from lowtide.frontend.hlo_proto.literals import write_literal
from lowtide.frontend.hlo_proto.messages import new_message, serialize
from lowtide.frontend.hlo_proto.shapes import ShapeWriter
from lowtide.frontend.hlo_proto.writer import write_hlo_module_proto
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Opcode
from lowtide.ir.literal import ELEMENT_TYPES, array_literal
from lowtide.ir.printer import COMPLETE, to_text
from lowtide.ir.shape import array_shape
from lowtide.xla.dumps.buffer_assignment import buffer_assignment_text

MEMORY_KEYS = {
    "largest_constant",
    "schema", "module", "instructions", "argument_bytes", "output_bytes", "alias_bytes",
    "constant_bytes", "temp_bytes", "scratch_bytes", "total_bytes", "ladder", "peak",
    "computations", "seconds", "caveats", "causes",
}  # fmt: skip
EXECUTION_KEYS = {"copies", "loops", "donations_asked"}
"""What only reports on plans of our own have."""
LADDER_KEYS = {"bound_bytes", "live_bytes", "arena_bytes", "optimal"}
PLAN_KEYS = {"allocations", "offsets", "kept_bytes", "budget", "assigner"}
OFFSET_KEYS = {
    "name", "instruction", "index", "call_site", "call_path", "allocation", "offset", "bytes",
    "buffer", "live",
}  # fmt: skip
BUFFER_KEYS = {
    "name", "bytes", "instruction", "opcode", "shape", "kind", "op_name", "source", "live", "cause",
    "reason", "frame",
}  # fmt: skip


def check_memory_document(document: dict) -> None:
    """Check the schema "lowtide.memory/1" and what its figures have to add up to."""
    assert document["schema"] == "lowtide.memory/1"
    ladder, peak = document["ladder"], document["peak"]
    assert set(ladder) - {"compilation_bound_bytes"} == LADDER_KEYS
    assert ladder["bound_bytes"] <= ladder["live_bytes"] <= ladder["arena_bytes"]
    assert set(peak) == {"position", "instruction", "source", "buffers", "tree"}
    assert sum([x["bytes"] for x in document["causes"]]) == document["total_bytes"]
    for buffer in peak["buffers"]:
        assert set(buffer) == BUFFER_KEYS
        assert buffer["source"] is None or set(buffer["source"]) == {"file", "line", "function"}
        first, last = buffer["live"]
        assert first <= peak["position"] <= last
    total = sum([buffer["bytes"] for buffer in peak["buffers"]])
    assert total == ladder["live_bytes"] + document["alias_bytes"]
    for computation in document["computations"]:
        assert set(computation["ladder"]) == LADDER_KEYS
    assert all(isinstance(x, str) for x in document["caveats"])
    assert all(isinstance(x, float) for x in document["seconds"].values())


# -- explain -----------------------------------------------------------------------------------


def test_explain_json(lowtide):
    assert lowtide("explain", EXAMPLES / "lstm.hlo.xz", "--json") == 0
    document = json.loads(lowtide.out)
    assert set(document) == MEMORY_KEYS | EXECUTION_KEYS | {"compilation_cut"}
    check_memory_document(document)
    assert document["computations"]
    assert 0 < document["ladder"]["compilation_bound_bytes"] <= document["ladder"]["live_bytes"]


def test_explain_limit(lowtide, small):
    path = EXAMPLES / "mnist_cnn.hlo.xz"
    assert lowtide("explain", path) == 0
    usual = lowtide.out
    assert lowtide("explain", path, "--limit", 2) == 0
    assert "smaller" in lowtide.out and len(usual.splitlines()) <= 24
    assert lowtide.out.count("%  ") < usual.count("%  ")
    assert lowtide("explain", small, "--stage", "fusd") == 1
    assert "no stage 'fusd'; there are: input, simplified, layout, fused" in lowtide.err
    assert lowtide("explain", small, "--stage", "input") == 0


# -- plan --------------------------------------------------------------------------------------


def test_plan_json_and_file(lowtide, tmp_path):
    file = tmp_path / "plan.json"
    assert lowtide("plan", EXAMPLES / "lstm.hlo.xz", "--json", "-o", file) == 0
    document = json.loads(lowtide.out)
    written = json.loads(file.read_text())
    assert parse_hlo(written.pop("scheduled_module")).is_scheduled
    assert {**written, "seconds": 0} == {**document, "seconds": 0}
    assert set(document) == MEMORY_KEYS | EXECUTION_KEYS | PLAN_KEYS
    check_memory_document(document)
    sizes = {x["index"]: x["bytes"] for x in document["allocations"]}
    kinds = {x["index"]: x["kind"] for x in document["allocations"]}
    assert set(kinds.values()) <= {"argument", "constant", "arena"}
    for entry in document["offsets"]:
        assert set(entry) == OFFSET_KEYS
        assert (
            0 <= entry["offset"] <= entry["offset"] + entry["bytes"] <= sizes[entry["allocation"]]
        )
    names = [entry["name"] for entry in document["offsets"]]
    assert len(set(names)) == len(names)
    arena = [
        x["offset"] + x["bytes"] for x in document["offsets"] if kinds[x["allocation"]] == "arena"
    ]
    assert max(arena) <= document["ladder"]["arena_bytes"]


def test_plan_files_of_xla(lowtide, tmp_path):
    """By the ending of its name, a plan is written as protobuf or as XLA's text."""
    proto, text = tmp_path / "plan.pb", tmp_path / "plan.txt"
    assert lowtide("plan", EXAMPLES / "lstm.hlo.xz", "-o", proto) == 0
    module, assignment = read_hlo_proto_plan(proto.read_bytes())
    assert lowtide("plan", EXAMPLES / "lstm.hlo.xz", "-o", text) == 0
    assert text.read_text() == buffer_assignment_text(module, assignment)
    assert lowtide("plan", proto, "--json") == 0
    document = json.loads(lowtide.out)
    assert document["temp_bytes"] == assignment.temp_bytes
    assert len(document["offsets"]) == len(assignment.values)


def test_plan_text(lowtide, small, tmp_path):
    assert lowtide("plan", EXAMPLES / "llama_1b.hlo.xz", "--limit", 3) == 0
    lines = lowtide.out.splitlines()
    assert lines[0].startswith("jit_llama_decode ")
    assert lines[-5].split() == ["offset", "bytes", "shape", "value"]
    assert "more; --json lists all" in lines[-1]
    assert max([len(line) for line in lines]) <= 100
    assert lowtide("plan", small, "-o", tmp_path / "no" / "dir.json") == 1
    assert "no such file or directory" in lowtide.err


# -- run ---------------------------------------------------------------------------------------

X = np.arange(6, dtype=np.float32).reshape(2, 3)
Y = np.array([1, 2, 3, 4], ml_dtypes.bfloat16)
ARGUMENTS = {"in_0": X, "in_1": Y, "in_2": np.int32(7), "in_3": np.array([True, False])}


def test_run_with_inputs_and_outputs(lowtide, small, tmp_path):
    given, got = tmp_path / "in.npz", tmp_path / "out.npz"
    unsigned = {**ARGUMENTS, "in_1": Y.view(np.uint16), "in_2": np.uint32(7)}
    for arguments in (ARGUMENTS, unsigned):
        np.savez(given, **arguments)
        assert lowtide("run", small, "--inputs", given, "--outputs", got, "--reference") == 0
        with np.load(got) as results:
            assert results.files == ["out_0", "out_1", "out_2"]
            assert results["out_0"].tolist() == (2 * X).tolist()
            assert results["out_1"].view(ml_dtypes.bfloat16).tolist() == [-1, -2, -3, -4]
            assert results["out_2"] == 7
    assert "small   3 outputs in" in lowtide.out
    assert "{0}     f32[2,3]" in lowtide.out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"in_1": None}, "has no in_1, which is parameter 1 (%y): bf16[4]"),
        ({"in_9": X}, "has in_9, which is no argument; there are in_0 to in_3"),
        ({"in_0": X.T}, "parameter 0 (%x) needs f32[2,3] (dtype float32), found float32[3, 2]"),
        ({"in_1": X[0]}, "parameter 1 (%y) needs bf16[4]"),
        ({"in_2": np.float32(1)}, "parameter 2 (%z) at index {0} needs s32[]"),
        ({"in_0": np.array(["a"])}, "parameter 0 (%x) needs"),
    ],
)
def test_wrong_inputs_name_the_parameter(lowtide, small, tmp_path, change, message):
    arguments = {k: v for k, v in {**ARGUMENTS, **change}.items() if v is not None}
    np.savez(tmp_path / "in.npz", **arguments)
    assert lowtide("run", small, "--inputs", tmp_path / "in.npz") == 1
    assert message in lowtide.err


def test_inputs_that_are_no_archive(lowtide, small, tmp_path):
    for name, data in (("a.npz", b"no"), ("b.npz", b""), ("c.npz", b"PK\x03\x04broken")):
        (tmp_path / name).write_bytes(data)
        assert lowtide("run", small, "--inputs", tmp_path / name) == 1
        assert f"{name}: is not an .npz archive" in lowtide.err
        assert "pickle" not in lowtide.err
    np.save(tmp_path / "d.npy", X)
    assert lowtide("run", small, "--inputs", tmp_path / "d.npy") == 1
    assert "single array" in lowtide.err
    with zipfile.ZipFile(tmp_path / "e.npz", "w") as archive:
        archive.writestr("in_0.npy", b"\x93NUMPY\x01\x00")
    assert lowtide("run", small, "--inputs", tmp_path / "e.npz") == 1
    assert lowtide("run", small, "--inputs", tmp_path / "nope.npz") == 1
    assert "nope.npz: no such file" in lowtide.err


def test_run_json(lowtide, small):
    assert lowtide("run", small, "--json", "--seed", 5, "--repeat", 3) == 0
    document = json.loads(lowtide.out)
    assert document["schema"] == "lowtide.run/1"
    assert document["arguments"] == "seed 5"
    assert len(document["seconds"]) == 3
    assert document["first_seconds"] > 0
    doubled, negated, count = document["outputs"]
    assert doubled["index"] == [0]
    assert negated["shape"] == "bf16[4]"
    generator = np.random.Generator(np.random.PCG64(5))
    x = generator.uniform(-1, 1, (2, 3)).astype(np.float32)
    y = generator.uniform(-1, 1, 4).astype(ml_dtypes.bfloat16)
    assert doubled["first"] == (2 * x).reshape(-1)[:4].tolist()
    assert negated["first"] == [-float(v) for v in y]
    assert count["first"] == [int(generator.integers(0, 4))]
    assert doubled["max"] == float((2 * x).max())


def test_numbers_that_json_does_not_have(lowtide, small, tmp_path):
    path = edited(small, "doubled = f32[2,3]{1,0} add(x, x)", "doubled = f32[2,3]{1,0} log(x)")
    given = tmp_path / "in.npz"
    np.savez(given, **{**ARGUMENTS, "in_0": np.array([[-1, 0, 1], [1, 1, 1]], np.float32)})
    assert lowtide("run", path, "--inputs", given, "--json") == 0
    output = json.loads(lowtide.out)["outputs"][0]
    assert output["first"] == ["nan", "-inf", 0, 0]
    assert (output["not_finite"], output["min"], output["max"]) == (2, 0, 0)
    assert lowtide("run", path, "--inputs", given) == 0
    assert "nan, -inf, 0, 0, ...  (2 not finite)" in lowtide.out


def test_default_seed_is_the_checksum_of_the_name(lowtide, small):
    assert lowtide("run", small) == 0
    assert f"arguments: seed {zlib.crc32(b'small')}" in lowtide.out


def test_snapshot_arguments_feed_run(lowtide, tmp_path):
    text = SMALL.replace(", (s32[], pred[2]{0}))->", ")->").replace(", s32[])}", ")}")
    text = "\n".join([x for x in text.split("\n") if "  z =" not in x and "count =" not in x])
    text = text.replace(
        "bf16[4]{0}, s32[]) tuple(doubled, negated, count)", "bf16[4]{0}) tuple(doubled, negated)"
    )
    message = new_message("HloSnapshot")
    message.hlo.hlo_module.ParseFromString(write_hlo_module_proto(parse_hlo(text)))
    for array in (X, Y):
        shape = array_shape(ELEMENT_TYPES[array.dtype], array.shape)
        write_literal(array_literal(shape, array), message.arguments.add(), ShapeWriter())
    path = tmp_path / "s.pb"
    path.write_bytes(serialize(message))
    assert lowtide("run", path, "--json") == 0
    document = json.loads(lowtide.out)
    assert document["arguments"] == "snapshot"
    assert document["outputs"][0]["first"] == [0, 2, 4, 6]


def test_unsupported_operation_has_status_3(lowtide, small):
    path = edited(small, "negate(y)", 'custom-call(y), custom_call_target="nobody"')
    assert lowtide("run", path) == 3
    assert "nobody" in lowtide.err
    assert lowtide("explain", path) == 0
    assert lowtide("plan", path) == 0


def test_elided_constants_are_told(lowtide, small):
    path = edited(small, "add(x, x)", "add(x, k)")
    path.write_text(
        path.read_text().replace("  doubled", "  k = f32[2,3] constant({...})\n  doubled")
    )
    assert lowtide("run", path) == 0
    assert lowtide.err.startswith("note: the text leaves out the values of a constant, {...}: ")


def test_too_large_arguments_are_refused(lowtide, tmp_path):
    path = tmp_path / "large.hlo"
    path.write_text("HloModule l\nENTRY e { ROOT p = f32[1000000,1000000] parameter(0) }")
    assert lowtide("run", path) == 1
    assert "the arguments take 4,000.0 GB" in lowtide.err


def test_generated_arguments_by_type():
    text = """HloModule m
ENTRY e {
  a = f64[3000,500] parameter(0)
  b = (c64[7], (u2[50], s8[50])) parameter(1)
  c = pred[50] parameter(2)
  t = token[] parameter(3)
  ROOT d = f16[9] parameter(4)
}"""
    leaves = list(parameter_leaves(parse_hlo(text)))
    arrays = generated(leaves, 11)
    rng = np.random.Generator(np.random.PCG64(11))
    assert (arrays[0] == rng.uniform(-1, 1, (3000, 500))).all()
    real, imaginary = rng.uniform(-1, 1, 7), rng.uniform(-1, 1, 7)
    assert (arrays[1] == (real + 1j * imaginary).astype(np.complex64)).all()
    assert (arrays[2].astype(int) == rng.integers(0, 2, 50)).all()
    assert (arrays[3] == rng.integers(0, 4, 50)).all()
    assert (arrays[4] == rng.integers(0, 2, 50).astype(bool)).all()
    assert (arrays[5] == rng.uniform(-1, 1, 9).astype(np.float16)).all()
    assert [x.dtype.name for x in arrays] == [
        "float64", "complex64", "uint2", "int8", "bool", "float16",
    ]  # fmt: skip


# -- opt and ops -------------------------------------------------------------------------------


def test_opt_prints_all_constants(lowtide, tmp_path):
    text = "HloModule k\nENTRY e { ROOT c = s32[12] constant({1,2,3,4,5,6,7,8,9,10,11,12}) }"
    path = tmp_path / "k.hlo"
    path.write_text(text)
    assert lowtide("opt", path, "--verify") == 0
    assert lowtide.out == to_text(parse_hlo(text), COMPLETE)
    path.write_text(lowtide.out)
    assert lowtide("opt", path, "--stage", "input") == 0
    assert lowtide.out == path.read_text()


def test_opt_turns_protobuf_into_text(lowtide, tmp_path):
    module = parse_hlo(SMALL)
    path = tmp_path / "small.pb"
    path.write_bytes(write_hlo_module_proto(module))
    assert lowtide("opt", path, "--verify") == 0
    assert lowtide.out == to_text(module, COMPLETE)


def test_opt_verify_fails_with_status_4(lowtide, small, monkeypatch):
    monkeypatch.setattr("lowtide.ir.printer.to_text", lambda module, options: "HloModule broken")
    assert lowtide("opt", small, "--verify") == 4
    assert "the printed module is not valid" in lowtide.err
    other = to_text(parse_hlo(SMALL.replace("negate", "abs")), COMPLETE)
    monkeypatch.setattr("lowtide.ir.printer.to_text", lambda module, options: other)
    monkeypatch.setattr("lowtide.ir.printer.fingerprint", lambda module: str(id(module)))
    assert lowtide("opt", small, "--verify") == 4
    assert "differs" in lowtide.err


def test_ops_lists_all(lowtide):
    assert lowtide("ops") == 0
    lines = lowtide.out.splitlines()
    listed = {line.split()[0] for line in lines if line.startswith("  ")}
    assert listed >= {opcode.value for opcode in Opcode}
    assert max([len(line) for line in lines]) <= 100
    assert lowtide("ops", "--json") == 0
    document = json.loads(lowtide.out)
    assert [row["opcode"] for row in document["ops"]] == [opcode.value for opcode in Opcode]
    assert "Sharding" in document["custom_call_targets"]


def test_opt_writes_json(lowtide, small):
    import json

    assert lowtide("opt", small, "--json") == 0
    document = json.loads(lowtide.out)
    assert document["text"].startswith(f"HloModule {document['module']}")
    assert document["instructions"] > 0
