// What the model would write if it stopped early, and how much each part contributes to it. See logit_lens.py.
import { largest, range } from "../../widgets/kit/maths.js";
import { button, fixed, frame, h, hold, onResize, percent, put, redrawing, setAll, slider, write } from "../../widgets/kit/kit.js";
import { named, streamsOf, visible } from "../../widgets/engine/model.js";
import { windowStart } from "../../widgets/engine/transformer.js";
import { takesOwn } from "../../widgets/engine/own_model.js";
import { textReader } from "../../widgets/engine/text_reader.js";
import { legend } from "../../widgets/kit/plot.js";
import { shade, shareBar } from "../../widgets/kit/shares.js";
import { softmax } from "../../widgets/engine/transformer.js";

const SCENE = "KING RICHARD III:\nA horse! a horse! my kingdom for a horse!\n\nCATESBY:\nWithdraw, my lord; I'll help you to a horse.";
const SHOWN = 5; // characters that have a bar, as in logit_lens.py
const LINES = { wide: 5, narrow: 3 }; // the largest number of lines of the text that are drawn at a time

// --- maths ----------------------------------------------------------------------------------------------------------

// What each part adds to every logit: its write (D) goes through the final norm and the head, and the norm keeps the scale
// that it has for the whole stream. RMSNorm divides by a vector's size, so the part's own size is multiplied back in.
export function added(parts, stream, transformer) {
  const { norm_eps: eps } = transformer.config;
  const size = (x) => Math.sqrt(x.reduce((sum, value) => sum + value * value, 0) / x.length + eps);
  return parts.map((part) => {
    const share = size(part) / size(stream);
    return transformer.lens(part).map((logit) => logit * share);
  });
}

// For one position: the probabilities of the next character, by depth, and what each part adds to the logits.
function look(seen, transformer) {
  const streams = streamsOf(seen);
  const writes = seen.filter(({ name }) => name === "write").map(({ array }) => array);
  const probabilities = streams.map((stream) => softmax(transformer.lens(stream)));
  return {
    probabilities,
    guesses: probabilities.map((p) => largest(p, SHOWN).map((id) => [id, p[id]])),
    added: added([streams[0], ...writes], streams.at(-1), transformer),
  };
}

// The rank of an id among all ids, the likeliest first, from 1.
export const rankOf = (probabilities, id) =>
  1 + probabilities.reduce((n, p, other) => n + (p > probabilities[id] || (p === probabilities[id] && other < id)), 0);

// --- scenes: what is known of a text ----------------------------------------------------------------------------------

// guesses(depth, t): the likeliest characters, [id, probability]. For the actual next one: loss(depth, t), rank(depth, t),
// and what each part adds to its logit; after the last character, what each part adds to that of the likeliest.
const storedScene = ({ text, guesses, probabilities, losses, ranks, added: logits }) => ({
  text: [...text],
  T: guesses[0].length,
  guesses: (depth, t) => guesses[depth][t].map((id, i) => [id, probabilities[depth][t][i]]),
  loss: (depth, t) => losses[depth][t],
  rank: (depth, t) => ranks[depth][t],
  added: (t) => logits.map((row) => row[t]),
});

function liveScene(characters, positions, idOf) {
  const comes = (t) => idOf.get(characters[t + 1]);
  return {
    text: characters,
    T: positions.length,
    guesses: (depth, t) => positions[t].guesses[depth],
    loss: (depth, t) => -Math.log(positions[t].probabilities[depth][comes(t)]),
    rank: (depth, t) => rankOf(positions[t].probabilities[depth], comes(t)),
    added(t) {
      const id = comes(t) ?? positions[t].guesses.at(-1)[0][0];
      return positions[t].added.map((logits) => logits[id]);
    },
  };
}

// --- words ----------------------------------------------------------------------------------------------------------

const afterBlock = (depth) => (depth === 0 ? "the embedding" : `block ${depth - 1}`);
const signed = (x) => `${x >= 0.005 ? "+" : ""}${fixed(x, 2)}`;

// The parts in the order in which they write.
export const partNames = (L) => [
  "embedding",
  ...range(L).flatMap((block) => [`block ${block}: attention`, `block ${block}: feed-forward`]),
];

// The same parts in a sentence.
const spoken = (L) => [
  "the embedding",
  ...range(L).flatMap((block) => [`the attention of block ${block}`, `the feed-forward network of block ${block}`]),
];

export const ordinal = (n) => {
  const ending = n % 100 > 10 && n % 100 < 14 ? "th" : ["th", "st", "nd", "rd"][n % 10] ?? "th";
  return `${n}${ending}`;
};

export function sentence({ scene, known, L, depth, position: t, hidden }) {
  const [[id, p]] = scene.guesses(depth, t);
  const place = `${named(scene.text[t])} at ${t + hidden}`;
  const now = `After ${place}, ${depth === L ? `with ${L === 1 ? "its only block" : `all ${L} blocks`},` : `if the model stopped after ${afterBlock(depth)},`} ${depth === L ? "the model" : "it"} would predict ${named(known[id])} (${percent(p)}).`;
  const comes = scene.text[t + 1];
  const parts = scene.added(t);
  const [most] = largest(parts, 1);
  const wrote = `${spoken(L)[most]} adds most to its logit: ${signed(parts[most])} of ${fixed(parts.reduce((a, b) => a + b), 2)}`;
  if (comes === undefined) return `${now} The text ends here. For the model’s own guess, ${named(known[scene.guesses(L, t)[0][0]])}, ${wrote}.`;
  const rank = scene.rank(depth, t);
  const which = rank === 1 ? `${now} That is indeed the next character` : `${now} The next character is ${named(comes)}, which ranks ${ordinal(rank)} of ${known.length}`;
  return `${which}; the loss is ${fixed(scene.loss(depth, t), 2)}. ${wrote[0].toUpperCase()}${wrote.slice(1)}.`;
}

// --- view -----------------------------------------------------------------------------------------------------------

const TRAITS = ["text", "position", "depth"];

function render({ model, el }) {
  const view = frame(el, {
    title: "The logit lens: what would the model predict if it stopped here?",
    hint: "Under each character are the guesses at the next one: first from the embedding alone, then after each block. Point at a guess, click it, or use the arrow keys. Then type a text of your own.",
  });
  const { n_layers: L, context_length: context } = model.get("_config");
  const known = [...model.get("_characters")];
  const idOf = new Map(known.map((character, id) => [character, id]));
  const depths = range(L + 1);
  view.drawing.setAttribute("role", "group");

  let scene = storedScene(model.get("_stored"));
  let version = 0; // version of the scene
  let pointed = null; // { depth, position } under the pointer
  const seenOf = (text) => [...text].slice(windowStart([...text].length, context)).join(""); // the rest of it is out of the model’s sight
  const reader = textReader(model, {
    view,
    label: "Your text",
    seen: seenOf,
    look,
    isStored: () => seenOf(model.get("text")) === scene.text.join(""),
    show(reading, characters) {
      if (reading.positions.length === 0) return;
      scene = liveScene(characters, [...reading.positions], idOf);
      version++;
      drawn.ask();
    },
    told: () => drawn.ask(),
  });

  // Positions count in the whole text; the model may see only its end.
  const length = () => [...model.get("text")].length;
  const hidden = () => windowStart(length(), context);
  const pinned = () => {
    const position = model.get("position") - hidden();
    return { depth: model.get("depth"), position: position < 0 || position >= scene.T ? scene.T - 1 : position };
  };
  const chosen = () => (pointed && pointed.position < scene.T ? pointed : pinned());
  function pin({ depth, position }) {
    pointed = null;
    setAll(model, { depth, position: position + hidden() });
    drawn.ask();
  }

  // --- controls

  view.controls.classList.add("gf-lens-controls");
  view.controls.append(
    reader.control,
    h(
      "div",
      { class: "gf-buttons" },
      model.get("_stored").text && button("Original line", () => setAll(model, { text: model.get("_stored").text })),
      [...SCENE].every((character) => idOf.has(character)) && button("A longer scene", () => setAll(model, { text: SCENE })),
    ),
    slider(model, "position", {
      label: "Position",
      min: hidden,
      max: () => length() - 1,
      format: (t) => String(Math.min(Math.max(t, hidden()), length() - 1)),
      follows: ["text"],
    }),
    slider(model, "depth", { label: "Stop after", min: 0, max: L, format: afterBlock }),
  );

  // --- the text, line by line, with the guesses under it

  const rowNames = ["text", ...depths.map((depth) => (depth ? `block ${depth - 1}` : "embedding")), "actual"];
  const places = new WeakMap(); // cell -> { row, column, line }
  const systems = range(LINES.wide).map((line) => {
    const rows = rowNames.map((name, row) => {
      const kind = row === 0 ? "gf-lens-text" : row > L + 1 ? "gf-lens-comes" : "gf-lens-guesses";
      const element = h("div", { class: `gf-lens-row ${kind}` }, h("span", { class: "gf-lens-name" }, name));
      return { element, cells: [], row, line };
    });
    return { rows, element: h("div", { class: "gf-lens-line" }, rows.map(({ element }) => element)) };
  });
  const note = h("p", { class: "gf-panel-title" });
  const table = h(
    "div",
    { class: "gf-lens", role: "group", tabindex: 0, "aria-label": "Guesses under the text; arrow keys move" },
    systems.map(({ element }) => element),
  );

  const NAME = 70; // pixels for the names of the rows, as in logit_lens.css
  let first = 0; // first line of the text that is drawn; it changes if the chosen character would not be visible
  function layout() {
    const room = table.clientWidth - NAME;
    const [cell, most] = room > 400 ? [24, LINES.wide] : [21, LINES.narrow];
    const columns = Math.max(8, Math.floor(room / cell));
    const all = Math.ceil(scene.T / columns);
    const line = Math.floor(pinned().position / columns);
    first = Math.min(first, line, Math.max(0, all - most));
    first = Math.max(first, line - most + 1);
    return { cell, columns, lines: Math.min(most, all) };
  }

  function under(event) {
    const place = places.get(event.target);
    if (!place) return null;
    const position = (first + place.line) * layout().columns + place.column;
    const depth = place.row === 0 || place.row > L + 1 ? chosen().depth : place.row - 1;
    return position < scene.T ? { depth, position } : null;
  }
  table.addEventListener("pointermove", (event) => {
    if (event.pointerType === "touch") return;
    const now = under(event);
    if (now?.depth === pointed?.depth && now?.position === pointed?.position) return;
    pointed = now;
    drawn.ask();
  });
  table.addEventListener("pointerleave", () => {
    pointed = null;
    drawn.ask();
  });
  table.addEventListener("click", (event) => {
    const now = under(event);
    if (now) pin(now);
  });
  table.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const { depth, position } = pinned();
    const to = {
      ArrowLeft: [depth, position - 1],
      ArrowRight: [depth, position + 1],
      ArrowUp: [depth - 1, position],
      ArrowDown: [depth + 1, position],
      Home: [depth, 0],
      End: [depth, scene.T - 1],
    }[event.key];
    if (!to) return;
    event.preventDefault();
    pin({ depth: Math.min(Math.max(to[0], 0), L), position: Math.min(Math.max(to[1], 0), scene.T - 1) });
  });

  // --- one position: what could come next, and which part wrote the logit of what comes

  const likely = h("div", { class: "gf-lens-panel" });
  const parts = h("div", { class: "gf-lens-panel" });
  view.drawing.append(
    note,
    table,
    legend(shade, "unsure", "sure", h("span", { class: "gf-lens-key" }, "underlined: a correct guess")),
    h("div", { class: "gf-lens-panels" }, likely, parts),
  );

  // --- drawing

  const fill = (row, columns, of) => {
    while (row.cells.length < columns) {
      const cell = h("span", { class: "gf-lens-cell" });
      places.set(cell, { ...row, column: row.cells.length });
      row.cells.push(cell);
      row.element.append(cell);
    }
    while (row.cells.length > columns) row.cells.pop().remove();
    row.cells.forEach((cell, column) => {
      const { letter = "", share = 0, style = "" } = of(column) ?? {};
      write(cell, letter);
      put(cell, { class: `gf-lens-cell${style}`, style: `--share: ${share.toFixed(3)}` });
    });
  };

  let written = ""; // what the table shows, except for the chosen character
  function drawTable({ cell, columns, lines }) {
    const key = `${version} ${cell} ${columns} ${first}`;
    if (key === written) return;
    written = key;
    put(table, { style: `--cell: ${cell}px; --columns: ${columns}` });
    systems.forEach((system, line) => {
      system.element.hidden = line >= lines;
      if (line >= lines) return;
      const from = (first + line) * columns;
      for (const row of system.rows) {
        fill(row, columns, (column) => {
          const t = from + column;
          if (t >= scene.T) return null;
          const comes = scene.text[t + 1];
          if (row.row === 0) return { letter: visible(scene.text[t]) };
          if (row.row > L + 1) return { letter: comes === undefined ? "" : visible(comes) };
          const [[id, share]] = scene.guesses(row.row - 1, t);
          return { letter: visible(known[id]), share, style: known[id] === comes ? " gf-lens-right" : "" };
        });
      }
    });
  }

  let marked = [];
  function drawMarks({ columns }, { depth, position }) {
    const line = Math.floor(position / columns) - first;
    const column = position % columns;
    const rows = systems[line]?.rows ?? [];
    for (const cell of marked) cell.classList.remove("gf-lens-asks", "gf-lens-here");
    marked = rows.map(({ cells }) => cells[column]);
    marked.forEach((cell, row) => cell.classList.add(row === depth + 1 ? "gf-lens-here" : "gf-lens-asks"));
  }

  function drawLikely({ depth, position: t }) {
    const comes = scene.text[t + 1];
    hold(likely, [version, depth, t], () => [
      h("p", { class: "gf-panel-title" }, "Likeliest next, after ", h("strong", {}, afterBlock(depth))),
      h(
        "div",
        { class: "gf-bars" },
        scene.guesses(depth, t).map(([id, p]) => {
          const bar = shareBar(visible(known[id]), p);
          if (known[id] === comes) bar.classList.add("gf-lens-true");
          return bar;
        }),
      ),
      h(
        "p",
        { class: "gf-lens-fact" },
        comes === undefined
          ? "The text ends here."
          : [
              h("b", {}, visible(comes)),
              ` comes next: rank ${scene.rank(depth, t)} of ${known.length}, ${percent(Math.exp(-scene.loss(depth, t)))}, loss ${fixed(scene.loss(depth, t), 2)}`,
            ],
      ),
    ]);
  }

  let ends = { of: null }; // of a scene: the smallest and largest contribution of a part, so that all bars have one scale
  function drawParts({ position: t }) {
    if (ends.of !== scene) {
      const all = range(scene.T).flatMap(scene.added);
      ends = { of: scene, low: Math.min(0, ...all), high: Math.max(0.1, ...all) };
    }
    const values = scene.added(t);
    const long = ends.high - ends.low;
    const total = values.reduce((a, b) => a + b);
    const comes = scene.text[t + 1] ?? known[scene.guesses(L, t)[0][0]];
    hold(parts, [version, t], () => [
      h("p", { class: "gf-panel-title" }, "What each part adds to the logit of ", h("b", {}, visible(comes)), scene.text[t + 1] === undefined && " (the model’s own guess)"),
      h(
        "div",
        { class: "gf-lens-parts", style: `--zero: ${((-100 * ends.low) / long).toFixed(2)}%` },
        partNames(L).map((name, i) => {
          const share = Math.abs(values[i]) / long;
          const kind = name.split(" ").at(-1).replace("-", "");
          const side = values[i] < 0 ? "less" : "more";
          return [
            h("span", {}, name),
            h("span", { class: "gf-lens-track" }, h("span", { class: `gf-lens-${side} gf-lens-${kind}`, style: `--share: ${share.toFixed(4)}` })),
            h("span", { class: "gf-lens-number" }, signed(values[i])),
          ];
        }),
        h("span", { class: "gf-lens-sum" }, h("span", {}, "sum: the logit"), h("span", {}, fixed(total, 2))),
      ),
    ]);
  }

  const tables = ({ position: t }) => [
    {
      caption: `After ${named(scene.text[t])} at ${t + hidden()}: the likeliest next characters, and the actual one`,
      headers: ["After", ...range(SHOWN).flatMap((i) => [`${i + 1}.`, "share"]), "loss", "rank"],
      rows: () =>
        depths.map((depth) => [
          afterBlock(depth),
          ...scene.guesses(depth, t).flatMap(([id, p]) => [visible(known[id]), fixed(p, 4)]),
          ...(t + 1 < scene.text.length ? [fixed(scene.loss(depth, t), 3), scene.rank(depth, t)] : ["", ""]),
        ]),
    },
    {
      caption: `What each part adds to the logit of ${named(scene.text[t + 1] ?? known[scene.guesses(L, t)[0][0]])}`,
      headers: ["Part", "adds"],
      rows: () => {
        const values = scene.added(t);
        return [...partNames(L).map((name, i) => [name, fixed(values[i], 3)]), ["sum", fixed(values.reduce((a, b) => a + b), 3)]];
      },
    },
    {
      caption: "Over this text: how often the likeliest character is the next one, and the mean loss",
      headers: ["After", "right", "of", "mean loss"],
      rows: () => {
        const asked = range(Math.min(scene.T, scene.text.length - 1));
        const mean = (of) => asked.reduce((sum, at) => sum + of(at), 0) / asked.length;
        return asked.length
          ? depths.map((depth) => [
              afterBlock(depth),
              asked.filter((at) => scene.rank(depth, at) === 1).length,
              asked.length,
              fixed(mean((at) => scene.loss(depth, at)), 3),
            ])
          : [];
      },
    },
  ];

  function draw() {
    if (scene.T === 0) return view.says(reader.words());
    const place = layout();
    const now = chosen();
    drawTable(place);
    drawMarks(place, now);
    drawLikely(now);
    drawParts(now);
    const [from, to] = [first * place.columns, Math.min(scene.T, (first + place.lines) * place.columns) - 1];
    const lost = hidden();
    note.hidden = lost === 0 && to - from + 1 === scene.T;
    write(
      note,
      `${lost ? `The model sees positions ${lost} to ${lost + scene.text.length - 1}, which is all that its context can hold. ` : ""}` +
        `${to - from + 1 < scene.T ? `Positions ${lost + from} to ${lost + to} are shown; choose a position to move along.` : ""}`,
    );
    const state = { scene, known, L, hidden: lost, ...now };
    view.says(reader.words() || sentence(state));
    view.describe(() => `The guesses at “${scene.text.join("")}”, from the embedding and after ${L === 1 ? "its only block" : `each of ${L} blocks`}; chosen is position ${now.position + lost}, after ${afterBlock(now.depth)}`);
    view.tables(() => tables(chosen())); // called later, perhaps for another text
  }

  const drawn = redrawing(model, TRAITS, draw);
  const stopResizing = onResize(table, drawn.ask);
  reader.start();
  return () => {
    reader.stop();
    stopResizing();
    drawn.stop();
  };
}

const ofOwn = ({ config: { n_layers: L }, text }) => ({
  _stored: { text: "", guesses: [[]], probabilities: [[]], losses: [[]], ranks: [[]], added: [] },
  position: [...text].length - 1,
  depth: L - 1,
});

export default { render: takesOwn(render, ofOwn) };
