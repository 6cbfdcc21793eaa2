// One weight of a model that is being trained: its value and gradient as they change, and its slope measured in two ways.

import { button, fixed, grouped, h, hold, put, setAll, svg, uniqueId, write } from "../kit/kit.js";
import { range } from "../kit/maths.js";
import { legend, line, linear, paint, palette, tint, words } from "../kit/plot.js";

const [WIDTH, HEIGHT] = [320, 62];
const BOX = { left: 4, right: 316, top: 8, bottom: 54 };
const MOST = 300; // points of a line
const COLOURS = palette(tint, range(255).map((i) => i / 127 - 1));
const STRONGEST = 3; // root mean squares: what has the strongest colour

// A weight's name as a reader knows it: "block 0: W_o", "embedding", "head".
export function titleOf(name) {
  const [, block, part] = /^decoder\.blocks\.(\d+)\.(.*)\.weight$/.exec(name) ?? [];
  const others = {
    "token_embedding.weight": "token embedding",
    "decoder.embedding_norm.weight": "norm after the embedding",
    "decoder.norm.weight": "last norm",
    "unembedding.weight": "output head",
  };
  const parts = { norm_attention: "norm before attention", norm_feedforward: "norm before the feed-forward network", norm_q: "norm of the queries", norm_k: "norm of the keys" };
  const last = part?.split(".").at(-1);
  return part ? `block ${block}: ${parts[last] ?? last}` : others[name];
}

// In how many digits two slopes agree; Infinity if they are equal.
export function digits(a, b) {
  const off = Math.abs(a - b) / Math.max(Math.abs(a), Math.abs(b));
  return a === b ? Infinity : Math.max(0, Math.floor(-Math.log10(off)));
}

// A number in a form that suits its size, or with so many digits as its first and `digits` more.
export const scientific = (x, more = null) => {
  if (x === 0) return "0";
  const power = Math.floor(Math.log10(Math.abs(x)));
  return power < -3 || more !== null ? `${fixed(x / 10 ** power, more ?? 3)} × 10${superscript(power)}` : fixed(x, 5);
};
const superscript = (power) => [...String(power)].map((c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]).join("");

// What the two measurements say, in a sentence.
export function verdict({ gradient, difference }) {
  if (gradient === 0 && difference === 0) return "Both slopes are 0: at the moment, this weight has no effect on the beginning of the held-out text.";
  const same = digits(gradient, difference);
  const way = gradient > 0 ? "increases" : "decreases";
  const start = `On the beginning of the held-out text, making the weight a little larger ${way} the loss.`;
  if (same === 0) return `${start} The two slopes differ: the loss changes too little, or bends too much, for so large a nudge.`;
  return `${start} The two slopes agree in ${same === Infinity ? "all" : same} digit${same === 1 ? "" : "s"}.`;
}

function spark(title, style) {
  const path = svg("polyline", { class: style });
  const zero = line(BOX.left, 0, BOX.right, 0, "gf-grid");
  const ends = [words("", BOX.left, 9), words("", BOX.left, HEIGHT - 1)];
  const now = h("strong", {});
  const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "gf-panel", "aria-hidden": "true" }, zero, path, ends);
  const element = h("div", {}, h("p", { class: "gf-panel-title" }, `${title}: `, now), drawing);
  // `none` says why there is nothing to draw yet.
  function draw(points, none) {
    write(now, points.length ? scientific(points.at(-1)[1]) : none);
    const every = Math.ceil(points.length / MOST);
    const shown = points.filter((_, i) => i % every === 0 || i === points.length - 1);
    const values = shown.map(([, value]) => value);
    const [low, high] = [Math.min(0, ...values), Math.max(0, ...values)];
    const y = high > low ? linear([low, high], [BOX.bottom, BOX.top]) : () => BOX.bottom;
    const x = linear([shown[0]?.[0] ?? 0, Math.max((shown.at(-1)?.[0] ?? 0), (shown[0]?.[0] ?? 0) + 1)], [BOX.left, BOX.right]);
    put(path, { points: shown.map(([step, value]) => `${x(step).toFixed(1)},${y(value).toFixed(1)}`).join(" ") });
    put(zero, { y1: y(0), y2: y(0) });
    [high, low].forEach((end, i) => write(ends[i], points.length && end !== 0 ? scientific(end) : ""));
  }
  return { element, draw };
}

// A picture of a whole matrix, in which the reader points at a weight: choose(i, j) is called.
function picture(choose) {
  const canvas = h("canvas", { class: "gf-weight-picture", role: "img" });
  const ring = h("div", { class: "gf-weight-ring" });
  const key = h("div", {});
  const title = h("p", { class: "gf-panel-title" });
  const element = h("div", {}, title, h("div", { class: "gf-weight-space" }, h("div", { class: "gf-weight-matrix" }, canvas, ring)), key);
  let [rows, columns] = [1, 1];
  canvas.addEventListener("click", ({ clientX, clientY }) => {
    const { left, top, width, height } = canvas.getBoundingClientRect();
    const place = (share, count) => Math.min(count - 1, Math.max(0, Math.floor(share * count)));
    choose(place((clientY - top) / height, rows), place((clientX - left) / width, columns));
  });
  let painted = null;
  // numbers: all of the matrix, row by row; a vector is drawn as one row.
  function draw(numbers, shape, { i, j }, name) {
    [rows, columns] = shape.length === 1 ? [1, shape[0]] : shape;
    const [row, column] = shape.length === 1 ? [0, i] : [i, j];
    put(ring, { style: `left: ${(100 * (column + 0.5)) / columns}%; top: ${(100 * (row + 0.5)) / rows}%` });
    if (painted === numbers) return;
    painted = numbers;
    const most = STRONGEST * Math.sqrt(numbers.reduce((sum, x) => sum + x * x, 0) / numbers.length) || 1;
    const colour = (x) => COLOURS[127 + Math.round(127 * Math.min(1, Math.max(-1, x / most)))];
    paint(canvas, rows, columns, (r, c) => colour(numbers[r * columns + c]));
    put(canvas.parentElement, { style: `--columns: ${columns}; --rows: ${rows}` });
    put(canvas, { "aria-label": `The ${grouped(rows * columns)} weights of ${name} as colours, ${rows} by ${columns}` });
    write(title, `All ${rows > 1 ? `${rows} × ${columns}` : columns} weights. Point at one to follow it, or give its ${rows > 1 ? "row and column" : "row"}.`);
    hold(key, [most], () => legend((t) => tint(2 * t - 1), `≤ ${fixed(-most, 3)}`, `≥ ${fixed(most, 3)}`));
  }
  return { element, draw };
}

// `run()` is the training, or null.
export function weightPanel(model, run) {
  const select = h("select", { id: uniqueId() });
  const numbers = ["Row", "Column"].map((label) => {
    const input = h("input", { type: "number", class: "gf-input", min: 0, step: 1, id: uniqueId(), inputmode: "numeric" });
    return { input, element: h("div", { class: "gf-control" }, h("label", { class: "gf-label", for: input.id }, label), input) };
  });
  const [row, column] = numbers.map(({ input }) => input);
  const value = spark("Value", "gf-weight-value");
  const slope = spark("Gradient of the last step", "gf-weight-slope");
  const whole = picture((i, j) => {
    const isVector = shapes()[select.value].length === 1;
    [row.value, column.value] = isVector ? [j, 0] : [i, j];
    choose();
  });
  const measured = h("div", { class: "gf-weight-slopes" });
  const said = h("p", { class: "gf-weight-said", "aria-live": "polite" });
  const nudge = button("Nudge it", () => {
    put(nudge, { "aria-busy": "true" });
    run().nudge();
  });
  const element = h(
    "section",
    { class: "gf-lab-panel", "aria-label": "One weight" },
    h("p", { class: "gf-lab-heading" }, "One weight"),
    h("div", { class: "gf-weight-place" }, h("div", { class: "gf-control" }, h("label", { class: "gf-label", for: select.id }, "Matrix or vector"), select), numbers.map((each) => each.element)),
    h(
      "div",
      { class: "gf-weight-body" },
      whole.element,
      h("div", {}, value.element, slope.element),
      h("div", {}, h("div", { class: "gf-buttons" }, nudge), measured, said),
    ),
  );
  const shapes = () => run().begun.shapes;
  const clamped = (number, size) => Math.min(Math.max(0, Math.round(Number(number)) || 0), size - 1);
  // The chosen weight, or the nearest that this model has.
  function chosen([name, i, j] = model.get("weight")) {
    const found = name in shapes() ? name : Object.keys(shapes())[0];
    const shape = shapes()[found];
    return { name: found, i: clamped(i, shape[0]), j: shape.length === 2 ? clamped(j, shape[1]) : 0 };
  }
  function choose() {
    const { name, i, j } = chosen([select.value, row.value, column.value]);
    setAll(model, { weight: [name, i, j] });
    follow();
    draw();
  }
  for (const input of [select, row, column]) input.addEventListener("change", choose);

  function follow() {
    const weight = chosen();
    const shape = shapes()[weight.name];
    select.value = weight.name;
    put(row, { max: shape[0] - 1 });
    put(column, { max: (shape[1] ?? 1) - 1 });
    [row.value, column.value] = [weight.i, weight.j];
    column.disabled = shape.length === 1;
    run().follow(weight);
  }
  // To be called once a training has begun.
  function begin() {
    select.replaceChildren(...Object.keys(shapes()).map((name) => h("option", { value: name }, titleOf(name))));
    follow();
  }

  function draw() {
    const { followed, numbers: known, slopes } = run();
    const weight = followed?.weight;
    if (weight && known?.name === weight.name) whole.draw(known.numbers, shapes()[weight.name], weight, titleOf(weight.name));
    const points = followed?.points ?? [];
    const [, columns = 1] = weight ? shapes()[weight.name] : [];
    const now = known?.name === weight?.name ? known?.numbers[weight.i * columns + weight.j] : undefined;
    value.draw(points.map(([step, each]) => [step, each]), now === undefined ? "…" : scientific(now));
    slope.draw(points.map(([step, , gradient]) => [step, gradient]), run().isOver ? "not recorded for this weight" : "from the next step on");
    if (slopes) nudge.removeAttribute("aria-busy");
    hold(measured, [slopes?.step, slopes?.gradient, slopes?.difference, slopes?.value], () => slopes === null ? [] : slopesTable(slopes));
    write(said, slopes ? verdict(slopes) : "");
  }
  return { element, begin, draw };
}

function slopesTable({ step, nudge, gradient, losses, difference, value }) {
  const rows = [
    ["after step", grouped(step)],
    [`loss at ${fixed(value - nudge, 5)}`, losses[0].toFixed(10)],
    [`loss at ${fixed(value + nudge, 5)}`, losses[1].toFixed(10)],
    ["slope, finite difference", scientific(difference, 8)],
    ["slope, backward pass", scientific(gradient, 8)],
  ];
  return h("table", { class: "gf-readout" }, h("tbody", {}, rows.map(([label, number]) => h("tr", {}, h("th", { scope: "row" }, label), h("td", {}, number)))));
}
