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

// Characters that are looked at before the page may get a turn.
const AT_ONCE = 20_000;

// The characters of a text as numbers of Unicode.
function* pointsOf(text) {
  const points = new Int32Array(text.length);
  let count = 0;
  for (let i = 0; i < text.length; count++) {
    points[count] = text.codePointAt(i);
    i += points[count] > 0xffff ? 2 : 1;
    if (count % AT_ONCE === 0) yield;
  }
  return points.subarray(0, count);
}

const MOST_KNOWN = 20_000; // different characters; more than any script's texts have

// How many characters a text must have at least, so that its held-out tenth fills a batch.
export const leastOf = ({ length, rows }) => Math.ceil(((rows + 2) * length + 1) / HELD_OUT);

export class LearnedText {
  #orders = new Map(); // of the last two epochs

  // Reads a text, pausing. `length` is T, and `rows` is B. Throws an Error with a sentence if the text is too short.
  static *of(text, { length, rows, seed }) {
    const points = yield* pointsOf(text);
    const least = leastOf({ length, rows });
    if (points.length < least) {
      throw new Error(`The text has ${points.length} characters, but it needs at least ${least}, a tenth of which is held out to judge the model.`);
    }
    const isKnown = new Uint8Array(0x110000);
    yield;
    for (let i = 0; i < points.length; i++) isKnown[points[i]] = 1;
    yield;
    const idOf = new Int32Array(0x110000);
    const known = [];
    for (let point = 0; point < isKnown.length; point++) {
      if (!isKnown[point]) continue;
      idOf[point] = known.length;
      known.push(String.fromCodePoint(point));
    }
    yield;
    if (known.length > MOST_KNOWN) throw new Error(`The text has ${known.length} different characters, but this page trains models of at most ${MOST_KNOWN}.`);
    if (known.length < 2) throw new Error("The text consists of a single character, so there is nothing to learn.");
    yield;
    const found = new LearnedText();
    for (let i = 0; i < points.length; i++) points[i] = idOf[points[i]];
    const end = Math.round(points.length * (1 - HELD_OUT));
    // One window fewer than fit, so that all of them can be shifted by up to a window's length.
    const windows = Math.floor((end - 1) / length) - 1;
    return Object.assign(found, { known, ids: points.subarray(0, end), heldOut: points.subarray(end), length, rows, seed, windows });
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
  // the character before. Every count is one higher, so that nothing is impossible. A generator that pauses.
  *landmarks() {
    const V = this.known.length;
    const single = new Float64Array(V).fill(1);
    const pairs = new Map(); // V may be large
    const after = new Float64Array(V).fill(V);
    for (let i = 0; i < this.ids.length; i++) {
      single[this.ids[i]]++;
      if (i) {
        const pair = this.ids[i - 1] * V + this.ids[i];
        pairs.set(pair, (pairs.get(pair) ?? 1) + 1);
        after[this.ids[i - 1]]++;
      }
      if (i % AT_ONCE === 0) yield;
    }
    const total = single.reduce((a, b) => a + b);
    let [unigram, bigram] = [0, 0];
    for (let i = 1; i < this.heldOut.length; i++) {
      const [before, id] = [this.heldOut[i - 1], this.heldOut[i]];
      unigram -= Math.log(single[id] / total);
      bigram -= Math.log((pairs.get(before * V + id) ?? 1) / after[before]);
      if (i % AT_ONCE === 0) yield;
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
