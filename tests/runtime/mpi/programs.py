"""Programs with shardings: steps of training and a block of a transformer, in HLO."""

from __future__ import annotations

BINARY = """
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
largest { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, b) }
"""


def training_step(devices: int, rows: int = 16, width: int = 12, hidden: int = 20) -> str:
    """Return a step of a network of two layers, whose rows of data are split over devices."""
    rows_split = f"sharding={{devices=[{devices},1]<=[{devices}]}}"
    x, h = f"f32[{rows},{width}]", f"f32[{rows},{hidden}]"
    w, v = f"f32[{width},{hidden}]", f"f32[{hidden},{width}]"
    return f"""HloModule step, num_partitions={devices}
{BINARY}
ENTRY e {{
  x = {x} parameter(0), {rows_split}
  y = {x} parameter(1), {rows_split}
  w = {w} parameter(2), sharding={{replicated}}
  v = {v} parameter(3), sharding={{replicated}}
  a = {h} dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  zero = f32[] constant(0)
  none = {h} broadcast(zero), dimensions={{}}
  h = {h} maximum(a, none)
  o = {x} dot(h, v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  d = {x} subtract(o, y)
  gv = {v} dot(h, d), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  dh = {h} dot(d, v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  on = pred[{rows},{hidden}] compare(a, none), direction=GT
  da = {h} select(on, dh, none)
  gw = {w} dot(x, da), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  rate = f32[] constant(0.001)
  rw = {w} broadcast(rate), dimensions={{}}
  rv = {v} broadcast(rate), dimensions={{}}
  sw = {w} multiply(gw, rw)
  sv = {v} multiply(gv, rv)
  nw = {w} subtract(w, sw)
  nv = {v} subtract(v, sv)
  dd = {x} multiply(d, d)
  loss = f32[] reduce(dd, zero), dimensions={{0,1}}, to_apply=add
  ROOT t = ({w}, {v}, f32[]) tuple(nw, nv, loss)
}}
"""


def transformer_block(devices: int, heads: int = 4, size: int = 6, rows: int = 10) -> str:
    """Return attention and two layers behind it, whose heads and hidden numbers are split."""
    model, hidden = heads * size, 8 * heads
    by_head = f"sharding={{devices=[1,{devices},1]<=[{devices}]}}"
    x, q = f"f32[{rows},{model}]", f"f32[{rows},{heads},{size}]"
    w, s = f"f32[{model},{heads},{size}]", f"f32[{heads},{rows},{rows}]"
    u, z = f"f32[{model},{hidden}]", f"f32[{rows},{hidden}]"
    project = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    return f"""HloModule block, num_partitions={devices}
{BINARY}
ENTRY e {{
  x = {x} parameter(0), sharding={{replicated}}
  wq = {w} parameter(1), {by_head}
  wk = {w} parameter(2), {by_head}
  wv = {w} parameter(3), {by_head}
  wo = f32[{heads},{size},{model}] parameter(4),
    sharding={{devices=[{devices},1,1]<=[{devices}]}}
  u = {u} parameter(5), sharding={{devices=[1,{devices}]<=[{devices}]}}
  d = f32[{hidden},{model}] parameter(6), sharding={{devices=[{devices},1]<=[{devices}]}}
  q = {q} dot(x, wq), {project}
  k = {q} dot(x, wk), {project}
  v = {q} dot(x, wv), {project}
  a = {s} dot(q, k), lhs_batch_dims={{1}}, rhs_batch_dims={{1}}, lhs_contracting_dims={{2}},
    rhs_contracting_dims={{2}}
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  m = f32[{heads},{rows}] reduce(a, low), dimensions={{2}}, to_apply=largest
  mb = {s} broadcast(m), dimensions={{0,1}}
  c = {s} subtract(a, mb)
  e = {s} exponential(c)
  n = f32[{heads},{rows}] reduce(e, zero), dimensions={{2}}, to_apply=add
  nb = {s} broadcast(n), dimensions={{0,1}}
  p = {s} divide(e, nb)
  o = f32[{heads},{rows},{size}] dot(p, v), lhs_batch_dims={{0}}, rhs_batch_dims={{1}},
    lhs_contracting_dims={{2}}, rhs_contracting_dims={{0}}
  y = {x} dot(o, wo), lhs_contracting_dims={{0,2}}, rhs_contracting_dims={{0,1}}
  r = {x} add(x, y)
  h = {z} dot(r, u), {project}
  none = {z} broadcast(zero), dimensions={{}}
  g = {z} maximum(h, none)
  f = {x} dot(g, d), {project}
  ROOT t = {x} add(r, f)
}}
""".replace(",\n    ", ", ")
