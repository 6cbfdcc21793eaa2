// Translates a config.json of Hugging Face into the names of ModelConfig, like huggingface/configs.py and with its tables,
// which the view provides. It refuses the same files with the same messages. Nothing here touches the page.
import { namedText, twice } from "../../widgets/engine/untrusted.js";

// --- as Python has it -----------------------------------------------------------------------------------------------

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

const get = (given, field, fallback = null) => (Object.hasOwn(given, field) ? given[field] : fallback);

const truthy = (value) => (typeof value === "object" && value !== null ? Object.keys(value).length > 0 : Boolean(value));

// Whether a == b. Numbers and booleans are compared as numbers: True is 1.
function same(a, b) {
  if ([a, b].every((one) => ["number", "boolean"].includes(typeof one))) return Number(a) === Number(b);
  if ([a, b].some((one) => typeof one !== "object" || one === null) || Array.isArray(a) !== Array.isArray(b)) return a === b;
  return Object.keys(a).length === Object.keys(b).length && Object.keys(a).every((key) => Object.hasOwn(b, key) && same(a[key], b[key]));
}

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

const divisible = (name, value, byName, by) => value % by && refuse(`${name}=${value} is not divisible by ${byName}=${by}`);

const even = (name, value) => value % 2 && refuse(`${name}=${value} is odd: sines and cosines come in pairs of dimensions`);

const asFloat = (x) => (Number.isInteger(x) ? x.toFixed(1) : repr(x));

function number(name, value, holds, rule, isFloat) {
  if (typeof value !== "number") refuse(`${name}=${repr(value)} must be a number`);
  if (!holds(value)) refuse(`${name}=${(isFloat ? asFloat : repr)(value)} must be ${rule}`);
}

const positive = (name, value, isFloat) => number(name, value, (x) => Number.isFinite(x) && x > 0, "positive and finite", isFloat);

// A field that is true or false.
function flag(given, field, fallback) {
  const value = get(given, field, fallback);
  if (typeof value !== "boolean") refuse(`${field}=${repr(value)} must be True or False`);
  return value;
}

// The objects that may have the settings of rotary positions. The first is older.
const PLACES = ["rope_scaling", "rope_parameters"];

// The file without a key; "rope_parameters.new" is a key inside of another.
const without = (given, name) =>
  Object.fromEntries(
    Object.entries(given)
      .filter(([key]) => key !== name)
      .map(([key, value]) => [key, isObject(value) && name.startsWith(`${key}.`) ? without(value, name.slice(key.length + 1)) : value]),
  );

// A file whose model_type is none of the families: what it is, as far as its keys show.
function typeIsMissing(given, { formats, withoutType }) {
  const kind = get(given, "model_type");
  const families = Object.keys(formats);
  const choices = families.map(repr).join(", ");
  if (kind !== null) {
    const lower = typeof kind === "string" ? kind.toLowerCase() : "";
    return `model_type=${repr(kind)} is not one of ${choices}${families.includes(lower) ? `; did you mean ${repr(lower)}?` : "; chapter 15 draws where some of today's models differ"}`;
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
function scaleRules(given, { fields, also }, { scales }) {
  const [size, heads] = [get(given, "hidden_size"), get(given, "num_attention_heads")];
  let width = get(given, "head_dim", fields.d_head?.[1] ?? null);
  if (width === null && Number.isInteger(size) && Number.isInteger(heads) && heads > 0) width = Math.floor(size / heads);
  const close = (value, other) => typeof value === "number" && Math.abs(value / other - 1) <= 1e-6;
  return Object.entries(scales).flatMap(([name, power]) =>
    !also.includes(name) || (Number.isInteger(width) && width > 0 && close(get(given, name), width ** power))
      ? []
      : [[name, [null], "it belongs to other families, and would change the scale of scores"]],
  );
}

// The keys on no list of the family: our code neither reads them nor knows that they have no effect.
export function unknownKeys(given, { formats, common, ropeKeys }) {
  const kind = get(given, "model_type");
  if (typeof kind !== "string" || !Object.hasOwn(formats, kind)) return [];
  const { keys, rope } = formats[kind];
  const known = new Set([...common, ...keys]);
  const words = Object.values(rope?.kinds ?? {}).map(([word]) => word);
  const inside = (where, settings) =>
    Object.entries(isObject(settings) ? settings : {}).flatMap(([key, value]) =>
      [...ropeKeys, ...rope.more, ...words].includes(key) || isObject(value) ? [] : [`${where}.${key}`],
    );
  const inner = (rope ? [...PLACES].reverse() : []).flatMap((place) => {
    const settings = get(given, place);
    const nested = isObject(settings) ? words.flatMap((word) => inside(`${place}.${word}`, get(settings, word))) : [];
    return [...inside(place, settings), ...nested];
  });
  return [...Object.keys(given).filter((key) => !known.has(key)), ...inner];
}

// --- by the tables, like tables.py -----------------------------------------------------------------------------------

const NEEDED = "needed"; // in place of a default

const isKey = Array.isArray; // [name, default, power, words]; all else in a table is a value of ours

// What a key says, as our value.
function valueOf([name, fallback, power, words], form, file) {
  const inside = name.startsWith("rope.");
  const [field, given] = inside ? [name.slice(5), ropeSettings(form.rope, file)] : [name, file];
  const value = get(given, field, fallback);
  if (fallback === NEEDED && (value === null || value === NEEDED)) refuse(`${field} is missing`);
  if (words !== null && Object.hasOwn(words, "true")) return words[flag({ [field]: value }, field)];
  if (words !== null) {
    const known = typeof value === "string" && Object.hasOwn(words, value);
    return known ? words[value] : unsupported({ [field]: value }, field, `known are ${Object.keys(words).join(", ")}`);
  }
  if (power === 1 || value === null) return value;
  positive(field, value);
  return value ** power;
}

const valuesOf = (table, form, given) =>
  Object.fromEntries(Object.entries(table).map(([ours, value]) => [ours, isKey(value) ? valueOf(value, form, given) : value]));

function architecture(given, { architectures: known }) {
  const names = truthy(get(given, "architectures")) ? given.architectures : [known[0]];
  const fits = Array.isArray(names) && known.includes(names[0]);
  return fits ? names[0] : unsupported(given, "architectures", `for this model_type it must be one of ${known.join(", ")}`);
}

function head(given, form) {
  if (architecture(given, form) === form.architectures.at(-1)) return "none";
  const said = get(given, "tie_word_embeddings") ?? form.tied;
  return flag({ tie_word_embeddings: said }, "tie_word_embeddings") ? "tied" : "untied";
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

// The settings for rotary positions that hold for all layers.
function ropeSettings(rope, given) {
  const place = PLACES.find((one) => truthy(get(given, one)));
  return place ? given[place] : rope.default;
}

// The base and how positions are stretched, by kind of layer; under "", what holds for all. A file with both places must
// say the same twice.
function ropeOf(given, { rope }, scalings) {
  const kinds = Object.entries(rope.kinds);
  if (kinds.length) return Object.fromEntries(kinds.map(([kind, ofKind]) => [kind, ropeOfKind(given, rope, ofKind, scalings)]));
  const both = PLACES.filter((place) => truthy(get(given, place)));
  const places = both.length ? both : ["rope_parameters"];
  const found = places.map((place) => ropeIn(given, place, both.length ? given[place] : rope.default, "rope_theta", rope.base, rope, scalings));
  if (!same(found[0], found.at(-1))) contradict(...places.flatMap((place) => [place, given[place]]));
  return { "": found[0] };
}

function ropeOfKind(given, rope, [word, outside, base, isStretched], scalings) {
  const [byWord, older] = ["rope_parameters", "rope_scaling"].map((place) => (truthy(get(given, place)) ? given[place] : {}));
  const words = Object.values(rope.kinds).map(([one]) => one);
  if (!isObject(byWord) || !Object.entries(byWord).every(([key, value]) => words.includes(key) && (value === null || isObject(value)))) {
    unsupported(given, "rope_parameters", `it must have an object for each of ${words.join(", ")}`);
  }
  if (!isObject(older)) unsupported(given, "rope_scaling", "it must be an object");
  const settings = { ...get(byWord, word), ...(isStretched ? older : {}) };
  const where = isStretched && truthy(older) ? "rope_scaling" : "rope_parameters";
  return ropeIn(given, where, settings, outside, base, rope, scalings);
}

function ropeIn(given, where, settings, outside, base, { scalings: known }, scalings) {
  if (!isObject(settings) || Object.values(settings).some(isObject)) unsupported(given, where, "it must be one object, for all layers");
  const kind = get(settings, "rope_type", get(settings, "type", "default"));
  if (!known.includes(kind)) unsupported(given, where, `known are ${known.join(", ")}`);
  if ((get(settings, "type") ?? kind) !== kind) contradict("rope_type", kind, "type", settings.type);
  if (!same(get(settings, "partial_rotary_factor") ?? 1, 1)) unsupported(given, where, "every head is rotated as a whole");
  const outer = { rope_theta: outside };
  if (["llama3", "yarn"].includes(kind)) outer.original_max_position_embeddings = "original_max_position_embeddings";
  for (const [name, key] of Object.entries(outer)) {
    const [inner, other] = [get(settings, name), key === null ? null : get(given, key)];
    if (inner !== null && other !== null && !same(inner, other)) contradict(key, other, `${where}.${name}`, inner);
  }
  const found = { rope_base: get(settings, "rope_theta", outside === null ? base : get(given, outside, base)) };
  if (kind !== "default") found.rope_scaling = kind;
  for (const [ours, [theirs, fallback]] of Object.entries(scalings[kind])) {
    const value = get(settings, theirs);
    if (value === null && fallback === NEEDED) unsupported(given, where, `${kind} positions need a ${theirs}, which is missing`);
    found[ours] = value ?? fallback;
  }
  if (Object.hasOwn(found, "rope_original_context") && Object.hasOwn(given, "original_max_position_embeddings")) {
    found.rope_original_context = given.original_max_position_embeddings;
  }
  if (kind === "yarn") {
    if (get(settings, "truncate", true) !== true) unsupported(given, where, "the ramp begins and ends at a whole pair");
    found.rope_attention_factor ??= attentionFactor(settings);
  }
  return found;
}

// The key, and its value, that leaves no layer of the first kind; null if there is none.
function offOf({ own, switch: key }, form, given) {
  if (key !== null && !flag(given, key[0], key[1])) return [key[0], false];
  const off = Object.values(Object.values(own)[0]).find((value) => isKey(value) && valueOf(value, form, given) === null);
  return off ? [off[0], null] : null;
}

function wholeOf(key, form, given, least) {
  const value = isKey(key) ? valueOf(key, form, given) : key;
  whole(isKey(key) ? key[0] : "every", value, least);
  return value;
}

// The shortest beginning of a list that repeats to the whole, as runs of equal entries.
function runsOf(names) {
  const borders = [0]; // how many of the first entries are also the last, up to each entry (Knuth, Morris and Pratt 1977)
  for (const name of names.slice(1)) {
    let border = borders.at(-1);
    while (border && names[border] !== name) border = borders[border - 1];
    borders.push(border + Number(names[border] === name));
  }
  const runs = [];
  for (const name of names.slice(0, names.length - borders.at(-1))) {
    if (runs.at(-1)?.[0] === name) runs.at(-1)[1] += 1;
    else runs.push([name, 1]);
  }
  return runs;
}

// What each kind of layer has of its own, for those that occur, and their order.
function kindsOf(form, given) {
  const { kinds } = form;
  const [deep] = form.fields.n_layers;
  const layers = valueOf(form.fields.n_layers, form, given);
  whole(deep, layers);
  const [first, last] = Object.keys(kinds.own);
  const off = offOf(kinds, form, given);
  const listed = get(given, kinds.key);
  let runs = [[first, layers]];
  if (listed !== null) {
    const kindOf = (entry) => kinds.words.find(([word]) => same(word, entry))?.[1];
    if (!Array.isArray(listed) || !listed.every(kindOf)) unsupported(given, kinds.key, `known are ${kinds.words.map(([word]) => word).join(" and ")}`);
    if (listed.length !== layers) contradict(deep, layers, `the length of ${kinds.key}`, listed.length);
    const names = listed.map(kindOf);
    const n = names.filter((name) => name === first).length;
    if ((off && n) || (kinds.alike && !off && n < layers)) {
      const keys = [...Object.values(kinds.own).flatMap(Object.values), kinds.every, kinds.first, kinds.switch].filter(isKey);
      contradict(`the number of ${kinds.words[0][0]} in ${kinds.key}`, n, ...(off ?? [keys[0][0], valueOf(keys[0], form, given)]));
    }
    runs = runsOf(names);
  } else if (off) {
    runs = [[last, layers]];
  } else if (kinds.every !== null) {
    const every = wholeOf(kinds.every, form, given, 1);
    if (every <= layers) runs = [[first, every - 1], [last, 1]];
  } else if (kinds.first !== null) {
    const n = Math.min(wholeOf(kinds.first, form, given, 0), layers);
    runs = [[last, n], [first, layers - n]];
  }
  runs = runs.filter(([, times]) => times);
  const occur = Object.entries(kinds.own).filter(([name]) => runs.some(([one]) => one === name));
  return {
    kinds: Object.fromEntries(occur.map(([name, own]) => [name, valuesOf(own, form, given)])),
    order: runs.map(([name, times]) => (times === 1 ? name : `${name}*${times}`)).join(" "),
  };
}

// A part of all layers as { name: its numbers }; null if the file has none, or one that changes nothing.
function partOf([name, table], form, given, { parts }) {
  const { defaults, nothing, types } = parts[name];
  const values = valuesOf(table, form, given);
  if (Object.values(values).includes(null)) return null;
  const made = { ...defaults, ...values };
  for (const [field, type] of Object.entries(types)) {
    if (type === "float") positive(field, made[field], true);
    else whole(field, made[field]);
  }
  return nothing && same(made, nothing) ? null : { [name]: made };
}

const OF_THE_HEAD = ["head_scale", "logit_cap"]; // a file may have their keys without a head, where they mean nothing

// The arguments of the ModelConfig that a file describes, as far as tables say.
function byTables(given, form, tables) {
  const settings = { ...form.always, ...valuesOf(form.fields, form, given), head: head(given, form) };
  if (settings.head === "none") for (const name of OF_THE_HEAD) delete settings[name];
  const { "": ofAll = {}, ...rope } = form.rope ? ropeOf(given, form, tables.scalings) : {};
  Object.assign(settings, ofAll);
  let { kinds, order } = form.kinds ? kindsOf(form, given) : { kinds: {}, order: null };
  for (const name of Object.keys(kinds)) kinds[name] = { ...kinds[name], ...rope[name] };
  const all = Object.values(kinds);
  for (const [ours, value] of Object.entries(all[0] ?? {})) {
    if (!all.every((own) => Object.hasOwn(own, ours) && same(own[ours], value))) continue;
    settings[ours] = value;
    for (const own of all) delete own[ours];
  }
  const found = Object.entries(form.parts).map(([place, part]) => [place, partOf(part, form, given, tables)]);
  const parts = Object.fromEntries(found.filter(([, part]) => part));
  if (all.length === 1) {
    Object.assign(settings, all[0]);
    [kinds, order] = [{}, null];
  }
  if (all.length > 1 || Object.keys(parts).length) {
    const named = Object.entries(all.length > 1 ? kinds : { every: {} });
    settings.kinds = Object.fromEntries(named.map(([name, own]) => [name, { ...own, ...parts }]));
  }
  return { ...settings, order };
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
  bert(given, form) {
    const kind = architecture(given, form);
    const has = kind !== "BertModel";
    return { head: has ? "tied" : "none", head_transform: has, head_bias: has, pooler: kind !== "BertForMaskedLM" };
  },
  t5(given, form) {
    whole("d_model", given.d_model);
    const kind = head(given, form);
    checkActivation(given, form.fields.feedforward);
    const scaled = flag(given, "scale_decoder_outputs", kind === "tied");
    return { head_scale: scaled && kind !== "none" ? given.d_model ** -0.5 : 1 };
  },
};

// --- the rules of ModelConfig ---------------------------------------------------------------------------------------

class Large extends Refusal {}

function buckets(bidirectional, n, most) {
  whole("t5_n_buckets", n, bidirectional ? 4 : 2);
  const exact = Math.floor(n / (bidirectional ? 4 : 2));
  if (most > exact) return;
  refuse(
    `t5_max_distance=${most} must exceed the ${exact} distances that have their own bucket (t5_n_buckets=${n}, ` +
      `bidirectional=${repr(bidirectional)})`,
  );
}

// The settings with the fields that follow from others, after checking them in Python's order.
function checked(settings, { limits, floats }) {
  const config = { ...settings };
  const size = (name, follows) => {
    config[name] ??= follows;
    whole(name, config[name]);
    if (config[name] > limits[name]) throw new Large(`${name}=${config[name]} must be at most ${limits[name]}`);
  };
  const isPositive = (name) => positive(name, config[name], floats.includes(name));
  for (const name of ["vocab_size", "context_length", "d_model", "n_layers", "n_heads"]) size(name, null);
  if (config.family === "encoder-decoder") size("n_decoder_layers", config.n_layers);
  size("n_kv_heads", config.n_heads);
  divisible("n_heads", config.n_heads, "n_kv_heads", config.n_kv_heads);
  if (config.d_head === null) divisible("d_model", config.d_model, "n_heads", config.n_heads);
  size("d_head", Math.floor(config.d_model / config.n_heads));
  size("d_ff", 4 * config.d_model);
  whole("n_segments", config.n_segments, 0);

  config.attention_scale ??= 1 / Math.sqrt(config.d_head);
  for (const name of ["attention_scale", "embedding_scale", "head_scale", "norm_eps", "rope_base", "rope_interpolation", "rope_slow"]) isPositive(name);
  if (config.logit_cap !== null) isPositive("logit_cap");
  number("dropout", config.dropout, (x) => x >= 0 && x < 1, "at least 0 and below 1", true);

  for (const name of ["t5_n_buckets", "t5_max_distance"]) whole(name, config[name]);
  if (config.positions === "rope") even("d_head", config.d_head);
  if (config.positions === "t5") for (const both of [true, false]) buckets(both, config.t5_n_buckets, config.t5_max_distance);

  const scaling = config.rope_scaling;
  config.rope_original_context ??= config.context_length;
  whole("rope_original_context", config.rope_original_context);
  config.rope_fast ??= scaling === "llama3" ? 4 : 32;
  config.rope_attention_factor ??= 0.1 * Math.log(scaling === "yarn" ? Math.max(config.rope_interpolation, 1) : 1) + 1;
  for (const name of ["rope_fast", "rope_attention_factor"]) isPositive(name);
  const { rope_base: base, rope_slow: slow, rope_fast: fast } = config;
  if (scaling !== "linear" && slow >= fast) {
    refuse(`rope_slow=${asFloat(slow)} must be below rope_fast=${asFloat(fast)}: slow pairs are stretched, and fast ones are not`);
  }
  if (scaling === "yarn" && base <= 1) {
    refuse(`rope_base=${asFloat(base)} must exceed 1 with rope_scaling="yarn": later pairs have to be slower`);
  }

  if (config.sliding_window !== null) whole("sliding_window", config.sliding_window);
  return config;
}

// What a kind of layer has of its own, with the fields that follow from others and differ from the model's.
function checkedKind(own, settings, config, tables) {
  const fields = Object.fromEntries(Object.entries(own).filter(([name]) => tables.ofALayer.includes(name)));
  const given = { ...settings, ...fields };
  const flat = checked(given, tables);
  const has = (name) => Object.hasOwn(own, name) || (given[name] === null && flat[name] !== config[name]);
  const parts = Object.entries(own).filter(([name]) => !tables.ofALayer.includes(name));
  return Object.fromEntries([...tables.ofALayer.filter(has).map((name) => [name, flat[name]]), ...parts]);
}

// The fields that ModelConfig.to_fields has.
function completed(settings, tables) {
  const { kinds, order, logit_cap: cap, ...config } = checked(settings, tables);
  if (cap !== null) config.logit_cap = cap;
  if (kinds === null) return config;
  const each = Object.entries(kinds).map(([name, own]) => [name, checkedKind(own, settings, config, tables)]);
  return { ...config, kinds: Object.fromEntries(each), order };
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

// The model that it describes, { config }, without its unknown keys; or our code's error in the words of Python, { refused };
// or a size that is larger than the view counts, { large }, which Python would accept.
export function model(file, tables) {
  let settings = {};
  let form = null;
  try {
    const kind = get(file, "model_type");
    if (typeof kind !== "string" || !Object.hasOwn(tables.formats, kind)) refuse(typeIsMissing(file, tables));
    form = tables.formats[kind];
    const given = oneNameEach(unknownKeys(file, tables).reduce(without, file), form);
    const rules = tables.rules.filter(([name]) => !form.keys.includes(name));
    checkRules(given, [...rules, ...form.mustBe, ...scaleRules(given, form, tables)]);
    settings = byTables(given, form, tables);
    settings = { ...settings, ...READERS[kind]?.(given, form) };
    return { config: completed({ ...tables.defaults, ...settings }, tables) };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    const words = form ? inTheirWords(error.message, form, tables, settings) : error.message;
    return { [error instanceof Large ? "large" : "refused"]: words };
  }
}

// An error that uses the file's names for our fields.
function inTheirWords(words, { fields, parts, kinds, said }, { scalings }, settings) {
  const tablesOf = [fields, ...Object.values(parts).map(([, table]) => table), ...Object.values(kinds?.own ?? {})];
  const keys = tablesOf.flatMap(Object.entries).filter(([, key]) => isKey(key));
  const stretched = [settings, ...Object.values(settings.kinds ?? {})].find((own) => Object.hasOwn(own, "rope_scaling"));
  const ofRope = Object.entries(scalings[stretched?.rope_scaling ?? "default"]);
  const names = { ...Object.fromEntries([...keys, ...ofRope].map(([ours, [theirs]]) => [ours, theirs])), ...said };
  return Object.entries(names).reduce((text, [ours, theirs]) => text.replace(new RegExp(`\\b${ours}=`, "g"), `${theirs}=`), words);
}
