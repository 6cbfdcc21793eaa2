"""Tests that the parameters that a token uses are those that get a gradient in transformers."""

import pytest
import torch

from glassformer.anatomy import read

from .small import n_weights, small

FAMILIES = (
    "llama mixtral qwen2_moe qwen3_moe qwen3_next gpt_oss glm4_moe llama4_text lfm2_moe granitemoehybrid "
    "nemotron_h minimax_m2 ernie4_5_moe gemma4_text"
)
CHANGES = {
    "gemma4_text": {
        "enable_moe_block": True,
        "num_experts": 8,
        "top_k_experts": 3,
        "moe_intermediate_size": 24,
    },
}


@pytest.mark.parametrize("family", FAMILIES.split())
def test_a_token_uses_the_experts_that_get_a_gradient_and_its_row_of_a_table(family):
    model = small(family, **CHANGES.get(family, {}))
    active = read({**model.config.to_dict(), "model_type": family}).weights(active=True)
    model(torch.tensor([[5]])).logits.square().sum().backward()
    unused = 0
    for name, weight in model.named_parameters():
        if ".experts." in name or ("embed" in name and weight.ndim == 2):
            rows = weight.grad.flatten(1)
            unused += int((rows == 0).all(dim=1).sum()) * rows.shape[1]
    assert sum(active.values()) == n_weights(model) - unused
