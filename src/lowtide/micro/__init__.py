"""Plans of TFLite models for microcontrollers: order, offsets, and the files that carry them."""
