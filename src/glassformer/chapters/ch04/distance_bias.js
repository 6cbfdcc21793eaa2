// Shows what distance does to a score: ALiBi's slopes and T5's buckets. See distance_bias.py.
import { alibiSlopes, range, softmax, t5Bucket } from "../../widgets/kit/maths.js";
import { choice, fixed, frame, h, hold, onChange, put, setAll, slider, svg, toggle, uniqueId } from "../../widgets/kit/kit.js";
import { cividis, legend, line, linear, paint, palette, words, xAxis, yAxis } from "../../widgets/kit/plot.js";

const REACH = 150; // T5's staircase is drawn this far to both sides
const DARKEST = 8; // the bias with the strongest colour: e⁻⁸ reduces a weight to 0.0003 of its size

// --- maths ----------------------------------------------------------------------------------------------------------

// What ALiBi adds to the score for a key this many positions before its query.
export const alibiBias = (slope, back) => 0 - slope * back;

// The attention weights that ALiBi's bias alone gives to the keys 0 … length − 1, seen from the last one.
export const lastQueryWeights = (slope, length) =>
  softmax(range(length).map((key) => alibiBias(slope, length - 1 - key)));

// How many of the keys nearest to the last query together have this share of its attention.
export function windowSize(weights, share) {
  let held = 0;
  for (let size = 1; size < weights.length; size++) {
    held += weights[weights.length - size];
    if (held >= share) return size;
  }
  return weights.length;
}

// T5's buckets as steps { from, to, bucket } over relative positions (key − query), first … last.
export function staircase(first, last, settings) {
  const steps = [];
  for (let relative = first; relative <= last; relative++) {
    const bucket = t5Bucket(relative, settings);
    const step = steps.at(-1);
    if (step?.bucket === bucket) step.to = relative;
    else steps.push({ from: relative, to: relative, bucket });
  }
  return steps;
}

// --- words ----------------------------------------------------------------------------------------------------------

const positions = (n) => `${n} position${n === 1 ? "" : "s"}`;

// 1/8 if the slope is one over a whole number, otherwise three significant digits.
function slopeText(slope) {
  const inverse = Math.round(1 / slope);
  return Math.abs(1 / slope - inverse) < 1e-9 ? `1/${inverse}` : slope.toPrecision(3);
}

const small = (x) => (x >= 0.01 || x === 0 ? fixed(x, 2) : x.toExponential(1).replace("-", "−"));

function alibiSentence({ head, n_heads, query, key, slope }) {
  const lead = `Head ${head} (of heads 0 to ${n_heads - 1}), slope ${slopeText(slope)}: `;
  const back = query - key;
  if (back < 0) return `${lead}key ${key} is ${positions(-back)} after query ${query}, so the causal mask hides it.`;
  if (back === 0) return `${lead}key ${key} is at the query’s own position. The bias is 0.`;
  const bias = alibiBias(slope, back);
  return (
    `${lead}key ${key} is ${positions(back)} before query ${query}. The bias of ${fixed(bias, bias > -0.1 ? 3 : 2)} ` +
    `multiplies e^score by ${small(Math.exp(bias))}, before softmax divides by the sum.`
  );
}

// Up to which distance every distance has its own bucket, and what happens beyond it. `steps` are T5's.
function single(steps) {
  const past = steps.filter(({ to }) => to <= 0).reverse(); // from distance 0 outwards
  const first = past.findIndex(({ from, to }) => from !== to);
  const all = past.slice(first).every(({ from, to }) => from !== to);
  const own = -past[first].to - 1;
  const rest = all ? "distances share buckets" : "most distances share buckets";
  return `Up to ${own}, every distance has its own bucket; beyond that, ${rest}.`;
}

export function t5Sentence({ query, key, steps, bidirectional }) {
  const relative = key - query;
  const where =
    relative === 0
      ? `Key ${key} is at the query’s own position`
      : `Key ${key} is ${positions(Math.abs(relative))} ${relative < 0 ? "before" : "after"} query ${query}`;
  if (relative > 0 && !bidirectional) return `${where}. A decoder masks it, so it needs no bucket.`;
  const step = steps.find(({ from, to }) => from <= relative && relative <= to);
  const [near, far] = [Math.abs(step.from), Math.abs(step.to)].sort((a, b) => a - b);
  const open = far === REACH; // the last step has no end
  const whose = open ? `all distances from ${near} on` : near === far ? `only distance ${near}` : `distances ${near} to ${far}`;
  return `${where}, in bucket ${step.bucket}, which holds ${whose}. ${single(steps)}`;
}

// --- drawing --------------------------------------------------------------------------------------------------------

// A penalty from 0 (none) to 1: blue over the page's own colour, so that cells without a penalty do not glare in the dark.
const penalty = (share) => `rgb(0 114 178 / ${share})`;

// The same for a picture of pixels. No cell is wholly transparent, because 0 means that nothing is painted.
const penalties = (shares) =>
  Uint32Array.from(shares, (share) => {
    const opacity = Math.max(1, Math.round(255 * Math.min(share, 1)));
    return ((opacity << 24) | (178 << 16) | (114 << 8)) >>> 0;
  });

const WIDTH = 340; // the width of every drawing; they are shown as wide as there is room for

const SIDE = 290;
const GRID = { left: 40, right: 40 + SIDE, top: 6, bottom: 6 + SIDE };

// The part that the causal mask hides: a staircase above the diagonal.
function maskedCells({ length, hatch }) {
  const { left, right, top } = GRID;
  const size = SIDE / length;
  const step = (row) => `V${top + (row + 1) * size}${row < length - 2 ? `h${size}` : ""}`;
  const path = `M${left + size} ${top}${range(length - 1).map(step).join("")}H${right}V${top}Z`;
  return svg("path", { d: path, fill: `url(#${hatch})` });
}

const hatching = (id) =>
  svg(
    "pattern",
    { id, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    line(0, 0, 0, 6, "gf-hatch"),
  );

// Queries by keys: pixels for the cells, and on top of them the axes, the masked part and the chosen cell.
function matrix(hatch) {
  const pixels = h("canvas", { class: "gf-pixels" });
  const [left, top, width] = [GRID.left, GRID.top, SIDE].map((length) => `${(100 * length) / WIDTH}%`);
  Object.assign(pixels.style, { left, top, width, height: width });
  const scene = svg("g");
  const cell = [svg("rect", { class: "gf-cell" }), svg("rect", { class: "gf-cell" })];
  const size = { viewBox: `0 0 ${WIDTH} ${WIDTH}` };
  const over = svg("svg", { ...size, class: "gf-panel gf-matrix gf-over" }, hatching(hatch), scene, cell);

  // All cells of a diagonal have the same distance and so the same colour: colours(values of the distances 1 − T … T − 1).
  function follow({ length, query, key, masked, colours, value }) {
    const across = linear([-0.5, length - 0.5], [GRID.left, GRID.right]);
    const down = linear([-0.5, length - 0.5], [GRID.top, GRID.bottom]);
    hold(scene, [length, masked], () => {
      const clear = (i) => i === length - 1 || length - 1 - i > length / 10; // leaves room for the last number
      const values = range(length).filter((i) => (i % (length > 32 ? 16 : 8) === 0 && clear(i)) || i === length - 1);
      return [
        masked && maskedCells({ length, hatch }),
        xAxis(GRID, { values, place: across, title: "key position" }),
        yAxis(GRID, { values, place: down, title: "query position" }),
      ];
    });
    const byDistance = colours(range(2 * length - 1).map((i) => value(i - length + 1)));
    paint(pixels, length, length, (row, column) =>
      masked && column > row ? 0 : byDistance[column - row + length - 1],
    );
    const side = Math.max(SIDE / length, 9);
    for (const mark of cell) {
      put(mark, { x: across(key) - side / 2, y: down(query) - side / 2, width: side, height: side });
    }
  }
  return { element: h("div", { class: "gf-layers" }, pixels, over), follow };
}

// One dot per head on a logarithmic axis, since slopes halve from head to head.
function slopesPlot(slopes, head) {
  const row = slopes.length > 8 ? 14 : 20;
  const box = { left: 34, right: 290, top: 4, bottom: 8 + slopes.length * row };
  const x = (slope) => linear([-8, 0], [box.left + 12, box.right])(Math.log2(slope));
  const values = [1, 4, 16, 64, 256].map((n) => 1 / n);
  const stem = (slope, i) => {
    const [y, chosen] = [8 + (i + 0.5) * row, i === head];
    const style = chosen ? "gf-strong" : "";
    return [
      words(i, box.left - 10, y + 4, "end", style),
      line(box.left, y, x(slope), y, chosen ? "gf-stem gf-stem-chosen" : "gf-stem"),
      svg("circle", { cx: x(slope), cy: y, r: chosen ? 5.5 : 3.5, class: chosen ? "gf-share-chosen" : "gf-share" }),
      chosen && words(slopeText(slope), x(slope) + 11, y + 4, "start", style),
    ];
  };
  return svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${box.bottom + 22}`, class: "gf-panel" },
    xAxis(box, { values, place: x, format: (slope) => (slope === 1 ? "1" : slopeText(slope)), lines: true }),
    slopes.map(stem),
  );
}

const TALLEST = 0.6; // with sixteen heads, head 0 has slope 0.71, which leaves 0.51 to the query's own position

function weightsPlot(weights, size) {
  const box = { left: 40, right: 330, top: 8, bottom: 108 };
  const last = weights.length - 1;
  const x = linear([-0.5, last + 0.5], [box.left, box.right]);
  const y = linear([0, TALLEST], [box.bottom, box.top]);
  const bar = (weight, key) =>
    svg("rect", {
      x: x(key - 0.4),
      y: y(weight),
      width: x(0.4) - x(-0.4),
      height: box.bottom - y(weight),
      class: key > last - size ? "gf-share-chosen" : "gf-share",
    });
  return svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} 148`, class: "gf-panel" },
    yAxis(box, { values: [0, 0.3, 0.6], place: y, format: (weight) => fixed(weight, 1), lines: true }),
    weights.map(bar),
    xAxis(box, { values: [0, last], place: x, title: "key position" }),
  );
}

const STAIRS = { left: 40, right: 330, top: 8, bottom: 250 };
const stairsX = linear([-REACH - 0.5, REACH + 0.5], [STAIRS.left, STAIRS.right]);
const stairsY = (nBuckets) => linear([0, nBuckets - 1], [STAIRS.bottom, STAIRS.top]);

function stairsPlot(steps, { nBuckets, masked, hatch, mark }) {
  const [box, x, y] = [STAIRS, stairsX, stairsY(nBuckets)];
  const path = steps.map((step, i) => `${i ? "L" : "M"}${x(step.from - 0.5)} ${y(step.bucket)}H${x(step.to + 0.5)}`);
  const hidden = { x: x(0.5), y: box.top, width: box.right - x(0.5), height: box.bottom - box.top };
  return svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} 292`, class: "gf-panel" },
    yAxis(box, { values: [0, nBuckets / 2, nBuckets - 1], place: y, lines: true }),
    xAxis(box, {
      values: [-150, -100, -50, 0, 50, 100, 150],
      place: x,
      format: (distance) => fixed(distance, 0),
      title: "key − query (positions)",
      ticks: true,
    }),
    masked && svg("rect", { ...hidden, fill: `url(#${hatch})` }),
    svg("path", { d: path.join(""), class: "gf-wave" }),
    mark,
  );
}

function stairsMark(relative, bucket, nBuckets) {
  const [x, y] = [stairsX(relative), stairsY(nBuckets)(bucket)];
  return [line(x, y, x, STAIRS.bottom, "gf-guide"), svg("circle", { cx: x, cy: y, r: 5.5, class: "gf-spot" })];
}

// --- view -----------------------------------------------------------------------------------------------------------

const TRAITS = [
  "method",
  "length",
  "query",
  "key",
  "n_heads",
  "head",
  "bidirectional",
  "n_buckets",
  "max_distance",
];

function render({ model, el }) {
  const view = frame(el, {
    title: "How distance changes a score, head by head",
    hint: "Point at a cell of the matrix, or move the query and key sliders.",
  });
  const hatch = uniqueId();
  const last = () => model.get("length") - 1;
  const cell = { min: 0, max: last, follows: ["length"] };
  const alibi = [
    slider(model, "n_heads", { label: "Number of heads", min: 1, max: 16 }),
    slider(model, "head", { label: "Head", min: 0, max: () => model.get("n_heads") - 1, follows: ["n_heads"] }),
  ];
  const t5 = [
    toggle(model, "bidirectional", { label: "Bidirectional" }),
    choice(model, "n_buckets", { label: "Buckets", options: [8, 16, 32].map((n) => [n, n]) }),
    choice(model, "max_distance", { label: "Maximum distance", options: [32, 64, 128].map((n) => [n, n]) }),
  ];
  view.controls.classList.add("gf-distances");
  view.controls.append(
    choice(model, "method", { label: "Method", options: [["alibi", "ALiBi"], ["t5", "T5"]] }),
    ...alibi,
    ...t5,
    slider(model, "length", { label: "Positions", min: 8, max: 64 }),
    slider(model, "query", { label: "Query", ...cell }),
    slider(model, "key", { label: "Key", ...cell }),
  );
  const panels = h("div", { class: "gf-panels" });
  view.drawing.append(panels);

  const send = (changes) => setAll(model, changes);
  // If n_heads or length is reduced, choices beyond it become the last one that exists: here, and in Python.
  const fit = () =>
    send({
      head: Math.min(model.get("head"), model.get("n_heads") - 1),
      query: Math.min(model.get("query"), last()),
      key: Math.min(model.get("key"), last()),
    });
  for (const name of ["n_heads", "length"]) model.on(`change:${name}`, fit);

  const point = (event) => {
    const box = event.currentTarget.querySelector(".gf-matrix").getBoundingClientRect();
    const size = SIDE / model.get("length");
    const along = (from, offset) => Math.floor(((from * WIDTH) / box.width - offset) / size);
    const key = along(event.clientX - box.x, GRID.left);
    const query = along(event.clientY - box.y, GRID.top);
    if (Math.min(query, key) >= 0 && Math.max(query, key) <= last()) send({ query, key });
  };
  const square = matrix(hatch);
  const [heading, colours] = [h("p", { class: "gf-panel-title" }), h("div")];
  const beside = h("div", { class: "gf-panel-cell" });
  const mark = svg("g"); // marks the chosen distance on T5's staircase
  panels.append(
    h("div", { class: "gf-panel-cell", onpointermove: point, onpointerdown: point }, heading, square.element, colours),
    beside,
  );

  function drawAlibi({ length, query, key, n_heads, head }) {
    const slopes = alibiSlopes(n_heads);
    const slope = slopes[head];
    const weights = lastQueryWeights(slope, length);
    const size = windowSize(weights, 0.9);
    const keys = size === 1 ? "key alone" : `${size} keys`;
    hold(heading, ["alibi", head], () => ["Bias that head ", h("strong", {}, head), " adds to each score"]);
    hold(colours, ["alibi"], () => legend((t) => penalty(1 - t), `−${DARKEST} or less`, "0"));
    const value = (relative) => -alibiBias(slope, -relative) / DARKEST;
    square.follow({ length, query, key, masked: true, colours: penalties, value });
    hold(beside, ["alibi", n_heads, head, length], () => [
      h("p", { class: "gf-panel-title" }, "Slope of each head"),
      slopesPlot(slopes, head),
      h(
        "p",
        { class: "gf-panel-title" },
        "The last query’s attention from this bias alone: 90 % of it goes to the nearest ",
        h("strong", {}, keys),
      ),
      weightsPlot(weights, size),
    ]);
    view.describe(
      () =>
        `ALiBi, head ${head} of 0 to ${n_heads - 1}: the penalty grows by ${slopeText(slope)} per position. ` +
        `From this bias alone, the last of ${length} queries gives 90 percent of its attention to the nearest ${keys}.`,
    );
    view.says(alibiSentence({ head, n_heads, query, key, slope }));
    view.tables(() => [
      {
        caption: "Slope of each head, and the distance at which it halves a weight",
        headers: ["Head", "Slope", "Decimal", "Halves at distance"],
        rows: () => slopes.map((s, i) => [i, slopeText(s), fixed(s, 6), fixed(Math.LN2 / s, 1)]),
      },
      {
        caption: `Head ${head}: the bias at each distance, and the attention of the last query from this bias alone`,
        headers: ["Positions back", "Bias", "Factor for e^score", "Key", "Attention"],
        rows: () =>
          range(length).map((back) => {
            const bias = alibiBias(slope, back);
            const target = length - 1 - back;
            return [back, fixed(bias, 4), small(Math.exp(bias)), target, small(weights[target])];
          }),
      },
    ]);
  }

  function drawT5({ length, query, key, bidirectional, n_buckets, max_distance }) {
    const settings = { bidirectional, nBuckets: n_buckets, maxDistance: max_distance };
    const steps = staircase(-REACH, bidirectional ? REACH : 0, settings);
    const bucketOf = (relative) => t5Bucket(relative, settings);
    const masked = !bidirectional;
    const relative = key - query;
    hold(heading, ["t5"], () => "Bucket of each query and key");
    hold(colours, ["t5", n_buckets], () => legend(cividis, "bucket 0", n_buckets - 1));
    const value = (r) => bucketOf(r) / (n_buckets - 1);
    square.follow({ length, query, key, masked, colours: (values) => palette(cividis, values), value });
    hold(beside, ["t5", bidirectional, n_buckets, max_distance], () => [
      h("p", { class: "gf-panel-title" }, "Bucket for each distance; every head learns a bias for each bucket"),
      stairsPlot(steps, { nBuckets: n_buckets, masked, hatch, mark }),
    ]);
    const hidden = masked && relative > 0;
    hold(mark, [relative, n_buckets, max_distance, masked], () =>
      hidden ? [] : stairsMark(relative, bucketOf(relative), n_buckets),
    );
    view.describe(
      () =>
        `T5, ${n_buckets} buckets, ${bidirectional ? "both directions" : "past only"}: ${single(steps)} ` +
        `Chosen: query ${query}, key ${key}.`,
    );
    view.says(t5Sentence({ query, key, steps, bidirectional }));
    view.tables(() => [
      {
        caption: "Relative positions (key − query) and the bucket they fall into",
        headers: ["From", "To", "Bucket"],
        rows: steps.map(({ from, to, bucket }) => [
          from === -REACH ? "further back" : fixed(from, 0),
          to === REACH ? "further ahead" : fixed(to, 0),
          bucket,
        ]),
      },
    ]);
  }

  const stop = onChange(model, TRAITS, () => {
    const state = Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]));
    if (state.head >= state.n_heads || Math.max(state.query, state.key) >= state.length) return; // about to be corrected
    for (const control of alibi) control.hidden = state.method !== "alibi";
    for (const control of t5) control.hidden = state.method !== "t5";
    (state.method === "alibi" ? drawAlibi : drawT5)(state);
  });
  return () => {
    for (const name of ["n_heads", "length"]) model.off(`change:${name}`, fit);
    stop();
  };
}

export default { render };
