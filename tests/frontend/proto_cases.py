"""Small modules which use, between them, every field of the protobuf form."""

import base64
import json
import subprocess
import sys
from typing import Any

from lowtide.frontend.hlo_proto import write_hlo_module_proto
from lowtide.frontend.hlo_proto.messages import message_classes
from lowtide.frontend.hlo_text import parse_hlo

SMALL = """
HloModule small

callee {
  ROOT x = f32[3]{0} parameter(0)
}

ENTRY main {
  p = f32[3]{0} parameter(0)
  c = f32[3]{0} constant({1,2,3})
  a = f32[3]{0} add(p, c), metadata={op_name="sum"}
  k = f32[3]{0} call(a), to_apply=callee
  ROOT m = f32[3]{0} multiply(k, c)
}
"""
"""A module with a constant, metadata and a call."""

CASES = {
    "literals": """
HloModule literals

ENTRY main {
  a = f32[2,3]{0,1} constant({{1,-0.5,inf},{nan,-inf,1e-30}})
  b = f64[] constant(0.1)
  c = c64[2]{0} constant({(1,-2),(0.5,3)})
  c2 = c128[1]{0} constant({(1,2.5)})
  d = pred[3]{0} constant({1,0,1})
  e = s64[2]{0} constant({-9223372036854775808,9223372036854775807})
  f = u64[] constant(18446744073709551615)
  g = s4[3]{0} constant({-8,7,-1})
  h = u2[3]{0} constant({0,3,2})
  i = bf16[2]{0} constant({1.5,-2})
  j = f16[] constant(65504)
  k = f8e4m3fn[2]{0} constant({448,-1})
  l = s16[2]{0} constant({-1,300})
  m = u8[2]{0} constant({255,1})
  n = (s32[2]{0}, (f32[])) constant(({1,2},(3)))
  o = s32[2,0]{1,0} constant({{},{}})
  q = f4e2m1fn[3]{0} constant({6,-0.5,1})
  r = f32[11]{0} constant({0,1,2,3,4,5,6,7,8,9,10})
  ROOT t = (f32[2,3]{0,1}, f64[]) tuple(a, b)
}
""",
    "loop": """
HloModule loop, input_output_alias={ {1}: (0, {1}, must-alias) }, buffer_donor={ (1, {}) },
  replica_count=2, num_partitions=4, alias_passthrough_params=true,
  allow_spmd_sharding_propagation_to_output={true,false}, frontend_attributes={a="1",b="x y"}

condition {
  s = (s32[], f32[8,8]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  limit = s32[] constant(10)
  ROOT less = pred[] compare(n, limit), direction=LT
}

body {
  s = (s32[], f32[8,8]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  x = f32[8,8]{1,0} get-tuple-element(s), index=1
  one = s32[] constant(1)
  m = s32[] add(n, one), control-predecessors={x}
  y = f32[8,8]{1,0} dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0},
    operand_precision={highest,default}, algorithm=dot_bf16_bf16_f32_x3
  ROOT r = (s32[], f32[8,8]) tuple(m, y)
}

true_branch {
  ROOT p = f32[8]{0} parameter(0)
}

false_branch {
  p = f32[8]{0} parameter(0)
  ROOT n = f32[8]{0} negate(p), backend_config={"outer_dimension_partitions":["2"]}
}

ENTRY main {
  start = (s32[], f32[8,8]) parameter(0)
  p = f32[8]{0} parameter(1), parameter_replication={true}, origin={{"w" {0,1}}}
  w = (s32[], f32[8,8]) while(start), condition=condition, body=body,
    origin={({}, {"w"})}, metadata={op_type="while" op_name="jit(f)/while" source_file="a.py"
    source_line=3 source_end_line=5 source_column=1 source_end_column=9
    deduplicated_name="w" scheduling_name="s" metadata_payload="abc"}
  i = s32[] get-tuple-element(w), index=0
  q = pred[] constant(true)
  c = f32[8]{0} conditional(q, p, p), true_computation=true_branch,
    false_computation=false_branch
  b = f32[8]{0} conditional(i, p, p), branch_computations={true_branch, false_branch},
    statistics={visualizing_index=1,x=0.5,y=2}
  e = f32[8]{0} exponential(b), result_accuracy={tolerance={atol=0.5,rtol=0.25,ulps=2}}
  ROOT t = (f32[8]{0}, (s32[], f32[8,8])) tuple(c, w)
}
""",
    "arrays": """
HloModule arrays

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT, type=TOTALORDER
}

ENTRY main {
  p = f32[1,8,8,4]{3,2,1,0:T(8,128)S(5)} parameter(0)
  k = f32[3,3,4,4]{3,2,1,0} parameter(1)
  i = s32[5,2]{1,0} iota(), iota_dimension=1
  u = f32[<=8,?]{1,0} parameter(2)
  conv = f32[1,3,8,4]{3,2,1,0} convolution(p, k),
    window={size=3x3 stride=2x1 pad=0_0x1_1 rhs_dilate=1x1 rhs_reversal=0x1},
    dim_labels=b01f_01io->b01f, operand_precision={high,high}, convolution_kind=fprop,
    sparsity_config={rhs={sparsity=2x4 dimension=2 stride=1}}
  z = f32[] constant(0)
  r = f32[1,8,8]{2,1,0} reduce(p, z), dimensions={3}, to_apply=add
  rw = f32[1,4,4,4]{3,2,1,0} reduce-window(p, z), window={size=1x2x2x1 stride=1x2x2x1},
    to_apply=add
  sas = f32[1,8,8,4]{3,2,1,0} select-and-scatter(p, rw, z),
    window={size=1x2x2x1 stride=1x2x2x1}, select=less, scatter=add
  tr = f32[4,8,8,1]{3,2,1,0} transpose(p), dimensions={3,2,1,0}
  sl = f32[2,8,4,1]{3,2,1,0} slice(tr), slice={[0:4:2],[0:8],[1:5],[0:1]}
  pd = f32[4,9,4,1]{3,2,1,0} pad(sl, z), padding=1_1x0_1x0_0x0_0
  zero = s32[] constant(0)
  ds = f32[1,8,4,1]{3,2,1,0} dynamic-slice(sl, zero, zero, zero, zero),
    dynamic_slice_sizes={1,8,4,1}
  ga = f32[5,8,4,1]{3,2,1,0} gather(sl, i), offset_dims={1,2,3}, collapsed_slice_dims={0},
    start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,8,4,1}, indices_are_sorted=true
  sc = f32[2,8,4,1]{3,2,1,0} scatter(sl, i, ga), update_window_dims={1,2,3},
    inserted_window_dims={0}, scatter_dims_to_operand_dims={0,1}, index_vector_dim=1,
    unique_indices=true, to_apply=add
  so = f32[1,8,8,4]{3,2,1,0} sort(p), dimensions={3}, is_stable=true, to_apply=less
  f = f32[4]{0} constant({1,2,3,4})
  mp = f32[4]{0} map(f, f), dimensions={0}, to_apply=add
  bc = f32[4,4]{1,0} broadcast(f), dimensions={1}
  tk = (f32[4,2]{1,0}, s32[4,2]{1,0}) topk(bc), k=2, largest=false
  ch = f32[4,4]{1,0} cholesky(bc), lower=true
  ts = f32[4,4]{1,0} triangular-solve(ch, bc), left_side=true, lower=true, transpose_a=TRANSPOSE
  ff = c64[4,3]{1,0} fft(bc), fft_type=RFFT, fft_length={4}
  rp = f32[4,4]{1,0} reduce-precision(bc), exponent_bits=5, mantissa_bits=10
  st = u64[2]{0} parameter(3)
  rb = (u64[2]{0}, u32[4]{0}) rng-bit-generator(st), algorithm=rng_philox
  rn = f32[4]{0} rng(z, z), distribution=rng_normal
  bn = f32[1,8,8,4]{3,2,1,0} batch-norm-inference(p, f, f, f, f), epsilon=0.001, feature_index=3
  gd = s32[] get-dimension-size(u), dimensions={0}
  sd = f32[<=8,?]{1,0} set-dimension-size(u, gd), dimensions={0}
  ROOT t = (f32[1,3,8,4]{3,2,1,0}) tuple(conv)
}
""",
    "devices": """
HloModule devices

sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY main {
  p = f32[8,4]{1,0} parameter(0), sharding={devices=[2,2]<=[4]}
  q = f32[8,4]{1,0} parameter(1),
    sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}
  q1 = f32[8,4]{1,0} copy(q), sharding={devices=[2,1]1,0 metadata={op_name="a"}}
  q2 = f32[8,4]{1,0} copy(q), sharding={maximal device=3}
  q3 = f32[8,4]{1,0} copy(q),
    sharding={devices=[2,1,2,2]<=[8] last_tile_dims={manual, replicated}}
  q4 = f32[8,4]{1,0} copy(q), sharding={unknown shard_like 7}
  q5 = f32[8,4]{1,0} copy(q), sharding={manual}
  q6 = f32[8,4]{1,0} copy(q),
    sharding={mesh['x'=2,'y'=4], [{'x'}, {'y':(1)2, ?}], replicated={'y':(2)2}}
  q7 = f32[8,4]{1,0} copy(q),
    sharding={mesh['x'=2,'y'=2], device_ids=([2,2]T(1,0)), [{'x'}, {}]}
  q8 = f32[8,4]{1,0} copy(q), sharding={maximal_mesh[device_id=3]}
  q9 = f32[8,4]{1,0} copy(q), sharding={mesh['x'=2], unreduced}
  r1 = f32[8,4]{1,0} all-reduce(p), replica_groups={{0,1},{2,3}}, to_apply=sum
  r2 = f32[8,4]{1,0} all-reduce(p), channel_id=2, replica_groups=[2,2]<=[2,2]T(1,0),
    use_global_device_ids=true, to_apply=sum
  r3 = f32[8,4]{1,0} all-reduce(p), channel_id=3, replica_groups=mesh['a'=2,'b'=2]{'b'},
    use_global_device_ids=true, to_apply=sum
  g = f32[16,4]{1,0} all-gather(p), replica_groups={{0,1}}, dimensions={0}
  s = f32[4,4]{1,0} reduce-scatter(p), replica_groups={}, dimensions={0}, to_apply=sum
  a = f32[8,4]{1,0} all-to-all(p), replica_groups={{0,1}}, dimensions={0}
  cp = f32[8,4]{1,0} collective-permute(p), channel_id=5, source_target_pairs={{0,1},{1,0}}
  cb = f32[8,4]{1,0} collective-broadcast(p), replica_groups={{1,0}}
  id = u32[] partition-id()
  dm = f32[8,4]{1,0} domain(p), domain={kind="sharding", entry={maximal device=1}, exit={manual}}
  tk = token[] after-all()
  sn = (f32[8,4]{1,0}, u32[], token[]) send(p, tk), channel_id=9, is_host_transfer=true
  sd = token[] send-done(sn), channel_id=9, is_host_transfer=true
  in = (f32[8]{0}, token[]) infeed(sd), infeed_config="c"
  of = token[] outfeed(p, sd), outfeed_shape=f32[8,4]{0,1}, outfeed_config="d"
  ROOT t = (f32[8,4]{1,0}, f32[8,4]{1,0}) tuple(q6, r3),
    sharding={{replicated}, {devices=[1,2]<=[2]}}
}
""",
    "scheduled": """
HloModule scheduled, is_scheduled=true

fused {
  p = f32[8]{0} parameter(0)
  ROOT n = f32[8]{0} negate(p)
}

async_computation {
  p = f32[8]{0} parameter(0)
  ROOT c = f32[8]{0} custom-call(p), custom_call_target="f"
}, execution_thread="worker"

composite {
  ROOT p = f32[8]{0} parameter(0)
}

ENTRY main {
  p = f32[8]{0} parameter(0)
  z = f32[8]{0} constant({8,7,6,5,4,3,2,1})
  f = f32[8]{0} fusion(p), kind=kLoop, calls=fused, output_to_operand_aliasing={{}: (0, {})}
  start = ((f32[8]{0}), f32[8]{0}, u32[]) async-start(f), calls=async_computation,
    async_execution_thread="worker"
  update = ((f32[8]{0}), f32[8]{0}, u32[]) async-update(start)
  cs = (f32[8]{0}, f32[8]{0}, u32[]) copy-start(z), cross_program_prefetch_index=0
  done = f32[8]{0} async-done(update)
  cd = f32[8]{0} copy-done(cs)
  cc = f32[8]{0} custom-call(done, cd), custom_call_target="g", custom_call_has_side_effect=true,
    operand_layout_constraints={f32[8]{0}, f32[8]{0}}, api_version=API_VERSION_TYPED_FFI,
    schedule=SCHEDULE_EARLIEST, backend_config="it's \\"quoted\\""
  ROOT cl = f32[8]{0} call(cc), to_apply=composite, is_composite=true,
    frontend_attributes={composite.name="a.b",composite.attributes={},composite.version="1"}
}
""",
}
"""Modules by name, in the order of their instructions for the one that is scheduled."""


def message_of(text: str) -> Any:
    return message_classes()["HloModuleProto"].FromString(write_hlo_module_proto(parse_hlo(text)))


def entry_of(message: Any) -> Any:
    return message.computations[-1]


def instruction(message: Any, name: str) -> Any:
    found = [i for c in message.computations for i in c.instructions if i.name == name]
    assert len(found) == 1
    return found[0]


_ORACLE = """
import base64, json, sys
from jaxlib import _hlo

results = []
for kind, text in json.load(sys.stdin):
    try:
        if kind == "proto":
            module = _hlo.HloModule.from_serialized_hlo_module_proto(base64.b64decode(text))
        else:
            module = _hlo.hlo_module_from_text(text)
        data = module.as_serialized_hlo_module_proto()
        module = _hlo.HloModule.from_serialized_hlo_module_proto(data)
        results.append([module.to_string(), base64.b64encode(data).decode()])
    except RuntimeError as error:
        results.append([f"error: {error}", ""])
json.dump(results, sys.stdout)
"""


def ask_xla(inputs: list[str | bytes]) -> list[tuple[str, bytes]]:
    """Return XLA's print and protobuf of modules, given as text or as a HloModuleProto.

    XLA runs in a process of its own, which bad input may end. The print is that of the module
    after a way through protobuf.
    """
    request = [
        ("proto", base64.b64encode(x).decode()) if isinstance(x, bytes) else ("text", x)
        for x in inputs
    ]
    run = subprocess.run(
        [sys.executable, "-c", _ORACLE],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=True,
    )
    return [(text, base64.b64decode(data)) for text, data in json.loads(run.stdout)]
