// A reader's own model as a file: written when it is saved from the page, and read when it is opened in the page.
//
//   written({ config, tokenizer, tensors, facts })   the bytes of a model file
//       config       every field of a ModelConfig; tokenizer: { characters }
//       tensors      { name: { shape, data } }, as readTensors gives them
//       facts        texts about the model, such as { steps: "500" }
//   await opened(files)   { name, config, characters, tensors, facts } from the files that a reader has chosen (File objects):
//       one model file; the files of a checkpoint that `glassformer train` has saved, or of a whole run, of which the last
//       checkpoint counts; or config.json, tokenizer.json and model.safetensors. Throws a Refusal, whose message is a sentence.
//
// A model file is a safetensors file with numbers in F32 or F16, whose metadata have the configuration and the tokenizer.
// glassformer/model_files.py reads it by the same rules; tests/widgets/test_model_file.py keeps the two in agreement.
// The author of a file is unknown before it is read, so everything is checked before anything large is made from it.

import { MUST_BE, readTensors, refusal, weightsOf } from "./transformer.js";
import { BEGIN, TENSORS, inJson, named, namedText, shown, twice } from "./untrusted.js";

export { shown };

export const FORMAT = "glassformer model 1";
export const ENDING = ".safetensors";
const CHECKPOINT = "glassformer checkpoint 1";
const MOST = 64 * 2 ** 20; // bytes of a file
const MOST_OF_JSON = 16 * 2 ** 20;
const BYTES = { F16: 2, F32: 4 };
const LARGEST_WEIGHT = 1e19; // the square of a larger one overflows 32 bits

export class Refusal extends Error {}

function demand(is, words) {
  if (!is) throw new Refusal(words);
}

const inMegabytes = (bytes) => `${(bytes / 2 ** 20).toFixed(1)} MB`;

function parsed(text, name) {
  let found;
  try {
    found = JSON.parse(text);
  } catch {
    const what = namedText(text);
    throw new Refusal(`${name} is not JSON${what && ` but ${what}`}`);
  }
  demand(found !== null && typeof found === "object" && !Array.isArray(found), `${name} must be a JSON object of fields`);
  const trouble = twice(text, name);
  demand(!trouble, trouble);
  return found;
}

// The first byte that is not of a text in UTF-8.
function firstStrange(bytes) {
  const reads = (count) => {
    try {
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes.subarray(0, count), { stream: true });
    } catch {
      return null;
    }
  };
  let [good, bad] = [0, bytes.length + 1];
  while (bad - good > 1) {
    const middle = Math.floor((good + bad) / 2);
    if (middle <= bytes.length && reads(middle) !== null) good = middle;
    else bad = middle;
  }
  return new TextEncoder().encode(reads(good)).length; // without a character of which only a part is good
}

// As glassformer.untrusted_files.decoded.
function decoded(given, name) {
  const bytes = new Uint8Array(given.buffer ?? given, given.byteOffset ?? 0, given.byteLength);
  const [first, second] = bytes;
  demand(!(first === 0xff && second === 0xfe) && !(first === 0xfe && second === 0xff), `${name} is in UTF-16, as its first two bytes show: save it in UTF-8`);
  const [zero, what] = [bytes.indexOf(0), named(bytes)];
  demand(zero < 0 || !what, `${name} is not text but ${what}`);
  demand(zero < 0, `${name} is not text: byte ${zero} is 0`);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    demand(!what, `${name} is not text but ${what}`);
    const place = firstStrange(bytes);
    const is = bytes[place].toString(16).padStart(2, "0");
    throw new Refusal(`${name} is not in UTF-8: byte ${place} is 0x${is}. If it is text in another encoding, such as Latin-1, save it in UTF-8`);
  }
}

// --- configurations ---------------------------------------------------------------------------------------------------

const SIZES = ["vocab_size", "context_length", "d_model", "n_layers", "n_heads"];

// The other fields and their defaults, as in config.py; null is derived from others.
export const DEFAULTS = {
  family: "decoder",
  n_decoder_layers: null,
  n_kv_heads: null,
  d_head: null,
  d_ff: null,
  positions: "learned",
  rope_base: 10000,
  rope_layout: "half",
  rope_interpolation: 1,
  rope_scaling: "linear",
  rope_original_context: null,
  rope_slow: 1,
  rope_fast: null,
  rope_attention_factor: null,
  t5_n_buckets: 32,
  t5_max_distance: 128,
  norm: "layernorm",
  norm_eps: 1e-5,
  norm_placement: "pre",
  attention_bias: "all",
  attention_scale: null,
  sliding_window: null,
  qk_norm: false,
  feedforward: "gelu_tanh",
  feedforward_bias: true,
  embedding_scale: 1,
  embedding_norm: false,
  n_segments: 0,
  head: "tied",
  head_bias: false,
  head_transform: false,
  head_scale: 1,
  pooler: false,
  dropout: 0,
};
const WHOLE = [...SIZES, "n_kv_heads", "d_head", "d_ff", "t5_n_buckets", "t5_max_distance", "rope_original_context"];
const POSITIVE = ["rope_base", "norm_eps", "attention_scale", "rope_slow", "rope_fast"];
const FLAGS = ["qk_norm", "embedding_norm"];

// Every field of a configuration that this page can run, from the fields that a file has.
function configOf(given, name) {
  const the = (words) => `${name}: the model's ${words}`;
  demand(!("model_type" in given), `${name} has the config.json of another library, which this page cannot read`);
  for (const field of Object.keys(given)) {
    demand(SIZES.includes(field) || Object.hasOwn(DEFAULTS, field) || Object.hasOwn(MUST_BE, field), the(`ModelConfig has no field '${shown(field)}'`));
  }
  for (const field of SIZES) demand(Object.hasOwn(given, field), the(`ModelConfig needs the field '${field}'`));
  const config = { ...Object.fromEntries(SIZES.map((field) => [field, given[field]])), ...DEFAULTS, ...given };
  const derive = (field, value) => (config[field] ??= value);
  derive("n_kv_heads", config.n_heads);
  derive("d_head", config.d_model / config.n_heads);
  derive("d_ff", 4 * config.d_model);
  derive("attention_scale", 1 / Math.sqrt(config.d_head));
  derive("rope_original_context", config.context_length);
  derive("rope_fast", config.rope_scaling === "llama3" ? 4 : 32);
  derive("rope_attention_factor", 1);
  for (const field of WHOLE) {
    const value = config[field];
    demand(Number.isSafeInteger(value), the(`${field}=${shown(inJson(value))} must be a whole number`));
    demand(value >= 1, the(`${field}=${value} must be at least 1`));
  }
  for (const field of POSITIVE) {
    demand(Number.isFinite(config[field]) && config[field] > 0, the(`${field}=${shown(inJson(config[field]))} must be positive and finite`));
  }
  for (const field of FLAGS) demand(typeof config[field] === "boolean", the(`${field}=${shown(inJson(config[field]))} must be true or false`));
  const { family, dropout, rope_scaling: scaling, rope_slow: slow, rope_fast: fast } = config;
  demand(dropout >= 0 && dropout < 1 && typeof dropout === "number", the(`dropout=${shown(inJson(dropout))} must be at least 0 and below 1`));
  demand(["linear", "llama3", "yarn"].includes(scaling), the(`rope_scaling=${shown(scaling)} is not linear, llama3 or yarn`));
  demand(scaling === "linear" || slow < fast, the(`rope_slow=${slow} must be below rope_fast=${fast}`));
  demand(scaling !== "yarn" || config.rope_base > 1, the(`rope_base=${config.rope_base} must exceed 1 with rope_scaling="yarn"`));
  const why = family === "decoder" ? (refusal(config) ?? (config.kinds ? "its layers have experts" : null)) : `family=${shown(family)} is not "decoder"`;
  demand(!why, `${name} cannot run in a page: ${why}`);
  demand(config.n_decoder_layers === null, the(`n_decoder_layers=${shown(config.n_decoder_layers)} needs family="encoder-decoder"`));
  demand(config.d_head % 2 === 0, the(`d_head=${config.d_head} is odd: sines and cosines come in pairs of dimensions`));
  return config;
}

// --- tokenizers -------------------------------------------------------------------------------------------------------

function charactersOf(given, name) {
  const { characters } = given;
  demand(characters !== undefined, `${name}: the tokenizer reads byte pairs or something else, but the views of this page show characters`);
  demand(typeof characters === "string" && characters !== "", `${name}: the tokenizer's characters must be a text with at least one character`);
  const met = new Set();
  for (const character of characters) {
    demand(!met.has(character), `${name}: the tokenizer's characters has '${shown(character)}' twice`);
    met.add(character);
  }
  return characters;
}

// --- safetensors ------------------------------------------------------------------------------------------------------

// The header of a safetensors file, its entries, and where the numbers begin. All bytes belong to exactly one tensor.
function headerOf(file, name) {
  const bad = (words) => `${name} is not a safetensors file: ${words}`;
  demand(file.byteLength >= 8, bad("it is too short"));
  const length = Number(file.getBigUint64(0, true));
  const what = length > file.byteLength ? named(new Uint8Array(file.buffer, file.byteOffset)) : "";
  demand(what === "" || what === TENSORS, `${name} is ${what}`);
  demand(length <= file.byteLength - 8, bad(`its header has ${length} bytes, but only ${file.byteLength - 8} follow`));
  demand(length <= MOST_OF_JSON, bad(`its header has ${length} bytes, but at most ${MOST_OF_JSON} are allowed`));
  const bytes = new Uint8Array(file.buffer, file.byteOffset + 8, length);
  demand(bytes[0] === 0x7b, bad("its header does not begin with {"));
  const header = parsed(decoded(bytes, bad("its header")), bad("its header"));
  const { __metadata__: metadata = {}, ...tensors } = header;
  demand(
    metadata === null || (typeof metadata === "object" && Object.values(metadata).every((text) => typeof text === "string")),
    bad("its metadata must be texts"),
  );
  const counted = (list, n) => Array.isArray(list) && (n === undefined || list.length === n) && list.every((x) => Number.isSafeInteger(x) && x >= 0);
  const places = Object.entries(tensors).map(([tensor, entry]) => {
    demand(entry !== null && typeof entry === "object", bad(`${shown(tensor)} has no place`));
    const { dtype, shape, data_offsets: offsets } = entry;
    demand(counted(shape) && counted(offsets, 2), bad(`${shown(tensor)} has no shape or no place`));
    demand(typeof dtype === "string" && Object.hasOwn(BYTES, dtype), `${name}: ${shown(tensor)} has dtype ${shown(dtype)}, but it must be F16 or F32`);
    const [start, end] = offsets;
    const size = shape.reduce((product, n) => product * n, BYTES[dtype]);
    demand(end - start === size, bad(`${shown(tensor)} needs ${size} bytes, but has ${end - start}`));
    return { tensor, start, end };
  });
  places.sort((a, b) => a.start - b.start || a.end - b.end);
  let at = 0;
  for (const { tensor, start, end } of places) {
    demand(start === at, bad(`${shown(tensor)} begins at byte ${start} of the numbers instead of ${at}`));
    at = end;
  }
  demand(at === file.byteLength - 8 - length, bad(`its tensors have ${at} bytes, but the file has ${file.byteLength - 8 - length}`));
  return { tensors, metadata: metadata ?? {} };
}

// The weights of a file, if they are those of the configuration.
function tensorsOf(file, entries, config, name) {
  const missing = new Set(Object.keys(entries));
  for (const [tensor, shape] of weightsOf(config)) {
    demand(missing.delete(tensor), `${name}: ${tensor} is missing`);
    const given = entries[tensor].shape;
    const fits = given.length === shape.length && shape.every((n, i) => n === given[i]);
    demand(fits, `${name}: ${tensor} has shape (${given.join(", ")}), but must have (${shape.join(", ")})`);
  }
  const [strange] = missing;
  demand(strange === undefined, `${name}: ${shown(strange)} is not a weight of this model`);
  const tensors = readTensors(file);
  for (const [tensor, { data }] of Object.entries(tensors)) {
    const i = data.findIndex((x) => !(Math.abs(x) < LARGEST_WEIGHT));
    if (i < 0) continue;
    const is = Number.isFinite(data[i]) ? data[i].toExponential(5).replace(/\.?0+e/, "e") : String(data[i]).toLowerCase().replace("inity", "");
    const place = entries[tensor].shape.reduceRight(({ left, at }, n) => ({ left: Math.floor(left / n), at: [left % n, ...at] }), { left: i, at: [] }).at.join(", ");
    throw new Refusal(`${name}: ${tensor} contains ${is} at ${place}: every weight must be finite and smaller than 1e+19`);
  }
  return tensors;
}

// --- reading ----------------------------------------------------------------------------------------------------------

const pathOf = (file) => file.webkitRelativePath || file.name;
const folderOf = (file) => pathOf(file).split("/").slice(0, -1).join("/");
const stepOf = (folder) => Number(/(?:^|\/)step-(\d+)$/.exec(folder)?.[1] ?? -1);

// The text of a file of at most so many bytes.
export const textOf = async (file, most) => decoded(await bytesOf(file, most), shown(file.name));

async function bytesOf(file, most = MOST) {
  const allowed = `more than the ${inMegabytes(most)} that this page opens`;
  demand(file.size <= most, `${shown(file.name)} has ${inMegabytes(file.size)}, ${allowed}`);
  try {
    return await file.arrayBuffer();
  } catch {
    throw new Refusal(`${shown(file.name)} could not be read`);
  }
}

const jsonIn = (bytes, { name }) => parsed(decoded(bytes, shown(name)), shown(name));
const jsonOf = async (file) => jsonIn(await bytesOf(file, MOST_OF_JSON), file);

// A model, checked in the order in which the parts depend on each other.
function modelOf({ file, name, config: fields, tokenizer, facts }, header = headerOf(file, name)) {
  const config = configOf(fields, name);
  const characters = charactersOf(tokenizer, name);
  const count = [...characters].length;
  const { vocab_size: V } = config;
  demand(count === V, `${name}: the tokenizer has ${count} ids, but the model's vocab_size=${V}`);
  return { config, characters, tensors: tensorsOf(file, header.tensors, config, name), facts };
}

async function fromOneFile(chosen) {
  const name = shown(chosen.name);
  const file = new DataView(await bytesOf(chosen));
  const header = headerOf(file, name);
  const { format, config, tokenizer, ...facts } = header.metadata;
  const alone = "with it, choose its training.json or config.json, and its tokenizer.json";
  const isOfAnotherVersion = format !== FORMAT && /^glassformer model [^ ]*$/.test(format ?? "");
  demand(!isOfAnotherVersion, `${name} has the format '${shown(format ?? "")}', which another version of Glassformer wrote: this one reads '${FORMAT}'`);
  demand(format === FORMAT, `${name} has weights alone, and nothing says what model they are of: ${alone}`);
  for (const [part, text] of Object.entries({ config, tokenizer })) {
    demand(text !== undefined, `${name} lacks the ${part} in its metadata`);
  }
  const given = { config: parsed(config, `${name}: the model's text`), tokenizer: parsed(tokenizer, `${name}: the tokenizer's text`) };
  return { name: chosen.name.replace(/\.safetensors$/i, ""), ...modelOf({ file, name, ...given, facts }, header) };
}

// Of the files of one folder, those with these names; what is missing is named.
function among(files, folder, names) {
  return names.map((name) => {
    const found = files.find((file) => folderOf(file) === folder && file.name === name);
    demand(found, `${folder ? `${shown(folder)}/` : ""}${name} is missing among the files`);
    return found;
  });
}

// SHA-256 in hexadecimal digits; null if this page has no means to compute it.
async function checksumOf(bytes) {
  if (!globalThis.crypto?.subtle) return null;
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// The object in a JSON text as Python writes it with sort_keys, from the same names, numbers and texts, and without its field
// `left`: what the checksum in that field was computed from.
function inOrder(text, left) {
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[[\]{}]|[^\s",:[\]{}]+/g);
  let at = 0;
  const value = (isWhole = false) => {
    const token = tokens[at++];
    if (token === "[") {
      const items = [];
      while (tokens[at] !== "]") items.push(value());
      at++;
      return `[${items.join(", ")}]`;
    }
    if (token !== "{") return token;
    const fields = [];
    while (tokens[at] !== "}") fields.push(`${tokens[at++]}: ${value()}`);
    at++;
    return `{${fields.filter((field) => !isWhole || !field.startsWith(`"${left}": `)).sort().join(", ")}}`;
  };
  return value(true);
}

async function fromCheckpoint(files, folder) {
  const [description] = among(files, folder, ["training.json"]);
  const text = await textOf(description, MOST_OF_JSON);
  const { format, model, step, files: sums, checksum } = parsed(text, "training.json");
  demand(format === CHECKPOINT, `training.json was not written by this version of Glassformer: it lacks format="${CHECKPOINT}"`);
  const isObject = (given) => given !== null && typeof given === "object" && !Array.isArray(given);
  demand(isObject(model) && isObject(sums) && Number.isSafeInteger(step), "training.json lacks the model, the step or the files");
  const own = await checksumOf(new TextEncoder().encode(inOrder(text, "checksum")));
  demand(own === null || own === checksum, "training.json does not contain what was written: its checksum differs");
  demand(Object.hasOwn(sums, "tokenizer.json"), "This model was trained without a tokenizer, so its text cannot be shown");
  const which = Object.hasOwn(sums, "average.safetensors") ? "average.safetensors" : "model.safetensors"; // as Checkpoint.best
  const [weights, tokenizer] = among(files, folder, [which, "tokenizer.json"]);
  const [numbers, characters] = [await bytesOf(weights), await bytesOf(tokenizer, MOST_OF_JSON)];
  for (const [file, bytes] of [[weights, numbers], [tokenizer, characters]]) {
    const sum = await checksumOf(bytes);
    demand(sum === null || sum === sums[file.name], `${file.name} does not contain what was written: its checksum differs from that in training.json`);
  }
  const parts = { file: new DataView(numbers), name: which, config: model, tokenizer: jsonIn(characters, tokenizer) };
  const run = folder.split("/").filter((part) => stepOf(part) < 0).at(-1);
  return { name: run || `step ${step}`, ...modelOf({ ...parts, facts: { steps: String(step) } }) };
}

async function fromFolder(files, folder) {
  const [config, tokenizer, weights] = among(files, folder, ["config.json", "tokenizer.json", "model.safetensors"]);
  const parts = { file: new DataView(await bytesOf(weights)), name: weights.name, config: await jsonOf(config), tokenizer: await jsonOf(tokenizer) };
  return { name: folder.split("/").at(-1) || "your model", ...modelOf({ ...parts, facts: {} }) };
}

export async function opened(given) {
  const files = [...given].filter((file) => !pathOf(file).includes(".unfinished-"));
  const foldersWith = (name) => files.filter((file) => file.name === name).map(folderOf);
  const checkpoints = foldersWith("training.json").sort((a, b) => stepOf(a) - stepOf(b));
  const runs = new Set(checkpoints.map((folder) => folder.split("/").filter((part) => stepOf(part) < 0).join("/")));
  demand(runs.size < 2, "These are several runs: choose the folder of one of them");
  if (checkpoints.length) return fromCheckpoint(files, checkpoints.at(-1));
  const folders = foldersWith("config.json");
  demand(folders.length < 2, "These are several models: choose the folder of one of them");
  if (folders.length) return fromFolder(files, folders[0]);
  const weights = files.filter(({ name }) => name.toLowerCase().endsWith(ENDING));
  demand(weights.length < 2, `These are ${weights.length} files of weights: choose one of them, or all files of a folder`);
  const what = weights.length === 0 && files.length === 1 ? named(new Uint8Array(await files[0].slice(0, BEGIN).arrayBuffer())) : "";
  demand(!what, `${shown(files[0]?.name ?? "")} is ${what}`);
  demand(weights.length, "None of these files is a model: choose a .safetensors file that this book has saved, or all files of a folder made by glassformer train");
  return fromOneFile(weights[0]);
}

// --- writing ----------------------------------------------------------------------------------------------------------

const WORD = 8; // bytes: the numbers begin at a multiple

export function written({ config, tokenizer, tensors, facts = {} }) {
  const header = { __metadata__: { ...facts, format: FORMAT, config: JSON.stringify(config), tokenizer: JSON.stringify(tokenizer) } };
  let size = 0;
  for (const [name, { shape, data }] of Object.entries(tensors)) {
    header[name] = { dtype: "F32", shape, data_offsets: [size, size + 4 * data.length] };
    size += 4 * data.length;
  }
  const text = new TextEncoder().encode(JSON.stringify(header));
  const length = Math.ceil(text.length / WORD) * WORD;
  const bytes = new Uint8Array(8 + length + size).fill(0x20, 8, 8 + length); // spaces after the header
  new DataView(bytes.buffer).setBigUint64(0, BigInt(length), true);
  bytes.set(text, 8);
  const numbers = new Float32Array(bytes.buffer, 8 + length);
  let at = 0;
  for (const { data } of Object.values(tensors)) {
    numbers.set(data, at);
    at += data.length;
  }
  return bytes;
}
