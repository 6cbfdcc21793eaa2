// Where a model's parameters are: any configuration, counted exactly, part by part. See parameter_explorer.py.
import { blockOf, counted, evaluate, followed, formulaOf, lettered, percent, problem, resolved, sentence, signed, spell, sum, total } from "../../widgets/engine/counting.js";
import { frame, grouped, h, put, redrawing, uniqueId, write } from "../../widgets/kit/kit.js";
import { NAMES, onPart, partList, stack } from "../../widgets/engine/parts.js";

export { blockOf, counted, formulaOf, problem, spell } from "../../widgets/engine/counting.js";

// --- view -------------------------------------------------------------------------------------------------------------

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
  positions: "Positions",
  feedforward: "Feed-forward",
  attention_bias: "Attention biases",
  head: "Head",
  family: "Family",
  norm: "Norm",
  norm_placement: "Norm placement",
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

const FOLDED = Object.keys(SELECTS).slice(4);

// What a choice implies: a decoder has no pooler, and a model without a head has no bias in it.
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
    hint: "Choose a model and change its sizes. Point at a part, or move from part to part with ↑ and ↓, to read its formula below. The size in an empty field is computed from the others.",
  });
  const [formulas, options, limits, letters] = ["_formulas", "_options", "_limits", "_letters"].map((name) => model.get(name));
  const presets = new Map(model.get("_presets").map(([name, kind, fields, note]) => [name, { kind, fields, note }]));
  let trouble = null; // { names, words }: the fields that do not fit together, and why

  const send = (changes) => {
    for (const [name, value] of Object.entries(changes)) model.set(name, value);
    model.save_changes();
  };
  // Every field as it is on the screen, including values that break a rule and are not in the model.
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
  const back = h("button", { type: "button", class: "gf-button", onclick: begin }, "Undo changes");
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
  for (const name of ["family", "norm"]) cells[name].classList.add("gf-with-long-options");
  const folded = h("summary");
  const note = h("p", { class: "gf-hint gf-of-preset" });
  view.controls.classList.add("gf-configuration");
  view.controls.append(
    h("div", { class: "gf-begin" }, labelled("Model", preset), back, note),
    ...Object.keys({ ...SIZES, ...SELECTS }).filter((name) => !FOLDED.includes(name)).map((name) => cells[name]),
    h(
      "details",
      { class: "gf-more-choices" },
      folded,
      h("div", { class: "gf-controls gf-configuration" }, FOLDED.map((name) => cells[name]), h("div", { class: "gf-ticked" }, Object.keys(TOGGLES).map((name) => cells[name]))),
    ),
  );

  // --- drawing

  const bar = () => {
    const name = h("p", { class: "gf-bar-of" });
    const all = stack();
    return { name, all, element: h("div", {}, name, all.element) };
  };
  const [now, before] = [bar(), bar()];
  const choose = (part) => part !== model.get("part") && send({ part });
  const list = partList(choose);
  const facts = h("p", { class: "gf-hint gf-facts-of" });
  view.drawing.setAttribute("role", "group"); // role="img" must not contain buttons
  view.drawing.append(
    h("div", { class: "gf-stacks", "aria-hidden": "true" }, now.element, before.element),
    list.element,
    facts,
  );
  onPart(view.drawing, choose);

  function drawBar({ name, all }, text, parts, longest) {
    write(name, text);
    all.element.style.width = `${(100 * total(parts)) / longest}%`;
    all.draw(parts, model.get("part"));
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
    const ticked = Object.keys(TOGGLES).filter((name) => fields[name]).map((name) => TOGGLES[name].replace(/^[A-Z](?=[a-z])/, (letter) => letter.toLowerCase()));
    write(folded, `More choices: ${[fields.family, fields.norm, `${fields.norm_placement}-norm`, ...ticked].join(", ")}`);
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
    drawBar(now, `${changed ? "Your model" : model.get("preset")}: ${grouped(all)} parameters`, parts, longest);
    before.element.hidden = !changed;
    drawBar(before, `${model.get("preset")}: ${grouped(allBefore)}`, was, longest);

    const chosen = parts.find(({ name }) => name === model.get("part")) ?? parts[0];
    const seen = NAMES.flatMap((name) => {
      const [found, then] = [parts, was].map((those) => those.find((part) => part.name === name));
      if (!found && !then?.count) return [];
      const count = found?.count ?? 0;
      return [{ name, cells: [found ? formulaOf(found) : "not in this model", grouped(count), percent(count / all), signed(count - (then?.count ?? 0))] }];
    });
    list.draw(seen, chosen.name, [grouped(all), percent(1), signed(all - allBefore)]);

    const block = blockOf(parts, sizes);
    const inBlocks = sum(parts.filter(({ name }) => ["attention", "cross-attention", "feed-forward", "norms"].includes(name)).map(({ count }) => count));
    const feedforward = parts.find(({ name }) => name === "feed-forward").count;
    const two = parts.some(({ name }) => name === "cross-attention");
    write(
      facts,
      `One ${two ? "decoder" : fields.family} block: ${spell(block)} = ${grouped(evaluate(block, sizes))}. ` +
        `The feed-forward networks are ${percent(feedforward / inBlocks)} of the blocks, and ${percent(feedforward / all)} of the whole model.`,
    );
    view.says(trouble ? `${trouble.words}. The drawing shows your last valid model.` : sentence(chosen, parts, sizes, was, model.get("preset")));
    view.describe(
      () => `${grouped(all)} parameters: ${parts.map(({ name, count }) => `${name} ${grouped(count)}`).join(", ")}. Selected part: ${chosen.name}.`,
    );
    view.tables(() => [
      {
        caption: `The parameters of each part, compared with ${model.get("preset")}`,
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
  // A value set by Python is shown, whatever the reader is typing.
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
