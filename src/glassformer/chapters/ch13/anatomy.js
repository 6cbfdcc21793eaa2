// What a published model consists of, by its config.json: the twin of anatomy/reading.py, with its tables. Nothing here
// touches the page.

const MOST_LAYERS = 10_000; // as in reading.py

const WRAPPED = ["text_config", "language_config", "llm_config"]; // as in reading.py

class Unread extends Error {}

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

// --- formulas, as in formulas.py ------------------------------------------------------------------------------------

const OF_NUMBERS = {
  "+": (a, b) => a + b,
  "-": (a, b) => a - b,
  "*": (a, b) => a * b,
  "//": (a, b) => Math.floor(a / b),
  "%": (a, b) => ((a % b) + b) % b,
  "**": (a, b) => a ** b,
  "<": (a, b) => a < b,
  "<=": (a, b) => a <= b,
  ">": (a, b) => a > b,
  ">=": (a, b) => a >= b,
};

const FUNCTIONS = { min: Math.min, max: Math.max, ceil: Math.ceil };

const truthy = (value) => (Array.isArray(value) ? value.length > 0 : isObject(value) ? Object.keys(value).length > 0 : Boolean(value));

function namesIn([kind, ...parts]) {
  if (kind === "name") return parts;
  return kind === "is" ? [] : parts.filter(Array.isArray).flatMap(namesIn);
}

const spell = (tree) => namesIn(tree)[0] ?? "a number";

const needs = (tree, value, what) => {
  throw new Unread(value === null ? `${spell(tree)} is missing` : `${spell(tree)}=${JSON.stringify(value)} must be ${what}`);
};

const number = (tree, value) => (typeof value === "number" ? value : typeof value === "boolean" && tree[0] === "name" ? Number(value) : needs(tree, value, "a number"));

const list = (tree, value) => (Array.isArray(value) || typeof value === "string" ? value : needs(tree, value, "a list"));

// The value of a formula, in which `look` gives the value of a name.
function evaluate(tree, look) {
  const [kind, ...parts] = tree;
  const of = (part) => evaluate(part, look);
  const [a, b] = parts;
  switch (kind) {
    case "is":
      return a;
    case "name":
      return look(a);
    case "list":
      return parts.map(of);
    case "if":
      return of(truthy(of(a)) ? b : parts[2]);
    case "not":
      return !truthy(of(a));
    case "or":
    case "and": {
      const until = parts.slice(0, -1).find((part) => truthy(of(part)) === (kind === "or"));
      return of(until ?? parts.at(-1));
    }
    case "key": {
      const whole = of(a);
      return isObject(whole) && Object.hasOwn(whole, b) ? whole[b] : null;
    }
    case "at": {
      const [whole, index] = [list(a, of(a)), number(b, of(b))];
      if (index < 0 || index >= whole.length) throw new Unread(`${spell(a)} has ${whole.length} entries, but there must be one for layer ${index}`);
      return whole[index];
    }
    case "call":
      if (a === "len") return list(b, of(b)).length;
      return FUNCTIONS[a](...parts.slice(1).map((part) => number(part, of(part))));
    case "==":
      return of(a) === of(b);
    case "!=":
      return of(a) !== of(b);
    case "in":
      return list(b, of(b)).includes(of(a));
    case "not in":
      return !list(b, of(b)).includes(of(a));
  }
  const values = parts.map(of);
  if (kind === "+" && values.every(Array.isArray)) return values.flat();
  const [left, right] = parts.map((part, i) => number(part, values[i]));
  if (["//", "%"].includes(kind) && right === 0) throw new Unread(`${spell(b)} is 0, by which nothing can be divided`);
  return OF_NUMBERS[kind](left, right);
}

// --- reading --------------------------------------------------------------------------------------------------------

// The values of names for a model or one of its layers: a function, and the numbers of parts.
function scopeOf({ parts, families, classes }, family, given, known) {
  const [lines, absent, within] = [families[family], classes[family].defaults, new Set()];
  const look = (name) => {
    if (Object.hasOwn(known, name)) return known[name];
    if (Object.hasOwn(lines, name) && !within.has(name)) {
      within.add(name);
      known[name] = evaluate(lines[name], look);
      within.delete(name);
      return known[name];
    }
    return Object.hasOwn(given, name) ? given[name] : (absent[name] ?? null);
  };
  const of = (part, group) => Object.fromEntries(Object.entries(parts[part][group] ?? {}).map(([name, tree]) => [name, evaluate(tree, look)]));
  const one = (part, name) => (parts[part][name] ? evaluate(parts[part][name], look) : 0);
  return { look, of, one };
}

function ofLayer(given, i) {
  const own = given.per_layer_config;
  if (!isObject(own)) return given;
  const mine = own[i] ?? own[String(i).padStart(2, "0")] ?? {};
  if (!isObject(mine)) throw new Unread(`per_layer_config=${JSON.stringify(mine)} of layer ${i} must be an object of keys`);
  return { ...given, ...mine };
}

// The anatomy of the model that a file describes: { family, beside, kinds, weights, kept, multiplyAdds }. It throws an error
// whose message says what is missing.
function read(file, tables) {
  const wrapper = WRAPPED.find((key) => isObject(file[key]));
  let given = file;
  if (wrapper) given = { ...(Object.hasOwn(file, "tie_word_embeddings") && { tie_word_embeddings: file.tie_word_embeddings }), ...file[wrapper] };
  const beside = wrapper ? Object.keys(file).filter((name) => name.endsWith("_config") && name !== wrapper) : [];
  const family = given.model_type;
  if (typeof family !== "string" || !Object.hasOwn(tables.classes, family)) throw new Unread(`model_type=${JSON.stringify(family ?? null)} is not known here`);
  const { aliases } = tables.classes[family];
  const usual = (key) => (Object.hasOwn(aliases, key) && !Object.hasOwn(given, aliases[key]) ? aliases[key] : key);
  given = Object.fromEntries(Object.entries(given).map(([key, value]) => [usual(key), value]));
  const nLayers = scopeOf(tables, family, given, {}).look("n_layers");
  if (!Number.isInteger(nLayers) || nLayers < 1) throw new Unread(`the number of layers=${JSON.stringify(nLayers)} must be a whole number, at least 1`);
  if (nLayers > MOST_LAYERS) throw new Unread(`the number of layers=${nLayers} must be at most ${MOST_LAYERS.toLocaleString("en")}`);
  const found = new Map();
  for (let i = 0; i < nLayers; i += 1) {
    const { look, of } = scopeOf(tables, family, ofLayer(given, i), { i });
    const word = look("layer_type");
    if (!look("words").includes(word)) throw new Unread(`layer ${i} is of the kind ${JSON.stringify(word)}, but ${family} has ${look("words").join(", ")}`);
    const parts = look("parts");
    const key = JSON.stringify([word, parts, parts.map((part) => [of(part, "matrices"), of(part, "vectors")])]);
    if (!found.has(key)) found.set(key, { word, parts, layers: [] });
    found.get(key).layers.push(i);
  }
  return anatomy(tables, family, given, [...found.values()], beside);
}

function anatomy(tables, family, given, kinds, beside) {
  const scope = (kind, known = {}) => (kind ? scopeOf(tables, family, ofLayer(given, kind.layers[0]), { i: kind.layers[0], ...known }) : scopeOf(tables, family, given, known));
  const weights = ({ active = false, groups = ["matrices", "vectors"] } = {}) => {
    const count = {};
    const add = (part, name, n) => (count[`${part} ${name}`] = (count[`${part} ${name}`] ?? 0) + n);
    for (const kind of [null, ...kinds]) {
      const { look, of } = scope(kind);
      const times = kind ? kind.layers.length : 1;
      for (const part of kind ? kind.parts : ["model"]) {
        const used = active ? of(part, "active") : {};
        for (const group of groups) for (const [name, n] of Object.entries(of(part, group))) add(part, name, times * (used[name] ?? n));
      }
      if (kind && groups.includes("vectors")) add("norms", "norms", times * look("n_norms") * look("gain") * look("d_model"));
    }
    return count;
  };
  const kept = (positions) => {
    const count = {};
    for (const kind of kinds) {
      const { one } = scope(kind, { positions });
      const each = ["kept", "state"].map((name) => kind.parts.reduce((sum, part) => sum + one(part, name), 0));
      count[kind.word] = each.map((n, k) => (count[kind.word]?.[k] ?? 0) + kind.layers.length * n);
    }
    return count;
  };
  const multiplyAdds = (positions) => {
    const matrices = Object.values(weights({ active: true, groups: ["matrices"] })).reduce((sum, n) => sum + n, 0);
    const products = kinds.map((kind) => kind.layers.length * kind.parts.reduce((sum, part) => sum + scope(kind, { positions }).one(part, "products"), 0));
    return matrices - scope().one("model", "looked_up") + products.reduce((sum, n) => sum + n, 0);
  };
  return { family, beside, kinds, weights, kept, multiplyAdds };
}

// What the page says of a file: its kinds of layers, and its numbers after so many positions.
export function counted(file, tables, positions) {
  const { family, beside, kinds, weights, kept, multiplyAdds } = read(file, tables);
  return { family, beside, kinds, weights: weights(), active: weights({ active: true }), kept: kept(positions), multiplyAdds: multiplyAdds(positions) };
}
