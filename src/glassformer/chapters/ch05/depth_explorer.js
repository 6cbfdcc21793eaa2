// Sends a signal and a gradient through many random layers, in three kinds of networks. See depth_explorer.py.
import { mulberry32, range } from "../../widgets/kit/maths.js";
import { button, fixed, frame, h, hold, put, redrawing, slider, svg, write } from "../../widgets/kit/kit.js";
import { linear, xAxis, yAxis } from "../../widgets/kit/plot.js";

const WIDTH = 48;
const DEEPEST = 64;
const DRAWS = 3;
const EPS = 1e-5; // RMSNorm's default

const WAYS = {
  plain: { name: "Plain", rule: "x ← f(x)" },
  residual: { name: "Residual", rule: "x ← x + f(x)" },
  norms: { name: "Residual with norms", rule: "x ← x + f(norm(x))" },
};
const NAMES = Object.keys(WAYS);

// --- maths ----------------------------------------------------------------------------------------------------------

const meanSquare = (x) => {
  let sum = 0;
  for (let i = 0; i < WIDTH; i++) sum += x[i] * x[i];
  return sum / WIDTH;
};

const size = (x) => Math.sqrt(meanSquare(x));

// Three networks: a signal and a gradient of size 1, and 64 matrices in a row. A matrix has a row for each of its inputs; its
// entries have variance 2/D, which makes up for the half of the mean square that a ReLU removes.
export function networks(seed) {
  const uniform = mulberry32(seed);
  const fill = (count, scale) => {
    const numbers = new Float64Array(count);
    for (let i = 0; i < count; i++) numbers[i] = scale * (2 * uniform() - 1);
    return numbers;
  };
  const ofSizeOne = () => {
    const numbers = fill(WIDTH, 1);
    const by = size(numbers);
    return numbers.map((x) => x / by);
  };
  return range(DRAWS).map(() => ({
    signal: ofSizeOne(),
    gradient: ofSizeOne(),
    weights: fill(DEEPEST * WIDTH * WIDTH, Math.sqrt(3) * Math.sqrt(2 / WIDTH)),
  }));
}

// The output of one layer, and its backward pass. A ReLU passes on only positive inputs, so only the matrix rows of those
// inputs count. These are plain loops, because all of it is repeated for every movement of the slider.
function written(x, weights, start, gain) {
  const out = new Float64Array(WIDTH);
  for (let i = 0; i < WIDTH; i++) {
    const value = gain * x[i];
    if (value <= 0) continue;
    const row = start + i * WIDTH;
    for (let j = 0; j < WIDTH; j++) out[j] += value * weights[row + j];
  }
  return out;
}

function writtenBack(x, grad, weights, start, gain) {
  const back = new Float64Array(WIDTH);
  for (let i = 0; i < WIDTH; i++) {
    if (x[i] <= 0) continue;
    const row = start + i * WIDTH;
    let a = 0; // two sums, because one would have to wait for itself at every step
    let b = 0;
    for (let j = 0; j < WIDTH; j += 2) {
      a += grad[j] * weights[row + j];
      b += grad[j + 1] * weights[row + j + 1];
    }
    back[i] = gain * (a + b);
  }
  return back;
}

function add(to, x) {
  for (let i = 0; i < WIDTH; i++) to[i] += x[i];
  return to;
}

function divided(x, by) {
  const out = new Float64Array(WIDTH);
  for (let i = 0; i < WIDTH; i++) out[i] = x[i] / by;
  return out;
}

const divisor = (x) => Math.sqrt(meanSquare(x) + EPS);

// Backward through x / divisor(x), which gave `read`: a step along x itself changes only the divisor.
function normBack(read, by, grad) {
  let along = 0;
  for (let i = 0; i < WIDTH; i++) along += grad[i] * read[i];
  along /= WIDTH;
  for (let i = 0; i < WIDTH; i++) grad[i] = (grad[i] - read[i] * along) / by;
}

// One network's sizes at layers 0 … depth: { signal, gradient }.
function through({ signal, gradient, weights }, way, depth, gain) {
  const start = (layer) => layer * WIDTH * WIDTH;
  const reads = []; // what each layer reads
  const divisors = [];
  const sizes = { signal: [size(signal)], gradient: [size(gradient)] };
  let x = signal;
  for (let layer = 0; layer < depth; layer++) {
    divisors.push(divisor(x));
    reads.push(way === "norms" ? divided(x, divisors[layer]) : x);
    const out = written(reads[layer], weights, start(layer), gain);
    x = way === "plain" ? out : add(out, x);
    sizes.signal.push(size(x));
  }
  let grad = gradient;
  for (let layer = depth - 1; layer >= 0; layer--) {
    const back = writtenBack(reads[layer], grad, weights, start(layer), gain);
    if (way === "norms") normBack(reads[layer], divisors[layer], back);
    grad = way === "plain" ? back : add(back, grad);
    sizes.gradient.push(size(grad));
  }
  sizes.gradient.reverse();
  return sizes;
}

// { plain: { signal, gradient }, … }, each { low, median, high } over the three networks, at layers 0 … depth.
export function compute(drawn, { depth, gain }) {
  const spread = (sizes) => {
    const sorted = range(depth + 1).map((layer) => sizes.map((each) => each[layer]).sort((a, b) => a - b));
    const nth = (i) => sorted.map((each) => each[i]);
    return { low: nth(0), median: nth((DRAWS - 1) / 2), high: nth(DRAWS - 1) };
  };
  return Object.fromEntries(
    NAMES.map((way) => {
      const all = drawn.map((network) => through(network, way, depth, gain));
      return [way, { signal: spread(all.map((each) => each.signal)), gradient: spread(all.map((each) => each.gradient)) }];
    }),
  );
}

export const computeFrom = (seed, state) => compute(networks(seed), state);

// --- words ----------------------------------------------------------------------------------------------------------

const superscript = (n) => [...String(n)].map((c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c])).join("");

const power = (exponent) => (exponent === 0 ? "1" : exponent === 1 ? "10" : `10${superscript(exponent)}`);

// Two significant digits: 0.16, 8.4, 150, 1.7·10⁻⁷.
export function short(x) {
  const [digits, exponent] = x.toExponential(1).split("e").map(Number);
  if (exponent < -2 || exponent > 2) return `${fixed(digits, 1)}·${power(exponent)}`;
  return fixed(Number(x.toPrecision(2)), Math.max(0, 1 - exponent));
}

// For the signal at the end, and for the gradient at the beginning: it is below a thirtieth, above thirty times its size,
// or in between.
export function fate(signal, gradient) {
  const both = Math.sqrt(signal) * Math.sqrt(gradient);
  return both < 1 / 30 ? "vanishes" : both > 30 ? "explodes" : "survives";
}

const ends = ({ signal, gradient }) => [signal.median.at(-1), gradient.median[0]];

export function sentence({ depth, gain }, found) {
  const each = NAMES.map((way) => {
    const [signal, gradient] = ends(found[way]);
    return `${WAYS[way].name}: ${fate(signal, gradient)} (signal ×\u00a0${short(signal)}, gradient ×\u00a0${short(gradient)}).`;
  });
  return `Through ${depth} layers at gain ${fixed(gain, 2)}. ${each.join(" ")}`;
}

// --- drawing --------------------------------------------------------------------------------------------------------

const BOX = { left: 44, right: 330, top: 8, bottom: 196 };

// Decades from at most a tenth to at least ten, in steps such that at most seven fit.
export function decades(smallest, largest) {
  const low = Math.min(-1, Math.floor(Math.log10(smallest)));
  const high = Math.max(1, Math.ceil(Math.log10(largest)));
  const step = [1, 2, 5, 10].find((each) => Math.ceil(high / each) - Math.floor(low / each) <= 7);
  const first = Math.floor(low / step);
  return range(Math.ceil(high / step) - first + 1).map((i) => (first + i) * step + 0);
}

// The layers that the axis labels: both ends, and round numbers between them.
const named = (depth) => {
  const step = [1, 2, 4, 8, 16].find((each) => depth / each <= 5);
  return [...range(Math.ceil(depth / step - 0.4)).map((i) => i * step), depth];
};

// A chart of sizes by layer: its element, and a function that brings it to another state.
function chart(quantity) {
  const scene = svg("g");
  const marks = NAMES.map((way) => ({
    band: svg("polygon", { class: `gf-band gf-band-${way}` }),
    curve: svg("polyline", { class: `gf-curve gf-curve-${way}` }),
  }));
  const start = svg("circle", { r: 4.5, class: "gf-start" });
  const element = svg(
    "svg",
    { viewBox: "0 0 340 236", class: "gf-panel" },
    scene,
    marks.map(({ band }) => band),
    marks.map(({ curve }) => curve),
    start,
  );

  function follow(found, exponents, depth) {
    const x = linear([0, depth], [BOX.left, BOX.right]);
    const y = linear([exponents[0], exponents.at(-1)], [BOX.bottom, BOX.top]);
    const points = (sizes) => sizes.map((each, layer) => `${x(layer).toFixed(1)},${y(Math.log10(each)).toFixed(1)}`);
    hold(scene, [depth, ...exponents], () => [
      yAxis({ ...BOX, left: BOX.left - 5 }, { values: exponents, place: y, format: power, lines: true }),
      xAxis(BOX, { values: named(depth), place: x, title: "layer", ticks: true }),
    ]);
    NAMES.forEach((way, i) => {
      const { low, median, high } = found[way][quantity];
      put(marks[i].band, { points: [...points(low), ...points(high).reverse()].join(" ") });
      put(marks[i].curve, { points: points(median).join(" ") });
    });
    put(start, { cx: x(quantity === "signal" ? 0 : depth), cy: y(0) });
  }
  return { element, follow };
}

const panel = (name, says, { element }) =>
  h(
    "div",
    { class: "gf-panel-cell" },
    h("p", { class: "gf-panel-title" }, h("strong", {}, name), ` ${says}`),
    element,
  );

// What the lines mean, and their final values: one row for each kind of network.
function readout() {
  const cells = NAMES.map(() => [h("span", { class: "gf-came" }), h("span", { class: "gf-came" })]);
  const sample = (way) =>
    svg(
      "svg",
      { viewBox: "0 0 30 12", width: 30, height: 12, "aria-hidden": "true" },
      svg("line", { x1: 1, y1: 6, x2: 29, y2: 6, class: `gf-curve gf-curve-${way}` }),
    );
  const last = h("span", { class: "gf-came-head" });
  const element = h(
    "div",
    { class: "gf-ways" },
    h("span", { class: "gf-drawn" }, "Line: the median of three networks. Band: all three."),
    last,
    h("span", { class: "gf-came-head" }, "gradient at\u00a0layer\u00a00"),
    NAMES.map((way, i) => [
      h(
        "span",
        { class: "gf-way" },
        sample(way),
        h("span", {}, h("strong", {}, WAYS[way].name), " ", h("span", { class: "gf-rule" }, WAYS[way].rule)),
      ),
      cells[i],
    ]),
  );
  function follow(found, depth) {
    write(last, `signal at\u00a0layer\u00a0${depth}`);
    NAMES.forEach((way, i) => ends(found[way]).forEach((each, j) => write(cells[i][j], short(each))));
  }
  return { element, follow };
}

// --- view -----------------------------------------------------------------------------------------------------------

const TRAITS = ["depth", "gain", "seed"];

function render({ model, el }) {
  const view = frame(el, {
    title: "A signal in a deep stack: how much of it is left?",
    hint:
      "A layer f is a ReLU and a random matrix; size is the root mean square. Find the gain at which the plain stack survives, " +
      "then go a little further. Which of the three survives at every gain? (A stack “survives” here if signal and gradient, by their " +
      "geometric mean, end within a factor of 30 of where they began.)",
  });
  view.controls.classList.add("gf-depths");
  view.controls.append(
    slider(model, "depth", { label: "Layers", min: 2, max: DEEPEST }),
    slider(model, "gain", { label: "Gain of the matrices", min: 0.5, max: 2, step: 0.05, format: (x) => fixed(x, 2) }),
    h(
      "div",
      { class: "gf-redraw" },
      button("Draw new matrices", () => {
        model.set("seed", model.get("seed") + 1);
        model.save_changes();
      }),
    ),
  );
  const charts = { signal: chart("signal"), gradient: chart("gradient") };
  const came = readout();
  view.drawing.append(
    h(
      "div",
      { class: "gf-panels" },
      panel("Size of the signal", "(1 at the start, then forward →)", charts.signal),
      panel("Size of the gradient", "(1 at the last layer, then back ←)", charts.gradient),
    ),
    came.element,
  );

  let [seed, drawn] = [null, null];

  function draw() {
    const state = Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]));
    if (state.seed !== seed) [seed, drawn] = [state.seed, networks(state.seed)];
    const found = compute(drawn, state);
    const sizes = NAMES.flatMap((way) => Object.values(found[way]));
    const exponents = decades(
      Math.min(...sizes.flatMap(({ low }) => low)),
      Math.max(...sizes.flatMap(({ high }) => high)),
    );
    for (const { follow } of Object.values(charts)) follow(found, exponents, state.depth);
    came.follow(found, state.depth);
    view.says(sentence(state, found));
    view.describe(
      () =>
        "Two charts by layer on a logarithmic scale, the size of the signal and the size of the gradient, each with three " +
        `lines. ${sentence(state, found)}`,
    );
    view.tables(() => [
      {
        caption: "Root mean square at each layer, the median of three networks",
        headers: ["Layer", ...["signal", "gradient"].flatMap((each) => NAMES.map((way) => `${WAYS[way].name}: ${each}`))],
        rows: () =>
          range(state.depth + 1).map((layer) => [
            layer,
            ...["signal", "gradient"].flatMap((each) =>
              NAMES.map((way) => found[way][each].median[layer].toExponential(3).replace("-", "−")),
            ),
          ]),
      },
    ]);
  }

  return redrawing(model, TRAITS, draw).stop;
}

export default { render };
