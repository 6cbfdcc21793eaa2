// A config.json in sentences: what each field means for the model, and what our code lacks. See config_reader.py.
import { kindOf } from "../../widgets/engine/counting.js";
import { grouped, plural } from "../../widgets/kit/kit.js";

const COUNTS = ["", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
const counted = (n) => COUNTS[n] ?? grouped(n);

const times = (a, b) => grouped(Number((a / b).toPrecision(3)));

// How many positions the slowest pair of RoPE needs for a full turn.
export const slowest = (base, width) => 2 * Math.PI * base ** ((width - 2) / width);

const FAMILIES = {
  decoder: "A decoder: each position sees itself and what comes before it, and predicts the next token.",
  encoder: "An encoder: each position sees the whole text, in both directions.",
  "encoder-decoder": "An encoder reads one text; a decoder writes another and attends to the first.",
};
const FEEDFORWARD = {
  relu: "ReLU: negative numbers become zero",
  relu2: "squared ReLU: negative numbers become zero, and positive ones their square",
  gelu: "GELU, a smooth ReLU",
  gelu_tanh: "GELU, a smooth ReLU, computed with tanh",
  swiglu: "SwiGLU: a gate that passes through SiLU, times a second branch, so there are three matrices",
  geglu: "GEGLU: a gate that passes through GELU, times a second branch, so there are three matrices",
  geglu_tanh: "GEGLU: a gate that passes through GELU (computed with tanh), times a second branch, so there are three matrices",
};
const BIASES = { all: "Queries, keys, values and the output projection have biases.", qkv: "Queries, keys and values have biases; the output projection has none.", none: "No matrix of attention has a bias." };

// The meaning of a field of ModelConfig: the chapter that derives it, and a sentence with the sizes that are known.
export const MEANINGS = {
  family: ["12", (c) => FAMILIES[c.family]],
  vocab_size: ["02", (c) => `There are ${grouped(c.vocab_size)} tokens, and the embedding has a row for each.`],
  context_length: [
    "04",
    (c) => {
      const longest = plural(c.context_length, "token");
      if (c.positions === "learned") return `It reads at most ${longest}: each position has a learned vector, and there are no more.`;
      const beyond = c.positions === "t5" ? "All larger distances share its last bucket" : "Positions are computed, so longer texts run, but it was not trained on them";
      return `It is made for ${longest}. ${beyond}.`;
    },
  ],
  d_model: ["05", (c) => `The residual stream has ${grouped(c.d_model)} numbers at each position, from the embedding to the head.`],
  n_layers: [
    "07",
    (c) => `${c.family === "encoder-decoder" ? "The encoder" : "The model"} has ${plural(c.n_layers, "block")} in a row.`,
  ],
  n_decoder_layers: ["12", (c) => c.n_decoder_layers && `The decoder has ${plural(c.n_decoder_layers, "block")}, each with cross-attention to the encoder’s output.`],
  n_heads: ["03", (c) => `Each block has ${plural(c.n_heads, "query head")}.`],
  n_kv_heads: [
    "11",
    ({ n_heads, n_kv_heads: n }) => {
      if (!n || !n_heads) return n && `Each block has ${plural(n, "key/value head")}.`;
      const kind = kindOf(n, n_heads);
      if (kind === "MHA") return `Each of the ${plural(n_heads, "query head")} has its own keys and values (MHA).`;
      if (kind === "MQA") return `All ${grouped(n_heads)} query heads share one key/value head (MQA).`;
      return `${grouped(n_heads)} query heads share ${plural(n, "key/value head")}: ${counted(n_heads / n)} to one (GQA).`;
    },
  ],
  d_head: [
    "03",
    ({ n_heads: n, d_head: k, d_model: d }) => {
      if (!n || !k || !d) return null;
      const together = n * k === d ? "as wide as the stream" : `${times(n * k, d)} times the stream`;
      return `A query, key or value of one head has ${plural(k, "number")}. ${grouped(n)} × ${grouped(k)} = ${grouped(n * k)}, ${together}.`;
    },
  ],
  qk_norm: ["10", (c) => c.qk_norm && "One RMSNorm brings each head’s queries to a standard size, and another its keys, so scores stay small."],
  attention_bias: ["03", (c) => BIASES[c.attention_bias]],
  attention_scale: ["03", (c) => c.attention_scale === 1 && "Scores are not divided by √K."],
  d_ff: ["06", (c) => `The feed-forward network of each block has ${grouped(c.d_ff)} neurons${c.d_model ? `, ${times(c.d_ff, c.d_model)} for each number of the stream` : ""}.`],
  feedforward: ["06", (c) => c.feedforward && `${FEEDFORWARD[c.feedforward]}.`],
  feedforward_bias: ["06", (c) => (c.feedforward_bias ? "The feed-forward matrices have biases." : "The feed-forward matrices have no biases.")],
  norm_placement: ["05", (c) => c.norm_placement === "post" && "Each norm comes after the residual sum (post-norm)."],
  norm_eps: [
    "05",
    (c) => `ε keeps ${c.norm === "rmsnorm" ? "RMSNorm" : "LayerNorm"} from dividing by zero. With any other value than in training, every number is slightly off.`,
  ],
  rope_base: [
    "04",
    (c) => `RoPE rotates queries and keys by their position. With this base, one rotation of the slowest pair takes ${grouped(Math.round(slowest(c.rope_base, c.d_head)))} positions${c.rope_interpolation === 1 ? "" : ", before it is stretched"}.`,
  ],
  rope_interpolation: [
    "04",
    (c) => {
      const factor = grouped(c.rope_interpolation);
      if (c.rope_scaling !== "linear") {
        const name = c.rope_scaling === "yarn" ? "YaRN" : "Llama 3.1’s rule";
        return `${name} stretches a context of ${grouped(c.rope_original_context)} positions. Pairs that make less than ${plural(c.rope_slow, "rotation")} in it become ${factor} times as slow, pairs that make more than ${grouped(c.rope_fast)} stay as they are, and those in between are blended.`;
      }
      return c.rope_interpolation !== 1 && `Positions are divided by ${factor}, so every pair is ${factor} times as slow.`;
    },
  ],
  rope_attention_factor: ["13", (c) => c.rope_attention_factor !== 1 && `Rotated queries and keys are multiplied by ${c.rope_attention_factor.toFixed(3)}, and so the scores by its square: YaRN’s temperature.`],
  sliding_window: ["13", (c) => c.sliding_window && `In each layer, a position sees itself and the ${grouped(c.sliding_window - 1)} before it: a sliding window.`],
  t5_n_buckets: ["04", (c) => `The model learns a bias for each of ${grouped(c.t5_n_buckets)} ranges of distance and each head; all blocks of a stack share them.`],
  t5_max_distance: ["04", (c) => `All distances of ${plural(c.t5_max_distance, "position")} and more share one bucket.`],
  n_segments: ["12", (c) => c.n_segments > 0 && `There are ${plural(c.n_segments, "segment")}: a learned vector marks the text to which a token belongs.`],
  head: [
    "08",
    (c) => {
      const saved = grouped(c.vocab_size * c.d_model);
      if (c.head === "none") return "The model has no head: its output is the final states.";
      return c.head === "tied" ? `The head reuses the token embedding, which saves ${saved} parameters.` : `The head has its own matrix, with ${saved} parameters.`;
    },
  ],
  head_scale: ["08", (c) => c.head_scale !== 1 && "The input of the head is divided by √D."],
  head_transform: ["12", (c) => c.head_transform && "Before the head come a linear layer, the activation and a norm."],
  pooler: ["12", (c) => c.pooler && "A pooler applies a linear layer and tanh to the first position."],
  dropout: ["07", (c) => (c.dropout ? `In training, dropout sets ${times(100 * c.dropout, 1)} % of the numbers to zero.` : "The model was trained without dropout.")],
};

// Where the file has our field, if the tables do not say so.
const ELSEWHERE = {
  family: ["model_type"],
  feedforward_bias: ["mlp_bias"],
  qk_norm: ["model_type"],
  attention_bias: ["attention_bias", "model_type"],
  attention_scale: ["scale_attn_weights", "model_type"],
  norm_placement: ["model_type"],
  rope_base: ["rope_theta", "rope_parameters"],
  rope_interpolation: ["rope_scaling", "rope_parameters"],
  rope_attention_factor: ["rope_scaling", "rope_parameters"],
  sliding_window: ["sliding_window", "model_type"],
  head_scale: ["scale_decoder_outputs", "tie_word_embeddings"],
  head_transform: ["architectures"],
  pooler: ["architectures"],
};
const WHERE = { rope: ["rope_base", "rope_interpolation", "rope_attention_factor"], t5: ["t5_n_buckets", "t5_max_distance"] };

export const shown = (value) => {
  const text = JSON.stringify(value);
  return text.length > 34 ? `${text.slice(0, 32)}…` : text;
};

// For every field that matters: the file's name for it, its value there, its meaning, and the chapter that derives it.
export function sentences(given, config, { formats }) {
  const { fields, activation } = formats[given.model_type];
  const has = (field) => Object.hasOwn(given, field) && given[field] !== null;
  return Object.entries(MEANINGS).flatMap(([ours, [chapter, say]]) => {
    if (Object.entries(WHERE).some(([positions, names]) => names.includes(ours) && config.positions !== positions)) return [];
    const said = say(config);
    const named = { feedforward: [activation[0]], head: [config.head === "none" ? "architectures" : "tie_word_embeddings"] };
    const places = named[ours] ?? fields[ours]?.slice(0, 1) ?? ELSEWHERE[ours];
    if (!said || !places) return [];
    const field = places.find(has) ?? places[0];
    const fits = has(field) || fields[ours] || ours === "feedforward";
    if (!fits && ["feedforward_bias", "attention_bias", "dropout"].includes(ours)) return [];
    return [{ field, value: has(field) ? shown(given[field]) : "not given", says: said, chapter }];
  });
}

// The same for a file that our code does not know, as far as its fields have known names.
export function guessed(given, { formats }) {
  const names = new Map(Object.values(formats).flatMap(({ fields }) => Object.entries(fields).map(([ours, [theirs]]) => [theirs, ours])));
  const sizes = {};
  for (const [theirs, ours] of names) {
    if (Number.isInteger(given[theirs]) && given[theirs] > 0) sizes[ours] = given[theirs];
  }
  const changed = (list) => list.some((field) => Object.hasOwn(given, field));
  const safe = ["vocab_size", "d_model", "n_layers", "n_heads"]; // experts and latent vectors change what the others mean
  if (!changed(LATENT)) safe.push("n_kv_heads", "d_head");
  if (!changed(EXPERTS)) safe.push("d_ff");
  return [...names].flatMap(([theirs, ours]) => {
    if (!safe.includes(ours) || !sizes[ours] || sizes[ours] !== given[theirs]) return [];
    const [chapter, say] = MEANINGS[ours];
    const said = say(sizes);
    return said ? [{ field: theirs, value: shown(given[theirs]), says: said, chapter }] : [];
  });
}

// --- what our code lacks --------------------------------------------------------------------------------------------

const ropeOf = (given) => [given.rope_parameters, given.rope_scaling].find((one) => one && typeof one === "object") ?? {};
const ropeKind = (given) => ropeOf(given).rope_type ?? ropeOf(given).type ?? "default";
const above = (least) => (value) => typeof value === "number" && value > least;
const there = (value) => value !== null && value !== false && value !== undefined;
const kinds = (value) => Array.isArray(value) && new Set(value).size > 1;

// Fields that change what is computed: their names, when they apply, and what they change.
const EXPERTS = ["num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"];
const LATENT = ["kv_lora_rank"];
const LACKS = [
  [EXPERTS, above(1), (n) => `a mixture of experts (MoE): ${grouped(n)} feed-forward networks in each block, of which a few run for each token`],
  [LATENT, above(0), () => "latent attention (MLA): keys and values that are computed from a narrower vector"],
  [["quantization_config"], there, () => "weights stored in fewer bits"],
  [["attn_logit_softcapping"], there, () => "a soft cap on scores"],
  [["final_logit_softcapping"], there, () => "a soft cap on logits"],
  [["parallel_attn", "use_parallel_residual"], there, () => "attention and feed-forward in parallel, not one after the other"],
  [["rotary_pct", "partial_rotary_factor"], (value) => typeof value === "number" && value !== 1, () => "RoPE on a part of each head"],
  [["alibi"], there, () => "a table of names for the weights of this family (our layers do have ALiBi)"],
  [["multi_query"], there, () => "a table of names for the weights of this family (our layers do have multi-query attention)"],
  [["layer_types", "layers_block_type"], kinds, () => "blocks of several kinds in one model"],
  [["embedding_multiplier", "residual_multiplier", "logits_scaling"], (value) => typeof value === "number" && value !== 1, () => "factors on the embeddings, the stream or the logits"],
  [["state_size", "ssm_cfg", "mamba_d_state"], there, () => "state-space layers, which replace attention"],
  [["vision_config", "audio_config"], there, () => "the parts that read images or sound"],
];

// What a model needs and our code lacks, by the fields that show it: [{ field, lacks }].
export function lacking(given, { formats, scalings }) {
  const found = LACKS.flatMap(([fields, holds, words]) =>
    fields.filter((field) => Object.hasOwn(given, field) && holds(given[field])).map((field) => ({ field, lacks: words(given[field]) })),
  );
  const slides = typeof given.sliding_window === "number" && given.use_sliding_window !== false && given.model_type !== "mistral";
  if (slides && !(given.sliding_window >= given.max_position_embeddings)) {
    found.push({ field: "sliding_window", lacks: "a sliding window in some layers: our models have one in all layers or in none" });
  }
  if (!Object.hasOwn(scalings, ropeKind(given))) {
    const field = given.rope_parameters ? "rope_parameters" : "rope_scaling";
    found.push({ field, lacks: `RoPE scaling of the kind ${JSON.stringify(ropeKind(given))}: our models know ${Object.keys(scalings).join(", ")}` });
  }
  const foreign = typeof given.model_type === "string" && !Object.hasOwn(formats, given.model_type);
  if (foreign && found.length === 0) found.push({ field: "model_type", lacks: "a table of how this family names its fields and weights" });
  return found;
}
