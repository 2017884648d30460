"""Dots as native code: tiles of accumulators in registers, packed operands, epilogues."""
