// What a published model consists of, by its config.json: the twin of anatomy/reading.py, with its tables. Nothing here
// touches the page.

const MOST_LAYERS = 10_000; // as in reading.py

const WRAPPED = ["thinker_config", "text_config", "language_config", "llm_config"]; // as in reading.py

const TELL_APART = ["n_norms", "window", "rotates", "placement", "gate", "shares_kv", "keys_are_values"]; // as in reading.py

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

function namesIn(tree) {
  if (!Array.isArray(tree)) return typeof tree === "string" ? [tree] : [];
  const [kind, ...parts] = tree;
  const inner = { is: [], key: parts.slice(0, 1), call: parts.slice(1) };
  return (Object.hasOwn(inner, kind) ? inner[kind] : parts).flatMap(namesIn);
}

// What a message calls the value of a formula: the file's key, or the first name in it.
const spell = (tree, value, look) => (typeof tree === "string" && look.key ? look.key(tree, value) : (namesIn(tree)[0] ?? "a number"));

// A value in a message: JSON has no infinity, which a file may have as 1e999.
const spelled = (value) => (typeof value === "number" ? String(value).replace("Infinity", "inf") : JSON.stringify(value));

const needs = (tree, value, what, look) => {
  const name = spell(tree, value, look);
  throw new Unread(value === null ? `${name} is missing` : `${name}=${spelled(value)} must be ${what}`);
};

const number = (tree, value, look) =>
  typeof value === "number" ? value : typeof value === "boolean" && typeof tree === "string" ? Number(value) : needs(tree, value, "a number", look);

const list = (tree, value, look) => (Array.isArray(value) || typeof value === "string" ? value : needs(tree, value, "a list", look));

// The value of a formula, in which `look` gives the value of a name.
function evaluate(tree, look) {
  if (typeof tree === "string") return look(tree);
  if (!Array.isArray(tree)) return tree;
  const [kind, ...parts] = tree;
  const of = (part) => evaluate(part, look);
  const [a, b] = parts;
  switch (kind) {
    case "is":
      return a;
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
      const inside = of(a);
      return isObject(inside) && Object.hasOwn(inside, b) ? inside[b] : null;
    }
    case "at": {
      const [listed, index] = [list(a, of(a), look), number(b, of(b), look)];
      if (index < 0 || index >= listed.length) throw new Unread(`${spell(a, listed, look)} has ${listed.length} entries, but there must be one for layer ${index}`);
      return listed[index];
    }
    case "call":
      if (a === "is_list") return Array.isArray(of(b));
      if (a === "len") return list(b, of(b), look).length;
      if (a === "numbers") {
        const listed = list(b, of(b), look);
        return typeof listed === "string" ? (listed.match(/\d+/g) ?? []).map(Number) : listed;
      }
      return FUNCTIONS[a](...parts.slice(1).map((part) => number(part, of(part), look)));
    case "==":
      return of(a) === of(b);
    case "!=":
      return of(a) !== of(b);
    case "in":
    case "not in": {
      const [item, among] = [of(a), list(b, of(b), look)];
      return (typeof item === "string" ? among : [...among]).includes(item) === (kind === "in");
    }
  }
  const values = parts.map(of);
  if (kind === "+" && values.every(Array.isArray)) return values.flat();
  const [left, right] = parts.map((part, i) => number(part, values[i], look));
  if (["//", "%"].includes(kind) && right === 0) throw new Unread(`${spell(b, right, look)} is 0, by which nothing can be divided`);
  return OF_NUMBERS[kind](left, right);
}

// The lines of each family with those of what it is like.
export function resolved(families) {
  const inherited = ({ like, ...lines }) => (like ? { ...inherited(families[like]), ...lines } : lines);
  return Object.fromEntries(Object.entries(families).map(([name, lines]) => [name, inherited(lines)]));
}

// --- reading --------------------------------------------------------------------------------------------------------

function whole(name, value) {
  if (!Number.isInteger(value)) throw new Unread(`${name}=${spelled(value)} must be a whole number`);
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
  const one = (part, name) => (Object.hasOwn(parts[part], name) ? evaluate(parts[part][name], look) : 0);
  const check = (part) => {
    for (const tree of (parts[part].sizes ?? []).slice(1)) {
      const value = evaluate(tree, look);
      if (value !== null) whole(look.key(tree, value), value);
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
    beside.push(...Object.keys(given).filter((name) => name.endsWith("_config") && name !== key && isObject(given[name])));
    const kept = ["tie_word_embeddings", "model_type"].filter((name) => Object.hasOwn(given, name));
    given = { ...Object.fromEntries(kept.map((name) => [name, given[name]])), ...given[key] };
  }
  if ((given.model_type ?? null) === null) throw new Unread("model_type is missing");
  const family = typeof given.model_type === "string" ? familyOf(tables, given.model_type) : undefined;
  if (family === undefined) throw new Unread(`model_type=${JSON.stringify(given.model_type)} is not known here`);
  const { aliases } = tables.classes[family];
  const usual = (key) => (Object.hasOwn(aliases, key) && !Object.hasOwn(given, aliases[key]) ? aliases[key] : key);
  given = Object.fromEntries(Object.entries(given).map(([key, value]) => [usual(key), value]));
  const nLayers = scopeOf(tables, family, given, {}).look("n_layers");
  if (nLayers === null) throw new Unread("the number of layers is missing");
  whole("the number of layers", nLayers);
  if (nLayers > MOST_LAYERS) throw new Unread(`the number of layers=${nLayers} must be at most ${MOST_LAYERS.toLocaleString("en")}`);
  const found = new Map();
  for (let i = 0; i < nLayers; i += 1) {
    const { look, of, check } = scopeOf(tables, family, ofLayer(given, i), { i });
    const word = look("layer_type");
    if (!look("words").includes(word)) throw new Unread(`layer ${i} is of the kind ${JSON.stringify(word)}, but ${family} has ${look("words").join(", ")}`);
    const parts = look("parts");
    ["model", ...parts].forEach(check);
    const key = JSON.stringify([word, parts, TELL_APART.map(look), parts.map((part) => [of(part, "matrices"), of(part, "vectors")])]);
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
  // The parts of layers of a kind that do not have some ideas, and the values of names for them.
  const ofWithout = (kind, positions, ideas) => {
    const { look } = scope(kind, { positions });
    let [parts, other] = [kind.parts, {}];
    for (const idea of ideas.toReversed()) {
      if (!truthy(evaluate(idea.if, look))) continue;
      parts = parts.map((part) => (idea.parts.includes(part) ? evaluate(idea.becomes, look) : part));
      other = { ...other, ...Object.fromEntries(Object.entries(idea.without).map(([name, tree]) => [name, evaluate(tree, look)])) };
    }
    return { parts: parts.filter(Boolean), ...scope(kind, { positions, ...other }) };
  };
  const kept = (positions, without = []) => {
    const count = {};
    for (const kind of kinds) {
      const { parts, one } = ofWithout(kind, positions, without);
      const each = ["kept", "state"].map((name) => sum(parts.map((part) => one(part, name))));
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
  return { family, beside, kinds, scope, weights, kept, multiplyAdds };
}

// --- what is said, as in described.py -----------------------------------------------------------------------------------

const AHEAD = 128; // as in described.py
const LONGEST_UNIT = 64;
const LONGEST_VALUE = 60;
const SHORT_LIST = 8;

const OTHER_PARTS = { vision: "the part that reads images", audio: "the part that reads sound" }; // as in described.py

const exact = new Intl.NumberFormat("en-US", { maximumFractionDigits: 20 });

const A_SIZE = /size|dim|rank|num|head|expert|layer|group|latent|width/;

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

// What a list repeats: [times, unit] for each piece, whose unit is [[n, item], …] of equal neighbours.
export function fold(items) {
  const found = [];
  for (let at = 0; at < items.length; ) {
    let [times, length] = [1, 1];
    for (let size = 1; size <= Math.min(LONGEST_UNIT, Math.floor((items.length - at) / 2)); size += 1) {
      let n = 1;
      while (same(items.slice(at + n * size, at + (n + 1) * size), items.slice(at, at + size))) n += 1;
      if (n > 1 && n * size > times * length) [times, length] = [n, size];
    }
    const unit = [];
    for (const item of items.slice(at, at + length)) {
      if (unit.length && same(unit.at(-1)[1], item)) unit.at(-1)[0] += 1;
      else unit.push([1, item]);
    }
    found.push(length > 1 ? [times, unit] : [1, [[times, items[at]]]]);
    at += times * length;
  }
  return found;
}

const timesOf = (n, what) => (n === 1 ? what.join(", ") : what.length > 1 ? `${n} × (${what.join(", ")})` : `${n} × ${what}`);

// A value as a sentence has it: numbers with commas, and a list with what repeats folded.
function shown(value) {
  if (typeof value === "number") return exact.format(value);
  if (Array.isArray(value) && value.length <= SHORT_LIST) return value.map(shown).join(", ");
  if (Array.isArray(value)) return fold(value).map(([times, unit]) => timesOf(times, unit.map(([n, one]) => timesOf(n, [shown(one)])))).join(", ");
  if (typeof value === "string") return value;
  return isObject(value) ? `{${Object.entries(value).map(([key, one]) => `${key}: ${shown(one)}`).join(", ")}}` : String(value);
}

const short = (value) => {
  const text = [...shown(value)];
  return text.length <= LONGEST_VALUE ? text.join("") : `${text.slice(0, LONGEST_VALUE - 1).join("")}…`;
};

const insideOf = (named) => new Set([...named].filter((name) => name.includes(".")).map((name) => name.split(".")[0]));

// [key, name, value] of each entry: the key of one within an object is a.b.c, and its name a.c if that is named.
function* entries(file, named) {
  const inside = insideOf(named);
  for (const [key, value] of Object.entries(file)) {
    yield [key, key, value];
    for (const [inner, one] of inside.has(key) && isObject(value) ? Object.entries(value) : []) {
      if (isObject(one) && Object.keys(one).some((last) => named.has(`${key}.${last}`))) {
        for (const [last, each] of Object.entries(one)) yield [`${key}.${inner}.${last}`, `${key}.${last}`, each];
      } else yield [`${key}.${inner}`, `${key}.${inner}`, one];
    }
  }
  for (const key of WRAPPED) if (isObject(file[key])) yield* entries(file[key], named);
}

function sentenceOf(name, value, { keys, activation }) {
  if (activation.keys.includes(name) && typeof value === "string" && Object.hasOwn(activation, value)) return [activation[value], activation.chapter];
  if (!Object.hasOwn(keys, name) || value === null) return null;
  const [chapter, ...says] = keys[name];
  return [says[truthy(value) || says.length === 1 ? 0 : 1].replaceAll("{}", () => shown(value)), chapter];
}

// The keys of a file: { said: [[key, value, sentence, chapter]], programs, unset, unknown }.
function keysOf(file, words) {
  const named = new Set([...Object.keys(words.keys), ...words.programs]);
  const inside = insideOf(named);
  const [said, others] = [new Map(), { programs: new Set(), unset: new Set(), unknown: new Set(), sizes: new Set() }];
  for (const [key, name, value] of entries(file, named)) {
    const row = sentenceOf(name, value, words);
    const written = isObject(value) && (inside.has(key) || key.endsWith("_config")) ? "{…}" : short(value);
    const id = JSON.stringify([key, written]);
    if (row && !said.has(id)) said.set(id, [key, written, ...row]);
    if (row) continue;
    const isUnset = value === null || (typeof value === "object" && Object.keys(value).length === 0);
    const where = words.programs.includes(name) ? "programs" : isUnset ? "unset" : "unknown";
    others[where].add(key);
    if (where === "unknown" && Number.isInteger(value) && value > 1 && A_SIZE.test(key)) others.sizes.add(key);
  }
  return { said: [...said.values()], ...Object.fromEntries(Object.entries(others).map(([where, names]) => [where, [...names]])) };
}

const byPart = (weights) => {
  if (weights === null) return null;
  const found = {};
  for (const [name, n] of Object.entries(weights)) {
    const [part, own] = name.split(" ");
    if (n) found[part === "model" ? own : part] = (found[part === "model" ? own : part] ?? 0) + n;
  }
  return found;
};

// Everything that is said of a file; if it cannot be counted, `trouble` says why. Other than Python's whole numbers, those of a
// page are exact only up to a limit.
export function report(file, tables, positions) {
  const keys = keysOf(file, tables.words);
  try {
    const seen = read(file, tables);
    keys.lacking = lackingIn(seen, tables.words);
    if (keys.sizes.length) throw new Unread(`${keys.sizes.join(", ")} may be sizes, and are not known here in ${seen.family}`);
    const counted = numbersOf(seen, tables.words, positions);
    if (!isExact(counted)) throw new Unread("its numbers are larger than this page counts");
    return { ...keys, ...counted };
  } catch (error) {
    if (!(error instanceof Unread)) throw error;
    return { ...keys, trouble: error.message };
  }
}

const holds = (rows, look) => rows.filter((row) => truthy(evaluate(row.if, look)));

// What our code lacks, each with the chapter that builds it, or "".
function lackingIn({ family, beside, kinds, scope }, words) {
  const found = new Set(kinds.flatMap((kind) => holds(words.lacking, scope(kind).look)));
  const leftOut = words.wrapped.includes(family); // our code reads the part for text alone
  const others = Object.entries(OTHER_PARTS).filter(([name]) => !leftOut && beside.some((part) => part.includes(name)));
  return [...words.lacking.filter((row) => found.has(row)).map(({ what, chapter }) => [what, chapter]), ...others.map(([, what]) => [what, ""])];
}

const isExact = ({ weights, files, cached, multiply_adds: n }) =>
  [weights, Object.values(files), cached, n].flat(Infinity).every((one) => typeof one !== "number" || one <= Number.MAX_SAFE_INTEGER);

const filled = (pieces, look) => pieces.map((piece, i) => (i % 2 ? shown(evaluate(piece, look)) : piece)).join("");

// What each kind keeps, and what the next position adds to it: [word, [numbers, numbers in float32], the same of what is added].
function cachedOf({ kinds, kept }, positions) {
  const [now, next, later] = [0, 1, AHEAD].map((n) => kept(positions + n));
  const isCompressed = (word) => kinds.some((kind) => kind.word === word && kind.parts.includes("compressed"));
  const adds = (word, k) => (isCompressed(word) ? (later[word][k] - now[word][k]) / AHEAD : next[word][k] - now[word][k]);
  return Object.entries(now).map(([word, numbers]) => [word, numbers, numbers && [0, 1].map((k) => adds(word, k))]);
}

function numbersOf({ family, beside, kinds, scope, weights, kept, multiplyAdds }, words, positions) {
  const scopes = kinds.map((kind) => scope(kind).look);
  const used = byPart(weights({ active: true }));
  const all = byPart(weights());
  const sum = (numbers) => numbers && Object.values(numbers).reduce((a, b) => a + b, 0);
  const order = [];
  kinds.forEach(({ layers }, k) => layers.forEach((i) => (order[i] = k)));
  return {
    family,
    beside,
    kinds: kinds.map(({ word, layers }, k) => ({
      word,
      labels: holds(words.labels, scopes[k]).map(({ label, group, words: said }) => [label, group, said]),
      layers: layers.length,
      boxes: holds(words.boxes, scopes[k]).map(({ title, line, role, new: isNew, chapter }) => ({ role, new: isNew, chapter, title: filled(title, scopes[k]), line: filled(line, scopes[k]) })),
    })),
    order: fold(order),
    weights: all && Object.entries(all).map(([part, n]) => [words.titles[part] ?? part, n, used && used[part]]),
    files: Object.fromEntries(["dropped", "buffers"].map((group) => [group, sum(weights({ groups: [group] }))])),
    cached: cachedOf({ kinds, kept }, positions),
    multiply_adds: multiplyAdds(positions),
  };
}

// --- what each idea saves, as in savings.py ------------------------------------------------------------------------------

function savingsOf({ kinds, scope, kept }, ideas, positions) {
  const found = [{ what: "", chapter: "", of: [] }];
  const has = [];
  for (const idea of ideas) {
    const of = new Map();
    for (const kind of kinds) {
      const { look } = scope(kind);
      if (!truthy(evaluate(idea.if, look))) continue;
      const words = filled(idea.of, look);
      of.set(words, (of.get(words) ?? 0) + kind.layers.length);
    }
    if (of.size === 0) continue;
    has.push(idea);
    found.push({ what: idea.what, chapter: idea.chapter, of: [...of].map(([words, layers]) => [layers, words]) });
  }
  return found.map((row, n) => {
    const numbers = Object.values(kept(positions, has.slice(n)));
    return { ...row, kept: numbers.includes(null) ? null : [0, 1].map((k) => numbers.reduce((all, one) => all + one[k], 0)) };
  });
}

// What is said of a file's cache: { context, weights, layers, cached, savings }, or { trouble }.
export function cacheReport(file, tables, ideas, positions) {
  try {
    const seen = read(file, tables);
    const all = seen.weights();
    const found = {
      context: seen.scope().look("context_length"),
      weights: all && Object.values(all).reduce((a, b) => a + b, 0),
      layers: seen.kinds.reduce((n, { layers }) => n + layers.length, 0),
      cached: cachedOf(seen, positions),
      savings: savingsOf(seen, ideas, positions),
    };
    const numbers = [found.weights, found.savings.map(({ kept }) => kept)].flat(Infinity);
    if (numbers.some((n) => n > Number.MAX_SAFE_INTEGER)) throw new Unread("its numbers are larger than this page counts");
    return found;
  } catch (error) {
    if (!(error instanceof Unread)) throw error;
    return { trouble: error.message };
  }
}
