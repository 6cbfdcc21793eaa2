// A text that a model learns from: its characters, the part that is held out, batches of windows, and how well one could guess
// without a model. As in glassformer.tasks, everything follows from a seed and the number of a step, so nothing has to be kept.
// Axes: B texts, T positions, V vocabulary.

import { mulberry32 } from "../kit/maths.js";

export const HELD_OUT = 0.1; // of the text, at its end
const [ORDER, OFFSET, WEIGHTS] = [1, 2, 3]; // what random numbers are for: two uses of a seed do not draw the same ones

// Uniform random numbers for one use of a seed.
export function stream(seed, use, number = 0) {
  let mixed = seed;
  for (const each of [use, number]) {
    mixed = Math.imul(mixed ^ each, 0x9e3779b1);
    mixed ^= mixed >>> 15;
  }
  return mulberry32(mixed);
}

// Numbers from a normal distribution with mean 0, as Box and Muller draw them. `number` says for which weight.
export function normals(seed, number, count, deviation) {
  const next = stream(seed, WEIGHTS, number);
  const drawn = new Float64Array(count);
  for (let i = 0; i < count; i += 2) {
    const length = deviation * Math.sqrt(-2 * Math.log(1 - next())); // 1 − u is never 0
    const angle = 2 * Math.PI * next();
    drawn[i] = length * Math.cos(angle);
    if (i + 1 < count) drawn[i + 1] = length * Math.sin(angle);
  }
  return drawn;
}

// Why a text cannot be learned, in a sentence; null if it can. `length` is T, and `rows` is B.
export function tooShort(text, length, rows) {
  const least = Math.ceil((Math.max(2, rows) + 1) * (length + 1) * (1 / (1 - HELD_OUT)));
  const found = [...text].length;
  if (found < least) return `The text has ${found} characters, but ${rows} windows of ${length} need at least ${least}.`;
  return new Set(text).size < 2 ? "The text consists of a single character, so there is nothing to learn." : null;
}

export class LearnedText {
  #orders = new Map(); // of the last two epochs
  // `length` is T, and `rows` is B.
  constructor(text, { length, rows, seed }) {
    this.characters = [...new Set(text)].sort().join("");
    const ids = new Map([...this.characters].map((character, id) => [character, id]));
    const all = Int32Array.from(text, (character) => ids.get(character));
    const end = Math.round(all.length * (1 - HELD_OUT));
    [this.ids, this.heldOut] = [all.subarray(0, end), all.subarray(end)];
    Object.assign(this, { length, rows, seed });
    // One window fewer than fit, so that all of them can be shifted by up to a window's length.
    this.windows = Math.floor((this.ids.length - 1) / length) - 1;
  }

  // The inputs and targets (B·T) of step 0, 1, …: every window once in an epoch, in a new order and with new cuts.
  batch(step) {
    const starts = Array.from({ length: this.rows }, (_, row) => {
      const place = step * this.rows + row;
      const epoch = Math.floor(place / this.windows);
      const { order, offset } = this.#epoch(epoch);
      return offset + order[place % this.windows] * this.length;
    });
    return this.#cut(this.ids, starts);
  }

  // How many batches the held-out part has; the last of them may have fewer than B windows, `rows` of them. What is left after the
  // last whole window does not count.
  get heldOutBatches() {
    return Math.ceil(Math.floor((this.heldOut.length - 1) / this.length) / this.rows);
  }

  heldOutBatch(i) {
    const windows = Math.floor((this.heldOut.length - 1) / this.length);
    const rows = Math.min(this.rows, windows - i * this.rows);
    const starts = Array.from({ length: this.rows }, (_, row) => Math.min(i * this.rows + row, windows - 1) * this.length);
    return { ...this.#cut(this.heldOut, starts), rows };
  }

  // The mean loss, in nats, of guessing the held-out text without a model: blindly, from how often each character occurs, and from
  // the character before. Every count is one higher, so that nothing is impossible.
  landmarks() {
    const V = this.characters.length;
    const single = new Float64Array(V).fill(1);
    const pairs = new Float64Array(V * V).fill(1);
    for (let i = 0; i < this.ids.length; i++) {
      single[this.ids[i]]++;
      if (i) pairs[this.ids[i - 1] * V + this.ids[i]]++;
    }
    const total = single.reduce((a, b) => a + b);
    const after = Float64Array.from({ length: V }, (_, id) => pairs.subarray(id * V, (id + 1) * V).reduce((a, b) => a + b));
    let [unigram, bigram] = [0, 0];
    for (let i = 1; i < this.heldOut.length; i++) {
      const [before, id] = [this.heldOut[i - 1], this.heldOut[i]];
      unigram -= Math.log(single[id] / total);
      bigram -= Math.log(pairs[before * V + id] / after[before]);
    }
    const count = this.heldOut.length - 1;
    return { "ln V": Math.log(V), unigram: unigram / count, bigram: bigram / count };
  }

  #epoch(epoch) {
    if (!this.#orders.has(epoch)) {
      const next = stream(this.seed, ORDER, epoch);
      const order = Uint32Array.from({ length: this.windows }, (_, i) => i);
      for (let i = order.length - 1; i > 0; i--) {
        const j = Math.floor(next() * (i + 1));
        [order[i], order[j]] = [order[j], order[i]];
      }
      const free = this.ids.length - 1 - this.windows * this.length;
      this.#orders.set(epoch, { order, offset: Math.floor(stream(this.seed, OFFSET, epoch)() * (free + 1)) });
      for (const old of [...this.#orders.keys()].slice(0, -2)) this.#orders.delete(old);
    }
    return this.#orders.get(epoch);
  }

  #cut(ids, starts) {
    const [inputs, targets] = [new Int32Array(this.rows * this.length), new Int32Array(this.rows * this.length)];
    starts.forEach((start, row) => {
      inputs.set(ids.subarray(start, start + this.length), row * this.length);
      targets.set(ids.subarray(start + 1, start + 1 + this.length), row * this.length);
    });
    return { inputs, targets };
  }
}
