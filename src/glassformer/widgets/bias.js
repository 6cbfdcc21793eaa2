// What distance does to a score: ALiBi's slopes and T5's buckets. See bias.py.
import { alibiSlopes, range, softmax, t5Bucket } from "./maths.js";
import { choice, cividis, diverging, fixed, frame, h, onChange, slider, svg, toggle, uniqueId } from "./kit.js";

const REACH = 150; // T5's staircase is drawn this far to both sides
const DARKEST = 8; // the bias that gets the strongest colour: e⁻⁸ leaves a weight 0.0003 of itself

// --- maths ----------------------------------------------------------------------------------------------------------

// What ALiBi adds to the score of a query and a key this many positions before it.
export const alibiBias = (slope, back) => 0 - slope * back;

// The attention that ALiBi's bias alone gives to the keys 0 … length − 1 from the last of them.
export const lastQueryWeights = (slope, length) =>
  softmax(range(length).map((key) => alibiBias(slope, length - 1 - key)));

// How many of the last query's nearest keys hold this share of its attention together.
export function windowSize(weights, share) {
  let held = 0;
  for (let size = 1; size < weights.length; size++) {
    held += weights[weights.length - size];
    if (held >= share) return size;
  }
  return weights.length;
}

// T5's buckets as steps { from, to, bucket } over relative positions (key − query) −reach … reach.
export function staircase(reach, settings) {
  const steps = [];
  for (let relative = -reach; relative <= reach; relative++) {
    const bucket = t5Bucket(relative, settings);
    const last = steps.at(-1);
    if (last?.bucket === bucket) last.to = relative;
    else steps.push({ from: relative, to: relative, bucket });
  }
  return steps;
}

// --- words ----------------------------------------------------------------------------------------------------------

const positions = (n) => `${n} position${n === 1 ? "" : "s"}`;

// 1/8 where the slope is one over a whole number, else three significant digits.
function slopeText(slope) {
  const inverse = Math.round(1 / slope);
  return Math.abs(1 / slope - inverse) < 1e-9 ? `1/${inverse}` : slope.toPrecision(3);
}

const small = (x) => (x >= 0.01 || x === 0 ? fixed(x, 2) : x.toExponential(1).replace("-", "−"));

function alibiSentence({ head, n_heads, query, key, slope }) {
  const lead = `Head ${head} of ${n_heads}, slope ${slopeText(slope)}: `;
  const back = query - key;
  if (back < 0) return `${lead}key ${key} lies ${positions(-back)} ahead of query ${query}; the causal mask hides it.`;
  if (back === 0) return `${lead}key ${key} is the query’s own position, bias 0; its weight is left as it is.`;
  const bias = alibiBias(slope, back);
  return (
    `${lead}key ${key} lies ${positions(back)} back from query ${query}, bias ${fixed(bias, bias > -0.1 ? 3 : 2)}; ` +
    `by itself that multiplies its weight by ${small(Math.exp(bias))}.`
  );
}

function t5Sentence({ query, key, steps, bidirectional }) {
  const relative = key - query;
  const where =
    relative === 0
      ? `Key ${key} is the query’s own position`
      : `Key ${key} lies ${Math.abs(relative)} ${relative < 0 ? "back from" : "ahead of"} query ${query}`;
  if (relative > 0 && !bidirectional) return `${where}: a decoder masks it, so it needs no bucket.`;
  const step = steps.find(({ from, to }) => from <= relative && relative <= to);
  const [near, far] = [Math.abs(step.from), Math.abs(step.to)].sort((a, b) => a - b);
  const open = far === REACH; // the last step goes on for ever
  const shared = open ? `, shared by all from ${near} on` : near === far ? ", all its own" : `, shared by ${near} to ${far}`;
  const past = steps.filter(({ to }) => to <= 0).reverse(); // from distance 0 outward
  const firstShared = past.find(({ from, to }) => from !== to);
  return (
    `${where}: bucket ${step.bucket}${shared}. Up to distance ${-firstShared.to - 1} every distance has its own bucket; ` +
    `beyond, they share.`
  );
}

// --- drawing --------------------------------------------------------------------------------------------------------

const GRID = { left: 40, top: 6, side: 290, width: 340, height: 336 };

const square = (row, column, size) =>
  `M${GRID.left + column * size} ${GRID.top + row * size}h${size}v${size}h${-size}z`;

// Every cell of one diagonal has the same distance, so the same colour: one path per diagonal.
function matrix({ length, query, key, colour, masked, hatch }) {
  const { left, top, side, width, height } = GRID;
  const size = side / length;
  const diagonal = (relative) =>
    range(length)
      .filter((row) => row + relative >= 0 && row + relative < length)
      .map((row) => square(row, row + relative, size))
      .join("");
  const visible = range(2 * length - 1).map((i) => i - length + 1);
  const middle = (i) => (i + 0.5) * size;
  const ticks = range(length).filter((i) => i % (length > 32 ? 16 : 8) === 0 || i === length - 1);
  const clear = (i) => i === length - 1 || length - 1 - i > length / 10; // leaves room for the last one
  const marker = Math.max(size, 9);
  const corner = (i) => middle(i) - marker / 2;
  const cell = { x: left + corner(key), y: top + corner(query), width: marker, height: marker, class: "gf-cell" };
  return svg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, class: "gf-panel gf-matrix" },
    svg(
      "pattern",
      { id: hatch, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
      svg("line", { x1: 0, x2: 0, y1: 0, y2: 6, class: "gf-hatch" }),
    ),
    svg(
      "g",
      { "shape-rendering": "crispEdges" },
      visible
        .filter((relative) => relative <= 0 || !masked)
        .map((relative) => svg("path", { d: diagonal(relative), fill: colour(relative) })),
    ),
    masked
      ? svg("path", {
          d:
            `M${left + size} ${top}` +
            range(length - 1)
              .map((row) => `V${top + (row + 1) * size}${row < length - 2 ? `h${size}` : ""}`)
              .join("") +
            `H${left + side}V${top}Z`,
          fill: `url(#${hatch})`,
        })
      : null,
    ticks.filter(clear).map((i) => [
      svg("text", { x: left - 6, y: top + middle(i) + 4, "text-anchor": "end" }, i),
      svg("text", { x: left + middle(i), y: top + side + 16, "text-anchor": "middle" }, i),
    ]),
    svg("text", { x: left + side / 2, y: top + side + 35, "text-anchor": "middle" }, "key position"),
    svg(
      "text",
      { x: 0, y: 0, "text-anchor": "middle", transform: `translate(11 ${top + side / 2}) rotate(-90)` },
      "query position",
    ),
    svg("rect", cell),
    svg("rect", cell),
  );
}

function scale(colours, from, to) {
  const id = uniqueId();
  return h(
    "p",
    { class: "gf-card-legend gf-card-scale" },
    from,
    svg(
      "svg",
      { viewBox: "0 0 80 10", width: 80, height: 10, "aria-hidden": "true" },
      svg("linearGradient", { id }, range(9).map((i) => svg("stop", { offset: i / 8, "stop-color": colours(i / 8) }))),
      svg("rect", { width: 80, height: 10, fill: `url(#${id})` }),
    ),
    to,
  );
}

// One dot per head on a logarithmic axis, since slopes halve from head to head.
function slopesPlot(slopes, head) {
  const [left, right, row] = [34, 290, slopes.length > 8 ? 14 : 20];
  const x = (slope) => left + 12 + ((Math.log2(slope) + 8) / 8) * (right - left - 12);
  const bottom = 8 + slopes.length * row;
  return svg(
    "svg",
    { viewBox: `0 0 340 ${bottom + 22}`, class: "gf-panel" },
    [1, 4, 16, 64, 256].map((n) => [
      svg("line", { x1: x(1 / n), x2: x(1 / n), y1: 4, y2: bottom, class: "gf-grid" }),
      svg("text", { x: x(1 / n), y: bottom + 16, "text-anchor": "middle" }, n === 1 ? "1" : `1/${n}`),
    ]),
    slopes.map((slope, i) => {
      const [y, chosen] = [8 + (i + 0.5) * row, i + 1 === head];
      const words = chosen ? "gf-strong" : "";
      return [
        svg("text", { x: left - 10, y: y + 4, "text-anchor": "end", class: words }, i + 1),
        svg("line", { x1: left, x2: x(slope), y1: y, y2: y, class: chosen ? "gf-stem gf-stem-chosen" : "gf-stem" }),
        svg("circle", { cx: x(slope), cy: y, r: chosen ? 5.5 : 3.5, class: chosen ? "gf-share-chosen" : "gf-share" }),
        chosen ? svg("text", { x: x(slope) + 11, y: y + 4, class: words }, slopeText(slope)) : null,
      ];
    }),
  );
}

const TALLEST = 0.6; // sixteen heads, head 1: slope 0.71 leaves 0.51 to the query's own position

function weightsPlot(weights, size) {
  const [left, right, top, bottom] = [40, 330, 8, 108];
  const step = (right - left) / weights.length;
  const y = (w) => bottom - (w / TALLEST) * (bottom - top);
  const middle = (key) => left + (key + 0.5) * step;
  return svg(
    "svg",
    { viewBox: "0 0 340 148", class: "gf-panel" },
    [0, 0.3, 0.6].map((w) => [
      svg("line", { x1: left, x2: right, y1: y(w), y2: y(w), class: w ? "gf-grid" : "gf-axis" }),
      svg("text", { x: left - 6, y: y(w) + 4, "text-anchor": "end" }, fixed(w, 1)),
    ]),
    weights.map((w, key) =>
      svg("rect", {
        x: left + (key + 0.1) * step,
        y: y(w),
        width: 0.8 * step,
        height: bottom - y(w),
        class: key >= weights.length - size ? "gf-share-chosen" : "gf-share",
      }),
    ),
    [0, weights.length - 1].map((key) => svg("text", { x: middle(key), y: bottom + 16, "text-anchor": "middle" }, key)),
    svg("text", { x: (left + right) / 2, y: bottom + 34, "text-anchor": "middle" }, "key position"),
  );
}

function stairsPlot(steps, { relative, bucket, nBuckets, masked, hatch }) {
  const [left, right, top, bottom] = [40, 330, 8, 250];
  const x = (r) => left + ((r + REACH + 0.5) / (2 * REACH + 1)) * (right - left);
  const y = (b) => bottom - (b / (nBuckets - 1)) * (bottom - top);
  const seen = masked ? steps.filter(({ from }) => from <= 0).map((s) => ({ ...s, to: Math.min(s.to, 0) })) : steps;
  const path = seen.map(({ from, to, bucket }, i) => `${i ? "L" : "M"}${x(from - 0.5)} ${y(bucket)}H${x(to + 0.5)}`);
  const hidden = masked && relative > 0;
  return svg(
    "svg",
    { viewBox: "0 0 340 292", class: "gf-panel" },
    [0, nBuckets / 2, nBuckets - 1].map((b) => [
      svg("line", { x1: left, x2: right, y1: y(b), y2: y(b), class: "gf-grid" }),
      svg("text", { x: left - 6, y: y(b) + 4, "text-anchor": "end" }, b),
    ]),
    [-150, -100, -50, 0, 50, 100, 150].map((r) => [
      svg("line", { x1: x(r), x2: x(r), y1: bottom, y2: bottom + 4, class: "gf-axis" }),
      svg("text", { x: x(r), y: bottom + 18, "text-anchor": "middle" }, fixed(r, 0)),
    ]),
    svg("line", { x1: left, x2: right, y1: bottom, y2: bottom, class: "gf-axis" }),
    svg("text", { x: (left + right) / 2, y: bottom + 38, "text-anchor": "middle" }, "key − query (positions)"),
    masked
      ? svg("rect", { x: x(0.5), y: top, width: right - x(0.5), height: bottom - top, fill: `url(#${hatch})` })
      : null,
    svg("path", { d: path.join(""), class: "gf-wave" }),
    hidden ? null : svg("line", { x1: x(relative), x2: x(relative), y1: y(bucket), y2: bottom, class: "gf-guide" }),
    hidden ? null : svg("circle", { cx: x(relative), cy: y(bucket), r: 5.5, class: "gf-spot" }),
  );
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
    title: "What distance does to a score, head by head",
    hint: "Point at a cell of the matrix, or move the query and key sliders.",
  });
  const hatch = uniqueId();
  const last = () => model.get("length") - 1;
  const cell = { min: 0, max: last, follows: ["length"] };
  const alibi = [
    slider(model, "n_heads", { label: "Number of heads", min: 1, max: 16 }),
    slider(model, "head", { label: "Head", min: 1, max: () => model.get("n_heads"), follows: ["n_heads"] }),
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

  const send = (changes) => {
    const news = Object.entries(changes).filter(([name, value]) => model.get(name) !== value);
    for (const [name, value] of news) model.set(name, value);
    if (news.length) model.save_changes();
  };
  // A smaller n_heads or length takes what no longer exists to the last that does: here, and in Python.
  const fit = () =>
    send({
      head: Math.min(model.get("head"), model.get("n_heads")),
      query: Math.min(model.get("query"), last()),
      key: Math.min(model.get("key"), last()),
    });
  for (const name of ["n_heads", "length"]) model.on(`change:${name}`, fit);

  const point = (event) => {
    const box = event.currentTarget.querySelector(".gf-matrix").getBoundingClientRect();
    const size = GRID.side / model.get("length");
    const along = (from, offset) => Math.floor((((from * GRID.width) / box.width) - offset) / size);
    const key = along(event.clientX - box.x, GRID.left);
    const query = along(event.clientY - box.y, GRID.top);
    if (Math.min(query, key) >= 0 && Math.max(query, key) <= last()) send({ query, key });
  };
  const cells = h("div", { class: "gf-panel-cell gf-cells", onpointermove: point, onpointerdown: point });
  const beside = h("div", { class: "gf-panel-cell" });
  panels.append(cells, beside);

  function drawAlibi({ length, query, key, n_heads, head }) {
    const slopes = alibiSlopes(n_heads);
    const slope = slopes[head - 1];
    const weights = lastQueryWeights(slope, length);
    const size = windowSize(weights, 0.9);
    const keys = size === 1 ? "key alone" : `${size} keys`;
    cells.replaceChildren(
      h("p", { class: "gf-panel-title" }, "Bias that head ", h("strong", {}, head), " adds to each score"),
      matrix({ length, query, key, hatch, masked: true, colour: (r) => diverging(alibiBias(slope, -r) / DARKEST) }),
      scale((t) => diverging(t - 1), `−${DARKEST} or less`, "0"),
    );
    beside.replaceChildren(
      h("p", { class: "gf-panel-title" }, "Slope of each head"),
      slopesPlot(slopes, head),
      h(
        "p",
        { class: "gf-panel-title" },
        "Attention of the last query from this bias alone: 90 % on the nearest ",
        h("strong", {}, keys),
      ),
      weightsPlot(weights, size),
    );
    view.describe(
      `ALiBi, head ${head} of ${n_heads}: the penalty grows by ${slopeText(slope)} with every position back. ` +
        `By this bias alone the last of ${length} queries gives 90 percent of its attention to the nearest ${keys}.`,
    );
    view.says(alibiSentence({ head, n_heads, query, key, slope }));
    view.tables([
      {
        caption: "Slope of each head, and the distance at which it halves a weight",
        headers: ["Head", "Slope", "Decimal", "Halves at distance"],
        rows: () => slopes.map((s, i) => [i + 1, slopeText(s), fixed(s, 6), fixed(Math.LN2 / s, 1)]),
      },
      {
        caption: `Head ${head}: bias by distance, and what the last query attends to by it alone`,
        headers: ["Positions back", "Bias", "Weight times", "Key", "Attention"],
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
    const steps = staircase(REACH, settings);
    const bucketOf = (relative) => t5Bucket(relative, settings);
    const masked = !bidirectional;
    const relative = key - query;
    cells.replaceChildren(
      h("p", { class: "gf-panel-title" }, "Bucket of each query and key"),
      matrix({ length, query, key, hatch, masked, colour: (r) => cividis(bucketOf(r) / (n_buckets - 1)) }),
      scale(cividis, "bucket 0", n_buckets - 1),
    );
    beside.replaceChildren(
      h("p", { class: "gf-panel-title" }, "Bucket number against distance; each head learns a bias for each bucket"),
      stairsPlot(steps, { relative, bucket: bucketOf(relative), nBuckets: n_buckets, masked, hatch }),
    );
    view.describe(
      `T5, ${n_buckets} buckets, ${bidirectional ? "both directions" : "past only"}: the bucket number climbs by one ` +
        `per position near the query and ever more slowly further away. Chosen: query ${query}, key ${key}.`,
    );
    view.says(t5Sentence({ query, key, steps, bidirectional }));
    view.table(
      "Relative positions (key − query) and the bucket they fall into",
      ["From", "To", "Bucket"],
      () =>
        steps
          .filter(({ from }) => bidirectional || from <= 0)
          .map(({ from, to, bucket }) => [
            from === -REACH ? "further back" : fixed(from, 0),
            to === REACH ? (bidirectional ? "further ahead" : "0") : fixed(to, 0),
            bucket,
          ]),
    );
  }

  const stop = onChange(model, TRAITS, () => {
    const state = Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]));
    if (state.head > state.n_heads || Math.max(state.query, state.key) >= state.length) return; // about to be fitted
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
