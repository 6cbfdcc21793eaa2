// The optimizers of a Trainable, and how their rates change from step to step: AdamW for all weights, or Muon for the matrices
// inside the blocks and AdamW for the rest. Chapter 10 derives them.
// tests/widgets/test_training.py compares whole trainings with glassformer.scratch and glassformer.train.

import { STRIP, apart, memoryOf, strips } from "./products.js";

const COEFFICIENTS = [3.4445, -4.775, 2.0315]; // of Muon's polynomial, as in scratch/optimizer.py
const SMALLEST = 1e-7; // avoids dividing a gradient of zeros by 0

// --- schedule ---------------------------------------------------------------------------------------------------------

// The fraction of every rate at step 0, 1, …: it rises along a line for `warmup` steps, then falls to `final_share`.
export function rateShare({ steps, warmup, decay, final_share: last }, step) {
  if (step < warmup) return (step + 1) / (warmup + 1);
  const progress = Math.min(1, (step - warmup) / Math.max(1, steps - warmup));
  const falling = { none: 1, linear: 1 - progress, cosine: (1 + Math.cos(Math.PI * progress)) / 2 };
  return last + (1 - last) * falling[decay];
}

// Muon's momentum at step 0, 1, …: it rises along a line.
export function muonMomentum({ muon_momentum_start: start, muon_momentum: end, muon_momentum_warmup: over }, step) {
  return start + (end - start) * (over ? Math.min(1, step / over) : 1);
}

const OPTIMIZERS = ["adamw", "muon"];
// Settings that are not supported here, and the value that they must have.
const MUST_BE = { accumulation: 1, embedding_decay: null, init: "ours", ema: null, dtype: "float32", compile: false };

// Why these settings cannot be used here, in words; null if they can.
export function unsupported(settings) {
  for (const [name, value] of Object.entries(MUST_BE)) {
    if (settings[name] !== value) return `${name}=${JSON.stringify(settings[name])} is not ${JSON.stringify(value)}`;
  }
  return OPTIMIZERS.includes(settings.optimizer) ? null : `optimizer=${JSON.stringify(settings.optimizer)} is none of ${OPTIMIZERS.join(", ")}`;
}

// --- the whole step ---------------------------------------------------------------------------------------------------

// The recipe's settings have the names of glassformer.train.TrainingConfig.
export class Optimizer {
  #trainable;
  #settings;
  #muon = null;
  constructor(trainable, settings) {
    this.#trainable = trainable;
    this.#settings = settings;
    if (settings.optimizer === "muon") this.#muon = new Muon(trainable, settings.muon_iterations);
  }

  // Changes all weights by their gradients, at step 0, 1, …: a generator that pauses. Returns the length of the gradient before
  // it was clipped.
  *step(step) {
    const { weights } = this.#trainable;
    const { learning_rate: rate, weight_decay: decay } = this.#settings;
    const length = this.#clip();
    yield;
    const share = rateShare(this.#settings, step);
    const momentum = muonMomentum(this.#settings, step);
    for (const weight of Object.values(weights)) {
      if (this.#muon && weight.kind === "matrices") yield* this.#muon.step(weight, { rate: share * rate, momentum, decay });
      else this.#adam(weight, share, step);
      yield;
    }
    return length;
  }

  // What the optimizer remembers of each weight, to go on from: a copy.
  read() {
    const { memory, blocks, size } = this.#trainable;
    return [blocks.first, blocks.second].map((at) => memory.numbers.slice(at, at + size));
  }

  load(kept) {
    const { memory, blocks } = this.#trainable;
    kept.forEach((numbers, i) => memory.numbers.set(numbers, [blocks.first, blocks.second][i]));
  }

  // Shortens all gradients together to `clip` at most.
  #clip() {
    const { memory, blocks, size } = this.#trainable;
    const { numbers } = memory;
    let squares = 0;
    for (let i = blocks.gradient; i < blocks.gradient + size; i++) squares += numbers[i] * numbers[i];
    const length = Math.sqrt(squares);
    const factor = this.#settings.clip ? this.#settings.clip / (length + 1e-6) : 1;
    if (factor < 1) for (let i = blocks.gradient; i < blocks.gradient + size; i++) numbers[i] *= factor;
    return length;
  }

  #rateOf(kind) {
    const { learning_rate: rate, embedding_rate, head_rate, norm_rate } = this.#settings;
    return { embeddings: embedding_rate ?? rate, head: head_rate ?? rate, norms: norm_rate ?? rate, matrices: rate }[kind];
  }

  #adam({ at, n, row, kind }, share, step) {
    const { memory, blocks } = this.#trainable;
    const { numbers } = memory;
    const { betas, eps, weight_decay: decay } = this.#settings;
    const [ofMean, ofSquare] = betas;
    const rate = share * this.#rateOf(kind);
    const kept = kind === "norms" ? 1 : 1 - rate * decay;
    const whole = Math.sqrt(1 - ofSquare ** (step + 1)); // both means start at 0, which these correct
    const length = rate / (1 - ofMean ** (step + 1));
    const [gradient, first, second] = [blocks.gradient, blocks.first, blocks.second];
    for (let i = at; i < at + n * row; i++) {
      const g = numbers[gradient + i];
      const m = ofMean * numbers[first + i] + (1 - ofMean) * g;
      const v = ofSquare * numbers[second + i] + (1 - ofSquare) * g * g;
      numbers[first + i] = m;
      numbers[second + i] = v;
      numbers[i] = kept * numbers[i] - (length * m) / (Math.sqrt(v) / whole + eps);
    }
  }
}

// --- Muon -------------------------------------------------------------------------------------------------------------

// Moves a matrix by one whose singular values are all near 1. Its memory holds the matrix in its tall form, m rows of n ≤ m
// numbers, and the squares that it is multiplied by.
class Muon {
  #trainable;
  #iterations;
  #memory;
  #places = {};
  constructor(trainable, iterations) {
    this.#trainable = trainable;
    this.#iterations = iterations;
    const shapes = Object.values(trainable.weights).filter(({ kind }) => kind === "matrices");
    const n = Math.max(...shapes.map((weight) => Math.min(weight.n, weight.m)));
    const m = Math.max(...shapes.map((weight) => Math.max(weight.n, weight.m)));
    let size = 0;
    const take = (rows, columns) => {
      const at = size;
      size += rows * apart(columns);
      return { at, row: apart(columns) };
    };
    this.#places = { x: take(m, n), other: take(m, n) };
    for (const name of ["square", "factor", "product", "spare"]) this.#places[name] = take(n, n);
    this.#memory = memoryOf(size, { plain: !trainable.isFast, double: trainable.memory.numbers instanceof Float64Array });
  }

  // A generator, whose loops are functions of their own: Firefox compiles those better.
  *step(weight, { rate, momentum, decay }) {
    const [n, m] = [Math.min(weight.n, weight.m), Math.max(weight.n, weight.m)];
    this.#prepare(weight, momentum);
    yield;
    const update = yield* n < m && this.#iterations <= 5 ? this.#fromTheSquare(n, m) : this.#orthogonalized(n, m);
    this.#move(weight, update, { rate, decay });
  }

  // The gradient's mean, and what is made of it: X, in its tall form and divided by its length.
  #prepare(weight, momentum) {
    const { memory, blocks } = this.#trainable;
    const { numbers } = memory;
    const own = this.#memory.numbers;
    const { at, row } = weight;
    const { x } = this.#places;
    const [down, right] = stepsOf(weight, x);
    let squares = 0;
    for (let i = 0; i < weight.n; i++) {
      for (let j = 0, from = at + i * row, to = x.at + i * down; j < weight.m; j++, from++, to += right) {
        const gradient = numbers[blocks.gradient + from];
        const mean = numbers[blocks.first + from] + (1 - momentum) * (gradient - numbers[blocks.first + from]);
        numbers[blocks.first + from] = mean;
        const ahead = mean + (1 - momentum) * (gradient - mean); // once more towards the gradient
        own[to] = ahead;
        squares += ahead * ahead;
      }
    }
    const inverse = 1 / Math.max(Math.sqrt(squares), SMALLEST);
    for (let i = x.at; i < x.at + Math.max(weight.n, weight.m) * x.row; i++) own[i] *= inverse;
  }

  #move(weight, update, { rate, decay }) {
    const { numbers } = this.#trainable.memory;
    const own = this.#memory.numbers;
    const { at, row } = weight;
    const [down, right] = stepsOf(weight, update);
    const length = rate * Math.sqrt(Math.max(1, weight.m / weight.n));
    for (let i = 0; i < weight.n; i++) {
      for (let j = 0, to = at + i * row, from = update.at + i * down; j < weight.m; j++, to++, from += right) {
        numbers[to] = (1 - rate * decay) * numbers[to] - length * own[from];
      }
    }
  }

  // Every iteration multiplies X by aI + bZ + cZ², with Z = Xᵀ·X, which brings its singular values closer to 1.
  *#orthogonalized(n, m) {
    let { x, other } = this.#places;
    const { square, factor } = this.#places;
    for (let i = 0; i < this.#iterations; i++) {
      this.#square(x, n, m);
      this.#factor(square, factor, n);
      yield;
      this.#multiply(other, x, factor, m, n, n);
      [x, other] = [other, x];
      yield;
    }
    return x;
  }

  // The same from the squares alone: if X·F replaces X, then F·Z·F replaces Z. X itself is multiplied once, at the end.
  *#fromTheSquare(n, m) {
    const { x, other, factor, square } = this.#places;
    let { product, spare } = this.#places;
    this.#square(x, n, m);
    yield;
    for (let i = 0; i < this.#iterations; i++) {
      if (i > 0) {
        this.#symmetric(spare, factor, square, n, n);
        this.#symmetric(square, spare, factor, n, n);
        yield;
      }
      this.#factor(square, factor, n);
      yield;
      if (i === 0) this.#copy(product, factor, n);
      else {
        this.#symmetric(spare, factor, product, n, n);
        [product, spare] = [spare, product];
      }
    }
    yield;
    this.#multiply(other, x, product, m, n, n);
    return other;
  }

  // Z = Xᵀ·X
  #square(x, n, m) {
    this.#symmetric(this.#places.square, { ...x, isAcross: true }, x, n, m);
  }

  // F = aI + bZ + cZ²
  #factor(square, factor, n) {
    const [a, b, c] = COEFFICIENTS;
    const { numbers } = this.#memory;
    this.#triangle(factor, square, square, n, n);
    for (let i = 0; i < n; i++) {
      const [to, from] = [factor.at + i * factor.row, square.at + i * square.row];
      for (let j = i - (i % STRIP); j < n; j++) numbers[to + j] = c * numbers[to + j] + b * numbers[from + j];
      numbers[to + i] += a;
    }
    this.#reflect(factor, n);
  }

  #copy(to, from, n) {
    this.#memory.numbers.copyWithin(to.at, from.at, from.at + n * from.row);
  }

  // C = A·B where C is symmetric
  #symmetric(C, A, B, n, inner) {
    this.#triangle(C, A, B, n, inner);
    this.#reflect(C, n);
  }

  // C = A·B, each strip down to its last row on the diagonal.
  #triangle(C, A, B, n, inner) {
    for (let i = 0; i < n; i += STRIP) {
      this.#multiply({ at: C.at + i, row: C.row }, A, { at: B.at + i, row: B.row }, Math.min(i + STRIP, n), inner, STRIP);
    }
  }

  // What is above the diagonal becomes what is below, except for each strip's own rows, which are there. n is d_model, and so a
  // multiple of four.
  #reflect({ at, row }, n) {
    for (let i = STRIP; i < n; i += STRIP) {
      this.#memory.transpose(4 * (at + i * row), 4 * row, 4 * (at + i), 4 * row, i, Math.min(STRIP, n - i));
    }
  }

  // A may be `isAcross`: its transpose counts.
  #multiply(C, A, B, rows, inner, columns) {
    const [aRow, aStep] = A.isAcross ? [1, A.row] : [A.row, 1];
    this.#memory.multiply(4 * C.at, 4 * C.row, 4 * A.at, 4 * aRow, 4 * aStep, 4 * B.at, 4 * B.row, 4 * STRIP, rows, inner, strips(columns), 0);
  }
}

// The steps in a matrix's tall form, in `row`s, that go down and right in the matrix.
const stepsOf = ({ n, m }, { row }) => (n < m ? [1, row] : [row, 1]);
