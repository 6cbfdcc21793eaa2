// The book's mathematics in JavaScript: glassformer.scratch without NumPy.
// A matrix is an array of rows, everything is in double precision, and nothing here touches the page.
// tests/widgets/test_maths.py compares every export with the Python function of the same name.

// The default base of the frequencies, as in ModelConfig.
export const BASE = 10_000;

export const range = (n) => Array.from({ length: n }, (_, i) => i);

export const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);

// The indices of the largest numbers, at most a given number of them, the largest first; of equal numbers, the first.
export function largest(numbers, count) {
  const best = [];
  for (let i = 0; i < numbers.length; i++) {
    if (best.length === count && !(numbers[i] > numbers[best[count - 1]])) continue; // true for nearly all of a long list
    let at = best.length;
    while (at > 0 && numbers[i] > numbers[best[at - 1]]) at--;
    best.splice(at, 0, i);
    best.length = Math.min(best.length, count);
  }
  return best;
}

export const transpose = (A) => A[0].map((_, j) => A.map((row) => row[j]));

export function matmul(A, B) {
  const columns = transpose(B);
  return A.map((row) => columns.map((column) => dot(row, column)));
}

// Numerically stable. A row of −∞ gives zeros: a query that may see no key attends to nothing.
export function softmax(row) {
  const max = Math.max(...row);
  if (max === -Infinity) return row.map(() => 0);
  const e = row.map((x) => Math.exp(x - max));
  const sum = e.reduce((a, b) => a + b, 0);
  return e.map((x) => x / sum);
}

// Uniform numbers in [0, 1) from a 32-bit seed.
export function mulberry32(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

// Frequencies of a vector's pairs, in radians per position: base^(−2i/d).
export function frequencies(d, base) {
  return range(Math.ceil(d / 2)).map((i) => base ** ((-2 * i) / d));
}

// positions (T) -> (T, D): even dimensions sine, odd dimensions cosine, each pair sharing a frequency.
export function sinusoidal(positions, dModel, base = BASE) {
  const omega = frequencies(dModel, base);
  return positions.map((p) =>
    range(dModel).map((i) => (i % 2 ? Math.cos : Math.sin)(p * omega[Math.floor(i / 2)])),
  );
}

// How many positions each pair takes for one full turn.
export const wavelengths = (d, base) => frequencies(d, base).map((w) => (2 * Math.PI) / w);

// The similarity of two rows of the sinusoidal table that are 0, 1, 2 … n − 1 apart. Each row has length √(D/2), so their
// cosine is PE(p)·PE(p + distance) / (D/2), which depends only on the distance.
export function similarities(n, dModel, base = BASE) {
  const omega = frequencies(dModel, base);
  return range(n).map((distance) => omega.reduce((sum, w) => sum + Math.cos(distance * w), 0) / omega.length);
}

// How well the similarities of a row to those 0, 1, 2 … away work as a ruler.
//   most       the distance of the row that is most like it
//   falls      for how many steps away from it the similarity only falls
//   rises      at how many steps beyond that it rises
//   deceives   { far, near }: the farther of two rows is more similar, by at least 0.001; of all such pairs, the one whose
//              distances differ by the largest factor. null if there is none
export function ruler(similar) {
  const last = similar.length - 1;
  const risen = range(last).filter((i) => similar[i + 1] > similar[i]);
  const most = similar.indexOf(Math.max(...similar.slice(1)), 1);
  const lows = []; // the distances at which the similarity is lower than at any distance before
  let deceives = null;
  similar.forEach((s, far) => {
    const near = lows.find((distance) => similar[distance] <= s - 0.001);
    if (near && (!deceives || far * deceives.near > deceives.far * near)) deceives = { far, near };
    if (lows.length === 0 || s < similar[lows.at(-1)]) lows.push(far);
  });
  return { most, falls: risen[0] ?? last, rises: risen.length, deceives };
}

// rows (T, K), angles (T, K/2) -> (T, K). "half" pairs i with i + K/2, "interleaved" pairs 2i with 2i + 1.
export function rotate(rows, angles, layout = "half") {
  return rows.map((row, t) => {
    const half = row.length / 2;
    const out = [...row];
    angles[t].forEach((angle, i) => {
      const [a, b] = layout === "half" ? [i, i + half] : [2 * i, 2 * i + 1];
      const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
      out[a] = row[a] * cos - row[b] * sin;
      out[b] = row[a] * sin + row[b] * cos;
    });
    return out;
  });
}

// ALiBi's slope for each of n heads. A power of two gets a geometric sequence; any other count takes the sequence of
// the power of two below it, then every other slope of the one above.
export function alibiSlopes(n) {
  const power = 2 ** Math.floor(Math.log2(n));
  const geometric = (m) => range(m).map((i) => 2 ** ((-8 * (i + 1)) / m));
  const between = geometric(2 * power).filter((_, i) => i % 2 === 0);
  return [...geometric(power), ...between.slice(0, n - power)];
}

// T5's bucket for one relative position (key − query): exact near zero, logarithmic farther out, constant beyond maxDistance.
export function t5Bucket(relative, { bidirectional, nBuckets = 32, maxDistance = 128 }) {
  const buckets = bidirectional ? nBuckets / 2 : nBuckets;
  const offset = bidirectional && relative > 0 ? buckets : 0;
  const distance = bidirectional ? Math.abs(relative) : Math.max(-relative, 0);
  const exact = Math.floor(buckets / 2);
  if (distance < exact) return offset + distance;
  const far = (Math.log(distance / exact) / Math.log(maxDistance / exact)) * (buckets - exact);
  return offset + Math.min(exact + Math.floor(far), buckets - 1);
}

// (T, T) of booleans, true where query t may attend to key s.
export const causalMask = (T) => range(T).map((t) => range(T).map((s) => s <= t));

// q (T, K), k (S, K), v (S, K) -> output (T, K), weights (T, S). mask: true = may attend.
export function attention(q, k, v, { mask } = {}) {
  const scale = Math.sqrt(q[0].length);
  const weights = matmul(q, transpose(k)).map((row, t) =>
    softmax(row.map((score, s) => (mask && !mask[t][s] ? -Infinity : score / scale))),
  );
  return { weights, output: matmul(weights, v) };
}
