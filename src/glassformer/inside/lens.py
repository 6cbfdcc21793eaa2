"""The logit lens: what would the model predict if it stopped here?

The axes: B batch, T positions, L blocks, V vocabulary.
"""

import numpy as np

from glassformer.inside.look import check_in_numpy, check_one_stream, decoder_of, look, of_either_room
from glassformer.scratch import Transformer
from glassformer.shapes import Float, Integer


@of_either_room
def logit_lens(model: Transformer, ids: Integer[np.ndarray, "*B T"]) -> Float[np.ndarray, "_ *B T V"]:
    """Maps ids (..., T) to logits (L + 1, ..., T, V): those of the embeddings alone, then those after each block.

    The final norm and the head read the stream early. The last entry is the model's own logits.

    Source: nostalgebraist 2020, "interpreting GPT: the logit lens". Derived in chapter 05.

    Raises:
        ValueError: the model is not a decoder, has no head or several streams, or is in training with dropout.
        TypeError: it is not a NumPy Transformer, or the ids are not integers.
    """
    check_in_numpy(model)
    check_one_stream(model)
    seen = look(model, ids)
    # Each part reports its stream once per sublayer; the dictionary keeps the last one.
    streams = {part: array for part, _, name, array in seen if name == "stream"}
    norm = decoder_of(model).norm  # None with post-norm, where every stream is already normalized
    return np.stack([model.head(x if norm is None else norm(x)) for x in streams.values()])
