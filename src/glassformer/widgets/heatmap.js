// The sinusoidal table as a picture. Right of it, sharing its vertical axis, how similar the chosen row is to every
// other; below it, sharing its horizontal axis, the numbers in that row.

import { lookAlike, range, similarity, sinusoidal, wavelengths } from "./maths.js";
import { fixed, frame, grouped, onChange, onResize, slider, svg } from "./kit.js";
import { colourBar, diverging, line, linear, paintSigned, roundNumbers, words, xAxis, yAxis } from "./plot.js";

const TOP = 42; // room for the axis title and its numbers
const LEFT = 54;
const TABLE_HEIGHT = 320;
const ROW_HEIGHT = 76; // the chosen row, as bars
const GAP = 22;

// --- words ----------------------------------------------------------------------------------------------------------

const signed = (value) => fixed(value, 0);

function sentence({ row, n, d, base, twin }) {
  const near = row === 0 ? "row 1" : row === n - 1 ? `row ${row - 1}` : `rows ${row - 1} and ${row + 1}`;
  const s = (distance) => fixed(similarity(distance, d, base), 3);
  const slowest = grouped(Math.round(wavelengths(d, base).at(-1)));
  const start = `Row ${row} is like ${near} (similarity ${s(1)}).`;
  if (!twin) {
    return (
      `${start} The slowest wave repeats only every ${slowest} positions: ` +
      "no row of this table is so far away that it could look near again."
    );
  }
  const far = `row ${twin.position}, ${twin.distance} away (${fixed(twin.similarity, 3)})`;
  const other = twin.outranked;
  const rank = other
    ? `looks nearer than row ${other.position}, only ${other.distance} away (${fixed(other.similarity, 3)})`
    : "is the likest of those beyond half a wave";
  return `${start} The slowest wave repeats every ${slowest} positions, so far rows come back: ${far}, ${rank}.`;
}

// --- drawing --------------------------------------------------------------------------------------------------------

// One pixel per number; where the rows outnumber the screen's, the mean of those that share one, so that waves too fast
// for the screen fade to white rather than pretend to be slow.
function paint(canvas, values) {
  const n = values.length;
  const rows = Math.min(n, Math.round(TABLE_HEIGHT * devicePixelRatio));
  const mean = (y, x) => {
    const [from, to] = [Math.floor((y * n) / rows), Math.ceil(((y + 1) * n) / rows)];
    let sum = 0;
    for (let p = from; p < to; p++) sum += values[p][x];
    return sum / (to - from);
  };
  paintSigned(canvas, rows, values[0].length, mean);
}

// Three boxes: the table, right of it the similarities, below it the chosen row.
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

function axes({ table, curve, bars }, { n, d, row, x, y, toCurve, toBar }) {
  const narrow = curve.right < 480;
  return [
    words("dimension", table.left, 13, "start", "gf-strong"),
    xAxis(table, { values: roundNumbers(d - 1, (table.right - table.left) / 56), place: x, above: true }),
    yAxis(table, { values: roundNumbers(n - 1, 8), place: y, title: "position" }),
    words(narrow ? "similarity" : `similarity to row ${row}`, curve.left, 13, "start", "gf-strong"),
    xAxis(curve, { values: [-1, 0, 1], place: toCurve, format: signed, lines: true, inside: true, above: true }),
    yAxis(bars, { values: [-1, 1], place: toBar, format: signed, lines: true, inside: true }),
  ];
}

// A row, straight through the table and the curve.
function across({ table, curve }, y, style) {
  return [
    line(table.left - 4, y, table.right, y, "gf-halo"),
    line(table.left - 4, y, table.right, y, style),
    line(table.right, y, curve.right, y, "gf-axis"),
  ];
}

// The numbers of the chosen row, standing on zero.
function rowBars({ left, right }, values, toBar) {
  const step = (right - left) / values.length;
  const gap = values.length > 64 ? 0.25 : 0.5;
  const bar = (v, i) =>
    svg("rect", {
      class: "gf-bar",
      x: left + i * step + gap,
      y: toBar(Math.max(v, 0)),
      width: step - 2 * gap,
      height: Math.abs(v) * (ROW_HEIGHT / 2),
    });
  return [values.map(bar), line(left, toBar(0), right, toBar(0), "gf-axis")];
}

// Right of the bars: which row they show, and the colours of the table.
function key({ left, right }, bars, row) {
  const middle = (bars.top + bars.bottom) / 2;
  const bar = { left, right: Math.min(right, left + 150), top: middle + 2, bottom: middle + 12 };
  const place = linear([-1, 1], [bar.left, bar.right]);
  return [
    words(`← row ${row}`, left, middle - 18, "start", "gf-strong"),
    colourBar((t) => diverging(2 * t - 1), { x: left, y: bar.top, width: bar.right - left, height: 10 }),
    xAxis(bar, { values: [-1, 0, 1], place, format: signed, inside: true }),
  ];
}

function drawing(boxes, { n, d, row, values, similarities, twin }) {
  const { table, curve, bars } = boxes;
  const x = linear([-0.5, d - 0.5], [table.left, table.right]);
  const y = linear([-0.5, n - 0.5], [table.top, table.bottom]);
  const toCurve = linear([-1, 1], [curve.left, curve.right]);
  const toBar = linear([-1, 1], [bars.bottom, bars.top]);
  const points = similarities.map((s, p) => `${toCurve(s).toFixed(2)} ${y(p).toFixed(2)}`);
  return svg(
    "g",
    {},
    axes(boxes, { n, d, row, x, y, toCurve, toBar }),
    across(boxes, y(row), "gf-row"),
    twin && across(boxes, y(twin.position), "gf-row gf-dashed"),
    svg("path", { class: "gf-curve", d: `M${points.join("L")}` }),
    svg("circle", { class: "gf-dot", cx: toCurve(1), cy: y(row), r: 4.5 }),
    twin && svg("circle", { class: "gf-ring", cx: toCurve(twin.similarity), cy: y(twin.position), r: 5 }),
    rowBars(bars, values[row], toBar),
    key(curve, bars, row),
  );
}

// --- view -----------------------------------------------------------------------------------------------------------

function render({ model, el }) {
  const view = frame(el, {
    title: "The table of waves",
    hint:
      "Each row is the vector of one position. Point at a row, or choose it with the slider: " +
      "which other rows could it be mistaken for?",
  });
  view.controls.classList.add("gf-compact");
  view.controls.append(
    slider(model, "row", { label: "Row", min: 0, max: () => model.get("n_positions") - 1, follows: ["n_positions"] }),
    slider(model, "n_positions", { label: "Positions", min: 16, max: 1024, step: 16 }),
    slider(model, "base", { label: "Base", min: 10, max: 1e6, scale: "log", format: grouped }),
    slider(model, "d_model", { label: "Dimensions D", min: 4, max: 128, step: 2 }),
  );
  const canvas = document.createElement("canvas");
  canvas.className = "gf-heatmap";
  const picture = svg("svg", { class: "gf-over" });
  view.drawing.classList.add("gf-layers");
  view.drawing.append(canvas, picture);

  let painted = "";
  let values; // the table, recomputed only when its shape or base changes
  let pointedAt = null; // the row under the pointer, shown instead of the chosen one while it is there

  function draw() {
    const [n, d, base] = ["n_positions", "d_model", "base"].map((name) => model.get(name));
    const chosen = Math.min(model.get("row"), n - 1);
    const row = pointedAt === null ? chosen : Math.min(pointedAt, n - 1);
    const width = view.drawing.clientWidth || 600;
    const boxes = layout(width);

    if (painted !== `${n} ${d} ${base}`) {
      painted = `${n} ${d} ${base}`;
      values = sinusoidal(range(n), d, base);
      paint(canvas, values);
    }
    const place = { left: LEFT, top: TOP, width: boxes.table.right - LEFT, height: TABLE_HEIGHT };
    for (const [side, length] of Object.entries(place)) canvas.style[side] = `${length}px`;

    const similarities = range(n).map((p) => similarity(p - row, d, base));
    const twin = lookAlike(row, n, d, base);
    picture.setAttribute("viewBox", `0 0 ${width} ${boxes.height}`);
    Object.assign(picture.style, { width: `${width}px`, height: `${boxes.height}px` });
    picture.replaceChildren(drawing(boxes, { n, d, row, values, similarities, twin }));

    const said = sentence({ row, n, d, base, twin });
    view.says(said);
    view.describe(`Heatmap of sinusoidal positions, ${n} positions by ${d} dimensions, base ${grouped(base)}. ${said}`);
    if (pointedAt !== null) return; // the numbers are those of the chosen row
    const turns = wavelengths(d, base);
    view.tables([
      {
        caption: `Row ${row}, dimension by dimension`,
        headers: ["Dimension", "Wave", "Wavelength (positions)", "Value"],
        rows: () =>
          values[row].map((v, i) => [i, i % 2 ? "cosine" : "sine", grouped(turns[Math.floor(i / 2)]), fixed(v, 4)]),
      },
      {
        caption: `How similar row ${row} is to every row`,
        headers: ["Position", "Similarity"],
        rows: () => similarities.map((s, p) => [p, fixed(s, 4)]),
      },
    ]);
  }

  // Pointing shows a row, pressing chooses it. Arrow keys go on from there: the focus moves to the row's slider.
  function rowAt(event) {
    const box = picture.getBoundingClientRect();
    const n = model.get("n_positions");
    const p = Math.floor(((event.clientY - box.top - TOP) / TABLE_HEIGHT) * n);
    return p >= 0 && p < n && event.clientX - box.left >= LEFT ? p : null;
  }
  function point(row) {
    if (row === pointedAt) return;
    pointedAt = row;
    draw();
  }
  picture.addEventListener("pointermove", (event) => event.pointerType === "mouse" && point(rowAt(event)));
  picture.addEventListener("pointerleave", () => point(null));
  picture.addEventListener("click", (event) => {
    const row = rowAt(event);
    if (row === null) return;
    pointedAt = null;
    model.set("row", row);
    model.save_changes();
    view.controls.querySelector("input").focus({ preventScroll: true });
  });

  function keepRowInside() {
    const last = model.get("n_positions") - 1;
    if (model.get("row") <= last) return;
    model.set("row", last);
    model.save_changes();
  }
  model.on("change:n_positions", keepRowInside);

  const stop = [onChange(model, ["n_positions", "d_model", "base", "row"], draw), onResize(view.drawing, draw)];
  return () => {
    model.off("change:n_positions", keepRowInside);
    stop.forEach((end) => end());
  };
}

export default { render };
