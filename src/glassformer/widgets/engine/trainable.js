// A model whose gradients are computed in the page: the forward pass of transformer.js for many texts at once, with what the
// backward pass needs afterwards, and the backward pass that chapter 09 derives, layer by layer and by hand. For decoders with
// the book's configuration: RMSNorm, queries and keys with norms, RoPE, SwiGLU and an untied head.
// Axes: B texts, T positions, D d_model, H heads, K d_head, F d_ff, V vocabulary; N = B·T rows.
// tests/widgets/test_trainable.py compares every gradient with glassformer.scratch.

import { STRIP, apart, memoryOf, strips } from "./products.js";
import { anglesOf, refusal, weightsOf } from "./transformer.js";

// Why a configuration cannot be trained here, in words; null if it can.
export function untrainable(config) {
  const { family, d_model: D, d_head: K, n_heads: H } = config;
  if (family !== "decoder") return `family=${JSON.stringify(family)} is not "decoder"`;
  for (const [name, size] of Object.entries({ d_model: D, d_head: K })) {
    if (size % STRIP) return `${name}=${size} is not a multiple of ${STRIP}`;
  }
  if (H * K !== D) return `n_heads=${H} times d_head=${K} is not d_model=${D}`;
  for (const name of ["qk_norm", "embedding_norm"]) if (!config[name]) return `${name}=${config[name]} is not true`;
  return refusal(config) ?? (config.kinds ? "its layers have experts" : null);
}

// The kind of each weight, as in glassformer.train: "matrices" inside the blocks, "embeddings", "head" or "norms".
function kindOf(name, shape) {
  if (shape.length === 1) return "norms";
  if (name.includes(".blocks.")) return "matrices";
  return name.startsWith("unembedding.") ? "head" : "embeddings";
}

export class Trainable {
  // Where everything is in the memory. A weight is { name, kind, shape, n, m, at, row }: n rows of m numbers, `row` apart,
  // beginning at `at`; its gradient, and what an optimizer remembers of it, are in the same place of blocks of their own.
  weights = {};
  #memory;
  #places = {};
  #layers = [];
  #sizes;

  // `rows` are how many texts a batch has. `causal: false` leaves the mask out, to show what happens without. `moves: false` leaves
  // out what an optimizer remembers.
  constructor(config, rows, { plain = false, double = false, causal = true, moves = true } = {}) {
    const why = untrainable(config);
    if (why) throw new Error(`this model cannot be trained here: ${why}`);
    this.config = config;
    this.causal = causal;
    const { d_model: D, d_ff: F, vocab_size: V, n_heads: H, d_head: K, context_length: T, n_layers } = config;
    const N = rows * T;
    this.#sizes = { B: rows, T, N, D, F, V, H, K, scale: config.attention_scale ?? 1 / Math.sqrt(K), eps: config.norm_eps };

    let size = 0;
    const take = (count) => (size += count) - count;
    for (const [name, shape] of weightsOf(config)) {
      const [n, m] = shape.length === 2 ? shape : [1, shape[0]];
      this.weights[name] = { name, kind: kindOf(name, shape), shape, n, m, row: apart(m), at: take(n * apart(m)) };
    }
    this.size = size; // of all weights, with the gaps between their rows
    this.blocks = { gradient: take(size) };
    if (moves) Object.assign(this.blocks, { first: take(this.size), second: take(this.size) });
    const matrix = (count, columns) => ({ row: apart(columns), at: take(count * apart(columns)) });
    for (let i = 0; i < n_layers; i++) {
      this.#layers.push({
        name: `decoder.blocks.${i}`,
        before: matrix(N, D), // the stream before attention
        between: matrix(N, D), // and before the feed-forward layer
        normed: matrix(N, D),
        q: matrix(N, D), // before its norm
        k: matrix(N, D),
        v: matrix(N, D),
        turnedQ: matrix(N, D), // and times the scale of attention
        turnedK: matrix(N, D),
        shares: matrix(rows * H * T, T), // the attention weights
        mixed: matrix(N, D),
        normed2: matrix(N, D),
        gate: matrix(N, F),
        up: matrix(N, F),
        hidden: matrix(N, F),
      });
    }
    this.#places = {
      embedded: matrix(N, D), // before its norm
      last: matrix(N, D), // the stream after the last block
      normed: matrix(N, D),
      logits: matrix(N, V),
      stream: matrix(N, D), // the gradient of the stream
      toNormed: matrix(N, D), // the gradients of what is between
      toQ: matrix(N, D),
      toK: matrix(N, D),
      toV: matrix(N, D),
      toMixed: matrix(N, D),
      toShares: matrix(T, T), // of one head
      toGate: matrix(N, F),
      toUp: matrix(N, F),
      toHidden: matrix(N, F),
      columns: matrix(K, T), // the keys or values of one head, transposed
      angles: take(T * K),
      turned: {
        ...Object.fromEntries(["W_q", "W_k", "W_v", "W_o"].map((name) => [name, matrix(D, D)])),
        W_gate: matrix(F, D),
        W_up: matrix(F, D),
        W_down: matrix(D, F),
        head: matrix(V, D),
      },
    };
    this.#memory = memoryOf(size, { plain, double });
    this.#memory.numbers.set(anglesOf(T, { K, base: config.rope_base }), this.#places.angles);
  }

  get isFast() {
    return this.#memory.isFast;
  }

  // All numbers. The optimizers change them in place.
  get memory() {
    return this.#memory;
  }

  // --- weights in and out

  // Brings in weights: { name: { shape, data } }.
  load(tensors) {
    for (const weight of Object.values(this.weights)) this.#put(weight, tensors[weight.name].data);
  }

  // A copy of all weights, or of one of `blocks`: { name: { shape, data } }.
  read(from = 0) {
    return Object.fromEntries(Object.values(this.weights).map(({ name, shape }) => [name, { shape, data: this.copyOf(name, from) }]));
  }

  // The numbers of one of them.
  copyOf(name, from = 0) {
    const { n, m, at, row } = this.weights[name];
    const data = new (this.#memory.numbers.constructor)(n * m);
    for (let i = 0; i < n; i++) {
      const start = from + at + i * row;
      data.set(this.#memory.numbers.subarray(start, start + m), i * m);
    }
    return data;
  }

  gradients() {
    return this.read(this.blocks.gradient);
  }

  // Where a single weight is in the memory: entry i, j of a matrix, or entry i of a vector.
  placeOf(name, i, j) {
    const { shape, at, row } = this.weights[name];
    return shape.length === 1 ? at + i : at + i * row + j;
  }

  // The attention weights (T, T) of one head for the first text, after `loss`.
  shares(block, head) {
    const { T } = this.#sizes;
    const { at, row } = this.#layers[block].shares;
    const found = new Float32Array(T * T);
    for (let t = 0; t < T; t++) {
      const start = at + (head * T + t) * row;
      found.set(this.#memory.numbers.subarray(start, start + T), t * T);
    }
    return found;
  }

  #put({ n, m, at, row }, data) {
    for (let i = 0; i < n; i++) this.#memory.numbers.set(data.subarray(i * m, (i + 1) * m), at + i * row);
  }

  // --- forward

  // The mean loss of texts of T ids each, in nats: −ln of the probability of every target. There are places for B texts in
  // `inputs` and `targets`, of which `rows` count. A generator that pauses.
  *loss({ inputs, targets, rows = this.#sizes.B }) {
    const { T, D, V } = this.#sizes;
    const N = rows * T;
    const { numbers } = this.#memory;
    const { embedded, last, normed, logits } = this.#places;
    const table = this.weights["token_embedding.weight"];
    for (let r = 0; r < N; r++) {
      const from = table.at + inputs[r] * table.row;
      numbers.copyWithin(embedded.at + r * embedded.row, from, from + D);
    }
    const first = this.#layers[0]?.before ?? last;
    for (let row = 0; row < N; row += T) this.#norm("decoder.embedding_norm", embedded, first, row);
    yield;
    for (const [i, layer] of this.#layers.entries()) {
      const after = this.#layers[i + 1]?.before ?? last;
      for (let b = 0; b < rows; b++) {
        this.#attention(layer, b);
        yield;
        this.#feedforward(layer, after, b * T);
        yield;
      }
    }
    let sum = 0;
    for (let b = 0; b < rows; b++) {
      this.#norm("decoder.norm", last, normed, b * T);
      this.#linear(logits, normed, "unembedding.weight", b * T);
      for (let r = b * T; r < (b + 1) * T; r++) sum += this.#surprise(logits.at + r * logits.row, V, targets[r]);
      yield;
    }
    return sum / N;
  }

  // −ln p(target); the logits of the row become probabilities. That of the largest logit is one over the sum of exponentials.
  #surprise(at, V, target) {
    const { numbers } = this.#memory;
    let best = at;
    for (let i = at; i < at + V; i++) if (!(numbers[i] <= numbers[best])) best = i;
    const behind = numbers[best] - numbers[at + target];
    this.#soften(at, V);
    return behind - Math.log(numbers[best]);
  }

  // Softmax of n numbers; what is beyond them, up to a multiple of four, becomes 0.
  #soften(at, n) {
    const { numbers } = this.#memory;
    const end = at + 4 * Math.ceil(n / 4);
    numbers.fill(-Infinity, at + n, end);
    this.#memory.soften(4 * at, 4 * end);
    numbers.fill(0, at + n, end);
  }

  // One text: x + attention(norm(x)), from `before` to `between`.
  #attention(layer, b) {
    const { T, H, K, scale } = this.#sizes;
    const { numbers } = this.#memory;
    const { before, between, normed, q, k, v, turnedQ, turnedK, shares, mixed } = layer;
    const { columns } = this.#places;
    const first = b * T;
    const name = `${layer.name}.attention`;
    this.#norm(`${layer.name}.norm_attention`, before, normed, first);
    this.#linear(q, normed, `${name}.W_q.weight`, first);
    this.#linear(k, normed, `${name}.W_k.weight`, first);
    this.#linear(v, normed, `${name}.W_v.weight`, first);
    this.#turnHeads(`${name}.norm_q`, q, turnedQ, first, scale);
    this.#turnHeads(`${name}.norm_k`, k, turnedK, first);
    for (let h = 0; h < H; h++) {
      const own = { at: shares.at + (b * H + h) * T * shares.row, row: shares.row };
      this.#transpose(columns, part(turnedK, first, h * K), T, K);
      this.#multiply(own, part(turnedQ, first, h * K), columns, T, K, T);
      for (let t = 0; t < T; t++) {
        const at = own.at + t * own.row;
        const n = this.causal ? t + 1 : T;
        numbers.fill(0, at + n, at + own.row);
        this.#soften(at, n);
      }
      this.#multiply(part(mixed, first, h * K), own, part(v, first, h * K), T, T, K);
    }
    this.#copy(between, before, first);
    this.#linear(between, mixed, `${name}.W_o.weight`, first, { adds: true });
  }

  // x + feedforward(norm(x)) for T rows, from `between` to the next block's `before`.
  #feedforward(layer, after, first) {
    const { T } = this.#sizes;
    const { numbers, gate: silu } = this.#memory;
    const { between, normed2, gate, up, hidden } = layer;
    const name = `${layer.name}.feedforward`;
    this.#norm(`${layer.name}.norm_feedforward`, between, normed2, first);
    this.#linear(gate, normed2, `${name}.W_gate.weight`, first);
    this.#linear(up, normed2, `${name}.W_up.weight`, first);
    const start = up.at + first * up.row;
    numbers.copyWithin(hidden.at + first * hidden.row, start, start + T * up.row);
    silu(4 * (hidden.at + first * hidden.row), 4 * (gate.at + first * gate.row), T * gate.row);
    this.#copy(after, between, first);
    this.#linear(after, hidden, `${name}.W_down.weight`, first, { adds: true });
  }

  // RMSNorm, then RoPE and a factor, of every head of T rows.
  #turnHeads(name, from, to, first, scale = 1) {
    const { T, H, K, eps } = this.#sizes;
    const gain = this.weights[`${name}.weight`].at;
    this.#copy(to, from, first);
    for (let t = 0; t < T; t++) {
      const at = 4 * (to.at + (first + t) * to.row);
      this.#memory.norm(at, 4 * K, H, K, 4 * gain, eps);
      this.#memory.turn(at, H, K, 4 * (this.#places.angles + t * K), scale, scale);
    }
  }

  #norm(name, from, to, first) {
    const { T, D, eps } = this.#sizes;
    this.#copy(to, from, first);
    this.#memory.norm(4 * (to.at + first * to.row), 4 * to.row, T, D, 4 * this.weights[`${name}.weight`].at, eps);
  }

  // --- backward

  // The gradients of all weights, after `loss` of the same batch. A generator that pauses.
  *backward({ inputs, targets }) {
    const { T, N } = this.#sizes;
    const { embedded, last, normed, logits, stream, toNormed, turned } = this.#places;
    this.#memory.numbers.fill(0, this.blocks.gradient, this.blocks.gradient + this.size);
    this.#lossBack(targets);
    this.#turn("unembedding.weight", turned.head);
    for (let first = 0; first < N; first += T) {
      this.#linearBack("unembedding.weight", { from: logits, input: normed, to: toNormed, by: turned.head, first });
      this.#normBack("decoder.norm", { x: last, from: toNormed, to: stream, first });
      yield;
    }
    for (const layer of this.#layers.toReversed()) {
      yield* this.#feedforwardBack(layer);
      yield* this.#attentionBack(layer);
    }
    for (let first = 0; first < N; first += T) {
      this.#normBack("decoder.embedding_norm", { x: embedded, from: stream, to: toNormed, first });
    }
    this.#embeddingBack(inputs);
  }

  // Loops are in functions of their own and not in generators, because Firefox compiles those better.

  // The probabilities become the gradient of the logits: p − 1 at the target, and p elsewhere, for the mean of N losses.
  #lossBack(targets) {
    const { N, V } = this.#sizes;
    const { numbers } = this.#memory;
    const { logits } = this.#places;
    for (let r = 0; r < N; r++) {
      const at = logits.at + r * logits.row;
      numbers[at + targets[r]] -= 1;
      for (let i = at; i < at + V; i++) numbers[i] /= N;
    }
  }

  // Every row of the table gets the gradients of all places where its character occurs.
  #embeddingBack(inputs) {
    const { N, D } = this.#sizes;
    const { numbers } = this.#memory;
    const { toNormed } = this.#places;
    const { at, row } = this.weights["token_embedding.weight"];
    for (let r = 0; r < N; r++) {
      const to = this.blocks.gradient + at + inputs[r] * row;
      const from = toNormed.at + r * toNormed.row;
      for (let i = 0; i < D; i++) numbers[to + i] += numbers[from + i];
    }
  }

  // In both, the gradient of the stream after the sublayer, in `stream`, becomes that of the stream before it.

  *#feedforwardBack({ name: block, between, normed2, gate, up, hidden }) {
    const { T, N } = this.#sizes;
    const { stream, toNormed, toHidden, toGate, toUp, turned } = this.#places;
    const name = `${block}.feedforward`;
    for (const which of ["W_gate", "W_up", "W_down"]) {
      this.#turn(`${name}.${which}.weight`, turned[which]);
      yield;
    }
    for (let first = 0; first < N; first += T) {
      this.#linearBack(`${name}.W_down.weight`, { from: stream, input: hidden, to: toHidden, by: turned.W_down, first });
      yield;
      const places = [toHidden, toGate, toUp, gate, up].map((place) => 4 * (place.at + first * place.row));
      this.#memory.gateBack(...places, T * gate.row);
      this.#linearBack(`${name}.W_gate.weight`, { from: toGate, input: normed2, to: toNormed, by: turned.W_gate, first });
      yield;
      const adds = true;
      this.#linearBack(`${name}.W_up.weight`, { from: toUp, input: normed2, to: toNormed, by: turned.W_up, first, adds });
      this.#normBack(`${block}.norm_feedforward`, { x: between, from: toNormed, to: stream, first, adds });
      yield;
    }
  }

  *#attentionBack(layer) {
    const { T, N } = this.#sizes;
    const { stream, toNormed, toMixed, toQ, toK, toV, turned } = this.#places;
    const { before, normed, mixed, name: block } = layer;
    const name = `${block}.attention`;
    for (const which of ["W_q", "W_k", "W_v", "W_o"]) this.#turn(`${name}.${which}.weight`, turned[which]);
    yield;
    for (let first = 0; first < N; first += T) {
      this.#linearBack(`${name}.W_o.weight`, { from: stream, input: mixed, to: toMixed, by: turned.W_o, first });
      this.#headsBack(layer, first);
      yield;
      const share = { input: normed, to: toNormed, first };
      this.#linearBack(`${name}.W_q.weight`, { ...share, from: toQ, by: turned.W_q });
      this.#linearBack(`${name}.W_k.weight`, { ...share, from: toK, by: turned.W_k, adds: true });
      yield;
      this.#linearBack(`${name}.W_v.weight`, { ...share, from: toV, by: turned.W_v, adds: true });
      this.#normBack(`${block}.norm_attention`, { x: before, from: toNormed, to: stream, first, adds: true });
      yield;
    }
  }

  // From the gradient of what the heads of one text have mixed to those of its queries, keys and values before their norms.
  #headsBack({ name, q, k, v, turnedQ, turnedK, shares }, first) {
    const { T, H, K, scale } = this.#sizes;
    const { toMixed, toQ, toK, toV, toShares, columns } = this.#places;
    for (let h = 0; h < H; h++) {
      const own = { at: shares.at + ((first / T) * H + h) * T * shares.row, row: shares.row };
      const head = (place) => part(place, first, h * K);
      this.#multiply(head(toV), across(own), head(toMixed), T, T, K);
      this.#transpose(columns, head(v), T, K);
      this.#multiply(toShares, head(toMixed), columns, T, K, T);
      this.#memory.softenBack(4 * own.at, 4 * toShares.at, 4 * own.row, T, 4 * Math.ceil(T / 4));
      this.#multiply(head(toQ), toShares, head(turnedK), T, T, K);
      this.#multiply(head(toK), across(toShares), head(turnedQ), T, T, K);
    }
    this.#turnHeadsBack(`${name}.attention.norm_q`, q, toQ, first, scale);
    this.#turnHeadsBack(`${name}.attention.norm_k`, k, toK, first);
  }

  // Back through RoPE, a rotation in the other direction, and through RMSNorm, in place.
  #turnHeadsBack(name, x, to, first, scale = 1) {
    const { T, H, K, eps } = this.#sizes;
    const gain = this.weights[`${name}.weight`].at;
    for (let t = 0; t < T; t++) {
      const [from, at] = [x, to].map((place) => 4 * (place.at + (first + t) * place.row));
      this.#memory.turn(at, H, K, 4 * (this.#places.angles + t * K), scale, -scale);
      this.#memory.normBack(from, 4 * K, at, 4 * K, at, 4 * K, H, K, 4 * gain, 4 * (this.blocks.gradient + gain), eps, 0);
    }
  }

  // From the gradient of a norm's outputs, in `from`, to that of x, set or added in `to`, for T rows; that of the gain is added up.
  #normBack(name, { x, from, to, first, adds = false }) {
    const { D, T, eps } = this.#sizes;
    const gain = this.weights[`${name}.weight`].at;
    const places = [x, from, to].flatMap(({ at, row }) => [4 * (at + first * row), 4 * row]);
    this.#memory.normBack(...places, T, D, 4 * gain, 4 * (this.blocks.gradient + gain), eps, adds ? -1 : 0);
  }

  // From the gradient of y = x·W for the T rows of a text, in `from`, to those of W, which is added up, and of x, in `to`.
  // `by` is the transpose of W.
  #linearBack(name, { from, input, to, by, first, adds = false }) {
    const { T } = this.#sizes;
    const { n, m, at, row } = this.weights[name];
    const rows = part(from, first, 0);
    this.#multiply({ at: this.blocks.gradient + at, row }, across(part(input, first, 0)), rows, n, T, m, true);
    this.#multiply(part(to, first, 0), rows, by, T, m, n, adds);
  }

  // --- products

  // C = A·B, or C += A·B: (rows, inner) times (inner, columns), all of them { at, row }. A may be `across`.
  #multiply(C, A, B, rows, inner, columns, adds = false) {
    const [aRow, aStep] = A.isAcross ? [1, A.row] : [A.row, 1];
    const keep = adds ? -1 : 0;
    this.#memory.multiply(4 * C.at, 4 * C.row, 4 * A.at, 4 * aRow, 4 * aStep, 4 * B.at, 4 * B.row, 4 * STRIP, rows, inner, strips(columns), keep);
  }

  // T rows times a weight matrix.
  #linear(to, from, name, first, { adds = false } = {}) {
    const weight = this.weights[name];
    this.#multiply(part(to, first, 0), part(from, first, 0), weight, this.#sizes.T, weight.n, weight.m, adds);
  }

  #turn(name, to) {
    const weight = this.weights[name];
    this.#transpose(to, weight, weight.n, weight.m);
  }

  // (n, m) -> (m, n): as many rows and columns as there are fours of, and then the rest.
  #transpose(to, from, n, m) {
    const { numbers } = this.#memory;
    const [rows, columns] = [n - (n % 4), m - (m % 4)];
    this.#memory.transpose(4 * to.at, 4 * to.row, 4 * from.at, 4 * from.row, rows, columns);
    for (let j = 0; j < n; j++) {
      for (let i = j < rows ? columns : 0; i < m; i++) numbers[to.at + i * to.row + j] = numbers[from.at + j * from.row + i];
    }
  }

  #copy(to, from, first) {
    const { T } = this.#sizes;
    const start = from.at + first * from.row;
    this.#memory.numbers.copyWithin(to.at + first * to.row, start, start + T * from.row);
  }
}

// A matrix from another row and column on; and its transpose, as the left one of a product.
const part = ({ at, row }, first, column) => ({ at: at + first * row + column, row });
const across = ({ at, row }) => ({ at, row, isAcross: true });
