// A small GPT in double precision: chapter 08's gpt(ids, weights, n_heads), line by line, and its loss. Weights are arrays of
// rows, with the names of glassformer.scratch. tests/chapters/ch09/test_nudge_explorer.py compares the two.
import { attention, causalMask, matmul, range, transpose } from "../../widgets/kit/maths.js";

const EPS = 1e-5;

const plus = (A, B) => A.map((row, t) => row.map((x, i) => x + B[t][i]));

function layerNorm(x, gain, shift) {
  return x.map((row) => {
    const mean = row.reduce((a, b) => a + b, 0) / row.length;
    const inverse = 1 / Math.sqrt(row.reduce((sum, each) => sum + (each - mean) ** 2, 0) / row.length + EPS);
    return row.map((each, i) => (each - mean) * inverse * gain[i] + shift[i]);
  });
}

function multiHead(x, W, nHeads) {
  const [q, k, v] = ["q", "k", "v"].map((name) => matmul(x, W(name)));
  const K = q[0].length / nHeads;
  const mask = causalMask(x.length);
  const heads = range(nHeads).map((head) => {
    const own = (rows) => rows.map((row) => row.slice(head * K, (head + 1) * K));
    return attention(own(q), own(k), own(v), { mask }).output;
  });
  return matmul(x.map((_, t) => heads.flatMap((rows) => rows[t])), W("o"));
}

const gelu = (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));

const linear = (x, W, bias) => matmul(x, W).map((row) => row.map((each, i) => each + bias[i]));

function block(x, of, nHeads) {
  const norm = (name, rows) => layerNorm(rows, of(`${name}.weight`), of(`${name}.bias`));
  const map = (name, rows) => linear(rows, of(`feedforward.${name}.weight`), of(`feedforward.${name}.bias`));
  const mixed = plus(x, multiHead(norm("norm_attention", x), (name) => of(`attention.W_${name}.weight`), nHeads));
  const wide = map("W_up", norm("norm_feedforward", mixed)).map((row) => row.map(gelu));
  return plus(mixed, map("W_down", wide));
}

// ids (T) -> logits (T, V).
export function gpt(ids, weights, nHeads) {
  const table = weights["token_embedding.weight"];
  let x = plus(ids.map((id) => table[id]), weights["decoder.positions.weight"]);
  for (let i = 0; `decoder.blocks.${i}.norm_attention.weight` in weights; i++) {
    x = block(x, (name) => weights[`decoder.blocks.${i}.${name}`], nHeads);
  }
  return matmul(layerNorm(x, weights["decoder.norm.weight"], weights["decoder.norm.bias"]), transpose(table));
}

// The average surprise, in nats, at what follows each word but the last.
export function loss(ids, weights, nHeads) {
  const logits = gpt(ids.slice(0, -1), weights, nHeads);
  const lost = logits.map((row, t) => {
    const most = Math.max(...row);
    return Math.log(row.reduce((sum, x) => sum + Math.exp(x - most), 0)) + most - row[ids[t + 1]];
  });
  return lost.reduce((a, b) => a + b, 0) / lost.length;
}
