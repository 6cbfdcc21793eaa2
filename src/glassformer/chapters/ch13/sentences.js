// A config.json in sentences: what each field means for the model, and what our code lacks. See config_reader.py.
import { kindOf, layersOf } from "../../widgets/engine/counting.js";
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
  relu2: "Squared ReLU: negative numbers become zero, and positive ones are squared",
  gelu: "GELU, a smooth ReLU",
  gelu_tanh: "GELU, a smooth ReLU, computed with tanh",
  swiglu: "SwiGLU: a gate that passes through SiLU, times a second branch, so there are three matrices",
  geglu: "GEGLU: a gate that passes through GELU, times a second branch, so there are three matrices",
  geglu_tanh: "GEGLU: a gate that passes through GELU (computed with tanh), times a second branch, so there are three matrices",
};
const BIASES = { all: "Queries, keys, values and the output projection have biases.", qkv: "Queries, keys and values have biases; the output projection has none.", none: "No matrix of attention has a bias." };

const NORMS = {
  pre: null,
  post: "Each norm comes after the residual sum (post-norm).",
  output: "Each norm comes after its sublayer and before the residual sum; the sublayer itself reads the stream without a norm.",
  sandwich: "Each sublayer has two norms: one before it, and one after it, before the residual sum.",
};
const residual = (c) => c.residual?.Residual ?? { placement: c.norm_placement, scale: 1 };

const about = (x) => (x < 1 ? String(Number(x.toPrecision(3))) : times(x, 1));
const near = (a, b) => Math.abs(a / b - 1) < 1e-6;

// --- layers of several kinds ----------------------------------------------------------------------------------------

const ORDINALS = ["", "", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"];

// What a kind of layer does that others do not, as [what several do, what one does]; the fields are those of its layers.
function does(layer, layers) {
  const differ = (field) => layers.some((other) => other.fields[field] !== layer.fields[field]);
  const { sliding_window: window, positions } = layer.fields;
  const seen = window ? `only the last ${plural(window, "position")}` : "the whole text";
  const found = [
    differ("sliding_window") && [`see ${seen}`, `sees ${seen}`],
    differ("positions") && positions === "none" && ["rotate nothing, so positions do not change their scores", "rotates nothing, so positions do not change its scores"],
    differ("positions") && positions === "rope" && ["rotate queries and keys by their position", "rotates queries and keys by their position"],
  ].filter(Boolean);
  const [many, one] = [0, 1].map((i) => found.map((words) => words[i]).join(" and "));
  return many ? [many, one] : [`are of the kind “${layer.kind}”`, `is of the kind “${layer.kind}”`];
}

// Which layers are of which kind, and what that means: "Of 26 layers, 22 see …, and every sixth sees …".
function order(c) {
  const layers = layersOf(c);
  if (layers.length < 2) return null;
  const runs = c.order.split(" ").map((word) => word.split("*")).map(([kind, n = 1]) => [kind, Number(n)]);
  const [[first, a], [, b]] = runs;
  const which = ({ kind, block }) => {
    const place = kind === first ? "first" : "last";
    if (runs.length === 2 && a + b >= c.n_layers) return block === 1 ? `the ${place}` : `the ${place} ${grouped(block)}`;
    return runs.length === 2 && b === 1 && kind !== first && ORDINALS[a + 1] ? `every ${ORDINALS[a + 1]}` : grouped(block);
  };
  const inOrder = [...new Set(runs.map(([kind]) => layers.find((layer) => layer.kind === kind)))];
  const said = inOrder.map((layer) => {
    const words = which(layer);
    const [many, one] = does(layer, layers);
    return `${words} ${layer.block === 1 || words.startsWith("every") ? one : many}`;
  });
  return `Of ${grouped(c.n_layers)} layers, ${said.slice(0, -1).join(", ")}, and ${said.at(-1)}.`;
}

// The layers of a kind, for the beginning of a sentence.
function those({ kind, fields, block }, layers) {
  const window = layers.some((other) => !other.fields.sliding_window !== !fields.sliding_window);
  const what = window ? `with${fields.sliding_window ? "" : "out"} a window` : `of the kind “${kind}”`;
  return block === 1 ? `In the layer ${what}` : `In the ${grouped(block)} layers ${what}`;
}

const lowered = (text) => text.replace("In each layer, ", "").replace(/^(?!Llama)[A-Z][a-z]*(?=[ ’])/, (word) => word.toLowerCase());

// What is said of all layers that have something, [{ says }], or of each kind if they differ in it, [{ kind, says }].
function ofLayers(c, say, has) {
  const layers = layersOf(c).filter(({ fields }) => has(fields));
  const said = layers.map(({ fields }) => say(fields));
  if (new Set(said).size < 2) return [{ says: said[0] }];
  return layers.map((layer, i) => ({ kind: layer.kind, says: said[i] && `${those(layer, layers)}, ${lowered(said[i])}` }));
}

// --- fields -----------------------------------------------------------------------------------------------------------

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
  order: ["13", (c) => c.kinds && order(c)],
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
  qk_norm: [
    "10",
    (c) => {
      if (c.qk_norm === "width") return "One RMSNorm brings the queries of all heads together to a standard size, and another the keys, so scores stay small.";
      return c.qk_norm && "One RMSNorm brings each head’s queries to a standard size, and another its keys, so scores stay small.";
    },
  ],
  attention_bias: ["03", (c) => BIASES[c.attention_bias]],
  attention_scale: [
    "03",
    ({ attention_scale: scale, d_head: k }) => {
      if (near(scale, 1 / Math.sqrt(k))) return null;
      return scale === 1 ? "Scores are not divided by √K." : `Scores are multiplied by ${about(scale)} instead of 1/√K = ${about(1 / Math.sqrt(k))}.`;
    },
  ],
  cap: ["13", ({ scores }) => scores?.SoftCap && `A soft cap keeps every score s between −${about(scores.SoftCap.cap)} and ${about(scores.SoftCap.cap)}: it becomes ${about(scores.SoftCap.cap)} · tanh(s/${about(scores.SoftCap.cap)}).`],
  beta: [
    "13",
    ({ scores }) => {
      const { beta, original_context: first } = scores?.PositionScale ?? {};
      return beta && `From position ${grouped(first)} on, the scores of a query grow with its position: they are multiplied by 1 + ${about(beta)} · ln(1 + ⌊position/${grouped(first)}⌋).`;
    },
  ],
  d_ff: ["06", (c) => `The feed-forward network of each block has ${grouped(c.d_ff)} neurons${c.d_model ? `, ${times(c.d_ff, c.d_model)} for each number of the stream` : ""}.`],
  feedforward: ["06", (c) => c.feedforward && `${FEEDFORWARD[c.feedforward]}.`],
  feedforward_bias: ["06", (c) => (c.feedforward_bias ? "The feed-forward matrices have biases." : "The feed-forward matrices have no biases.")],
  norm_placement: ["05", (c) => NORMS[residual(c).placement]],
  scale: ["13", (c) => residual(c).scale !== 1 && `What a sublayer adds to the stream is multiplied by ${about(residual(c).scale)}.`],
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
  embedding_scale: [
    "04",
    ({ embedding_scale: scale, d_model: d }) => scale !== 1 && `Token vectors are multiplied by ${near(scale, Math.sqrt(d)) ? "√D = " : ""}${about(scale)} before the first block.`,
  ],
  n_segments: ["12", (c) => c.n_segments > 0 && `There are ${plural(c.n_segments, "segment")}: a learned vector marks the text to which a token belongs.`],
  head: [
    "08",
    (c) => {
      const saved = grouped(c.vocab_size * c.d_model);
      if (c.head === "none") return "The model has no head: its output is the final states.";
      return c.head === "tied" ? `The head reuses the token embedding, which saves ${saved} parameters.` : `The head has its own matrix, with ${saved} parameters.`;
    },
  ],
  head_scale: [
    "08",
    ({ head_scale: scale, d_model: d }) => {
      if (scale === 1) return null;
      return near(scale, 1 / Math.sqrt(d)) ? "The input of the head is divided by √D." : `Logits are divided by ${about(1 / scale)}.`;
    },
  ],
  logit_cap: ["13", (c) => c.logit_cap && `A soft cap keeps every logit z between −${about(c.logit_cap)} and ${about(c.logit_cap)}: it becomes ${about(c.logit_cap)} · tanh(z/${about(c.logit_cap)}).`],
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
  beta: ["rope_parameters", "rope_scaling"],
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
  return text.length > 34 ? `${text.slice(0, 31)}…` : text;
};

// Where the file has our field, of a kind of layer if one is given.
function placesOf(ours, kind, config, { fields, kinds, parts, rope }) {
  if (ours === "order") return [kinds.key, ...[kinds.every, kinds.first, kinds.switch].filter(Array.isArray).map(([name]) => name)];
  if (ours === "head") return [config.head === "none" ? "architectures" : "tie_word_embeddings"];
  if (ours === "embedding_scale" && fields.embedding_scale?.[0] === fields.d_model[0]) return ["model_type"];
  const ofKind = rope?.kinds[kind];
  if (ours === "rope_base" && ofKind) return [ofKind[1], "rope_parameters"].filter(Boolean);
  const found = [fields, ...Object.values(parts).map(([, table]) => table), ...Object.values(kinds?.own ?? {})].find((table) => Array.isArray(table[ours]));
  return found && !found[ours][0].startsWith("rope.") ? [found[ours][0]] : ELSEWHERE[ours];
}

// For every field that matters: the file's name for it, its value there, its meaning, and the chapter that derives it.
export function sentences(given, config, { formats }) {
  const form = formats[given.model_type];
  const has = (field) => Object.hasOwn(given, field) && given[field] !== null;
  const line = (ours, chapter, { kind, says }) => {
    const places = says && placesOf(ours, kind, config, form);
    if (!places) return [];
    const field = places.find(has) ?? places[0];
    if (!has(field) && !form.fields[ours] && ["feedforward_bias", "attention_bias", "dropout"].includes(ours)) return [];
    return [{ field, value: has(field) ? shown(given[field]) : "not given", says, chapter }];
  };
  return Object.entries(MEANINGS).flatMap(([ours, [chapter, say]]) => {
    const inPlace = (c) => !Object.entries(WHERE).some(([positions, names]) => names.includes(ours) && c.positions !== positions);
    const said = ours === "order" ? [{ says: say(config) }] : ofLayers(config, say, inPlace);
    return said.flatMap((words) => line(ours, chapter, words));
  });
}

// The same for a file that our code does not know, as far as its fields have known names.
export function guessed(given, { formats }) {
  const ofSizes = ([ours]) => ["vocab_size", "d_model", "n_layers", "n_heads", "n_kv_heads", "d_head", "d_ff"].includes(ours);
  const names = new Map(Object.values(formats).flatMap(({ fields }) => Object.entries(fields).filter(ofSizes).map(([ours, [theirs]]) => [theirs, ours])));
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
const ropeKinds = (given) =>
  [ropeOf(given), ...Object.values(ropeOf(given))].filter((one) => one && typeof one === "object").map((one) => one.rope_type ?? one.type ?? "default");
const above = (least) => (value) => typeof value === "number" && value > least;
const there = (value) => value !== null && value !== false && value !== undefined;
const unknown = (value) => (Array.isArray(value) ? [...new Set(value)].filter((word) => !["full_attention", "sliding_attention"].includes(word)) : []);

// Fields that change what is computed: their names, when they apply, and what they change.
const EXPERTS = ["num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"];
const LATENT = ["kv_lora_rank"];
const LACKS = [
  [EXPERTS, above(1), (n) => `a mixture of experts (MoE): ${grouped(n)} feed-forward networks in each block, of which a few run for each token`],
  [LATENT, above(0), () => "latent attention (MLA): keys and values that are computed from a narrower vector"],
  [["quantization_config", "quantization"], there, () => "weights stored in fewer bits"],
  [["parallel_attn", "use_parallel_residual"], there, () => "attention and feed-forward in parallel, not one after the other"],
  [["rotary_pct", "partial_rotary_factor"], (value) => typeof value === "number" && value !== 1, () => "RoPE on a part of each head"],
  [["alibi"], there, () => "a table of names for the weights of this family (our layers do have ALiBi)"],
  [["multi_query"], there, () => "a table of names for the weights of this family (our layers do have multi-query attention)"],
  [["layer_types", "layers_block_type"], (value) => unknown(value).length > 0, (value) => `layers of the kind ${unknown(value).join(" or ")}`],
  [["num_kv_shared_layers"], above(0), () => "layers that use the keys and values of earlier ones"],
  [["altup_num_inputs"], above(1), () => "several residual streams side by side (AltUp)"],
  [["state_size", "ssm_cfg", "mamba_d_state"], there, () => "state-space layers, which replace attention"],
  [["vision_config", "audio_config"], there, () => "the parts that read images or sound"],
];

// What a model needs and our code lacks, by the fields that show it: [{ field, lacks }].
export function lacking(file, { formats, scalings }) {
  const given = { partial_rotary_factor: ropeOf(file).partial_rotary_factor, ...file };
  const found = LACKS.flatMap(([fields, holds, words]) =>
    fields.filter((field) => Object.hasOwn(given, field) && holds(given[field])).map((field) => ({ field, lacks: words(given[field]) })),
  );
  const strange = ropeKinds(given).find((kind) => !Object.hasOwn(scalings, kind));
  if (strange) {
    const field = given.rope_parameters ? "rope_parameters" : "rope_scaling";
    found.push({ field, lacks: `RoPE scaling of the kind ${JSON.stringify(strange)}: our models know ${Object.keys(scalings).join(", ")}` });
  }
  const foreign = typeof given.model_type === "string" && !Object.hasOwn(formats, given.model_type);
  if (foreign && found.length === 0) found.push({ field: "model_type", lacks: "a table of how this family names its fields and weights" });
  return found;
}
