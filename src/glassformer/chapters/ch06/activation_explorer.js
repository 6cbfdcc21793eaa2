// Activation functions: the curve, its slope, and how a gate combines two numbers. See activation_explorer.py.
import { range } from "../../widgets/kit/maths.js";
import { choice, fixed, frame, grouped, h, put, redrawing, slider, svg, write } from "../../widgets/kit/kit.js";
import { diverging, legend, line, linear, paint, palette, xAxis, yAxis } from "../../widgets/kit/plot.js";

const FURTHEST = 4; // the range of the curves' input, from zero
const WIDEST = 3; // the range of a gated neuron's two numbers
const LARGEST = 9; // the value of a gated neuron with the strongest colour: 3 · silu(3) is 8.6
const STEP = 0.05;

// --- maths ----------------------------------------------------------------------------------------------------------

// The error function, to about 1e-15. All terms of this series have the sign of x, so nothing cancels; beyond 6 the result
// is ±1 to the last digit.
export function erf(x) {
  if (Math.abs(x) > 6) return Math.sign(x);
  let term = x;
  let sum = x;
  for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n++) {
    term *= (2 * x * x) / (2 * n + 1);
    sum += term;
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}

const sigmoid = (x) => 1 / (1 + Math.exp(-x));
const normalCdf = (x) => (1 + erf(x / Math.SQRT2)) / 2;
const normalDensity = (x) => Math.exp((-x * x) / 2) / Math.sqrt(2 * Math.PI);
const [SCALE, CUBIC] = [Math.sqrt(8 / Math.PI), 0.044715]; // of the tanh form, x · σ(SCALE · (x + CUBIC · x³))

// The value and the slope of each function.
const CURVES = {
  relu: { name: "ReLU", value: (x) => Math.max(x, 0), slope: (x) => (x > 0 ? 1 : 0) },
  gelu: {
    name: "GELU (exact)",
    value: (x) => x * normalCdf(x),
    slope: (x) => normalCdf(x) + x * normalDensity(x),
  },
  gelu_tanh: {
    name: "GELU (tanh)",
    value: (x) => x * sigmoid(SCALE * (x + CUBIC * x ** 3)),
    slope(x) {
      const s = sigmoid(SCALE * (x + CUBIC * x ** 3));
      return s + x * s * (1 - s) * SCALE * (1 + 3 * CUBIC * x * x);
    },
  },
  silu: {
    name: "SiLU",
    value: (x) => x * sigmoid(x),
    slope: (x) => sigmoid(x) * (1 + x * (1 - sigmoid(x))),
  },
};
const NAMES = Object.keys(CURVES);

export const activated = (x) => ({
  values: Object.fromEntries(NAMES.map((name) => [name, CURVES[name].value(x)])),
  slopes: Object.fromEntries(NAMES.map((name) => [name, CURVES[name].slope(x)])),
});

export const gated = (gate, up) => ({
  product: CURVES.silu.value(gate) * up,
  by_gate: CURVES.silu.slope(gate) * up,
  by_up: CURVES.silu.value(gate),
  relu: CURVES.relu.value(up),
});

// --- words ----------------------------------------------------------------------------------------------------------

const two = (x) => fixed(x, 2);

export function curveSentence({ curve, x }) {
  const { values, slopes } = activated(x);
  const slope = slopes[curve];
  const steepness =
    Math.abs(slope) < 0.005
      ? `${fixed(slope, 3)}, nearly flat`
      : `${fixed(slope, 3)}: a step of 0.1 to the right changes the value by about ${fixed(slope / 10, 3)}`;
  const corner = curve === "relu" && x === 0 ? " At its corner the slope jumps from 0 to 1; the package takes 0." : "";
  const other = { gelu: "gelu_tanh", gelu_tanh: "gelu" }[curve];
  const apart = other
    ? ` ${CURVES[other].name} gives ${fixed(values[other], 5)}, a difference of ${fixed(Math.abs(values.gelu - values.gelu_tanh), 5)}.`
    : "";
  return `${CURVES[curve].name} of ${two(x)} is ${fixed(values[curve], other ? 5 : 3)}. Its slope there is ${steepness}.${corner}${apart}`;
}

export function gateSentence({ gate, up }) {
  const { product, by_gate, by_up, relu } = gated(gate, up);
  return (
    `The gate gives silu(${two(gate)}) = ${two(by_up)}, and the other number is ${two(up)}. Their product is ${two(product)}. ` +
    `Each further unit of the other number adds ${two(by_up)}, and along the gate the slope is ${two(by_gate)}. ` +
    `ReLU uses a single number: it turns ${two(up)} into ${two(relu)}.`
  );
}

// --- drawings -------------------------------------------------------------------------------------------------------

const signed = (x) => String(x).replace("-", "−");
const round = (pixels) => Math.round(pixels * 100) / 100;

// Where the name of each curve is, and the point of the curve that a thin line connects it with.
const LABELS = {
  value: [
    ["ReLU", ["relu"], -3.2, 0.5],
    ["SiLU", ["silu"], -2.4, -0.66, -1.9],
    ["both GELUs", ["gelu", "gelu_tanh"], -0.5, -0.66, -0.75],
  ],
  slope: [
    ["ReLU", ["relu"], -3.2, 0.12],
    ["SiLU", ["silu"], 1.7, 0.55, 0.9],
    ["both GELUs", ["gelu", "gelu_tanh"], 1.6, 1.32, 1.4],
  ],
};

// A panel of curves: one line for each function, all pale except the chosen one, and a point on that one.
function curvePanel({ low, high, height, of, unit, style }) {
  const box = { left: 36, right: 344, top: 8, bottom: height - 38 };
  const place = { x: linear([-FURTHEST, FURTHEST], [box.left, box.right]), y: linear([low, high], [box.bottom, box.top]) };
  const at = (x, y) => `${round(place.x(x))} ${round(place.y(y))}`;
  const whole = range(2 * FURTHEST + 1).map((i) => i - FURTHEST);
  const xs = range(201).map((i) => (i / 100 - 1) * FURTHEST);
  const trace = (f) => `M${xs.map((x) => at(x, f(x))).join("L")}`;
  // ReLU's slope is a step, and is drawn as one
  const d = (name) => (of === "slope" && name === "relu" ? `M${at(-FURTHEST, 0)}L${at(0, 0)}M${at(0, 1)}L${at(FURTHEST, 1)}` : trace(CURVES[name][of]));
  const paths = Object.fromEntries(NAMES.map((name) => [name, svg("path", { d: d(name), class: style })]));
  const names = LABELS[of].map(([text, shown, x, y, to = x]) => {
    const [towards, from] = [CURVES[shown[0]][of](to), place.y(y)];
    const label = svg("text", { x: place.x(x), y: from + 4, class: "gf-curve-name" }, text);
    const lead = line(place.x(to), place.y(towards), place.x(to === x ? x : (x + to) / 2), from + (towards > y ? -8 : 8), "gf-lead");
    return { shown, label, lead };
  });
  const guide = line(0, box.top, 0, box.bottom, "gf-at");
  const spot = svg("circle", { r: 5.5, class: "gf-on-curve" });
  const above = svg("g");
  const ticks = range(Math.floor((high - low) / unit) + 1).map((i) => Math.ceil(low / unit) * unit + i * unit).filter((y) => y <= high);
  const element = svg(
    "svg",
    { viewBox: `0 0 352 ${height}`, class: "gf-panel gf-pointed" },
    xAxis(box, { values: whole, place: place.x, format: signed, lines: true, title: "x" }),
    yAxis(box, { values: ticks, place: place.y, format: signed, lines: true }),
    guide,
    Object.values(paths),
    names.flatMap(({ label, lead }) => [lead, label]),
    above,
    spot,
  );
  function show({ curve, x }) {
    for (const name of NAMES) put(paths[name], { class: `${style}${name === curve ? " gf-chosen" : ""}` });
    if (element.lastChild.previousSibling.previousSibling !== paths[curve]) above.before(paths[curve]);
    for (const { shown, label } of names) put(label, { class: `gf-curve-name${shown.includes(curve) ? " gf-chosen-name" : ""}` });
    put(guide, { x1: round(place.x(x)), x2: round(place.x(x)) });
    put(spot, { cx: round(place.x(x)), cy: round(place.y(CURVES[curve][of](x))) });
  }
  return { element, above, place, at, trace, show, box };
}

const CELLS = 121; // cells of a map in each direction
const SHADES = palette(diverging, range(511).map((i) => i / 255 - 1));
const shade = (value) => SHADES[Math.round(255 * (value / LARGEST + 1))];

// A map of the product of two numbers: the gate is on the horizontal axis, the other number on the vertical one.
function gateMap(of) {
  const box = { left: 40, right: 300, top: 8, bottom: 268 };
  const x = linear([-WIDEST, WIDEST], [box.left, box.right]);
  const y = linear([-WIDEST, WIDEST], [box.bottom, box.top]);
  const canvas = h("canvas", { class: "gf-pixels gf-gate-pixels" });
  const number = (i) => ((2 * (i + 0.5)) / CELLS - 1) * WIDEST;
  paint(canvas, CELLS, CELLS, (row, column) => shade(of(number(column), -number(row))));
  const halo = svg("circle", { r: 8, class: "gf-halo" });
  const ring = svg("circle", { r: 7, class: "gf-ring" });
  const [across, up] = range(2).map(() => line(0, 0, 0, 0, "gf-cross"));
  const values = range(2 * WIDEST + 1).map((i) => i - WIDEST);
  const element = svg(
    "svg",
    { viewBox: "0 0 308 306", class: "gf-over gf-pointed" },
    xAxis(box, { values, place: x, format: signed, ticks: true, title: "gate" }),
    yAxis(box, { values, place: y, format: signed, title: "up" }),
    across,
    up,
    halo,
    ring,
  );
  function show({ gate, up: height }) {
    const [cx, cy] = [round(x(gate)), round(y(height))];
    for (const mark of [halo, ring]) put(mark, { cx, cy });
    put(across, { x1: box.left, x2: box.right, y1: cy, y2: cy });
    put(up, { x1: cx, x2: cx, y1: box.top, y2: box.bottom });
  }
  const at = (event) => {
    const { left, top, width } = element.getBoundingClientRect();
    const scaled = (pixels) => (pixels * 308) / width;
    return {
      gate: linear([box.left, box.right], [-WIDEST, WIDEST])(scaled(event.clientX - left)),
      up: linear([box.bottom, box.top], [-WIDEST, WIDEST])(scaled(event.clientY - top)),
    };
  };
  return { element: h("div", { class: "gf-layers" }, canvas, element), pointed: element, show, at };
}

// --- view -----------------------------------------------------------------------------------------------------------

const TRAITS = ["show", "curve", "x", "magnified", "gate", "up"];

function render({ model, el }) {
  const view = frame(el, {
    title: "Activation functions, and what a gate does",
    hint: "Move the point with the slider, or point into a drawing. Where is a curve steep, where is it flat, and where does it turn back?",
  });
  const send = (changes) => {
    const news = Object.entries(changes).filter(([name, value]) => model.get(name) !== value);
    for (const [name, value] of news) model.set(name, value);
    if (news.length) model.save_changes();
  };
  const inside = (x, limit) => Math.min(Math.max(Math.round(x / STEP) * STEP, -limit), limit);
  const rounded = (x, limit) => Number(inside(x, limit).toFixed(2));

  const ofCurves = [
    choice(model, "curve", { label: "Activation", options: NAMES.map((name) => [name, CURVES[name].name]) }),
    slider(model, "x", { label: "x", min: -FURTHEST, max: FURTHEST, step: STEP, format: two }),
    slider(model, "magnified", {
      label: "Exact − tanh, magnified",
      values: [1, 10, 100, 1000],
      format: (times) => `× ${grouped(times)}`,
    }),
  ];
  const ofGate = [
    slider(model, "gate", { label: "gate", min: -WIDEST, max: WIDEST, step: STEP, format: two }),
    slider(model, "up", { label: "up", min: -WIDEST, max: WIDEST, step: STEP, format: two }),
  ];
  view.controls.append(
    choice(model, "show", {
      label: "Draw",
      options: [["curves", "one number"], ["gate", "two numbers, one of them a gate"]],
    }),
    ...ofCurves,
    ...ofGate,
  );
  view.controls.classList.add("gf-activation-controls");
  for (const wide of [view.controls.firstChild, ofCurves[0]]) wide.classList.add("gf-whole-row");

  // --- curves

  const values = curvePanel({ low: -1, high: 4, height: 300, of: "value", unit: 1, style: "gf-curve" });
  const slopes = curvePanel({ low: -0.5, high: 1.5, height: 300, of: "slope", unit: 0.5, style: "gf-curve gf-slope" });
  const tangent = svg("path", { class: "gf-tangent" });
  const apart = svg("path", { class: "gf-apart" });
  values.above.append(apart, tangent);
  const [valueTitle, slopeTitle] = range(2).map(() => h("p", { class: "gf-panel-title" }));
  const read = Object.fromEntries(
    NAMES.map((name) => [name, { row: h("tr"), cells: range(2).map(() => h("td")) }]),
  );
  for (const name of NAMES) read[name].row.append(h("th", { scope: "row" }, CURVES[name].name), ...read[name].cells);
  const difference = h("td", { colspan: 2 });
  const readout = h(
    "table",
    { class: "gf-readout" },
    h("thead", {}, h("tr", {}, h("td"), ["value", "slope"].map((text) => h("th", { scope: "col" }, text)))),
    h("tbody", {}, NAMES.map((name) => read[name].row), h("tr", {}, h("th", { scope: "row" }, "exact − tanh"), difference)),
  );
  const curves = h(
    "div",
    {},
    h("div", { class: "gf-panels" }, h("div", {}, valueTitle, values.element), h("div", {}, slopeTitle, slopes.element)),
    readout,
  );
  for (const { element, box } of [values, slopes]) {
    element.addEventListener("pointermove", (event) => {
      if (event.pointerType !== "mouse" && event.buttons === 0) return;
      const { left, width } = element.getBoundingClientRect();
      const place = linear([box.left, box.right], [-FURTHEST, FURTHEST])(((event.clientX - left) * 352) / width);
      if (Math.abs(place) <= FURTHEST + 0.3) send({ x: rounded(place, FURTHEST) });
    });
  }

  // --- gate

  const maps = [gateMap((gate, up) => gated(gate, up).product), gateMap((_, up) => CURVES.relu.value(up))];
  const [productTitle, reluTitle] = range(2).map(() => h("p", { class: "gf-panel-title" }));
  const gate = h(
    "div",
    {},
    h(
      "div",
      { class: "gf-panels" },
      h("div", { class: "gf-gate-map" }, productTitle, maps[0].element),
      h("div", { class: "gf-gate-map" }, reluTitle, maps[1].element),
    ),
    legend((t) => diverging(2 * t - 1), fixed(-LARGEST, 0), LARGEST, h("span", {}, "Both maps share these colours.")),
  );
  for (const { pointed, at } of maps) {
    pointed.addEventListener("pointermove", (event) => {
      if (event.pointerType !== "mouse" && event.buttons === 0) return;
      const place = at(event);
      if (Math.max(Math.abs(place.gate), Math.abs(place.up)) > WIDEST + 0.15) return;
      send({ gate: rounded(place.gate, WIDEST), up: rounded(place.up, WIDEST) });
    });
  }

  view.drawing.append(curves, gate);

  function drawCurves(state) {
    const { curve, x, magnified } = state;
    const now = activated(x);
    for (const panel of [values, slopes]) panel.show(state);
    const [value, slope] = [now.values[curve], now.slopes[curve]];
    const reach = 1.6 / Math.hypot(1, slope); // half the tangent's length
    put(tangent, { d: `M${values.at(x - reach, value - slope * reach)}L${values.at(x + reach, value + slope * reach)}` });
    const gap = (at) => magnified * (CURVES.gelu.value(at) - CURVES.gelu_tanh.value(at));
    if (apart.dataset.times !== String(magnified)) {
      apart.dataset.times = magnified;
      put(apart, { d: values.trace(gap) });
    }
    write(valueTitle, `Value; in orange, ${grouped(magnified)} × (exact − tanh)`);
    write(slopeTitle, "Slope");
    for (const name of NAMES) {
      put(read[name].row, { class: name === curve ? "gf-chosen-row" : "" });
      write(read[name].cells[0], fixed(now.values[name], 4));
      write(read[name].cells[1], fixed(now.slopes[name], 4));
    }
    write(difference, fixed(now.values.gelu - now.values.gelu_tanh, 6));
  }

  function drawGate(state) {
    for (const map of maps) map.show(state);
    const { product, relu } = gated(state.gate, state.up);
    write(productTitle, `silu(gate) · up = ${two(product)}`);
    write(reluTitle, `ReLU(up) = ${two(relu)}, whatever the gate is`);
  }

  function draw() {
    const state = Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]));
    const isGate = state.show === "gate";
    for (const control of ofCurves) control.hidden = isGate;
    for (const control of ofGate) control.hidden = !isGate;
    [curves.hidden, gate.hidden] = [isGate, !isGate];
    if (isGate) drawGate(state);
    else drawCurves(state);
    const said = isGate ? gateSentence(state) : curveSentence(state);
    view.describe(() =>
      isGate
        ? `Two maps over gate and up: silu(gate) · up beside ReLU(up). ${said}`
        : `ReLU, both GELUs and SiLU from −${FURTHEST} to ${FURTHEST}, and their slopes. ${said}`,
    );
    view.says(said);
    view.tables(() => (isGate ? gateTables(state) : curveTables(state)));
  }

  return redrawing(model, TRAITS, draw).stop;
}

function curveTables({ x }) {
  const row = (at) => {
    const { values, slopes } = activated(at);
    return NAMES.flatMap((name) => [fixed(values[name], 5), fixed(slopes[name], 5)]);
  };
  const places = [x, ...range(2 * FURTHEST + 1).map((i) => i - FURTHEST).filter((at) => at !== x)].sort((a, b) => a - b);
  return [
    {
      caption: "Each activation and its slope",
      headers: ["x", ...NAMES.flatMap((name) => [CURVES[name].name, "slope"])],
      rows: () => places.map((at) => [two(at), ...row(at)]),
    },
  ];
}

function gateTables({ gate, up }) {
  const { product, by_gate, by_up, relu } = gated(gate, up);
  return [
    {
      caption: `A gated neuron at gate ${two(gate)} and up ${two(up)}`,
      headers: ["What", "Number"],
      rows: [
        ["silu(gate)", fixed(by_up, 5)],
        ["silu(gate) · up", fixed(product, 5)],
        ["slope along the gate", fixed(by_gate, 5)],
        ["slope along up", fixed(by_up, 5)],
        ["ReLU(up)", fixed(relu, 5)],
      ],
    },
  ];
}

export default { render };
