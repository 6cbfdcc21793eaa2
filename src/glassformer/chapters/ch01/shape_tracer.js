// Draws every array of a decoder to one scale: a row for each token, a column for each of its numbers. Below the arrays, bars
// show each kind's share of all numbers and of all work. Shapes can be hidden until the reader has guessed them.

import { range } from "../../widgets/kit/maths.js";
import { button, choice, fixed, frame, grouped, h, hold, onResize, plural, put, redrawing, slider, svg, textField, toggle, uniqueId, write } from "../../widgets/kit/kit.js";
import { words } from "../../widgets/kit/plot.js";

const SIZES = ["length", "d_model", "n_heads", "n_layers", "d_ff", "vocab_size", "gated"];

// --- what a decoder computes ------------------------------------------------------------------------------------------

// The kinds of arrays and of work, each in its role's colour. Where every query meets every key, there is one number for
// each pair, drawn in stripes of both colours.
export const KINDS = [
  ["stream", "the stream", "var(--gf-residual)"],
  ["projections", "q, k, v and W_o", "var(--gf-query)"],
  ["pairs", "scores and mixing", "pairs"],
  ["feedforward", "feed-forward", "var(--gf-feedforward)"],
  ["head", "logits", "var(--gf-prediction)"],
];

// The arrays in the order in which they are computed, those of a block only once, under the names of glassformer.trace.
//   axes    the axes of the shape
//   work    operations by kind: one multiplication and one addition for each pair of numbers in a matrix product
export function arrays({ length: T, d_model: D, n_heads: H, n_layers: L, d_ff: F, vocab_size: V, gated }) {
  const K = D / H;
  const projection = 2 * T * D * D;
  const mixing = 2 * T * T * D; // all heads together: H · 2 · T · T · K
  const into = 2 * T * D * F;
  const rows = { axes: "(T, D)", shape: [T, D] };
  const heads = { axes: "(H, T, K)", shape: [H, T, K], kind: "projections", work: { projections: projection } };
  const pairs = { axes: "(H, T, T)", shape: [H, T, T], kind: "pairs" };
  const attention = { part: "attention", times: L };
  const feedforward = { part: "feed-forward", times: L };
  const stream = { name: "stream", kind: "stream", work: {}, ...rows };
  return [
    { part: "in", times: 1, ...stream },
    { ...attention, name: "q", ...heads },
    { ...attention, name: "k", ...heads, colour: "var(--gf-key)" },
    { ...attention, name: "v", ...heads, colour: "var(--gf-value)" },
    { ...attention, name: "scores", ...pairs, work: { pairs: mixing } },
    { ...attention, name: "weights", ...pairs, work: {} },
    { ...attention, name: "write", kind: "projections", work: { pairs: mixing, projections: projection }, ...rows },
    { ...attention, ...stream },
    {
      ...feedforward,
      name: "neurons",
      kind: "feedforward",
      axes: "(T, F)",
      shape: [T, F],
      work: { feedforward: gated ? 2 * into : into },
    },
    { ...feedforward, name: "write", kind: "feedforward", work: { feedforward: into }, ...rows },
    { ...feedforward, ...stream },
    { part: "out", times: 1, ...stream, name: "normed", colour: "var(--gf-norm)" },
    { part: "out", times: 1, name: "logits", kind: "head", axes: "(T, V)", shape: [T, V], work: { head: 2 * T * D * V } },
  ];
}

const product = (shape) => shape.reduce((a, b) => a * b, 1);
const sum = (list) => list.reduce((a, b) => a + b, 0);
export const numbers = ({ shape }) => product(shape);
export const operations = ({ work }) => sum(Object.values(work));

// How many numbers and operations of each kind the whole model has.
export function totals(list) {
  const of = (kind, amount) => sum(list.map((array) => array.times * amount(array, kind)));
  const held = (array, kind) => (array.kind === kind ? numbers(array) : 0);
  return KINDS.map(([kind]) => ({
    kind,
    numbers: of(kind, held),
    operations: of(kind, ({ work }, which) => work[which] ?? 0),
  }));
}

// --- words ------------------------------------------------------------------------------------------------------------

const named = (unit, names, x) => {
  let i = 0;
  for (; x >= unit && i < names.length - 1; i++) x /= unit;
  return i === 0 ? grouped(x) : `${fixed(x, x < 9.995 ? 2 : x < 99.95 ? 1 : 0)}${names[i]}`;
};
export const bytes = (n) => (n < 1024 ? `${grouped(n)} bytes` : named(1024, ["", " KiB", " MiB", " GiB", " TiB"], n));
export const many = (n) => (n < 1e6 ? grouped(n) : named(1000, ["", "", " million", " billion", " trillion", " quadrillion"], n));
export const percent = (part) => (part > 0 && part < 0.0005 ? "below 0.1 %" : `${fixed(100 * part, 1)} %`);
export const spelled = (shape) => `(${shape.join(", ")})`;
const nameOf = ({ part, name }) => (part === "in" || part === "out" ? name : `${name} of ${part}`);

const whereOf = ({ part, times }) =>
  part === "in" ? "before the first block" : part === "out" ? "after the last block" : times === 1 ? "in the block" : `in each of ${times} blocks`;

export function sentence(array, list) {
  const start = `${nameOf(array)}, ${whereOf(array)}: ${array.axes} = ${spelled(array.shape)}`;
  const size = `${grouped(numbers(array))} number${numbers(array) === 1 ? "" : "s"}, ${bytes(4 * numbers(array))} in float32`;
  const work = operations(array);
  if (work === 0) return `${start}, ${size}. It is not the result of a matrix product, so it counts as no work here.`;
  const share = percent((array.times * work) / sum(list.map((other) => other.times * operations(other))));
  const all = array.times > 1 ? `; in all ${array.times} blocks together, that is` : ", which is";
  return `${start}, ${size}. Computing it takes ${many(work)} operations${all} ${share} of the work.`;
}

export const question = (array, { length, d_model, n_heads, d_ff, vocab_size }) =>
  `${nameOf(array)}, ${whereOf(array)}: what is its shape? T = ${length}, D = ${d_model}, H = ${n_heads}, K = D / H = ${
    d_model / n_heads
  }, F = ${d_ff}, V = ${vocab_size}.`;

// What to say about a guess; null if there is none. The order of the axes is that of the trace.
export function judge(guess, { shape }) {
  const given = (guess.match(/\d+/g) ?? []).map(Number);
  if (given.length === 0) return null;
  const start = `${spelled(given)}? Not yet.`;
  const same = (a, b) => a.length === b.length && a.every((x, i) => x === b[i]);
  if (same(given, shape)) return { right: true, words: "Right." };
  if (same([...given].sort((a, b) => a - b), [...shape].sort((a, b) => a - b)))
    return { right: false, words: `${start} These are its axes, in another order.` };
  if (given.length !== shape.length) {
    const axes = shape.length === 3 ? "three axes, and the first counts heads" : "two axes, and the first counts tokens";
    const as = product(given) === product(shape) ? "It has that many numbers, but " : "It has ";
    return { right: false, words: `${start} ${as}${axes}.` };
  }
  const right = range(shape.length).filter((i) => given[i] === shape[i]);
  const which = ["first", "second", "third"];
  if (right.length === 0) return { right: false, words: `${start} The number of axes is right, but none has the right length.` };
  const those = right.map((i) => which[i]).join(" and the ");
  return { right: false, words: `${start} The ${those} ${right.length > 1 ? "are" : "is"} right.` };
}

// --- drawing ----------------------------------------------------------------------------------------------------------

const ROWS = [[0], [1, 2, 3], [4, 5], [6, 7], [8], [9, 10], [11, 12]];
const HEADINGS = { 0: "In", 1: "Attention", 4: "Feed-forward", 6: "Out" }; // above these rows
const IN_BLOCK = [1, 5]; // the first and the last row of those that repeat
const WIDER = { 12: 2 }; // with a large vocabulary, the logits are by far the widest array
const PAD = 10;
const GAP = 12;
const TALL = 36; // the largest height

const columnsOf = ({ shape }) => (shape.length === 3 ? shape[0] * shape[2] : shape[1]);
const tokensOf = ({ shape }) => shape.at(-2);

// The position of everything in a drawing of this width: all arrays have the same scale.
function layout(list, width) {
  const lines = width < 480 ? 2 : 1;
  const place = (row, i) => {
    const parts = row.map((index) => WIDER[index] ?? 1);
    const part = (width - 2 * PAD - (row.length - 1) * GAP) / sum(parts);
    return { x: PAD + i * GAP + part * sum(parts.slice(0, i)), room: part * parts[i] };
  };
  const tight = ROWS.flatMap((row) => row.map((index, i) => (place(row, i).room - 2) / columnsOf(list[index])));
  const scale = Math.min(TALL / tokensOf(list[0]), ...tight);
  const high = Math.max(1, tokensOf(list[0]) * scale);
  const cells = [];
  const headings = [];
  const block = {};
  let y = 0;
  ROWS.forEach((row, r) => {
    if (r === IN_BLOCK[0]) block.top = y + 6;
    if (HEADINGS[r]) {
      headings.push({ text: HEADINGS[r], y: y + 24 });
      y += 30;
    }
    row.forEach((index, i) => {
      const { x, room } = place(row, i);
      const across = Math.max(1, columnsOf(list[index]) * scale);
      cells[index] = { x, y, room, lines, top: y + 4 + 16 * lines, across, high, height: 16 * lines + high + 10 };
    });
    y += 16 * lines + high + 16;
    if (r === IN_BLOCK[1]) {
      block.bottom = y;
      y += 6;
    }
  });
  return { cells, headings, block, height: y, scale };
}

// The lines between heads, if there is room for them.
function between({ x, top, across, high }, { shape }) {
  const each = across / shape[0];
  if (shape.length < 3 || each < 4) return "";
  return range(shape[0] - 1).map((i) => `M${(x + (i + 1) * each).toFixed(2)} ${top}v${high.toFixed(2)}`).join("");
}

const colourOf = (kind) => KINDS.find(([name]) => name === kind)[2];
const painted = (colour) => (colour === "pairs" ? "gf-pairs" : "gf-plain");
const coloured = (colour) => (colour === "pairs" ? "" : `--kind: ${colour}`);

const pattern = (id) =>
  svg(
    "pattern",
    { id, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    svg("rect", { width: 3, height: 6, style: "fill: var(--gf-query)" }),
    svg("rect", { x: 3, width: 3, height: 6, style: "fill: var(--gf-key)" }),
  );

// A cell: its name, its shape, and the array to scale. The box around it responds to the pointer.
function cell(index, stripes) {
  const box = svg("rect", { class: "gf-cell", "data-array": index });
  const around = svg("rect", { class: "gf-chosen", rx: 5 });
  const [name, shape] = [words("", 0, 0, "start", "gf-strong"), words("", 0, 0)];
  const body = svg("rect", { class: "gf-array" });
  const heads = svg("path", { class: "gf-heads" });
  const element = svg("g", {}, around, box, name, shape, body, heads);

  function show(at, array, { chosen, hidden }) {
    const place = { x: at.x - 5, y: at.y - 1, height: at.height };
    const [wide, told] = [8 * array.name.length, 7 * spelled(array.shape).length];
    const filled = Math.max(at.across, at.lines === 1 ? wide + 8 + told : Math.max(wide, told)) + 10;
    put(box, { ...place, width: at.room + 8 });
    put(around, { ...place, width: Math.min(filled, at.room + 8), visibility: chosen ? "visible" : "hidden" });
    put(name, { x: at.x, y: at.y + 13 });
    write(name, array.name);
    put(shape, { x: at.lines === 1 ? at.x + 8 * array.name.length + 8 : at.x, y: at.y + 13 + 16 * (at.lines - 1) });
    write(shape, hidden ? "(?)" : spelled(array.shape));
    const size = { x: at.x, y: at.top, width: at.across.toFixed(2), height: at.high.toFixed(2) };
    const colour = array.colour ?? colourOf(array.kind);
    put(body, { ...size, style: colour === "pairs" ? `fill: url(#${stripes})` : `fill: ${colour}` });
    put(heads, { d: hidden ? "" : between(at, array) });
  }
  return { element, show };
}

// Two bars: the share of each kind in all numbers, and in all work.
function bars() {
  const bar = (title) => {
    const name = h("p", { class: "gf-share-name" });
    const parts = KINDS.map(([, , colour]) => h("span", { class: painted(colour), style: coloured(colour) }));
    return { name, title, parts, element: h("div", {}, name, h("div", { class: "gf-share" }, parts)) };
  };
  const both = { numbers: bar("All arrays"), operations: bar("All work") };
  const swatch = (colour) => h("i", { class: painted(colour), style: coloured(colour) });
  const key = KINDS.map(([, text, colour]) => h("span", { class: "gf-kind" }, swatch(colour), text));
  const element = h("div", { class: "gf-shares" }, Object.values(both).map((one) => one.element), h("p", { class: "gf-legend" }, key));

  function show(all) {
    for (const [what, { name, title, parts }] of Object.entries(both)) {
      const total = sum(all.map((one) => one[what]));
      write(name, `${title}: ${what === "numbers" ? `${many(total)} numbers, ${bytes(4 * total)}` : `${many(total)} multiplications and additions`}`);
      parts.forEach((part, i) => (part.style.flexGrow = (all[i][what] / total).toFixed(6)));
    }
  }
  return { element, show };
}

// --- view -------------------------------------------------------------------------------------------------------------

function render({ model, el }) {
  const view = frame(el, {
    title: "The shapes of everything",
    hint:
      "The drawing shows every array that a decoder makes in one run, all to the same scale, with a row for each token. " +
      "Choose sizes or a model. Point at an array, or pick it from the list, to see how large it is and how much work it takes.",
  });
  const get = (name) => model.get(name);
  const sizes = () => Object.fromEntries(SIZES.map((name) => [name, get(name)]));
  const send = (traits) => {
    for (const [name, value] of Object.entries(traits)) model.set(name, value);
    model.save_changes();
  };
  // The range of a slider, and its value if that is outside the range.
  const values = (name, fits = () => true) => () =>
    [...new Set([...get("_choices")[name].filter(fits), get(name)])].sort((a, b) => a - b);

  view.controls.classList.add("gf-compact", "gf-six");
  const presets = get("_presets").map(([name, traits]) => button(name, () => send(traits)));
  const names = arrays(sizes()).map((array, i) => [i, nameOf(array) + (array.part === "in" ? ", first" : "")]);
  const guess = textField(model, "guess", { label: "Its shape", maxLength: 30 });
  const check = button("Check", () => told(judge(get("guess"), arrays(sizes())[get("array")])));
  const show = button("Show it", () => uncover());
  const asking = h("div", { class: "gf-asking" }, guess, check, show);
  view.controls.append(
    slider(model, "length", { label: "Tokens T", values: values("length"), format: grouped }),
    slider(model, "d_model", { label: "Width D", values: values("d_model"), format: grouped }),
    slider(model, "n_heads", {
      label: "Heads H",
      values: values("n_heads", (n) => get("d_model") % n === 0),
      follows: ["d_model"],
    }),
    slider(model, "n_layers", { label: "Blocks", min: 1, max: 128 }),
    slider(model, "d_ff", { label: "Neurons F", values: values("d_ff"), format: grouped }),
    slider(model, "vocab_size", { label: "Vocabulary V", values: values("vocab_size"), format: grouped }),
    h("div", { class: "gf-buttons" }, presets, toggle(model, "gated", { label: "Feed-forward with a gate" })),
  );
  // Next to the sentence that they change
  const picking = h(
    "div",
    { class: "gf-controls gf-picking" },
    choice(model, "array", { label: "Array", options: names }),
    toggle(model, "hidden", { label: "Hide the shapes: guess first" }),
    asking,
  );
  view.drawing.after(picking);

  const picture = svg("svg", { class: "gf-shapes" });
  const [block, repeat] = [svg("rect", { class: "gf-block", rx: 8 }), words("", 0, 0, "end")];
  const headings = svg("g");
  const stripes = uniqueId();
  const cells = range(names.length).map((i) => cell(i, stripes));
  const share = bars();
  picture.append(pattern(stripes), block, repeat, headings, ...cells.map(({ element }) => element));
  view.drawing.append(picture, share.element);

  let pointedAt = null;
  let answer = ""; // what was said about the last guess

  function told(verdict) {
    if (verdict === null) answer = "Write the lengths of its axes, such as 41, 128. ";
    else if (verdict.right) return uncover(verdict.words);
    else answer = `${verdict.words} `;
    drawn.ask();
  }
  function uncover(said = "") {
    answer = said && `${said} `;
    send({ seen: [...new Set([...get("seen"), get("array")])] });
    drawn.ask();
  }
  guess.addEventListener("keydown", (event) => event.key === "Enter" && check.click());

  function draw() {
    const now = sizes();
    const list = arrays(now);
    const at = pointedAt ?? get("array");
    const covered = (i) => get("hidden") && !get("seen").includes(i);
    const width = view.drawing.clientWidth || 600;
    const place = layout(list, width);
    put(picture, { viewBox: `0 0 ${width} ${place.height}`, width, height: place.height });
    put(block, { x: 1, y: place.block.top, width: width - 2, height: place.block.bottom - place.block.top });
    put(repeat, { x: width - PAD, y: place.block.top + 18 });
    write(repeat, now.n_layers === 1 ? "one block" : `× ${now.n_layers} blocks, all alike`);
    hold(headings, [width, ...place.headings.map(({ y }) => y)], () =>
      place.headings.map(({ text, y }) => words(text, PAD, y, "start", "gf-axis-title")),
    );
    list.forEach((array, i) => cells[i].show(place.cells[i], array, { chosen: i === at, hidden: covered(i) }));
    share.show(totals(list));
    share.element.hidden = get("hidden");
    asking.hidden = !get("hidden");
    view.says(answer + (covered(at) ? question(list[at], now) : sentence(list[at], list)));
    view.describe(() => {
      const shown = list.map((array, i) => `${nameOf(array)} ${covered(i) ? "hidden" : spelled(array.shape)}`);
      return `The arrays of a decoder with ${plural(now.n_layers, "block")}, drawn to scale: ${shown.join(", ")}.`;
    });
    view.tables(() => {
      const all = sum(list.map((array) => array.times * operations(array)));
      return [
        {
          caption: "Every array; the work in all blocks together",
          headers: ["Array", "Axes", "Shape", "Numbers", "float32", "Operations", "Times", "Share of work"],
          rows: list.map((array, i) => [
            nameOf(array),
            ...(covered(i)
              ? range(5).map(() => "?")
              : [array.axes, spelled(array.shape), grouped(numbers(array)), bytes(4 * numbers(array)), grouped(operations(array))]),
            array.times,
            covered(i) ? "?" : percent((array.times * operations(array)) / all),
          ]),
        },
      ];
    });
  }

  const drawn = redrawing(model, [...SIZES, "array", "hidden", "seen"], draw);

  // As in Python: if the number of heads does not divide the width, use the next smaller one that does.
  function keepHeads() {
    const [D, H] = [get("d_model"), get("n_heads")];
    if (D % H) send({ n_heads: Math.max(...range(H).map((i) => i + 1).filter((n) => D % n === 0)) });
  }
  function another() {
    answer = "";
    if (get("guess")) send({ guess: "" });
  }
  const anew = () => {
    another();
    if (get("seen").length) send({ seen: [] });
  };
  model.on("change:d_model", keepHeads);
  model.on("change:array", another);
  for (const name of [...SIZES, "hidden"]) model.on(`change:${name}`, anew);

  const under = ({ target }) => target.closest?.("g")?.querySelector("[data-array]")?.dataset.array ?? null;
  picture.addEventListener("pointermove", (event) => {
    const found = event.pointerType === "touch" ? null : under(event);
    const next = found === null ? null : Number(found);
    if (next === pointedAt) return;
    pointedAt = next;
    drawn.ask();
  });
  picture.addEventListener("pointerleave", () => {
    pointedAt = null;
    drawn.ask();
  });
  picture.addEventListener("click", (event) => {
    const found = under(event);
    if (found !== null) send({ array: Number(found) });
  });

  const unsize = onResize(view.drawing, drawn.ask);
  return () => {
    model.off("change:d_model", keepHeads);
    model.off("change:array", another);
    for (const name of [...SIZES, "hidden"]) model.off(`change:${name}`, anew);
    unsize();
    drawn.stop();
  };
}

export default { render };
