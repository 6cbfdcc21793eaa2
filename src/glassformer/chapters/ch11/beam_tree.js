// Beam search as a tree: which texts continue at every step, which are dropped, and the result. See beam_tree.py.
import { button, choice, fixed, frame, grouped, h, hold, plural, put, redrawing, setAll, slider, svg, write } from "../../widgets/kit/kit.js";
import { alphabet, named, visible } from "../../widgets/engine/model.js";
import { inSlices } from "../../widgets/engine/reading.js";
import { Refusal } from "../../widgets/engine/model_file.js";
import { takesOwn } from "../../widgets/engine/own_model.js";
import { textReader } from "../../widgets/engine/text_reader.js";
import { legendOf } from "../../widgets/kit/plot.js";
import { shade } from "../../widgets/kit/shares.js";

const LONGEST = 100; // characters of a prompt
const MOST_BEAMS = 6;
const MOST_NEW = 12;
const SHADED = 0.8; // as a share of the strongest shade, for a certain character: its small number must stay legible

// --- searching --------------------------------------------------------------------------------------------------------

export function logSoftmax(logits) {
  const largest = logits.reduce((a, b) => Math.max(a, b), -Infinity);
  const log = largest + Math.log(logits.reduce((sum, x) => sum + Math.exp(x - largest), 0));
  return Array.from(logits, (x) => x - log);
}

// The search of generate.beam_search, which remembers every candidate. A node is { ids, score, own, fate, parent, row }: its
// text; the log-probability of that text; that of its last id; "grows", "ends" or "dropped"; the node that it continues, or
// null if that is the prompt; its place in its column.
export class Search {
  constructor({ nBeams, nNew, stops, lengthPenalty }) {
    Object.assign(this, { nBeams, nNew, stops, lengthPenalty });
    this.columns = [];
    this.growing = [{ ids: [], score: 0, parent: null }];
    this.ended = []; // best first, at most nBeams
    this.over = false;
  }

  worth({ score, ids }) {
    return score / ids.length ** this.lengthPenalty;
  }

  // From the log-probabilities (V) of the next id, for each text that grows: the likeliest continuations, best first.
  candidates(logPs) {
    const all = logPs.flatMap((row, beam) => row.map((x, id) => [beam, id, this.growing[beam].score + x]));
    return all.sort((a, b) => b[2] - a[2]).slice(0, this.nBeams * Math.max(2, 1 + this.stops.length));
  }

  step(candidates) {
    const grown = [];
    const column = candidates.map(([beam, id, score], row) => {
      const from = this.growing[beam];
      const ids = [...from.ids, id];
      const node = { ids, score, own: score - from.score, parent: from.ids.length ? from : null, row, fate: "dropped" };
      if (this.stops.includes(id) || ids.length === this.nNew) {
        if (row < this.nBeams) node.fate = "ends"; // the others are only there to replace texts that end
      } else if (grown.length < this.nBeams) {
        node.fate = "grows";
        grown.push(node);
      }
      return node;
    });
    this.columns.push(column);
    const ended = [...this.ended, ...column.filter(({ fate }) => fate === "ends")];
    this.ended = ended.sort((a, b) => this.worth(b) - this.worth(a)).slice(0, this.nBeams);
    this.growing = grown;
    const enough = this.ended.length === this.nBeams;
    this.over = !grown.length || (enough && this.worth(grown[0]) <= this.worth(this.ended.at(-1)));
  }

  // The best text after a number of steps, among those that have ended and those that grow.
  bestAt(steps) {
    const before = this.columns.slice(0, steps).flat().filter(({ fate }) => fate === "ends");
    const last = this.columns[steps - 1].filter(({ fate }) => fate === "grows");
    return [...before, ...last].reduce((a, b) => (this.worth(b) > this.worth(a) ? b : a));
  }
}

// A search whose candidates at each step are known.
export function replayed(options, steps) {
  const search = new Search(options);
  for (const candidates of steps) search.step(candidates);
  return search;
}

// A search that uses a model: logPs(ids) gives a promise of the log-probabilities of what comes after the new ids, or of
// undefined if nobody needs them any more.
async function searched(options, logPs) {
  const search = new Search(options);
  while (!search.over) {
    const rows = [];
    for (const { ids } of search.growing) {
      const row = await logPs(ids);
      if (!row) return undefined;
      rows.push(row);
    }
    search.step(search.candidates(rows));
  }
  return search;
}

// The likeliest id at every step: [id, log-probability of all so far], …
async function greedily({ nNew, stops }, logPs) {
  const made = [];
  while (made.length < nNew && !stops.includes(made.at(-1)?.[0])) {
    const row = await logPs(made.map(([id]) => id));
    if (!row) return undefined;
    const id = row.reduce((best, x, i) => (x > row[best] ? i : best), 0);
    made.push([id, (made.at(-1)?.[1] ?? 0) + row[id]]);
  }
  return made;
}

// What a model predicts for the texts that begin with a prompt. Common beginnings are read only once.
function teller(transformer, prompt) {
  const cache = transformer.newCache();
  const known = new Map();
  let read = [];
  return async (ids, wanted) => {
    const key = ids.join(" ");
    if (known.has(key)) return known.get(key);
    const all = [...prompt, ...ids];
    const differs = all.findIndex((id, t) => id !== read[t]);
    const from = Math.min(differs < 0 ? all.length : differs, all.length - 1);
    cache.length = from;
    read = read.slice(0, from);
    const logits = await inSlices(transformer.steps(all.slice(from), { cache }), wanted);
    if (!logits) return undefined;
    read = all;
    known.set(key, logSoftmax(logits.subarray(logits.length - transformer.config.vocab_size)));
    return known.get(key);
  };
}

// --- words ------------------------------------------------------------------------------------------------------------

const nats = (x) => fixed(x, 2);
const isWithin = (path, ids) => path.every((id, i) => id === ids[i]);
const fateOf = { grows: "It continues.", ends: "It has ended.", dropped: "It is dropped." };

// The step at which the search drops the greedy text; null if it does not.
export function leaves(columns, greedy) {
  const ids = greedy.map(([id]) => id);
  const at = columns.findIndex(
    (column, s) => s < ids.length && !column.some((node) => node.fate !== "dropped" && isWithin(node.ids, ids)),
  );
  return at < 0 ? null : at + 1;
}

export function sentence({ search, greedy, steps, spell }) {
  const { nBeams, columns, lengthPenalty } = search;
  const who = nBeams === 1 ? "one beam" : `${nBeams} beams`;
  if (steps === 0) return `A search with ${who}: nothing is written yet. Step forward, and the model predicts the next character.`;
  const best = search.bestAt(steps);
  const done = steps === columns.length;
  const valued = lengthPenalty ? `, worth ${fixed(search.worth(best), 3)}` : "";
  const what = `“${spell(best.ids)}” (${nats(best.score)} nats${valued})`;
  const ids = greedy.slice(0, steps).map(([id]) => id);
  const total = greedy[ids.length - 1][1];
  const gone = leaves(columns.slice(0, steps), greedy);
  const lead = done ? `The search with ${who} finds ${what}` : `After ${steps} of ${plural(columns.length, "step")}, the best text with ${who} is ${what}`;
  const equal =
    lengthPenalty && !search.stops.length ? " All texts have the same length here, so the penalty does not change their order." : "";
  const isAsLong = ids.length === best.ids.length;
  if (isAsLong && isWithin(ids, best.ids)) return `${lead}. Greedy decoding finds the same text.${equal}`;
  const odds = Math.exp(best.score - total);
  const times = (x) => (x < 1000 ? fixed(x, 1) : grouped(Math.round(x)));
  const less = odds > 1 ? `${times(odds)} times less likely` : `${times(1 / odds)} times likelier`;
  const dropped = gone === null ? "" : ` The search drops greedy's text at step ${gone}.`;
  return `${lead}. Greedy decoding ${done ? "finds" : "has"} “${spell(ids)}” (${nats(total)})${isAsLong ? `, which is ${less}` : ""}.${dropped}${equal}`;
}

// --- view -------------------------------------------------------------------------------------------------------------

const TRAITS = ["text", "n_beams", "n_new", "end", "length_penalty", "step", "node"];
const OF = ["text", "n_new", "end", "length_penalty"];

function render({ model, el }) {
  const view = frame(el, {
    title: "Beam search: several texts continue, the others are dropped",
    hint: "Widen the beam, or take one step at a time. Point at a character to see the log-probability of its text.",
  });
  const { known, ids } = alphabet(model.get("_characters"));
  const stored = model.get("_stored");
  const spell = (some) => some.map((id) => known[id]).join("").replaceAll("\n", "⏎");
  const quoted = (some) => `“${spell(some)}”`;
  const isStored = () => OF.every((name, i) => model.get(name) === stored.of[i]);
  const optionsNow = () => ({
    nBeams: model.get("n_beams"),
    nNew: model.get("n_new"),
    stops: ids(model.get("end")),
    lengthPenalty: model.get("length_penalty"),
  });

  let now = null; // { search, greedy, number } as drawn
  let [turn, searching, number] = [0, false, 0];
  const working = (is) => {
    searching = is;
    view.busy("search", is);
  };
  let [tell, told] = [null, null]; // the source of predictions, and the prompt that it is for
  const take = (search, greedy) => {
    now = { search, greedy, number: ++number };
    working(false);
    ask();
  };
  const wantStored = () => {
    if (!isStored()) return;
    turn++;
    take(replayed(optionsNow(), stored.searches[model.get("n_beams") - 1]), stored.greedy);
  };
  async function find(transformer, characters) {
    const mine = ++turn;
    const prompt = ids(characters.join(""));
    if (told !== characters.join("")) [tell, told] = [teller(transformer, prompt), characters.join("")];
    working(true);
    ask();
    const wanted = () => mine === turn;
    const asked = tell;
    const logPs = (some) => asked(some, wanted);
    const options = optionsNow();
    const greedy = await greedily(options, logPs);
    const search = greedy && (await searched(options, logPs));
    if (search && wanted()) take(search, greedy);
  }
  const room = model.get("_config").context_length - MOST_NEW;
  const reader = textReader(model, {
    view,
    label: `Your prompt (the search continues its last ${LONGEST} characters)`,
    fit: (text) => [...text].slice(-LONGEST).join(""),
    seen: (text) => [...text].slice(-room).join(""),
    look: () => null,
    also: ["n_beams", "n_new", "end", "length_penalty"],
    isStored,
    show: (reading, characters) => {
      if (reading.positions.length === characters.length) find(reading.transformer, characters);
    },
    told: () => {
      wantStored();
      ask();
    },
  });

  const length = () => now?.search.columns.length ?? model.get("n_new");
  const steps = () => Math.min(model.get("step"), length());
  const go = (to) => setAll(model, { step: Math.min(Math.max(to, 0), length()) });
  const ends = [["", "nothing"], [".", "a full stop"], ["\n", "a line break"]].filter(([end]) => !end || known.includes(end));
  const [back, forward] = [button("Back", () => go(steps() - 1)), button("Forward", () => go(steps() + 1))];
  const stepper = slider(model, "step", {
    label: "Steps taken",
    min: 0,
    max: MOST_NEW,
    format: () => `${steps()} of ${length()}`,
    follows: ["n_new"],
  });
  const output = stepper.querySelector("output");
  view.controls.append(
    reader.control,
    slider(model, "n_beams", { label: "Beams", min: 1, max: MOST_BEAMS }),
    slider(model, "n_new", { label: "Characters to write", min: 1, max: MOST_NEW }),
    stepper,
    h("div", { class: "gf-buttons gf-beam-buttons" }, back, forward),
    choice(model, "end", { label: "A text also ends with", options: ends }),
    slider(model, "length_penalty", { label: "Length penalty", min: 0, max: 2, step: 0.25, format: (x) => fixed(x, 2) }),
  );


  const edges = Object.fromEntries(["dropped", "grows", "best"].map((kind) => [kind, svg("path", { class: `gf-beam-edge gf-beam-edge-${kind}` })]));
  const lines = svg("svg", { class: "gf-beam-lines", preserveAspectRatio: "none", "aria-hidden": "true" }, Object.values(edges));
  const nodes = h("div", { class: "gf-beam-nodes" });
  const strip = h("div", { class: "gf-beam-nodes gf-beam-strip" });
  const key = (style, text) => h("span", { class: "gf-scale" }, h("span", { class: `gf-beam-node ${style}` }, "a"), text);
  view.drawing.setAttribute("role", "group");
  view.drawing.append(
    h("div", { class: "gf-beam-scroll" }, h("div", { class: "gf-beam-tree" }, lines, nodes), h("p", { class: "gf-panel-title" }, "Greedy"), strip),
    legendOf(
      key("gf-beam-best", "the best so far"),
      key("gf-beam-grows", "continues"),
      key("gf-beam-ends", "has ended"),
      key("gf-beam-dropped", "dropped"),
      key("gf-beam-grows gf-beam-greedy", "the path of greedy decoding"),
    ),
  );

  let buttons = []; // by column and row
  const point = (column, row) => setAll(model, { node: sameNode(column, row) ? model.get("node") : [column, row] });
  const sameNode = (column, row) => model.get("node")[0] === column && model.get("node")[1] === row;
  const chosen = () => {
    const column = Math.min(model.get("node")[0], Math.max(steps(), 1) - 1);
    return [column, Math.min(model.get("node")[1], now.search.columns[column].length - 1)];
  };

  function move(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const { columns } = now.search;
    const [column, row] = chosen();
    const child = () => columns[column + 1]?.find(({ parent }) => parent === columns[column][row]);
    const to = {
      ArrowUp: () => [column, row - 1],
      ArrowDown: () => [column, row + 1],
      ArrowLeft: () => [column - 1, columns[column][row].parent?.row],
      ArrowRight: () => [column + 1, child()?.row],
      Home: () => [0, 0],
      End: () => [steps() - 1, 0],
    }[event.key]?.();
    if (!to) return;
    event.preventDefault();
    if (to[0] < steps()) buttons[to[0]]?.[to[1]]?.focus();
  }
  nodes.addEventListener("keydown", move);

  function build() {
    const { columns } = now.search;
    hold(nodes, [now.number], () => {
      buttons = columns.map((column, c) =>
        column.map((node, r) =>
          h(
            "button",
            {
              type: "button",
              style: `grid-column: ${c + 2}; grid-row: ${r + 1}; --gf-beam-shade: ${shade((SHADED * Math.exp(node.own)).toFixed(4))}`,
              onfocus: () => point(c, r),
              onpointerenter: () => point(c, r),
            },
            h("b", {}, visible(known[node.ids.at(-1)])),
            h("small", {}, nats(node.score)),
          ),
        ),
      );
      return [h("span", { class: "gf-beam-root", style: "grid-column: 1; grid-row: 1" }, "▸"), buttons];
    });
    hold(strip, [now.number], () =>
      now.greedy.map(([id, total], c) =>
        h("span", { class: "gf-beam-node gf-beam-greedy", style: `grid-column: ${c + 2}` }, h("b", {}, visible(known[id])), h("small", {}, nats(total))),
      ),
    );
    const across = Math.max(columns.length, now.greedy.length) + 1;
    const down = Math.max(...columns.map((column) => column.length));
    for (const grid of [nodes, strip]) put(grid, { style: `--gf-beam-columns: ${across}; --gf-beam-rows: ${grid === nodes ? down : 1}` });
    put(lines, { viewBox: `0 0 ${across} ${down}` });
  }

  function draw() {
    if (now === null) return view.says(reader.words() || "Searching …");
    build();
    const { search, greedy } = now;
    const count = steps();
    const best = count ? search.bestAt(count).ids : [];
    const greedyIds = greedy.map(([id]) => id);
    const [column, row] = chosen();
    const paths = { dropped: "", grows: "", best: "" };
    search.columns.forEach((nodesOf, c) =>
      nodesOf.forEach((node, r) => {
        const isBest = isWithin(node.ids, best);
        const isGreedy = isWithin(node.ids, greedyIds);
        const here = c === column && r === row;
        const style = `${node.fate}${isBest ? " gf-beam-best" : ""}${isGreedy ? " gf-beam-greedy" : ""}${here ? " gf-beam-here" : ""}`;
        put(buttons[c][r], {
          class: `gf-beam-node gf-beam-${style}`,
          tabindex: here ? 0 : -1,
          "aria-label":
            `step ${c + 1}, ${named(known[node.ids.at(-1)])}: ${nats(node.score)} nats, ${node.fate}` +
            `${isBest ? ", of the best" : ""}${isGreedy ? ", of greedy" : ""}`,
        });
        buttons[c][r].hidden = c >= count;
        if (c >= count) return;
        const from = `M${c + 0.5} ${(node.parent?.row ?? 0) + 0.5}`;
        const bent = `C${c + 1} ${(node.parent?.row ?? 0) + 0.5} ${c + 1} ${r + 0.5} ${c + 1.5} ${r + 0.5}`;
        paths[isBest ? "best" : node.fate === "dropped" ? "dropped" : "grows"] += from + bent;
      }),
    );
    [...strip.children].forEach((each, c) => (each.hidden = c >= count));
    for (const [kind, path] of Object.entries(edges)) put(path, { d: paths[kind] || "M0 0" });
    put(back, { "aria-disabled": count === 0 }); // and not disabled, which would take the focus away
    put(forward, { "aria-disabled": count === length() });
    write(output, `${count} of ${length()}`);

    const node = count ? search.columns[column][row] : null;
    const pointed = node
      ? ` At step ${column + 1}, “${spell(node.ids)}”: ${named(known[node.ids.at(-1)])} adds ${nats(node.own)} to make ${nats(node.score)}. ${fateOf[node.fate]}`
      : "";
    const seen = sentence({ search, greedy, steps: count, spell });
    const trouble = reader.words() || (searching ? "Searching …" : "");
    view.describe(() => `A tree of ${plural(count, "step")}, the best candidates of each first. ${seen}${pointed}`);
    view.says(trouble || seen + pointed);
    view.tables(() => [
      {
        caption: "Texts that have ended, best first",
        headers: ["Text", "Log-probability", "Characters", "Worth"],
        rows: () =>
          (count === length() ? search.ended : []).map((each) => [
            quoted(each.ids),
            fixed(each.score, 5),
            each.ids.length,
            fixed(search.worth(each), 5),
          ]),
      },
      {
        caption: "Greedy",
        headers: ["Text", "Log-probability"],
        rows: () => greedy.slice(0, count).map(([, total], i) => [quoted(greedyIds.slice(0, i + 1)), fixed(total, 5)]),
      },
      {
        caption: "Every candidate",
        headers: ["Step", "Text", "Log-probability", "Then"],
        rows: () =>
          search.columns
            .slice(0, count)
            .flatMap((nodesOf, c) => nodesOf.map(({ ids: all, score, fate }) => [c + 1, quoted(all), fixed(score, 5), fate])),
      },
    ]);
  }

  let ask = () => {};
  wantStored();
  const drawing = redrawing(model, TRAITS, draw);
  ask = drawing.ask;
  reader.start();
  return () => {
    turn++;
    reader.stop();
    drawing.stop();
  };
}

function ofOwn({ config: { context_length: context }, text }) {
  if (context <= MOST_NEW) throw new Refusal(`This view writes up to ${MOST_NEW} characters, but context_length=${context}`);
  return { _stored: { of: [] }, text: [...text].slice(-LONGEST).join(""), end: "", step: MOST_NEW, node: [0, 0] };
}

export default { render: takesOwn(render, ofOwn) };
