"""Hunyuan: a LLaMA with norms of queries and keys that come after the rotation, whose base can be stretched."""

from collections.abc import Mapping
from typing import Any

from glassformer import _checks as checks
from glassformer.huggingface.families.llama import LLAMA, NO_FEEDFORWARD_BIASES
from glassformer.huggingface.families.rope import Rope


class WithAlpha(Rope):
    """Positions of the type "dynamic" with an alpha have a larger base, and nothing about them is dynamic."""

    def _fields(
        self, given: Mapping[str, Any], where: str, settings: Any, outside: str | None, base: float
    ) -> dict[str, Any]:
        alpha = settings.get("alpha") if isinstance(settings, dict) else None
        if alpha is not None and "dynamic" in (settings.get("rope_type"), settings.get("type")):
            checks.positive("alpha", alpha)
            d_head = given.get("head_dim") or given["hidden_size"] // given["num_attention_heads"]
            usual = settings.get("rope_theta", given.get("rope_theta", base))
            settings = {"rope_theta": usual * alpha ** (d_head / (d_head - 2))}
            given = {key: value for key, value in given.items() if key != "rope_theta"}
        return super()._fields(given, where, settings, outside, base)


HUNYUAN = LLAMA.derive(
    model_type="hunyuan_v1_dense",
    architectures=("HunYuanDenseV1ForCausalLM", "HunYuanDenseV1Model"),
    fields={"norm_eps": 1e-5},
    always={"qk_norm": "after", "feedforward_bias": False},
    rope=WithAlpha(more=("alpha",)),
    must_be=(
        *LLAMA.must_be,
        NO_FEEDFORWARD_BIASES,
        ("use_qk_norm", (True, None), "queries and keys always have norms in this family"),
        ("use_cla", (False, None), "no layer borrows keys and values in this family"),
    ),
    without_effect={"eod_token_id": "names a token"},
    claims=None,
    names={
        "decoder.blocks.#.attention.norm_q": "model.layers.#.self_attn.query_layernorm",
        "decoder.blocks.#.attention.norm_k": "model.layers.#.self_attn.key_layernorm",
    },
)
