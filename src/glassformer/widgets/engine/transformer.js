// The book's models, running in the page: glassformer.scratch's forward pass for the shipped configurations.
// Arrays are Float32Array, one row after another; T positions, D d_model, H heads, K d_head, F d_ff, V vocabulary.
// Matrices are multiplied in a memory of their own, by the kernel of products.js.
// tests/widgets/test_transformer.py compares it with glassformer.scratch: logits, all arrays of the trace, all strategies.

import { STRIP, memoryOf, strips } from "./products.js";

// --- which models -----------------------------------------------------------------------------------------------------

// The settings that are required. The sizes, the family, rope_base, attention_scale, qk_norm and embedding_norm are free, and all
// layers may have experts, `kinds` of a single kind, if EXPERTS agrees.
export const MUST_BE = {
  positions: "rope",
  rope_layout: "half",
  rope_interpolation: 1,
  rope_share: 1,
  rope_proportional: false,
  rope_truncate: true,
  rope_attention_factor: 1,
  sliding_window: null,
  norm: "rmsnorm",
  norm_placement: "pre",
  attention_bias: "none",
  feedforward: "swiglu",
  feedforward_bias: false,
  embedding_scale: 1,
  n_segments: 0,
  head: "untied",
  head_bias: false,
  head_transform: false,
  head_scale: 1,
  pooler: false,
  logit_cap: null,
  kinds: null,
  order: null,
  streams: null,
  layer_embeddings: null,
};

// What is required of experts. Their numbers, renormalize and scale are free; what is only for training plays no part.
const EXPERTS = {
  scores: "softmax",
  sum_eps: 0,
  choice_bias: false,
  n_groups: 1,
  router_bias: false,
  by_token: false,
  weighs: "output",
  d_shared: 0,
  limit: null,
  offset: 0,
  sharpness: 1,
};

// The experts of all layers, { F, X, A, renormalize, scale }; null if there are none, or others than can be run here.
export function expertsOf({ kinds, d_ff }) {
  const all = Object.values(kinds ?? {});
  const { experts, d_ff: F = d_ff, ...more } = all[0] ?? {};
  const own = experts?.Experts;
  if (all.length !== 1 || !own || Object.keys(more).length) return null;
  if (Object.entries(EXPERTS).some(([name, value]) => own[name] !== value)) return null;
  return { F, X: own.n_experts, A: own.top_k, renormalize: own.renormalize, scale: own.scale };
}

const MOST_KEPT = 2 ** 30; // bytes that are reserved for keys and values; a configuration can ask for any number

// Why a configuration cannot be run here, in words; null if it can.
export function refusal(config) {
  for (const [name, value] of Object.entries(MUST_BE)) {
    const own = name in config ? config[name] : value; // a file has some fields only if they are set
    if (own !== value && !(name === "kinds" && expertsOf(config))) return `${name}=${JSON.stringify(own)} is not ${JSON.stringify(value)}`;
  }
  if (typeof config.qk_norm === "string") return `qk_norm="${config.qk_norm}" is not true or false`;
  const { n_kv_heads, n_heads, n_layers, n_decoder_layers, context_length, d_head } = config;
  if (n_kv_heads !== n_heads) return `n_kv_heads=${n_kv_heads} is not n_heads=${n_heads}`;
  const kept = 16 * (n_layers + (n_decoder_layers ?? 0) + 1) * context_length * n_heads * Math.max(d_head, 16);
  return kept > MOST_KEPT ? `with context_length=${context_length}, its keys and values need more than 1 GiB` : null;
}

// A model whose numbers are all finite may still compute some that are not.
export class NotFinite extends Error {}

// --- weights ----------------------------------------------------------------------------------------------------------

// The names and shapes of a decoder's weights, in the order of a checkpoint, one after another: a configuration from outside can
// ask for any number of blocks.
export function* weightsOf({ vocab_size: V, d_model: D, n_layers, n_heads, d_head: K, d_ff: F, qk_norm, embedding_norm }) {
  const HK = n_heads * K;
  const block = {
    norm_attention: [D],
    "attention.W_q": [D, HK],
    "attention.W_k": [D, HK],
    "attention.W_v": [D, HK],
    "attention.W_o": [HK, D],
    ...(qk_norm ? { "attention.norm_q": [K], "attention.norm_k": [K] } : {}),
    norm_feedforward: [D],
    "feedforward.W_up": [D, F],
    "feedforward.W_gate": [D, F],
    "feedforward.W_down": [F, D],
  };
  yield ["token_embedding.weight", [V, D]];
  if (embedding_norm) yield ["decoder.embedding_norm.weight", [D]];
  for (let i = 0; i < n_layers; i++) {
    for (const [name, shape] of Object.entries(block)) yield [`decoder.blocks.${i}.${name}.weight`, shape];
  }
  yield ["decoder.norm.weight", [D]];
  yield ["unembedding.weight", [D, V]];
}

let halves = null; // the value of every 16-bit float, by its bits: to look it up is fifty times as fast as to compute it

function valuesOfHalves() {
  const values = new Float32Array(65536);
  for (let bits = 0; bits < 32768; bits++) {
    const [exponent, fraction] = [bits >> 10, bits & 1023];
    if (exponent === 31) values[bits] = fraction ? Number.NaN : Infinity;
    else values[bits] = exponent ? (1024 + fraction) * POWERS[exponent] : fraction * POWERS[1];
    values[bits + 32768] = -values[bits];
  }
  return values;
}

const POWERS = Array.from({ length: 31 }, (_, exponent) => 2 ** (exponent - 25));

// From a copy of the bytes, because a file may begin anywhere in its buffer. All machines that run browsers are little-endian,
// like the file.
const READERS = {
  F16(bytes) {
    halves ??= valuesOfHalves();
    const bits = new Uint16Array(bytes);
    const numbers = new Float32Array(bits.length);
    for (let i = 0; i < bits.length; i++) numbers[i] = halves[bits[i]];
    return numbers;
  },
  F32: (bytes) => new Float32Array(bytes),
};

// The arrays of a safetensors file (a DataView): { name: { shape, data } }. A generator that pauses after each.
export function* tensorSteps(file) {
  const headerLength = Number(file.getBigUint64(0, true));
  const first = file.byteOffset + 8 + headerLength;
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(file.buffer, file.byteOffset + 8, headerLength)));
  const tensors = {};
  for (const [name, { dtype, shape, data_offsets: offsets }] of Object.entries(header)) {
    if (name === "__metadata__") continue;
    if (!READERS[dtype]) throw new Error(`${name} has dtype ${dtype}, but it must be F16 or F32`);
    const [start, end] = offsets;
    tensors[name] = { shape, data: READERS[dtype](file.buffer.slice(first + start, first + end)) };
    yield;
  }
  return tensors;
}

export const readTensors = (file) => drained(tensorSteps(file));

// --- layers, row by row ------------------------------------------------------------------------------------------------

// For each position the K/2 cosines, and then the K/2 sines, of the angles by which RoPE turns the pairs: for pair i, base^(−2i/K)
// per position.
export function anglesOf(positions, { K, base }) {
  const angles = new Float64Array(positions * K);
  for (let i = 0; i < K / 2; i++) {
    const frequency = base ** ((-2 * i) / K);
    for (let position = 0; position < positions; position++) {
      const angle = position * frequency;
      angles[position * K + i] = Math.cos(angle);
      angles[position * K + i + K / 2] = Math.sin(angle);
    }
  }
  return angles;
}

// Rotates the H heads of a row, each pair i, i + K/2.
function turn(x, at, { H, K }, angles, position) {
  for (let h = 0, first = at; h < H; h++, first += K) {
    for (let i = 0, angle = position * K; i < K / 2; i++, angle++) {
      const cos = angles[angle];
      const sin = angles[angle + K / 2];
      const a = x[first + i];
      const b = x[first + i + K / 2];
      x[first + i] = a * cos - b * sin;
      x[first + i + K / 2] = a * sin + b * cos;
    }
  }
}

// (T, H·K) -> (H, T, K), as in a trace.
function headsFirst(x, { H, K }) {
  const T = x.length / (H * K);
  const y = new Float32Array(x.length);
  for (let h = 0, to = 0; h < H; h++) {
    for (let t = 0; t < T; t++, to += K) y.set(x.subarray((t * H + h) * K, (t * H + h + 1) * K), to);
  }
  return y;
}

const wide = (columns) => strips(columns) * STRIP; // whole strips

const asMatrix = (shape) => (shape.length === 2 ? shape : [1, shape[0]]); // a norm's gain is a single row

// --- the model --------------------------------------------------------------------------------------------------------

// How many positions a sublayer reads before it pauses. What is in the kernel's memory counts only until then, because another
// reading of the same model may go on meanwhile; whatever is needed longer is in arrays of the reading's own.
const PIECE = 32;

export class Transformer {
  #memory;
  #places = {}; // of scratch matrices: { at, row }, in numbers
  #placed = new Map(); // where a weight matrix is, by its name, from its first use on
  #ready = new Set(); // the sublayers whose weight matrices are all in the memory
  #regions; // for the keys and values that attention multiplies with
  #steps; // from head to head, and from strip to strip of the values, in numbers
  #free; // the first number of the memory that no weight matrix has yet
  #angles;

  // config as in its config.json; tensors as returned by readTensors. `plain` does without WebAssembly.
  constructor(config, tensors, { plain = false } = {}) {
    const why = refusal(config);
    if (why) throw new Error(`this model cannot be run here: ${why}`);
    this.config = config;
    this.tensors = tensors;
    const { n_heads: H, d_head: K, rope_base: base, attention_scale: scale } = config;
    this.heads = { H, K, base, scale: scale ?? 1 / Math.sqrt(K) };
    this.experts = expertsOf(config);
    this.#angles = anglesOf(config.context_length, this.heads);
    this.#plan(plain);
  }

  // Whether the kernel multiplies, and not plain JavaScript.
  get isFast() {
    return this.#memory.isFast;
  }

  // An empty cache. Its `length` may be reduced again: the next ids are then read after that many positions.
  newCache() {
    const size = this.config.context_length * this.heads.H * this.heads.K;
    const blocks = Array.from({ length: this.config.n_decoder_layers ?? this.config.n_layers }, () => ({
      k: new Float32Array(size),
      v: new Float32Array(size),
    }));
    return { length: 0, blocks };
  }

  // ids -> logits (T, V). An encoder reads ids as they are; a decoder reads them after the contents of the cache; with an
  // encoder, the decoder attends to `memory`, which `encode` returns. see({ part, sublayer, name, array, shape }) receives
  // every array that glassformer.trace records, in the same order; of experts, also the `probabilities` of all.
  forward(ids, inputs = {}) {
    return drained(this.steps(ids, inputs));
  }

  // The same as a generator that pauses after every sublayer, within one after every 32 positions, and after every weight matrix
  // that it lays out for the first time.
  *steps(ids, { cache, memory, see } = {}) {
    const { family } = this.config;
    const isEncoder = family === "encoder";
    if (memory && family !== "encoder-decoder") throw new Error(`family=${family} takes no memory`);
    if (!memory && family === "encoder-decoder") throw new Error("memory is missing: pass what encode returns for a source");
    const x = yield* isEncoder ? this.#encode(ids, see) : this.#stack("decoder", ids, { cache, memory, see });
    const logits = this.#unembedded(x);
    const part = `${isEncoder ? "encoder" : "decoder"}: out`;
    see?.({ part, sublayer: "", name: "logits", array: logits, shape: [ids.length, this.config.vocab_size] });
    return logits;
  }

  // An encoder's output for a text, (S, D).
  encode(ids, see) {
    return drained(this.#encode(ids, see));
  }

  // What the model would write if it stopped here: any state (T, D) of the decoder's (or the encoder's) stream, after the last
  // norm and the head. Both throw a NotFinite, whose message is a sentence, if there are no such logits.
  lens(stream) {
    return this.#unembedded(this.#normed(stream, `${this.config.family === "encoder" ? "encoder" : "decoder"}.norm`));
  }

  #encode(ids, see) {
    return this.#stack("encoder", ids, { see });
  }

  // --- memory

  // Reserves the memory: for the weight matrices, for the keys and values of every block, and for what is computed with
  // PIECE positions. A system gives out pages of it only when they are used.
  #plan(plain) {
    const { context_length: context, d_model: D, d_ff, vocab_size: V, n_layers, n_decoder_layers } = this.config;
    const { H, K } = this.heads;
    const { F, X } = this.experts ?? { F: d_ff, X: 0 };
    let size = 0;
    const take = (count) => (size += count) - count;
    const rows = (columns) => ({ at: take(PIECE * wide(columns)), row: wide(columns) });
    this.#places = {
      input: rows(D),
      heads: rows(H * K),
      scores: rows(context),
      mixed: rows((H - 1) * K + wide(K)), // the last head, too, has whole strips
      output: rows(Math.max(D, V)),
      gate: rows(F),
      up: rows(F),
      routed: rows(X ? D : 0),
      router: rows(X),
    };
    // One region for each block with a cache, and a last one for all that is read without.
    this.#steps = { key: K * wide(context), value: context * wide(K), strip: context * STRIP };
    this.#regions = Array.from({ length: (n_decoder_layers ?? n_layers) + 1 }, () => ({
      keys: take(H * this.#steps.key),
      values: take(H * this.#steps.value),
      of: null, // the { k, v } that they were filled from
      length: 0, // how many positions of these
    }));
    this.#free = size;
    for (const { shape } of Object.values(this.tensors)) {
      const [n, m] = asMatrix(shape);
      take(n * wide(m));
    }
    this.#memory = memoryOf(size, { plain });
  }

  #tensor(name) {
    if (!this.tensors[name]) throw new Error(`the weights lack ${name}`);
    return this.tensors[name];
  }

  // Where a weight matrix (n, m) or a norm's gain (m) is in the memory: strip after strip, in the order in which products read it.
  #weight(name) {
    let found = this.#placed.get(name);
    if (!found) {
      const { shape, data } = this.#tensor(name);
      const [n, m] = asMatrix(shape);
      found = { at: this.#free, n, m };
      const { numbers } = this.#memory;
      for (let i = 0, from = 0, row = found.at; i < n; i++, row += STRIP) {
        for (let j = 0; j < m; j++, from++) numbers[row + (j >> 4) * n * STRIP + (j & 15)] = data[from];
      }
      this.#placed.set(name, found);
      this.#free += n * wide(m);
    }
    return found;
  }

  // Brings the weight matrices of a sublayer into the memory, and pauses after each.
  *#layOut(sublayer) {
    if (this.#ready.has(sublayer)) return;
    for (const [name, { shape }] of Object.entries(this.tensors)) {
      if (shape.length !== 2 || !name.startsWith(`${sublayer}.`)) continue;
      this.#weight(name);
      yield;
    }
    this.#ready.add(sublayer);
  }

  // C = A·B. A and C are { at, row }; B begins at `b`, and its strips are so far apart.
  #multiply(C, A, b, bStrip, rows, inner, columns) {
    this.#memory.multiply(4 * C.at, 4 * C.row, 4 * A.at, 4 * A.row, 4, 4 * b, 4 * STRIP, 4 * bStrip, rows, inner, strips(columns), 0);
  }

  // `count` rows times a weight matrix.
  #linear(to, from, name, count) {
    const { at, n, m } = this.#weight(name);
    this.#multiply(this.#places[to], this.#places[from], at, n * STRIP, count, n, m);
  }

  // Rows of the stream (T, D), normed if there is a norm of that name, into the memory.
  #enter(place, x, first, count, norm = null) {
    const { d_model: D } = this.config;
    const { numbers } = this.#memory;
    const { at, row } = this.#places[place];
    for (let t = 0, i = first * D; t < count; t++) {
      for (let to = at + t * row, end = to + D; to < end; to++, i++) numbers[to] = x[i];
    }
    if (norm) this.#norm(norm, at, row, count, D);
  }

  // Rows from the memory into an array with so many columns.
  #leave(from, array, first, count, columns) {
    const { at, row } = this.#places[from];
    const { numbers } = this.#memory;
    for (let t = 0, to = first * columns; t < count; t++) {
      for (let i = at + t * row, end = i + columns; i < end; i++, to++) array[to] = numbers[i];
    }
  }

  // --- parts

  // RMSNorm of `runs` times n numbers, `step` apart, in their place in the memory.
  #norm(name, at, step, runs, n) {
    this.#memory.norm(4 * at, 4 * step, runs, n, 4 * this.#weight(`${name}.weight`).at, this.config.norm_eps);
  }

  #normed(x, name) {
    const D = this.config.d_model;
    const [T, y] = [x.length / D, new Float32Array(x.length)];
    for (let first = 0; first < T; first += PIECE) {
      const count = Math.min(PIECE, T - first);
      this.#enter("input", x, first, count, name);
      this.#leave("input", y, first, count, D);
    }
    return y;
  }

  #unembedded(x) {
    const { d_model: D, vocab_size: V } = this.config;
    const T = x.length / D;
    const logits = new Float32Array(T * V);
    for (let first = 0; first < T; first += PIECE) {
      const count = Math.min(PIECE, T - first);
      this.#enter("input", x, first, count);
      this.#linear("output", "input", "unembedding.weight", count);
      this.#leave("output", logits, first, count, V);
    }
    if (!logits.every(Number.isFinite)) throw new NotFinite("On this text, the model’s logits are not all finite numbers, so it predicts nothing.");
    return logits;
  }

  #embed(ids) {
    const { shape, data } = this.#tensor("token_embedding.weight");
    const [V, D] = shape;
    const x = new Float32Array(ids.length * D);
    ids.forEach((id, t) => {
      if (!(Number.isInteger(id) && id >= 0 && id < V)) throw new Error(`ids[${t}]=${id} is not one of 0 … ${V - 1}`);
      x.set(data.subarray(id * D, (id + 1) * D), t * D);
    });
    return x;
  }

  *#stack(stack, ids, { cache, memory, see }) {
    const { context_length: context, n_layers, n_decoder_layers, d_model: D, embedding_norm } = this.config;
    const from = cache?.length ?? 0;
    const total = from + ids.length;
    if (ids.length === 0 || total > context) {
      const after = from ? ` after ${from} in the cache` : "";
      throw new Error(`${ids.length} ids${after} do not fit a context of 1 … ${context}`);
    }
    const shape = [ids.length, D];
    let place = { part: `${stack}: in`, sublayer: "" };
    const show = see && ((name, array, ...sizes) => see({ ...place, name, array, shape: sizes }));

    let x = this.#embed(ids);
    if (embedding_norm) x = this.#normed(x, `${stack}.embedding_norm`);
    show?.("stream", x.slice(), ...shape);

    const depth = stack === "decoder" ? (n_decoder_layers ?? n_layers) : n_layers;
    for (let block = 0; block < depth; block++) {
      const name = `${stack}.blocks.${block}`;
      const enter = (sublayer) => (place = { part: `${stack}: block ${block}`, sublayer });
      const write = (y) => {
        for (let i = 0; i < x.length; i++) x[i] += y[i];
        show?.("write", y, ...shape);
        show?.("stream", x.slice(), ...shape);
      };

      enter("attention");
      const own = { norm: `${name}.norm_attention`, causal: stack === "decoder", from, kept: cache?.blocks[block], block, show };
      yield* this.#layOut(`${name}.attention`);
      write(yield* this.#attention(`${name}.attention`, x, null, own));
      yield;

      if (memory) {
        enter("cross-attention");
        const cross = { norm: `${name}.norm_cross_attention`, show };
        yield* this.#layOut(`${name}.cross_attention`);
        write(yield* this.#attention(`${name}.cross_attention`, x, memory, cross));
        yield;
      }

      enter("feed-forward");
      yield* this.#layOut(`${name}.feedforward`);
      const network = this.experts ? this.#mixture : this.#feedforward;
      write(yield* network.call(this, `${name}.feedforward`, x, `${name}.norm_feedforward`, show));
      yield;
    }

    if (cache) cache.length = total;
    place = { part: `${stack}: out`, sublayer: "" };
    x = this.#normed(x, `${stack}.norm`);
    show?.("normed", x, ...shape);
    return x;
  }

  // Queries from x, normed; keys and values from the same, or from another `source` as it is. If positions count (`from`),
  // queries and keys are rotated. `kept` are a block's arrays of the cache, to which new keys and values are added.
  *#attention(name, x, source, { norm, causal = false, from = null, kept = null, block = null, show }) {
    const { H, K } = this.heads;
    const { d_model: D, context_length: context } = this.config;
    const [T, news, before] = [x.length / D, (source ?? x).length / D, kept ? from : 0];
    const S = before + news;
    if (S > context) throw new Error(`a memory of ${S} positions does not fit a context of ${context}`);
    const region = this.#regions.at(kept ? block : -1);
    const rows = kept ?? { k: new Float32Array(S * H * K), v: new Float32Array(S * H * K) };
    if (region.of === rows) region.length = Math.min(region.length, before);

    for (let first = 0; first < news; first += PIECE) {
      if (first) yield;
      const count = Math.min(PIECE, news - first);
      this.#enter("input", source ?? x, first, count, source ? null : norm);
      this.#project(name, "k", first, count, from);
      this.#leave("heads", rows.k, before + first, count, H * K);
      this.#project(name, "v", first, count, from);
      this.#leave("heads", rows.v, before + first, count, H * K);
    }

    const y = new Float32Array(T * D);
    const seen = show && {
      q: new Float32Array(T * H * K),
      scores: new Float32Array(H * T * S).fill(-Infinity),
      weights: new Float32Array(H * T * S),
    };
    for (let first = 0; first < T; first += PIECE) {
      if (first) yield;
      const count = Math.min(PIECE, T - first);
      this.#fill(region, rows, S);
      this.#enter("input", x, first, count, norm);
      this.#project(name, "q", first, count, from);
      if (seen) this.#leave("heads", seen.q, first, count, H * K);
      this.#attend(name, region, { first, count, T, S, causal, seen });
      this.#leave("output", y, first, count, D);
    }
    if (show) {
      const [k, v] = [rows.k, rows.v].map((all) => all.subarray(0, S * H * K));
      for (const [called, array] of Object.entries({ q: seen.q, k, v })) {
        show(called, headsFirst(array, this.heads), H, array.length / (H * K), K);
      }
      show("scores", seen.scores, H, T, S);
      show("weights", seen.weights, H, T, S);
    }
    return y;
  }

  // What is in "input" -> queries, keys or values in "heads", with their norm and, for positions from + first, …, their place.
  #project(name, which, first, count, from) {
    this.#linear("heads", "input", `${name}.W_${which}.weight`, count);
    if (which === "v") return;
    const { H, K } = this.heads;
    const { numbers } = this.#memory;
    for (let t = 0, { at, row } = this.#places.heads; t < count; t++, at += row) {
      if (this.config.qk_norm) this.#norm(`${name}.norm_${which}`, at, K, H, K);
      if (from !== null) turn(numbers, at, this.heads, this.#angles, from + first + t);
    }
  }

  // Brings the keys and values of S positions to where the kernel multiplies with them, if they are not there. The keys become
  // columns: for each head, strips of 16 positions. The values stay rows: for each head, strips of 16 features.
  #fill(region, rows, S) {
    const { H, K } = this.heads;
    const { numbers } = this.#memory;
    const { key, value, strip } = this.#steps;
    // Another model with other weights may have gone on with the same cache.
    if (region.of !== rows || rows.by !== this) region.length = 0;
    for (let s = region.length; s < S; s++) {
      for (let h = 0, from = s * H * K; h < H; h++) {
        const columns = region.keys + h * key + (s - (s % STRIP)) * K + (s % STRIP);
        const features = region.values + h * value + s * STRIP;
        for (let i = 0; i < K; i++, from++) {
          numbers[columns + i * STRIP] = rows.k[from];
          numbers[features + (i >> 4) * strip + (i & 15)] = rows.v[from];
        }
      }
    }
    Object.assign(region, { of: rows, length: S });
    rows.by = this;
  }

  // Queries in "heads", which belong to positions first, … of T, meet the keys of S; what all heads write goes to "output".
  #attend(name, region, { first, count, T, S, causal, seen }) {
    const { H, K, scale } = this.heads;
    const { numbers } = this.#memory;
    const { heads, scores, mixed } = this.#places;
    const { key, value, strip } = this.#steps;
    const sees = (t) => (causal ? S - T + first + t + 1 : S);
    const inner = sees(count - 1); // what at least one of them sees
    for (let h = 0; h < H; h++) {
      const queries = { at: heads.at + h * K, row: heads.row };
      this.#multiply(scores, queries, region.keys + h * key, K * STRIP, count, K, inner);
      for (let t = 0, at = scores.at; t < count; t++, at += scores.row) {
        const [n, place] = [sees(t), (h * T + first + t) * S];
        for (let s = at; s < at + n; s++) numbers[s] *= scale;
        seen?.scores.set(numbers.subarray(at, at + n), place);
        const end = at + 4 * Math.ceil(n / 4);
        numbers.fill(-Infinity, at + n, end);
        this.#memory.soften(4 * at, 4 * end);
        seen?.weights.set(numbers.subarray(at, at + n), place);
        numbers.fill(0, at + n, at + inner);
      }
      this.#multiply({ at: mixed.at + h * K, row: mixed.row }, scores, region.values + h * value, strip, count, inner, K);
    }
    this.#linear("output", "mixed", `${name}.W_o.weight`, count);
  }

  *#feedforward(name, x, norm, show) {
    const { d_model: D, d_ff: F } = this.config;
    const { gate, up } = this.#places;
    const T = x.length / D;
    const y = new Float32Array(T * D);
    const neurons = show && new Float32Array(T * F);
    for (let first = 0; first < T; first += PIECE) {
      if (first) yield;
      const count = Math.min(PIECE, T - first);
      this.#enter("input", x, first, count, norm);
      this.#linear("gate", "input", `${name}.W_gate.weight`, count);
      this.#linear("up", "input", `${name}.W_up.weight`, count);
      this.#memory.gate(4 * up.at, 4 * gate.at, count * up.row); // what is beyond column F is 0 and remains so
      if (neurons) this.#leave("up", neurons, first, count, F);
      this.#linear("output", "up", `${name}.W_down.weight`, count);
      this.#leave("output", y, first, count, D);
    }
    show?.("neurons", neurons, T, F);
    return y;
  }

  // The same with experts: those that the router chooses for a position, each times its weight.
  *#mixture(name, x, norm, show) {
    const { d_model: D } = this.config;
    const { X, A, renormalize, scale } = this.experts;
    const { gate, up, input, output, routed } = this.#places;
    const { numbers } = this.#memory;
    const T = x.length / D;
    const y = new Float32Array(T * D);
    const [probabilities, chosen, shares] = [X, A, A].map((n) => new Float32Array(T * n));
    for (let first = 0; first < T; first += PIECE) {
      if (first) yield;
      const count = Math.min(PIECE, T - first);
      this.#enter("input", x, first, count, norm);
      this.#linear("router", "input", `${name}.router.W.weight`, count);
      this.#leave("router", probabilities, first, count, X);
      for (let t = first; t < first + count; t++) {
        const p = probabilities.subarray(t * X, (t + 1) * X);
        p.set(softmax(p));
        const best = Array.from(p.keys()).sort((i, j) => p[j] - p[i] || i - j).slice(0, A);
        const total = renormalize ? best.reduce((sum, e) => sum + p[e], 0) : 1;
        chosen.set(best, t * A);
        shares.set(best.map((e) => (scale * p[e]) / total), t * A);
      }
      for (let e = 0; e < X; e++) {
        const places = []; // of the positions that have chosen it, among all choices
        for (let i = first * A; i < (first + count) * A; i++) if (chosen[i] === e) places.push(i);
        if (places.length === 0) continue;
        places.forEach((i, to) => {
          const from = input.at + (Math.floor(i / A) - first) * input.row;
          numbers.copyWithin(routed.at + to * routed.row, from, from + D);
        });
        this.#linear("gate", "routed", `${name}.experts.${e}.W_gate.weight`, places.length);
        this.#linear("up", "routed", `${name}.experts.${e}.W_up.weight`, places.length);
        this.#memory.gate(4 * up.at, 4 * gate.at, places.length * up.row);
        this.#linear("output", "up", `${name}.experts.${e}.W_down.weight`, places.length);
        places.forEach((i, row) => {
          const from = output.at + row * output.row;
          for (let j = 0, to = Math.floor(i / A) * D; j < D; j++, to++) y[to] += shares[i] * numbers[from + j];
        });
      }
    }
    show?.("probabilities", probabilities, T, X);
    show?.("chosen", chosen, T, A);
    show?.("shares", shares, T, A);
    return y;
  }
}

export function drained(steps) {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

// --- beyond the window ------------------------------------------------------------------------------------------------

// Where the part of a text begins that a decoder reads: at the first multiple of half the context C (rounded down) that leaves
// at most C characters in view. So a window fills up, and then the model goes on from its last half. It is the rule of
// glassformer.generate with past_context="half" and of onepage.py; the start depends on the length of the text alone.
export function windowStart(length, context) {
  const half = Math.max(1, Math.floor(context / 2));
  return Math.max(0, Math.ceil((length - context) / half)) * half;
}

// --- from logits to the next id ---------------------------------------------------------------------------------------

export function softmax(x) {
  const max = x.reduce((a, b) => Math.max(a, b), -Infinity);
  const e = Float64Array.from(x, (value) => Math.exp(value - max));
  const sum = e.reduce((a, b) => a + b, 0);
  return e.map((value) => value / sum);
}

const only = (logits, keep) => logits.map((value, i) => (keep(value, i) ? value : -Infinity));

// The probabilities (V) that the next id is drawn from: glassformer.generate.distribution. Strategies apply in this order,
// each to the result of those before it; temperature 0 leaves the likeliest id, the first one if several are equal.
export function distribution(logits, { temperature = 1, top_k = null, top_p = null, min_p = null } = {}) {
  const largest = logits.reduce((a, b) => Math.max(a, b), -Infinity);
  let left = Float64Array.from(logits, (value) => (value - largest) / (temperature || 1));
  if (temperature === 0) left = only(left, (_, i) => i === logits.indexOf(largest));
  if (top_k !== null && top_k < left.length) {
    const smallest = left.toSorted((a, b) => b - a)[top_k - 1];
    left = only(left, (value) => value >= smallest);
  }
  if (top_p !== null && top_p < 1) {
    const p = softmax(left);
    const likeliestFirst = Array.from(p.keys()).sort((a, b) => left[b] - left[a] || a - b);
    let before = 0; // the total probability of likelier ids
    const kept = new Set();
    for (const id of likeliestFirst) {
      if (before < top_p) kept.add(id);
      before += p[id];
    }
    left = only(left, (_, i) => kept.has(i));
  }
  if (min_p !== null) {
    const p = softmax(left);
    const least = min_p * p.reduce((a, b) => Math.max(a, b));
    left = only(left, (_, i) => p[i] >= least);
  }
  return softmax(left);
}

// Draws one id with these probabilities; `uniform` is a random number in [0, 1).
export function draw(probabilities, uniform) {
  const total = probabilities.reduce((a, b) => a + b, 0);
  let end = 0;
  const drawn = probabilities.findIndex((p) => (end += p) > uniform * total);
  return drawn < 0 ? probabilities.findLastIndex((p) => p > 0) : drawn;
}
