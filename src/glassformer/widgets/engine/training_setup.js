// What a reader chooses before a training begins: the size, the text, a break, and a prediction.

import { choice, fixed, grouped, h, plural, setAll, slider, svg, uniqueId, whole, write } from "../kit/kit.js";
import { range } from "../kit/maths.js";
import { leastOf } from "./learned_text.js";
import { textOf } from "./model_file.js";

export const BREAKS = {
  nothing: "Nothing is broken",
  rate: "Rates ten times too large",
  mask: "No mask",
  warmup: "No warm-up",
};
export const CURVES = {
  zero: "It falls to nearly 0",
  same: "As without the break",
  worse: "It learns, but less",
  stuck: "It does not learn",
};
const SKETCHES = {
  zero: "M4 6C10 44 16 46 30 47L92 48",
  same: "M4 6C12 24 20 29 40 32S80 36 92 36",
  worse: "M4 6C12 16 20 20 40 23S80 26 92 26",
  stuck: "M4 6l8 5 8-6 8 4 8-5 8 6 8-4 8 3 8-4 8 3 8-3 8 2",
};
const GUESSES = [...range(91).map((i) => Number((i / 20).toFixed(2))), null]; // 0, 0.05, … 4.5, and none yet
const KEPT = 20_000; // characters of a text that the model stores
const LONG = 2000; // characters of a pasted text
const MOST = 5_000_000; // characters of a text, and bytes of its file: five times as many as the book's text has

// The loss that the reader means by pointing at a height.
export const nearestGuess = (loss) => GUESSES[Math.min(Math.max(Math.round(20 * loss), 0), 90)];

// The width, the depth and the number of steps that are chosen. A break always changes the small model.
export function sizeOf(get) {
  const isSmall = get("broken") !== "nothing" || get("name") === "short";
  const size = isSmall ? "small" : get("size");
  return size === "own" ? Object.fromEntries(["d_model", "n_layers", "steps"].map((name) => [name, get(name)])) : get("_sizes")[size];
}

// Whether the model will read the reader's own text.
export const isOwn = (get) => get("source") === "own" && get("broken") === "nothing" && get("name") !== "short";

// The settings of training.js, for a text.
export function settingsOf(get, text) {
  const { model, training, length } = get("_recipe");
  const broken = get("name") === "short" ? "nothing" : get("broken");
  const isOwnSize = broken === "nothing" && get("name") !== "short" && get("size") === "own";
  const factor = broken === "rate" ? 10 : isOwnSize ? get("rate") : 1;
  const rates = ["learning_rate", "embedding_rate", "head_rate", "norm_rate"].map((name) => [name, factor * training[name]]);
  return {
    recipe: { model, training },
    text,
    ...sizeOf(get),
    length,
    batch_size: training.batch_size,
    seed: get("seed"),
    causal: broken !== "mask",
    changes: { ...Object.fromEntries(rates), ...(broken === "warmup" ? { warmup: 0 } : {}) },
  };
}

function radios(model, name, { label, options }) {
  const group = uniqueId();
  const inputs = options.map(([value]) => h("input", { type: "radio", name: group, onchange: () => setAll(model, { [name]: value }) }));
  const show = () => inputs.forEach((input, i) => (input.checked = options[i][0] === model.get(name)));
  model.on(`change:${name}`, show);
  show();
  const element = h(
    "fieldset",
    { class: "gf-control gf-choice gf-lab-curves" },
    h("legend", { class: "gf-label" }, label),
    h("div", { class: "gf-options" }, inputs.map((input, i) => h("label", {}, input, options[i][1]))),
  );
  return { element, stop: () => model.off(`change:${name}`, show) };
}

const sketch = (curve) =>
  svg("svg", { viewBox: "0 0 96 54", class: "gf-lab-sketch", "aria-hidden": "true" }, [
    svg("path", { d: "M3 2V51H94", class: "gf-lab-axes" }),
    svg("path", { d: SKETCHES.same, class: "gf-curve-before" }),
    svg("path", { d: SKETCHES[curve], class: "gf-curve-line" }),
  ]);

// own: { text }, the reader's text; changed() is called whenever anything has changed.
export function setup(model, own, changed) {
  const get = (name) => model.get(name);
  own.text = whole(get("text"));

  // --- the reader's own text ---
  const field = h("textarea", { rows: 4, id: uniqueId(), spellcheck: "false", autocomplete: "off" });
  field.value = own.text;
  const { training, length: T } = get("_recipe");
  const least = leastOf({ length: T, rows: training.batch_size });
  const count = h("p", { class: "gf-hint", role: "status" });
  let refused = ""; // why the last text was not taken; the one before it stays
  function give(text) {
    refused = text.length > MOST ? `That text has ${grouped(text.length)} characters, more than the ${grouped(MOST)} that this page learns from.` : "";
    if (refused) field.value = own.text;
    else own.text = whole(text.replace(/\r\n?/g, "\n"));
    setAll(model, { text: own.text.length > KEPT ? "" : own.text });
    changed();
  }
  field.addEventListener("input", () => give(field.value));
  // Chromium takes half a minute to insert a thousand lines as typed text, and no time to set them.
  field.addEventListener("paste", (event) => {
    const pasted = event.clipboardData.getData("text/plain");
    if (pasted.length < LONG) return;
    event.preventDefault();
    if (pasted.length > MOST) return give(pasted);
    field.setRangeText(pasted, field.selectionStart, field.selectionEnd, "end");
    return give(field.value);
  });
  const file = h("input", { type: "file", accept: ".txt,.md,text/*", id: uniqueId() });
  file.addEventListener("change", async () => {
    const [chosen] = file.files;
    if (!chosen) return;
    try {
      const text = await textOf(chosen, MOST);
      if (chosen !== file.files[0]) return;
      field.value = text;
      give(text);
    } catch (error) {
      refused = `${error.message}.`;
      changed();
    }
  });
  const text = h(
    "div",
    { class: "gf-control gf-text" },
    h("label", { class: "gf-label", for: field.id }, "Your text: paste it here"),
    field,
    h("div", { class: "gf-lab-file" }, h("label", { class: "gf-label", for: file.id }, "or open a file of plain text"), file),
    count,
  );

  // --- sizes ---
  const [size, source, broken] = [
    choice(model, "size", { label: "Model", options: [["small", "Small: about a minute"], ["book", "The book’s: about seven minutes"], ["own", "Your own size"]] }),
    choice(model, "source", { label: "Text", options: [["shakespeare", "Shakespeare"], ["own", "Your own text"]] }),
    choice(model, "broken", { label: "Break it on purpose, with the small model and Shakespeare", options: Object.entries(BREAKS) }),
  ];
  const sizes = h(
    "div",
    { class: "gf-controls gf-lab-sizes" },
    slider(model, "d_model", { label: "Width", values: [32, 64, 96, 128] }),
    slider(model, "n_layers", { label: "Blocks", min: 1, max: 6 }),
    slider(model, "steps", { label: "Steps", min: 50, max: 5000, step: 50, format: grouped }),
    slider(model, "rate", { label: "Learning rates, times the recipe’s", min: 0.01, max: 100, scale: "log", step: 0.25 }),
    slider(model, "seed", { label: "Seed", min: 0, max: 9 }),
  );
  const guess = slider(model, "guess", {
    label: "I think the loss on the held-out text will end at",
    values: GUESSES,
    format: (loss) => (loss === null ? "no guess yet" : fixed(loss, 2)),
  });
  guess.classList.add("gf-lab-guess");
  const curves = radios(model, "expected", {
    label: "What do you think the curve will do? The dotted line is the run without the break.",
    options: Object.entries(CURVES).map(([curve, title]) => [curve, h("span", {}, sketch(curve), title)]),
  });
  const element = h("div", { class: "gf-lab-setup" }, get("name") !== "short" && [size, source, broken, sizes, text], guess, curves.element);

  let said = null; // of what the line below the text speaks
  let n = 0; // characters of the text
  function draw() {
    const isBroken = get("name") !== "short" && get("broken") !== "nothing";
    for (const each of [size, source]) each.disabled = isBroken;
    sizes.hidden = isBroken || get("size") !== "own";
    text.hidden = !isOwn(get);
    guess.hidden = isBroken;
    curves.element.hidden = !isBroken;
    if (said?.text === own.text && said.refused === refused) return;
    said = { text: own.text, refused };
    n = own.text.length - (own.text.match(/[\ud800-\udbff]/g)?.length ?? 0);
    const kinds = n < least ? 0 : new Set(own.text).size;
    const enough = `${plural(n, "character")}, ${kinds === 1 ? "all of them the same" : `${grouped(kinds)} different ones`}`;
    const before = n ? `${plural(n, "character")} so far; the` : "The";
    const found = n < least ? `${before} model needs at least ${grouped(least)}, a tenth of which is held out to judge it.` : enough;
    write(count, refused ? `${refused}${n ? ` Your text stays as it was: ${found}` : ""}` : found);
  }
  draw();
  // Where the reader has to do something before a training can begin, or null.
  const wanting = () => (isOwn(get) && n < least ? field : null);
  return { element, draw, wanting, stop: curves.stop };
}
