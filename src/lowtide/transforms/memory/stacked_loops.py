"""The example of passes that work on a loop which stacks values for a later one."""

from typing import Final

STACKED_LOOPS: Final = """
HloModule m

more {
  c = (s32[], f32[4], f32[4,4], f32[4,4]) parameter(0)
  i = s32[] get-tuple-element(c), index=0
  n = s32[] constant(4)
  ROOT go = pred[] compare(i, n), direction=LT
}

more.1 {
  c.1 = (s32[], f32[4], f32[4,4], f32[4,4]) parameter(0)
  i.3 = s32[] get-tuple-element(c.1), index=0
  n.1 = s32[] constant(4)
  ROOT go.1 = pred[] compare(i.3, n.1), direction=LT
}

forward {
  b = (s32[], f32[4], f32[4,4], f32[4,4]) parameter(0)
  i.1 = s32[] get-tuple-element(b), index=0
  x = f32[4] get-tuple-element(b), index=1
  xs = f32[4,4] get-tuple-element(b), index=2
  ys = f32[4,4] get-tuple-element(b), index=3
  one = s32[] constant(1)
  next = s32[] add(i.1, one)
  zero = s32[] constant(0)
  y = f32[4] sine(x)
  x.1 = f32[1,4] reshape(x)
  xs.1 = f32[4,4] dynamic-update-slice(xs, x.1, i.1, zero)
  y.1 = f32[1,4] reshape(y)
  ys.1 = f32[4,4] dynamic-update-slice(ys, y.1, i.1, zero)
  ROOT r = (s32[], f32[4], f32[4,4], f32[4,4]) tuple(next, y, xs.1, ys.1)
}

backward {
  b.1 = (s32[], f32[4], f32[4,4], f32[4,4]) parameter(0)
  i.2 = s32[] get-tuple-element(b.1), index=0
  d = f32[4] get-tuple-element(b.1), index=1
  xs.2 = f32[4,4] get-tuple-element(b.1), index=2
  ys.2 = f32[4,4] get-tuple-element(b.1), index=3
  one.1 = s32[] constant(1)
  next.1 = s32[] add(i.2, one.1)
  three = s32[] constant(3)
  k = s32[] subtract(three, i.2)
  zero.1 = s32[] constant(0)
  x.2 = f32[1,4] dynamic-slice(xs.2, k, zero.1), dynamic_slice_sizes={1,4}
  y.2 = f32[1,4] dynamic-slice(ys.2, k, zero.1), dynamic_slice_sizes={1,4}
  xy = f32[1,4] multiply(x.2, y.2)
  xy.1 = f32[4] reshape(xy)
  d.1 = f32[4] multiply(d, xy.1)
  ROOT r.1 = (s32[], f32[4], f32[4,4], f32[4,4]) tuple(next.1, d.1, xs.2, ys.2)
}

ENTRY main {
  x.3 = f32[4] parameter(0)
  none = f32[] constant(0)
  stack = f32[4,4] broadcast(none), dimensions={}
  start = s32[] constant(0)
  init = (s32[], f32[4], f32[4,4], f32[4,4]) tuple(start, x.3, stack, stack)
  loop = (s32[], f32[4], f32[4,4], f32[4,4]) while(init), condition=more, body=forward
  y.3 = f32[4] get-tuple-element(loop), index=1
  xs.3 = f32[4,4] get-tuple-element(loop), index=2
  ys.3 = f32[4,4] get-tuple-element(loop), index=3
  again = (s32[], f32[4], f32[4,4], f32[4,4]) tuple(start, y.3, xs.3, ys.3)
  loop.1 = (s32[], f32[4], f32[4,4], f32[4,4]) while(again), condition=more.1, body=backward
  ROOT d.2 = f32[4] get-tuple-element(loop.1), index=1
}
"""
"""The first loop stacks what it starts from and what it makes; the second reads both backwards."""
