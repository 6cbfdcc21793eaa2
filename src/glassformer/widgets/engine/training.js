// A GPT that learns: the text, the model, the optimizer and everything that a reader may ask while it does. All of it are
// generators that pause every millisecond or two, so that it can run in a worker or, in slices, on the page itself.
// Names of settings are those of glassformer's ModelConfig and TrainingConfig.
// tests/widgets/test_training.py compares whole runs with glassformer.scratch.

import { LearnedText, normals } from "./learned_text.js";
import { Optimizer, unsupported } from "./optimizers.js";
import { Trainable, untrainable } from "./trainable.js";
import { Transformer, weightsOf } from "./transformer.js";
import { Writer } from "./writer.js";

const D_HEAD = 32;
const DRAWN_AT = 0.02; // the standard deviation of a new embedding, as in scratch/embedding.py
const KEPT = 12; // checkpoints at most
const SAMPLED = { length: 160, temperature: 0.8, seed: 3 };
const NUDGE = 1e-4;

// The configuration of a model of this size, from that of the recipe.
export function configOf(recipe, { d_model, n_layers, length, vocab_size }) {
  const n_heads = d_model / D_HEAD;
  const d_ff = 8 * Math.ceil(d_model / 3); // as many weights as two matrices of 4·d_model
  return { ...recipe, vocab_size, context_length: length, d_model, n_layers, n_heads, n_kv_heads: n_heads, d_head: D_HEAD, d_ff };
}

// New weights: { name: { shape, data } }. Gains are 1; matrices are drawn with variance 1/n_in; what a sublayer writes is 0 at first
// if the recipe says `zero_init`. A generator that pauses.
function* drawn(config, seed, zeroInit) {
  const tensors = {};
  for (const [i, [name, shape]] of [...weightsOf(config)].entries()) {
    const count = shape.reduce((a, b) => a * b);
    const isOutput = name.endsWith(".W_o.weight") || name.endsWith(".W_down.weight");
    const deviation = name === "token_embedding.weight" ? DRAWN_AT : shape[0] ** -0.5;
    let data;
    if (shape.length === 1) data = new Float64Array(count).fill(1);
    else data = zeroInit && isOutput ? new Float64Array(count) : normals(seed, i, count, deviation);
    tensors[name] = { shape, data };
    yield;
  }
  return tensors;
}

export class Training {
  step = 0; // how many steps are done
  losses = []; // of every step, before it
  gradients = []; // the length of each step's gradient, before clipping
  checkpoints = []; // { step, weights, kept }
  #probe = null; // a copy of the model for a single text

  // settings: { recipe: { model, training }, text, d_model, n_layers, length, batch_size, steps, seed, causal, changes }, where
  // `changes` are those of the recipe's training. `kind` says which memory, as in Trainable. A generator that pauses. Throws an
  // Error with a sentence if the settings cannot be used.
  static *of(settings, kind = {}) {
    const { recipe, text, d_model, n_layers, length, batch_size: rows, steps, seed, causal = true, changes = {} } = settings;
    if (d_model % D_HEAD) throw new Error(`d_model=${d_model} is not a multiple of ${D_HEAD}.`);
    const why = untrainable(configOf(recipe.model, { d_model, n_layers, length, vocab_size: 2 })) ?? unsupported({ ...recipe.training, ...changes });
    if (why) throw new Error(`This model cannot be trained here: ${why}.`);
    const training = new Training();
    training.kind = { ...kind, causal };
    training.text = yield* LearnedText.of(text, { length, rows, seed });
    training.config = configOf(recipe.model, { d_model, n_layers, length, vocab_size: training.text.known.length });
    training.recipe = { ...recipe.training, steps, batch_size: rows, seed, ...changes };
    training.model = new Trainable(training.config, rows, training.kind);
    yield;
    training.model.load(yield* drawn(training.config, seed, training.recipe.zero_init));
    training.optimizer = new Optimizer(training.model, training.recipe);
    training.parameters = [...weightsOf(training.config)].reduce((sum, [, shape]) => sum + shape.reduce((a, b) => a * b), 0);
    training.keep();
    return training;
  }

  get isFast() {
    return this.model.isFast;
  }

  // One step. Returns its loss, which is that of the weights before it.
  *train() {
    const batch = this.text.batch(this.step);
    const loss = yield* this.model.loss(batch);
    yield* this.model.backward(batch);
    const length = yield* this.optimizer.step(this.step);
    this.losses.push(loss);
    this.gradients.push(length);
    this.step++;
    return loss;
  }

  // The mean loss of the held-out text: of all its whole windows, or of so many batches from its beginning.
  *heldOut(batches = Infinity) {
    const count = Math.min(batches, this.text.heldOutBatches);
    let [sum, windows] = [0, 0];
    for (let i = 0; i < count; i++) {
      const batch = this.text.heldOutBatch(i);
      sum += batch.rows * (yield* this.model.loss(batch));
      windows += batch.rows;
    }
    return sum / windows;
  }

  // What the model writes now, after a line break or the text's first character.
  *write({ length, temperature, seed } = SAMPLED) {
    const transformer = new Transformer(this.config, this.tensors(), { plain: !this.isFast });
    const { known } = this.text;
    const prompt = [Math.max(0, known.indexOf("\n"))];
    const writer = new Writer(this.config.context_length, { prompt, ids: [], logits: [] });
    writer.fit({ prompt, length, seed, strategy: { temperature }, picked: new Map() });
    while (!writer.isDone) yield* writer.next(transformer);
    return writer.ids.map((id) => known[id]).join("");
  }

  // The weights now: { name: { shape, data } }, in 32 bits.
  tensors() {
    const found = this.model.read();
    for (const tensor of Object.values(found)) tensor.data = Float32Array.from(tensor.data);
    return found;
  }

  // The value and the last gradient of one weight.
  weight({ name, i, j = 0 }) {
    const { memory, blocks } = this.model;
    const at = this.model.placeOf(name, i, j);
    return [memory.numbers[at], memory.numbers[blocks.gradient + at]];
  }

  // All numbers of the matrix or vector `name`.
  numbersOf(name) {
    return this.model.copyOf(name);
  }

  // The attention weights (T, T) of one head while it reads the beginning of the held-out text.
  *head(block, head) {
    const probe = this.#probed({});
    yield* probe.loss(this.#oneText());
    return probe.shares(block, head);
  }

  // The slope of the loss along one weight, on the beginning of the held-out text and in double precision: as the backward pass
  // computes it, and as the difference of two losses, for the weight a little smaller and a little larger.
  *slopes({ name, i, j = 0 }, nudge = NUDGE) {
    const probe = this.#probed({ double: true });
    const batch = this.#oneText();
    const at = probe.placeOf(name, i, j);
    const { numbers } = probe.memory;
    const value = numbers[at];
    const loss = yield* probe.loss(batch);
    yield* probe.backward(batch);
    const gradient = numbers[probe.blocks.gradient + at];
    const losses = [];
    for (const moved of [value - nudge, value + nudge]) {
      numbers[at] = moved;
      losses.push(yield* probe.loss(batch));
    }
    numbers[at] = value;
    return { value, loss, gradient, nudge, losses, difference: (losses[1] - losses[0]) / (2 * nudge) };
  }

  // --- checkpoints

  // Keeps the weights and what the optimizer remembers, to come back to. Of too many, every other one is dropped.
  keep() {
    this.checkpoints = this.checkpoints.filter(({ step }) => step < this.step);
    const weights = this.model.memory.numbers.slice(0, this.model.size);
    this.checkpoints.push({ step: this.step, weights, kept: this.optimizer.read() });
    if (this.checkpoints.length > KEPT) this.checkpoints = this.checkpoints.filter((_, i, { length }) => i % 2 === 0 || i === length - 1);
  }

  // Goes back to a checkpoint. From there, the same losses follow.
  goBack(step) {
    const found = this.checkpoints.find((checkpoint) => checkpoint.step === step);
    if (!found) throw new Error(`there is no checkpoint of step ${step}`);
    this.model.memory.numbers.set(found.weights);
    this.optimizer.load(found.kept);
    this.step = step;
    this.losses.length = this.gradients.length = step;
    this.checkpoints = this.checkpoints.filter((checkpoint) => checkpoint.step <= step);
  }

  #probed(kind) {
    if (!this.#probe || Boolean(this.#probe.kind.double) !== Boolean(kind.double)) {
      this.#probe = { kind, model: new Trainable(this.config, 1, { ...this.kind, ...kind, moves: false }) };
    }
    this.#probe.model.memory.numbers.set(this.model.memory.numbers.subarray(0, this.model.size));
    return this.#probe.model;
  }

  #oneText() {
    const { inputs, targets } = this.text.heldOutBatch(0);
    const T = this.text.length;
    return { inputs: inputs.subarray(0, T), targets: targets.subarray(0, T) };
  }
}
