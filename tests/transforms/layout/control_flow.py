"""Programs in which no transpose has to stay: name, text, and parts of what comes out."""

PROGRAMS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "a loop carries weights as they lie",
        """HloModule m
condition {
  c = (s32[], f32[6,4,8], f32[4,8]) parameter(0)
  i = s32[] get-tuple-element(c), index=0
  n = s32[] constant(6)
  ROOT more = pred[] compare(i, n), direction=LT
}
body {
  b = (s32[], f32[6,4,8], f32[4,8]) parameter(0)
  i.1 = s32[] get-tuple-element(b), index=0
  w = f32[6,4,8] get-tuple-element(b), index=1
  x = f32[4,8] get-tuple-element(b), index=2
  zero = s32[] constant(0)
  row = f32[1,4,8] dynamic-slice(w, i.1, zero, zero), dynamic_slice_sizes={1,4,8}
  flat = f32[4,8] reshape(row)
  y = f32[4,8] multiply(x, flat)
  one = s32[] constant(1)
  next = s32[] add(i.1, one)
  ROOT r = (s32[], f32[6,4,8], f32[4,8]) tuple(next, w, y)
}
ENTRY main {
  w.1 = f32[4,6,8] parameter(0)
  x.1 = f32[4,8] parameter(1)
  t = f32[6,4,8] transpose(w.1), dimensions={1,0,2}
  start = s32[] constant(0)
  init = (s32[], f32[6,4,8], f32[4,8]) tuple(start, t, x.1)
  loop = (s32[], f32[6,4,8], f32[4,8]) while(init), condition=condition, body=body, \
backend_config={"known_trip_count":{"n":"6"}}
  ROOT out = f32[4,8] get-tuple-element(loop), index=2
}
""",
        (
            "%b = (s32[], f32[4,6,8]{2,1,0}, f32[4,8]{1,0}) parameter(0)",
            "f32[4,1,8]{2,1,0} dynamic-slice(%w, %zero, %i.1, %zero)",
        ),
    ),
    (
        "branches",
        """HloModule m
yes {
  a = f32[8,4] parameter(0)
  ROOT n = f32[8,4] negate(a)
}
no {
  b = f32[8,4] parameter(0)
  ROOT e = f32[8,4] exponential(b)
}
ENTRY main {
  p = pred[] parameter(0)
  x = f32[4,8] parameter(1)
  y = f32[4,8] parameter(2)
  t = f32[8,4] transpose(x), dimensions={1,0}
  u = f32[8,4] transpose(y), dimensions={1,0}
  c = f32[8,4] conditional(p, t, u), true_computation=yes, false_computation=no
  ROOT v = f32[4,8] transpose(c), dimensions={1,0}
}
""",
        ("= f32[4,8]{1,0} conditional(%p, %x, %y)",),
    ),
    (
        "a barrier stays",
        """HloModule m
ENTRY main {
  x = f32[4,8] parameter(0)
  y = f32[4,8] parameter(1)
  t = f32[8,4] transpose(x), dimensions={1,0}
  u = f32[8,4] transpose(y), dimensions={1,0}
  both = (f32[8,4], f32[8,4]) tuple(t, u)
  kept = (f32[8,4], f32[8,4]) opt-barrier(both)
  a = f32[8,4] get-tuple-element(kept), index=0
  b = f32[8,4] get-tuple-element(kept), index=1
  s = f32[8,4] add(a, b)
  ROOT v = f32[4,8] transpose(s), dimensions={1,0}
}
""",
        ("(f32[4,8]{1,0}, f32[4,8]{1,0}) opt-barrier",),
    ),
    (
        "a computation that is called twice",
        """HloModule m
half {
  a = f32[8,4] parameter(0)
  ROOT n = f32[8,4] negate(a)
}
ENTRY main {
  x = f32[4,8] parameter(0)
  t = f32[8,4] transpose(x), dimensions={1,0}
  c = f32[8,4] call(t), to_apply=half
  d = f32[8,4] call(c), to_apply=half
  ROOT v = f32[4,8] transpose(d), dimensions={1,0}
}
""",
        ("= f32[4,8]{1,0} call(%x)", "= f32[4,8]{1,0} call(%c)"),
    ),
    (
        "the gradient of pooling",
        """HloModule m
greater {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=GE
}
sum {
  a.1 = f32[] parameter(0)
  b.1 = f32[] parameter(1)
  ROOT c.1 = f32[] add(a.1, b.1)
}
ENTRY main {
  x = f32[2,4,4,3] parameter(0)
  g = f32[2,2,2,3] parameter(1)
  z = f32[] constant(0)
  t = f32[2,3,4,4] transpose(x), dimensions={0,3,1,2}
  u = f32[2,3,2,2] transpose(g), dimensions={0,3,1,2}
  s = f32[2,3,4,4] select-and-scatter(t, u, z), window={size=1x1x2x2 stride=1x1x2x2}, \
select=greater, scatter=sum
  ROOT v = f32[2,4,4,3] transpose(s), dimensions={0,2,3,1}
}
""",
        ("f32[2,4,4,3]{3,2,1,0} select-and-scatter(%x, %g, %z), window={size=1x2x2x1",),
    ),
)
