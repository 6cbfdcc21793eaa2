// The book's models, running in the page: glassformer.scratch's forward pass for the shipped configurations.
// Arrays are Float32Array, one row after another; T positions, D d_model, H heads, K d_head, F d_ff, V vocabulary.
// tests/widgets/test_transformer.py compares it with glassformer.scratch: logits, all arrays of the trace, all strategies.

// --- which models -----------------------------------------------------------------------------------------------------

// The settings that are required. The sizes, the family, rope_base, attention_scale, qk_norm and embedding_norm are free.
const MUST_BE = {
  positions: "rope",
  rope_layout: "half",
  rope_interpolation: 1,
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
};

// Why a configuration cannot be run here, in words; null if it can.
export function refusal(config) {
  for (const [name, value] of Object.entries(MUST_BE)) {
    if (config[name] !== value) return `${name}=${JSON.stringify(config[name])} is not ${JSON.stringify(value)}`;
  }
  const { n_kv_heads, n_heads } = config;
  return n_kv_heads === n_heads ? null : `n_kv_heads=${n_kv_heads} is not n_heads=${n_heads}`;
}

// --- weights ----------------------------------------------------------------------------------------------------------

function fromHalf(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? Number.NaN : sign * Infinity;
  return sign * (exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : fraction * 2 ** -24);
}

// Most numbers become float32 by moving their bits, which takes a tenth of the time of computing with them.
function readHalves(file, start, length) {
  const data = new Float32Array(length);
  const bits = new Uint32Array(data.buffer);
  for (let i = 0; i < length; i++) {
    const half = file.getUint16(start + 2 * i, true);
    const size = half & 0x7fff;
    if (size >= 0x0400 && size < 0x7c00) bits[i] = ((half & 0x8000) << 16) | ((size << 13) + 0x38000000);
    else data[i] = fromHalf(half); // zero, infinite, no number, or less than 2^-14
  }
  return data;
}

const READERS = {
  F16: readHalves,
  F32: (file, start, length) => new Float32Array(length).map((_, i) => file.getFloat32(start + 4 * i, true)),
};

// The arrays of a safetensors file (a DataView): { name: { shape, data } }. A generator that pauses after each.
export function* tensorSteps(file) {
  const headerLength = Number(file.getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new DataView(file.buffer, file.byteOffset + 8, headerLength)));
  const tensors = {};
  for (const [name, { dtype, shape, data_offsets: offsets }] of Object.entries(header)) {
    if (name === "__metadata__") continue;
    if (!READERS[dtype]) throw new Error(`${name} has dtype ${dtype}, but it must be F16 or F32`);
    const length = shape.reduce((product, size) => product * size, 1);
    tensors[name] = { shape, data: READERS[dtype](file, 8 + headerLength + offsets[0], length) };
    yield;
  }
  return tensors;
}

export const readTensors = (file) => drained(tensorSteps(file));

// --- layers -----------------------------------------------------------------------------------------------------------

// x (T, n) times W (n, m), two rows of x and four of W at a time, so that each value read from memory is used several times.
function linear(x, { shape: [n, m], data: W }) {
  const y = new Float32Array((x.length / n) * m);
  const sums = new Float64Array(2 * m);
  for (let one = 0, to = 0; one < x.length; one += 2 * n, to += 2 * m) {
    const two = one + n;
    const alone = two === x.length;
    sums.fill(0);
    let i = 0;
    for (; i + 3 < n; i += 4) {
      const [a, b, c, d] = [x[one + i], x[one + i + 1], x[one + i + 2], x[one + i + 3]];
      const [e, f, g, h] = [x[two + i], x[two + i + 1], x[two + i + 2], x[two + i + 3]];
      for (let j = 0, at = i * m; j < m; j++, at++) {
        const p = W[at];
        const q = W[at + m];
        const r = W[at + 2 * m];
        const s = W[at + 3 * m];
        sums[j] += a * p + b * q + c * r + d * s;
        if (!alone) sums[m + j] += e * p + f * q + g * r + h * s;
      }
    }
    for (; i < n; i++) {
      for (let j = 0, at = i * m; j < m; j++, at++) {
        sums[j] += x[one + i] * W[at];
        if (!alone) sums[m + j] += x[two + i] * W[at];
      }
    }
    y.set(alone ? sums.subarray(0, m) : sums, to);
  }
  return y;
}

// Scales every run of n numbers to a mean square of 1, then multiplies by the learned gain.
function rmsNorm(x, { shape: [n], data: gain }, eps) {
  const y = new Float32Array(x.length);
  for (let start = 0; start < x.length; start += n) {
    let squares = 0;
    for (let i = 0; i < n; i++) squares += x[start + i] ** 2;
    const inverse = 1 / Math.sqrt(squares / n + eps);
    for (let i = 0; i < n; i++) y[start + i] = x[start + i] * inverse * gain[i];
  }
  return y;
}

const plus = (x, y) => x.map((value, i) => value + y[i]);

// Rotates x (T, H·K) for positions from, from + 1, …; each pair i, i + K/2 of a head by base^(−2i/K) per position.
function turned(x, { H, K, base }, from) {
  const y = new Float32Array(x.length);
  for (let i = 0; i < K / 2; i++) {
    const frequency = base ** ((-2 * i) / K);
    for (let row = 0; row < x.length / (H * K); row++) {
      const angle = (from + row) * frequency;
      const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
      for (let at = row * H * K + i; at < (row + 1) * H * K; at += K) {
        y[at] = x[at] * cos - x[at + K / 2] * sin;
        y[at + K / 2] = x[at] * sin + x[at + K / 2] * cos;
      }
    }
  }
  return y;
}

// q (T, H·K) and k (S, H·K) -> scores (H, T, S); −∞ where a causal query, one of the last T of S, may not attend.
function scored(q, k, { H, K, scale, causal }) {
  const [D, T, S] = [H * K, q.length / (H * K), k.length / (H * K)];
  const scores = new Float32Array(H * T * S).fill(-Infinity);
  for (let h = 0, to = 0; h < H; h++) {
    for (let t = 0; t < T; t++, to += S) {
      const sees = causal ? S - T + t + 1 : S;
      for (let s = 0; s < sees; s++) {
        let dot = 0;
        for (let i = h * K; i < (h + 1) * K; i++) dot += q[t * D + i] * k[s * D + i];
        scores[to + s] = dot * scale;
      }
    }
  }
  return scores;
}

// Softmax of every run of n numbers.
function softmaxed(x, n) {
  const y = new Float32Array(x.length);
  for (let start = 0; start < x.length; start += n) y.set(softmax(x.subarray(start, start + n)), start);
  return y;
}

// weights (H, T, S) and v (S, H·K) -> (T, H·K): each head's weighted average of its values, with the heads side by side.
function mixed(weights, v, { H, K }) {
  const [D, S] = [H * K, v.length / (H * K)];
  const T = weights.length / (H * S);
  const y = new Float32Array(T * D);
  for (let h = 0, from = 0; h < H; h++) {
    for (let t = 0; t < T; t++, from += S) {
      for (let s = 0; s < S; s++) {
        const weight = weights[from + s];
        for (let i = h * K; i < (h + 1) * K; i++) y[t * D + i] += weight * v[s * D + i];
      }
    }
  }
  return y;
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

// --- the model --------------------------------------------------------------------------------------------------------

export class Transformer {
  // config as in its config.json; tensors as returned by readTensors.
  constructor(config, tensors) {
    const why = refusal(config);
    if (why) throw new Error(`this model cannot be run here: ${why}`);
    this.config = config;
    this.tensors = tensors;
    const { n_heads: H, d_head: K, rope_base: base, attention_scale: scale } = config;
    this.heads = { H, K, base, scale: scale ?? 1 / Math.sqrt(K) };
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
  // every array that glassformer.trace records, in the same order.
  forward(ids, inputs = {}) {
    return drained(this.steps(ids, inputs));
  }

  // The same as a generator that pauses after every sublayer.
  *steps(ids, { cache, memory, see } = {}) {
    const { family } = this.config;
    const isEncoder = family === "encoder";
    if (memory && family !== "encoder-decoder") throw new Error(`family=${family} takes no memory`);
    if (!memory && family === "encoder-decoder") throw new Error("memory is missing: pass what encode returns for a source");
    const x = yield* isEncoder ? this.#encode(ids, see) : this.#stack("decoder", ids, { cache, memory, see });
    const logits = linear(x, this.#tensor("unembedding.weight"));
    const part = `${isEncoder ? "encoder" : "decoder"}: out`;
    see?.({ part, sublayer: "", name: "logits", array: logits, shape: [ids.length, this.config.vocab_size] });
    return logits;
  }

  // An encoder's output for a text, (S, D).
  encode(ids, see) {
    return drained(this.#encode(ids, see));
  }

  // What the model would write if it stopped here: any state (T, D) of the decoder's (or the encoder's) stream, after the last
  // norm and the head.
  lens(stream) {
    const normed = this.#norm(stream, `${this.config.family === "encoder" ? "encoder" : "decoder"}.norm`);
    return linear(normed, this.#tensor("unembedding.weight"));
  }

  #encode(ids, see) {
    return this.#stack("encoder", ids, { see });
  }

  #tensor(name) {
    if (!this.tensors[name]) throw new Error(`the weights lack ${name}`);
    return this.tensors[name];
  }

  #norm(x, name) {
    return rmsNorm(x, this.#tensor(`${name}.weight`), this.config.norm_eps);
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
    if (embedding_norm) x = this.#norm(x, `${stack}.embedding_norm`);
    show?.("stream", x, ...shape);

    const depth = stack === "decoder" ? (n_decoder_layers ?? n_layers) : n_layers;
    for (let block = 0; block < depth; block++) {
      const name = `${stack}.blocks.${block}`;
      const write = (sublayer, y) => {
        show?.("write", y, ...shape);
        x = plus(x, y);
        show?.("stream", x, ...shape);
      };
      const enter = (sublayer) => (place = { part: `${stack}: block ${block}`, sublayer });

      enter("attention");
      const normed = this.#norm(x, `${name}.norm_attention`);
      const own = { causal: stack === "decoder", from, kept: cache?.blocks[block], show };
      write("attention", this.#attention(`${name}.attention`, normed, normed, own));
      yield;

      if (memory) {
        enter("cross-attention");
        const asking = this.#norm(x, `${name}.norm_cross_attention`);
        write("cross-attention", this.#attention(`${name}.cross_attention`, asking, memory, { show }));
        yield;
      }

      enter("feed-forward");
      write("feed-forward", this.#feedforward(`${name}.feedforward`, this.#norm(x, `${name}.norm_feedforward`), show));
      yield;
    }

    if (cache) cache.length = total;
    place = { part: `${stack}: out`, sublayer: "" };
    x = this.#norm(x, `${stack}.norm`);
    show?.("normed", x, ...shape);
    return x;
  }

  // Queries from x, keys and values from `source`; if positions count (`from`), queries and keys are rotated. `kept` are a
  // block's arrays of the cache, to which new keys and values are added.
  #attention(name, x, source, { causal = false, from = null, kept = null, show }) {
    const { H, K } = this.heads;
    const projected = (rows, which) => linear(rows, this.#tensor(`${name}.${which}.weight`));
    const placed = (heads, which) => {
      const sized = this.config.qk_norm ? this.#norm(heads, `${name}.${which}`) : heads;
      return from === null ? sized : turned(sized, this.heads, from);
    };
    const q = placed(projected(x, "W_q"), "norm_q");
    let k = placed(projected(source, "W_k"), "norm_k");
    let v = projected(source, "W_v");
    if (kept) {
      kept.k.set(k, from * H * K);
      kept.v.set(v, from * H * K);
      [k, v] = [kept.k, kept.v].map((all) => all.subarray(0, from * H * K + k.length));
    }
    const [T, S] = [q, k].map((array) => array.length / (H * K));
    const scores = scored(q, k, { ...this.heads, causal });
    const weights = softmaxed(scores, S);
    for (const [called, rows] of show ? Object.entries({ q, k, v }) : []) {
      show(called, headsFirst(rows, this.heads), H, rows.length / (H * K), K);
    }
    show?.("scores", scores, H, T, S);
    show?.("weights", weights, H, T, S);
    return projected(mixed(weights, v, this.heads), "W_o");
  }

  #feedforward(name, x, show) {
    const [gate, up] = ["W_gate", "W_up"].map((which) => linear(x, this.#tensor(`${name}.${which}.weight`)));
    const neurons = up.map((value, i) => (value * gate[i]) / (1 + Math.exp(-gate[i])));
    show?.("neurons", neurons, x.length / this.config.d_model, this.config.d_ff);
    return linear(neurons, this.#tensor(`${name}.W_down.weight`));
  }
}

function drained(steps) {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
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
