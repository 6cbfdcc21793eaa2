// The book's model as a board of switches: the cost of removing heads and sublayers, alone or together. See ablation_board.py.
import { mulberry32, range } from "../../widgets/kit/maths.js";
import { button, fixed, frame, h, plural, put, redrawing, slider, write } from "../../widgets/kit/kit.js";
import { alphabet } from "../../widgets/engine/model.js";
import { inSlices } from "../../widgets/engine/reading.js";
import { knownIn, textField } from "../../widgets/engine/text_field.js";
import { Refusal } from "../../widgets/engine/model_file.js";
import { takesOwn } from "../../widgets/engine/own_model.js";
import { reasonOf, weightsFor } from "../../widgets/engine/weights.js";
import { Transformer, distribution, draw as drawId } from "../../widgets/engine/transformer.js";

const N_NEW = 60; // characters that the model writes, as in ablation_board.py
const PIECE = 16; // positions that are read at a time, so that the page stays responsive

// --- maths ----------------------------------------------------------------------------------------------------------

const partsOf = (L, H) => range(L).flatMap((b) => [...range(H).map((i) => `block ${b}: head ${i}`), `block ${b}: feed-forward`]);

// The same model, with zeros in those rows of its last matrices through which these parts write.
export function ablated(transformer, off) {
  const tensors = { ...transformer.tensors };
  const { H } = transformer.heads;
  const copied = new Set();
  for (const part of off) {
    const [, block, which, head] = part.match(/^block (\d+): (head|feed-forward) ?(\d*)$/);
    const name = `decoder.blocks.${block}.${which === "head" ? "attention.W_o" : "feedforward.W_down"}.weight`;
    const { shape, data } = tensors[name];
    if (!copied.has(name)) tensors[name] = { shape, data: data.slice() };
    copied.add(name);
    const each = which === "head" ? data.length / H : data.length;
    tensors[name].data.fill(0, Number(head) * each, (Number(head) + 1) * each);
  }
  return off.length ? new Transformer(transformer.config, tensors) : transformer;
}

// The average loss in nats over texts (lists of ids), each read from its beginning. Pauses as `steps` does.
export function* meanLoss(transformer, texts) {
  const V = transformer.config.vocab_size;
  let [total, count] = [0, 0];
  for (const ids of texts) {
    const cache = transformer.newCache();
    for (let from = 0; from < ids.length - 1; from += PIECE) {
      const piece = ids.slice(from, Math.min(from + PIECE, ids.length - 1));
      const logits = yield* transformer.steps(piece, { cache });
      for (let t = 0; t < piece.length; t++) {
        const row = logits.subarray(t * V, (t + 1) * V);
        const max = row.reduce((a, b) => Math.max(a, b));
        total += max + Math.log(row.reduce((sum, x) => sum + Math.exp(x - max), 0)) - row[ids[from + t + 1]];
        count += 1;
      }
    }
  }
  return total / count;
}

// The ids that the model writes after a prompt. Pauses as `steps` does.
export function* written(transformer, prompt, count, temperature, seed) {
  const V = transformer.config.vocab_size;
  const cache = transformer.newCache();
  const uniform = mulberry32(seed);
  const ids = [];
  let logits;
  for (let from = 0; from < prompt.length; from += PIECE) {
    logits = yield* transformer.steps(prompt.slice(from, from + PIECE), { cache });
  }
  for (;;) {
    ids.push(drawId(distribution(logits.subarray(-V), { temperature }), uniform()));
    if (ids.length === count) return ids;
    logits = yield* transformer.steps(ids.slice(-1), { cache });
  }
}

// The heads and feed-forward networks that are off; attention without any head counts as one.
export function merged(off, H) {
  const parts = [];
  for (const part of off) {
    const block = part.split(":")[0];
    const heads = off.filter((other) => other.startsWith(`${block}: head`));
    const whole = `${block}: attention`;
    if (!part.includes("head") || heads.length < H) parts.push(part);
    else if (!parts.includes(whole)) parts.push(whole);
  }
  return parts;
}

// A text without a run of empty lines, which can be all that a model writes: a sign stands for each of its line breaks.
const onFewLines = (text) => text.replace(/\n{3,}/g, (run) => `${"↵".repeat(run.length)}\n`);

const sum = (list) => list.reduce((a, b) => a + b, 0);
const inNumbers = (x) => (Number.isFinite(x) ? signed(x, 4) : "…");
const signed = (x, digits = 3) => `${x > 0 ? "+" : ""}${fixed(x, digits)}`;

// --- words ----------------------------------------------------------------------------------------------------------

const inWords = (part) => {
  const [block, name] = part.split(": ");
  if (name.startsWith("head")) return `${name} of ${block}`;
  return `the ${name === "attention" ? name : "feed-forward network"} of ${block}`;
};
const listed = (words) => (words.length > 1 ? `${words.slice(0, -1).join(", ")} and ${words.at(-1)}` : words[0]);

export function sentence({ off, H, intact, now, alone, on }) {
  if (intact === undefined) return "The model is reading the text …";
  if (off.length === 0) return `Everything is on: the loss is ${fixed(intact, 3)} nats ${on}. Switch a part off: how much will the loss rise?`;
  if (now === undefined) return "The model is reading the text without them …";
  const parts = merged(off, H);
  const cost = now - intact;
  const lead = `The loss ${cost < 0 ? "falls" : "rises"} from ${fixed(intact, 3)} to ${fixed(now, 3)} nats ${on}`;
  const aloneOf = (names) => sum(names.map((part) => alone[part] - alone.nothing));
  if (parts.length === 1) {
    const [part] = parts;
    const heads = part.endsWith("attention") ? aloneOf(off) : null;
    const more = heads === null ? "" : ` Removed one at a time, its ${plural(H, "head")} ${H === 1 ? "costs" : "cost"} ${fixed(heads, 3)} in sum.`;
    return `Without ${inWords(part)}: ${lead[0].toLowerCase()}${lead.slice(1)}, ${signed(cost)}.${more}`;
  }
  const which = parts.length > 4 ? `${parts.length} parts` : listed(parts.map(inWords));
  return `Without ${which}: ${lead[0].toLowerCase()}${lead.slice(1)}. Together they cost ${fixed(cost, 3)}; removed one at a time, they cost ${fixed(aloneOf(parts), 3)} in sum.`;
}

// --- view -----------------------------------------------------------------------------------------------------------

const TRAITS = ["text", "off", "temperature", "seed"];

function render({ model, el }) {
  const view = frame(el, {
    title: "What does each part contribute?",
    hint: "Every part of the model has a switch. Click one, or move with the arrow keys and press the space bar. How much does the loss rise without this part, and what does the model write then?",
  });
  const { n_layers: L, n_heads: H, context_length: context } = model.get("_config");
  const { known, ids } = alphabet(model.get("_characters"));
  const stored = model.get("_stored");
  const everything = partsOf(L, H);
  const guess = Math.log(known.length); // the loss of a uniform guess
  const send = (changes) => {
    for (const [name, value] of Object.entries(changes)) model.set(name, value);
    model.save_changes();
  };
  const inOrder = (off) => everything.filter((part) => off.has(part));

  // --- what has been computed: numbers and texts, by question

  const texts = stored.windows.map(ids);
  const characters = sum(texts.map((text) => text.length - 1));
  const isOwn = Boolean(model.get("_own")); // a reader's own model
  const isMeasured = Boolean(stored.state); // what the parts are worth alone; not if the reader has opened the model in the page
  const on = isOwn ? `on ${plural(characters, "character")} of the book’s held-out text` : `on ${characters} characters that it was not trained on`;
  const nNew = Math.min(N_NEW, Math.floor(context / 2));
  const results = new Map();
  const now = () => Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]));
  const keys = ({ text, off, temperature, seed }) => ({
    validation: JSON.stringify(["validation", off]),
    text: JSON.stringify(["text", off, text]),
    writes: JSON.stringify(["writes", off, text, temperature, temperature ? seed : 0]),
  });
  const remember = (state, { losses, writes }) => {
    const key = keys(state);
    results.set(key.validation, losses.validation);
    results.set(key.text, losses.text ?? Number.NaN);
    results.set(key.writes, writes);
  };
  if (isMeasured) {
    const [off0, temperature0, seed0] = stored.state;
    const first = { text: stored.text, temperature: temperature0, seed: seed0 };
    remember({ ...first, off: [] }, stored.intact);
    remember({ ...first, off: off0 }, stored.now);
    for (const part of everything) results.set(keys({ ...first, off: [part] }).validation, stored.alone[part]);
  }

  const found = (state) => Object.fromEntries(Object.entries(keys(state)).map(([what, key]) => [what, results.get(key)]));
  const missing = (state) => Object.entries(keys(state)).filter(([, key]) => !results.has(key));

  let turn = 0;
  let trouble = ""; // why the model cannot read, in words
  let needed = false; // the model, for what is asked now
  const weights = weightsFor(model, { view, told: () => drawn.ask(), again: () => follow() });

  async function follow() {
    const mine = ++turn;
    const wanted = () => mine === turn;
    const state = now();
    drawn.ask();
    const asked = [state, { ...state, off: [] }].filter((one) => missing(one).length);
    needed = asked.length > 0;
    view.busy("results", needed);
    if (!needed) return;
    try {
      const whole = await weights.model();
      const read = ids(state.text).slice(0, context);
      for (const what of ["writes", "text", "validation"]) {
        for (const one of asked) {
          const key = keys(one)[what];
          if (!wanted()) return;
          if (results.has(key)) continue;
          const transformer = ablated(whole, one.off);
          const steps =
            what === "writes"
              ? written(transformer, read.slice(-(context - nNew)), nNew, one.temperature, one.seed)
              : meanLoss(transformer, what === "text" ? [read] : texts);
          const result = await inSlices(steps, wanted);
          if (result === undefined) return; // another switch was used meanwhile
          results.set(key, what === "writes" ? result.map((id) => known[id]).join("") : result);
          drawn.ask();
        }
      }
      trouble = "";
    } catch (error) {
      if (!wanted()) return;
      trouble = reasonOf(error);
    }
    view.busy("results", false);
    drawn.ask();
    if (!isMeasured && !trouble) await measure(wanted);
  }

  // What each part of a reader's own model is worth alone, one after another, as long as nothing else is wanted.
  async function measure(wanted) {
    const whole = await weights.model();
    const nothing = results.get(keys({ ...now(), off: [] }).validation);
    Object.assign(stored.alone, { nothing });
    for (const name of switches.keys()) {
      if (name in stored.worth) continue;
      const loss = await inSlices(meanLoss(ablated(whole, headsOf(name)), texts), wanted);
      if (loss === undefined) return;
      stored.alone[name] = loss;
      stored.worth[name] = loss - nothing;
      for (const other of switches.keys()) showWorth(other);
      drawn.ask();
    }
  }

  // --- controls

  const own = textField(model, {
    label: "Your text",
    adds: () => ([...model.get("text")].length > context ? `The model reads the first ${context} characters that it knows.` : ""),
  });
  const again = button("Other draws", () => send({ seed: model.get("seed") + 1 }));
  const only = (kept) => send({ off: everything.filter((part) => !kept(part)) });
  view.controls.classList.add("gf-ablation-controls");
  view.controls.append(
    h(
      "div",
      { class: "gf-buttons" },
      button("All on", () => only(() => true)),
      button("Only attention", () => only((part) => part.includes("head"))),
      button("Only feed-forward", () => only((part) => !part.includes("head"))),
    ),
    own.control,
    slider(model, "temperature", { label: "Temperature", min: 0, max: 1.5, step: 0.1, format: (x) => (x ? fixed(x, 1) : "0, the likeliest") }),
    h("div", { class: "gf-buttons gf-again" }, again),
  );

  // --- the board

  const switches = new Map(); // name -> { input, element, bar, number }, the attention of a block among them
  const heads = (block) => range(H).map((i) => `block ${block}: head ${i}`);
  const headsOf = (name) => (name.endsWith("attention") ? heads(name.match(/\d+/)[0]) : [name]);
  function flip(name) {
    const off = new Set(model.get("off"));
    const parts = headsOf(name);
    const all = parts.every((part) => off.has(part));
    for (const part of parts) off[all ? "delete" : "add"](part);
    send({ off: inOrder(off) });
  }
  function cell(name, title, style) {
    const input = h("input", { type: "checkbox", tabindex: -1, onchange: () => flip(name) });
    const bar = h("i", { class: "gf-worth", "aria-hidden": "true" });
    const number = h("span", { class: "gf-worth-number" });
    const element = h(
      "label",
      { class: `gf-switch ${style}` },
      h("span", { class: "gf-switch-name" }, input, title),
      h("span", { class: "gf-worth-of" }, bar, number),
    );
    switches.set(name, { input, element, bar, number });
    showWorth(name);
    return element;
  }
  function showWorth(name) {
    const { input, bar, number } = switches.get(name);
    const [worth, most] = [stored.worth[name], Math.max(...Object.values(stored.worth))];
    const isKnown = worth !== undefined;
    put(bar, { style: `--share: ${(isKnown && most > 0 ? Math.max(0, worth / most) : 0).toFixed(4)}` });
    put(input, { "aria-label": `${name}, ${isKnown ? `${signed(worth)} nats without it` : "not yet measured"}` });
    write(number, isKnown ? fixed(worth, 3) : "…");
  }
  const board = h(
    "div",
    { class: "gf-board", role: "group", "aria-label": "The parts of the model: move with the arrow keys, switch with the space bar" },
    range(L).map((b) =>
      h(
        "div",
        { class: "gf-board-block" },
        h("p", { class: "gf-board-name" }, `Block ${b}`),
        cell(`block ${b}: attention`, "attention", "gf-of-attention gf-whole"),
        h("div", { class: "gf-board-heads" }, heads(b).map((name, i) => cell(name, `head ${i}`, "gf-of-attention"))),
        cell(`block ${b}: feed-forward`, "feed-forward", "gf-of-feedforward"),
      ),
    ),
  );
  // One stop for the Tab key; arrow keys go from switch to switch, in reading order.
  const order = [...switches.keys()];
  const stand = (name) => {
    for (const [other, { input }] of switches) put(input, { tabindex: other === name ? 0 : -1 });
  };
  stand(order[0]);
  board.addEventListener("focusin", ({ target }) => stand(order.find((name) => switches.get(name).input === target)));
  board.addEventListener("keydown", (event) => {
    const at = order.findIndex((name) => switches.get(name).input === event.target);
    const to = { ArrowLeft: at - 1, ArrowUp: at - 1, ArrowRight: at + 1, ArrowDown: at + 1, Home: 0, End: order.length - 1 }[event.key];
    if (to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    switches.get(order[to])?.input.focus();
  });

  // --- the results

  const meter = (title) => {
    const bars = range(2).map(() => h("i", {}));
    const number = h("strong", {});
    const track = h("div", { class: "gf-meter", "aria-hidden": "true" }, bars, h("b", { class: "gf-meter-guess" }));
    return { bars, number, track, element: h("div", {}, h("p", { class: "gf-result-of" }, title, " ", number), track) };
  };
  const meters = {
    validation: meter(isOwn ? `Loss on ${plural(characters, "character")} of the book’s held-out text:` : `Loss on ${characters} unseen characters:`),
    text: meter("Loss on your text:"),
  };
  const page = (title) => {
    const [prompt, words] = [h("span", { class: "gf-prompt" }), h("span", {})];
    return { prompt, words, element: h("div", {}, h("p", { class: "gf-result-of" }, title), h("p", { class: "gf-paper gf-written" }, prompt, words)) };
  };
  const pages = { now: page("What the model writes now"), intact: page("What it writes with all its parts") };
  view.drawing.setAttribute("role", "group"); // role="img" must not contain switches
  view.drawing.append(
    h("div", { class: "gf-pages" }, pages.now.element, pages.intact.element),
    h("div", { class: "gf-meters" }, Object.values(meters).map(({ element }) => element)),
    h("p", { class: "gf-hint" }, `Losses in nats. Upper bar: now. Lower bar: with all parts. Line: guessing evenly, ln ${known.length} = ${fixed(guess, 2)}.`),
    board,
    h(
      "p",
      { class: "gf-hint" },
      `The number and the bar next to each switch show by how many nats the loss rises if only this part is off, measured on ${plural(stored.worth_of, "character")}.`,
    ),
  );

  const widest = 1.25 * guess;

  function draw() {
    const state = now();
    const { text, off } = state;
    again.disabled = state.temperature === 0;
    const gone = new Set(off);
    for (const [name, { input, element }] of switches) {
      const parts = headsOf(name);
      const some = parts.filter((part) => gone.has(part)).length;
      input.checked = some < parts.length && some === 0;
      input.indeterminate = some > 0 && some < parts.length;
      element.classList.toggle("gf-switched-off", some === parts.length);
    }
    const [changed, intact] = [found(state), found({ ...state, off: [] })];
    for (const [what, { bars, number, track }] of Object.entries(meters)) {
      const [a, b] = [changed[what], intact[what]];
      const known_ = [a, b].every((x) => x !== undefined);
      const none = [...text].length < 2 && what === "text";
      const cost = off.length ? `, ${signed(a - b)}` : "";
      write(number, none ? "it has no next character" : known_ ? `${fixed(a, 3)}${cost}` : "…");
      bars.forEach((bar, i) => (bar.style.width = `${Math.min(100, (100 * ([a, b][i] || 0)) / widest)}%`));
      track.lastChild.style.left = `${(100 * guess) / widest}%`;
    }
    const prompt = [...text].slice(0, context).slice(-(context - nNew)).join("");
    for (const [{ prompt: before, words }, { writes }] of [[pages.now, changed], [pages.intact, intact]]) {
      write(before, onFewLines(prompt));
      write(words, onFewLines(writes ?? "…"));
    }
    const said = { off, H, intact: intact.validation, now: changed.validation, alone: stored.alone, on };
    view.says((needed && weights.words()) || trouble || sentence(said));
    view.describe(
      () =>
        `A board of ${plural(L, "block")}, each with ${plural(H, "attention head")} and a feed-forward network. ` +
        `${off.length ? `Off: ${merged(off, H).join(", ")}.` : "Everything is on."} ${sentence(said)} It writes: ${changed.writes ?? ""}`,
    );
    const alone = (name) => inNumbers(stored.alone[name] - stored.alone.nothing);
    view.tables(() => [
      {
        caption: "Loss in nats per character, now and with all parts",
        headers: ["Text", "Now", "With all parts", "Rise"],
        rows: () =>
          Object.entries({ validation: plural(characters, "character"), text: "your text" }).map(([what, title]) => {
            const [a, b] = [changed[what], intact[what]];
            const number = (x) => (x === undefined || Number.isNaN(x) ? "…" : fixed(x, 4));
            return [title, number(a), number(b), a === undefined || b === undefined || Number.isNaN(a) ? "…" : signed(a - b, 4)];
          }),
      },
      {
        caption: `How much the loss rises without each part alone, on ${plural(stored.worth_of, "character")} and on these ${characters}`,
        headers: ["Part", "State", "Rise", "Rise on these"],
        rows: () =>
          [...switches].map(([name]) => {
            const some = headsOf(name).filter((part) => gone.has(part)).length;
            return [name, some === 0 ? "on" : some < headsOf(name).length ? "partly on" : "off", inNumbers(stored.worth[name]), alone(name)];
          }),
      },
    ]);
  }

  const drawn = redrawing(model, TRAITS, draw);
  for (const name of TRAITS) model.on(`change:${name}`, follow);
  own.start();
  follow();
  return () => {
    own.stop();
    for (const name of TRAITS) model.off(`change:${name}`, follow);
    turn++;
    weights.stop();
    drawn.stop();
  };
}

function ofOwn({ config: { context_length: context }, characters, text, stored: { windows } }) {
  if (context < 2) throw new Refusal(`This view measures losses in texts, but context_length=${context}`);
  const pieces = (all) => range(Math.ceil((all.length - 1) / context)).map((i) => all.slice(i * context, (i + 1) * context + 1).join(""));
  const known = windows.flatMap((window) => pieces([...knownIn(window, characters)]));
  const texts = known.length ? known : [text + text];
  const count = sum(texts.map((window) => [...window].length - 1));
  return { off: [], _stored: { text: "", windows: texts, alone: {}, worth: {}, worth_of: count } };
}

export default { render: takesOwn(render, ofOwn) };
