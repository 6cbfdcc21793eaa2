// Writing with and without a key–value cache, pass by pass: what is computed again, and what is remembered. See
// cache_movie.py.
import { cacheBytes, inBytes, kindOf, much, sum } from "../../widgets/engine/counting.js";
import { range } from "../../widgets/kit/maths.js";
import {
  button, choice, fixed, frame, grouped, h, hold, put, redrawing, setAll, slider, svg, textField, uniqueId, write,
} from "../../widgets/kit/kit.js";
import { line, words } from "../../widgets/kit/plot.js";

export { cacheBytes, kindOf } from "../../widgets/engine/counting.js";

const LONGEST = 24;
const SHORTEST_LENGTH = 16;
const BOOK = "shakespeare"; // the book's model, the only one that was measured
const BEAT = 1200; // milliseconds between two passes during automatic play

// --- counting -------------------------------------------------------------------------------------------------------

// The multiply–adds of a pass that reads a number of positions after the cached ones; one position goes on to the head.
export function multiplyAdds({ L, D, H, G, K, F, N, V }, read, past = 0) {
  const projections = read * D * K * (2 * H + 2 * G);
  const scoresAndMeans = 2 * H * read * (past + read) * K;
  return L * (projections + scoresAndMeans + read * N * D * F) + D * V;
}

// For one pass: the first reads the prompt; later ones read the last id with a cache, and the whole text without one.
export const passWork = (sizes, prompt, step, cached) =>
  cached && step ? multiplyAdds(sizes, 1, prompt + step - 1) : multiplyAdds(sizes, prompt + step);

// For the first passes together.
export const totalWork = (sizes, prompt, passes, cached) =>
  sum(range(passes).map((step) => passWork(sizes, prompt, step, cached)));

// The state of every row of q, k and v, and of every score, in a pass: "new"; "again", computed as in the pass before;
// "kept", remembered from then; "masked", computed and then hidden; "gone", neither computed nor needed.
export function states(prompt, step, cached) {
  const T = prompt + step;
  const isNew = (t) => step === 0 || t === T - 1;
  const row = (t, before) => (isNew(t) ? "new" : before);
  const past = cached ? "kept" : "again";
  return {
    q: range(T).map((t) => row(t, cached ? "gone" : "again")),
    k: range(T).map((t) => row(t, past)),
    v: range(T).map((t) => row(t, past)),
    scores: range(T).map((t) =>
      range(T).map((s) => {
        const made = row(t, cached ? "gone" : "again");
        return s > t && made !== "gone" ? "masked" : made;
      }),
    ),
  };
}

// What a pass costs at least: all weights and the cached keys and values are fetched once, and the slower of fetching and
// multiplying takes all the time. The rates are about those of an A100 with 80 GB; float32 halves that of multiplying.
const FETCHED = 2e12; // bytes a second
const MULTIPLIED = 156e12; // multiply–adds of 16-bit numbers a second

export function leastCost(sizes, read, past, bytes, ownG = sizes.G) {
  const weights = sizes.P - sizes.W * (ownG - sizes.G);
  const fetched = weights * bytes + cacheBytes(sizes, past, bytes);
  const seconds = Math.max(fetched / FETCHED, (multiplyAdds(sizes, read, past) * bytes) / 2 / MULTIPLIED);
  return { fetched, milliseconds: 1000 * seconds };
}

// The milliseconds of a pass that were measured.
export const measuredTime = ({ without, with: cached }, prompt, step, has) =>
  has && step ? cached[prompt + step - 1] : without[prompt + step - 1];

export const divisors = (n) => range(n).map((i) => i + 1).filter((i) => n % i === 0);

const powers = (context) => range(32).map((i) => 2 ** i).filter((n) => n >= SHORTEST_LENGTH && n <= context);

// --- words ----------------------------------------------------------------------------------------------------------

const heads = (n) => `${n} ${n === 1 ? "head" : "heads"}`;
const shown = (character) => (character === " " ? "␣" : character === "\n" ? "⏎" : character);
const inTime = (ms) => (ms < 0.1 ? `${Number((1000 * ms).toPrecision(2))} µs` : `${Number(ms.toPrecision(2))} ms`);
const times = (x) => `${x < 10 ? fixed(x, 1) : grouped(Math.round(x))} times`;

export function sentence({ characters, prompt, step, kept, ratio, slower }) {
  const T = prompt + step;
  const next = ` The last row predicts the next character: “${shown(characters[T])}”.`;
  if (step === 0) {
    return (
      `Pass 0, the prefill: both read the whole prompt, ${T === 1 ? "one character" : `${T} characters at once`}. ` +
      `Of ${T * T} scores, ${(T * (T - 1)) / 2} are masked. With a cache, the keys and values are kept: ${inBytes(kept)}.${next}`
    );
  }
  return (
    `Pass ${step}: “${shown(characters[T - 1])}” is new. Without a cache, the model reads ${T} positions, and computes all rows but ` +
    `one again. With a cache, it computes a single row: the new query meets ${T - 1} remembered keys and its own.${next} ` +
    `So far, the work without a cache is ${times(ratio)} as much` +
    `${slower ? `, and it has taken ${times(slower)} as long` : ""}.`
  );
}

// --- drawing --------------------------------------------------------------------------------------------------------

const WIDTH = 290;
const LEFT = 16;
const TOP = 32;
const MOST = 216; // pixels for the scores
const KINDS = ["new", "again", "kept", "masked", "gone"];
const MEANS = {
  new: "new",
  again: "computed again",
  kept: "remembered",
  masked: "computed, then masked",
  gone: "no longer needed",
};

// Patterns that fill cells, so that colour is never the only difference between states.
function fills() {
  const ids = Object.fromEntries(["again", "kept", "masked"].map((kind) => [kind, uniqueId()]));
  const pattern = (kind, size, ...marks) =>
    svg("pattern", { id: ids[kind], width: size, height: size, patternUnits: "userSpaceOnUse" }, marks);
  const defs = svg(
    "defs",
    {},
    pattern("again", 5, svg("path", { d: "M-1 1 1 -1M0 5 5 0M4 6 6 4", class: "gf-movie-hatch" })),
    pattern("kept", 4, svg("circle", { cx: 2, cy: 2, r: 1.15, class: "gf-movie-dot" })),
    pattern("masked", 6, svg("path", { d: "M0 3H6", class: "gf-movie-thin" })),
  );
  return { defs, fill: (kind) => (ids[kind] ? `url(#${ids[kind]})` : null) };
}

const cellsOf = (fill) =>
  Object.fromEntries(KINDS.map((kind) => [kind, svg("path", { class: `gf-movie-cell gf-movie-${kind}`, fill: fill(kind) })]));

const square = (x, y, width, height = width) => `M${x} ${y}h${width}v${height}h${-width}z`;

function lane() {
  const { defs, fill } = fills();
  const scene = svg("g");
  const cells = cellsOf(fill);
  const element = svg("svg", { class: "gf-panel" }, defs, scene, Object.values(cells));

  // All characters that are ever read; prompt and step determine how many.
  function show(characters, prompt, step, cached) {
    const N = characters.length;
    const size = Math.min(MOST / N, 22);
    const inner = (size - 1.5).toFixed(2);
    const at = (i) => (i * size).toFixed(2);
    const columns = { q: LEFT, k: LEFT + 17, v: LEFT + 34 };
    const first = LEFT + 58;
    put(scene, { style: `--gf-movie-size: ${Math.min(11, size).toFixed(1)}px` });
    put(element, { viewBox: `0 0 ${WIDTH} ${Math.ceil(TOP + N * size) + 2}` });
    const read = characters.slice(0, prompt + step);
    hold(scene, [size, ...read], () => [
      Object.entries({ q: "query", k: "key", v: "value" }).map(([name, role]) => [
        words(name, columns[name] + 7, 14, "middle", "gf-strong"),
        line(columns[name] + 1, 20, columns[name] + 13, 20, `gf-movie-role gf-movie-${role}`),
      ]),
      words("scores of one head", first, 12),
      read.map((character, i) => [
        words(shown(character), LEFT - 8, TOP + i * size + size / 2 + 4, "middle", "gf-movie-letter"),
        words(shown(character), first + i * size + size / 2, TOP - 5, "middle", "gf-movie-letter"),
      ]),
    ]);
    const paths = Object.fromEntries(KINDS.map((kind) => [kind, ""]));
    const made = states(prompt, step, cached);
    for (const [name, x] of Object.entries(columns)) {
      made[name].forEach((state, t) => (paths[state] += square(x, (TOP + t * size).toFixed(2), 14, inner)));
    }
    made.scores.forEach((row, t) =>
      row.forEach((state, s) => (paths[state] += square((first + s * size).toFixed(2), (TOP + t * size).toFixed(2), inner))),
    );
    for (const kind of KINDS) put(cells[kind], { d: paths[kind] || `M0 ${at(0)}` });
  }
  return { element, show };
}

function legend() {
  const { defs, fill } = fills();
  const swatch = (kind, extra) =>
    h(
      "span",
      { class: "gf-scale" },
      svg(
        "svg",
        { viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" },
        extra,
        svg("path", { d: square(1, 1, 14), class: `gf-movie-cell gf-movie-${kind}`, fill: fill(kind) }),
      ),
      MEANS[kind],
    );
  return h("p", { class: "gf-legend gf-movie-legend" }, KINDS.map((kind, i) => swatch(kind, i ? null : defs)));
}

// A name, a bar of proportional length, a number.
function bar() {
  const [name, length, number] = [h("span"), h("i"), h("b")];
  const element = h("p", { class: "gf-movie-bar" }, name, h("span", { class: "gf-movie-track" }, length), number);
  function show(called, share, text, style = "") {
    write(name, called);
    write(number, text);
    put(length, { style: `width: ${(100 * share).toFixed(2)}%` });
    put(element, { class: `gf-movie-bar ${style}` });
  }
  return { element, show };
}

const panel = (title, ...inside) => {
  const heading = h("p", { class: "gf-panel-title" }, title);
  return h("div", { class: "gf-panel-cell" }, heading, inside);
};

const TRAITS = ["text", "prompt", "step", "model", "n_kv_heads", "length", "bytes_per_number", "measured"];

function render({ model, el }) {
  const view = frame(el, {
    title: "Writing a text without a cache and with one",
    hint: "Go forward one pass at a time. Which rows does each side compute although it has computed them before?",
  });
  const models = model.get("_models");
  const chosen = () => models.find(([name]) => name === model.get("model"))[2];
  const all = () => [...model.get("text")];
  const prompt = () => Math.min(model.get("prompt"), all().length - 1);
  const last = () => all().length - prompt() - 1;
  const step = () => Math.min(model.get("step"), last());
  const go = (to) => setAll(model, { step: Math.min(Math.max(to, 0), last()) });

  let timer = null;
  const player = button("Play", () => (timer === null ? play() : pause()));
  function pause() {
    clearInterval(timer);
    timer = null;
    write(player, "Play");
  }
  function play() {
    if (step() === last()) go(0);
    write(player, "Pause");
    timer = setInterval(() => {
      go(step() + 1);
      if (step() === last()) pause();
    }, BEAT);
  }
  const [back, forward] = [button("Back", () => go(step() - 1)), button("Forward", () => go(step() + 1))];
  for (const each of [back, forward]) each.addEventListener("click", pause);

  // A text of fewer than two characters leaves nothing to write; the field says so, and the last text stays.
  const typed = { get: () => model.get("text"), on: (...given) => model.on(...given), save_changes: () => model.save_changes() };
  typed.set = (name, value) => [...value].length >= 2 && model.set(name, value);

  const sizes = models.map(([name, label]) => [name, label]);
  const picker = choice(model, "model", { label: "Count for", options: sizes });
  const adapt = () => setAll(model, { n_kv_heads: chosen().G, length: powers(chosen().context).at(-1) });
  picker.addEventListener("change", adapt);
  view.controls.append(
    textField(typed, "text", { label: `What is written (2 to ${LONGEST} characters)`, maxLength: LONGEST }),
    slider(model, "step", {
      label: "Pass",
      min: 0,
      max: last,
      follows: ["text", "prompt"],
      format: () => (step() ? `${step()} of ${last()}` : `0 of ${last()}: prefill`),
    }),
    slider(model, "prompt", {
      label: "Characters of the prompt",
      min: 1,
      max: () => all().length - 1,
      follows: ["text"],
      format: () => String(prompt()),
    }),
    h("div", { class: "gf-buttons gf-movie-buttons" }, back, forward, player),
    picker,
    slider(model, "n_kv_heads", {
      label: "Heads of keys and values",
      values: () => divisors(chosen().H),
      follows: ["model"],
      format: (G) => `${G} of ${chosen().H}: ${kindOf(G, chosen().H)}`,
    }),
    slider(model, "length", { label: "Length of a text", values: () => powers(chosen().context), follows: ["model"], format: grouped }),
    choice(model, "bytes_per_number", { label: "Numbers kept as", options: [[4, "float32"], [2, "float16"]] }),
  );

  const assumed = h("p", { class: "gf-movie-now" });
  const written = h("p", { class: "gf-movie-text" });
  const lanes = [false, true].map((cached) => ({ cached, ...lane(), now: h("p", { class: "gf-movie-now" }) }));
  const [work, time] = [0, 1].map(() => [bar(), bar()]);
  const [workTitle, timeTitle, memoryTitle] = [h("span"), h("span"), h("span")];
  const memory = h("div");
  const bars = new Map(); // the bars of the memory, by number of heads
  view.drawing.append(
    written,
    h(
      "div",
      { class: "gf-panels gf-movie-lanes" },
      lanes.map(({ cached, element, now }) => panel(h("strong", {}, cached ? "With a cache" : "Without a cache"), element, now)),
    ),
    legend(),
    assumed,
    h(
      "div",
      { class: "gf-panels gf-movie-lanes gf-movie-counts" },
      panel(workTitle, work.map(({ element }) => element), h("p", { class: "gf-panel-title" }, timeTitle), time.map(({ element }) => element)),
      panel(memoryTitle, memory),
    ),
  );

  function draw() {
    const characters = all();
    const [P, i] = [prompt(), step()];
    const T = P + i;
    const own = chosen();
    const G = own.H % model.get("n_kv_heads") ? own.G : model.get("n_kv_heads");
    const counted = { ...own, G };
    const bytes = model.get("bytes_per_number");
    const length = Math.min(model.get("length"), own.context);
    const [, label] = models.find(([name]) => name === model.get("model"));

    hold(written, [P, i, ...characters], () =>
      characters.slice(0, T + 1).map((character, t) =>
        h("span", { class: t === T ? "gf-movie-next" : t < P ? "gf-movie-prompt" : "gf-movie-made" }, shown(character)),
      ),
    );
    const totals = lanes.map(({ cached }) => totalWork(counted, P, i + 1, cached));
    const kept = cacheBytes(counted, T, bytes);
    const measured = model.get("measured");
    const isMeasured = model.get("model") === BOOK && G === own.G && bytes === 4;
    const cost = (n, cached) => {
      const least = leastCost(counted, cached && n ? 1 : P + n, cached && n ? P + n - 1 : 0, bytes, own.G);
      return isMeasured ? { ...least, milliseconds: measuredTime(measured, P, n, cached) } : least;
    };
    const spent = (passes, cached) => sum(range(passes).map((n) => cost(n, cached).milliseconds));
    const took = lanes.map(({ cached }) => spent(i + 1, cached));
    lanes.forEach(({ cached, show, now }, at) => {
      show(characters.slice(0, -1), P, i, cached);
      const { fetched, milliseconds } = cost(i, cached);
      write(
        now,
        `This pass: ${much(passWork(counted, P, i, cached))} multiply–adds, ${inBytes(fetched)} fetched, ` +
          `${isMeasured ? "" : "at least "}${inTime(milliseconds)}. Kept for the next: ${cached ? inBytes(kept) : "nothing"}.`,
      );
      const [name, style] = cached ? ["with", "gf-movie-right"] : ["without", "gf-movie-wrong"];
      work[at].show(name, totals[at] / totals[0], much(totals[at]), style);
      time[at].show(name, took[at] / took[0], inTime(took[at]), style);
    });
    write(
      assumed,
      isMeasured
        ? `The times were measured with NumPy on ${measured.on}. Each pass fetches at least all weights and the cache, once.`
        : `The times are estimates. They assume that each pass fetches all weights and the cache once, at 2 TB per second, and does ` +
            `${bytes === 4 ? "78" : "156"} trillion multiply–adds per second, as an A100 does at best; the slower of the two counts. ` +
            `Everything else is ignored, so real times are longer, and for small models far longer.` +
            (i && inTime(took[0]) === inTime(took[1]) ? ` In a text this short, both sides spend their time fetching the weights.` : ""),
    );
    const ratio = totals[0] / totals[1];
    const slower = took[0] / took[1];
    const toOne = (x) => `${fixed(x, x < 10 ? 2 : 1)} to 1`;
    write(workTitle, `Multiply–adds so far: ${toOne(ratio)}`);
    write(timeTitle, `${isMeasured ? "Time" : "Least time"} so far: ${toOne(slower)}`);
    write(memoryTitle, `Cache at ${grouped(length)} positions`);

    const options = divisors(own.H);
    hold(memory, options, () => {
      bars.clear();
      return options.toReversed().map((n) => bars.set(n, bar()).get(n).element);
    });
    const most = cacheBytes({ ...own, G: own.H }, length, bytes);
    for (const [n, each] of bars) {
      const size = cacheBytes({ ...own, G: n }, length, bytes);
      each.show(`${kindOf(n, own.H)} ${n}`, size / most, inBytes(size), n === G ? "gf-movie-chosen" : "");
    }
    put(back, { "aria-disabled": i === 0 }); // and not disabled, which would take the focus away
    put(forward, { "aria-disabled": i === last() });

    const state = { characters, prompt: P, step: i, kept, ratio, slower: isMeasured && slower };
    const beside = G === own.G ? `; its weights take ${inBytes(own.P * bytes)}` : "";
    const memories =
      ` At ${grouped(length)} positions the cache of ${label}, with ${heads(G)} of keys and values, takes ` +
      `${inBytes(cacheBytes(counted, length, bytes))}${beside}.`;
    view.describe(() => `Two lanes, without a cache and with one. ${sentence(state)}${memories}`);
    view.says(sentence(state) + memories);
    view.tables(() => [
      {
        caption: `Every pass, ${label}, ${kindOf(G, own.H)}: multiply–adds, bytes kept, and ${isMeasured ? "measured" : "least"} milliseconds`,
        headers: ["Pass", "Positions", "Without", "With", "Without, so far", "With, so far", "Bytes kept", "ms without", "ms with"],
        rows: () =>
          range(last() + 1).map((n) => [
            n,
            P + n,
            ...[false, true].map((cached) => grouped(passWork(counted, P, n, cached))),
            ...[false, true].map((cached) => grouped(totalWork(counted, P, n + 1, cached))),
            grouped(cacheBytes(counted, P + n, bytes)),
            ...[false, true].map((cached) => String(Number(cost(n, cached).milliseconds.toPrecision(3)))),
          ]),
      },
      {
        caption: `Whole texts after a prompt of one, ${label}, ${kindOf(G, own.H)}`,
        headers: ["Length", "Bytes of the cache", "Without", "With", "Ratio"],
        rows: () =>
          powers(own.context).map((n) => {
            const [without, cached] = [false, true].map((has) => totalWork(counted, 1, n - 1, has));
            return [grouped(n), grouped(cacheBytes(counted, n, bytes)), much(without), much(cached), fixed(without / cached, 1)];
          }),
      },
    ]);
  }

  const { stop } = redrawing(model, TRAITS, draw);
  return () => {
    pause();
    stop();
  };
}

export default { render };
