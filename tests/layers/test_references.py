"""Compares both rooms with independent code: PyTorch's own attention, and Hugging Face transformers.

Tolerances: `DOUBLE` is the rounding of short sums in float64. `SINGLE` is the cost of float32: transformers stores its
angles and slopes in float32, where numbers near 1 are 6e-8 apart, and a few such steps are lost.
"""

import numpy as np
import pytest
import torch
from ledger import TORCH, TRANSFORMERS, largest_difference, largest_relative_difference, record
from transformers import GPTJConfig, LlamaConfig, T5Config
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.gptj import modeling_gptj as gptj
from transformers.models.llama import modeling_llama as llama
from transformers.models.roformer import modeling_roformer as roformer
from transformers.models.t5.modeling_t5 import T5Attention
from transformers.models.xlm.modeling_xlm import create_sinusoidal_embeddings

from glassformer.huggingface import config_from_hf

from .rooms import NN, SCRATCH, Layer, both_rooms

DOUBLE, SINGLE, EXACT = 1e-13, 1e-6, 0


def torch64(array):
    return torch.from_numpy(np.asarray(array, np.float64))


def compare(component, reference, room, ours, theirs, bound, difference=largest_difference):
    """Compares ours with theirs, and notes the result in the parity ledger."""
    ours, theirs = (x.detach().numpy() if isinstance(x, torch.Tensor) else x for x in (ours, theirs))
    name, dtype = "nn" if room.is_torch else "scratch", str(ours.dtype)
    section = "Attention and positions"
    record(component, reference, dtype, name, difference(ours, theirs), bound, section=section)


def of(model):
    """Returns the name and version of transformers, with the model there that has the layer."""
    return f"{TRANSFORMERS} ({model})"


# Attention against PyTorch


@both_rooms
@pytest.mark.parametrize("shape", [(5, 4), (2, 3, 5, 4), (1, 7)], ids=str)
@pytest.mark.parametrize("extra", ["nothing", "mask", "bias", "both"])
def test_scaled_dot_product_attention(room, shape, extra):
    rng = np.random.default_rng(0)
    *B, T, K = shape
    S = T + 2
    q, k, v = rng.normal(size=shape), rng.normal(size=(*B, S, K)), rng.normal(size=(*B, S, K))
    mask, bias = np.tri(T, S, 2, dtype=bool), rng.normal(size=(T, S))
    given, for_torch = {}, None
    if extra in ("mask", "both"):
        given["mask"] = room.array(mask)
        for_torch = torch.from_numpy(mask)
    if extra in ("bias", "both"):
        given["score_bias"] = room.array(bias)
        for_torch = torch64(np.where(mask, bias, -np.inf) if extra == "both" else bias)
    attend = room.layers.scaled_dot_product_attention
    output, weights = attend(room.array(q), room.array(k), room.array(v), **given)
    expected = torch.nn.functional.scaled_dot_product_attention(
        torch64(q), torch64(k), torch64(v), attn_mask=for_torch
    )
    compare("scaled dot-product attention", TORCH, room, output, expected, DOUBLE)
    from_weights = room.numpy(weights) @ v
    compare("scaled dot-product attention", TORCH, room, from_weights, expected, DOUBLE)


@both_rooms
@pytest.mark.parametrize("shape", [(6, 12), (2, 6, 12), (1, 12)], ids=str)
@pytest.mark.parametrize("H", [1, 3, 12])
@pytest.mark.parametrize("causal", [False, True], ids=["open", "causal"])
def test_multi_head_attention(room, shape, H, causal):
    *_, T, D = shape
    layer = Layer(room, "none", D, H, causal=causal)
    W_q, W_k, W_v, W_o = (
        torch64(room.weight(layer.attention, name)) for name in ("W_q", "W_k", "W_v", "W_o")
    )
    theirs = torch.nn.MultiheadAttention(D, H, bias=False, batch_first=True, dtype=torch.float64)
    theirs.in_proj_weight.data = torch.cat([W_q.T, W_k.T, W_v.T])  # torch keeps (out, in)
    theirs.out_proj.weight.data = W_o.T
    x = np.random.default_rng(1).normal(size=shape)
    hidden = ~torch.ones(T, T, dtype=torch.bool).tril() if causal else None  # there, True = may not attend
    output, weights = theirs(*[torch64(x)] * 3, attn_mask=hidden, average_attn_weights=False)
    compare("multi-head attention", TORCH, room, layer(x), output, DOUBLE)
    compare("multi-head attention: weights", TORCH, room, layer.attention_weights(x), weights, DOUBLE)


# Sinusoidal


@both_rooms
@pytest.mark.parametrize("D", [2, 34, 128])
def test_sinusoidal_is_the_table_of_xlm(room, D):
    """Like the paper, XLM has sines in the even dimensions; most other models in the library put them first."""
    table = torch.empty(600, D)
    create_sinusoidal_embeddings(600, D, out=table)  # computed in float64, stored in float32
    ours = room.numpy(room.layers.sinusoidal(room.array(np.arange(600)), D))
    compare("sinusoidal positions, rounded", of("XLM"), room, ours.astype(np.float32), table, EXACT)


# Rotary


def queries_and_keys(T, K, H=3):
    """Returns numbers between −1 and 1, so that float32 rounding is a few times 6e-8."""
    return np.random.default_rng(2).uniform(-1, 1, size=(2, 2, H, T, K)).astype(np.float32)


def llama_config(K, H, base, interpolation):
    scaling = {"rope_type": "linear", "factor": interpolation} if interpolation != 1 else {}
    return LlamaConfig(
        hidden_size=H * K,
        num_attention_heads=H,
        rope_parameters={"rope_type": "default", "rope_theta": base} | scaling,
        attn_implementation="eager",
    )


@both_rooms
@pytest.mark.parametrize("K", [2, 6, 64])
@pytest.mark.parametrize("base", [10_000.0, 500_000.0])
@pytest.mark.parametrize("interpolation", [1.0, 4.0])
def test_half_layout_is_llama(room, K, base, interpolation):
    T = 8
    q, k = queries_and_keys(T, K)
    cos, sin = llama.LlamaRotaryEmbedding(llama_config(K, 3, base, interpolation))(
        torch.from_numpy(q), torch.arange(T)[None]
    )
    expected = llama.apply_rotary_pos_emb(torch.from_numpy(q), torch.from_numpy(k), cos, sin)
    method = room.layers.RotaryPositions(K, base=base, interpolation=interpolation)
    for x, turned in zip((q, k), expected, strict=True):
        ours = method.rotate(room.array(x))
        compare("rotary positions, half layout", of("LLaMA"), room, ours, turned, SINGLE)


LLAMA_3_1 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
STRETCHED = {
    "Llama 3.1": {"rope_type": "llama3", "factor": 8.0} | LLAMA_3_1,
    "Llama 3.2": {"rope_type": "llama3", "factor": 32.0} | LLAMA_3_1,
    "YaRN": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768},
    "YaRN, its own ramp": {
        "rope_type": "yarn",
        "factor": 40.0,
        "original_max_position_embeddings": 4096,
        "beta_fast": 16,
        "beta_slow": 2,
        "attention_factor": 0.8,
    },
    "YaRN, a short context": {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 3},
}


@both_rooms
@pytest.mark.parametrize("K", [2, 6, 64, 128])
@pytest.mark.parametrize("base", [10_000.0, 500_000.0, 1_000_000.0])
@pytest.mark.parametrize("kind", STRETCHED)
def test_stretched_positions_are_those_of_transformers(room, K, base, kind):
    rope = STRETCHED[kind]
    config = LlamaConfig(
        hidden_size=3 * K,
        num_attention_heads=3,
        max_position_embeddings=131_072,
        rope_parameters=rope | {"rope_theta": base},
    )
    theirs = llama.LlamaRotaryEmbedding(config)
    ours = config_from_hf(config.to_dict()).replace(vocab_size=9, n_layers=1, d_ff=1)
    model = room.layers.Transformer(ours, generator=None)
    method = model.decoder.blocks[0].attention.position_encoding
    slowed = room.layers.stretch(K, base=base, **method.stretching)
    slowed = slowed * room.layers.frequencies(K, base=base)
    compare(
        "rotary positions, stretched: frequencies (relative)",
        of(kind),
        room,
        slowed,
        theirs.inv_freq,
        SINGLE,
        largest_relative_difference,
    )
    assert method.attention_factor == theirs.attention_scaling


@both_rooms
@pytest.mark.parametrize("K", [2, 6, 64])
def test_interleaved_layout_is_gpt_j(room, K):
    T = 8
    q, _ = queries_and_keys(T, K)
    sin, cos = gptj.create_sinusoidal_positions(T, K)[None].chunk(2, dim=-1)
    expected = gptj.apply_rotary_pos_emb(torch.from_numpy(q).transpose(1, 2), sin, cos).transpose(1, 2)
    method = room.layers.RotaryPositions(K, layout="interleaved")
    ours = method.rotate(room.array(q))
    compare("rotary positions, interleaved layout", of("GPT-J"), room, ours, expected, SINGLE)


@both_rooms
@pytest.mark.parametrize("K", [2, 6, 64])
def test_interleaved_layout_is_roformer(room, K):
    T = 8
    q, k = queries_and_keys(T, K)
    table = roformer.RoFormerSinusoidalPositionalEmbedding(T, K).create_weight()
    expected = roformer.RoFormerSelfAttention.apply_rotary_position_embeddings(
        table, torch.from_numpy(q), torch.from_numpy(k)
    )
    method = room.layers.RotaryPositions(K, layout="interleaved")
    for x, turned in zip((q, k), expected, strict=True):
        ours = method.rotate(room.array(x))
        compare("rotary positions, interleaved layout", of("RoFormer"), room, ours, turned, SINGLE)


def causal_bias(T):
    """Returns what transformers adds to forbidden scores: the most negative float32."""
    return torch.full((T, T), torch.finfo(torch.float32).min).triu(1)[None, None]


def in_single_precision(room, layer):
    """Returns the layer's attention with float32 weights, and those weights in torch's layout, (out, in)."""
    kept = {}
    for name in ("W_q", "W_k", "W_v", "W_o"):
        weight = room.weight(layer.attention, name).astype(np.float32)
        room.load(layer.attention, **{name: weight})
        kept[name] = torch.from_numpy(weight.T.copy())
    return layer.attention, kept


@both_rooms
@pytest.mark.parametrize("H", [1, 3])
def test_a_whole_layer_of_llama(room, H):
    T, D = 8, 12
    layer = Layer(room, "rope", D, H, causal=True)
    attention, W = in_single_precision(room, layer)
    config = llama_config(D // H, H, 10_000.0, 1.0)
    theirs = llama.LlamaAttention(config, layer_idx=0)
    names = {"q_proj.weight": "W_q", "k_proj.weight": "W_k", "v_proj.weight": "W_v", "o_proj.weight": "W_o"}
    theirs.load_state_dict({theirs_name: W[name] for theirs_name, name in names.items()})
    x = np.random.default_rng(3).uniform(-1, 1, size=(2, T, D)).astype(np.float32)
    cos_sin = llama.LlamaRotaryEmbedding(config)(torch.from_numpy(x), torch.arange(T)[None])
    output, weights = theirs(torch.from_numpy(x), cos_sin, causal_bias(T))
    for ours, expected in (
        (attention(room.array(x)), output),
        (attention.attention_weights(room.array(x)), weights),
    ):
        compare("LLaMA: a layer of attention", TRANSFORMERS, room, ours, expected, SINGLE)


@both_rooms
@pytest.mark.parametrize("H", [1, 3])
def test_a_whole_layer_of_gpt_j(room, H):
    T, D = 8, 12
    method = room.layers.RotaryPositions(D // H, layout="interleaved")
    layer = Layer(room, "none", D, H, causal=True)
    layer.attention.position_encoding = method
    attention, W = in_single_precision(room, layer)
    config = GPTJConfig(n_embd=D, n_head=H, n_positions=T, rotary_dim=D // H, attn_implementation="eager")
    theirs = gptj.GPTJAttention(config, layer_idx=0).eval()
    names = {"q_proj.weight": "W_q", "k_proj.weight": "W_k", "v_proj.weight": "W_v", "out_proj.weight": "W_o"}
    theirs.load_state_dict({theirs_name: W[name] for theirs_name, name in names.items()})
    x = np.random.default_rng(3).uniform(-1, 1, size=(2, T, D)).astype(np.float32)
    output, weights = theirs(
        torch.from_numpy(x), attention_mask=causal_bias(T), position_ids=torch.arange(T).expand(2, T)
    )
    for ours, expected in (
        (attention(room.array(x)), output),
        (attention.attention_weights(room.array(x)), weights),
    ):
        compare("GPT-J: a layer of attention", TRANSFORMERS, room, ours, expected, SINGLE)


# T5


T5_SETTINGS = [(32, 128), (32, 20), (8, 16), (4, 3), (64, 256), (320, 800), (10, 128), (128, 1000), (13, 64)]


@both_rooms
@pytest.mark.parametrize("bidirectional", [True, False], ids=["bidirectional", "causal"])
@pytest.mark.parametrize(("n_buckets", "max_distance"), [*T5_SETTINGS, (7, 100), (33, 50)])
def test_t5_buckets(room, bidirectional, n_buckets, max_distance):
    relative = np.arange(-2000, 2001)
    settings = {"bidirectional": bidirectional, "max_distance": max_distance}
    ours = room.numpy(room.layers.t5_bucket(room.array(relative), n_buckets=n_buckets, **settings))
    theirs = T5Attention._relative_position_bucket(
        torch.from_numpy(relative), num_buckets=n_buckets, **settings
    )
    compare("T5: buckets of distances", TRANSFORMERS, room, ours, theirs, EXACT)


@pytest.mark.parametrize("bidirectional", [True, False], ids=["bidirectional", "causal"])
@pytest.mark.parametrize(("n_buckets", "max_distance"), T5_SETTINGS)
def test_t5_buckets_begin_where_exact_arithmetic_says(bidirectional, n_buckets, max_distance):
    """⌊n·log(d/e)/log(m/e)⌋ ≥ j exactly if (d/e)^n ≥ (m/e)^j, which integers decide without rounding."""
    n_side = n_buckets // 2 if bidirectional else n_buckets
    e = n_side // 2
    n = n_side - e

    def exact(d):
        if d < e:
            return d
        return e + max(j for j in range(n) if d**n * e**j >= max_distance**j * e**n)

    distances = range(0, max_distance + 2)
    for room in (SCRATCH, NN):
        ours = room.layers.t5_bucket(
            -room.array(np.array(distances)),
            bidirectional=bidirectional,
            n_buckets=n_buckets,
            max_distance=max_distance,
        )
        np.testing.assert_array_equal(room.numpy(ours), [exact(d) for d in distances])


@both_rooms
@pytest.mark.parametrize("bidirectional", [True, False], ids=["encoder", "decoder"])
@pytest.mark.parametrize("H", [1, 3])
def test_a_whole_layer_of_t5(room, bidirectional, H):
    T, D = 30, 12
    layer = Layer(room, "t5-bidirectional" if bidirectional else "t5", D, H, causal=not bidirectional)
    config = T5Config(
        d_model=D,
        d_kv=D // H,
        num_heads=H,
        is_decoder=not bidirectional,
        relative_attention_num_buckets=layer.method.n_buckets,
        relative_attention_max_distance=layer.method.max_distance,
        attn_implementation="eager",
    )
    theirs = T5Attention(config, has_relative_attention_bias=True, layer_idx=0).double().eval()
    W = {name: torch64(room.weight(layer.attention, name).T) for name in ("W_q", "W_k", "W_v", "W_o")}
    theirs.load_state_dict(
        {
            "q.weight": W["W_q"] / (D // H) ** 0.5,  # T5 does not divide the scores by √K
            "k.weight": W["W_k"],
            "v.weight": W["W_v"],
            "o.weight": W["W_o"],
            "relative_attention_bias.weight": torch64(room.numpy(layer.method.weight)),
        }
    )
    x = np.random.default_rng(3).normal(size=(2, T, D))
    mask = None if bidirectional else torch.full((T, T), -torch.inf, dtype=torch.float64).triu(1)[None, None]
    output, _, weights = theirs(torch64(x), mask=mask)
    places = room.array(np.arange(T))
    bias = layer.method.score_bias(places, places)
    compare("T5: bias of positions", TRANSFORMERS, room, bias, theirs.compute_bias(T, T)[0], EXACT)
    for ours, expected in ((layer(x), output), (layer.attention_weights(x), weights)):
        compare("T5: a layer of attention", TRANSFORMERS, room, ours, expected, DOUBLE)


# ALiBi


@both_rooms
@pytest.mark.parametrize("H", [1, 2, 3, 5, 6, 8, 12, 16, 25, 40, 64, 112])
def test_alibi_is_bloom(room, H):
    """BLOOM adds slope × key position, which differs from ours by a constant in each row of past keys."""
    T = 8
    places = room.array(np.arange(T))
    theirs = build_alibi_tensor(torch.ones(1, T), H, torch.float32).numpy()  # (H, 1, T)
    slopes = room.numpy(room.layers.alibi_slopes(H))
    bloom, relative = of("BLOOM, in float32"), largest_relative_difference
    compare("ALiBi: slopes (relative)", bloom, room, slopes, theirs[:, 0, 1], SINGLE, relative)
    ours = room.numpy(room.layers.AlibiPositions(H).score_bias(places, places))
    past = np.tri(T, dtype=bool)
    from_the_query = theirs - theirs.transpose(0, 2, 1)
    compare("ALiBi: bias of positions", bloom, room, ours[:, past], from_the_query[:, past], SINGLE)

    q, k, v = np.random.default_rng(4).normal(size=(3, H, T, 4))
    attend = room.layers.scaled_dot_product_attention
    _, weights = attend(*map(room.array, (q, k, v)), mask=room.array(past), score_bias=room.array(ours))
    scores = torch64(q) @ torch64(k).transpose(-1, -2) / 2 + torch64(theirs)
    expected = scores.masked_fill(~torch.from_numpy(past), -torch.inf).softmax(-1)
    compare("ALiBi: attention weights", bloom, room, weights, expected, SINGLE)
