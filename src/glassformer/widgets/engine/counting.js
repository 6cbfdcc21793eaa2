// Counts a model's parameters, part by part, with the formulas of ModelConfig.parameter_count, which parameters.py provides,
// and writes the counts and formulas. Shared by the views that count; nothing here touches the page.
import { fixed, grouped } from "../kit/kit.js";

// --- counting ---------------------------------------------------------------------------------------------------------

export const sum = (list) => list.reduce((a, b) => a + b, 0);

// Sizes that follow from others if they are not given.
export const followed = {
  n_decoder_layers: ({ family, n_layers }) => (family === "encoder-decoder" ? n_layers : null),
  n_kv_heads: ({ n_heads }) => n_heads,
  d_head: ({ d_model, n_heads }) => Math.floor(d_model / n_heads),
  d_ff: ({ d_model }) => 4 * d_model,
};

// All sizes as numbers, including those that follow from others.
export const resolved = (fields) =>
  Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, value ?? followed[name]?.(fields) ?? null]));

// The rule of ModelConfig that the fields break, in words; null if none.
export function problem(fields, limits) {
  const sizes = resolved(fields);
  for (const [name, most] of Object.entries(limits)) {
    const [given, value] = [fields[name], sizes[name]];
    if (value === null && name === "n_decoder_layers") continue;
    if (Number.isNaN(given)) return `${name}= must be a whole number`;
    if (given !== null && !Number.isInteger(given)) return `${name}=${given} must be a whole number`;
    if (given !== null && given < 1) return `${name}=${given} must be at least 1`;
    if (given !== null && given > most) return `${name}=${given} must be at most ${most}`;
  }
  const { d_model, n_heads, n_kv_heads, d_head } = sizes;
  if (n_heads % n_kv_heads) return `n_heads=${n_heads} is not divisible by n_kv_heads=${n_kv_heads}`;
  if (fields.d_head === null && d_model % n_heads) return `d_model=${d_model} is not divisible by n_heads=${n_heads}`;
  const pairs = "is odd: sines and cosines come in pairs of dimensions";
  if (fields.positions === "sinusoidal" && d_model % 2) return `d_model=${d_model} ${pairs}`;
  if (fields.positions === "rope" && d_head % 2) return `d_head=${d_head} ${pairs}`;
  return null;
}

// The sizes behind the letters of the formulas.
export const lettered = (fields, letters) => {
  const sizes = resolved(fields);
  return Object.fromEntries(Object.entries(letters).map(([letter, name]) => [letter, sizes[name]]));
};

export const evaluate = (terms, sizes) =>
  sum(Object.entries(terms).map(([product, n]) => [...product].reduce((a, letter) => a * sizes[letter], n)));

// A formula as text, with letters or with what `name` makes of them: longer products first.
export function spell(terms, name = (letter) => letter) {
  const products = Object.entries(terms).sort(([a], [b]) => b.length - a.length);
  const spelled = products.map(([product, n]) => {
    const factors = [...product].map(name).join("·").replace(`${name("D")}·${name("D")}`, `${name("D")}²`);
    const times = name("D") === "D" ? n : `${n}·`;
    return `${n > 1 ? times : ""}${factors}`;
  });
  return spelled.join(" + ") || "0";
}

// A part with its multiplicity, and the number of its parameters.
export function partOf(name, times, terms, note, sizes) {
  const each = evaluate(terms, sizes);
  return { name, times, terms, each, count: times * each, note };
}

// The parts of a configuration whose layers are all alike: how many of each, their formula, and their number of parameters.
export function counted(fields, formulas, letters) {
  const sizes = lettered(fields, letters);
  const { D, H, K, G } = sizes;
  const relations = { queries: H * K === D ? "D" : "HK", keys: G === H ? "all" : G === 1 ? "one" : "some" };
  const { n_layers, n_decoder_layers } = resolved(fields);
  return Object.entries(formulas).flatMap(([name, { fields: names, entries }]) => {
    const entry = entries[names.map((field) => String(relations[field] ?? fields[field])).join(" ")];
    if (!entry) return [];
    const [once, perBlock, perCrossing] = entry.times;
    return [partOf(name, once + perBlock * n_layers + perCrossing * (n_decoder_layers ?? 0), entry.terms, entry.note ?? "", sizes)];
  });
}

export const total = (parts) => sum(parts.map(({ count }) => count));

// The formula of one block, of a decoder if there is one, with 4D instead of F if d_ff is a multiple of D.
export function blockOf(parts, sizes) {
  const terms = {};
  const add = (name, times) => {
    for (const [product, n] of Object.entries(parts.find((part) => part.name === name)?.terms ?? {})) {
      const fits = sizes.F % sizes.D === 0 && product.includes("F");
      const written = fits ? product.replace("F", "D") : product;
      terms[written] = (terms[written] ?? 0) + n * times * (fits ? sizes.F / sizes.D : 1);
    }
  };
  const crossing = parts.some(({ name }) => name === "cross-attention");
  add("attention", 1);
  add("feed-forward", 1);
  add("norms", crossing ? 3 : 2);
  add("cross-attention", 1);
  return terms;
}

// --- what follows ----------------------------------------------------------------------------------------------------

// Bytes per number, as it is stored.
export const KEPT = [["float32", 4], ["bfloat16", 2], ["int8", 1]];

// Keys and values for a number of positions, in all blocks.
export const cacheBytes = ({ L, G, K }, positions, bytes) => 2 * L * G * K * positions * bytes;

export const kindOf = (G, H) => (G === H ? "MHA" : G === 1 ? "MQA" : "GQA");

// --- large numbers ----------------------------------------------------------------------------------------------------

const SCALES = ["", " thousand", " million", " billion", " trillion", " quadrillion", " quintillion"];
const UNITS = [" B", " kB", " MB", " GB", " TB", " PB"];

function scaled(x, units) {
  const place = Math.min(Math.max(Math.floor((Math.floor(Math.log10(x)) || 0) / 3), 0), units.length - 1);
  return `${grouped(Number((x / 1000 ** place).toPrecision(3)))}${units[place]}`;
}

// With three digits: 8030261248 is "8.03 billion", and as bytes "8.03 GB", in powers of a thousand.
export const much = (x) => scaled(x, SCALES);
export const inBytes = (x) => scaled(x, UNITS);

// --- words ------------------------------------------------------------------------------------------------------------

export const percent = (share) => `${fixed(100 * share, 1)} %`;
export const signed = (n) => (n === 0 ? "" : n > 0 ? `+${grouped(n)}` : `−${grouped(-n)}`);

export const formulaOf = ({ times, terms, note }, name) => {
  if (Object.keys(terms).length === 0) return note || "0";
  const one = spell(terms, name);
  if (times === 1) return one;
  return Object.keys(terms).length > 1 ? `${grouped(times)} × (${one})` : `${grouped(times)} × ${one}`;
};

// One part: its formula, with letters and with numbers; and what another model has instead, if that differs.
export function sentence(part, parts, sizes, base, preset) {
  const all = total(parts);
  const name = part.name[0].toUpperCase() + part.name.slice(1);
  const was = base.find((other) => other.name === part.name)?.count ?? 0;
  const change = part.count === was ? "" : ` ${preset} has ${grouped(was)} here: ${signed(part.count - was)}.`;
  if (part.count === 0) return `${name}: ${part.note}. No parameters.${change}`;
  const filled = formulaOf(part, (letter) => grouped(sizes[letter]));
  return `${name}: ${formulaOf(part)} = ${filled} = ${grouped(part.count)}, ${percent(part.count / all)} of all.${change}`;
}
