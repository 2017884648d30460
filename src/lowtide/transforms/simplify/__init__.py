"""Algebraic simplification: rules by family, one file each, tried in the order in which they stand.

Rules end because each makes fewer operations, fewer elements, or moves an operation in the one
direction that is laid down for it:

- *towards the result*: broadcasts (work is done on the smaller array) behind elementwise
  operations; reshapes and transposes behind elementwise operations, pads (reshapes) and
  concatenates; conversions to wider types behind slices, gathers, transposes and concatenates.
- *towards the arguments*: slices, dynamic slices, gathers and reversals through broadcasts and
  other movements, and through elementwise work of which nobody reads more; reshapes through
  broadcasts; transposes through conversions to wider types, unit-adding reshapes and pads;
  reductions through every movement.
- *into the operation*: transposes into dot, convolution, reduce and broadcast (whose dimensions
  may stand in any order); padding into convolution and reduce-window.
- *one spelling*: a constant of equal elements is a broadcast of a scalar, a reshape of a scalar a
  broadcast, a broadcast of all but sizes of 1 a reshape, an iota of several dimensions a broadcast
  of one; operands of broadcasts have no sizes of 1; constants stand on the right; x - c is x + -c.

No rule makes a larger array than there was, looks through an optimization barrier, or reads the
order of elements from anything but a row-major layout.
"""
