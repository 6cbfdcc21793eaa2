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

// `size` numbers, all of them 0, and what computes with them: { numbers, multiply, gate, soften, norm, isFast }. `plain` does
// without WebAssembly; so does `double`, whose numbers have 64 bits.
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
export function memoryOf(size, { plain = false, double = false } = {}) {
  const fast = plain || double ? null : inKernel(size);
  if (fast) return fast;
  const numbers = new (double ? Float64Array : Float32Array)(size);
  return {
    numbers,
    multiply: (...all) => multiplied(numbers, ...all),
    gate: (...all) => gated(numbers, ...all),
    gateBack: (...all) => gatedBack(numbers, ...all),
    soften: (...all) => softened(numbers, ...all),
    norm: (...all) => normed(numbers, ...all),
    isFast: false,
  };
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
