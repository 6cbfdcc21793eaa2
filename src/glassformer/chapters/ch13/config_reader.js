// A config.json of Hugging Face in plain sentences, with a parameter count and our code's response. See config_reader.py.
import { KEPT, cachesOf, counted, formulaOf, inBytes, layersOf, lettered, much, percent, sentence, sum, together, total } from "../../widgets/engine/counting.js";
import { button, frame, grouped, h, hold, put, redrawing, setAll, uniqueId, write } from "../../widgets/kit/kit.js";
import { model as modelOf, parsed, unknownKeys } from "./hubconfig.js";
import { NAMES, onPart, partList, stack } from "../../widgets/engine/parts.js";
import { chapterLink, rich } from "../../widgets/kit/rich.js";
import { guessed, lacking, sentences, shown } from "./sentences.js";

const LONGEST = 20_000; // characters, as in config_reader.py

const TITLES = { unread: "It cannot be read.", refused: "Our code refuses it.", runs: "It runs as it is." };

const PARTLY = "It runs only without the keys listed here.";

const UNKNOWN = "Our code does not know them, and they may change what the model computes: load refuses the file unless it is told to ignore them.";

// --- reading --------------------------------------------------------------------------------------------------------

// Everything that is said about a text. `kind`: "unread", "refused" or "runs". Of a file that runs, `lacks` has the keys that
// our code does not know, with their values.
export function read(text, tables, formulas, letters) {
  if (text.length > LONGEST) return { kind: "unread", verdict: `These are ${grouped(text.length)} characters, and no config.json has more than ${grouped(LONGEST)}.` };
  const { given, trouble } = parsed(text);
  if (trouble) return { kind: "unread", verdict: trouble };
  const { config: made, refused, large } = modelOf(given, tables);
  if (large) return { kind: "unread", verdict: `${large}: this page counts no further.` };
  if (refused) {
    return { kind: "refused", verdict: `${refused}.`, lacks: lacking(given, tables), sentences: guessed(given, tables) };
  }
  const inside = (field) => field.split(".").reduce((outer, name) => outer[name], given);
  const lacks = unknownKeys(given, tables).map((field) => ({ field, lacks: shown(Object.hasOwn(given, field) ? given[field] : inside(field)) }));
  const parts = counted(made, formulas, letters);
  return {
    kind: "runs",
    config: made,
    parts,
    total: total(parts),
    sizes: lettered(made, letters),
    sentences: sentences(given, made, tables),
    lacks,
    verdict: lacks.length ? UNKNOWN : "Our code runs it as it is.",
  };
}

// Quantities that follow from the fields: [name, formula, number].
export function derived({ config: made, total: n }, known) {
  const T = made.context_length;
  const each = (of) => [...new Set(layersOf(made).map(({ fields: { n_heads, n_kv_heads, d_head } }) => of(n_heads, n_kv_heads, d_head)))].join(" or ");
  const name = known[n];
  const rows = [
    ["Parameters N", name ? `as many as ${name}` : "", grouped(n)],
    ["Width of a head K", each((H, G, K) => `${grouped(H)} heads, ${grouped(H * K)} together`), each((H, G, K) => grouped(K))],
    ["Query heads for each key/value head", each((H, G) => `${grouped(H)} / ${grouped(G)}`), each((H, G) => grouped(H / G))],
    ...KEPT.map(([kind, bytes]) => [`Weights in ${kind}`, `${bytes} · N bytes`, inBytes(bytes * n)]),
    ["Operations for each token", "about 2N", much(2 * n)],
  ];
  if (made.family === "decoder" && made.head !== "none") {
    const caches = cachesOf(made, T).map(({ L, G, K, kept }) => [L, G, K, kept]);
    const products = caches.map((factors) => factors.map(grouped).join(" · ")).join(" + ");
    const bytes = 4 * sum(caches.map((factors) => factors.reduce((a, b) => a * b)));
    rows.push([`KV cache in bfloat16, ${grouped(T)} positions`, `2 · ${caches.length > 1 ? `(${products})` : products} · 2 bytes`, inBytes(bytes)]);
  }
  return rows;
}

// --- view -----------------------------------------------------------------------------------------------------------

// What is missing, in a few words: those before the explanation.
const needed = (lacks) =>
  lacks.length ? `It lacks ${lacks.map(({ lacks: what }) => what.split(/[:,]/)[0]).join("; ")}.` : "Correct it above, and the page reads it again.";


function render({ model, el }) {
  const view = frame(el, {
    title: "A config.json in plain sentences",
    hint: "Paste the config.json of any model, change a number, or choose an example. Your page reads it by itself and sends nothing anywhere.",
  });
  const [tables, formulas, letters] = ["_tables", "_formulas", "_letters"].map((name) => model.get(name));
  let draft = model.get("text");

  // --- controls

  const field = h("textarea", { rows: 12, spellcheck: "false", autocomplete: "off", id: uniqueId(), class: "gf-json" });
  field.addEventListener("input", () => {
    draft = field.value;
    if (draft.length <= LONGEST) setAll(model, { text: draft });
    drawn.ask();
  });
  const take = (text) => {
    draft = text;
    setAll(model, { text });
    drawn.ask();
  };
  const group = (label, kind) =>
    h(
      "div",
      { class: "gf-examples", role: "group", "aria-label": label },
      h("span", { class: "gf-label" }, label),
      model.get("_examples").filter(([own]) => own === kind).map(([, name, text]) => button(name, () => take(text))),
    );
  view.controls.append(
    h("div", { class: "gf-text" }, group("Examples that run", "runs"), group("Examples that do not", "refused")),
    h("div", { class: "gf-text" }, h("label", { class: "gf-label", for: field.id }, "config.json"), field),
  );

  // --- drawing

  const verdict = h("strong");
  const reason = h("span");
  const needs = h("ul", { class: "gf-lacks" });
  const said = h("div", { class: "gf-sentences" });
  const count = h("p", { class: "gf-count-title" });
  const bar = stack();
  const choose = (part) => setAll(model, { part });
  const parts = partList(choose);
  const facts = h("table", { class: "gf-readout gf-derived" });
  const counts = h("div", {}, count, h("div", { "aria-hidden": "true" }, bar.element), h("div", { class: "gf-filled" }, parts.element), facts);
  const answer = h("p", { class: "gf-verdict" }, verdict, " ", reason);
  view.drawing.setAttribute("role", "group"); // role="img" must not contain buttons
  view.drawing.append(answer, needs, said, counts);
  onPart(view.drawing, choose);

  const sentenceRow = ({ field: name, value, says, chapter }) =>
    h(
      "div",
      { class: "gf-sentence" },
      h("p", { class: "gf-field" }, h("code", {}, name), " ", h("code", { class: "gf-given-value" }, value)),
      h("p", {}, says),
      h("p", { class: "gf-chapter" }, rich(`Chapter ${chapter}`, model)),
    );

  function drawCount(found) {
    const { total: n, sizes } = found;
    const all = together(found.parts);
    const chosen = all.find(({ name }) => name === model.get("part")) ?? all[0];
    const name = tables.known[n];
    write(count, `${grouped(n)} parameters${name ? `, as many as ${name}` : ""}`);
    bar.draw(all, chosen.name);
    const filled = (letter, own) => grouped(own[letter]);
    parts.draw(
      NAMES.flatMap((one) => {
        const part = all.find((each) => each.name === one);
        return part ? [{ name: one, cells: [formulaOf(part, filled), grouped(part.count), percent(part.count / n), ""] }] : [];
      }),
      chosen.name,
      [grouped(n), percent(1), ""],
    );
    const rows = derived(found, tables.known);
    hold(facts, rows.flat(), () => h("tbody", {}, rows.slice(1).map(([what, how, value]) => h("tr", {}, h("th", { scope: "row" }, what), h("td", {}, how), h("td", {}, value)))));
    return sentence(chosen, all, sizes, all, "");
  }

  function draw() {
    if (field.value !== draft) field.value = draft;
    const found = read(draft, tables, formulas, letters);
    const { kind, lacks = [], sentences: lines = [] } = found;
    put(answer, { class: `gf-verdict gf-${kind}` });
    put(field, { "aria-invalid": kind === "unread" });
    const title = kind === "runs" && lacks.length ? PARTLY : TITLES[kind];
    write(verdict, title);
    write(reason, title === TITLES.runs ? "" : found.verdict);
    hold(needs, ["lacks", kind, JSON.stringify(lacks)], () => lacks.map(({ field: name, lacks: what }) => h("li", {}, h("code", {}, name), kind === "runs" ? ` = ${what}` : `: our code lacks ${what}.`)));
    needs.hidden = lacks.length === 0;
    hold(said, ["said", JSON.stringify(lines)], () => lines.map(sentenceRow));
    said.hidden = lines.length === 0;
    counts.hidden = kind !== "runs";
    const words = kind === "runs" ? drawCount(found) : `${title} ${kind === "refused" ? needed(lacks) : "Nothing is counted."}`;
    view.says(words);
    view.describe(() => `${title} ${kind === "runs" ? `${grouped(found.total)} parameters. ${words}` : found.verdict}`);
    view.tables(() =>
      kind === "unread"
        ? []
        : [
            { caption: "What the fields mean", headers: ["Field", "In the file", "What it means", "Chapter"], rows: () => lines.map((line) => [line.field, line.value, line.says, chapterLink(line.chapter, model)]) },
            ...(kind === "runs"
              ? [
                  {
                    caption: "Its parameters, part by part",
                    headers: ["Part", "Formula", "Each", "Times", "Parameters", "Share"],
                    rows: () => [
                      ...found.parts.map((part) => [part.name, formulaOf(part), grouped(part.each), grouped(part.times), grouped(part.count), percent(part.count / found.total)]),
                      ["total", "", "", "", grouped(found.total), percent(1)],
                    ],
                  },
                  { caption: "What follows", headers: ["What", "How", "Number"], rows: () => derived(found, tables.known) },
                ]
              : []),
          ],
    );
  }

  // A text set by Python is read, whatever was pasted.
  const follow = () => (draft = model.get("text"));
  model.on("change:text", follow);
  const drawn = redrawing(model, ["text", "part"], draw);
  return () => {
    model.off("change:text", follow);
    drawn.stop();
  };
}

export default { render };
