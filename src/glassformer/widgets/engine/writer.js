// A model that writes: what it says comes next, what a strategy leaves of that, and what is drawn with the numbers of a seed.
import { mulberry32 } from "../kit/maths.js";
import { distribution, draw, softmax } from "./transformer.js";

export const RUN = 6; // characters; one that ends such a run that was there before repeats

// The number i of mulberry32 from a seed, whose state goes up in equal steps.
export const uniformAt = (seed, i) => mulberry32((seed + i * 0x6d2b79f5) | 0)();

// In nats.
export const entropy = (p) => p.reduce((sum, x) => (x > 0 ? sum - x * Math.log(x) : sum), 0);

// How many of the items from `from` on end a run of n items that was there before.
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

// A text in the making, and for every character beyond the prompt, and for the next, what it is drawn from.
//   run      { prompt, length, seed, strategy, picked }: all that decides what is written; picked is a Map from place to id
//   ids      what is written beyond the prompt
//   steps    { logits, p, entropy, after, left }: what the model says, its entropy, what is drawn from and its entropy
export class Writer {
  #cache = null;
  #inCache = [];
  constructor(context, { prompt, ids, logits }) {
    [this.context, this.prompt, this.ids, this.steps] = [context, prompt, ids, logits.map(stepOf)];
  }

  // Take another run, and write as far as that is possible with what the model has said already.
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

  // Ask the model what comes next, pausing as its `steps` do, and write one character more if one is wanted.
  *next(transformer) {
    const window = [...this.prompt, ...this.ids].slice(-this.context);
    const differs = window.findIndex((id, t) => id !== this.#inCache[t]);
    this.#cache ??= transformer.newCache();
    this.#cache.length = Math.min(differs < 0 ? window.length : differs, window.length - 1);
    this.#inCache.length = this.#cache.length;
    const unread = window.slice(this.#cache.length);
    const from = this.prompt.length + this.ids.length - window.length + this.#cache.length; // of the whole text
    const logits = yield* transformer.steps(unread, { cache: this.#cache });
    this.#inCache = window;
    const size = logits.length / unread.length;
    const rows = unread.map((_, row) => [from + row + 1 - this.prompt.length, logits.slice(row * size, (row + 1) * size)]);
    // What was read with a whole window is exact also for the characters before the last, until the window slides.
    const useful = from + unread.length > this.context ? rows.slice(-1) : rows.filter(([i]) => i >= 0);
    for (const [i, row] of useful) {
      this.steps[i] = stepOf(row);
      this.#draw(i);
      if (this.ids.length === i + 1 && this.steps.length === i + 1) return; // here another character is drawn, or the first
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

  // Means over all that is written, per character: both entropies, −log p, and the share that repeats.
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

function stepOf(logits) {
  const p = softmax(logits);
  return { logits, p, entropy: entropy(p) };
}

// How many characters are left to be drawn, and how much of the model's probability they have.
export const leftOf = ({ p, after }) => ({
  count: after.reduce((n, x) => n + (x > 0), 0),
  mass: p.reduce((sum, x, id) => sum + (after[id] > 0 ? x : 0), 0),
});

// The place of an id among all, likeliest first, from 1.
export const rankOf = (p, id) => 1 + p.reduce((n, x, other) => n + (x > p[id] || (x === p[id] && other < id)), 0);

// Where two lists differ for the first time; null if one begins as the other does.
export function parting(a, b) {
  const at = a.findIndex((id, i) => i < b.length && id !== b[i]);
  return at < 0 ? null : at;
}
