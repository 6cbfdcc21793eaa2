// What each kind of layer keeps while a text is read, and what the present position reads of it. See layer_caches.py.
import { button, frame, grouped, h, hold, onChange, plural, put, setAll, slider, svg, textField, write } from "../../widgets/kit/kit.js";
import { largest, range } from "../../widgets/kit/maths.js";
import { legendOf } from "../../widgets/kit/plot.js";
import { named, visible } from "../../widgets/engine/model.js";

const LONGEST = 60;

// --- what is kept ---------------------------------------------------------------------------------------------------

// The last few of n positions.
const last = (n, few) => range(n).slice(Math.max(0, n - few));

// What the indexer chooses for position t: the same character first, then the latest. Nothing is trained here.
export const chosen = (characters, t, k) =>
  largest(range(t + 1).map((s) => (characters[s] === characters[t] ? characters.length : 0) + s), k).sort((a, b) => a - b);

// The kinds of layers, as lanes of entries: those kept `before` position t is read, those that are `now` added, those kept
// `after` it, and those that it reads. An entry has `parts`, [[role, numbers], …], and stands for `span` positions. Before a block is
// complete, its positions wait as contents and gates; like the code's own cache, that lane always has the last few positions.
export function kindsOf({ H, K, R, P, J, wide }, { window, compress, top_k }, characters, t) {
  const lane = (parts, size = Infinity, more = {}) => ({
    parts,
    span: 1,
    before: last(t, size),
    now: [t],
    after: last(t + 1, size),
    reads: last(t + 1, size + 1),
    ...more,
  });
  const heads = [["value", H * K], ["key", H * K]];
  const latent = [["both", R], ["key", P]];
  const blocks = range(Math.floor((t + 1) / compress));
  const tokens = { span: compress, before: range(Math.floor(t / compress)), after: blocks, reads: blocks };
  tokens.now = blocks.slice(tokens.before.length);
  return {
    full: [lane(heads)],
    borrowed: [lane(heads, Infinity, { isBorrowed: true })],
    window: [lane(heads, window - 1)],
    latent: [lane(latent)],
    indexer: [lane([...latent, ["index", J]], Infinity, { reads: chosen(characters, t, top_k) })],
    one_array: [lane([["both", wide]])],
    compressed: [
      lane([["both", wide]], window - 1),
      lane([["gate", wide], ["both", wide]], compress - 1, { reads: [] }),
      lane([["both", wide]], 0, tokens),
    ],
  };
}

const widthOf = (parts) => parts.reduce((sum, [, numbers]) => sum + numbers, 0);

// How many numbers a kind of layer keeps before a position is read, and how many it then adds and forgets.
export function numbersOf(lanes) {
  const own = lanes.filter(({ isBorrowed }) => !isBorrowed);
  const total = (count) => own.reduce((sum, lane) => sum + widthOf(lane.parts) * count(lane), 0);
  return {
    kept: total(({ before }) => before.length),
    adds: total(({ now }) => now.length),
    forgets: total(({ before, now, after }) => before.length + now.length - after.length),
  };
}

// --- words ----------------------------------------------------------------------------------------------------------

// Positions in a few words: [0, 1, 2, 5] is "0 to 2 and 5".
export function spans(list) {
  const runs = [];
  for (const at of list) {
    if (runs.at(-1)?.at(-1) === at - 1) runs.at(-1).push(at);
    else runs.push([at]);
  }
  const words = runs.flatMap((run) => (run.length > 2 ? `${run[0]} to ${run.at(-1)}` : run));
  return words.length > 1 ? `${words.slice(0, -1).join(", ")} and ${words.at(-1)}` : (words[0] ?? "none");
}
const positions = (list) => (list.length ? `position${list.length > 1 ? "s" : ""} ${spans(list)}` : "no position");

const NAMES = {
  full: "Full attention",
  borrowed: "Borrowed keys and values",
  window: "A window",
  latent: "A latent",
  indexer: "A latent and an indexer",
  one_array: "One array for keys and values",
  compressed: "Compressed tokens and a window",
};

const WHAT = {
  full: ({ H, K }) => `${2 * H * K} numbers for every position: a key and a value for each head.`,
  borrowed: () => "Nothing of its own: it reads what an earlier layer has kept, here that of the row above.",
  window: ({ H, K }, { window }) => `The same ${2 * H * K} numbers, but only for the ${plural(window - 1, "position")} before this one.`,
  latent: ({ R, P }) => `${R + P} numbers for every position, from which all keys and values are made.`,
  indexer: ({ J }, { top_k }) =>
    `${J} more for a small key. The indexer compares all small keys and chooses ${plural(top_k, "position")}. No model is trained here, ` +
    "so it follows a fixed rule: the same character first, then the latest.",
  one_array: ({ wide }) => `${wide} numbers for every position, which all heads use as key and as value.`,
  compressed: ({ wide }, { window, compress }) =>
    `Top: ${wide} numbers for the ${plural(window - 1, "position")} before this one. Middle: ${2 * wide} for the last ${compress - 1}, from ` +
    `which the next token is made. Bottom: ${wide} for a token, one for every ${compress} positions.`,
};

const reading = (kind, lanes, t) =>
  kind === "compressed"
    ? `reads ${lanes[0].reads.length} of ${t + 1} and ${plural(lanes[2].reads.length, "token")}`
    : `reads ${lanes[0].reads.length} of ${plural(t + 1, "position")}`;

// What a kind of layer keeps, for the table.
function keeping(kind, lanes) {
  if (kind === "borrowed") return "none";
  const [own, waiting, tokens] = lanes.map(({ before }) => spans(before));
  return kind === "compressed" ? `${own}; for the next token ${waiting}; tokens ${tokens}` : own;
}

export function sentence(kinds, characters, t, { window, compress }) {
  const here = `At position ${t}, ${named(characters[t])}, `;
  if (t === 0) return `${here}nothing has been read before, so every cache is still empty.`;
  const [own, , tokens] = kinds.compressed;
  const done = tokens.before.length;
  const gone = t < window - 1 ? "" : `, and now forgets ${own.before[0]}`;
  return (
    `${here}full attention keeps ${t === 1 ? "position 0" : `all ${t} positions before it`}: ${grouped(numbersOf(kinds.full).kept)} numbers. ` +
    `The window still holds ${positions(own.before)}${gone}. The indexer chooses ${positions(kinds.indexer[0].reads)}. ` +
    (done ? `The first ${done * compress} positions have become ${plural(done, "compressed token")}` : "There is no compressed token yet") +
    (tokens.now.length ? `; this position completes the ${done ? "next" : "first"}.` : ".")
  );
}

// --- drawing --------------------------------------------------------------------------------------------------------

const TALL = 0.625; // pixels for each number of an entry
const GAP = 0.1; // of a column, on each side of a cell
const BELOW = 7; // pixels under a lane, for the marks of what is read
const ROLES = ["value", "key", "gate"];
const STYLES = [...ROLES.flatMap((role) => [`${role} gf-caches-kept`, `${role} gf-caches-read`]), "gone", "mark", "new"];

const box = (x, y, width, height) => `M${x} ${y}h${width}v${height}h${-width}z`;

// The marks of one part of an entry, by role. What is both value and key is one cell, divided from corner to corner.
function marks(role, x, y, width, height) {
  if (role !== "both") return { [role === "index" ? "key" : role]: box(x, y, width, height) };
  return { value: `M${x} ${y + height}v${-height}h${width}z`, key: `M${x} ${y + height}h${width}v${-height}z` };
}

// Everything that a row shows, as one path for each style: x in columns, y in pixels.
function paths(lanes) {
  const drawn = Object.fromEntries(STYLES.map((style) => [style, ""]));
  let top = 1;
  for (const { parts, span, before, now, after, reads, isBorrowed } of lanes) {
    const tall = widthOf(parts) * TALL + parts.length - 1;
    const place = (at, n = 1) => [at * span + GAP, n * span - 2 * GAP];
    const kept = isBorrowed ? [] : [...before, ...now];
    for (const at of kept) {
      const [x, width] = place(at);
      let y = top;
      for (const [role, numbers] of parts) {
        const isRead = role === "index" || reads.includes(at); // the indexer compares all of its keys
        for (const [own, mark] of Object.entries(marks(role, x, y, width, numbers * TALL))) {
          drawn[`${own} gf-caches-${isRead ? "read" : "kept"}`] += mark;
        }
        y += numbers * TALL + 1;
      }
    }
    const gone = isBorrowed ? after.length : reads.length && kept[0];
    if (gone && span === 1) drawn.gone += box(place(0)[0], top, place(0, gone)[1], tall);
    for (const at of reads) drawn.mark += box(place(at)[0], top + tall + 1.5, place(at)[1], 2.5);
    if (!isBorrowed) for (const at of now) drawn.new += box(place(at)[0], top, place(at)[1], tall);
    top += tall + BELOW;
  }
  return { drawn, height: top - 1 };
}

function row(name, grips) {
  const cells = Object.fromEntries(STYLES.map((style) => [style, svg("path", { class: `gf-caches-${style}` })]));
  const here = svg("rect", { y: 0, width: 1, class: "gf-caches-here" });
  const picture = svg("svg", { preserveAspectRatio: "none" }, here, Object.values(cells));
  const [what, kept, adds, reads] = [h("span"), h("strong"), h("span"), h("span")];
  const element = h(
    "div",
    { class: "gf-caches-row" },
    h("p", { class: "gf-caches-name" }, h("strong", {}, name), " ", what),
    h("div", { ...grips, class: "gf-caches-picture" }, picture),
    h("p", { class: "gf-caches-numbers" }, kept, adds, reads),
  );
  function show(lanes, { n, t, says, read }) {
    const { drawn, height } = paths(lanes);
    put(picture, { viewBox: `0 0 ${n} ${height}`, style: `height: ${height}px` });
    put(here, { x: t, height });
    for (const style of STYLES) put(cells[style], { d: drawn[style] || "M0 0" });
    const numbers = numbersOf(lanes);
    write(what, says);
    write(kept, `keeps ${grouped(numbers.kept)} numbers`);
    write(adds, `adds ${numbers.adds}${numbers.forgets ? `, forgets ${numbers.forgets}` : ""}`);
    write(reads, read);
  }
  return { element, show };
}

function legend() {
  const swatch = (text, ...inside) =>
    h("span", { class: "gf-scale" }, svg("svg", { viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" }, inside), text);
  const mark = (style, y, height) => svg("path", { d: box(1, y, 14, height), class: `gf-caches-${style}` });
  const read = (role) => mark(`${role} gf-caches-read`, 1, 14);
  return legendOf(
    swatch("value", read("value")),
    swatch("key", read("key")),
    swatch("both in one", Object.entries(marks("both", 1, 1, 14, 14)).map(([role, d]) => svg("path", { d, class: `gf-caches-${role}` }))),
    swatch("gate: its weight in a token", read("gate")),
    swatch("kept, not read", mark("key gf-caches-kept", 1, 14)),
    swatch("read now", mark("key gf-caches-read", 1, 10), mark("mark", 12.5, 2.5)),
    swatch("new", mark("key gf-caches-read", 1, 14), mark("new", 1, 14)),
    swatch("not kept", mark("gone", 1, 14)),
  );
}

const TRAITS = ["text", "position", "window", "compress", "top_k"];

function render({ model, el }) {
  const view = frame(el, {
    title: "What each kind of layer keeps of a text",
    hint: "Move through the text, or drag across the rows. Which layers keep more with every position, which forget, and what is read?",
  });
  const sizes = model.get("_sizes");
  const all = () => [...model.get("text")];
  const end = () => all().length - 1;
  const at = () => Math.min(model.get("position"), end());
  const go = (to) => setAll(model, { position: Math.min(Math.max(to, 0), end()) });
  const [back, next] = [button("Back", () => go(at() - 1)), button("Next", () => go(at() + 1))];

  // Without any character there is nothing to read: the last text stays.
  const typed = { get: (name) => model.get(name), on: (...given) => model.on(...given), save_changes: () => model.save_changes() };
  typed.set = (name, value) => value && model.set(name, value);

  view.controls.append(
    textField(typed, "text", { label: `Your text (1 to ${LONGEST} characters)`, maxLength: LONGEST }),
    slider(model, "position", { label: "Position", min: 0, max: end, follows: ["text"], format: () => `${at()} of ${end()}: ${named(all()[at()])}` }),
    h("div", { class: "gf-buttons gf-caches-buttons" }, back, next),
    slider(model, "window", { label: "Window", min: 2, max: 16 }),
    slider(model, "compress", { label: "Positions in a token", min: 2, max: 8 }),
    slider(model, "top_k", { label: "Positions the indexer chooses", min: 1, max: 16 }),
  );

  const drag = (event) => {
    if (!event.buttons) return;
    const { left, width } = letters.getBoundingClientRect();
    go(Math.floor(((event.clientX - left) / width) * all().length));
  };
  const grips = { onpointerdown: drag, onpointermove: drag };
  const letters = h("div", { ...grips, class: "gf-caches-letters" });
  const rows = Object.fromEntries(Object.entries(NAMES).map(([kind, name]) => [kind, row(name, grips)]));
  const { H, K, R, P, J, wide } = sizes;
  view.drawing.append(
    h("div", { class: "gf-caches-row" }, letters),
    ...Object.values(rows).map(({ element }) => element),
    legend(),
    h(
      "p",
      { class: "gf-caches-sizes" },
      `The sizes are small: H = ${H} heads of K = ${K}, a latent of R = ${R} with a rotated part of P = ${P}, an indexer’s key of J = ${J}. ` +
        `Heads with one array have K = ${wide}. A cell is as high as it has numbers.`,
    ),
  );

  const stop = onChange(model, TRAITS, () => {
    const [characters, t] = [all(), at()];
    const settings = Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]));
    const kinds = kindsOf(sizes, settings, characters, t);
    hold(letters, [t, ...characters], () =>
      characters.flatMap((character, s) => [
        h("span", { class: s === t ? "gf-caches-now" : s > t ? "gf-caches-ahead" : null, style: `grid-column: ${s + 1}` }, visible(character)),
        s % 10 === 0 && h("small", { style: `grid-column: ${s + 1}` }, s),
      ]),
    );
    put(letters, { style: `--n: ${characters.length}` });
    for (const [kind, lanes] of Object.entries(kinds)) {
      rows[kind].show(lanes, { n: characters.length, t, says: WHAT[kind](sizes, settings), read: reading(kind, lanes, t) });
    }
    put(back, { "aria-disabled": t === 0 }); // and not disabled, which would take the focus away
    put(next, { "aria-disabled": t === end() });

    const says = sentence(kinds, characters, t, settings);
    view.says(says);
    view.describe(() => `A row for each of ${Object.keys(NAMES).length} kinds of layers, a column for each character. ${says}`);
    view.tables(() => [
      {
        caption: `Position ${t}, ${named(characters[t])}: numbers kept before it, added and forgotten; positions kept and read`,
        headers: ["Layer", "Keeps", "Adds", "Forgets", "Positions kept", "Positions read"],
        rows: Object.entries(kinds).map(([kind, lanes]) => {
          const { kept, adds, forgets } = numbersOf(lanes);
          const tokens = kind === "compressed" ? `; tokens ${spans(lanes[2].reads)}` : "";
          return [NAMES[kind], grouped(kept), adds, forgets, keeping(kind, lanes), spans(lanes[0].reads) + tokens];
        }),
      },
      {
        caption: "Numbers kept before each position is read",
        headers: ["Position", "Character", ...Object.values(NAMES)],
        rows: () =>
          characters.map((character, s) => [
            s,
            visible(character),
            ...Object.values(kindsOf(sizes, settings, characters, s)).map((lanes) => grouped(numbersOf(lanes).kept)),
          ]),
      },
    ]);
  });
  return stop;
}

export default { render };
