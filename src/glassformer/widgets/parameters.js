// Where a model's parameters live: any configuration, counted to the digit, part by part. See parameters.py.
import { fixed, frame, grouped, h, put, redrawing, uniqueId, write } from "./kit.js";

// --- counting ---------------------------------------------------------------------------------------------------------

const sum = (list) => list.reduce((a, b) => a + b, 0);

const followed = {
  n_decoder_layers: ({ family, n_layers }) => (family === "encoder-decoder" ? n_layers : null),
  n_kv_heads: ({ n_heads }) => n_heads,
  d_head: ({ d_model, n_heads }) => Math.floor(d_model / n_heads),
  d_ff: ({ d_model }) => 4 * d_model,
};

// All sizes as numbers: those that follow from others, too.
export const resolved = (fields) =>
  Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, value ?? followed[name]?.(fields) ?? null]));

// Which rule of ModelConfig the fields break, in words; null if none.
export function problem(fields, limits) {
  const sizes = resolved(fields);
  for (const [name, most] of Object.entries(limits)) {
    const [given, value] = [fields[name], sizes[name]];
    if (value === null && name === "n_decoder_layers") continue;
    if (Number.isNaN(given)) return `${name}= must be a whole number`;
    if (given !== null && !Number.isInteger(given)) return `${name}=${given} must be a whole number`;
    if (given !== null && given < 1) return `${name}=${given} must be at least 1`;
    if (given !== null && given > most) return `${name}=${given} must be at most ${most}`;
  }
  const { d_model, n_heads, n_kv_heads, d_head } = sizes;
  if (n_heads % n_kv_heads) return `n_heads=${n_heads} is not divisible by n_kv_heads=${n_kv_heads}`;
  if (fields.d_head === null && d_model % n_heads) return `d_model=${d_model} is not divisible by n_heads=${n_heads}`;
  const pairs = "is odd: sines and cosines come in pairs of dimensions";
  if (fields.positions === "sinusoidal" && d_model % 2) return `d_model=${d_model} ${pairs}`;
  if (fields.positions === "rope" && d_head % 2) return `d_head=${d_head} ${pairs}`;
  return null;
}

// The sizes behind the letters of the formulas.
export const lettered = (fields, letters) => {
  const sizes = resolved(fields);
  return Object.fromEntries(Object.entries(letters).map(([letter, name]) => [letter, sizes[name]]));
};

export const evaluate = (terms, sizes) =>
  sum(Object.entries(terms).map(([product, n]) => [...product].reduce((a, letter) => a * sizes[letter], n)));

// A formula as it is written, letters or what `name` makes of them: longer products first.
export function spell(terms, name = (letter) => letter) {
  const products = Object.entries(terms).sort(([a], [b]) => b.length - a.length);
  const spelled = products.map(([product, n]) => {
    const factors = [...product].map(name).join("·").replace(`${name("D")}·${name("D")}`, `${name("D")}²`);
    const times = name("D") === "D" ? n : `${n}·`;
    return `${n > 1 ? times : ""}${factors}`;
  });
  return spelled.join(" + ") || "0";
}

// The parts that the configuration has: how often, by which formula, how many numbers.
export function counted(fields, formulas, letters) {
  const values = resolved(fields);
  const sizes = lettered(fields, letters);
  const { D, H, K, G } = sizes;
  const relations = { queries: H * K === D ? "D" : "HK", keys: G === H ? "all" : G === 1 ? "one" : "some" };
  const found = [];
  for (const [name, { fields: names, entries }] of Object.entries(formulas)) {
    const entry = entries[names.map((field) => String(relations[field] ?? values[field])).join(" ")];
    if (!entry) continue;
    const [all, block, crossing] = entry.times;
    const times = all + block * values.n_layers + crossing * (values.n_decoder_layers ?? 0);
    const each = evaluate(entry.terms, sizes);
    found.push({ name, times, terms: entry.terms, each, count: times * each, note: entry.note ?? "" });
  }
  return found;
}

export const total = (parts) => sum(parts.map(({ count }) => count));

// The formula of one block, of a decoder where there is one, with 4D in the place of F where d_ff is a multiple of D.
export function blockOf(parts, sizes) {
  const terms = {};
  const add = (name, times) => {
    for (const [product, n] of Object.entries(parts.find((part) => part.name === name)?.terms ?? {})) {
      const fits = sizes.F % sizes.D === 0 && product.includes("F");
      const written = fits ? product.replace("F", "D") : product;
      terms[written] = (terms[written] ?? 0) + n * times * (fits ? sizes.F / sizes.D : 1);
    }
  };
  const crossing = parts.some(({ name }) => name === "cross-attention");
  add("attention", 1);
  add("feed-forward", 1);
  add("norms", crossing ? 3 : 2);
  add("cross-attention", 1);
  return terms;
}

// --- words ------------------------------------------------------------------------------------------------------------

export const percent = (share) => `${fixed(100 * share, 1)} %`;
const signed = (n) => (n === 0 ? "" : n > 0 ? `+${grouped(n)}` : `−${grouped(-n)}`);

export const formulaOf = ({ times, terms, note }, name) => {
  if (Object.keys(terms).length === 0) return note || "0";
  const one = spell(terms, name);
  if (times === 1) return one;
  return Object.keys(terms).length > 1 ? `${grouped(times)} × (${one})` : `${grouped(times)} × ${one}`;
};

export function sentence(part, parts, sizes, base, preset) {
  const all = total(parts);
  const name = part.name[0].toUpperCase() + part.name.slice(1);
  const was = base.find((other) => other.name === part.name)?.count ?? 0;
  const change = part.count === was ? "" : ` ${preset} has ${grouped(was)} here: ${signed(part.count - was)}.`;
  if (part.count === 0) return `${name}: ${part.note}. No parameters.${change}`;
  const filled = formulaOf(part, (letter) => grouped(sizes[letter]));
  return `${name}: ${formulaOf(part)} = ${filled} = ${grouped(part.count)}, ${percent(part.count / all)} of all.${change}`;
}

// --- view -------------------------------------------------------------------------------------------------------------

const ROLES = {
  "token embedding": "residual",
  positions: "position",
  segments: "position",
  "embedding norm": "norm",
  attention: "query",
  "cross-attention": "key",
  "feed-forward": "feedforward",
  norms: "norm",
  "final norm": "norm",
  pooler: "value",
  head: "prediction",
};
const SIZES = {
  vocab_size: "Vocabulary V",
  context_length: "Context T",
  d_model: "Width D",
  n_layers: "Blocks",
  n_decoder_layers: "Blocks of the decoder",
  n_heads: "Heads H",
  n_kv_heads: "Key/value heads G",
  d_head: "Width of a head K",
  d_ff: "Neurons F",
};
const SELECTS = {
  family: "Family",
  positions: "Positions",
  norm: "Norm",
  norm_placement: "Norm placement",
  feedforward: "Feed-forward",
  attention_bias: "Attention biases",
  head: "Head",
  n_segments: "Segments",
  t5_n_buckets: "Buckets of T5",
};
const TOGGLES = {
  feedforward_bias: "Feed-forward bias",
  qk_norm: "QK-norm",
  embedding_norm: "Embedding norm",
  head_bias: "Head bias",
  head_transform: "Head transform",
  pooler: "Pooler",
};

// What a choice takes with it: a decoder has no pooler, a model without a head no bias of it.
function consistent(fields) {
  const next = { ...fields };
  if (next.family !== "encoder") Object.assign(next, { pooler: false, n_segments: 0 });
  if (next.family !== "encoder-decoder") next.n_decoder_layers = null;
  if (next.head === "none") Object.assign(next, { head_bias: false, head_transform: false });
  return next;
}

const possible = (name, { family, head, positions }) => {
  if (name === "pooler" || name === "n_segments") return family === "encoder";
  if (name === "head_bias" || name === "head_transform") return head !== "none";
  if (name === "n_decoder_layers") return family === "encoder-decoder";
  return name !== "t5_n_buckets" || positions === "t5";
};

function render({ model, el }) {
  const view = frame(el, {
    title: "Where do the parameters live?",
    hint: "Choose a model, then change anything. Point at a part, or walk through them with ↑ and ↓: its formula is below. An empty field follows from the others.",
  });
  const [formulas, options, limits, letters] = ["_formulas", "_options", "_limits", "_letters"].map((name) => model.get(name));
  const presets = new Map(model.get("_presets").map(([name, kind, fields, note]) => [name, { kind, fields, note }]));
  let trouble = null; // { names, words }: the fields that cannot be, and why

  const send = (changes) => {
    for (const [name, value] of Object.entries(changes)) model.set(name, value);
    model.save_changes();
  };
  // Every field as it stands on the screen: what breaks a rule is there, too, but not in the model.
  let draft = { ...model.get("fields") };
  function change(name, value) {
    draft = consistent({ ...draft, [name]: value });
    const words = problem(draft, limits);
    trouble = words && { words, names: Object.keys(SIZES).filter((size) => new RegExp(`\\b${size}=`).test(words)) };
    if (!words) send({ fields: draft });
    drawn.ask();
  }

  // --- controls

  const labelled = (text, input) => {
    input.id = uniqueId();
    const label = h("label", { class: "gf-label", for: input.id }, text);
    return h("div", { class: "gf-control" }, label, input);
  };
  const kinds = [...new Set([...presets.values()].map(({ kind }) => kind))];
  const begin = () => {
    trouble = null;
    draft = { ...presets.get(preset.value).fields };
    send({ preset: preset.value, fields: draft });
    drawn.ask();
  };
  const preset = h(
    "select",
    { onchange: begin },
    kinds.map((kind) =>
      h(
        "optgroup",
        { label: kind },
        [...presets].filter(([, one]) => one.kind === kind).map(([name]) => h("option", { value: name }, name)),
      ),
    ),
  );
  const back = h("button", { type: "button", class: "gf-button", onclick: begin }, "Back to it");
  const inputs = {};
  for (const name of Object.keys(SIZES)) {
    inputs[name] = h("input", {
      type: "number",
      class: "gf-size",
      autocomplete: "off",
      min: 1,
      max: limits[name],
      oninput: ({ target }) => {
        const empty = target.value === "";
        change(name, empty && !target.validity.badInput && followed[name] ? null : empty ? Number.NaN : Number(target.value));
      },
      onblur: () => drawn.ask(),
    });
  }
  for (const name of Object.keys(SELECTS)) {
    const choose = ({ target }) => change(name, options[name][target.selectedIndex]);
    inputs[name] = h("select", { onchange: choose }, options[name].map((value) => h("option", {}, String(value))));
  }
  for (const name of Object.keys(TOGGLES)) {
    inputs[name] = h("input", { type: "checkbox", onchange: ({ target }) => change(name, target.checked) });
  }
  const cells = {
    ...Object.fromEntries(Object.entries({ ...SIZES, ...SELECTS }).map(([name, text]) => [name, labelled(text, inputs[name])])),
    ...Object.fromEntries(
      Object.entries(TOGGLES).map(([name, text]) => [name, h("label", { class: "gf-control gf-toggle" }, inputs[name], h("span", {}, text))]),
    ),
  };
  const note = h("p", { class: "gf-hint gf-of-preset" });
  view.controls.classList.add("gf-configuration");
  view.controls.append(
    h("div", { class: "gf-begin" }, labelled("Model", preset), back, note),
    ...Object.keys({ ...SIZES, ...SELECTS, ...TOGGLES }).map((name) => cells[name]),
  );

  // --- drawing

  const bar = () => {
    const name = h("p", { class: "gf-bar-of" });
    const segments = Object.entries(ROLES).map(([part, role]) =>
      h("span", { "data-part": part, style: `--kind: var(--gf-${role})` }),
    );
    const all = h("div", { class: "gf-stack" }, segments);
    return { name, segments, all, element: h("div", {}, name, all) };
  };
  const [now, before] = [bar(), bar()];
  const names = Object.keys(ROLES);
  const choose = (part) => part !== model.get("part") && send({ part });
  const rows = names.map((part) => {
    const [formula, count, share, changed] = ["gf-formula-of", "gf-count-of", "gf-share-of", "gf-change-of"].map((style) => h("span", { class: style }));
    const title = h("span", { class: "gf-part-name" }, h("i", { style: `--kind: var(--gf-${ROLES[part]})` }), part);
    const element = h("button", { type: "button", class: "gf-part-row", "data-part": part }, title, formula, count, share, changed);
    element.addEventListener("focus", () => choose(part));
    element.addEventListener("click", () => choose(part));
    return { part, element, formula, count, share, changed };
  });
  const sums = ["Total", "", "", ""].map((text) => h("span", {}, text));
  const facts = h("p", { class: "gf-hint gf-facts-of" });
  const list = h("div", { class: "gf-parts", role: "group", "aria-label": "The parts; arrow keys choose one" }, rows.map(({ element }) => element));
  view.drawing.setAttribute("role", "group"); // a picture cannot be made of buttons
  view.drawing.append(
    h("div", { class: "gf-stacks", "aria-hidden": "true" }, now.element, before.element),
    list,
    h("div", { class: "gf-part-row gf-sums" }, sums),
    facts,
  );
  view.drawing.addEventListener("pointerover", ({ target, pointerType }) => {
    const part = target.closest("[data-part]")?.dataset.part;
    if (part && pointerType !== "touch") choose(part);
  });
  list.addEventListener("keydown", (event) => {
    const shown = rows.filter(({ element }) => !element.hidden);
    const at = shown.findIndex(({ element }) => element === document.activeElement);
    const to = { ArrowUp: at - 1, ArrowDown: at + 1, Home: 0, End: shown.length - 1 }[event.key];
    if (to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    shown[to]?.element.focus();
  });

  function drawBar({ name, segments, all }, text, parts, longest) {
    const sumOf = total(parts);
    write(name, text);
    all.style.width = `${(100 * sumOf) / longest}%`;
    segments.forEach((segment, i) => {
      const count = parts.find((part) => part.name === names[i])?.count ?? 0;
      segment.style.flexGrow = sumOf ? (count / sumOf).toFixed(6) : 0;
      put(segment, { class: names[i] === model.get("part") ? "gf-chosen" : "" });
    });
  }

  function drawControls(fields) {
    if (preset.value !== model.get("preset")) preset.value = model.get("preset");
    const sizes = resolved(fields);
    for (const name of Object.keys(SIZES)) {
      const text = fields[name] === null ? "" : String(fields[name]);
      const typing = inputs[name] === document.activeElement;
      if (!typing && inputs[name].value !== text && !Number.isNaN(fields[name])) inputs[name].value = text;
      if (typing && !trouble && Number(inputs[name].value) !== (fields[name] ?? 0)) inputs[name].value = text;
      put(inputs[name], {
        placeholder: fields[name] === null && Number.isFinite(sizes[name]) ? grouped(sizes[name]) : "",
        "aria-invalid": Boolean(trouble?.names.includes(name)),
        step: name === "d_model" && fields.d_head === null ? fields.n_heads || 1 : 1,
        min: name === "d_model" && fields.d_head === null ? fields.n_heads || 1 : 1,
      });
    }
    for (const name of Object.keys(SELECTS)) inputs[name].selectedIndex = options[name].indexOf(fields[name]);
    for (const name of Object.keys(TOGGLES)) inputs[name].checked = fields[name];
    for (const name of [...Object.keys(SIZES), ...Object.keys(SELECTS), ...Object.keys(TOGGLES)]) {
      cells[name].hidden = !possible(name, fields);
    }
  }

  function draw() {
    const fields = model.get("fields");
    if (!trouble) draft = { ...fields };
    drawControls(draft);
    const base = presets.get(model.get("preset"));
    const sizes = lettered(fields, letters);
    const [parts, was] = [counted(fields, formulas, letters), counted(base.fields, formulas, letters)];
    const [all, allBefore] = [total(parts), total(was)];
    const changed = Object.keys(fields).some((name) => fields[name] !== base.fields[name]);
    write(note, base.note);
    back.disabled = !changed && !trouble;
    const longest = Math.max(all, changed ? allBefore : 0);
    drawBar(now, `${changed ? "Yours" : model.get("preset")}: ${grouped(all)} parameters`, parts, longest);
    before.element.hidden = !changed;
    drawBar(before, `${model.get("preset")}: ${grouped(allBefore)}`, was, longest);

    const chosen = parts.find(({ name }) => name === model.get("part")) ?? parts[0];
    for (const { part, element, formula, count, share, changed: by } of rows) {
      const found = parts.find(({ name }) => name === part);
      const then = was.find(({ name }) => name === part)?.count ?? 0;
      const difference = (found?.count ?? 0) - then;
      element.hidden = !found && !then;
      put(element, { class: `gf-part-row${part === chosen.name ? " gf-here" : ""}`, tabindex: part === chosen.name ? 0 : -1 });
      write(formula, found ? formulaOf(found) : "not in this model");
      write(count, grouped(found?.count ?? 0));
      write(share, percent((found?.count ?? 0) / all));
      write(by, signed(difference));
    }
    [grouped(all), percent(1), signed(all - allBefore)].forEach((text, i) => write(sums[i + 1], text));

    const block = blockOf(parts, sizes);
    const inBlocks = sum(parts.filter(({ name }) => ["attention", "cross-attention", "feed-forward", "norms"].includes(name)).map(({ count }) => count));
    const feedforward = parts.find(({ name }) => name === "feed-forward").count;
    const two = parts.some(({ name }) => name === "cross-attention");
    write(
      facts,
      `One ${two ? "decoder" : fields.family} block: ${spell(block)} = ${grouped(evaluate(block, sizes))}. ` +
        `The feed-forward networks are ${percent(feedforward / inBlocks)} of the blocks, and ${percent(feedforward / all)} of the whole model.`,
    );
    view.says(trouble ? `${trouble.words}. What is drawn is the last model that could be.` : sentence(chosen, parts, sizes, was, model.get("preset")));
    view.describe(
      () => `${grouped(all)} parameters: ${parts.map(({ name, count }) => `${name} ${grouped(count)}`).join(", ")}. Chosen: ${chosen.name}.`,
    );
    view.tables(() => [
      {
        caption: `The parameters, part by part, beside those of ${model.get("preset")}`,
        headers: ["Part", "Formula", "Each", "Times", "Parameters", "Share", model.get("preset"), "Change"],
        rows: () => [
          ...parts.map((part) => {
            const then = was.find(({ name }) => name === part.name)?.count ?? 0;
            return [part.name, formulaOf(part), grouped(part.each), grouped(part.times), grouped(part.count), percent(part.count / all), grouped(then), signed(part.count - then) || "0"];
          }),
          ["total", "", "", "", grouped(all), percent(1), grouped(allBefore), signed(all - allBefore) || "0"],
        ],
      },
      {
        caption: "What the letters stand for",
        headers: ["Letter", "Field", "Size"],
        rows: () => Object.entries(letters).map(([letter, name]) => [letter, name, grouped(sizes[letter])]),
      },
    ]);
  }

  const drawn = redrawing(model, ["preset", "fields", "part"], draw);
  // What Python sets is shown, whatever was being typed.
  const follow = () => {
    if (problem(draft, limits) && model.get("fields") !== draft) trouble = null;
  };
  model.on("change:fields", follow);
  return () => {
    model.off("change:fields", follow);
    drawn.stop();
  };
}

export default { render };
