"""Tests `evaluate` against predictions made one at a time, against counts, and against the spread over many texts."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from memory import peak
from own_models import CHARACTERS, TOKENIZER, small
from tokenizers import Tokenizer, models, pre_tokenizers

from glassformer import checkpoints, evaluation, nn, scratch, shipped
from glassformer.config import ModelConfig
from glassformer.evaluation import evaluate
from glassformer.inside import mean_loss
from glassformer.tasks import NextToken
from glassformer.text import BytePairTokenizer, CharTokenizer, corpus


def some_text(n, seed=0):
    return "".join(np.random.default_rng(seed).choice(list(CHARACTERS), n))


def in_torch(model):
    return checkpoints.model_of(model.config, model.named_parameters(), room="nn")


class Bigrams(scratch.Transformer):
    """A decoder that knows p(next | this) as a table, as counts give it."""

    def __init__(self, p):
        config = ModelConfig(vocab_size=len(p), context_length=40, d_model=4, n_layers=1, n_heads=1)
        super().__init__(config, generator=None)
        self.table = np.log(p)
        self.eval()

    def hidden(self, ids):
        return ids

    def head(self, hidden):
        return self.table[hidden]


@pytest.mark.parametrize(("length", "stride"), [(None, None), (40, 40), (40, 1), (7, 3), (1, 1)])
@pytest.mark.parametrize("n", [2, 40, 41, 42, 95])
def test_every_token_is_predicted_once_with_the_context_that_is_promised(n, length, stride):
    model, text = small().eval(), some_text(n)
    model64 = scratch.Transformer(model.config, generator=None, dtype=np.float64).eval()
    model64.load_state_dict({name: w.astype(np.float64) for name, w in model.named_parameters().items()})
    found = evaluate(model64, TOKENIZER, text, length=length, stride=stride)
    length = length or 40
    stride = stride or length // 2
    ids, losses = TOKENIZER.encode(text), []
    for target in range(1, n):
        window = next(k for k in range(n) if target <= k * stride + length)  # the first that reaches it
        read = ids[window * stride : target]
        assert len(read) >= min(target, length - stride + 1)
        logits = model64(read)[-1]
        losses.append(np.log(np.exp(logits).sum()) - logits[ids[target]])
    assert (found.n_tokens, found.n_bytes) == (n - 1, n - 1)
    assert found.loss == pytest.approx(np.mean(losses), rel=1e-12)
    assert found.perplexity == pytest.approx(np.exp(np.mean(losses)), rel=1e-12)
    assert found.bits_per_byte == pytest.approx(np.mean(losses) / np.log(2), rel=1e-12)
    assert math.isnan(found.standard_error) == (n - 1 <= length)


@pytest.mark.parametrize("at_once", [1, 2000, 2**22])
def test_both_rooms_and_all_sizes_of_batches_agree(monkeypatch, at_once):
    model, text = small().eval(), some_text(300)
    expected = evaluate(model, TOKENIZER, text)
    monkeypatch.setattr(evaluation, "AT_ONCE", at_once)
    assert evaluate(model, TOKENIZER, text) == pytest.approx(expected, rel=1e-5)
    assert evaluate(in_torch(model), TOKENIZER, text) == pytest.approx(expected, rel=1e-5)


def test_windows_that_do_not_overlap_give_the_validation_loss():
    model, text = small().eval(), some_text(3000)
    task = NextToken(TOKENIZER.encode(text), 40, 4, 0)
    found = evaluate(model, TOKENIZER, text[2700:], stride=40)
    assert found.loss == pytest.approx(mean_loss(model, task.validation()), rel=1e-6)


def test_bits_per_byte_follow_from_counts_whatever_the_tokens_are():
    text = "Ähnlich, ähnlicher, am ähnlichsten: añb → 🦊🦊. " * 9
    tokenizer = CharTokenizer.from_text(text)
    ids, counts = tokenizer.encode(text), np.ones((tokenizer.vocab_size,) * 2)
    np.add.at(counts, (ids[:-1], ids[1:]), 1)
    p = counts / counts.sum(axis=1, keepdims=True)
    bits = -sum(math.log2(p[a, b]) for a, b in pairwise(ids))
    found = evaluate(Bigrams(p), tokenizer, text)
    assert found.n_bytes == len(text.encode()) - len("Ä".encode())
    assert found.bits_per_byte == pytest.approx(bits / found.n_bytes, rel=1e-12)

    pairs = BytePairTokenizer.from_text(text, 300)
    V, ids = pairs.vocab_size, pairs.encode(text)
    found = evaluate(Bigrams(np.full((V, V), 1 / V)), pairs, text)
    assert found.n_bytes == len(pairs.decode(ids[1:]).encode())
    assert found.bits_per_byte == pytest.approx((len(ids) - 1) * math.log2(V) / found.n_bytes, rel=1e-12)


def test_the_standard_error_is_the_spread_over_texts_of_which_single_tokens_know_too_little():
    """In stretches of 60 characters, b is rare or common."""
    tokenizer, model, generator = (
        CharTokenizer("ab"),
        Bigrams(np.tile([0.9, 0.1], (2, 1))),
        np.random.default_rng(0),
    )
    found, of_tokens = [], []
    for _ in range(100):
        common = generator.choice([0.02, 0.5], 96).repeat(60)
        letters = (generator.random(len(common)) < common).astype(int)
        found.append(evaluate(model, tokenizer, tokenizer.decode(letters)))
        of_tokens.append(-np.log([0.9, 0.1])[letters].std() / math.sqrt(len(letters)))
    spread = np.std([one.loss for one in found])
    stated = np.mean([one.standard_error for one in found])
    assert 0.8 < stated / spread < 1.25
    assert np.mean(np.abs(of_tokens)) < spread / 2


def test_memory_does_not_grow_with_the_text(monkeypatch):
    model = Bigrams(np.full((len(CHARACTERS),) * 2, 0.5))
    monkeypatch.setattr(evaluation, "AT_ONCE", 2**14)
    short, long = some_text(1000), some_text(9000)
    most = peak(lambda: evaluate(model, TOKENIZER, short)) + 8000 * 30
    # Bytes of ids, in a list and in an array; logits would take 230 a token
    assert peak(lambda: evaluate(model, TOKENIZER, long), at_most=most) < most


def test_the_books_model_is_as_good_as_its_card_says_and_better_with_more_context():
    model, tokenizer = shipped.load("shakespeare", room="nn")
    held_out = corpus()[int(0.95 * len(corpus())) :]
    found = evaluate(model, tokenizer, held_out, stride=128)
    assert found.loss == pytest.approx(shipped.card()["losses"]["128 characters"]["test"], abs=1e-4)
    few = held_out[:3000]
    assert evaluate(model, tokenizer, few).loss < evaluate(model, tokenizer, few, stride=128).loss


def library_tokenizer(**options):
    vocab = {"<unk>": 0, "ab": 1, "c": 2, "e": 3}
    tokenizer = Tokenizer(models.WordLevel(vocab, **options))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


def test_what_a_tokenizer_lacks_is_named_with_its_place():
    model = small().eval()
    with pytest.raises(ValueError, match=rf"text\[2\]='é' is not one of the {len(CHARACTERS)} characters"):
        evaluate(model, TOKENIZER, "abé")
    library = library_tokenizer(unk_token="<unk>")
    assert evaluate(model, library, "ab c ab").n_tokens == 2
    with pytest.raises(
        ValueError, match=r"text\[5\]='dé' is not in the tokenizer's vocabulary: predicting '<unk>'"
    ):
        evaluate(model, library, "ab c dé ab")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"model": small(family="encoder").eval()},
            "must be 'decoder'.* an encoder sees the tokens after",
        ),
        ({"model": small(family="encoder-decoder").eval()}, "an encoder–decoder needs a source to read"),
        ({"model": small(dropout=0.1).train()}, "model.training=True"),
        ({"text": ""}, "text has 0 tokens, but at least 2"),
        ({"text": "a"}, "text has 1 tokens, but at least 2"),
        ({"tokenizer": None}, "tokenizer=None must be a CharTokenizer"),
        ({"tokenizer": CharTokenizer(CHARACTERS + "q"), "text": "aq"}, r"ids\[1\]=\d+ .*vocab_size="),
        ({"length": 0}, "length=0 must be at least 1"),
        ({"length": 41}, "length=41 must be at most the model's context_length=40"),
        ({"stride": 0}, "stride=0 must be at least 1"),
        ({"length": 8, "stride": 9}, "stride=9 must be at most length=8"),
    ],
)
def test_what_cannot_be_measured_is_refused(change, said):
    given = {"model": small().eval(), "tokenizer": TOKENIZER, "text": "ab"} | change
    with pytest.raises((ValueError, TypeError), match=said):
        evaluate(given.pop("model"), given.pop("tokenizer"), given.pop("text"), **given)


def test_the_model_is_left_as_it_was():
    model = in_torch(small()).eval()
    evaluate(model, TOKENIZER, some_text(60))
    assert all(weight.grad is None for weight in model.parameters())
    assert isinstance(model, nn.Transformer)
    assert torch.is_grad_enabled()
