"""Misses of `jax_suite.py` that are expected: a pattern of test and reason, and why."""

from __future__ import annotations

from typing import Final

_PLATFORM = "the test names platforms, and `lowtide` is none of them"

_CHOSEN = "nothing says how a result is divided, and lowtide chooses another way than XLA does"

_TERMS = "terms of a sum lie on other devices than XLA leaves them, or are added elsewhere"

_XLA = "the test asks for what XLA says of one of its own options or objects"

EXPECTED: Final = {
    r"compiler_options_invalid|test_print_token_buffer_error|test_jit_lower_cost_analysis": _XLA,
    r"KeyError: 'lowtide'": _PLATFORM,
    r"test_default_export_platform": _PLATFORM,
    r"(prng_sharding_propagation|sharded_prng_key|propagate_through|compile_multi_device_sharding)"
    r"|test_pjit_array_multi_input_multi_output"
    r"|test_(auto|full_auto_to_partial|mix_to_full)_user": _CHOSEN,
    r"test_minibatch_scan_unreduced|test_identity_jit_out_unreduced"
    r"|test_reduced_reshard_unreduced": _TERMS,
}
