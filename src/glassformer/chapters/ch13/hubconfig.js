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

function checkWindow(given, { window: usual }) {
  const length = given.max_position_embeddings;
  whole("max_position_embeddings", length);
  const slides = given.model_type === "mistral" || flag(given, "use_sliding_window", false);
  const window = slides ? get(given, "sliding_window", usual) : null;
  if (window === null) return;
  whole("sliding_window", window);
  if (window >= length) return;
  unsupported(
    given,
    "sliding_window",
    `every position sees all positions before it. Setting max_position_embeddings to ${window} instead of ${length} in config.json ` +
      "makes the model correct for texts up to that length",
  );
}

function rope(given, { ropeBase }) {
  const field = truthy(get(given, "rope_scaling")) ? "rope_scaling" : "rope_parameters";
  const settings = truthy(get(given, field)) ? given[field] : {};
  if (!isObject(settings) || Object.values(settings).some(isObject)) unsupported(given, field, "it must be one object, for all layers");
  const kind = get(settings, "rope_type", get(settings, "type", "default"));
  if (kind !== "default" && kind !== "linear") unsupported(given, field, "positions are used as they are (default) or divided by a factor (linear)");
  if (kind === "linear" && !Object.hasOwn(settings, "factor")) unsupported(given, field, "linear positions are divided by a factor, which is missing");
  for (const [where, name] of [[settings, field], [given, "partial_rotary_factor"]]) {
    if (!same(get(where, "partial_rotary_factor", 1), 1)) unsupported(given, name, "every head is rotated as a whole");
  }
  const base = get(settings, "rope_theta", get(given, "rope_theta", ropeBase));
  return { rope_base: base, rope_interpolation: kind === "linear" ? settings.factor : 1 };
}

const decoderOnly = (given, tables) => ({
  attention_scale: flag(given, "scale_attn_weights", true) ? null : 1,
  head: head(given, tables, true),
});

function llama(given, tables) {
  const kind = given.model_type;
  checkWindow(given, tables);
  const all = ["llama", "qwen3"].includes(kind) && flag(given, "attention_bias", false);
  return {
    ...rope(given, tables),
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

function check(config, { limits, floats }) {
  if (typeof config.feedforward_bias !== "boolean") refuse(`feedforward_bias=${repr(config.feedforward_bias)} must be True or False`);
  for (const name of SIZES) {
    if (config[name] !== null || !FOLLOW.includes(name)) whole(name, config[name]);
  }
  const words = problem(config, limits);
  if (words) refuse(words);
  whole("n_segments", config.n_segments, 0);
  for (const name of ["attention_scale", "embedding_scale", "head_scale", "norm_eps", "rope_base", "rope_interpolation"]) {
    if (name === "attention_scale" && config[name] === null) continue;
    number(name, config[name], (x) => Number.isFinite(x) && x > 0, "positive and finite", floats.includes(name));
  }
  number("dropout", config.dropout, (x) => x >= 0 && x < 1, "at least 0 and below 1", true);
  for (const name of ["t5_n_buckets", "t5_max_distance"]) whole(name, config[name]);
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
  try {
    among("model_type", get(given, "model_type"), Object.keys(tables.formats));
    if (get(given, "quantization_config") !== null) unsupported(given, "quantization_config", "the weights must be floating-point numbers");
    const settings = { ...tables.defaults, ...byTables(given, tables), ...READERS[given.model_type](given, tables) };
    check(settings, tables);
    return { config: resolved(settings) };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    const words = inTheirWords(error.message, given, tables);
    return { [/ must be at most \d+$/.test(words) ? "large" : "refused"]: words };
  }
}

// An error that uses the file's names for our fields.
function inTheirWords(words, given, { formats }) {
  const { fields = {}, said = {} } = formats[get(given, "model_type")] ?? {};
  const names = [...Object.entries(fields).map(([ours, [theirs]]) => [ours, theirs]), ...Object.entries(said)];
  return names.reduce((text, [ours, theirs]) => text.replace(new RegExp(`\\b${ours}=`, "g"), `${theirs}=`), words);
}
