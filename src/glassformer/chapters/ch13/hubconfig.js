// Translates a config.json of Hugging Face into the names of ModelConfig, like huggingface/configs.py and with its tables,
// which the view provides. It refuses the same files with the same messages. Nothing here touches the page.
import { problem, resolved } from "../../widgets/engine/counting.js";

// --- as Python has it -----------------------------------------------------------------------------------------------

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

const get = (given, field, fallback = null) => (Object.hasOwn(given, field) ? given[field] : fallback);

const truthy = (value) => (typeof value === "object" && value !== null ? Object.keys(value).length > 0 : Boolean(value));

// Numbers and booleans are compared as numbers: True is 1.
const same = (a, b) => a === b || (["number", "boolean"].includes(typeof a) && ["number", "boolean"].includes(typeof b) && Number(a) === Number(b));

// A value in Python's notation.
export function repr(value) {
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value === "string") {
    const quote = value.includes("'") && !value.includes('"') ? '"' : "'";
    const inside = JSON.stringify(value).slice(1, -1).replaceAll('\\"', '"');
    return quote + (quote === "'" ? inside.replaceAll("'", "\\'") : inside) + quote;
  }
  if (Array.isArray(value)) return `[${value.map(repr).join(", ")}]`;
  if (isObject(value)) return `{${Object.entries(value).map(([key, one]) => `${repr(key)}: ${repr(one)}`).join(", ")}}`;
  return value === Infinity ? "inf" : String(value);
}

// --- reading --------------------------------------------------------------------------------------------------------

// Raises an error with these words.
class Refusal extends Error {}

const refuse = (words) => {
  throw new Refusal(words);
};

const unsupported = (given, field, why) => refuse(`${field}=${repr(get(given, field))} is not supported: ${why}`);

const among = (name, value, choices) => choices.includes(value) || refuse(`${name}=${repr(value)} is not one of ${choices.map(repr).join(", ")}`);

function whole(name, value, least = 1) {
  if (!Number.isInteger(value)) refuse(`${name}=${repr(value)} must be a whole number`);
  if (value < least) refuse(`${name}=${value} must be at least ${least}`);
}

function number(name, value, holds, rule, asFloat) {
  if (typeof value !== "number") refuse(`${name}=${repr(value)} must be a number`);
  const written = asFloat && Number.isInteger(value) ? value.toFixed(1) : repr(value);
  if (!holds(value)) refuse(`${name}=${written} must be ${rule}`);
}

const positive = (name, value, asFloat) => number(name, value, (x) => Number.isFinite(x) && x > 0, "positive and finite", asFloat);

// A field that is true or false.
function flag(given, field, fallback) {
  const value = get(given, field, fallback);
  if (typeof value !== "boolean") refuse(`${field}=${repr(value)} must be True or False`);
  return value;
}

// What the tables contain.
function byTables(given, { formats, needed }) {
  const { fields, always, activation, mustBe } = formats[given.model_type];
  for (const [field, value, why] of mustBe) {
    if (!same(get(given, field, value), value)) unsupported(given, field, why);
  }
  const settings = { ...always };
  for (const [ours, [theirs, fallback]] of Object.entries(fields)) {
    if (fallback === needed && get(given, theirs) === null) refuse(`${theirs} is missing`);
    settings[ours] = get(given, theirs, fallback);
  }
  const [field, fallback, words] = activation;
  const name = get(given, field, fallback);
  if (typeof name !== "string" || !Object.hasOwn(words, name)) unsupported(given, field, `known are ${Object.keys(words).join(", ")}`);
  return { ...settings, feedforward: words[name] };
}

function architecture(given, { architectures }) {
  const known = architectures[given.model_type];
  const names = truthy(get(given, "architectures")) ? given.architectures : [known[0]];
  const fits = Array.isArray(names) && known.includes(names[0]);
  return fits ? names[0] : unsupported(given, "architectures", `for this model_type it must be one of ${known.join(", ")}`);
}

function head(given, tables, tied) {
  if (architecture(given, tables) === tables.architectures[given.model_type].at(-1)) return "none";
  return flag(given, "tie_word_embeddings", tied) ? "tied" : "untied";
}

// How many positions a query of a Mistral sees, or null.
function windowOf(given, { window: usual }) {
  const length = given.max_position_embeddings;
  whole("max_position_embeddings", length);
  const isMistral = given.model_type === "mistral";
  const slides = isMistral || flag(given, "use_sliding_window", false);
  const window = slides ? get(given, "sliding_window", usual) : null;
  if (window === null) return null;
  whole("sliding_window", window);
  if (isMistral) return window;
  if (window >= length) return null;
  return unsupported(
    given,
    "sliding_window",
    `it would apply to some layers only. Setting max_position_embeddings to ${window} instead of ${length} in config.json ` +
      "makes the model correct for texts up to that length",
  );
}

// The factor that two other numbers give, as in DeepSeek's files; null: it is the usual one.
function attentionFactor(settings) {
  const [above, below] = [get(settings, "mscale"), get(settings, "mscale_all_dim")];
  if (!truthy(above) || !truthy(below)) return null;
  for (const [name, value] of [["factor", settings.factor], ["mscale", above], ["mscale_all_dim", below]]) {
    number(name, value, (x) => Number.isFinite(x) && x >= 0, "zero or more, and finite", false);
  }
  const longer = Math.log(Math.max(settings.factor, 1));
  return (0.1 * above * longer + 1) / (0.1 * below * longer + 1);
}

function rope(given, { ropeBase, scalings, needed }) {
  const field = truthy(get(given, "rope_scaling")) ? "rope_scaling" : "rope_parameters";
  const settings = truthy(get(given, field)) ? given[field] : {};
  if (!isObject(settings) || Object.values(settings).some(isObject)) unsupported(given, field, "it must be one object, for all layers");
  const kind = get(settings, "rope_type", get(settings, "type", "default"));
  if (!Object.keys(scalings).includes(kind)) unsupported(given, field, `known are ${Object.keys(scalings).join(", ")}`);
  for (const [where, name] of [[settings, field], [given, "partial_rotary_factor"]]) {
    if (!same(get(where, "partial_rotary_factor", 1), 1)) unsupported(given, name, "every head is rotated as a whole");
  }
  const found = { rope_base: get(settings, "rope_theta", get(given, "rope_theta", ropeBase)) };
  if (kind !== "default") found.rope_scaling = kind;
  for (const [ours, [theirs, fallback]] of Object.entries(scalings[kind])) {
    const value = get(settings, theirs);
    if (value === null && fallback === needed) unsupported(given, field, `${kind} positions need a ${theirs}, which is missing`);
    found[ours] = value ?? fallback;
  }
  if (Object.hasOwn(found, "rope_original_context") && Object.hasOwn(given, "original_max_position_embeddings")) {
    found.rope_original_context = given.original_max_position_embeddings;
  }
  if (kind === "yarn") {
    if (get(settings, "truncate", true) !== true) unsupported(given, field, "the ramp begins and ends at a whole pair");
    found.rope_attention_factor ??= attentionFactor(settings);
  }
  return found;
}

const decoderOnly = (given, tables) => ({
  attention_scale: flag(given, "scale_attn_weights", true) ? null : 1,
  head: head(given, tables, true),
});

function llama(given, tables) {
  const kind = given.model_type;
  const window = windowOf(given, tables);
  const all = ["llama", "qwen3"].includes(kind) && flag(given, "attention_bias", false);
  return {
    ...rope(given, tables),
    sliding_window: window,
    attention_bias: all ? "all" : kind === "qwen2" ? "qkv" : "none",
    qk_norm: kind === "qwen3",
    feedforward_bias: kind === "llama" && flag(given, "mlp_bias", false),
    head: head(given, tables, false),
  };
}

// What no table can express.
const READERS = {
  gpt2: decoderOnly,
  bert(given, tables) {
    const kind = architecture(given, tables);
    const has = kind !== "BertModel";
    return { head: has ? "tied" : "none", head_transform: has, head_bias: has, pooler: kind !== "BertForMaskedLM" };
  },
  t5(given, tables) {
    whole("d_model", given.d_model);
    const kind = head(given, tables, true);
    const scaled = flag(given, "scale_decoder_outputs", flag(given, "tie_word_embeddings", true));
    return { head: kind, head_scale: scaled && kind !== "none" ? given.d_model ** -0.5 : 1 };
  },
  llama,
  mistral: llama,
  qwen2: llama,
  qwen3: llama,
};

// --- the rules of ModelConfig ---------------------------------------------------------------------------------------

const SIZES = ["vocab_size", "context_length", "d_model", "n_layers", "n_heads", "n_decoder_layers", "n_kv_heads", "d_head", "d_ff"];

const FOLLOW = ["n_decoder_layers", "n_kv_heads", "d_head", "d_ff"]; // follow from other sizes

function buckets(bidirectional, n, most) {
  whole("t5_n_buckets", n, bidirectional ? 4 : 2);
  const exact = Math.floor(n / (bidirectional ? 4 : 2));
  if (most > exact) return;
  refuse(
    `t5_max_distance=${most} must exceed the ${exact} distances that have their own bucket (t5_n_buckets=${n}, ` +
      `bidirectional=${repr(bidirectional)})`,
  );
}

// What a configuration of rotary positions leaves open, as Llama 3.1 and YaRN define it.
function stretched(config) {
  config.rope_original_context ??= config.context_length;
  config.rope_fast ??= config.rope_scaling === "llama3" ? 4 : 32;
  config.rope_attention_factor ??= 0.1 * Math.log(config.rope_scaling === "yarn" ? Math.max(config.rope_interpolation, 1) : 1) + 1;
}

function checkStretching(config, { floats }) {
  const { rope_scaling: scaling, rope_base: base, rope_slow: slow, rope_fast: fast } = config;
  whole("rope_original_context", config.rope_original_context);
  for (const name of ["rope_fast", "rope_attention_factor"]) positive(name, config[name], floats.includes(name));
  if (scaling === "linear") return;
  const asFloat = (x) => (Number.isInteger(x) ? x.toFixed(1) : repr(x));
  if (slow >= fast) {
    refuse(`rope_slow=${asFloat(slow)} must be below rope_fast=${asFloat(fast)}: slow pairs are stretched, and fast ones are not`);
  }
  if (scaling === "yarn" && base <= 1) {
    refuse(`rope_base=${asFloat(base)} must exceed 1 with rope_scaling="yarn": later pairs have to be slower`);
  }
}

function check(config, { limits, floats }) {
  if (typeof config.feedforward_bias !== "boolean") refuse(`feedforward_bias=${repr(config.feedforward_bias)} must be True or False`);
  for (const name of SIZES) {
    if (config[name] !== null || !FOLLOW.includes(name)) whole(name, config[name]);
  }
  const words = problem(config, limits);
  if (words) refuse(words);
  whole("n_segments", config.n_segments, 0);
  for (const name of ["attention_scale", "embedding_scale", "head_scale", "norm_eps", "rope_base", "rope_interpolation", "rope_slow"]) {
    if (name === "attention_scale" && config[name] === null) continue;
    positive(name, config[name], floats.includes(name));
  }
  number("dropout", config.dropout, (x) => x >= 0 && x < 1, "at least 0 and below 1", true);
  for (const name of ["t5_n_buckets", "t5_max_distance"]) whole(name, config[name]);
  stretched(config);
  checkStretching(config, { floats });
  if (config.sliding_window !== null) whole("sliding_window", config.sliding_window);
  if (config.positions !== "t5") return;
  buckets(true, config.t5_n_buckets, config.t5_max_distance);
  buckets(false, config.t5_n_buckets, config.t5_max_distance);
}

// --- a text ---------------------------------------------------------------------------------------------------------

const KINDS = [
  [(value) => value === null, "null"],
  [Array.isArray, "a list"],
  [(value) => typeof value === "string", "a text"],
  [(value) => typeof value === "number", "a number"],
  [() => true, "true or false"],
];

// A text as an object of fields, { given }, or the reason why it is not one, { trouble }.
export function parsed(text) {
  if (text.trim() === "") return { trouble: "There is nothing to read yet: paste a config.json, or take an example." };
  let given;
  try {
    given = JSON.parse(text);
  } catch (error) {
    const open = text.trim().startsWith("{") ? "" : " A config.json begins with { and ends with }.";
    return { trouble: `This is not JSON: ${error.message}.${open}` };
  }
  if (isObject(given)) return { given };
  const [, kind] = KINDS.find(([holds]) => holds(given));
  return { trouble: `A config.json is an object of fields, { … }, and this is ${kind}.` };
}

// The model that it describes, { config }; or our code's error in the words of Python, { refused }; or a size that is larger
// than the view counts, { large }, which Python would accept.
export function model(given, tables) {
  let settings = {};
  try {
    among("model_type", get(given, "model_type"), Object.keys(tables.formats));
    if (get(given, "quantization_config") !== null) unsupported(given, "quantization_config", "the weights must be floating-point numbers");
    settings = { ...tables.defaults, ...byTables(given, tables), ...READERS[given.model_type](given, tables) };
    check(settings, tables);
    return { config: resolved(settings) };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    const words = inTheirWords(error.message, given, tables, settings.rope_scaling);
    return { [/ must be at most \d+$/.test(words) ? "large" : "refused"]: words };
  }
}

// An error that uses the file's names for our fields.
function inTheirWords(words, given, { formats, scalings }, scaling = "default") {
  const { fields = {}, said = {} } = formats[get(given, "model_type")] ?? {};
  const names = [...Object.entries({ ...fields, ...scalings[scaling] }).map(([ours, [theirs]]) => [ours, theirs]), ...Object.entries(said)];
  return names.reduce((text, [ours, theirs]) => text.replace(new RegExp(`\\b${ours}=`, "g"), `${theirs}=`), words);
}
