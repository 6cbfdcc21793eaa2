// A trained model in one picture, reading the reader's text. See glass_machine.py.
import { largest, mulberry32, range } from "./kit/maths.js";
import { button, choice, fixed, frame, h, hold, onResize, once, percent, plural, put, redrawing, setAll, slider, write } from "./kit/kit.js";
import { cividis, diverging, legend, paint, palette } from "./kit/plot.js";
import { shade, shareBar } from "./kit/shares.js";
import { alphabet, named, streamsOf, unpacked, visible } from "./engine/model.js";
import { bytePairs } from "./engine/byte_pairs.js";
import { Reading } from "./engine/reading.js";
import { takesOwn } from "./engine/own_model.js";
import { textField } from "./engine/text_field.js";
import { UNITS } from "./engine/units.js";
import { reasonOf, weightsFor } from "./engine/weights.js";
import { tour } from "./engine/tour.js";
import { distribution, draw as drawId, softmax, windowStart } from "./engine/transformer.js";

const SHOWN = 4; // tokens that could come next
const FULL = { stream: 4, neurons: 8 }; // as in glass_machine.py
const BINS = { stream: 32, neurons: 43 };
// For each way to read: the smallest width of a column in pixels, how many columns there are at least, of a narrow drawing and
// of a short text, the milliseconds for each token that it writes, about as fast as one reads, and after how many it stops.
const LAYOUT = {
  letters: { cell: 10, fewest: 8, shortest: 12, pace: 90, enough: 80 },
  words: { cell: 52, fewest: 5, shortest: 6, pace: 220, enough: 30 },
};

// --- how a vector is drawn ----------------------------------------------------------------------------------------

const rms = (vector) => Math.sqrt(vector.reduce((sum, x) => sum + x * x, 0) / vector.length);

// Colours from −1 to 1, one for each run of features: the strongest of the run, relative to FULL times the typical size.
export function picture(vector, kind) {
  const full = rms(vector) * FULL[kind];
  const each = Math.ceil(vector.length / BINS[kind]);
  return range(Math.ceil(vector.length / each)).map((run) => {
    const strongest = vector.slice(run * each, (run + 1) * each).reduce((a, b) => (Math.abs(b) > Math.abs(a) ? b : a));
    return Math.min(Math.max(strongest / full, -1), 1);
  });
}

// --- scenes: what is known of a text ----------------------------------------------------------------------------------

// A scene shows what one model makes of one text, so nobody sees the tokens of one with the guesses of the other.
//   reads, text, hidden    "letters" or "words", the whole text, and how many of its tokens the model cannot see
//   ids, tokens, T         those that it sees, as far as they have been read
//   spell(id)              the text of a token

// The stored scene: pictures and the likeliest tokens for the initial text.
function storedScene(known, { reads, text, hidden, ids, spelled, streams, neurons, weights, guesses, probabilities, finals, looks }) {
  const [stream, neuron, weight] = [streams, neurons, weights].map(unpacked);
  const T = guesses[0].length;
  const column = ({ shape, data }, i, t) => data.subarray((i * T + t) * shape[2], (i * T + t + 1) * shape[2]);
  const [, H, pairs] = weight.shape;
  const spell = (id) => (reads === "letters" ? known : spelled)[id];
  return {
    reads,
    text,
    hidden,
    ids,
    tokens: ids.map(spell),
    T,
    spell,
    stream: (depth, t) => column(stream, depth, t),
    neurons: (block, t) => column(neuron, block, t),
    weight: (block, head, t, s) =>
      looks[t]?.[block][head][s] ?? weight.data[(block * H + head) * pairs + (t * (t + 1)) / 2 + s] ** 2,
    guesses: (depth, t) => guesses[depth][t].map((id, i) => [id, probabilities[depth][t][i]]),
    final: (t) => finals[t] ?? null,
    exact: () => null,
  };
}

// What the engine computed at one position, from its trace.
function look(seen, transformer) {
  const arrays = (name, sublayer = null) =>
    seen.filter((one) => one.name === name && (sublayer ?? one.sublayer) === one.sublayer).map(({ array }) => array);
  const streams = streamsOf(seen);
  const probabilities = streams.map((stream) => softmax(transformer.lens(stream)));
  return {
    streams,
    weights: arrays("weights"),
    neurons: arrays("neurons"),
    writes: { attention: arrays("write", "attention"), feedforward: arrays("write", "feed-forward") },
    pictures: {
      stream: streams.map((vector) => picture(vector, "stream")),
      neurons: arrays("neurons").map((vector) => picture(vector, "neurons")),
    },
    probabilities,
    guesses: probabilities.map((p) => largest(p, SHOWN).map((id) => [id, p[id]])),
  };
}

// What the engine has read so far.
function liveScene({ reads, reading, tokenizer: { known } }, text, hidden, H) {
  const [positions, ids] = [[...reading.positions], reading.ids.slice(0, reading.positions.length)];
  return {
    reads,
    text,
    hidden,
    ids,
    tokens: ids.map((id) => known[id]),
    T: ids.length,
    spell: (id) => known[id],
    stream: (depth, t) => positions[t].pictures.stream[depth],
    neurons: (block, t) => positions[t].pictures.neurons[block],
    weight: (block, head, t, s) => positions[t].weights[block][(head * positions[t].weights[block].length) / H + s],
    guesses: (depth, t) => positions[t].guesses[depth],
    final: (t) => positions[t].probabilities.at(-1),
    exact: (t) => positions[t],
  };
}

// --- colours ----------------------------------------------------------------------------------------------------------

const STEPS = 256;
const SIGNED = palette(diverging, range(STEPS).map((i) => (2 * i) / (STEPS - 1) - 1));
const SHARES = palette(cividis, range(STEPS).map((i) => i / (STEPS - 1)));
const signedColour = (value) => SIGNED[Math.round(((value + 1) / 2) * (STEPS - 1))];
const shareColour = (share) => SHARES[Math.round(Math.sqrt(share) * (STEPS - 1))]; // the square root makes small shares visible

// --- words ------------------------------------------------------------------------------------------------------------

const shortened = (text) => (text.length > 40 ? `… ${text.slice(-38)}` : text);
const stepsBack = (steps) => (steps === 0 ? "itself" : steps === 1 ? "one back" : `${steps} back`);

// The contents of the stream after `depth` blocks. Blocks, heads and positions are counted from 0, as in Python.
const where = (depth) => (depth === 0 ? "before block 0" : `after block ${depth - 1}`);

function partName(part, { many }) {
  const [kind, first, second] = part.split(" ");
  if (kind === "text") return `the ${many}`;
  if (kind === "stream") return +first === 0 ? "the vectors before block 0" : `the stream ${where(+first)}`; // it has summed up nothing yet
  if (kind === "guess") return `the guess ${where(+first)}`;
  return kind === "head" ? `block ${first}, head ${second}` : `block ${first}, feed-forward`;
}

const hintOf = ({ one }) =>
  `Your text goes in at the top; the guess at the next ${one} comes out at the bottom. Point at any part, or tap it, to see what it does; with the keyboard, use Tab and the arrow keys.`;

const ABOUT = {
  letters: "Here every character is a token.",
  words: "Here a token is a word or part of a word. ␣ is a space.",
};
const ENDS_WITH_A_SPACE =
  "A word’s token includes the space before it, so the space at the end of your text is a token by itself, which this model has rarely read.";

// --- the view ---------------------------------------------------------------------------------------------------------

const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

function render({ model, el }) {
  const view = frame(el, { title: "The glass machine: a Transformer reads your text", hint: hintOf(UNITS[model.get("reads")]) });
  const hint = view.root.querySelector(".gf-hint");
  const config = model.get("_config");
  const { n_layers: L, n_heads: H, d_ff: F, d_model: D } = config; // the same of both models
  const characters = model.get("_characters");
  const alphabetical = alphabet(characters);
  const stored = storedScene(alphabetical.known, model.get("_stored"));
  const send = (changes) => setAll(model, changes);

  let scene = stored; // what is drawn: the part of the text that the model sees
  let pointed = null; // { part, position } under the pointer
  const unit = () => UNITS[scene.reads];

  // --- two models ---

  // What is known of each: its tokenizer and its reading once they are here, and the problem, in words, if there is one.
  const about = h("p", { class: "gf-reads-note", "aria-live": "polite" });
  const quiet = (is) => put(about, { "aria-live": is ? "off" : "polite" });
  const loading = h("div", { class: "gf-reads-loading" }, about);
  const letters = {
    reads: "letters",
    context: config.context_length,
    tokenizer: alphabetical,
    weights: weightsFor(model, { view, told: () => drawn.ask(), again: () => read() }),
    load: () => letters.weights.model(),
  };
  const words = {
    reads: "words",
    context: model.get("_words").context_length,
    weights: weightsFor(model, {
      view: { root: view.root, line: about, hush: quiet },
      told: () => drawn.ask(),
      again: () => (wish ? change(wish) : read()),
    }),
    async load() {
      const [transformer, tokenizer] = await Promise.all([
        words.weights.other("words", model.get("_words"), "the model that reads words"),
        words.weights.file("vocabulary of words", "the list of its words", (file) => bytePairs(JSON.parse(new TextDecoder().decode(file)))),
      ]);
      words.tokenizer = tokenizer;
      return transformer;
    },
  };
  const machines = { letters, words };
  for (const machine of [letters, words]) Object.assign(machine, { reading: null, trouble: null });
  const inUse = () => machines[model.get("reads")];
  const waitsFor = (machine) => machine.weights.words() || machine.trouble;

  // A text as tokens of a model: how many there are, how many of them it cannot see (`lost`, as a text), and the ids of those
  // that it sees. Of a model whose list of tokens is not here yet, only the stored text is known.
  function cut(text, machine = inUse()) {
    if (machine.last?.text !== text || machine.last.tokenizer !== machine.tokenizer) machine.last = cutAnew(text, machine);
    return machine.last;
  }
  function cutAnew(text, { reads, tokenizer, context }) {
    if (!tokenizer && reads === stored.reads && text === stored.text) {
      const seen = stored.tokens.join("");
      return { text, tokenizer, length: stored.hidden + stored.T, hidden: stored.hidden, ids: stored.ids, tokens: stored.tokens, lost: text.slice(0, text.length - seen.length) };
    }
    if (!tokenizer) return { text, tokenizer, length: [...text].length, hidden: 0, ids: [], tokens: [], lost: "" };
    const ids = tokenizer.ids(text);
    const tokens = ids.map((id) => tokenizer.known[id]);
    const hidden = windowStart(ids.length, context);
    return { text, tokenizer, length: ids.length, hidden, ids: ids.slice(hidden), tokens: tokens.slice(hidden), lost: tokens.slice(0, hidden).join("") };
  }

  const text = () => model.get("text");
  const lengthOfText = () => cut(text()).length;
  const isCurrentScene = () => scene.reads === model.get("reads") && scene.text === text();

  // The position in the tokens of a model that has the character at a place in the text, and the place of a token's last one.
  function positionAt(place, whole, machine) {
    const { hidden, tokens, lost } = cut(whole, machine);
    let end = lost.length;
    const found = tokens.findIndex((token) => (end += token.length) > place);
    return hidden + (found < 0 ? tokens.length - 1 : found);
  }
  function placeOf(position, whole, machine) {
    const { hidden, tokens, lost } = cut(whole, machine);
    if (!tokens.length) return whole.length - 1;
    const shown = tokens.slice(0, Math.max(position - hidden, 0) + 1);
    return lost.length + sum(shown.map((token) => token.length)) - 1;
  }

  // --- from one model to the other ---

  let wish = null; // how the reader wants it to read, while that model is under way
  let before = null; // what was left with the last change, and what came instead: { reads, text, position, instead }
  const wished = () => wish ?? model.get("reads");
  const wishers = new Set(); // who shows the wish

  // The model is changed when the other one is here; until then, this one goes on as before.
  async function change(reads) {
    pause();
    wish = reads === model.get("reads") ? null : reads;
    showWish();
    switcher.removeAttribute("aria-busy");
    if (!wish) return;
    const machine = machines[reads];
    machine.trouble = null;
    put(switcher, { "aria-busy": true });
    try {
      if (!isStoredFor(machine)) await machine.load();
    } catch (error) {
      machine.trouble = reasonOf(error);
    }
    if (wish !== reads) return;
    switcher.removeAttribute("aria-busy");
    if (!machine.trouble) {
      wish = null;
      pause();
      send({ reads, ...carriedTo(machine) });
    }
    showWish();
  }
  // Whoever goes back to the first scene need not wait for a model.
  const isStoredFor = ({ reads }) =>
    reads === stored.reads && stored.text === (before?.reads === reads && before.instead.text === text() ? before.text : text());
  function showWish() {
    for (const show of wishers) show();
    drawn.ask();
  }

  // The same place in the same text. Only a first text that nobody has written in loses a space at its end, which is no part of
  // a token of words. Whoever goes back finds everything as it was.
  function carriedTo(machine) {
    const [from, whole, position] = [inUse(), text(), Math.min(model.get("position"), lengthOfText() - 1)];
    const isBack = before?.reads === machine.reads && before.instead.text === whole && before.instead.position === position;
    let instead;
    if (isBack) instead = { text: before.text, position: before.position };
    else {
      const isFirst = model.get("typed") === "" && machine.reads === "words";
      const next = (isFirst && whole.trimEnd()) || whole;
      instead = { text: next, position: positionAt(Math.min(placeOf(position, whole, from), next.length - 1), next, machine) };
    }
    before = { reads: from.reads, text: whole, position, instead };
    pointed = null;
    return instead;
  }

  // Where the drawing is open. Until the new model has read the text, the old scene stays as it was.
  const pinned = () => {
    const last = scene.T - 1;
    const wanted = scene.reads === model.get("reads") ? model.get("position") : before?.reads === scene.reads ? before.position : Infinity;
    const position = Math.min(wanted - scene.hidden, last);
    return { part: model.get("part"), position: position < 0 ? last : position };
  };
  const chosen = () => {
    const now = pointed ?? pinned();
    return { ...now, position: Math.min(now.position, scene.T - 1) };
  };
  const token = (t) => scene.tokens[t];

  // --- controls ---

  const own = textField(model, {
    label: "Your text",
    changes: (news) => ({ position: cut(news).length - 1, part: `guess ${L}`, step: 0 }),
    adds: () => (model.get("reads") === "words" && text().endsWith(" ") ? ENDS_WITH_A_SPACE : ""),
  });
  // Whoever goes to the field is about to change the text: a token that came now would take away what they have selected.
  for (const event of ["focus", "input"]) own.field.addEventListener(event, () => pause());

  // The reader's text has only characters that occur in the text that both models have learned from. The same is true of what
  // they write: bytes that never occurred are tokens that no model has learned anything about.
  const learned = new Set(characters);
  const isLearned = (written) => [...written].every((character) => learned.has(character));

  // Draw one token and add it to the text, if it is still wanted once the text has been read: the reader may have stopped the
  // writing meanwhile, or typed. Returns whether that worked.
  async function writeOne(isWanted = () => true) {
    const { reads } = inUse();
    if (!(await read()) || reads !== model.get("reads") || !isWanted()) return false;
    const { reading, tokenizer } = inUse();
    tokenizer.learned ??= tokenizer.known.map(isLearned);
    const p = drawnFrom(reading.positions.at(-1).probabilities[L]).map((share, id) => (tokenizer.learned[id] ? share : 0));
    const next = tokenizer.known[drawId(p, mulberry32(model.get("drawn"))())];
    own.append(next);
    send({ drawn: model.get("drawn") + 1 });
    return true;
  }
  let writing = Promise.resolve(); // one token after another, however fast a button is pressed
  const after = (act) => (writing = writing.then(act));
  let toGo = 0; // tokens that it is still going to write
  const player = button("Write", () => (toGo ? pause() : play()));
  function showPlaying(isPlaying) {
    view.busy("writing", isPlaying);
    write(player, isPlaying ? "Pause" : "Write");
  }
  function pause() {
    toGo = 0;
    showPlaying(false);
  }
  let played = 0; // how often it was told to write
  async function play() {
    const mine = ++played;
    const goesOn = () => mine === played && toGo > 0;
    const { pace, enough } = LAYOUT[model.get("reads")];
    toGo = enough;
    showPlaying(true);
    while (goesOn() && (await after(() => goesOn() && writeOne(goesOn)))) {
      if (!goesOn()) return;
      toGo--;
      if (toGo > 0) await new Promise((resume) => setTimeout(resume, pace));
    }
    if (mine === played) pause();
  }

  const temperature = slider(model, "temperature", { label: "Temperature", min: 0, max: 2, step: 0.1, format: (x) => fixed(x, 1) });
  // The temperature acts on the next token, so its bars are what to look at.
  temperature.querySelector("input").addEventListener("input", () => {
    if (!model.get("step")) send({ part: `guess ${L}`, position: lengthOfText() - 1 });
    if (!scene.final(scene.T - 1)) read();
  });
  const starter = button("", () => {
    if (model.get("step")) return leave();
    visit(1);
    draw(); // now the button is there
    forth.focus({ preventScroll: true });
  });
  starter.classList.add("gf-tour-start");
  view.controls.classList.add("gf-machine-controls");
  // The switch shows the reader's wish, which is a trait only when it has come true.
  const wishes = {
    get: wished,
    set: (_, reads) => change(reads),
    save_changes: () => {},
    on: (event, show) => {
      wishers.add(show);
      model.on(event, show);
    },
  };
  const switcher = h(
    "div",
    { class: "gf-reads", hidden: !words.context },
    choice(wishes, "reads", { label: "It reads", options: [["letters", "letters"], ["words", "words"]] }),
    loading,
  );
  const oneMore = button("", () => after(() => writeOne()));
  view.controls.before(h("div", { class: "gf-machine-first" }, starter, switcher));
  view.controls.append(
    own.control,
    h(
      "div",
      { class: "gf-buttons" },
      player,
      oneMore,
      button("Take one back", () => {
        pause();
        own.takeBack([...(cut(text()).tokens.at(-1) ?? " ")].length);
      }),
    ),
    temperature,
    slider(model, "position", {
      label: "Position",
      min: () => cut(text()).hidden,
      max: () => lengthOfText() - 1,
      format: (p) => String(Math.min(p, lengthOfText() - 1)),
      follows: ["text", "reads"],
    }),
  );

  // --- the machine, built once ---

  view.drawing.setAttribute("role", "group");
  const parts = new Map(); // name -> its button
  const part = (name, style, ...inside) => {
    const element = h(
      "button",
      { type: "button", class: `gf-part ${style}`, tabindex: -1, "data-part": name, onclick: () => pin(name) },
      inside,
    );
    parts.set(name, element);
    return element;
  };
  const pixels = () => h("canvas", { class: "gf-picture", "aria-hidden": "true" });
  const marked = (style) => [pixels(), h("span", { class: style, "aria-hidden": "true" })];
  const cells = () => h("span", { class: "gf-cells", "aria-hidden": "true" });
  const ring = () => h("span", { class: "gf-ring", "aria-hidden": "true" });

  const lane = (depth) =>
    h("div", { class: "gf-lane" }, part(`stream ${depth}`, "gf-stream", pixels(), ring()), part(`guess ${depth}`, "gf-guess", cells(), ring()));
  const block = (b) =>
    h(
      "div",
      { class: "gf-block" },
      h("span", { class: "gf-block-name" }, `Block ${b}`),
      h("div", { class: "gf-heads" }, range(H).map((head) => part(`head ${b} ${head}`, "gf-head", marked("gf-row")))),
      part(`feedforward ${b}`, "gf-feedforward", marked("gf-column")),
    );
  const band = h("div", { class: "gf-band", "aria-hidden": "true" });
  const tower = h(
    "div",
    { class: "gf-tower" },
    band,
    h("div", { class: "gf-lane gf-text-lane" }, part("text", "gf-characters", cells(), ring())),
    lane(0),
    h("div", { class: "gf-block gf-captions" }, ["", H === 1 ? "1 head" : `${H} heads`, "feed-forward"].map((word) => h("span", {}, word))),
    range(L).map((b) => [block(b), lane(b + 1)]),
  );
  const earlier = h("p", { class: "gf-earlier" }); // tokens that do not fit into the drawing
  const detail = h("div", { class: "gf-detail" });

  // The panel that explains the open part. It stays in view: beside the drawing or, on a phone, at the bottom of the screen.
  const back = button("Back", () => model.get("step") > 1 && visit(model.get("step") - 1));
  const forth = button("Next", () => (model.get("step") < stops().length ? visit(model.get("step") + 1) : leave()));
  const end = button("End", () => leave());
  const counter = h("span", { class: "gf-tour-count" });
  const guide = h(
    "div",
    { class: "gf-tour", role: "group", "aria-label": "The tour; the left and right arrow keys go back and forth, Escape ends it" },
    counter,
    h("div", { class: "gf-tour-buttons" }, back, forth, end),
  );
  const heading = h("p", { class: "gf-detail-name" });
  const keys = range(3).map(() => h("span", {}));
  const line = view.root.querySelector(".gf-says");
  const panel = h("div", { class: "gf-machine-panel", role: "group", "aria-label": "The open part" }, guide, heading, line, detail);
  view.drawing.append(
    earlier,
    h("div", { class: "gf-instrument" }, tower, panel),
    h(
      "div",
      { class: "gf-key" },
      legend((x) => diverging(2 * x - 1), "−", "+", keys[0]),
      legend(shade, "unsure", "sure", keys[1]),
      legend(cividis, "looks away", "looks there", keys[2]),
    ),
  );

  // --- the tour ---

  let returned = null; // the part that was open before the tour
  function stops() {
    const { position: t } = pinned();
    const average = ([b, head]) =>
      range(scene.T - 1).reduce((total, s) => total + scene.weight(b, head, s + 1, s), 0) / Math.max(scene.T - 1, 1);
    const heads = range(L * H).map((i) => [Math.floor(i / H), i % H]);
    const head = heads[largest(heads.map(average), 1)[0]];
    const [[s, share]] = lookedAt(...head, t);
    return tour({
      L,
      D,
      F,
      one: unit().one,
      here: named(token(t)),
      head,
      looks: { at: named(token(s)), back: t - s, share },
      guesses: range(L + 1).map((depth) => named(scene.spell(scene.guesses(depth, t)[0][0]))),
    });
  }
  const stop = () => stops()[model.get("step") - 1];
  function visit(step) {
    pause();
    if (!model.get("step")) {
      returned = model.get("part");
      // With the panel beside the drawing, all of the drawing may be in view, so that nothing scrolls from step to step.
      if (panel.offsetLeft > tower.offsetLeft) tower.scrollIntoView({ block: "nearest" });
    }
    pointed = null;
    send({ step, part: stops()[step - 1].part });
    parts.get(model.get("part")).scrollIntoView({ block: "nearest" });
    read(); // the numbers come with the weights
  }
  function leave() {
    if (!model.get("step")) return;
    const hadFocus = guide.contains(document.activeElement) || starter === document.activeElement;
    send({ step: 0, part: returned ?? `guess ${L}` });
    returned = null;
    draw();
    if (hadFocus) starter.focus();
  }
  guide.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const act = {
      ArrowLeft: () => model.get("step") > 1 && visit(model.get("step") - 1),
      ArrowRight: () => model.get("step") < stops().length && visit(model.get("step") + 1),
      Escape: leave,
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  // A step that comes from elsewhere opens its part as well.
  const arrive = () => model.get("step") && send({ part: stop().part });

  // Rows of parts for the arrow keys; except in blocks, left and right go from token to token.
  const rows = [["text"], ["stream 0"], ["guess 0"]];
  range(L).forEach((b) => {
    rows.push([...range(H).map((head) => `head ${b} ${head}`), `feedforward ${b}`]);
    rows.push([`stream ${b + 1}`], [`guess ${b + 1}`]);
  });

  function pin(name, position = chosen().position) {
    pointed = null;
    if (scene.reads === model.get("reads")) send({ part: name, position: position + scene.hidden });
    else send({ part: name });
  }

  tower.addEventListener("keydown", (event) => {
    const name = event.target.dataset.part;
    const row = rows.findIndex((names) => names.includes(name));
    const column = rows[row]?.indexOf(name);
    const { position } = pinned();
    const alongText = rows[row]?.length === 1 || event.shiftKey;
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const floor = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (row < 0 || event.ctrlKey || event.altKey || event.metaKey) return;
    let next = null;
    if (event.key === "Home" || event.key === "End") pin(name, event.key === "Home" ? 0 : scene.T - 1);
    else if (step && alongText) pin(name, Math.min(Math.max(position + step, 0), scene.T - 1));
    else if (step) next = rows[row][column + step];
    else if (floor) next = rows[row + floor]?.[Math.min(column, rows[row + floor].length - 1)];
    else return;
    event.preventDefault();
    if (!next) return;
    pin(next);
    parts.get(next).focus();
  });

  // The part and the position under the pointer.
  function under(event) {
    const element = event.target.closest?.("[data-part]");
    if (!element || !tower.contains(element)) return null;
    const name = element.dataset.part;
    const box = element.getBoundingClientRect();
    const share = (value, from, size, count) => Math.min(Math.max(Math.floor(((value - from) / size) * count), 0), count - 1);
    if (name.startsWith("head")) return { part: name, position: share(event.clientY, box.y, box.height, scene.T) };
    if (name.startsWith("feedforward")) return { part: name, position: share(event.clientX, box.x, box.width, scene.T) };
    const { first, count } = columns();
    return { part: name, position: Math.min(first + share(event.clientX, box.x, box.width, count), scene.T - 1) };
  }
  tower.addEventListener("pointermove", (event) => {
    const now = under(event);
    if (now?.part === pointed?.part && now?.position === pointed?.position) return;
    pointed = now;
    if (now) read();
    drawn.ask();
  });
  tower.addEventListener("pointerleave", () => {
    pointed = null;
    drawn.ask();
  });
  tower.addEventListener("pointerup", (event) => {
    const now = under(event);
    if (now) pin(now.part, now.position);
  });
  tower.addEventListener("focusin", () => read());

  // --- reading ---

  // Let the model read the current text. Returns whether it was read to the end; calls in between share the result.
  let underway = null; // { wanted, arrives }
  const wantedNow = () => `${model.get("reads")} ${text()}`;
  const isCurrent = (wanted) => underway?.wanted === wanted && wantedNow() === wanted;
  function read() {
    const wanted = wantedNow();
    if (underway?.wanted !== wanted) {
      const now = { wanted };
      underway = now;
      now.arrives = readThrough(wanted).finally(() => underway === now && (underway = null));
    }
    return underway.arrives;
  }

  async function readThrough(wanted) {
    const [machine, whole] = [inUse(), text()];
    view.busy("text", true);
    const fails = (error) => {
      if (!isCurrent(wanted)) return false;
      machine.trouble = reasonOf(error);
      view.busy("text", false);
      drawn.ask();
      return false;
    };
    try {
      if (!machine.reading) {
        drawn.ask();
        const transformer = await machine.load();
        machine.reading ??= new Reading(transformer, look);
      }
    } catch (error) {
      return fails(error);
    }
    if (!isCurrent(wanted)) return false; // a later call reads what is wanted now
    const { reading } = machine;
    const { ids, hidden } = cut(whole);
    const take = () => {
      const isOther = scene.reads !== machine.reads;
      scene = liveScene(machine, whole, hidden, H);
      if (isOther) arrive(); // the tour goes on with the other model
      drawn.ask();
    };
    let arrived;
    try {
      arrived = await reading.read(ids, () => reading.positions.length && take());
      machine.trouble = null;
    } catch (error) {
      return fails(error);
    }
    if (!arrived || !isCurrent(wanted)) return false;
    view.busy("text", false);
    const isShown = scene.reads === machine.reads && scene.text === whole && scene.T === ids.length;
    if (!isShown || scene === stored) take();
    return true;
  }

  // --- drawing ---

  // The tokens that have a column: as many as fit, around the chosen one. They stay where they are as long as it is among them.
  let [began, counted] = [0, 0];
  function columns() {
    const { cell, fewest, shortest } = LAYOUT[scene.reads];
    const fit = Math.max(fewest, Math.floor(tower.clientWidth / cell));
    const count = Math.min(fit, Math.max(scene.T, shortest));
    const { position } = pinned(); // what is pointed at stays under the pointer
    const isThere = counted === count && position >= began && position < began + count;
    const first = isThere ? began : position - Math.floor(count * 0.7);
    [began, counted] = [Math.max(0, Math.min(first, scene.T - count)), count];
    return { first: began, count };
  }

  const painted = new WeakMap(); // canvas -> what it shows
  function picturePart(name, key, rowCount, columnCount, colour) {
    const canvas = parts.get(name).querySelector("canvas");
    if (painted.get(canvas) === key) return;
    painted.set(canvas, key);
    paint(canvas, rowCount, columnCount, colour);
  }

  let version = 0; // of the scene: pictures change only with it
  let pictured = null; // the scene with that version
  let lettered = null; // the guesses that are written

  function drawPictures({ first, count }) {
    const { T } = scene;
    if (pictured !== scene) [pictured, version] = [scene, version + 1];
    const shown = Math.min(count, T - first);
    range(L + 1).forEach((depth) => {
      const vectors = range(shown).map((i) => scene.stream(depth, first + i));
      const colour = (row, i) => (i < shown ? signedColour(vectors[i][row]) : 0);
      picturePart(`stream ${depth}`, `${version} ${first} ${count}`, vectors[0].length, count, colour);
    });
    range(L).forEach((b) => {
      range(H).forEach((head) => {
        const colour = (t, s) => (s <= t ? shareColour(scene.weight(b, head, t, s)) : 0);
        picturePart(`head ${b} ${head}`, version, T, T, colour);
      });
      const vectors = range(T).map((t) => scene.neurons(b, t));
      picturePart(`feedforward ${b}`, version, vectors[0].length, T, (row, t) => signedColour(vectors[t][row]));
    });
  }

  function fill(element, count, what) {
    while (element.children.length < count) element.append(h("span"));
    while (element.children.length > count) element.lastChild.remove();
    [...element.children].forEach((cell, i) => {
      const { letter = "", share = 0, style = "" } = what(i) ?? {};
      write(cell, letter);
      put(cell, { style: `--share: ${share.toFixed(3)}`, class: style });
    });
  }

  function drawLetters({ first, count }, { part: name, position }) {
    const lit = litCharacters(name, position);
    fill(parts.get("text").firstChild, count, (i) => {
      const t = first + i;
      if (t >= scene.T) return null;
      return { letter: visible(token(t)), share: lit(t), style: t === position ? "gf-here" : "" };
    });
    const seen = `${version} ${first} ${count}`;
    if (lettered !== seen) {
      lettered = seen;
      range(L + 1).forEach((depth) => {
        fill(parts.get(`guess ${depth}`).firstChild, count, (i) => {
          if (first + i >= scene.T) return null;
          const [id, p] = scene.guesses(depth, first + i)[0];
          return { letter: visible(scene.spell(id)), share: p };
        });
      });
    }
  }

  const bar = (letter, p) => shareBar(visible(letter), p);

  // How strongly each token lights up: by the weight of a head, or because the part depends on it.
  function litCharacters(name, position) {
    const [kind, b, head] = name.split(" ");
    if (kind === "head") return (t) => (t <= position ? Math.sqrt(scene.weight(+b, +head, position, t)) : 0);
    return (t) => (t === position ? 1 : 0);
  }

  // The parts that it depends on directly.
  function dependsOn(name) {
    const [kind, number] = name.split(" ");
    const n = Number(number);
    if (kind === "guess") return [`stream ${n}`];
    if (kind === "head" || kind === "feedforward") {
      return [`stream ${n}`, ...(kind === "feedforward" ? range(H).map((head) => `head ${n} ${head}`) : [])];
    }
    if (kind === "text") return [];
    if (n === 0) return ["text"];
    return [`stream ${n - 1}`, ...range(H).map((head) => `head ${n - 1} ${head}`), `feedforward ${n - 1}`];
  }

  function drawMarks({ first, count }, { part: name, position }) {
    const lit = new Set(dependsOn(name));
    const column = (from, to) => {
      const [left, right] = [Math.max(from, 0), Math.min(to, count)]; // of those that have a column
      return right > left ? `left: ${(100 * left) / count}%; width: ${(100 * (right - left)) / count}%` : "display: none";
    };
    const one = column(position - first, position - first + 1);
    const seen = name.startsWith("head") ? column(0, position - first + 1) : one; // a head attends up to its own position
    put(band, { style: one });
    for (const [other, element] of parts) {
      const [open, depended] = [other === name, lit.has(other)];
      element.classList.toggle("gf-open", open);
      element.classList.toggle("gf-lit", depended);
      put(element, { "aria-pressed": open, tabindex: other === model.get("part") ? 0 : -1 });
      const around = element.querySelector(".gf-ring");
      if (around) put(around, { style: open ? one : seen });
    }
    const [at, size] = [(100 * position) / scene.T, 100 / scene.T];
    tower.querySelectorAll(".gf-row").forEach((mark) => put(mark, { style: `top: ${at}%; height: ${size}%` }));
    tower.querySelectorAll(".gf-column").forEach((mark) => put(mark, { style: `left: ${at}%; width: ${size}%` }));
  }

  // --- the part that is open ---

  const barcode = (vector) => {
    const canvas = h("canvas", { class: "gf-picture gf-barcode", "aria-hidden": "true" });
    const full = rms(vector) * FULL[vector.length === D ? "stream" : "neurons"];
    const half = Math.ceil(vector.length / 4);
    const colour = (row, i) => {
      const at = row * half + i;
      return at < vector.length ? signedColour(Math.min(Math.max(vector[at] / full, -1), 1)) : 0;
    };
    paint(canvas, 4, half, colour);
    return canvas;
  };
  const strongest = (vector, count) => largest(vector.map(Math.abs), count);
  const lookedAt = (b, head, t) =>
    range(t + 1)
      .map((s) => [s, scene.weight(b, head, t, s)])
      .sort((x, y) => y[1] - x[1]);

  const numberOf = (x) => fixed(x, 2);
  const drawnFrom = (p) => distribution(Array.from(p, Math.log), { temperature: model.get("temperature") });
  const facts = (...pairs) =>
    h("dl", { class: "gf-facts" }, pairs.map(([term, value]) => [h("dt", {}, term), h("dd", {}, value)]));

  function contents({ part: name, position: t }) {
    const [kind, first, second] = name.split(" ");
    const n = Number(first);
    const exact = scene.exact(t);
    if (kind === "guess") {
      const p = n === L ? scene.final(t) : exact?.probabilities[n];
      if (!p) return [h("div", { class: "gf-bars" }, scene.guesses(n, t).map(([id, share]) => bar(scene.spell(id), share)))];
      const now = n === L ? drawnFrom(p) : p;
      return [h("div", { class: "gf-bars" }, largest(p, 8).map((id) => bar(scene.spell(id), now[id])))];
    }
    if (kind === "head") {
      const looks = lookedAt(n, +second, t).slice(0, 8);
      return [h("div", { class: "gf-bars gf-looks" }, looks.map(([s, share]) => bar(token(s), share)))];
    }
    if (!exact) return [h("p", { class: "gf-waiting" }, waitsFor(machines[scene.reads]) || "Its numbers come with the model.")];
    if (kind === "text") return [barcode(exact.streams[0]), facts([`${unit().one} id`, scene.ids[t]], ["numbers", D])];
    if (kind === "stream") {
      const vector = exact.streams[n];
      const wrote = n ? ["attention", "feedforward"].map((from) => Math.hypot(...exact.writes[from][n - 1])) : null;
      return [
        barcode(vector),
        facts(
          ["numbers", D],
          ["Euclidean length", numberOf(Math.hypot(...vector))],
          ...(wrote ? [["heads added a vector of length", numberOf(wrote[0])], ["feed-forward added one of length", numberOf(wrote[1])]] : []),
        ),
        wrote && h("p", { class: "gf-facts-note" }, "Vectors add up number by number. Their lengths do not."),
      ];
    }
    const vector = exact.neurons[n];
    const best = strongest(vector, 4);
    return [
      barcode(vector),
      facts(["neurons", F], ...best.map((i) => [`neuron ${i}`, numberOf(vector[i])])),
    ];
  }

  function sentence({ part: name, position: t }) {
    const [kind, first, second] = name.split(" ");
    const n = Number(first);
    const letter = named(token(t));
    const here = `${letter}, position ${t + scene.hidden}`;
    const exact = scene.exact(t);
    if (kind === "text") {
      return `At position ${t + scene.hidden}, counting from 0, is ${letter}. Its id, ${scene.ids[t]}, selects a row of the embedding table: ${D} numbers.`;
    }
    if (kind === "guess") {
      const [[id, p]] = scene.guesses(n, t);
      const [[last, pLast]] = scene.guesses(L, t);
      const truth = t + 1 < scene.T ? ` The next ${unit().one} in the text is ${named(token(t + 1))}.` : "";
      if (n < L) {
        return `After ${here}: if the model stopped ${where(n)}, it would write ${named(scene.spell(id))}, with ${percent(p)}. After ${allOf(L)} it is ${named(scene.spell(last))}, with ${percent(pLast)}.${truth}`;
      }
      const final = scene.final(t);
      const warmth = model.get("temperature");
      const drawn = final && warmth !== 1 ? ` At temperature ${fixed(warmth, 1)} that becomes ${percent(drawnFrom(final)[id])}.` : "";
      return `After ${here}: with ${allOf(L)}, ${named(scene.spell(id))} gets ${percent(p)}.${drawn}${truth}`;
    }
    if (kind === "head") {
      const looks = lookedAt(n, +second, t).slice(0, 2).map(([s, w], i) => `${percent(w)}${i ? "" : " of its attention"} to ${named(token(s))}, ${stepsBack(t - s)}`);
      return `At ${here}, this head gives ${looks.join(", and ")}.`;
    }
    if (kind === "feedforward") {
      const told = exact ? strongest(exact.neurons[n], 1).map((i) => ` The strongest of its ${F} neurons is number ${i}, counting from 0, at ${numberOf(exact.neurons[n][i])}.`) : "";
      return `At ${here}, this network sees the stripe of this ${unit().one} alone.${told}`;
    }
    if (n === 0) return `The stripe of ${here}, ${where(0)}: the vector of the ${unit().one} itself, which knows nothing about the others yet.`;
    return `The stripe of ${here}, ${where(n)}: the stripe above it, plus what the heads and the feed-forward network added.`;
  }

  const tables = ({ position: t }) => [
    {
      caption: `What the model would write after ${named(token(t))}, position ${t + scene.hidden}`,
      headers: ["After", ...range(Math.min(SHOWN, scene.guesses(L, t).length)).flatMap((i) => [`${i + 1}.`, "share"])],
      rows: () =>
        range(L + 1).map((depth) => [
          depth ? `block ${depth - 1}` : "no block",
          ...scene.guesses(depth, t).flatMap(([id, p]) => [visible(scene.spell(id)), fixed(p, 4)]),
        ]),
    },
    {
      caption: "Where its heads look most",
      headers: ["Block, head", "at", "steps back", "share", "then at", "steps back", "share"],
      rows: () =>
        range(L).flatMap((b) =>
          range(H).map((head) => [
            `${b}, ${head}`,
            ...lookedAt(b, head, t)
              .slice(0, 2)
              .flatMap(([s, share]) => [visible(token(s)), t - s, fixed(share, 3)]),
          ]),
        ),
    },
  ];

  function draw() {
    const { one: single, many } = unit();
    write(hint, hintOf(unit()));
    write(oneMore, `One ${single}`);
    if (scene.T === 0) {
      starter.hidden = guide.hidden = true; // of a tour through nothing
      return view.says(waitsFor(letters));
    }
    const now = chosen();
    const place = columns();
    drawPictures(place);
    drawLetters(place, now);
    drawMarks(place, now);
    const { length: all, hidden: lost, ids, lost: unseen } = cut(text());
    const isStale = !isCurrentScene();
    const unread = isStale ? ids.length : ids.length - scene.T;
    hold(earlier, [lost, all, unseen, place.first, place.count, scene.hidden, scene.T, many], () => [
      lost > 0 && !isStale && [
        `The model sees at most ${plural(machines[scene.reads].context, single)} at a time, now the last ${ids.length} of ${all}. Out of its sight: `,
        h("s", {}, shortened(unseen)),
      ],
      scene.T > place.count &&
        h("span", {}, `The drawing shows positions ${scene.hidden + place.first} to ${scene.hidden + place.first + place.count - 1} and follows the one you choose.`),
    ]);
    earlier.hidden = !lost && scene.T <= place.count;
    tower.parentElement.classList.toggle("gf-in-words", scene.reads === "words");
    const legends = [`Stripes: a vector for each ${single}`, "Under a stripe: the guess so far", `Triangles: where each ${single} looks, row by row`];
    keys.forEach((key, i) => write(key, legends[i]));
    const waits = wish !== null || model.get("reads") === "words";
    loading.toggleAttribute("data-waits", waits);
    const until = wish ? ` Until then, the machine reads ${model.get("reads")}.` : "";
    write(about, waits && waitsFor(machines[wished()]) ? `${waitsFor(machines[wished()])}${until}` : ABOUT[model.get("reads")]);
    const step = model.get("step");
    starter.hidden = !step && !model.get("tour");
    write(starter, step ? "End the tour" : "Take the tour: six steps");
    guide.hidden = step === 0;
    tower.classList.toggle("gf-touring", step > 0 && !pointed);
    const steps = step ? stops() : [];
    write(counter, `Tour: step ${step} of ${steps.length}`);
    put(back, { "aria-disabled": step < 2 });
    write(forth, step === steps.length ? "Finish" : "Next");
    const isLast = step === steps.length; // where Finish does the same as End
    if (isLast && end.matches(":focus")) forth.focus();
    end.hidden = isLast;
    write(heading, partName(now.part, unit()));
    const final = now.part === `guess ${L}`;
    hold(detail, [now.part, now.position, version, Boolean(scene.exact(now.position)), waitsFor(machines[scene.reads]), final && model.get("temperature")], () => contents(now));
    const said = step && now.part === steps[step - 1].part ? steps[step - 1].says : sentence(now);
    // What the model that reads words waits for is told next to the switch, and here only if there is nothing to show without it.
    const waiting = (scene.reads === "letters" || isStale) && waitsFor(machines[model.get("reads")]);
    const isReading = machines[model.get("reads")].reading && unread > 0 && !pointed;
    view.says(waiting || (isReading ? `Reading, ${unread} ${many} to go …` : said));
    view.describe(() => `The machine reading “${scene.tokens.join("")}”; open is ${partName(now.part, unit())}, at position ${now.position + scene.hidden}`);
    for (const [other, element] of parts) put(element, { "aria-label": partName(other, unit()) });
    view.tables(() => tables(chosen())); // called later, perhaps for another text
  }

  const drawn = redrawing(model, ["text", "position", "part", "temperature", "step", "tour", "reads"], draw);
  const follow = () => (underway || inUse().reading || !isCurrentScene() ? read() : drawn.ask());
  const soon = once(() => {
    own.follow();
    if (stored.reads === model.get("reads") && stored.text === text() && !inUse().reading) scene = stored;
    follow();
  }); // the other traits change with this one
  const changed = () => {
    pause();
    soon();
  };
  model.on("change:text", follow);
  model.on("change:reads", changed);
  model.on("change:step", arrive);
  arrive();
  const stopResizing = onResize(tower, drawn.ask);
  own.start();
  if (scene.T === 0) read(); // of a reader's own model, nothing is stored
  return () => {
    toGo = 0;
    own.stop();
    model.off("change:text", follow);
    model.off("change:reads", changed);
    model.off("change:step", arrive);
    for (const show of wishers) model.off("change:reads", show);
    stopResizing();
    letters.weights.stop();
    words.weights.stop();
    drawn.stop();
  };
}

const allOf = (L) => (L === 1 ? "its only block" : `all ${L} blocks`);

const ofOwn = ({ config: { n_layers: L, n_heads: H }, text }) => {
  const empty = { shape: [L + 1, 0, 1], largest: 1, numbers: "" };
  const stored = { reads: "letters", text: "", hidden: 0, ids: [], spelled: {}, guesses: [[]], probabilities: [[]], finals: {}, looks: {} };
  return {
    _stored: { ...stored, streams: empty, neurons: empty, weights: { ...empty, shape: [L, H, 0] } },
    _words: {},
    reads: "letters",
    position: [...text].length - 1,
    part: `guess ${L}`,
    step: 0,
  };
};

export default { render: takesOwn(render, ofOwn) };
