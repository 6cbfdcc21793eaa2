// The sinusoidal table as a picture. To its right, with the same vertical axis, is the similarity of the chosen row to every
// other row; below it, with the same horizontal axis, are the numbers in that row.

import { frequencies, range, ruler, similarities, sinusoidal, wavelengths } from "../../widgets/kit/maths.js";
import { fixed, frame, grouped, h, hold, onResize, put, redrawing, slider, svg, write } from "../../widgets/kit/kit.js";
import { colourBar, diverging, line, linear, paint, palette, roundNumbers, words, xAxis, yAxis } from "../../widgets/kit/plot.js";

const TOP = 42; // room for the axis title and its numbers
const LEFT = 54;
const TABLE_HEIGHT = 320;
const ROW_HEIGHT = 76; // the chosen row, as bars
const GAP = 22;

// --- words ----------------------------------------------------------------------------------------------------------

const signed = (value) => fixed(value, 0);

// The two rows for which the more distant one seems nearer, both on the same side of the row: above it, if the table allows.
const deceiving = (row, { far, near }) => [far, near].map((distance) => (row >= far ? row - distance : row + distance));

// similar: the similarity of rows that are 0, 1, 2 … apart; seen: the result of `ruler` for those that the table has.
export function sentence({ row, n, d, base, similar, seen }) {
  const { most, falls, rises, deceives } = seen;
  const s = (distance) => fixed(similar[distance], 3);
  const next = [row - most, row + most].filter((p) => p >= 0 && p < n);
  const likest = next.length > 1 ? `rows most similar to row ${row} are` : `row most similar to row ${row} is`;
  const start = `The ${likest} ${next.join(" and ")} (similarity ${s(most)}).`;
  const end = `The slowest wave repeats every ${grouped(Math.round(wavelengths(d, base).at(-1)))} positions.`;
  if (rises === 0) return `${start} The farther away a row is, the less similar it is, as if on a ruler. ${end}`;
  const rest = Math.max(row, n - 1 - row) - falls;
  const place = (p) => `row ${p}, ${Math.abs(p - row)} away (${s(Math.abs(p - row))})`;
  const so = deceives
    ? `: ${deceiving(row, deceives).map(place).join(", looks nearer than ")}`
    : ", though none by as much as 0.001";
  const steps = `Of the ${rest} step${rest === 1 ? "" : "s"} beyond that, ${rises} rise${rises === 1 ? "s" : ""}`;
  return `${start} Up to a distance of ${falls}, similarity only falls. ${steps}${so}. ${end}`;
}

// --- drawing --------------------------------------------------------------------------------------------------------

const STEPS = 1024; // the number of colours
const COLOURS = palette(diverging, range(STEPS).map((i) => (2 * i) / (STEPS - 1) - 1));

// One pixel per number. If there are more rows than pixels, a pixel shows the average of the rows that share it, so waves that
// are too fast for the screen fade to white instead of looking slow. The average over m positions of a wave of frequency w is
// the wave at their midpoint, times sin(mw/2) / (m sin(w/2)).
function paintTable(canvas, { n, d, base }) {
  const rows = Math.min(n, Math.round(TABLE_HEIGHT * devicePixelRatio));
  const omega = frequencies(d, base);
  const faded = new Map(); // m -> how much of each wave is left
  const fading = (m) => omega.map((w) => (m === 1 ? 1 : Math.sin((m * w) / 2) / (m * Math.sin(w / 2))));
  const shared = range(rows).map((y) => {
    const [from, to] = [Math.floor((y * n) / rows), Math.ceil(((y + 1) * n) / rows)];
    if (!faded.has(to - from)) faded.set(to - from, fading(to - from));
    return { middle: (from + to - 1) / 2, left: faded.get(to - from) };
  });
  paint(canvas, rows, d, (y, x) => {
    const { middle, left } = shared[y];
    const angle = middle * omega[x >> 1];
    const value = left[x >> 1] * (x % 2 ? Math.cos(angle) : Math.sin(angle));
    return COLOURS[Math.round(((value + 1) / 2) * (STEPS - 1))];
  });
}

// Three boxes: the table, the similarities to its right, the chosen row below it.
function layout(width) {
  const curveWidth = Math.max(84, Math.min(220, width * 0.28));
  const right = Math.floor(width - GAP - curveWidth - 6);
  const bottom = TOP + TABLE_HEIGHT;
  return {
    table: { left: LEFT, right, top: TOP, bottom },
    curve: { left: right + GAP, right: right + GAP + curveWidth, top: TOP, bottom },
    bars: { left: LEFT, right, top: bottom + GAP, bottom: bottom + GAP + ROW_HEIGHT },
    height: bottom + GAP + ROW_HEIGHT + 6,
  };
}

// From values to pixels.
const places = ({ table, curve, bars }, { n, d }) => ({
  x: linear([-0.5, d - 0.5], [table.left, table.right]),
  y: linear([-0.5, n - 0.5], [table.top, table.bottom]),
  toCurve: linear([-1, 1], [curve.left, curve.right]),
  toBar: linear([-1, 1], [bars.bottom, bars.top]),
});

function axes({ table, curve, bars }, { n, d }, { x, y, toCurve, toBar }) {
  return [
    words("dimension", table.left, 13, "start", "gf-strong"),
    xAxis(table, { values: roundNumbers(d - 1, (table.right - table.left) / 56), place: x, above: true }),
    yAxis(table, { values: roundNumbers(n - 1, 8), place: y, title: "position" }),
    xAxis(curve, { values: [-1, 0, 1], place: toCurve, format: signed, lines: true, inside: true, above: true }),
    yAxis(bars, { values: [-1, 1], place: toBar, format: signed, lines: true, inside: true }),
    line(bars.left, toBar(0), bars.right, toBar(0), "gf-axis"),
  ];
}

// A line across the table and the curve, which can be moved to a row.
const across = ({ table, curve }, style) => [
  line(table.left - 4, 0, table.right, 0, "gf-halo"),
  line(table.left - 4, 0, table.right, 0, style),
  line(table.right, 0, curve.right, 0, "gf-axis"),
];

const round = (pixels) => Math.round(pixels * 100) / 100;

const curvePath = (values, { toCurve, y }) =>
  `M${values.map((s, p) => `${round(toCurve(s))} ${round(y(p))}`).join("L")}`;

// The numbers of the chosen row, standing on zero.
function barsPath({ left, right }, values, toBar) {
  const step = (right - left) / values.length;
  const gap = values.length > 64 ? 0.25 : 0.5;
  const bar = (v, i) => `M${left + i * step + gap} ${toBar(0)}V${toBar(v)}h${step - 2 * gap}V${toBar(0)}z`;
  return values.map(bar).join("");
}

// To the right of the bars: which row they show, and what the table's colours mean.
function key({ curve: { left, right }, bars }, name) {
  const middle = (bars.top + bars.bottom) / 2;
  const bar = { left, right: Math.min(right, left + 150), top: middle + 2, bottom: middle + 12 };
  const place = linear([-1, 1], [bar.left, bar.right]);
  put(name, { x: left, y: middle - 18 });
  return [
    colourBar((t) => diverging(2 * t - 1), { x: left, y: bar.top, width: bar.right - left, height: 10 }),
    xAxis(bar, { values: [-1, 0, 1], place, format: signed, inside: true }),
  ];
}

// The drawing on top of the pixels. `follow` brings it to another state and changes only what differs.
function overlay() {
  const [scene, legend, here, there] = range(4).map(() => svg("g"));
  const [curve, bars] = ["gf-curve", "gf-bar"].map((name) => svg("path", { class: name }));
  const dot = svg("circle", { class: "gf-dot", r: 4.5 });
  const rings = range(2).map(() => svg("circle", { class: "gf-ring", r: 5 }));
  const [heading, name] = [words("", 0, 13, "start", "gf-strong"), words("", 0, 0, "start", "gf-strong")];
  const element = svg("svg", { class: "gf-over" }, scene, heading, legend, name, here, there, curve, dot, rings, bars);

  function follow(boxes, width, { n, d, row, values, similar, seen }) {
    const place = places(boxes, { n, d });
    hold(scene, [width, n, d], () => axes(boxes, { n, d }, place));
    hold(legend, [width], () => key(boxes, name));
    hold(here, [width], () => across(boxes, "gf-row"));
    hold(there, [width], () => across(boxes, "gf-row gf-dashed"));
    put(element, { viewBox: `0 0 ${width} ${boxes.height}`, width, height: boxes.height });
    put(heading, { x: boxes.curve.left });
    write(heading, boxes.curve.right < 480 ? "similarity" : `similarity to row ${row}`);
    write(name, `← row ${row}`);
    put(here, { transform: `translate(0 ${place.y(row)})` });
    const { deceives } = seen;
    for (const mark of [there, ...rings]) mark.style.display = deceives ? "" : "none";
    if (deceives) {
      const pair = deceiving(row, deceives);
      put(there, { transform: `translate(0 ${place.y(pair[0])})` });
      pair.forEach((p, i) => put(rings[i], { cx: place.toCurve(similar[Math.abs(p - row)]), cy: place.y(p) }));
    }
    put(curve, { d: curvePath(range(n).map((p) => similar[Math.abs(p - row)]), place) });
    put(dot, { cx: place.toCurve(1), cy: place.y(row) });
    put(bars, { d: barsPath(boxes.bars, values, place.toBar) });
  }
  return { element, follow };
}

// --- view -----------------------------------------------------------------------------------------------------------

function render({ model, el }) {
  const view = frame(el, {
    title: "The table of waves",
    hint:
      "Each row is the vector of one position. Point at a row, or choose it with the slider: " +
      "which other rows resemble it?",
  });
  view.controls.classList.add("gf-compact");
  view.controls.append(
    slider(model, "row", { label: "Row", min: 0, max: () => model.get("n_positions") - 1, follows: ["n_positions"] }),
    slider(model, "n_positions", { label: "Positions", min: 16, max: 1024, step: 16 }),
    slider(model, "base", { label: "Base", min: 10, max: 1e6, scale: "log", format: grouped }),
    slider(model, "d_model", { label: "Dimensions D", min: 4, max: 128, step: 2 }),
  );
  const canvas = h("canvas", { class: "gf-pixels" });
  const picture = overlay();
  view.drawing.classList.add("gf-layers");
  view.drawing.append(canvas, picture.element);

  let table = ""; // the table that the pixels and the similarities show
  let similar;
  let pointedAt = null; // the row under the pointer, which is shown instead of the chosen one

  function draw() {
    const [n, d, base] = ["n_positions", "d_model", "base"].map((name) => model.get(name));
    const row = Math.min(pointedAt ?? model.get("row"), n - 1);
    const width = view.drawing.clientWidth || 600;
    const boxes = layout(width);
    if (table !== `${n} ${d} ${base} ${devicePixelRatio}`) {
      table = `${n} ${d} ${base} ${devicePixelRatio}`;
      similar = similarities(n, d, base);
      paintTable(canvas, { n, d, base });
    }
    const place = { left: LEFT, top: TOP, width: boxes.table.right - LEFT, height: TABLE_HEIGHT };
    put(canvas, { style: Object.entries(place).map(([side, length]) => `${side}:${length}px`).join(";") });

    const [values] = sinusoidal([row], d, base);
    const seen = ruler(similar.slice(0, Math.max(row, n - 1 - row) + 1));
    picture.follow(boxes, width, { n, d, row, values, similar, seen });

    const said = sentence({ row, n, d, base, similar, seen });
    view.says(said);
    view.describe(
      () => `Heatmap of sinusoidal positions, ${n} positions by ${d} dimensions, base ${grouped(base)}. ${said}`,
    );
    if (pointedAt !== null) return; // the numbers are those of the chosen row
    view.tables(() => [
      {
        caption: `Row ${row}, dimension by dimension`,
        headers: ["Dimension", "Wave", "Wavelength (positions)", "Value"],
        rows: () => {
          const turns = wavelengths(d, base);
          return values.map((v, i) => [i, i % 2 ? "cosine" : "sine", grouped(turns[Math.floor(i / 2)]), fixed(v, 4)]);
        },
      },
      {
        caption: `How similar row ${row} is to every row`,
        headers: ["Position", "Similarity"],
        rows: () => range(n).map((p) => [p, fixed(similar[Math.abs(p - row)], 4)]),
      },
    ]);
  }
  const drawn = redrawing(model, ["n_positions", "d_model", "base", "row"], draw);

  // Pointing shows a row, pressing chooses it. The focus then moves to the row's slider, so arrow keys continue from there.
  function rowUnder(event) {
    const box = picture.element.getBoundingClientRect();
    const n = model.get("n_positions");
    const p = Math.floor(((event.clientY - box.top - TOP) / TABLE_HEIGHT) * n);
    return p >= 0 && p < n && event.clientX - box.left >= LEFT ? p : null;
  }
  function point(row) {
    if (row === pointedAt) return;
    pointedAt = row;
    drawn.ask();
  }
  picture.element.addEventListener("pointermove", (event) => event.pointerType === "mouse" && point(rowUnder(event)));
  picture.element.addEventListener("pointerleave", () => point(null));
  picture.element.addEventListener("click", (event) => {
    const row = rowUnder(event);
    if (row === null) return;
    pointedAt = null;
    model.set("row", row);
    model.save_changes();
    drawn.ask();
    view.controls.querySelector("input").focus({ preventScroll: true });
  });

  function keepRowInside() {
    const last = model.get("n_positions") - 1;
    if (model.get("row") <= last) return;
    model.set("row", last);
    model.save_changes();
  }
  model.on("change:n_positions", keepRowInside);

  const unsize = onResize(view.drawing, drawn.ask);
  return () => {
    model.off("change:n_positions", keepRowInside);
    unsize();
    drawn.stop();
  };
}

export default { render };
