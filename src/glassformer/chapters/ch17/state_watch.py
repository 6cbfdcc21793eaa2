"""A memory of one matrix that can be watched: keys and values are written into it, and each key is asked."""

from traitlets import Bool, Enum, Int

from glassformer.widgets.kit.view import Number, Text, View

MOST_PAIRS = 24


class StateWatch(View, module="state_watch"):
    """Writes pairs of a key and a value into one matrix, the state, and asks it for every key.

    A key is a pseudo-random direction of length 1; a value has a column of its own, so that an answer can be read off.
    The state is that of `scratch.recurrent_steps`, with a strength of 1.

    Derived in chapter 17.

    Traits:
        pairs: keys and values, as "cat red, dog blue"; the first 24 count, with at most 5 different values.
        position: how many pairs have been written, 1 to 24; beyond the end of the list, all.
        delta: whether only the difference from what the state already returns is written, or the value itself.
        decay: what the state is multiplied by before each pair, 0.5 to 1.
        d_key: the features of a key, 2, 4, 8 or 16.
        orthogonal: whether the first `d_key` keys are at right angles; all others are random.
        asked: the key whose query and answer are drawn; the first one if it is not in the list.

    Raises:
        TraitError: a trait is outside its range.
    """

    pairs = Text("cat red, dog blue, fox gold, hen red, owl blue, cat green", longest=600).tag(sync=True)
    position = Int(MOST_PAIRS, min=1, max=MOST_PAIRS).tag(sync=True)
    delta = Bool(False).tag(sync=True)
    decay = Number(1.0, min=0.5, max=1.0).tag(sync=True)
    d_key = Enum([2, 4, 8, 16], 8).tag(sync=True)
    orthogonal = Bool(True).tag(sync=True)
    asked = Text("cat", longest=600).tag(sync=True)
