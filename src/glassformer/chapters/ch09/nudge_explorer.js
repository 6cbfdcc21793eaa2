// One weight of a small GPT: the loss, its tangent and its finite difference; and one step of all. See nudge_explorer.py.
import { cells } from "../../widgets/kit/cells.js";
import { range } from "../../widgets/kit/maths.js";
import { choice, fixed, frame, h, hold, put, redrawing, setAll, slider, svg, uniqueId, write } from "../../widgets/kit/kit.js";
import { legend, line, linear, tint, xAxis, yAxis } from "../../widgets/kit/plot.js";
import { loss } from "./tinygpt.js";

const FURTHEST = 2; // how far a weight may be moved
const STEPS = range(13).map((i) => Number(`1e-${i}`));
const RATES = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10];
const [PIECES, OF_A_STEP] = [40, 24]; // of the two curves
const BEYOND = 1.5; // times η: how far the second curve goes

// --- maths ----------------------------------------------------------------------------------------------------------

const rowsOf = (array) => (Array.isArray(array[0]) ? array : [array]);
const within = (array, at) => at.reduce((inner, i) => inner[i], array);
const withMoved = (array, [i, ...inner], by) =>
  array.map((each, j) => (j !== i ? each : inner.length ? withMoved(each, inner, by) : each + by));
const stepped = (array, gradient, rate) =>
  array.map((each, i) => (Array.isArray(each) ? stepped(each, gradient[i], rate) : each - rate * gradient[i]));
const square = (array) => array.reduce((sum, each) => sum + (Array.isArray(each) ? square(each) : each * each), 0);

// (L(w + h) − L(w)) / h, or (L(w + h) − L(w − h)) / 2h.
const difference = (at, step, sides) =>
  sides === "both" ? (at(step) - at(-step)) / (2 * step) : (at(step) - at(0)) / step;

// The model's loss if one weight is moved, or if all weights take a step against their gradient.
function landscape({ ids, n_heads: nHeads, weights, gradients }) {
  const names = Object.keys(weights);
  const land = {
    norm: names.reduce((sum, name) => sum + square(gradients[name]), 0),
    moved: (name, at, by) => loss(ids, { ...weights, [name]: withMoved(weights[name], at, by) }, nHeads),
    after: (rate) =>
      loss(ids, Object.fromEntries(names.map((name) => [name, stepped(weights[name], gradients[name], rate)])), nHeads),
    // Nudged in nudge_explorer.py
    numbers({ name, at, by, h: step, sides, rate }) {
      const moved = (far) => land.moved(name, at, far);
      return {
        loss: moved(0),
        slope: within(gradients[name], at),
        moved: moved(by),
        measured: difference(moved, step, sides),
        promised: rate * land.norm,
        dropped: moved(0) - land.after(rate),
      };
    },
  };
  return land;
}

export const compute = (data, state) => landscape(data).numbers(state);

// How many digits two slopes have in common, from the first that is not 0; at most 15.
export function digits(right, other) {
  if (right === other) return 15;
  if (right === 0) return 0;
  return Math.min(Math.max(Math.floor(-Math.log10(Math.abs(other / right - 1))), 0), 15);
}

// --- words ----------------------------------------------------------------------------------------------------------

const minus = (text) => text.replace("-", "−");
const power = (step) => (step < 1e-3 ? minus(step.toExponential(0)) : String(step));
const signed = (x, places) => (Number(x.toFixed(places)) > 0 ? "+" : "") + fixed(x, places);
const significant = (x) => minus(String(Number(x.toPrecision(3))));

// "decoder.blocks.0.attention.W_o.weight" is "block 0, W_o".
export const short = (name) =>
  name
    .replace("decoder.", "")
    .replace(/^blocks\.(\d+)\./, "block $1, ")
    .replace(/(attention|feedforward)\.W/, "W")
    .replace(/^norm/, "last norm")
    .replace("norm_", "norm before ")
    .replace("feedforward", "feed-forward")
    .replace("token_", "token ")
    .replace(".weight", "")
    .replace(".bias", " bias");

const agreed = (count) => (count === 0 ? "No digit agrees." : count === 1 ? "One digit agrees." : `${count} digits agree.`);

export function sentence(state, { loss: begun, slope, moved, measured, promised, dropped }) {
  const { by, h: step, rate } = state;
  const said = [];
  if (slope === 0) said.push("The slope is exactly 0: changing this weight a little does not change the loss.");
  else said.push(`By the backward pass, one unit up would ${slope < 0 ? "lower" : "raise"} the loss by ${fixed(Math.abs(slope), 3)}, if the slope stayed.`);
  if (by) said.push(`Moved by ${signed(by, 2)}, the loss is ${fixed(moved, 3)}; the tangent says ${fixed(begun + slope * by, 3)}.`);
  const digit = digits(slope, measured);
  said.push(`A finite difference with h = ${power(step)} gives ${fixed(measured, 5)}. ${slope === 0 && measured === 0 ? "It agrees." : agreed(digit)}`);
  const fall = dropped < 0 ? `it rises by ${significant(-dropped)}` : `it falls by ${significant(dropped)}`;
  said.push(`One step of all weights with η = ${rate} should lower the loss by ${significant(promised)}, judging by the slopes; ${fall}.`);
  return said.join(" ");
}

// --- drawing --------------------------------------------------------------------------------------------------------

const [WIDTH, HEIGHT] = [340, 262];
const BOX = { left: 46, right: 330, top: 10, bottom: 216 };

// About `count` round numbers between two limits.
function ticks(low, high, count) {
  const rough = (high - low) / count;
  const decade = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * decade).find((each) => each >= rough);
  const places = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const first = Math.ceil(low / step - 1e-9);
  const values = range(Math.floor(high / step + 1e-9) - first + 1).map((i) => Number(((first + i) * step).toFixed(places)));
  return { values, format: (x) => fixed(x, places) };
}

// A curve with its axes, a straight line, and marks on both. Nothing leaves the box.
function panel(title, marked) {
  const id = uniqueId();
  const axes = svg("g");
  const clip = svg("clipPath", { id }, svg("rect", { x: BOX.left, y: BOX.top, width: BOX.right - BOX.left, height: BOX.bottom - BOX.top }));
  const path = (style) => svg("path", { class: style });
  const marks = { curve: path("gf-loss"), straight: path("gf-tangent"), secant: path("gf-secant"), gap: path("gf-gap") };
  const spot = (r, style) => svg("circle", { r, class: style });
  const spots = Object.fromEntries(marked.map((style) => [style, spot({ end: 4, begun: 4.5, now: 6 }[style], `gf-${style}`)]));
  const element = svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "gf-panel" },
    clip,
    axes,
    svg("g", { "clip-path": `url(#${id})` }, Object.values(marks)),
    Object.values(spots),
  );
  let place;
  const pixel = ([x, y]) => `${place.x(x).toFixed(1)} ${place.y(y).toFixed(1)}`;
  return {
    element,
    // points of the curve, and other heights that must be visible
    axes(key, make) {
      hold(axes, key, () => {
        const { points, also, name } = make();
        const ys = [...points.map(([, y]) => y), ...also];
        const room = Math.max(0.06 * (Math.max(...ys) - Math.min(...ys)), 0.004);
        const [low, high] = [Math.min(...ys) - room, Math.max(...ys) + room];
        const [left, right] = [points[0][0], points.at(-1)[0]];
        place = { x: linear([left, right], [BOX.left, BOX.right]), y: linear([low, high], [BOX.bottom, BOX.top]) };
        put(marks.curve, { d: `M${points.map(pixel).join("L")}` });
        return [
          yAxis(BOX, { ...ticks(low, high, 5), place: place.y, lines: true, title: "loss" }),
          xAxis(BOX, { ...ticks(left, right, 5), place: place.x, ticks: true, inside: false, title: name }),
        ];
      });
    },
    line: (name, from, to) => put(marks[name], { d: `M${pixel(from)}L${pixel(to)}` }),
    spot: (name, x, y) => put(spots[name], { cx: place.x(x).toFixed(1), cy: place.y(y).toFixed(1) }),
    cell: h("div", { class: "gf-panel-cell" }, h("p", { class: "gf-panel-title" }, h("strong", {}, title)), element),
  };
}

// --- view -----------------------------------------------------------------------------------------------------------

const TRAITS = ["name", "at", "by", "h", "sides", "rate"];

function render({ model, el }) {
  const data = model.get("_data");
  const { weights, gradients, words, ids } = data;
  const count = Object.values(weights).flat(2).length;
  const land = landscape(data);
  const view = frame(el, {
    title: `Which way is downhill? One of ${count} weights`,
    hint:
      `A GPT of ${count} random weights reads “${ids.map((id) => words[id]).join(" ")}”. Choose a weight, move it, and make h smaller. ` +
      "Which way would you turn it?",
  });
  view.controls.append(
    choice(model, "name", { label: "Weights", options: Object.keys(weights).map((name) => [name, short(name)]) }),
    slider(model, "by", { label: "Move this one by", min: -FURTHEST, max: FURTHEST, step: 0.05, format: (x) => signed(x, 2) }),
    slider(model, "h", { label: "h of the finite difference", values: STEPS, format: power }),
    choice(model, "sides", { label: "Measure on", options: [["one", "one side"], ["both", "both sides"]] }),
    slider(model, "rate", { label: "Learning rate η of a step", values: RATES }),
  );
  view.drawing.setAttribute("role", "group"); // role="img" must not contain buttons
  const fit = () => setAll(model, { at: Array.isArray(weights[model.get("name")][0]) ? [0, 0] : [0], by: 0 });
  model.on("change:name", fit);

  // --- the map

  const make = cells();
  const mapTitle = h("strong");
  const grid = h("div", { class: "gf-map" });
  const scaleOf = h("div");
  let map = []; // rows of buttons
  const build = (name) => {
    const [array, slopes] = [weights, gradients].map((all) => rowsOf(all[name]));
    const flat = !Array.isArray(weights[name][0]);
    const most = Math.max(...slopes.flat().map(Math.abs));
    map = array.map((row, r) =>
      row.map((weight, c) => {
        const at = flat ? [c] : [r, c];
        const cell = make.result({
          point: () => {},
          to: (down, right) => map[r + down]?.[c + right],
          onfocus: () => model.get("at").join() !== at.join() && setAll(model, { at, by: 0 }),
          "aria-label": `${short(name)} ${at.join(", ")}: ${fixed(weight, 2)}, slope ${fixed(slopes[r][c], 4)}`,
        });
        const share = slopes[r][c] / most;
        cell.style.background = tint(share);
        cell.style.color = "var(--gf-ink)";
        cell.append(fixed(weight, 2));
        return cell;
      }),
    );
    put(grid, { style: `--columns: ${array[0].length}`, class: `gf-map${array[0].length > 4 ? " gf-wide-map" : ""}` });
    write(mapTitle, short(name));
    scaleOf.replaceChildren(legend((t) => tint(2 * t - 1), fixed(-most, 3), fixed(most, 3), h("span", {}, "slope")));
    return map;
  };

  // --- the numbers

  const row = (label) => {
    const cell = h("td");
    return { cell, element: h("tr", {}, h("th", { scope: "row" }, label), cell) };
  };
  const read = {
    loss: row("loss at the start"),
    moved: row("loss now"),
    slope: row("slope, backward pass"),
    measured: row("slope, finite difference"),
    digits: row("digits that agree"),
  };
  const step = { norm: row("‖g‖²"), promised: row("promised, η‖g‖²"), dropped: row("fell by"), share: row("fell ÷ promised") };
  const table = (rows) => h("table", { class: "gf-readout" }, h("tbody", {}, Object.values(rows).map(({ element }) => element)));
  // A slope, with the digits that agree in bold.
  const slopeText = (x, bold) => {
    const text = fixed(x, 12);
    const first = text.search(/[1-9]/);
    const zeros = text.slice(first).startsWith("0") ? 0 : first;
    let [end, left] = [zeros, bold];
    while (left > 0 && end < text.length) left -= text[end++] === "." ? 0 : 1;
    return bold && first >= 0 ? [h("b", {}, text.slice(0, end)), text.slice(end)] : [text];
  };

  // --- the curves

  const known = {}; // the curves of steps, by η
  const one = panel("This weight alone", ["end", "begun", "now"]);
  const all = panel(`One step of all ${count}, against the gradient`, ["begun", "now"]);
  const key = (style, text, circle) =>
    h(
      "span",
      { class: "gf-scale" },
      svg("svg", { viewBox: "0 0 26 12", width: 26, height: 12, "aria-hidden": "true" }, circle ? svg("circle", { cx: 13, cy: 6, r: 4.5, class: style }) : line(0, 6, 26, 6, style)),
      text,
    );
  view.drawing.append(
    h(
      "div",
      { class: "gf-weights-and-numbers" },
      h("div", { class: "gf-map-cell" }, h("p", { class: "gf-panel-title" }, mapTitle, h("span", {}, ", coloured by slope")), grid, scaleOf),
      table(read),
    ),
    h(
      "div",
      { class: "gf-panels" },
      h(
        "div",
        {},
        one.cell,
        h(
          "p",
          { class: "gf-legend" },
          key("gf-loss", "loss"),
          key("gf-tangent", "tangent, its slope by the backward pass"),
          key("gf-secant", "finite difference"),
          key("gf-now", "now", true),
          key("gf-begun", "at the start; of a step, what was promised", true),
        ),
      ),
      h("div", {}, all.cell, table(step)),
    ),
  );

  function draw() {
    const state = Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]));
    const { name, at, by, h: width, rate } = state;
    const array = rowsOf(weights[name]);
    const [r, c] = at.length === 2 ? at : [0, at[0]];
    if (at.length !== (Array.isArray(weights[name][0]) ? 2 : 1) || array[r]?.[c] === undefined) return; // about to be corrected
    hold(grid, [name], () => build(name));
    map.forEach((cellsOf, i) =>
      cellsOf.forEach((cell, j) => {
        const here = i === r && j === c;
        put(cell, { class: `gf-result${here ? " gf-here" : ""}`, tabindex: here ? 0 : -1 });
      }),
    );

    const weight = array[r][c];
    const moved = (far) => land.moved(name, at, far);
    const found = land.numbers(state);
    const { slope } = found;

    one.axes([name, ...at], () => ({
      points: range(PIECES + 1).map((i) => ((2 * i) / PIECES - 1) * FURTHEST).map((far) => [weight + far, moved(far)]),
      also: [],
      name: `${short(name).split(" ").at(-1)}[${at.join(", ")}]`,
    }));
    const tangent = (far) => [weight + far, found.loss + slope * far];
    one.line("straight", tangent(-FURTHEST), tangent(FURTHEST));
    const height = moved(width) - found.measured * width;
    const secant = (far) => [weight + far, height + found.measured * far];
    one.line("secant", secant(-FURTHEST), secant(FURTHEST));
    one.spot("end", weight + width, moved(width));
    one.spot("begun", weight, found.loss);
    one.spot("now", weight + by, found.moved);

    const bottom = found.loss - found.promised;
    all.axes([rate], () => ({
      points: (known[rate] ??= range(OF_A_STEP + 1).map((i) => (i / OF_A_STEP) * BEYOND * rate).map((far) => [far, land.after(far)])),
      also: [bottom],
      name: "η",
    }));
    all.line("straight", [0, found.loss], [BEYOND * rate, found.loss - BEYOND * found.promised]);
    all.line("gap", [rate, bottom], [rate, found.loss - found.dropped]);
    all.spot("begun", rate, bottom);
    all.spot("now", rate, found.loss - found.dropped);

    const same = digits(slope, found.measured);
    write(read.loss.cell, fixed(found.loss, 6));
    write(read.moved.cell, fixed(found.moved, 6));
    for (const kind of ["slope", "measured"]) {
      hold(read[kind].cell, [found[kind], same], () => slopeText(found[kind], same));
    }
    write(read.digits.cell, same === 15 ? "all" : same);
    write(step.norm.cell, fixed(land.norm, 6));
    write(step.promised.cell, fixed(found.promised, 6));
    write(step.dropped.cell, fixed(found.dropped, 6));
    write(step.share.cell, fixed(found.dropped / found.promised, 3));

    const said = sentence(state, found);
    view.says(said);
    view.describe(
      () =>
        `The loss as ${short(name)} ${at.join(", ")} goes from ${fixed(weight - FURTHEST, 2)} to ${fixed(weight + FURTHEST, 2)}, with its tangent and a ` +
        `finite difference; and the loss along one step of all weights. ${said}`,
    );
    view.tables(() => [
      {
        caption: `Slope by finite difference; by the backward pass it is ${fixed(slope, 12)}`,
        headers: ["h", "One side", "Digits", "Both sides", "Digits"],
        rows: () =>
          STEPS.map((each) => [
            power(each),
            ...["one", "both"].flatMap((kind) => {
              const measured = difference(moved, each, kind);
              return [fixed(measured, 12), digits(slope, measured)];
            }),
          ]),
      },
      {
        caption: "One step of all weights against the gradient",
        headers: ["η", "Promised", "Fell by"],
        rows: () => RATES.map((each) => [each, fixed(each * land.norm, 6), fixed(found.loss - land.after(each), 6)]),
      },
      {
        caption: "This weight moved",
        headers: ["By", "Loss", "Tangent"],
        rows: () => range(9).map((i) => i / 2 - FURTHEST).map((far) => [signed(far, 1), fixed(moved(far), 6), fixed(found.loss + slope * far, 6)]),
      },
    ]);
  }

  const { stop } = redrawing(model, TRAITS, draw);
  return () => {
    model.off("change:name", fit);
    stop();
  };
}

export default { render };
