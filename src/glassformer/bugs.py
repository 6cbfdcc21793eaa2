"""The gallery of classic mistakes. Each is a line or two of the right code, and what people write instead.

    with put_in("mask-after-softmax"):
        ...  # here every model, in NumPy and in PyTorch, makes that mistake

What the gallery shows is what runs: `put_in` takes the source of the right function, changes the line, and lets
the function run the changed code until the block ends. Models need not be made anew, and gradients flow. In
NumPy only the forward is changed, unless the mistake is one of the backward; so finite differences notice
most of them there.
"""

import difflib
import inspect
import linecache
import pkgutil
import textwrap
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType

from glassformer import _checks as checks

ROOMS = ("scratch", "nn")


@dataclass(frozen=True)
class Edit:
    """One change to one function, such as `nn.attention.softmax`: where its source says `right`, `wrong`."""

    function: str
    right: str
    wrong: str

    @property
    def room(self) -> str | None:
        """The room that is changed; None for a function that serves both."""
        first = self.function.split(".")[0]
        return first if first in ROOMS else None


@dataclass(frozen=True, kw_only=True)
class Bug:
    """A classic mistake: what a learner would call it, what it does, and the cheapest tests that catch it.

    The first of the `edits` is the mistake; the others make it wherever else it would have been made. `symptom`
    says what the loss and the text show. `caught_by` are tests of this project, by their pytest ids.
    """

    name: str
    title: str
    symptom: str
    caught_by: tuple[str, ...]
    edits: tuple[Edit, ...]

    @property
    def what(self) -> tuple[str, str]:
        """The wrong line, and beside it the right one."""
        return self.edits[0].wrong, self.edits[0].right

    @property
    def rooms(self) -> tuple[str, ...]:
        """The rooms in which it can be made: PyTorch's autograd and optimizers make some impossible there."""
        changed = {edit.room for edit in self.edits}
        return tuple(room for room in ROOMS if room in changed or None in changed)


def bug(name: str) -> Bug:
    """The bug of that name.

    Raises:
        ValueError: there is none; the message says which is meant, and lists all there are.
        TypeError: `name` is not a string.
    """
    checks.instance("name", name, str)
    if name not in BUGS:
        near = difflib.get_close_matches(name, BUGS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"name={name!r} is not a known bug.{hint} Known are {', '.join(BUGS)}.")
    return BUGS[name]


@contextmanager
def put_in(name: str, *, rooms: Collection[str] = ROOMS) -> Iterator[Bug]:
    """Makes the mistake inside the `with` block, and gives the `Bug`.

    `rooms` can confine it to "scratch" or to "nn". Mistakes can be combined, one `with` inside another. However
    the block ends, the right code is back.

    Used in chapter 14.

    Raises:
        ValueError: there is no such bug or room, or the bug cannot be made in that room.
        TypeError: `name` is not a string.
        RuntimeError: the line to change is not there, most often because another bug has changed it.
    """
    it = bug(name)
    for room in rooms:
        checks.one_of("rooms", room, ROOMS)
    if not set(rooms) & set(it.rooms):
        raise ValueError(f"rooms={rooms!r} cannot have {name!r}, which needs {' or '.join(it.rooms)}")
    before: list[tuple[Callable, CodeType]] = []
    try:
        for edit in it.edits:
            if edit.room is None or edit.room in rooms:
                function = _plain(pkgutil.resolve_name(f"glassformer.{edit.function}"))
                code = _changed(function, edit, name)
                before.append((function, function.__code__))
                # Only what it runs is exchanged: the function stays the same object for all who imported it.
                function.__code__ = code
        yield it
    finally:
        for function, code in reversed(before):
            function.__code__ = code


def _plain(function: Callable | property) -> Callable:
    """The function that was written, without what decorators made of it."""
    return inspect.unwrap(getattr(function, "fget", function))


def _changed(function: Callable, edit: Edit, name: str) -> CodeType:
    """The code of the function with `edit.wrong` where its source says `edit.right`."""
    source = textwrap.dedent(inspect.getsource(function))
    before, *after = source.split(edit.right)
    if len(after) != 1:
        raise RuntimeError(
            f"{edit.function} has {edit.right!r} {len(after)} times, not once: cannot put {name!r} in"
        )
    line = before.rpartition("\n")[2]
    indentation = line[: len(line) - len(line.lstrip())]
    source = before + edit.wrong.replace("\n", "\n" + indentation) + after[0]
    # Through linecache, the changed source is what a traceback shows, and what the next edit starts from.
    file = f"<{edit.function} with {name}>"
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    defined: dict[str, Callable | property] = {}
    exec(compile(source, file, "exec"), function.__globals__, defined)
    return _plain(defined[function.__name__]).__code__


# How the gallery is written


def _both(function: str, right: str, wrong: str) -> tuple[Edit, Edit]:
    """The same change in both rooms."""
    return Edit(f"scratch.{function}", right, wrong), Edit(f"nn.{function}", right, wrong)


# PyTorch's attention in one piece knows nothing of these mistakes: the model has to go the long way.
_BY_HAND = Edit("nn.attention.MultiHeadAttention.forward", "tracing()", "tracing() or True")

_ATTEND = "attention.scaled_dot_product_attention"
_STACK = "model.Stack.forward"


ATTENTION = (
    Bug(
        name="no-scale",
        title="The scores were not divided by √d_head",
        symptom=(
            "No error. The scores are √d_head times too large, so the weights begin near 0 and 1, where "
            "softmax is flat: hardly any gradient reaches the queries and keys. The wider the heads, the "
            "worse; with heads of 16 numbers a small model learns nearly as well."
        ),
        caught_by=("tests/layers/test_by_hand.py::test_attention",),
        edits=(
            Edit(
                f"nn.{_ATTEND}",
                "q @ k.transpose(-1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)",
                "q @ k.transpose(-1, -2)",
            ),
            Edit(
                f"scratch.{_ATTEND}",
                "scores *= 1 / math.sqrt(q.shape[-1]) if scale is None else scale",
                "pass",
            ),
            _BY_HAND,
        ),
    ),
    Bug(
        name="softmax-axis",
        title="The softmax ran over the wrong axis",
        symptom=(
            "No error: the shape is the same. The columns of the weights sum to 1, not the rows. What a query "
            "gets depends on all queries, later ones too. The loss profits from that future and sinks far "
            "below what text allows. Generating has no future, and the text is noise."
        ),
        caught_by=("tests/layers/test_by_hand.py::test_attention",),
        edits=(
            *_both(_ATTEND, "softmax(scores)", "softmax(scores, axis=-2)"),
            _BY_HAND,
        ),
    ),
    Bug(
        name="softmax-overflow",
        title="The softmax did not subtract the largest entry",
        symptom=(
            "Nothing at first: the numbers are the same. Then, once a score passes 88 in float32, exp is "
            "infinite, ∞/∞ is NaN, and the loss is NaN from one step to the next."
        ),
        caught_by=("tests/layers/test_by_hand.py::test_softmax_of_large_numbers_does_not_overflow",),
        edits=(
            Edit("nn.attention.softmax", "torch.exp(x - largest)", "torch.exp(x)"),
            Edit("nn.attention.softmax", ".clamp(min=1)", ""),
            Edit("scratch.attention.softmax", "weights = x - largest", "weights = x.copy()"),
            Edit(
                "scratch.attention.softmax",
                "np.maximum(weights.sum(axis=axis, keepdims=True), 1)",
                "weights.sum(axis=axis, keepdims=True)",
            ),
            _BY_HAND,
        ),
    ),
    Bug(
        name="mask-after-softmax",
        title="The mask came after the softmax",
        symptom=(
            "No error, and no hidden value gets through. But hidden keys still take their share: rows of "
            "weights sum to less than 1, the first ones least, and by how much depends on tokens still to "
            "come. A model learns to read them from that alone: the loss sinks far below what text allows, "
            "and the text is noise."
        ),
        caught_by=("tests/layers/test_by_hand.py::test_attention",),
        edits=(
            Edit(
                f"nn.{_ATTEND}",
                "weights = softmax(scores)",
                "weights = softmax(scores)\nif mask is not None:\n    weights = weights * mask",
            ),
            Edit(f"nn.{_ATTEND}", "scores = torch.where(mask, scores, -torch.inf)", "pass"),
            Edit(
                f"scratch.{_ATTEND}",
                "weights = softmax(scores)",
                "weights = softmax(scores)\nif mask is not None:\n    weights = weights * mask",
            ),
            Edit(f"scratch.{_ATTEND}", "np.copyto(scores, -np.inf, where=~mask)", "pass"),
            _BY_HAND,
        ),
    ),
    Bug(
        name="mask-transposed",
        title="The causal mask was the wrong triangle",
        symptom=(
            "Too good to be true: every position but the last sees the token that it has to predict, and the "
            "loss sinks far below what text allows. Generating, there is no next token to copy, and little "
            "else was learned."
        ),
        caught_by=("tests/layers/test_by_hand.py::test_causal_mask",),
        edits=(
            Edit("nn.attention.causal_mask", ".tril(", ".triu("),
            Edit(
                "scratch.attention.causal_mask",
                "np.tri(n_queries, n_keys, n_keys - n_queries, dtype=bool)",
                "np.triu(np.ones((n_queries, n_keys), bool), n_keys - n_queries)",
            ),
        ),
    ),
    Bug(
        name="mask-one-ahead",
        title="The causal mask let each position see one ahead",
        symptom=(
            "Too good to be true: one ahead is the token that has to be predicted. The loss sinks far below "
            "what text allows. Generating, there is no next token to copy, and little else was learned."
        ),
        caught_by=("tests/layers/test_by_hand.py::test_causal_mask",),
        edits=(
            Edit("nn.attention.causal_mask", ".tril(n_keys - n_queries)", ".tril(n_keys - n_queries + 1)"),
            Edit(
                "scratch.attention.causal_mask", "n_keys - n_queries, dtype", "n_keys - n_queries + 1, dtype"
            ),
        ),
    ),
    Bug(
        name="padding-on-queries",
        title="The padding mask hid queries, not keys",
        symptom=(
            "No error where there are as many queries as keys. Padding sees nothing, which no one asked for, "
            "and real tokens see padding: the same text gives other logits in a longer batch."
        ),
        caught_by=(
            "tests/layers/test_model_properties.py::test_what_is_masked_has_no_influence[BERT-scratch]",
            "tests/layers/test_model_properties.py::test_what_is_masked_has_no_influence[BERT-nn]",
        ),
        edits=_both(_STACK, "else mask[..., None, None, :]", "else mask[..., None, :, None]"),
    ),
    Bug(
        name="padding-attended",
        title="The padding mask was never passed on",
        symptom=(
            "No error. Real tokens see padding: the same text gives other logits alone than in a batch. With "
            "padding on the right of a causal model nothing shows at all, because what comes later is hidden "
            "anyway."
        ),
        caught_by=(
            "tests/layers/test_model_properties.py::test_what_is_masked_has_no_influence[BERT-scratch]",
            "tests/layers/test_model_properties.py::test_what_is_masked_has_no_influence[BERT-nn]",
        ),
        edits=(
            *_both(_STACK, "mask = None if mask is None else mask[..., None, None, :]", "mask = None"),
            *_both(
                _STACK,
                "memory_mask = None if memory_mask is None else memory_mask[..., None, None, :]",
                "memory_mask = None",
            ),
        ),
    ),
    Bug(
        name="heads-not-swapped",
        title="The heads were merged without swapping the axes back",
        symptom=(
            "No error: the shape is right. But a row of the result holds several positions of one head in "
            "place of all heads of one position, so that a position is handed what others saw, later ones "
            "too. The loss stays too high. With one head, or one token, nothing is wrong."
        ),
        caught_by=("tests/layers/test_by_hand.py::test_heads_are_runs_of_neighbouring_dimensions",),
        edits=(
            Edit(
                "nn.attention.merge_heads",
                "x.transpose(-3, -2).reshape(*B, T, H * K)",
                "x.reshape(*B, T, H * K)",
            ),
            Edit(
                "scratch.attention.merge_heads",
                "x.swapaxes(-3, -2).reshape(*B, T, H * K)",
                "x.reshape(*B, T, H * K)",
            ),
        ),
    ),
    Bug(
        name="heads-tiled",
        title="The shared heads were laid out in turns, not in runs",
        symptom=(
            "Trained from scratch, nothing: which queries share a head is only a matter of numbering. Loaded "
            "weights were trained with the other numbering: most of their queries get keys that are not "
            "theirs."
        ),
        caught_by=("tests/layers/test_torch_references.py::test_grouped_heads",),
        edits=(
            Edit(
                "nn.attention.repeat_heads",
                "x.repeat_interleave(times, dim=-3)",
                "torch.cat([x] * times, dim=-3)",
            ),
            Edit(
                "scratch.attention.repeat_heads",
                "np.repeat(x, times, axis=-3)",
                "np.concatenate([x] * times, axis=-3)",
            ),
        ),
    ),
)

POSITIONS = (
    Bug(
        name="no-positions",
        title="The positions were never used",
        symptom=(
            "No error. An encoder sees a bag of words: shuffle them, and every token keeps its vector. A "
            "decoder's first layer, too, sees its past as a bag; its causal mask lets deeper layers find some "
            "order all the same, but the loss stays too high."
        ),
        caught_by=(
            "tests/layers/test_references.py::test_a_whole_layer_of_llama",
            "tests/huggingface/test_parity.py::test_float64[whole-gpt2-eager-scratch]",
            "tests/huggingface/test_parity.py::test_float64[whole-gpt2-eager-nn]",
        ),
        edits=(
            *_both(_STACK, "x = self.positions.embed(x, positions)", "pass"),
            *_both(_STACK, "bias = self.positions.bias(positions, key_positions)", "bias = None"),
            *_both(
                "attention.MultiHeadAttention._heads",
                "heads = self.positions.rotate(heads, positions)",
                "pass",
            ),
        ),
    ),
    Bug(
        name="positions-late",
        title="The positions were added after the first block",
        symptom="No error, and it learns: only the first block works blind. Nothing but a comparison gives it "
        "away.",
        caught_by=(
            "tests/huggingface/test_parity.py::test_float64[whole-gpt2-eager-scratch]",
            "tests/huggingface/test_parity.py::test_float64[whole-gpt2-eager-nn]",
        ),
        edits=(
            *_both(_STACK, "x = self.positions.embed(x, positions)", "pass"),
            *_both(
                _STACK,
                'enter(f"{self.name}: block {i}")',
                'if i == 1:\n    x = self.positions.embed(x, positions=positions)\nenter(f"{self.name}: block {i}")',
            ),
        ),
    ),
    Bug(
        name="rope-on-values",
        title="The values were turned along with the queries and keys",
        symptom=(
            "No error. Queries and keys that are turned meet in a dot product, where only the distance is "
            "left; values meet nothing, and what they bring now depends on where the text begins. It costs a "
            "little, which shows only beside the right model's loss."
        ),
        caught_by=("tests/layers/test_references.py::test_a_whole_layer_of_llama",),
        edits=(
            Edit(
                "nn.attention.MultiHeadAttention._prepare",
                "v = self._heads(source, self.W_v, None, None)",
                "v = self._heads(source, self.W_v, None, None if crossing else positions)",
            ),
            Edit(
                "scratch.attention.MultiHeadAttention._attend",
                "v, v_backward = self._heads(source, self.W_v, None, None)",
                "v, v_backward = self._heads(source, self.W_v, None, None if crossing else positions)",
            ),
        ),
    ),
    Bug(
        name="rope-layout",
        title="The rotation paired the wrong dimensions",
        symptom=(
            "Trained from scratch, nothing: either pairing is as good. Loaded weights were trained with the "
            'other one (here, all that say "half"), and give wrong logits at every place but the first, whose '
            "angle is 0."
        ),
        caught_by=("tests/layers/test_references.py::test_a_whole_layer_of_llama",),
        edits=_both("positions.RotaryPositions.rotate", "layout=self.layout", 'layout="interleaved"'),
    ),
    Bug(
        name="t5-sign",
        title="The relative position was query minus key",
        symptom=(
            "No error. T5's decoder takes its whole past for future and puts all of it in bucket 0: it knows "
            "no distance, and the loss stays too high. Its encoder swaps left and right, which shows only "
            "with loaded weights. ALiBi does not care."
        ),
        caught_by=("tests/layers/test_by_hand.py::test_relative_positions",),
        edits=(
            Edit(
                "nn.positions.relative_positions",
                "key_positions.to(torch.int64)[..., None, :] - query_positions.to(torch.int64)[..., None]",
                "query_positions.to(torch.int64)[..., None] - key_positions.to(torch.int64)[..., None, :]",
            ),
            Edit(
                "scratch.positions.relative_positions",
                "key_positions.astype(np.int64)[..., None, :] - query_positions.astype(np.int64)[..., None]",
                "query_positions.astype(np.int64)[..., None] - key_positions.astype(np.int64)[..., None, :]",
            ),
        ),
    ),
)

BLOCK = (
    Bug(
        name="residual-dropped",
        title="The sublayer replaced the stream, and did not add to it",
        symptom=(
            "No error. A token's own vector is gone after the first sublayer, and the gradient has to pass "
            "through every sublayer on its way back: there is no path around. Two blocks learn about as well "
            "even so. But where what the sublayers add begins at 0, nothing gets through either way: no matrix "
            "of a block ever has a gradient, and the loss is stuck where knowing how often each token occurs "
            "brings it."
        ),
        caught_by=("tests/layers/test_torch_references.py::test_a_block_is_torch_transformer_encoder_layer",),
        edits=(
            *_both("block.Block._add", "x = x + y", "x = y"),
            Edit("nn.block.Block._add", "norm(x + y)", "norm(y)"),
            Edit("scratch.block.Block._add", "norm.forward(x + y)", "norm.forward(y)"),
        ),
    ),
    Bug(
        name="post-norm",
        title="The norm stood after the sum, in a model made for pre-norm",
        symptom=(
            "No error. Every norm rescales the whole stream, so that no path from the loss to the embeddings "
            "is left untouched. With two blocks it learns about as well. The deeper it is, and the higher the "
            "learning rate, the sooner the loss gets stuck where knowing how often each token occurs brings "
            'it. A long warm-up helps (Xiong et al. 2020, "On Layer Normalization in the Transformer '
            'Architecture"), and so do sublayers that add nothing at first. A model planned as pre-norm may '
            "have neither."
        ),
        caught_by=(
            "tests/layers/test_torch_references.py::test_a_block_is_torch_transformer_encoder_layer[True-gelu-pre-scratch]",
            "tests/layers/test_torch_references.py::test_a_block_is_torch_transformer_encoder_layer[True-gelu-pre-nn]",
        ),
        edits=_both("block.Block._add", 'if self.norm_placement == "pre":', "if False:"),
    ),
    Bug(
        name="eps-outside",
        title="The norm's ε was outside the root",
        symptom=(
            "As good as nothing for a lively vector. One of nearly equal features comes out far too large; "
            "and where all are equal, the root has no slope, and PyTorch's gradient is NaN."
        ),
        caught_by=(
            "tests/layers/test_torch_references.py::test_norms[0.1-scratch]",
            "tests/layers/test_torch_references.py::test_norms[0.1-nn]",
        ),
        edits=(
            Edit(
                "scratch.norm.LayerNorm.forward",
                "1 / np.sqrt(_mean_square(centred) + self.eps)",
                "1 / (np.sqrt(_mean_square(centred)) + self.eps)",
            ),
            Edit(
                "nn.norm.LayerNorm.forward",
                "return functional.layer_norm(x, (self.d_model,), self.weight, self.bias, self.eps)",
                "centred = x - x.mean(dim=-1, keepdim=True)\n"
                "sigma = x.var(dim=-1, keepdim=True, correction=0).sqrt()\n"
                "return centred / (sigma + self.eps) * self.weight + self.bias",
            ),
        ),
    ),
    Bug(
        name="sigma-unbiased",
        title="The norm's σ² was divided by D − 1",
        symptom=(
            "Everything is smaller by √(1 − 1/D), 0.07 % for GPT-2: no curve shows it, only a comparison. "
            "PyTorch's `var` does it by default."
        ),
        caught_by=("tests/layers/test_torch_references.py::test_norms",),
        edits=(
            Edit(
                "nn.norm.LayerNorm.forward",
                "return functional.layer_norm(x, (self.d_model,), self.weight, self.bias, self.eps)",
                "centred = x - x.mean(dim=-1, keepdim=True)\n"
                "variance = x.var(dim=-1, keepdim=True)\n"
                "return centred / torch.sqrt(variance + self.eps) * self.weight + self.bias",
            ),
            Edit(
                "scratch.norm.LayerNorm.forward",
                "1 / np.sqrt(_mean_square(centred) + self.eps)",
                "1 / np.sqrt(_mean_square(centred) * self.d_model / (self.d_model - 1) + self.eps)",
            ),
        ),
    ),
)

HEAD_AND_LOSS = (
    Bug(
        name="tied-reshaped",
        title="The tied embedding was reshaped, not transposed",
        symptom=(
            "No error: (V, D) reshapes to (D, V), whatever the sizes. (Where V = D, even forgetting the "
            "transpose raises none.) But a logit is no longer the product with one token's vector: the "
            "columns mix numbers of many tokens. Trained from scratch it learns nearly as well, for the table "
            "is learned that way round. Loaded weights give nonsense."
        ),
        caught_by=("tests/layers/test_model_properties.py::test_the_tied_head_is_the_embedding",),
        edits=_both(
            "head.Unembedding.forward", "embedding.weight.T", "embedding.weight.reshape(self.d_model, -1)"
        ),
    ),
    Bug(
        name="labels-unshifted",
        title="The targets were not shifted",
        symptom=(
            "Too good to be true: every position has to say the token that it reads. The loss sinks towards "
            "0, and the text repeats its last token for ever."
        ),
        caught_by=("tests/test_text.py::test_at_each_place_the_target_is_the_next_id",),
        edits=(
            Edit(
                "text.inputs_and_targets",
                "windows[..., :-1], windows[..., 1:]",
                "windows[..., :-1], windows[..., :-1]",
            ),
        ),
    ),
    Bug(
        name="labels-shifted-twice",
        title="The targets were shifted twice",
        symptom=(
            "It learns, but the token after the next is harder to guess: the loss stays too high. Generating, "
            "it puts that token where the next should be. Often one shift is in the data, and another in the "
            "model's loss."
        ),
        caught_by=("tests/test_text.py::test_at_each_place_the_target_is_the_next_id",),
        edits=(
            Edit(
                "text.inputs_and_targets",
                "windows[..., :-1], windows[..., 1:]",
                "windows[..., :-2], windows[..., 2:]",
            ),
        ),
    ),
    Bug(
        name="loss-over-padding",
        title="The loss was averaged over padding too",
        symptom=(
            "The loss is too low, in proportion to the padding: half padding, half the loss. At the start it "
            "is below ln V, which nothing untrained reaches. Batches with much padding teach less."
        ),
        caught_by=("tests/layers/test_torch_references.py::test_cross_entropy",),
        edits=(
            Edit(
                "nn.loss.cross_entropy",
                "functional.cross_entropy(rows, targets, ignore_index=ignore_index)",
                'functional.cross_entropy(rows, targets, ignore_index=ignore_index, reduction="sum") / len(targets)',
            ),
            Edit(
                "scratch.loss.cross_entropy",
                "(log_total - shifted[np.arange(len(targets)), targets]).mean()",
                "(log_total - shifted[np.arange(len(targets)), targets]).sum() / counted.size",
            ),
        ),
    ),
)

TRAINING = (
    Bug(
        name="tied-gradient-overwritten",
        title="The second use of a weight overwrote the gradient of the first",
        symptom=(
            "No error, and the loss falls, only more slowly: a tied embedding learns as what is looked up, "
            "which comes last in the backward, and not as what predicts."
        ),
        caught_by=(
            "tests/layers/test_model_properties.py::test_a_tied_weight_has_the_gradients_of_both_its_uses[GPT-2-scratch]",
        ),
        edits=(
            Edit(
                "scratch.layer.Layer.accumulate",
                "kept[name] + gradient if name in kept else gradient",
                "gradient",
            ),
        ),
    ),
    Bug(
        name="gradients-kept",
        title="The gradients were not set back to zero",
        symptom=(
            "Every step follows the sum of all gradients so far, those of long ago too: a momentum that "
            "nothing slows, which swings past where it should stop. Clipping and Adam, to which the length of "
            "a gradient is nothing, hide that: the loss falls on and on, only more slowly."
        ),
        caught_by=("tests/test_bugs.py::test_gradients_that_are_set_to_zero_do_not_add_up",),
        edits=(Edit("scratch.layer.Layer.zero_gradients", 'vars(layer).pop("_gradients", None)', "pass"),),
    ),
    Bug(
        name="gradients-unclipped",
        title="The gradients were measured, but not clipped",
        symptom=(
            "In a small model, next to nothing: only the first gradients are many times as long as usual, "
            "and the loss ends where it should. Clipping is a safeguard for the rare batch that has such a "
            "gradient later, and would alone decide the step and, through the running means, some more."
        ),
        caught_by=("tests/layers/test_torch_references.py::test_clipping[0.01]",),
        edits=(
            Edit(
                "scratch.optimizer.clip_gradients",
                "factor = min(1.0, max_norm / (length + 1e-6))",
                "factor = 1.0",
            ),
        ),
    ),
    Bug(
        name="adam-uncorrected",
        title="Adam's running means were not corrected for starting at 0",
        symptom=(
            "With betas (0.9, 0.999) the first steps are 3 times as long as they should be, since m has grown "
            "to a tenth of the gradient and √v only to a thirtieth. After some thousand steps nothing is left "
            "of it. With (0.9, 0.95) they are less than half as long, and the loss does not show it."
        ),
        caught_by=("tests/layers/test_torch_references.py::test_adamw_leaves_alone_what_has_no_gradient",),
        edits=(
            Edit(
                "scratch.optimizer.AdamW.step",
                "correct_m, correct_v = 1 - beta_m**self.n_steps, 1 - beta_v**self.n_steps",
                "correct_m, correct_v = 1.0, 1.0",
            ),
        ),
    ),
)

GENERATION = (
    Bug(
        name="dropout-in-evaluation",
        title="Dropout was still on in evaluation",
        symptom=(
            "Training looks as ever. The same input gives another output every time; the validation loss is "
            "too high and noisy, and greedy texts differ from run to run. (`functional.dropout` is on unless "
            "told otherwise.)"
        ),
        caught_by=("tests/layers/test_torch_references.py::test_a_model_drops_in_training_only",),
        edits=(
            Edit(
                "nn.block.Block._add",
                "self.dropout(sublayer(norm(x)))",
                "nn.functional.dropout(sublayer(norm(x)), self.dropout.p)",
            ),
            Edit(
                "nn.block.Block._add",
                "self.dropout(sublayer(x))",
                "nn.functional.dropout(sublayer(x), self.dropout.p)",
            ),
            Edit("nn.model.Stack.forward", "self.dropout(x)", "nn.functional.dropout(x, self.dropout.p)"),
            Edit("scratch.dropout.Dropout.forward", "not self.training or self.rate == 0", "self.rate == 0"),
        ),
    ),
    Bug(
        name="cache-off-by-one",
        title="With a cache, a new token was put where the last one stood",
        symptom=(
            "Training is right, and so is text generated without a cache. With one, all new tokens stand at "
            "the place of the prompt's last: the first is right, and from then on the text is another."
        ),
        caught_by=(
            "tests/layers/test_parity.py::test_with_a_cache_the_same_comes_out[plain-GPT-2-scratch]",
            "tests/layers/test_parity.py::test_with_a_cache_the_same_comes_out[plain-GPT-2-nn]",
        ),
        edits=_both(
            "cache.ModelCache.next_position", "self.positions[..., -1:] + 1", "self.positions[..., -1:]"
        ),
    ),
)

BUGS = {bug.name: bug for bug in (*ATTENTION, *POSITIONS, *BLOCK, *HEAD_AND_LOSS, *TRAINING, *GENERATION)}
