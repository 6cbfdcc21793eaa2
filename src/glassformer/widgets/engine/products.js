// Matrices in one block of memory, and their products: by the WebAssembly kernel, or in plain JavaScript where a browser has no
// SIMD, or a page's security policy forbids WebAssembly. tests/widgets/test_products.py compares both with NumPy.
import { FUSED, PLAIN } from "./kernel.js";

export const STRIP = 16; // columns that are multiplied together
export const strips = (columns) => Math.ceil(columns / STRIP);

// How long the rows of a matrix are that is multiplied again and again: an odd number of strips. If rows were a power of two
// apart, those of a strip would drive each other out of the processor's cache.
export const apart = (columns) => (strips(columns) | 1) * STRIP;

const PAGE = 65536; // bytes
// The module once it is compiled: the one that adds products in one instruction, where the browser knows it. It is false if that
// failed, because another attempt would fail, too.
let kernel = null;

// `size` numbers, all of them 0, and what computes with them: { numbers, isFast } and the functions below. `plain` does without
// WebAssembly; so does `double`, whose numbers have 64 bits.
//   multiply(c, cRow, a, aRow, aStep, b, bRow, bStrip, rows, inner, strips, keep)
// computes C = A·B for `keep` = 0 and C += A·B for `keep` = -1. All places (c, a, b) and steps (from row to row, from column to
// column of A, and from strip to strip of B) are in bytes, four for a number. `rows` are those of A and C, `inner` those of B,
// and `strips` are how often there are 16 columns of B and C. For the transpose of a matrix as A, exchange its two steps.
//   gate(up, gate, count)
// multiplies `count` numbers at `up`, a multiple of four, by the SiLU of those at `gate`.
//   gateBack(grad, toGate, toUp, gate, up, count)
// maps the gradient of what `gate` computed to those of its two inputs.
//   soften(at, end)
// replaces the numbers between two places, a multiple of four, by their softmax. An entry of -Infinity becomes less than 1e-37.
//   norm(at, step, runs, n, gain, eps)
// divides each of `runs` times n numbers, whose beginnings are `step` bytes apart, by the root of (their mean square + eps), and
// multiplies them by the n numbers at `gain`.
//   normBack(x, xStep, grad, gradStep, to, toStep, runs, n, gain, toGain, eps, keep)
// maps the gradient of what `norm` made of x to that of x, which it sets or, for `keep` = -1, adds to what is there; it always adds
// that of the gain. n is a multiple of four.
//   softenBack(p, grad, step, rows, n)
// replaces the gradient of softmax's outputs p by that of its inputs, in rows of n numbers, a multiple of four.
//   turn(at, runs, n, angles, cos, sin)
// rotates `runs` times n numbers as RoPE does: i with i + n/2, for n/2 a multiple of four. There are n/2 cosines and n/2 sines at
// `angles`, which are multiplied by `cos` and `sin`.
//   transpose(to, toRow, from, row, n, m)
// puts the transpose of n times m numbers, both multiples of four, to another place, where rows are `toRow` bytes apart.
export function memoryOf(size, { plain = false, double = false } = {}) {
  const fast = plain || double ? null : inKernel(size);
  if (fast) return fast;
  const numbers = new (double ? Float64Array : Float32Array)(size);
  const own = Object.entries(IN_JAVASCRIPT).map(([name, run]) => [name, (...all) => run(numbers, ...all)]);
  return { numbers, ...Object.fromEntries(own), isFast: false };
}

const bytesOf = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

function inKernel(size) {
  if (kernel === false) return null;
  try {
    kernel ??= new WebAssembly.Module([FUSED, PLAIN].map(bytesOf).find((bytes) => WebAssembly.validate(bytes)));
  } catch {
    kernel = false;
    return null;
  }
  try {
    const memory = new WebAssembly.Memory({ initial: Math.ceil((4 * size) / PAGE) });
    const { exports } = new WebAssembly.Instance(kernel, { page: { memory } });
    return { numbers: new Float32Array(memory.buffer), ...exports, isFast: true };
  } catch {
    return null; // a browser reserves much address space for each memory, and may have none left
  }
}

// The same in JavaScript: two rows of A and four columns of B at a time, whose eight sums are local variables.
function multiplied(numbers, ...bytes) {
  const [c, cRow, a, aRow, aStep, b, bRow, bStrip] = bytes.slice(0, 8).map((place) => place >> 2);
  const [rows, inner, count, keep] = bytes.slice(8);
  for (let column = 0; column < count * STRIP; column += 4) {
    const first = b + (column >> 4) * bStrip + (column & 15);
    for (let row = 0; row < rows; row += 2) {
      const isPair = row + 1 < rows;
      const to = c + row * cRow + column;
      let p = a + row * aRow;
      let q = isPair ? p + aRow : p; // a single last row meets itself
      let r = first;
      let [s, t, u, v, w, x, y, z] = [0, 0, 0, 0, 0, 0, 0, 0];
      for (let i = 0; i < inner; i++) {
        const one = numbers[p];
        const two = numbers[q];
        const d = numbers[r];
        const e = numbers[r + 1];
        const f = numbers[r + 2];
        const g = numbers[r + 3];
        s += one * d;
        t += one * e;
        u += one * f;
        v += one * g;
        w += two * d;
        x += two * e;
        y += two * f;
        z += two * g;
        p += aStep;
        q += aStep;
        r += bRow;
      }
      store(numbers, to, keep, s, t, u, v);
      if (isPair) store(numbers, to + cRow, keep, w, x, y, z);
    }
  }
}

function store(numbers, at, keep, s, t, u, v) {
  numbers[at] = keep ? numbers[at] + s : s;
  numbers[at + 1] = keep ? numbers[at + 1] + t : t;
  numbers[at + 2] = keep ? numbers[at + 2] + u : u;
  numbers[at + 3] = keep ? numbers[at + 3] + v : v;
}

function gated(numbers, up, gate, count) {
  for (let i = up / 4, j = gate / 4; i < up / 4 + count; i++, j++) {
    numbers[i] = (numbers[i] * numbers[j]) / (1 + Math.exp(-numbers[j]));
  }
}

function gatedBack(numbers, ...bytes) {
  let [grad, toGate, toUp, gate, up] = bytes.slice(0, 5).map((place) => place >> 2);
  for (const end = grad + bytes[5]; grad < end; grad++, toGate++, toUp++, gate++, up++) {
    const share = 1 / (1 + Math.exp(-numbers[gate]));
    const x = numbers[gate];
    numbers[toGate] = numbers[grad] * numbers[up] * share * (1 + x * (1 - share));
    numbers[toUp] = numbers[grad] * x * share;
  }
}

function softened(numbers, at, end) {
  const row = numbers.subarray(at / 4, end / 4);
  let max = -Infinity;
  for (const x of row) if (!(x <= max)) max = x;
  let sum = 0;
  for (let i = 0; i < row.length; i++) sum += row[i] = Math.exp(row[i] - max);
  for (let i = 0; i < row.length; i++) row[i] /= sum;
}

function normed(numbers, at, step, runs, n, gain, eps) {
  for (let run = 0, first = at / 4; run < runs; run++, first += step / 4) {
    let squares = 0;
    for (let i = first; i < first + n; i++) squares += numbers[i] * numbers[i];
    const inverse = 1 / Math.sqrt(squares / n + eps);
    for (let i = first, g = gain / 4; i < first + n; i++, g++) numbers[i] *= inverse * numbers[g];
  }
}

function normedBack(numbers, ...given) {
  const [firstX, xStep, firstGrad, gradStep, first, toStep] = given.slice(0, 6).map((place) => place >> 2);
  const [runs, n] = given.slice(6, 8);
  const [gain, toGain] = given.slice(8, 10).map((place) => place >> 2);
  const [eps, keep] = given.slice(10);
  for (let run = 0; run < runs; run++) {
    const [x, grad, to] = [firstX + run * xStep, firstGrad + run * gradStep, first + run * toStep];
    let [squares, along] = [0, 0];
    for (let i = 0; i < n; i++) {
      squares += numbers[x + i] * numbers[x + i];
      along += numbers[x + i] * numbers[grad + i] * numbers[gain + i];
    }
    const inverse = 1 / Math.sqrt(squares / n + eps);
    along *= (inverse * inverse) / n;
    for (let i = 0; i < n; i++) {
      const g = numbers[grad + i];
      const change = (g * numbers[gain + i] - numbers[x + i] * along) * inverse;
      numbers[toGain + i] += g * numbers[x + i] * inverse;
      numbers[to + i] = keep ? numbers[to + i] + change : change;
    }
  }
}

function softenedBack(numbers, ...bytes) {
  let [p, grad] = bytes.slice(0, 2).map((place) => place >> 2);
  const [step, rows, n] = bytes.slice(2);
  for (let row = 0; row < rows; row++, p += step >> 2, grad += step >> 2) {
    let along = 0;
    for (let i = 0; i < n; i++) along += numbers[p + i] * numbers[grad + i];
    for (let i = 0; i < n; i++) numbers[grad + i] = numbers[p + i] * (numbers[grad + i] - along);
  }
}

function turned(numbers, at, runs, n, angles, cos, sin) {
  const half = n / 2;
  for (let run = 0, first = at / 4; run < runs; run++, first += n) {
    for (let i = first, angle = angles / 4; i < first + half; i++, angle++) {
      const [a, b] = [numbers[i], numbers[i + half]];
      const [c, s] = [cos * numbers[angle], sin * numbers[angle + half]];
      numbers[i] = a * c - b * s;
      numbers[i + half] = a * s + b * c;
    }
  }
}

function transposed(numbers, ...given) {
  const [to, toRow, from, row] = given.slice(0, 4).map((place) => place >> 2);
  const [n, m] = given.slice(4);
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < m; j++) numbers[to + j * toRow + i] = numbers[from + i * row + j];
  }
}

const IN_JAVASCRIPT = {
  multiply: multiplied,
  gate: gated,
  gateBack: gatedBack,
  soften: softened,
  softenBack: softenedBack,
  norm: normed,
  normBack: normedBack,
  turn: turned,
  transpose: transposed,
};
