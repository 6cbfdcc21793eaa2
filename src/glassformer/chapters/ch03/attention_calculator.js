// One head of attention with every number visible: five words, from scores to outputs. See attention_calculator.py.
import { causalMask, matmul, range, softmax, transpose } from "../../widgets/kit/maths.js";
import { cells as cellsOf, fill, number, plain, products } from "../../widgets/kit/cells.js";
import { button, choice, frame, h, put, redrawing, toggle, write } from "../../widgets/kit/kit.js";
import { cividis, ink, tint } from "../../widgets/kit/plot.js";

const WORDS = ["my", "kingdom", "for", "a", "horse"];
const K = 2;
const ALL = range(WORDS.length);

// --- maths ----------------------------------------------------------------------------------------------------------

// Scores (T, S), weights (T, S) and outputs (T, K). mask "before": later words score −∞; "after": their weight is set to 0.
export function compute({ q, k, v, scaled, mask }) {
  const scale = scaled ? 1 / Math.sqrt(K) : 1;
  const past = causalMask(WORDS.length);
  const hidden = (t, s) => mask !== "none" && !past[t][s];
  const raw = matmul(q, transpose(k));
  const scores = raw.map((row, t) =>
    row.map((x, s) => (mask === "before" && hidden(t, s) ? -Infinity : x * scale)),
  );
  const weights = scores.map((row, t) => softmax(row).map((w, s) => (hidden(t, s) ? 0 : w)));
  return { scores, weights, outputs: matmul(weights, v) };
}

// The numbers that a number is computed from; for an input, the numbers that depend on it: [kind, row, column], … ; null: all.
export function related([kind, row, column]) {
  return {
    q: [["q", row, null], ["scores", row, null], ["weights", row, null], ["outputs", row, null]],
    k: [["k", row, null], ["scores", null, row]],
    v: [["weights", null, row], ["outputs", null, column]],
    scores: [["q", row, null], ["k", column, null]],
    weights: [["scores", row, null]],
    outputs: [["weights", row, null], ["v", null, column]],
  }[kind];
}

// --- words ----------------------------------------------------------------------------------------------------------

const sum = (xs) => xs.reduce((a, b) => a + b, 0);

const exact = (x) => number(x, 4); // with digits enough for readers who calculate it again

const pair = (row) => `(${row.map(plain).join(", ")})`;

const ordinal = ["first", "second"];

// The sum behind one number, and its meaning.
export function sentence(state, { scores, weights, outputs }) {
  const { q, k, v, scaled, mask, cell } = state;
  const [kind, row, column] = cell;
  const [word, other] = [`“${WORDS[row]}”`, `“${WORDS[column]}”`];
  const later = mask !== "none" && column > row;
  const total = sum(weights[row]);
  if (kind === "q") {
    return `The query of ${word} is ${pair(q[row])}. Its dot products with the five keys give a row of scores.`;
  }
  if (kind === "k") {
    return `The key of ${word} is ${pair(k[row])}. Its dot products with the five queries give a column of scores.`;
  }
  if (kind === "v") {
    const most = weights.map((each) => each[row]);
    const taker = most.indexOf(Math.max(...most));
    return (
      `The value of ${word} is ${pair(v[row])}. “${WORDS[taker]}” gives it a larger weight than the other words do, ` +
      `${number(most[taker])}.`
    );
  }
  if (kind === "scores") {
    const dots = products(q[row], k[column], plain, plain);
    const raw = sum(q[row].map((x, i) => x * k[column][i]));
    const score = scaled ? `${number(raw)}; divided by √2, this is ${number(raw / Math.sqrt(K))}` : number(raw);
    const covered = later && mask === "before" ? ` But ${other} comes later, so the mask sets the score to −∞.` : "";
    return `Score of ${word} with ${other}: ${dots} = ${score}.${covered}`;
  }
  if (kind === "weights") {
    const powers = scores[row].map(Math.exp);
    const share = `e^${exact(scores[row][column])} = ${number(powers[column])} out of ${number(sum(powers))}`;
    const lead = `Weight that ${word} gives to ${other}: `;
    if (!later) return `${lead}${share} in its row, which is ${number(weights[row][column])}.${short(word, total)}`;
    return mask === "before"
      ? `${lead}0, because its score is −∞ and e^−∞ is 0. The rest of the row still sums to ${number(total)}.`
      : `${lead}softmax gave it ${share}; then the mask set it to 0.${short(word, total)}`;
  }
  const handed = v.map((each) => each[column]);
  const parts = products(weights[row], handed, exact, plain);
  return (
    `Output of ${word}, ${ordinal[column]} number: ${parts} = ${number(outputs[row][column])}.` +
    short(word, total)
  );
}

const short = (word, total) =>
  total < 0.995 ? ` The weights of ${word} sum to ${number(total)}, not to 1, because the hidden words have kept their share.` : "";

// --- view -----------------------------------------------------------------------------------------------------------

const BLOCKS = {
  q: { title: "Queries", says: "what it looks for", edit: true, role: "query", size: K },
  k: { title: "Keys", says: "what it is", edit: true, role: "key", size: K },
  v: { title: "Values", says: "what it gives", edit: true, role: "value", size: K },
  scores: { title: "Scores", says: "query · key", size: WORDS.length, across: true },
  weights: { title: "Weights", says: "softmax of each row", size: WORDS.length, across: true, sums: true },
  outputs: { title: "Outputs", says: "weights · values", size: K },
};

function colour(kind, value) {
  if (value === -Infinity) return null;
  return kind === "weights" ? { background: cividis(value), color: ink(cividis.channels(value)) } : { background: tint(value / 4), color: "" };
}

const TRAITS = ["q", "k", "v", "scaled", "mask", "cell"];

function render({ model, el }) {
  const view = frame(el, {
    title: "One head of attention with all its numbers",
    hint: "Change a query, key or value: type a number, press ↑ or ↓, or drag sideways. Point at any other number to see how it is calculated. The tables round their results to two decimals.",
  });
  const begun = Object.fromEntries(["q", "k", "v"].map((name) => [name, model.get(name)]));
  const send = (changes) => {
    for (const [name, value] of Object.entries(changes)) model.set(name, value);
    model.save_changes();
  };
  const point = (kind, row, column) => {
    const [a, b, c] = model.get("cell");
    if (a !== kind || b !== row || c !== column) send({ cell: [kind, row, column] });
  };
  view.controls.classList.add("gf-in-a-row");
  view.controls.append(
    choice(model, "mask", {
      label: "Causal mask",
      options: [["none", "none"], ["before", "−∞ before softmax"], ["after", "0 after softmax"]],
    }),
    toggle(model, "scaled", { label: "Divide the scores by √d_head" }),
    h("div", { class: "gf-buttons" }, button("Restore the numbers", () => send(begun))),
  );
  view.line.classList.add("gf-stays");
  view.drawing.setAttribute("role", "group"); // role="img" must not contain inputs

  const make = cellsOf();
  const given = (kind, row, column) =>
    make.given({
      label: `${BLOCKS[kind].role} of ${WORDS[row]}, ${ordinal[column]} number`,
      get: () => model.get(kind)[row][column],
      set(value) {
        const table = model.get(kind).map((each) => [...each]);
        table[row][column] = value;
        send({ [kind]: table });
      },
      point: () => point(kind, row, column),
    });
  const result = (kind, row, column) =>
    make.result({
      point: () => point(kind, row, column),
      to: (down, right) => cells[kind][row + down]?.[column + right],
    });

  const cells = {};
  const what = {}; // the words after each block's title
  const sums = ALL.map(() => h("span", { class: "gf-sum" }));
  function block(kind) {
    const { title, says, edit, role, size, across, sums: summed } = BLOCKS[kind];
    cells[kind] = ALL.map((row) => range(size).map((column) => (edit ? given : result)(kind, row, column)));
    const heads = across ? [h("span"), WORDS.map((word) => h("span", { class: "gf-head" }, word))] : [];
    if (summed) heads.push(h("span", { class: "gf-head" }, "sum"));
    const columns = `auto repeat(${size}, minmax(0, 1fr))${summed ? " minmax(0, 1fr)" : ""}`;
    return h(
      "div",
      { class: `gf-block gf-block-${kind}`, role: "group", "aria-label": `${title}, ${says}` },
      h(
        "p",
        { class: "gf-panel-title" },
        h("strong", role ? { class: `gf-${role}` } : {}, title),
        (what[kind] = h("span", { class: "gf-what" }, ` ${says}`)),
      ),
      h(
        "div",
        { class: "gf-table-of", style: `grid-template-columns: ${columns}` },
        heads,
        cells[kind].map((row, t) => [
          h("span", { class: "gf-word" }, WORDS[t]),
          row,
          summed ? sums[t] : null,
        ]),
      ),
    );
  }
  view.drawing.append(
    h("div", { class: "gf-given" }, ["q", "k", "v"].map(block)),
    h("div", { class: "gf-made" }, ["scores", "weights", "outputs"].map(block)),
  );

  function draw() {
    const state = Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]));
    const made = compute(state);
    const [chosen, row, column] = state.cell;
    const lit = related(state.cell);
    const says = `${BLOCKS.scores.says}${state.scaled ? " / √2" : ""}`;
    write(what.scores, ` ${says}`);
    put(what.scores.closest("[role=group]"), { "aria-label": `${BLOCKS.scores.title}, ${says}` });
    for (const [kind, { edit, size }] of Object.entries(BLOCKS)) {
      for (const t of ALL) {
        for (const i of range(size)) {
          const cell = cells[kind][t][i];
          const here = kind === chosen && t === row && i === column;
          const light = lit.some(([k, r, c]) => k === kind && (r === null || r === t) && (c === null || c === i));
          put(cell, { class: `${edit ? "gf-number" : "gf-result"}${here ? " gf-here" : light ? " gf-lit" : ""}` });
          if (edit) {
            const value = state[kind][t][i];
            fill(cell, value);
            continue;
          }
          const value = made[kind][t][i];
          const hidden = state.mask !== "none" && i > t && size === WORDS.length;
          const { background, color } = (!(hidden && kind === "weights") && colour(kind, value)) || {};
          cell.style.background = background ?? "";
          cell.style.color = color ?? "";
          cell.classList.toggle("gf-hidden", hidden && !background);
          write(cell, number(value));
          const of = kind === "outputs" ? `output of ${WORDS[t]}, ${ordinal[i]} number` : `${kind.slice(0, -1)} of ${WORDS[t]} with ${WORDS[i]}`;
          put(cell, {
            "aria-label": `${of}: ${number(value)}`,
            tabindex: (chosen === kind ? here : t === 0 && i === 0) ? 0 : -1,
          });
        }
      }
    }
    made.weights.forEach((weights, t) => {
      const total = sum(weights);
      write(sums[t], number(total));
      sums[t].classList.toggle("gf-short", total < 0.995);
    });
    view.describe(
      () =>
        `One head of attention over the words ${WORDS.join(" ")}: their queries, keys and values, and the scores, weights ` +
        `and outputs computed from them. ${sentence(state, made)}`,
    );
    view.says(sentence(state, made));
    const named = (table) => table.map((each, t) => [WORDS[t], ...each.map((x) => number(x, 4))]);
    view.tables(() => [
      { caption: "Scores, a row for each query", headers: ["Query", ...WORDS], rows: () => named(made.scores) },
      {
        caption: "Weights, a row for each query",
        headers: ["Query", ...WORDS, "Sum"],
        rows: () => named(made.weights.map((each) => [...each, sum(each)])),
      },
      { caption: "Outputs", headers: ["Word", "First number", "Second number"], rows: () => named(made.outputs) },
    ]);
  }

  return redrawing(model, TRAITS, draw).stop;
}

export default { render };
