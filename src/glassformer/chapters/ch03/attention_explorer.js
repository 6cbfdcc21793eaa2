// Shows where every head of the book's model attends, in a text of the reader's choice. See attention_explorer.py.
import { largest, range, softmax } from "../../widgets/kit/maths.js";
import { button, fixed, frame, h, plural, put, redrawing, setAll, toggle, write } from "../../widgets/kit/kit.js";
import { letters } from "../../widgets/engine/letters.js";
import { named, unpacked, visible } from "../../widgets/engine/model.js";
import { takesOwn } from "../../widgets/engine/own_model.js";
import { textReader } from "../../widgets/engine/text_reader.js";
import { cividis, legend, paint, palette } from "../../widgets/kit/plot.js";

const THREE_LINES = "A horse! a horse!\nMy kingdom for a horse!\nSlave, I have set my life upon a cast";
const SHADES = palette(cividis, range(256).map((i) => i / 255));
const LONGEST = 3; // keys that the sentence names

// --- maths ----------------------------------------------------------------------------------------------------------

// For one position: its query and key in every block (H·K, head after head), and its weights (H, S).
export function look(seen, transformer) {
  const { H, K } = transformer.heads;
  const blocks = [];
  for (const { part, sublayer, name, array, shape } of seen) {
    if (sublayer !== "attention" || !["q", "k", "weights"].includes(name)) continue;
    const block = Number(part.split(" ").at(-1));
    blocks[block] ??= {};
    const S = shape[1];
    blocks[block][name] =
      name === "k" ? Float32Array.from({ length: H * K }, (_, i) => array[(Math.floor(i / K) * S + S - 1) * K + (i % K)]) : array;
  }
  return blocks;
}

// The weights of one head of one block (T, T), one row for each query, from the positions that were read. Without the mask,
// the same queries also meet the keys of later positions.
export function attended(positions, { K, scale }, block, head, masked) {
  const T = positions.length;
  return positions.map((position, t) => {
    if (masked) {
      const row = new Float32Array(T);
      row.set(position[block].weights.subarray(head * (t + 1), (head + 1) * (t + 1)));
      return row;
    }
    const q = position[block].q.subarray(head * K, (head + 1) * K);
    const scores = positions.map((other) => {
      let dot = 0;
      for (let i = 0; i < K; i++) dot += q[i] * other[block].k[head * K + i];
      return dot * scale;
    });
    return Float32Array.from(softmax(scores));
  });
}

// The average weight on the previous character and on the first one, over all queries but the first.
export function habits(rows) {
  const asking = rows.slice(1);
  const mean = (of) => (asking.length ? asking.reduce((sum, row, i) => sum + of(row, i + 1), 0) / asking.length : 0);
  return { before: mean((row, t) => row[t - 1]), first: mean((row) => row[0]), own: mean((row, t) => row[t]) };
}

// --- words ----------------------------------------------------------------------------------------------------------

export function sentence({ characters, rows, block, head, query, masked }) {
  const row = rows[query];
  const keys = largest(row, Math.min(LONGEST, masked ? query + 1 : row.length)).filter((s) => row[s] >= 0.005);
  const places = keys.map((s) => `${named(characters[s])} at ${s}${s === query ? ", itself," : ""} (${fixed(row[s], 2)})`);
  const most = places.length > 1 ? `${places.slice(0, -1).join(", ")} and ${places.at(-1)}` : places[0];
  const sink = masked && query > 0 ? ` The first character gets a weight of ${fixed(row[0], 2)}.` : "";
  const never = masked ? "" : " Without the mask, it can also look ahead, but the model was never trained this way.";
  return `Block ${block}, head ${head}: ${named(characters[query])} at ${query} looks most at ${most}.${sink}${never}`;
}

// --- view -----------------------------------------------------------------------------------------------------------

const TRAITS = ["text", "block", "head", "query", "masked"];

function render({ model, el }) {
  const view = frame(el, {
    title: "Where does each head look?",
    hint: "Choose a head among the small maps. Point at a character of the text, or move along the text with ← and →. Then type a text of your own.",
  });
  const config = model.get("_config");
  const { n_layers: L, n_heads: H, context_length: context } = config;
  const stored = model.get("_stored");
  const send = (changes) => setAll(model, changes);
  view.drawing.setAttribute("role", "group"); // role="img" must not contain buttons

  // What is drawn: rows(block, head) for the first T characters of a text.
  let shown;
  const show = (characters, T, rows) => {
    const known = new Map();
    const once = (block, head) => {
      const key = block * H + head;
      if (!known.has(key)) known.set(key, rows(block, head));
      return known.get(key);
    };
    shown = { characters, T, rows: once, version: (shown?.version ?? 0) + 1 };
  };

  const { shape, data } = unpacked(stored.weights);
  const T0 = shape[2];
  const storedRows = (block, head) =>
    range(T0).map((t) => data.subarray(((block * H + head) * T0 + t) * T0, ((block * H + head) * T0 + t + 1) * T0));
  show([...stored.text].slice(0, T0), T0, storedRows);

  let live = false; // true as soon as there is a model
  const reader = textReader(model, {
    view,
    label: "Your text",
    seen: (text) => [...text].slice(0, context).join(""),
    look,
    also: ["masked"],
    isStored: () => model.get("masked") && model.get("text") === stored.text,
    show(reading, characters) {
      live = true;
      const positions = [...reading.positions];
      const rows = (block, head) => attended(positions, reading.transformer.heads, block, head, model.get("masked"));
      show(characters, positions.length, rows);
      drawn.ask();
    },
    told: () => drawn.ask(),
  });

  // --- controls

  view.controls.classList.add("gf-explorer-controls");
  view.controls.append(reader.control, toggle(model, "masked", { label: "Causal mask" }));
  if ([...THREE_LINES].every((character) => model.get("_characters").includes(character))) {
    const read = button("Read three lines of the play", () => send({ text: THREE_LINES }));
    view.controls.append(h("div", { class: "gf-buttons" }, read));
  }

  // --- all heads at a glance

  const maps = range(L * H).map((i) => {
    const [block, head] = [Math.floor(i / H), i % H];
    const canvas = h("canvas", { class: "gf-map" });
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    const element = h(
      "button",
      {
        type: "button",
        class: "gf-head-of",
        onclick: () => send({ block, head }),
        onkeydown: (event) => {
          const step = move[event.key];
          if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
          event.preventDefault();
          const to = [block + step[0], head + step[1]];
          if (to[0] < 0 || to[0] >= L || to[1] < 0 || to[1] >= H) return;
          send({ block: to[0], head: to[1] });
          maps[to[0] * H + to[1]].element.focus();
        },
      },
      canvas,
    );
    return { block, head, canvas, element };
  });
  const glance = h(
    "div",
    {
      class: "gf-glance",
      role: "group",
      "aria-label": "All heads; arrow keys choose one",
      style: `grid-template-columns: auto repeat(${H}, minmax(0, 1fr))`,
    },
    h("span", { class: "gf-word" }, H > 8 && "head"), // of more heads, only the numbers have room
    range(H).map((head) => h("span", { class: "gf-head" }, `${H > 8 ? "" : "head "}${head}`)),
    range(L).map((block) => [
      h("span", { class: "gf-word" }, `block ${block}`),
      maps.slice(block * H, (block + 1) * H).map(({ element }) => element),
    ]),
  );

  // --- one head in detail: the text itself, and the map

  const ask = (t) => t >= 0 && t < shown.T && send({ query: t });
  const line = letters({ label: "The text; arrow keys choose the character that asks", ask });

  const detail = h("canvas", { class: "gf-map gf-map-large" });
  const mark = h("div", { class: "gf-row-mark" });
  const square = h("div", { class: "gf-square" }, detail, mark);
  square.addEventListener("pointermove", (event) => {
    const box = detail.getBoundingClientRect();
    ask(Math.floor(((event.clientY - box.y) / box.height) * shown.T));
  });
  const caption = h("p", { class: "gf-panel-title" });
  view.drawing.append(
    h(
      "div",
      { class: "gf-explorer" },
      h("div", {}, h("p", { class: "gf-panel-title" }, "All heads. Each row asks, and each column answers."), glance),
      h("div", {}, caption, square),
    ),
    h("p", { class: "gf-panel-title gf-reads" }, "The text, coloured by how much weight each character gets"),
    line.element,
    legend(cividis, "weight 0", 1, h("span", {}, "Hatched: hidden by the mask. Framed: the character that asks.")),
  );

  const pixels = (canvas, rows, masked) =>
    paint(canvas, rows.length, rows.length, (t, s) =>
      masked && s > t ? 0 : SHADES[Math.min(255, Math.round(255 * rows[t][s]))],
    );

  let painted; // the weights and the mask that the small maps show

  function draw() {
    const { block, head, masked } = Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]));
    const { characters, T, rows, version } = shown;
    if (T === 0) return view.says(reader.words());
    const query = Math.min(model.get("query"), T - 1);
    const chosen = rows(block, head);
    const canShow = masked || live; // without a mask, the stored weights are of no use
    if (painted !== `${version} ${masked}`) {
      painted = `${version} ${masked}`;
      for (const map of maps) pixels(map.canvas, rows(map.block, map.head), masked || !canShow);
    }
    for (const map of maps) {
      const here = map.block === block && map.head === head;
      put(map.element, {
        "aria-pressed": here,
        tabindex: here ? 0 : -1,
        "aria-label": `block ${map.block}, head ${map.head}`,
      });
    }
    pixels(detail, chosen, masked || !canShow);
    mark.style.top = `${(100 * query) / T}%`;
    mark.style.height = `${100 / T}%`;
    write(caption, `Block ${block}, head ${head}`);
    const row = chosen[query];
    line.show(characters, T, query, (s) => {
      const hidden = masked && s > query;
      return { colours: cividis, value: row[s], hidden, says: hidden ? "hidden" : `weight ${fixed(row[s], 2)}` };
    });
    view.describe(() => `Attention of ${plural(L, "block")} of ${plural(H, "head")} over “${characters.join("")}”; block ${block}, head ${head} in detail.`);
    const state = { characters, rows: chosen, block, head, query, masked };
    view.says(reader.words() || sentence(state));
    view.tables(() => [
      {
        caption: `Block ${block}, head ${head}: where ${named(characters[query])} at ${query} looks`,
        headers: ["Position", "Character", "Weight"],
        rows: () => range(T).map((s) => [s, visible(characters[s]), masked && s > query ? "hidden" : fixed(row[s], 3)]),
      },
      {
        caption: "Every head on this text: its average weight on the preceding character, on the first one, and on the character itself",
        headers: ["Block", "Head", "Preceding", "First", "Itself"],
        rows: () =>
          maps.map((map) => {
            const { before, first, own } = habits(rows(map.block, map.head));
            return [map.block, map.head, fixed(before, 2), fixed(first, 2), fixed(own, 2)];
          }),
      },
    ]);
  }

  const drawn = redrawing(model, TRAITS, draw);
  reader.start();
  return () => {
    reader.stop();
    drawn.stop();
  };
}

const ofOwn = ({ config: { n_layers: L, n_heads: H }, text }) => ({
  _stored: { text: "", weights: { shape: [L, H, 0, 0], largest: 1, numbers: "" } },
  block: Math.min(2, L - 1),
  head: Math.min(2, H - 1),
  query: [...text].length - 1,
});

export default { render: takesOwn(render, ofOwn) };
