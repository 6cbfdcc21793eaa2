// The sinusoidal table as a picture. Right of it, sharing its vertical axis, how similar the chosen row is to every
// other; below it, sharing its horizontal axis, the numbers in that row.

import { lookAlike, range, similarity, sinusoidal, wavelengths } from "./maths.js";
import { diverging, fixed, frame, grouped, onChange, onResize, slider, svg } from "./kit.js";

const TOP = 42; // room for the axis title and its numbers
const LEFT = 54;
const TABLE_HEIGHT = 320;
const ROW_HEIGHT = 76; // the chosen row, as bars
const GAP = 22;

// Round numbers from 0 up to, and not beyond, max; about `count` of them.
function ticks(max, count) {
  const rough = max / count;
  const decade = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(1, [1, 2, 5, 10].map((m) => m * decade).find((s) => s >= rough));
  return range(Math.floor(max / step) + 1).map((i) => i * step);
}

// One pixel per number; where the rows outnumber the screen's, the mean of those that share one, so that waves too fast
// for the screen fade to white rather than pretend to be slow.
function paint(canvas, values, height) {
  const [n, d] = [values.length, values[0].length];
  const rows = Math.min(n, Math.round(height * devicePixelRatio));
  [canvas.width, canvas.height] = [d, rows];
  const context = canvas.getContext("2d");
  for (const y of range(rows)) {
    const [from, to] = [Math.floor((y * n) / rows), Math.ceil(((y + 1) * n) / rows)];
    for (const x of range(d)) {
      let sum = 0;
      for (let p = from; p < to; p++) sum += values[p][x];
      context.fillStyle = diverging(sum / (to - from));
      context.fillRect(x, y, 1, 1);
    }
  }
}

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

  function layout() {
    const width = view.drawing.clientWidth || 600;
    const curve = Math.max(84, Math.min(220, width * 0.28));
    const table = Math.floor(width - LEFT - GAP - curve - 6);
    return { width, table, curve, right: LEFT + table + GAP, height: TOP + TABLE_HEIGHT + GAP + ROW_HEIGHT + 6 };
  }

  function draw() {
    const [n, d, base] = ["n_positions", "d_model", "base"].map((name) => model.get(name));
    const chosen = Math.min(model.get("row"), n - 1);
    const row = pointedAt === null ? chosen : Math.min(pointedAt, n - 1);
    const { width, table, curve, right, height } = layout();

    if (painted !== `${n} ${d} ${base}`) {
      painted = `${n} ${d} ${base}`;
      values = sinusoidal(range(n), d, base);
      paint(canvas, values, TABLE_HEIGHT);
    }
    const place = { left: LEFT, top: TOP, width: table, height: TABLE_HEIGHT };
    for (const [side, length] of Object.entries(place)) canvas.style[side] = `${length}px`;

    const similarities = range(n).map((p) => similarity(p - row, d, base));
    const twin = lookAlike(row, n, d, base);

    const y = (p) => TOP + ((p + 0.5) / n) * TABLE_HEIGHT;
    const x = (i) => LEFT + ((i + 0.5) / d) * table;
    const toCurve = (s) => right + ((s + 1) / 2) * curve;
    const barsAt = TOP + TABLE_HEIGHT + GAP + ROW_HEIGHT / 2;
    const text = (attrs, ...words) => svg("text", attrs, ...words);
    const line = (x1, y1, x2, y2, attrs) => svg("line", { x1, y1, x2, y2, ...attrs });

    // A row, straight through the table and the curve.
    const across = (p, style) => [
      line(LEFT - 4, y(p), LEFT + table, y(p), { class: "gf-halo" }),
      line(LEFT - 4, y(p), LEFT + table, y(p), { class: style }),
      line(LEFT + table, y(p), right + curve, y(p), { class: "gf-axis" }),
    ];

    picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    Object.assign(picture.style, { width: `${width}px`, height: `${height}px` });
    const points = similarities.map((s, p) => `${toCurve(s).toFixed(2)} ${y(p).toFixed(2)}`);
    const drawn = svg(
      "g",
      {},
      // the axes: positions down, dimensions across, similarity across
      text({ x: LEFT, y: 13, class: "gf-strong" }, "dimension"),
      ticks(d - 1, table / 56).map((i) => text({ x: x(i), y: TOP - 8, "text-anchor": "middle" }, i)),
      ticks(n - 1, 8).map((p) => text({ x: LEFT - 8, y: y(p) + 4, "text-anchor": "end" }, p)),
      text(
        { class: "gf-strong", "text-anchor": "middle", transform: `translate(12 ${TOP + TABLE_HEIGHT / 2}) rotate(-90)` },
        "position",
      ),
      text({ x: right, y: 13, class: "gf-strong" }, width < 480 ? "similarity" : `similarity to row ${row}`),
      [-1, 0, 1].map((s) => [
        line(toCurve(s), TOP, toCurve(s), TOP + TABLE_HEIGHT, { class: s ? "gf-grid" : "gf-axis" }),
        text({ x: toCurve(s), y: TOP - 8, "text-anchor": ["start", "middle", "end"][s + 1] }, fixed(s, 0)),
      ]),
      // the chosen row, straight through both
      across(row, "gf-row"),
      twin && across(twin.position, "gf-row gf-dashed"),
      svg("path", { class: "gf-curve", d: `M${points.join("L")}` }),
      svg("circle", { class: "gf-dot", cx: toCurve(1), cy: y(row), r: 4.5 }),
      twin && svg("circle", { class: "gf-ring", cx: toCurve(twin.similarity), cy: y(twin.position), r: 5 }),
      // its numbers
      text({ x: LEFT - 8, y: barsAt - ROW_HEIGHT / 2 + 9, "text-anchor": "end" }, "1"),
      text({ x: LEFT - 8, y: barsAt + ROW_HEIGHT / 2, "text-anchor": "end" }, "−1"),
      line(LEFT, barsAt - ROW_HEIGHT / 2, LEFT + table, barsAt - ROW_HEIGHT / 2, { class: "gf-grid" }),
      line(LEFT, barsAt + ROW_HEIGHT / 2, LEFT + table, barsAt + ROW_HEIGHT / 2, { class: "gf-grid" }),
      values[row].map((v, i) =>
        svg("rect", {
          class: "gf-bar",
          x: LEFT + (i / d) * table + (d > 64 ? 0.25 : 0.5),
          y: barsAt - Math.max(v, 0) * (ROW_HEIGHT / 2),
          width: table / d - (d > 64 ? 0.5 : 1),
          height: Math.abs(v) * (ROW_HEIGHT / 2),
        }),
      ),
      line(LEFT, barsAt, LEFT + table, barsAt, { class: "gf-axis" }),
      legend(right, barsAt, curve, row),
    );
    picture.replaceChildren(drawn);

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

  function legend(left, middle, width, row) {
    const bar = Math.min(width, 150);
    const cells = range(31).map((i) => {
      const x = left + (i / 31) * bar;
      return svg("rect", { x, y: middle + 2, width: bar / 31 + 0.3, height: 10, fill: diverging(i / 15 - 1) });
    });
    return [
      svg("text", { x: left, y: middle - 18, class: "gf-strong" }, `← row ${row}`),
      cells,
      [-1, 0, 1].map((v) => {
        const attrs = { x: left + ((v + 1) / 2) * bar, y: middle + 27, "text-anchor": ["start", "middle", "end"][v + 1] };
        return svg("text", attrs, fixed(v, 0));
      }),
    ];
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
