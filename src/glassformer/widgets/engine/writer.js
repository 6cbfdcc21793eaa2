// A model that writes: its predictions, what a strategy makes of them, and the characters drawn with the numbers of a seed.
import { mulberry32 } from "../kit/maths.js";
import { distribution, draw, softmax, windowStart } from "./transformer.js";

export const RUN = 6; // characters; a character repeats if it ends a run of this length that occurred before

// The random number i of mulberry32 for a seed; the state grows in equal steps.
export const uniformAt = (seed, i) => mulberry32((seed + i * 0x6d2b79f5) | 0)();

// In nats.
export const entropy = (p) => p.reduce((sum, x) => (x > 0 ? sum - x * Math.log(x) : sum), 0);

// How many of the items from `from` on end a run of n items that occurred before.
export function repeated(items, from, n) {
  const met = new Set();
  let count = 0;
  for (let end = n; end <= items.length; end++) {
    const run = items.slice(end - n, end).join(" ");
    if (end > from && met.has(run)) count++;
    met.add(run);
  }
  return count;
}

// A text in the making and, for each character after the prompt and for the next one, what it is drawn from.
//   run      { prompt, length, seed, strategy, picked }: everything that determines the text; picked maps a place to an id
//   ids      the text after the prompt
//   steps    { logits, p, entropy, after, left }: the model's prediction and its entropy; what is drawn from and its entropy
export class Writer {
  #cache = null;
  #inCache = []; // the ids of the window that it has read
  constructor(context, { prompt, ids, logits }) {
    [this.context, this.prompt, this.ids, this.steps] = [context, prompt, ids, logits.map(stepOf)];
  }

  // Change the run, and write as far as possible with the existing predictions.
  fit(run) {
    this.run = run;
    if (run.prompt.join(" ") !== this.prompt.join(" ")) [this.prompt, this.ids, this.steps] = [run.prompt, [], []];
    this.ids.length = Math.min(this.ids.length, run.length);
    this.steps.length = Math.min(this.steps.length, run.length + 1);
    for (let i = 0; i < this.steps.length; i++) this.#draw(i);
  }

  get isDone() {
    return this.ids.length === this.run.length && this.steps.length === this.run.length + 1;
  }

  // Ask the model for the next prediction, pausing as its `steps` do, and write one more character if one is wanted.
  *next(transformer) {
    const text = [...this.prompt, ...this.ids];
    const start = windowStart(text.length, this.context);
    const window = text.slice(start);
    const differs = window.findIndex((id, t) => id !== this.#inCache[t]);
    this.#cache ??= transformer.newCache();
    this.#cache.length = Math.min(differs < 0 ? window.length : differs, window.length - 1);
    this.#inCache.length = this.#cache.length;
    const unread = window.slice(this.#cache.length);
    const from = start + this.#cache.length; // of the whole text
    const logits = yield* transformer.steps(unread, { cache: this.#cache });
    this.#inCache = window;
    const size = logits.length / unread.length;
    for (let row = 0; row < unread.length; row++) {
      const length = from + row + 1; // of the text that this row predicts from
      const i = length - this.prompt.length;
      // The same window also predicts for shorter texts, but the first of these had an earlier one.
      if (i < 0 || windowStart(length, this.context) !== start) continue;
      this.steps[i] = stepOf(logits.slice(row * size, (row + 1) * size));
      this.#draw(i);
      if (this.ids.length === i + 1 && this.steps.length === i + 1) return; // here another character is drawn, or the first one
    }
  }

  #draw(i) {
    const { length, seed, strategy, picked } = this.run;
    const step = this.steps[i];
    step.after = distribution(step.logits, strategy);
    step.left = entropy(step.after);
    if (i === length) return;
    const id = picked.get(i) ?? draw(step.after, uniformAt(seed, i));
    if (this.ids[i] === id) return;
    this.ids.splice(i, Infinity, id);
    this.steps.length = i + 1;
  }

  // Averages over the written text, per character: both entropies, −log p, and the share that repeats.
  statistics() {
    const { ids, steps } = this;
    const mean = (of) => ids.reduce((sum, id, i) => sum + of(steps[i], id), 0) / ids.length;
    return {
      entropy: mean((step) => step.entropy),
      left: mean((step) => step.left),
      surprise: mean((step, id) => -Math.log(step.p[id])),
      repeats: repeated([...this.prompt, ...ids], this.prompt.length, RUN) / ids.length,
    };
  }
}

// The logits that `packed_logits` in writer.py wrote, an array for each character.
export function unpackedLogits({ columns, numbers }) {
  const bytes = Uint8Array.from(atob(numbers), (character) => character.charCodeAt(0));
  const file = new DataView(bytes.buffer);
  const all = Float32Array.from({ length: bytes.length / 2 }, (_, i) => file.getInt16(2 * i, true) / 1000);
  return Array.from({ length: all.length / columns }, (_, row) => all.slice(row * columns, (row + 1) * columns));
}

function stepOf(logits) {
  const p = softmax(logits);
  return { logits, p, entropy: entropy(p) };
}

// How many characters can still be drawn, and the model's total probability for them.
export const leftOf = ({ p, after }) => ({
  count: after.reduce((n, x) => n + (x > 0), 0),
  mass: p.reduce((sum, x, id) => sum + (after[id] > 0 ? x : 0), 0),
});

// The rank of an id among all ids, the likeliest first, from 1.
export const rankOf = (p, id) => 1 + p.reduce((n, x, other) => n + (x > p[id] || (x === p[id] && other < id)), 0);

// The first place where two lists differ; null if one begins with the other.
export function parting(a, b) {
  const at = a.findIndex((id, i) => i < b.length && id !== b[i]);
  return at < 0 ? null : at;
}
