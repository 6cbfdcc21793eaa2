// Translates a config.json of Hugging Face into the names of ModelConfig, like huggingface/configs.py and with its tables,
// which the view provides. It refuses the same files with the same messages. Nothing here touches the page.
import { problem, resolved } from "../../widgets/engine/counting.js";
import { namedText, twice } from "../../widgets/engine/untrusted.js";

// --- as Python has it -----------------------------------------------------------------------------------------------

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

const get = (given, field, fallback = null) => (Object.hasOwn(given, field) ? given[field] : fallback);

const truthy = (value) => (typeof value === "object" && value !== null ? Object.keys(value).length > 0 : Boolean(value));

// Numbers and booleans are compared as numbers: True is 1. Of objects, only empty ones are compared.
const same = (a, b) =>
  a === b ||
  (["number", "boolean"].includes(typeof a) && ["number", "boolean"].includes(typeof b) && Number(a) === Number(b)) ||
  (isObject(a) && isObject(b) && !truthy(a) && !truthy(b));

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

const fault = (given, field, why) => `${field}=${repr(get(given, field))} is not supported: ${why}`;

const unsupported = (given, field, why) => refuse(fault(given, field, why));

const contradict = (one, value, other, otherValue) =>
  refuse(`${one}=${repr(value)} contradicts ${other}=${repr(otherValue)}: both cannot be right`);

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

// A file whose model_type is none of the families: what it is, as far as its keys show.
function typeIsMissing(given, { formats, withoutType }) {
  const kind = get(given, "model_type");
  const families = Object.keys(formats);
  const choices = families.map(repr).join(", ");
  if (kind !== null) {
    const lower = typeof kind === "string" ? kind.toLowerCase() : "";
    return `model_type=${repr(kind)} is not one of ${choices}${families.includes(lower) ? `; did you mean ${repr(lower)}?` : ""}`;
  }
  const written = Object.keys(given).find((key) => key !== "model_type" && key.toLowerCase() === "model_type");
  if (written) return `the file has the key ${repr(written)}, which must be written 'model_type'`;
  const [, what] = withoutType.find(([keys]) => keys.every((key) => Object.hasOwn(given, key))) ?? [];
  return `model_type is missing: ${what ?? `in a config.json that is read here, it is one of ${choices}`}`;
}

// The file with the usual names of keys that have several, which must agree.
function oneNameEach(given, { aliases }) {
  const found = { ...given };
  for (const [alias, name] of Object.entries(aliases)) {
    const [value, other] = [alias, name].map((key) => get(found, key));
    if (value !== null && other !== null && !same(value, other)) contradict(name, other, alias, value);
    if (other === null && value !== null) found[name] = value;
  }
  return found;
}

// Keys that must not be otherwise. A list of harmless values is harmless, too.
function checkRules(given, rules) {
  const faults = rules.flatMap(([key, values, why]) => {
    const harmless = (value) => values.some((one) => same(value, one));
    const passes = !Object.hasOwn(given, key) || harmless(given[key]) || (Array.isArray(given[key]) && given[key].every(harmless));
    return passes ? [] : [fault(given, key, why)];
  });
  if (faults.length) refuse(faults.join("; "));
}

// The rules for keys that set the scale of scores: only 1/√K, for heads of K numbers, is computed.
function scaleRules(given, { formats, scales }) {
  const { fields, keys } = formats[given.model_type];
  const [size, heads] = [get(given, "hidden_size"), get(given, "num_attention_heads")];
  let width = get(given, "head_dim", fields.d_head?.[1] ?? null);
  if (width === null && Number.isInteger(size) && Number.isInteger(heads) && heads > 0) width = Math.floor(size / heads);
  const close = (value, other) => typeof value === "number" && Math.abs(value / other - 1) <= 1e-6;
  return Object.entries(scales).flatMap(([name, power]) =>
    !keys.includes(name) || (Number.isInteger(width) && width > 0 && close(get(given, name), width ** power))
      ? []
      : [[name, [null], "scores are divided by the square root of a head's width"]],
  );
}

// The keys on no list of the family: our code neither reads them nor knows that they have no effect.
export function unknownKeys(given, { formats, common, ropeKeys }) {
  const kind = get(given, "model_type");
  if (typeof kind !== "string" || !Object.hasOwn(formats, kind)) return [];
  const known = new Set([...common, ...formats[kind].keys]);
  const inner = ["rope_parameters", "rope_scaling"].flatMap((where) =>
    known.has(where) && isObject(get(given, where))
      ? Object.entries(given[where]).flatMap(([key, value]) => (ropeKeys.includes(key) || isObject(value) ? [] : [`${where}.${key}`]))
      : [],
  );
  return [...Object.keys(given).filter((key) => !known.has(key)), ...inner];
}

// What the tables contain.
function byTables(given, { formats, needed }) {
  const { fields, always, activation } = formats[given.model_type];
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

// How many positions a query sees in every layer, or null.
function windowOf(given, { window: usual, wholeLayers }) {
  const [kind, length, layers] = ["model_type", "max_position_embeddings", "num_hidden_layers"].map((key) => given[key]);
  whole("max_position_embeddings", length);
  whole("num_hidden_layers", layers);
  const slides = kind === "mistral" || (kind !== "llama" && flag(given, "use_sliding_window", false));
  const window = slides ? get(given, "sliding_window", usual) : null;
  let without = window === null ? layers : 0;
  if (window !== null) {
    whole("sliding_window", window);
    if (kind !== "mistral") {
      without = get(given, "max_window_layers", wholeLayers);
      whole("max_window_layers", without, 0);
    }
  }
  const types = get(given, "layer_types");
  let windows = Math.max(layers - without, 0);
  if (types !== null) {
    const known = ["full_attention", "sliding_attention"];
    if (!Array.isArray(types) || !types.every((one) => known.includes(one))) unsupported(given, "layer_types", `known are ${known.join(" and ")}`);
    if (types.length !== layers) contradict("num_hidden_layers", layers, "the length of layer_types", types.length);
    windows = types.filter((one) => one === "sliding_attention").length;
    if ((windows && window === null) || (kind === "mistral" && window !== null && windows < layers)) contradict("the number of windows in layer_types", windows, "sliding_window", window);
  }
  if (windows === 0 || windows === layers) return windows ? window : null;
  if (window >= length) return null;
  return unsupported(
    given,
    "sliding_window",
    `it applies to ${windows} of the ${layers} layers, but here all have a window or none has. Setting max_position_embeddings ` +
      `to ${window} instead of ${length} in config.json makes the model correct for texts up to that length`,
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

// A file with both keys for rotary positions must say the same twice.
function rope(given, tables) {
  const both = ["rope_scaling", "rope_parameters"].filter((key) => truthy(get(given, key)));
  const places = both.length ? both : ["rope_parameters"];
  const found = places.map((place) => ropeIn(given, place, tables));
  if (JSON.stringify(found[0]) !== JSON.stringify(found.at(-1))) contradict(...places.flatMap((place) => [place, given[place]]));
  return found[0];
}

function ropeIn(given, field, { ropeBase, scalings, needed }) {
  const settings = truthy(get(given, field)) ? given[field] : {};
  if (!isObject(settings) || Object.values(settings).some(isObject)) unsupported(given, field, "it must be one object, for all layers");
  const kind = get(settings, "rope_type", get(settings, "type", "default"));
  if (!Object.keys(scalings).includes(kind)) unsupported(given, field, `known are ${Object.keys(scalings).join(", ")}`);
  if ((get(settings, "type") ?? kind) !== kind) contradict("rope_type", kind, "type", settings.type);
  if (!same(get(settings, "partial_rotary_factor") ?? 1, 1)) unsupported(given, field, "every head is rotated as a whole");
  for (const name of ["rope_theta", ...(["llama3", "yarn"].includes(kind) ? ["original_max_position_embeddings"] : [])]) {
    const [inner, outer] = [get(settings, name), get(given, name)];
    if (inner !== null && outer !== null && !same(inner, outer)) contradict(name, outer, `${field}.${name}`, inner);
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

// The two keys that transformers derives from feed_forward_proj, and lets overrule it, must agree with it.
function checkActivation(given, [name, fallback]) {
  const word = get(given, name, fallback);
  const usual = word === "gated-gelu" ? "gelu_new" : word.replace(/^gated-/, "");
  for (const [derived, value] of [["is_gated_act", word.startsWith("gated-")], ["dense_act_fn", usual]]) {
    if (!same(get(given, derived) ?? value, value)) contradict(name, word, derived, given[derived]);
  }
}

// What no table can express.
const READERS = {
  gpt2: decoderOnly,
  bert(given, tables) {
    const kind = architecture(given, tables);
    const has = kind !== "BertModel";
    return { head: has ? "tied" : "none", head_transform: has, head_bias: has, pooler: kind !== "BertForMaskedLM" };
  },
  t5(file, tables) {
    const given = { ...file };
    if (get(given, "tie_word_embeddings") === null) delete given.tie_word_embeddings; // null is as if it were absent
    whole("d_model", given.d_model);
    const kind = head(given, tables, true);
    checkActivation(given, tables.formats.t5.activation);
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
    const what = namedText(text);
    if (what) return { trouble: `This is not JSON but ${what}.` };
    const open = text.trim().startsWith("{") ? "" : " A config.json begins with { and ends with }.";
    return { trouble: `This is not JSON: ${error.message}.${open}` };
  }
  const trouble = twice(text, "This config.json");
  if (trouble) return { trouble: `${trouble}.` };
  if (isObject(given)) return { given };
  const [, kind] = KINDS.find(([holds]) => holds(given));
  return { trouble: `A config.json is an object of fields, { … }, and this is ${kind}.` };
}

// The model that it describes, { config }; or our code's error in the words of Python, { refused }; or a size that is larger
// than the view counts, { large }, which Python would accept.
export function model(file, tables) {
  let settings = {};
  let given = file;
  try {
    const kind = get(given, "model_type");
    if (typeof kind !== "string" || !Object.hasOwn(tables.formats, kind)) refuse(typeIsMissing(given, tables));
    given = oneNameEach(given, tables.formats[kind]);
    checkRules(given, [...tables.rules, ...tables.formats[kind].mustBe, ...scaleRules(given, tables)]);
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
