// What a published model consists of, by its config.json: the twin of anatomy/reading.py, with its tables. Nothing here
// touches the page.

const MOST_LAYERS = 10_000; // as in reading.py

const WRAPPED = ["thinker_config", "text_config", "language_config", "llm_config"]; // as in reading.py

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

// What a message calls the value of a formula: the file's key, or the first name in it.
const spell = (tree, value, look) => (tree[0] === "name" && look.key ? look.key(tree[1], value) : (namesIn(tree)[0] ?? "a number"));

const needs = (tree, value, what, look) => {
  const name = spell(tree, value, look);
  throw new Unread(value === null ? `${name} is missing` : `${name}=${JSON.stringify(value)} must be ${what}`);
};

const number = (tree, value, look) =>
  typeof value === "number" ? value : typeof value === "boolean" && tree[0] === "name" ? Number(value) : needs(tree, value, "a number", look);

const list = (tree, value, look) => (Array.isArray(value) || typeof value === "string" ? value : needs(tree, value, "a list", look));

const includes = (value, tree, whole, look) =>
  typeof whole === "string" && typeof value !== "string" ? needs(tree, whole, "a list", look) : list(tree, whole, look).includes(value);

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
      const [whole, index] = [list(a, of(a), look), number(b, of(b), look)];
      if (index < 0 || index >= whole.length) throw new Unread(`${spell(a, whole, look)} has ${whole.length} entries, but there must be one for layer ${index}`);
      return whole[index];
    }
    case "call":
      if (a === "is_list") return Array.isArray(of(b));
      if (a === "len") return list(b, of(b), look).length;
      return FUNCTIONS[a](...parts.slice(1).map((part) => number(part, of(part), look)));
    case "==":
      return of(a) === of(b);
    case "!=":
      return of(a) !== of(b);
    case "in":
      return includes(of(a), b, of(b), look);
    case "not in":
      return !includes(of(a), b, of(b), look);
  }
  const values = parts.map(of);
  if (kind === "+" && values.every(Array.isArray)) return values.flat();
  const [left, right] = parts.map((part, i) => number(part, values[i], look));
  if (["//", "%"].includes(kind) && right === 0) throw new Unread(`${spell(b, right, look)} is 0, by which nothing can be divided`);
  return OF_NUMBERS[kind](left, right);
}

// --- reading --------------------------------------------------------------------------------------------------------

function whole(name, value) {
  if (!Number.isInteger(value)) throw new Unread(`${name}=${JSON.stringify(value)} must be a whole number`);
  if (value < 1) throw new Unread(`${name}=${value} must be at least 1`);
}

const familyOf = ({ classes }, type) => (Object.hasOwn(classes, type) ? type : Object.keys(classes).find((name) => classes[name].files?.includes(type)));

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
  const keys = (name, among = []) =>
    (Object.hasOwn(lines, name) && !among.includes(name) ? namesIn(lines[name]) : [name]).flatMap((one) => (one === name ? [one] : keys(one, [...among, name])));
  look.key = (name, value) => keys(name).find((key) => (given[key] ?? null) === value) ?? name;
  const of = (part, group) => Object.fromEntries(Object.entries(parts[part][group] ?? {}).map(([name, tree]) => [name, evaluate(tree, look)]));
  const one = (part, name) => (parts[part][name] ? evaluate(parts[part][name], look) : 0);
  const check = (part) => {
    for (const tree of (parts[part].sizes ?? []).slice(1)) {
      const value = evaluate(tree, look);
      if (value !== null) whole(look.key(tree[1], value), value);
    }
  };
  return { look, of, one, check };
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
  let given = file;
  const beside = [];
  for (const key of WRAPPED) {
    if (!isObject(given[key])) continue;
    beside.push(...Object.keys(given).filter((name) => name.endsWith("_config") && name !== key));
    const kept = ["tie_word_embeddings", "model_type"].filter((name) => Object.hasOwn(given, name));
    given = { ...Object.fromEntries(kept.map((name) => [name, given[name]])), ...given[key] };
  }
  const family = typeof given.model_type === "string" ? familyOf(tables, given.model_type) : undefined;
  if (family === undefined) throw new Unread(`model_type=${JSON.stringify(given.model_type ?? null)} is not known here`);
  const { aliases } = tables.classes[family];
  const usual = (key) => (Object.hasOwn(aliases, key) && !Object.hasOwn(given, aliases[key]) ? aliases[key] : key);
  given = Object.fromEntries(Object.entries(given).map(([key, value]) => [usual(key), value]));
  const nLayers = scopeOf(tables, family, given, {}).look("n_layers");
  whole("the number of layers", nLayers);
  if (nLayers > MOST_LAYERS) throw new Unread(`the number of layers=${nLayers} must be at most ${MOST_LAYERS.toLocaleString("en")}`);
  const found = new Map();
  for (let i = 0; i < nLayers; i += 1) {
    const { look, of, check } = scopeOf(tables, family, ofLayer(given, i), { i });
    const word = look("layer_type");
    if (!look("words").includes(word)) throw new Unread(`layer ${i} is of the kind ${JSON.stringify(word)}, but ${family} has ${look("words").join(", ")}`);
    const parts = look("parts");
    ["model", ...parts].forEach(check);
    const key = JSON.stringify([word, parts, look("n_norms"), parts.map((part) => [of(part, "matrices"), of(part, "vectors")])]);
    if (!found.has(key)) found.set(key, { word, parts, layers: [] });
    found.get(key).layers.push(i);
  }
  return anatomy(tables, family, given, [...found.values()], beside);
}

function anatomy(tables, family, given, kinds, beside) {
  const scope = (kind, known = {}) => (kind ? scopeOf(tables, family, ofLayer(given, kind.layers[0]), { i: kind.layers[0], ...known }) : scopeOf(tables, family, given, known));
  // null, here and below, if one of the numbers is not known
  const weights = ({ active = false, groups = ["matrices", "vectors"] } = {}) => {
    const count = {};
    const add = (part, name, n) => (count[`${part} ${name}`] = n === null ? NaN : (count[`${part} ${name}`] ?? 0) + n);
    for (const kind of [null, ...kinds]) {
      const { look, of } = scope(kind);
      const times = kind ? kind.layers.length : 1;
      for (const part of kind ? kind.parts : ["model"]) {
        const used = active ? of(part, "active") : {};
        for (const group of groups) {
          for (const [name, n] of Object.entries(of(part, group))) {
            const found = Object.hasOwn(used, name) ? used[name] : n;
            add(part, name, found === null ? null : times * found);
          }
        }
      }
      if (kind && groups.includes("vectors")) add("norms", "norms", times * look("n_norms") * look("gain") * look("d_model"));
    }
    if (groups.includes("dropped")) add("model", "more_layers", moreLayers());
    return Object.values(count).some(Number.isNaN) ? null : count;
  };
  // Layers that predict several tokens: each is like the last, with a matrix and norms.
  function moreLayers() {
    const { look } = scope();
    if (!look("n_more_layers")) return look("n_more_layers");
    const last = kinds.find(({ layers }) => layers.includes(look("n_layers") - 1));
    const alone = anatomy(tables, family, given, [{ ...last, layers: last.layers.slice(-1) }], []);
    const layer = alone.weights({ groups: ["matrices", "vectors", "buffers"] });
    const each = scope(last).look("more_layer");
    if (layer === null || each === null) return null;
    return look("n_more_layers") * Object.entries(layer).reduce((all, [name, n]) => all + (name.startsWith("model ") ? 0 : n), each);
  }
  const sum = (numbers) => numbers.reduce((all, n) => (all === null || n === null ? null : all + n), 0);
  const kept = (positions) => {
    const count = {};
    for (const kind of kinds) {
      const { one } = scope(kind, { positions });
      const each = ["kept", "state"].map((name) => sum(kind.parts.map((part) => one(part, name))));
      const before = Object.hasOwn(count, kind.word) ? count[kind.word] : [0, 0];
      count[kind.word] = before === null || each.includes(null) ? null : each.map((n, k) => before[k] + kind.layers.length * n);
    }
    return count;
  };
  const multiplyAdds = (positions) => {
    const matrices = weights({ active: true, groups: ["matrices"] });
    const products = [null, ...kinds].map((kind) => {
      const { one } = scope(kind, { positions });
      const each = (kind ? kind.parts : ["model"]).flatMap((part) => [one(part, "products"), one(part, "idle")]);
      return each.includes(null) ? null : (kind ? kind.layers.length : 1) * each.reduce((all, n, k) => all + (k % 2 ? -n : n), 0);
    });
    return sum([matrices && sum(Object.values(matrices)), ...products]);
  };
  return { family, beside, kinds, weights, kept, multiplyAdds };
}

// What the page says of a file: its kinds of layers, and its numbers after so many positions.
export function counted(file, tables, positions) {
  const { family, beside, kinds, weights, kept, multiplyAdds } = read(file, tables);
  return { family, beside, kinds, weights: weights(), active: weights({ active: true }), dropped: weights({ groups: ["dropped"] }), kept: kept(positions), multiplyAdds: multiplyAdds(positions) };
}
