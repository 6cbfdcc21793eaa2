// Four norms side by side, for one vector that the reader changes. See norm_comparer.py.
import { dot, mulberry32, range } from "../../widgets/kit/maths.js";
import { button, fixed, frame, h, hold, put, redrawing, slider, write } from "../../widgets/kit/kit.js";

const LARGEST = 1e6; // the largest number that the reader can enter
const EPS = [1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2];
const SAME = 1e-8; // a smaller difference is rounding

const NORMS = {
  layer: { name: "LayerNorm", by: "√(σ² + ε)" },
  sigma: { name: "ε outside", long: "the version with ε outside", by: "σ + ε" },
  unbiased: { name: "D − 1", long: "the version with D − 1", by: "√(s² + ε)" },
  rms: { name: "RMSNorm", by: "√(mean x² + ε)" },
};
const NAMES = Object.keys(NORMS);

const PRESETS = [
  ["[1, 0, 0, 0]", [1, 0, 0, 0]],
  ["Nearly equal", [3.002, 2.999, 3, 3.001, 2.998, 3]],
  ["Far from 0", [101, 98, 103, 99, 100, 102]],
];

// --- maths ----------------------------------------------------------------------------------------------------------

// For each norm: what is subtracted, what it divides by, and the result.
export function compute({ x, eps }) {
  const D = x.length;
  const mean = x.reduce((a, b) => a + b, 0) / D;
  const centred = x.map((each) => each - mean);
  const squares = dot(centred, centred);
  const made = (from, minus, by) => ({ minus, by, out: from.map((each) => each / by) });
  return {
    layer: made(centred, mean, Math.sqrt(squares / D + eps)),
    sigma: made(centred, mean, Math.sqrt(squares / D) + eps),
    unbiased: made(centred, mean, Math.sqrt(squares / (D - 1) + eps)),
    rms: made(x, 0, Math.sqrt(dot(x, x) / D + eps)),
  };
}

// Where two vectors differ most, and by how much.
export function farthest(a, b) {
  const apart = a.map((each, i) => Math.abs(each - b[i]));
  const most = Math.max(...apart);
  return { most, at: apart.indexOf(most) };
}

// How all numbers of one vector were changed to get the other: { added } or { times }, or null if in another way.
export function done(before, x) {
  const near = (a, b) => Math.abs(a - b) <= SAME * Math.max(1, Math.abs(a), Math.abs(b));
  if (before.length !== x.length) return {};
  const added = x[0] - before[0];
  if (x.every((each, i) => near(each, before[i] + added))) return { added: Number(added.toPrecision(9)) };
  const largest = farthest(before, before.map(() => 0)).at;
  const times = x[largest] / before[largest];
  if (x.every((each, i) => near(each, before[i] * times))) return { times: Number(times.toPrecision(9)) };
  return {};
}

// --- words ----------------------------------------------------------------------------------------------------------

const minus = (text) => text.replace("-", "−");

export function amount(x) {
  if (x < SAME) return "0";
  return x < 5e-4 ? minus(x.toExponential(1)) : fixed(x, 3);
}

const plain = (x) => minus(String(Number(x.toPrecision(4))));

const spoken = (name) => NORMS[name].long ?? NORMS[name].name;
const capital = (text) => text[0].toUpperCase() + text.slice(1);

const listed = (names) =>
  names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;

// What a change of all numbers did to the outputs; "" if it was no such change.
function noticed({ before, x, eps }, found) {
  const { added, times } = done(before, x);
  if (added === undefined && times === undefined) return "";
  const old = compute({ x: before, eps });
  const moved = NAMES.filter((name) => farthest(found[name].out, old[name].out).most >= SAME);
  const what =
    times !== undefined
      ? `You multiplied all numbers by ${plain(times)}`
      : `You ${added < 0 ? "subtracted" : "added"} ${plain(Math.abs(added))} ${added < 0 ? "from" : "to"} all numbers`;
  if (moved.length === 0) return `${what}. No output changed. `;
  const which = moved.length === NAMES.length ? "All four outputs" : `Only ${listed(moved.map(spoken))}`;
  const most = Math.max(...moved.map((name) => farthest(found[name].out, old[name].out).most));
  return `${what}. ${which} changed, by at most ${amount(most)}${times > 0 ? ". The reason is ε" : ""}. `;
}

// The distance of each other norm from LayerNorm, and where it is largest, the most distant norm first.
export const apart = (found) =>
  NAMES.slice(1)
    .map((name) => ({ name, ...farthest(found[name].out, found.layer.out) }))
    .sort((a, b) => b.most - a.most);

const seen = (most) => most >= 5e-4; // in the third decimal

export function sentence(state, found) {
  const change = noticed(state, found);
  if (change) return change.trim();
  const others = apart(found).filter(({ most }) => most >= SAME);
  if (others.length === 0) return "All four norms give the same result.";
  const [{ name, most, at }] = others;
  const where = seen(most) ? `, by ${amount(most)} at feature ${at}` : `, by only ${amount(most)}`;
  const close = NAMES.slice(1).filter((each) => !others.some((other) => other.name === each && seen(other.most)));
  const agree = close.length && seen(most) ? ` ${capital(listed(close.map(spoken)))} agree${close.length === 1 ? "s" : ""} with LayerNorm to three decimals.` : "";
  return `${capital(spoken(name))} is farthest from LayerNorm${where}.${agree}`;
}

// --- view -----------------------------------------------------------------------------------------------------------

const TRAITS = ["x", "before", "eps"];

// The place of a number on a bar from −√D to √D: if the mean square of D numbers is at most 1, none lies outside.
const share = (value, D) => `${(50 + (50 * value) / Math.sqrt(D)).toFixed(2)}%`;

// A number and its bar, which starts at the centre; a thin line marks its previous end.
function cell() {
  const [text, bar, was] = ["gf-normed-value", "gf-normed-bar", "gf-normed-was"].map((style) => h("span", { class: style }));
  const element = h("div", { class: "gf-normed" }, text, h("div", { class: "gf-normed-track" }, bar, was));
  function show(value, old, right, D, ringed) {
    const [from, to] = value < 0 ? [share(value, D), "50%"] : ["50%", share(value, D)];
    write(text, fixed(value, 3));
    put(bar, { style: `left: ${from}; right: calc(100% - ${to})` });
    put(was, { style: old === null ? "display: none" : `left: ${share(old, D)}` });
    put(element, { class: `gf-normed${seen(value - right) || seen(right - value) ? " gf-apart" : ""}${ringed ? " gf-ringed" : ""}` });
  }
  return { element, show };
}

function render({ model, el }) {
  const view = frame(el, {
    title: "Four norms of one vector: which ones react?",
    hint:
      "Change a number, or start from another vector. Then add the same number to all of them, or multiply them all. Before you do, " +
      "say which columns will change.",
  });
  const send = (changes) => {
    for (const [name, value] of Object.entries(changes)) model.set(name, value);
    model.save_changes();
  };

  const toAll = [
    ["+ 10", (x) => x + 10],
    ["− 10", (x) => x - 10],
    ["× 10", (x) => x * 10],
    ["÷ 10", (x) => x / 10],
  ].map(([label, step]) => {
    const changed = () => model.get("x").map((x) => Number(step(x).toPrecision(12)));
    const act = () => fits() && send({ before: model.get("x"), x: changed() });
    const fits = () => changed().every((x) => Math.abs(x) <= LARGEST);
    return { element: button(label, act), fits };
  });
  const random = () => {
    const uniform = mulberry32(model.get("drawn"));
    send({ before: [], x: range(6).map(() => Math.round(60 * uniform() - 30) / 10), drawn: model.get("drawn") + 1 });
  };
  const start = (label, x) => button(label, () => send({ before: [], x }));
  const group = (label, buttons) =>
    h("div", { class: "gf-buttons", role: "group", "aria-label": label }, h("span", { class: "gf-label" }, label), buttons);
  view.controls.append(
    group("Start from", [PRESETS.map(([label, x]) => start(label, x)), button("Random", random)]),
    group("All numbers", toAll.map(({ element }) => element)),
    slider(model, "eps", {
      label: "ε",
      values: EPS,
      format: (eps) => (eps < 1e-3 ? minus(eps.toExponential(0)) : String(eps)),
    }),
  );
  view.drawing.setAttribute("role", "group"); // role="img" must not contain inputs

  function change(i, value) {
    if (!Number.isFinite(value)) return;
    const x = [...model.get("x")];
    const inRange = Math.min(Math.max(value, -LARGEST), LARGEST);
    if (x[i] === inRange) return;
    x[i] = inRange;
    send({ before: [], x });
  }

  const input = (i) => {
    const element = h("input", {
      type: "number",
      class: "gf-feature",
      min: -LARGEST,
      max: LARGEST,
      step: "any",
      autocomplete: "off",
      "aria-label": `feature ${i}`,
      oninput: () => change(i, element.value === "" ? Number.NaN : Number(element.value)),
      onblur: () => (element.value = model.get("x")[i]),
    });
    return element;
  };

  const grid = h("div", { class: "gf-four-norms" });
  const note = h("p", { class: "gf-marks" });
  view.drawing.append(grid, note);
  let rows = []; // for each feature: its input, and a cell for each norm
  const feet = { minus: NAMES.map(() => h("span")), by: NAMES.map(() => h("span")), moved: NAMES.map(() => h("span")) };
  const foot = (label, cells) => [
    h("span", { class: "gf-foot gf-foot-name" }, label),
    cells.map((each) => h("span", { class: "gf-foot" }, each)),
  ];
  const build = (D) => {
    rows = range(D).map((i) => ({ given: input(i), cells: NAMES.map(() => cell()) }));
    return [
      h("span", { class: "gf-norm-head" }, h("strong", {}, "x")),
      NAMES.map((name) =>
        h("span", { class: "gf-norm-head" }, h("strong", {}, NORMS[name].name), h("span", { class: "gf-by" }, NORMS[name].by)),
      ),
      rows.map(({ given, cells }) => [given, cells.map(({ element }) => element)]),
      foot("minus", feet.minus),
      foot("divided by", feet.by),
      foot("changed by", feet.moved),
    ];
  };

  function draw() {
    const state = Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]));
    const { x, eps } = state;
    const before = state.before.length === x.length ? state.before : null;
    const found = compute(state);
    const old = before && compute({ x: before, eps });
    hold(grid, [x.length], () => build(x.length));
    const ringed = apart(found).filter(({ most }) => seen(most));
    rows.forEach(({ given, cells }, i) => {
      if (Number(given.value) !== x[i] || (given.value === "" && given !== document.activeElement)) given.value = x[i];
      NAMES.forEach((name, j) => {
        const ring = ringed.some((each) => each.name === name && each.at === i);
        cells[j].show(found[name].out[i], old && old[name].out[i], found.layer.out[i], x.length, ring);
      });
    });
    NAMES.forEach((name, j) => {
      write(feet.minus[j], name === "rms" ? "nothing" : plain(found[name].minus));
      write(feet.by[j], plain(found[name].by));
      write(feet.moved[j], old ? amount(farthest(found[name].out, old[name].out).most) : "–");
    });
    for (const { element, fits } of toAll) element.disabled = !fits();
    write(
      note,
      "μ and σ² are the mean and variance of x; s² is the variance that divides by D − 1. " +
        `Bold: different from LayerNorm. Ring: where a column differs most from it.${old ? " Thin line: before your change." : ""}`,
    );
    view.says(sentence(state, found));
    view.describe(() => `Four norms of the vector ${x.map(plain).join(", ")}, feature by feature. ${sentence(state, found)}`);
    view.tables(() => [
      {
        caption: "The output of each norm",
        headers: ["Feature", "x", ...NAMES.map((name) => NORMS[name].name)],
        rows: () => x.map((each, i) => [i, minus(String(each)), ...NAMES.map((name) => fixed(found[name].out[i], 6))]),
      },
      {
        caption: "The divisor of each norm",
        headers: ["", ...NAMES.map((name) => NORMS[name].name)],
        rows: () => [
          ["divided by", ...NAMES.map((name) => NORMS[name].by)],
          ["which is", ...NAMES.map((name) => minus(String(Number(found[name].by.toPrecision(7)))))],
          ["farthest from LayerNorm by", ...NAMES.map((name) => amount(farthest(found[name].out, found.layer.out).most))],
        ],
      },
    ]);
  }

  return redrawing(model, TRAITS, draw).stop;
}

export default { render };
