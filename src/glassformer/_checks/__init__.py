"""Checks arguments for both rooms. Handles NumPy and torch arrays without importing either library.

Every function returns nothing and raises on bad input: `TypeError` for the wrong kind of thing, `ValueError`
for the wrong value, with a message that names the argument, its value and the rule.
"""

# ruff: noqa: F401 (this is where all others get them)

from glassformer._checks.arrays import (
    axes,
    floats,
    indices,
    integers,
    one_axis,
    one_axis_or_two,
    places,
    vectors,
)
from glassformer._checks.compressed import compression, left_out, padded_after, rotated
from glassformer._checks.experts import chosen_experts, ids_for_table, limited_gate
from glassformer._checks.models import (
    acts_on,
    attention,
    below,
    choice_to_borrow,
    fits_cache,
    going_back,
    has_part,
    in_torch,
    indexer,
    latent,
    loss,
    model,
    model_inputs,
    no_faults,
    no_gradient_through_cache,
    own_parts,
    qk_norm,
    room_in_cache,
    rope_scaling,
    rotated_share,
    rotates,
    score_bias_fits,
    state_dict,
    t5_buckets,
    text_to_read,
)
from glassformer._checks.numbers import (
    LARGEST,
    MESSAGE,
    checked_before,
    divisible,
    equal,
    even,
    fields,
    flag,
    instance,
    not_negative,
    number,
    offers,
    one_of,
    positive,
    rate,
    shown,
    whole,
)
from glassformer._checks.ram import SLACK, fits
from glassformer._checks.recurrence import (
    fits_state,
    going_back_to_a_mark,
    layer_with_a_state,
    markable,
    neighbours,
    padding_alone,
    recurrence,
    state_sizes,
)
