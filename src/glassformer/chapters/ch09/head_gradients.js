// One head of attention, forward and backward: every number with its gradient. See head_gradients.py.
import { cells as cellsOf, fill, number, plain, products } from "../../widgets/kit/cells.js";
import { attention, causalMask, dot, matmul, range, transpose } from "../../widgets/kit/maths.js";
import { button, choice, frame, h, put, redrawing, toggle, write } from "../../widgets/kit/kit.js";
import { cividis, ink, tint } from "../../widgets/kit/plot.js";

const WORDS = ["for", "a", "horse", "!"];
const K = 3;
const LARGEST = 3; // the largest number that the reader can enter
const ALL = range(WORDS.length);
const ROOT = Math.sqrt(K);

// --- maths ----------------------------------------------------------------------------------------------------------

// Every number of the head and its gradient, for the sum of all outputs or for one output, "3 0". Masked scores are −∞.
export function compute({ q, k, v, mask, raised }) {
  const seen = causalMask(WORDS.length).map((row) => row.map((past) => past || !mask));
  const { weights, output: outputs } = attention(q, k, v, { mask: seen });
  const scores = matmul(q, transpose(k)).map((row, t) => row.map((x, s) => (seen[t][s] ? x / ROOT : -Infinity)));
  const upstream = ALL.map((t) => range(K).map((i) => Number(raised === "all" || raised === `${t} ${i}`)));
  const ofWeights = matmul(upstream, transpose(v));
  const ofScores = weights.map((row, t) => row.map((w, s) => w * (ofWeights[t][s] - dot(row, ofWeights[t]))));
  const scaled = (rows) => rows.map((row) => row.map((x) => x / ROOT));
  return {
    q,
    k,
    v,
    scores,
    weights,
    outputs,
    grad_outputs: upstream,
    grad_v: matmul(transpose(weights), upstream),
    grad_weights: ofWeights,
    grad_scores: ofScores,
    grad_q: scaled(matmul(ofScores, k)),
    grad_k: scaled(matmul(transpose(ofScores), q)),
  };
}

// The numbers that a number is computed from: [kind, row, column], … ; null: all.
export function madeOf([kind, row, column]) {
  return {
    scores: [["q", row, null], ["k", column, null]],
    weights: [["scores", row, null]],
    outputs: [["weights", row, null], ["v", null, column]],
    grad_v: [["weights", null, row], ["grad_outputs", null, column]],
    grad_weights: [["grad_outputs", row, null], ["v", column, null]],
    grad_scores: [["weights", row, null], ["grad_weights", row, null]],
    grad_q: [["grad_scores", row, null], ["k", null, column]],
    grad_k: [["grad_scores", null, row], ["q", null, column]],
  }[kind] ?? [];
}

export const isMadeOf = (cell, [kind, row, column]) =>
  madeOf(cell).some(([k, r, c]) => k === kind && (r === null || r === row) && (c === null || c === column));

// --- words ----------------------------------------------------------------------------------------------------------

const KINDS = {
  q: { title: "Queries", one: "query", edit: true, size: K },
  scores: { title: "Scores", one: "score", size: WORDS.length },
  k: { title: "Keys", one: "key", edit: true, size: K },
  weights: { title: "Weights", one: "weight", size: WORDS.length },
  v: { title: "Values", one: "value", edit: true, size: K },
  outputs: { title: "Outputs", one: "output", size: K },
};

const two = (x) => number(x, Math.abs(x) < 9.995 ? 2 : 1);
const column = (rows, i) => rows.map((row) => row[i]);
const bracketed = (x) => (x < 0 ? `(${number(x)})` : number(x));

const nameOf = (kind, row, i) =>
  KINDS[kind].size === K ? `${KINDS[kind].one} of “${WORDS[row]}”, number ${i}` : `${KINDS[kind].one} of “${WORDS[row]}” with “${WORDS[i]}”`;

// Which quantity the gradients belong to.
export function target(raised) {
  if (raised === "all") return "the sum of all outputs";
  const [row, i] = raised.split(" ");
  return `the ${nameOf("outputs", row, i)}`;
}

const capital = (text) => text[0].toUpperCase() + text.slice(1);

// The arithmetic behind one number, and its meaning.
export function sentence({ cell: [kind, row, i], mask, raised }, found) {
  const { q, k, v, scores, weights, grad_outputs: up, grad_weights: dw, grad_scores: ds } = found;
  const value = found[kind][row][i];
  const grad = kind.startsWith("grad_");
  const lead = grad ? `Gradient of the ${nameOf(kind.slice(5), row, i)}: ` : `${capital(nameOf(kind, row, i))}: `;
  const hidden = mask && KINDS[grad ? kind.slice(5) : kind].size !== K && i > row;
  const through = (a, b, first, second, scale) => {
    const total = dot(a, b);
    const sum = products(a, b, first, second);
    return `${sum} = ${scale ? `${number(total)}, and divided by √${K} ${number(total / ROOT)}` : number(total)}.`;
  };
  switch (kind) {
    case "q":
    case "k":
    case "v": {
      const slope = found[`grad_${kind}`][row][i];
      return (
        `${lead}${plain(value)}. Its gradient is ${number(slope, 3)}: make it 0.1 larger, and ${target(raised)} ` +
        (slope === 0 ? "stays as it is." : `${slope < 0 ? "falls" : "grows"} by about ${number(Math.abs(slope) / 10, 3)}.`)
      );
    }
    case "scores":
      return `${lead}${through(q[row], k[i], plain, plain, true)}${hidden ? ` But “${WORDS[i]}” comes later: the mask makes it −∞.` : ""}`;
    case "weights": {
      const powers = scores[row].map(Math.exp);
      const total = powers.reduce((a, b) => a + b, 0);
      if (hidden) return `${lead}0, since its score is −∞ and e^−∞ is 0.`;
      return `${lead}e^${number(scores[row][i])} = ${number(powers[i])} of ${number(total)} in its row, which is ${number(value)}.`;
    }
    case "outputs":
      return `${lead}${through(weights[row], column(v, i), number, plain)}`;
    case "grad_outputs":
      return `${lead}${value}. ${value ? "This is where the backward pass begins" : "This output is not chosen"}: what is to be raised is ${target(raised)}.`;
    case "grad_v":
      return `${lead}${through(column(weights, row), column(up, i), number, plain)} Each query passes back its gradient times its weight for this value.`;
    case "grad_weights":
      return `${lead}gradient of the output times the value, ${through(up[row], v[i], plain, plain)}${hidden ? " The mask does not touch this; it keeps the weight at 0." : ""}`;
    case "grad_scores": {
      const average = dot(weights[row], dw[row]);
      const [w, own] = [weights[row][i], dw[row][i]];
      const written = `w·(grad − Σ w·grad) = ${number(w)}·(${number(own)} − ${bracketed(average)}) = ${number(value)}.`;
      return (
        `${lead}${written} ` +
        (hidden
          ? "Its weight is 0, so this is exactly 0: the backward pass needs no mask."
          : `Σ w·grad = ${products(weights[row], dw[row], number, number)} = ${number(average)} is the row's weighted average.`)
      );
    }
    case "grad_q":
      return `${lead}${through(ds[row], column(k, i), number, plain, true)} Each score passes back its gradient times its key.`;
    default:
      return `${lead}${through(column(ds, row), column(q, i), number, plain, true)} Each score passes back its gradient times its query.`;
  }
}

// --- view -----------------------------------------------------------------------------------------------------------

// A weight's colour, or a signed number's: the further from 0, the further from the colour of the page, light or dark.
function colour(kind, value) {
  if (value === -Infinity) return "";
  if (kind === "weights") return value < 0.005 ? "" : `background: ${cividis(value)}; color: ${ink(cividis.channels(value))}`;
  return `background: ${tint(kind.startsWith("grad_") ? value : value / 3)}`;
}

const TRAITS = ["q", "k", "v", "mask", "raised", "cell"];

function render({ model, el }) {
  const view = frame(el, {
    title: "One head, forward and backward",
    hint:
      "Choose which output should grow. The gradient of each number is on its right. Point at any number to see how it is computed. Change a " +
      "query, key or value, and see whether the output follows.",
  });
  const begun = Object.fromEntries(["q", "k", "v"].map((name) => [name, model.get(name)]));
  const send = (changes) => {
    for (const [name, value] of Object.entries(changes)) model.set(name, value);
    model.save_changes();
  };
  const outputs = ALL.flatMap((t) => range(K).map((i) => [`${t} ${i}`, `output of ${WORDS[t]}, number ${i}`]));
  view.controls.append(
    choice(model, "raised", { label: "Raise", options: [["all", "all outputs together"], ...outputs] }),
    toggle(model, "mask", { label: "Causal mask" }),
    h("div", { class: "gf-buttons" }, button("Restore the numbers", () => send(begun))),
  );
  view.drawing.setAttribute("role", "group"); // role="img" must not contain inputs

  const make = cellsOf({ largest: LARGEST });
  const cells = {};
  const point = (kind, row, i) => () => {
    if (model.get("cell").join() !== [kind, row, i].join()) send({ cell: [kind, row, i] });
  };
  const given = (kind, row, i) =>
    make.given({
      label: nameOf(kind, row, i),
      get: () => model.get(kind)[row][i],
      set: (value) => send({ [kind]: model.get(kind).map((each, t) => (t === row ? each.with(i, value) : each)) }),
      point: point(kind, row, i),
    });
  const result = (kind, row, i) =>
    make.result({ point: point(kind, row, i), to: (down, right) => cells[kind][row + down]?.[i + right] });

  const block = (kind) => {
    const { title, edit, size } = KINDS[kind];
    const grad = `grad_${kind}`;
    cells[kind] = ALL.map((row) => range(size).map((i) => (edit ? given : result)(kind, row, i)));
    cells[grad] = ALL.map((row) => range(size).map((i) => result(grad, row, i)));
    const heads = size === K ? range(K) : WORDS;
    const gap = () => h("span");
    return h(
      "div",
      { class: `gf-block gf-head-${kind}${size > K ? " gf-four" : ""}`, role: "group", "aria-label": `${title} and their gradients` },
      h("p", { class: "gf-panel-title gf-there-and-back" }, h("strong", {}, title), h("span", {}, "gradients")),
      h(
        "div",
        { class: "gf-table-of", style: `grid-template-columns: 2.3em repeat(${size}, minmax(0, 1fr)) 6px repeat(${size}, minmax(0, 1fr))` },
        h("span"),
        [...heads, null, ...heads].map((text) => (text === null ? gap() : h("span", { class: "gf-head" }, text))),
        ALL.map((t) => [h("span", { class: "gf-word" }, WORDS[t]), cells[kind][t], gap(), cells[grad][t]]),
      ),
    );
  };
  view.drawing.append(
    h("div", { class: "gf-six" }, Object.keys(KINDS).map(block)),
    h(
      "p",
      { class: "gf-legend" },
      h("span", { class: "gf-scale" }, h("span", { class: "gf-sample gf-here" }), "the chosen number"),
      h("span", { class: "gf-scale" }, h("span", { class: "gf-sample gf-lit" }), "what it is computed from"),
      h("span", { class: "gf-scale" }, h("span", { class: "gf-sample gf-reached" }), "what is computed from it"),
    ),
  );

  function draw() {
    const state = Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]));
    const found = compute(state);
    const [chosen, row, column_] = state.cell;
    for (const [kind, rows] of Object.entries(cells)) {
      const of = kind.replace("grad_", "");
      const edit = kind === of && KINDS[of].edit;
      rows.forEach((each, t) =>
        each.forEach((cell, i) => {
          const here = kind === chosen && t === row && i === column_;
          const mark = here ? " gf-here" : isMadeOf(state.cell, [kind, t, i]) ? " gf-lit" : isMadeOf([kind, t, i], state.cell) ? " gf-reached" : "";
          const value = found[kind][t][i];
          if (edit) {
            put(cell, { class: `gf-number${mark}` });
            fill(cell, value);
            return;
          }
          const hidden = state.mask && KINDS[of].size !== K && i > t && kind !== "grad_weights";
          put(cell, {
            class: `gf-result${hidden ? " gf-hidden" : ""}${mark}`,
            style: hidden ? "" : colour(kind, value),
            "aria-label": `${kind === of ? "" : "gradient of the "}${nameOf(of, t, i)}: ${number(value)}`,
            tabindex: (kind === chosen ? here : t === 0 && i === 0) ? 0 : -1,
          });
          write(cell, two(value));
        }),
      );
    }
    const said = sentence(state, found);
    view.says(said);
    view.describe(
      () =>
        `Queries, keys, values, scores, weights and outputs of ${WORDS.join(" ")}, each beside its gradient; the gradients are those of ` +
        `${target(state.raised)}. ${said}`,
    );
    view.tables(() =>
      Object.keys(cells).map((kind) => {
        const of = kind.replace("grad_", "");
        const heads = KINDS[of].size === K ? range(K) : WORDS;
        return {
          caption: kind === of ? KINDS[of].title : `Gradients of the ${KINDS[of].title.toLowerCase()}`,
          headers: ["Word", ...heads],
          rows: () => found[kind].map((each, t) => [WORDS[t], ...each.map((x) => number(x, 4))]),
        };
      }),
    );
  }

  return redrawing(model, TRAITS, draw).stop;
}

export default { render };
