// A config.json in sentences: what each field means for the model, and what our code lacks. See config_reader.py.
import { kindOf } from "../../widgets/engine/counting.js";
import { grouped } from "../../widgets/kit/kit.js";

const plural = (n, one) => `${grouped(n)} ${one}${n === 1 ? "" : "s"}`;

const COUNTS = ["", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
const counted = (n) => COUNTS[n] ?? grouped(n);

const times = (a, b) => grouped(Number((a / b).toPrecision(3)));

// How many positions the slowest pair of RoPE needs for a full turn.
export const slowest = (base, width) => 2 * Math.PI * base ** ((width - 2) / width);

const FAMILIES = {
  decoder: "A decoder: every position sees itself and what comes before, and predicts the next token.",
  encoder: "An encoder: every position sees all others, before and behind it.",
  "encoder-decoder": "An encoder reads one text, a decoder writes another and looks across at it.",
};
const FEEDFORWARD = {
  relu: "ReLU: what is below zero becomes zero",
  gelu: "GELU, a soft ReLU",
  gelu_tanh: "GELU, a soft ReLU, computed by way of tanh",
  swiglu: "SwiGLU: a gate, bent by SiLU, times a second branch, so there are three matrices",
  geglu: "GEGLU: a gate, bent by GELU, times a second branch, so there are three matrices",
  geglu_tanh: "GEGLU: a gate, bent by GELU by way of tanh, times a second branch, so there are three matrices",
};
const BIASES = { all: "Queries, keys, values and the output projection have biases.", qkv: "Queries, keys and values have biases, the output projection has none.", none: "No projection of attention has a bias." };

// The meaning of a field of ModelConfig: the chapter that derives it, and a sentence with the sizes that are known.
export const MEANINGS = {
  family: ["12", (c) => FAMILIES[c.family]],
  vocab_size: ["02", (c) => `A token is one of ${grouped(c.vocab_size)}: the embedding has a row for each.`],
  context_length: [
    "04",
    (c) => {
      const longest = plural(c.context_length, "token");
      if (c.positions === "learned") return `At most ${longest}: there is a learned vector for each position, and none beyond.`;
      const beyond = c.positions === "t5" ? "bias grows no further beyond its last bucket" : "positions are computed, so longer texts run, but it has not learned them";
      return `It was made for ${longest}; its ${beyond}.`;
    },
  ],
  d_model: ["05", (c) => `The stream is ${grouped(c.d_model)} numbers wide at every position, from the embedding to the head.`],
  n_layers: [
    "07",
    (c) => `${plural(c.n_layers, "block")}${c.family === "encoder-decoder" ? " read" : ""}, one after the other: 0 to ${grouped(c.n_layers - 1)}.`,
  ],
  n_decoder_layers: ["12", (c) => c.n_decoder_layers && `${plural(c.n_decoder_layers, "block")} write, each with cross-attention to what was read.`],
  n_heads: ["03", (c) => `In every block ${plural(c.n_heads, "head")} ask, each with queries of its own.`],
  n_kv_heads: [
    "11",
    ({ n_heads, n_kv_heads: n }) => {
      if (!n || !n_heads) return n && `${plural(n, "key/value head")} answer.`;
      const kind = kindOf(n, n_heads);
      if (kind === "MHA") return `Each of the ${plural(n_heads, "query head")} has keys and values of its own (MHA).`;
      if (kind === "MQA") return `All ${grouped(n_heads)} query heads share one key/value head (MQA).`;
      return `${grouped(n_heads)} query heads share ${plural(n, "key/value head")}: ${counted(n_heads / n)} to one (GQA).`;
    },
  ],
  d_head: [
    "03",
    ({ n_heads: n, d_head: k, d_model: d }) => {
      if (!n || !k || !d) return null;
      const together = n * k === d ? "as wide as the stream" : `${times(n * k, d)} times the stream`;
      return `A head’s queries, keys and values have ${plural(k, "number")}; ${grouped(n)} × ${grouped(k)} = ${grouped(n * k)}, ${together}.`;
    },
  ],
  qk_norm: ["10", (c) => c.qk_norm && "An RMSNorm over each head’s queries, and one over its keys, hold the scores small."],
  attention_bias: ["03", (c) => BIASES[c.attention_bias]],
  attention_scale: ["03", (c) => c.attention_scale === 1 && "Scores are not divided by √K."],
  d_ff: ["06", (c) => `Every position goes through ${grouped(c.d_ff)} neurons in each block${c.d_model ? `, ${times(c.d_ff, c.d_model)} for each number of the stream` : ""}.`],
  feedforward: ["06", (c) => c.feedforward && `${FEEDFORWARD[c.feedforward]}.`],
  feedforward_bias: ["06", (c) => (c.feedforward_bias ? "The feed-forward matrices have biases." : "The feed-forward matrices have no biases.")],
  norm_placement: ["05", (c) => c.norm_placement === "post" && "Every norm stands after the sum with what came in (post-norm)."],
  norm_eps: [
    "05",
    (c) => `ε keeps ${c.norm === "rmsnorm" ? "RMSNorm" : "LayerNorm"} from dividing by zero. With another one than it learned with, every number is a little off.`,
  ],
  rope_base: [
    "04",
    (c) => `RoPE turns queries and keys by their position. With this base the slowest pair of numbers takes ${grouped(Math.round(slowest(c.rope_base, c.d_head) * c.rope_interpolation))} positions for one turn.`,
  ],
  rope_interpolation: ["04", (c) => c.rope_interpolation !== 1 && `Positions are divided by ${grouped(c.rope_interpolation)} before anything turns.`],
  t5_n_buckets: ["04", (c) => `A bias is learned for each of ${grouped(c.t5_n_buckets)} ranges of distance and each head; all blocks of a stack share them.`],
  t5_max_distance: ["04", (c) => `All that is ${plural(c.t5_max_distance, "position")} away or farther shares one bucket.`],
  n_segments: ["12", (c) => c.n_segments > 0 && `${plural(c.n_segments, "segment")}: a learned vector says to which of the texts a token belongs.`],
  head: [
    "08",
    (c) => {
      const saved = grouped(c.vocab_size * c.d_model);
      if (c.head === "none") return "No head: what comes out is the stream after the last block.";
      return c.head === "tied" ? `The head reuses the token embedding, which saves ${saved} parameters.` : `The head is a matrix of its own, of ${saved} parameters.`;
    },
  ],
  head_scale: ["08", (c) => c.head_scale !== 1 && "What enters the head is divided by √D."],
  head_transform: ["12", (c) => c.head_transform && "Before the head come a linear layer, the activation and a norm."],
  pooler: ["12", (c) => c.pooler && "A pooler: a linear layer and tanh on the first position."],
  dropout: ["07", (c) => (c.dropout ? `In training ${times(100 * c.dropout, 1)} % of the numbers are set to zero; afterwards none.` : "No dropout, in training either.")],
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
  rope_interpolation: ["rope_parameters", "rope_scaling"],
  head_scale: ["scale_decoder_outputs", "tie_word_embeddings"],
  head_transform: ["architectures"],
  pooler: ["architectures"],
};
const WHERE = { rope: ["rope_base", "rope_interpolation"], t5: ["t5_n_buckets", "t5_max_distance"] };

const shown = (value) => {
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
  [EXPERTS, above(1), (n) => `a mixture of experts (MoE): ${grouped(n)} feed-forward networks a block, of which a few run for each token`],
  [LATENT, above(0), () => "latent attention (MLA): keys and values that are made from a narrower vector"],
  [["quantization_config"], there, () => "weights kept in fewer bits"],
  [["attn_logit_softcapping"], there, () => "a soft cap on scores"],
  [["final_logit_softcapping"], there, () => "a soft cap on logits"],
  [["parallel_attn", "use_parallel_residual"], there, () => "attention and feed-forward side by side, not one after the other"],
  [["rotary_pct", "partial_rotary_factor"], (value) => typeof value === "number" && value !== 1, () => "RoPE on a part of each head"],
  [["alibi"], there, () => "a table of names for the weights of this family; ALiBi itself our layers have"],
  [["multi_query"], there, () => "a table of names for the weights of this family; multi-query attention itself our layers have"],
  [["layer_types", "layers_block_type"], kinds, () => "blocks of several kinds in one model"],
  [["embedding_multiplier", "residual_multiplier", "logits_scaling"], (value) => typeof value === "number" && value !== 1, () => "factors on the embeddings, the stream or the logits"],
  [["state_size", "ssm_cfg", "mamba_d_state"], there, () => "state-space layers, which are no attention"],
  [["vision_config", "audio_config"], there, () => "what sees pictures or hears beside the text"],
];

// What a model needs and our code lacks, by the fields that show it: [{ field, lacks }].
export function lacking(given, { formats }) {
  const found = LACKS.flatMap(([fields, holds, words]) =>
    fields.filter((field) => Object.hasOwn(given, field) && holds(given[field])).map((field) => ({ field, lacks: words(given[field]) })),
  );
  const slides = typeof given.sliding_window === "number" && given.use_sliding_window !== false;
  if (slides && !(given.sliding_window >= given.max_position_embeddings)) {
    found.push({ field: "sliding_window", lacks: `a sliding window: where it applies, a position sees the last ${grouped(given.sliding_window)} and none before` });
  }
  if (!["default", "linear"].includes(ropeKind(given))) {
    const field = given.rope_parameters ? "rope_parameters" : "rope_scaling";
    found.push({ field, lacks: `RoPE scaling of the kind ${JSON.stringify(ropeKind(given))}: positions stretched in another way than by one factor` });
  }
  const foreign = typeof given.model_type === "string" && !Object.hasOwn(formats, given.model_type);
  if (foreign && found.length === 0) found.push({ field: "model_type", lacks: "a table of how this family names its fields and weights" });
  return found;
}
