"""Compares induction scores with plain loops over attention weights, and with uniform attention."""

import numpy as np
import pytest
import torch
from close import DOUBLE
from torch.nn import functional

from glassformer.inside import induction_scores, previous_token_scores, repetition
from glassformer.trace import trace

from .models import DECODERS, GPT2, MODERN, build, in_torch, some_ids

every_decoder = pytest.mark.parametrize("name", DECODERS)


def weights_of(model, ids):
    """Returns the attention weights (L, B, H, T, S) as the other room computes them."""
    with trace() as seen, torch.no_grad():
        in_torch(model)(torch.from_numpy(ids))
    return torch.stack(seen.arrays("weights")).numpy()


@every_decoder
def test_the_previous_token_score_of_every_head(name):
    model, ids = build(DECODERS[name]), some_ids(DECODERS[name], (3, 6))
    weights = weights_of(model, ids)
    scores = previous_token_scores(model, ids)
    for block in range(model.config.n_layers):
        for head in range(model.config.n_heads):
            paid = [weights[block, b, head, t, t - 1] for b in range(3) for t in range(1, 6)]
            assert scores[block, head] == pytest.approx(np.mean(paid), abs=1e-13)


@every_decoder
def test_the_induction_score_of_every_head(name):
    model, text = build(DECODERS[name]), some_ids(DECODERS[name], (3, 5))
    weights = weights_of(model, np.concatenate([text, text], axis=1))
    scores = induction_scores(model, text)
    # The token at 5 stood at 0 before, and 1 came after it; the one at 9 stood at 4, and 5 came.
    after_the_first = {5: 1, 6: 2, 7: 3, 8: 4, 9: 5}
    for block in range(model.config.n_layers):
        for head in range(model.config.n_heads):
            paid = [weights[block, b, head, t, s] for b in range(3) for t, s in after_the_first.items()]
            assert scores[block, head] == pytest.approx(np.mean(paid), abs=1e-13)


def test_a_head_that_attends_to_all_alike():
    model = build(GPT2)
    for block in model.decoder.blocks:
        block.attention.W_q.weight[:] = block.attention.W_q.bias[:] = 0
    text = some_ids(GPT2, (2, 4))
    np.testing.assert_allclose(
        previous_token_scores(model, text), (1 / 2 + 1 / 3 + 1 / 4) / 3 * np.ones((2, 2)), rtol=0, atol=1e-14
    )
    np.testing.assert_allclose(
        induction_scores(model, text),
        (1 / 5 + 1 / 6 + 1 / 7 + 1 / 8) / 4 * np.ones((2, 2)),
        rtol=0,
        atol=1e-14,
    )


def test_a_single_text_has_a_previous_token_score():
    model, ids = build(MODERN), some_ids(MODERN)
    np.testing.assert_allclose(
        previous_token_scores(model, ids[0]), previous_token_scores(model, ids[:1]), rtol=0, atol=1e-14
    )


@every_decoder
def test_the_loss_on_a_text_its_repetition_and_after_another(name):
    model, text = build(DECODERS[name]), some_ids(DECODERS[name], (3, 5))
    twin, ids = in_torch(model), torch.from_numpy(text)
    one_before = torch.stack([ids[2], ids[0], ids[1]])

    def loss(before):
        """Returns the loss of all tokens of the texts except the first."""
        with torch.no_grad():
            logits = twin(torch.cat([before, ids[:, :-1]], dim=1))[:, -4:]
        return functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()).item()

    found = repetition(model, text)
    assert found.first == pytest.approx(loss(ids[:, :0]), rel=DOUBLE)
    assert found.again == pytest.approx(loss(ids), rel=DOUBLE)
    assert found.after_another == pytest.approx(loss(one_before), rel=DOUBLE)


def test_bad_input_is_refused():
    model = build(GPT2)
    for measure in (induction_scores, repetition):
        with pytest.raises(ValueError, match=r"text\.shape\[-1\]=1 must be at least 2"):
            measure(model, some_ids(GPT2, (2, 1)))
        with pytest.raises(ValueError, match=r"text has shape \(5,\), but needs the axes \(\.\.\., B, N\)"):
            measure(model, some_ids(GPT2, (5,)))
        with pytest.raises(TypeError, match="text must be an array of integers"):
            measure(model, some_ids(GPT2) * 1.0)
        with pytest.raises(TypeError, match="must be a Transformer"):
            measure(torch.nn.Linear(2, 3), some_ids(GPT2, (2, 5)))
        with pytest.raises(ValueError, match="12"):  # the context's length, of which seven twice is more
            measure(model, some_ids(GPT2, (2, 7)))
    with pytest.raises(ValueError, match=r"len\(text\)=1 must be at least 2"):
        repetition(model, some_ids(GPT2, (1, 5)))
    with pytest.raises(ValueError, match=r"ids\.shape\[-1\]=1 must be at least 2"):
        previous_token_scores(model, some_ids(GPT2, (2, 1)))
    with pytest.raises(ValueError, match="call model"):
        repetition(build(GPT2.replace(dropout=0.1)).train(), some_ids(GPT2, (2, 5)))
