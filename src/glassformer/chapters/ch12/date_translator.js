// Dates in words, translated while the reader types, and where the decoder attends. See date_translator.py.
import { largest, range } from "../../widgets/kit/maths.js";
import { button, choice, fixed, frame, h, hold, onResize, percent, put, redrawing, setAll, slider, svg, write } from "../../widgets/kit/kit.js";
import { alphabet, named, visible } from "../../widgets/engine/model.js";
import { inSlices } from "../../widgets/engine/reading.js";
import { textField } from "../../widgets/engine/text_field.js";
import { reasonOf, weightsFor } from "../../widgets/engine/weights.js";
import { cividis, ink, legend, paint, palette, words } from "../../widgets/kit/plot.js";
import { shade, shareBar } from "../../widgets/kit/shares.js";
import { softmax } from "../../widgets/engine/transformer.js";
import { entropy } from "../../widgets/engine/writer.js";

const EXAMPLES = ["the third of May, 1994", "3.5.1994", "Tue, 3 May 1994", "2099, oct 15", "30 February 2001", "23-11-1984", "no date at all"];
const CALM = 150; // milliseconds after the last key before it translates
const BEAT = 700; // milliseconds between two characters, for readers who watch it write
const SHADES = palette(cividis, range(256).map((i) => i / 255));
const STOP = "■";
const LEAST = 0.02; // the smallest weight that has a ribbon

// --- translating ----------------------------------------------------------------------------------------------------

// The model's greedy translation of a source: a step for each character and one for the stop, each { id, p, weights }, with
// weights (H·S) of every block. It calls told(steps) after each step, and pauses as the model's `steps` do.
export function* translated(transformer, source, { start, stop, most }, told = () => {}) {
  const memory = transformer.encode(source);
  yield;
  const cache = transformer.newCache();
  const steps = [];
  for (let id = start; id !== stop && steps.length < most; ) {
    const weights = [];
    const see = ({ sublayer, name, array }) => sublayer === "cross-attention" && name === "weights" && weights.push(array);
    const p = softmax(yield* transformer.steps([id], { cache, memory, see }));
    [id] = largest(p, 1);
    steps.push({ id, p, weights });
    told(steps);
  }
  return steps;
}

// The stored translation, in whole numbers of small units: probabilities (T, V), weights (L, H, T, S).
const unstored = ({ scales: [ofP, ofWeight], probabilities, weights }) =>
  probabilities.map((row, t) => ({
    id: largest(row, 1)[0],
    p: row.map((x) => x / ofP),
    weights: weights.map((block) => Float32Array.from(block.flatMap((head) => head[t]), (x) => x / ofWeight)),
  }));

// The attention of a step (S): one head of a block, or with −1 the average of all heads.
export function looked({ weights }, S, block, head) {
  const all = weights[block];
  const H = all.length / S;
  if (head >= 0) return all.subarray(head * S, (head + 1) * S);
  return Float32Array.from({ length: S }, (_, s) => range(H).reduce((sum, i) => sum + all[i * S + s], 0) / H);
}

// --- facts about dates ----------------------------------------------------------------------------------------------------

const daysOf = (year, month) => [31, year % 4 || (!(year % 100) && year % 400) ? 28 : 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1];

// Whether a text is a valid date in ISO 8601.
export function isDay(text) {
  const found = /^(\d{4})-(\d\d)-(\d\d)$/.exec(text);
  if (!found) return false;
  const [year, month, day] = found.slice(1).map(Number);
  return day >= 1 && day <= (daysOf(year, month) ?? 0);
}

const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);

// The date that a text means, if it has one of the formats of glassformer.dates; null otherwise. As there, the
// weekday is ignored.
export function meaning(text, { forms, words: tables }) {
  for (const short of [false, true]) {
    for (const small of [false, true]) {
      const cut = (word, field) => (short && ["month", "weekday"].includes(field) ? word.slice(0, 3) : word);
      const cased = (word) => (small ? word.toLowerCase() : word);
      const listed = (field) => tables[field].map((word) => cased(cut(word, field)));
      for (const form of forms) {
        const fields = [];
        const pattern = form.split(/\{(\w+)\}/).map((part, i) => {
          if (i % 2 === 0) return escaped(cased(part));
          fields.push(part);
          return part === "year" ? String.raw`(\d{4})` : `(${listed(part).map(escaped).join("|")})`;
        });
        const found = new RegExp(`^${pattern.join("")}$`).exec(text);
        if (!found) continue;
        const value = { year: 0, month: 0, day: 0 };
        fields.forEach((field, i) => {
          value[field.split("_")[0]] = field === "year" ? Number(found[i + 1]) : listed(field).indexOf(found[i + 1]) + 1;
        });
        const two = (n) => String(n).padStart(2, "0");
        return { iso: `${String(value.year).padStart(4, "0")}-${two(value.month)}-${two(value.day)}`, year: value.year };
      }
    }
  }
  return null;
}

// The verdict on an answer: { mark, says }, with the mark "✓", "✗" or "?". How a reader's own model was trained is not known.
export function verdict(text, answer, ways, isOwn = false) {
  const meant = meaning(text, ways);
  const [first, last] = ways.years;
  if (!meant) {
    const day = isDay(answer) ? "a day of the calendar" : "no day of the calendar";
    if (isOwn) return { mark: "?", says: `This is not one of the formats that this view can read. The answer is ${day}. We cannot check whether it is right.` };
    return { mark: "?", says: `The model was never trained on this format, but it answers anyway: ${day}. We cannot check whether it is right.` };
  }
  if (!isDay(meant.iso)) return { mark: "?", says: "There is no such day. The model knows no calendar and answers anyway." };
  const beyond = (meant.year < first || meant.year > last) && !isOwn ? ` It was trained on the years from ${first} to ${last}.` : "";
  if (meant.iso === answer) return { mark: "✓", says: `Right.${beyond}` };
  return { mark: "✗", says: `Wrong: the date is ${meant.iso}.${beyond}` };
}

// --- words ------------------------------------------------------------------------------------------------------------

const ORDINAL = ["1st", "2nd", "3rd", "4th"];
const FIELDS = [["year", 0, 4], ["month", 5, 7], ["day", 8, 10]];

// The meaning of a character of the answer, if the answer has the form of a date.
function placeOf(answer, t) {
  if (t === answer.length) return "after the last character";
  if (!/^\d{4}-\d\d-\d\d$/.test(answer)) return "";
  const field = FIELDS.find(([, from, to]) => t >= from && t < to);
  return field ? `the ${field[0]}’s ${ORDINAL[t - field[1]]} digit` : `the ${t === 4 ? "1st" : "2nd"} hyphen`;
}

// A character of the source: its word, and its place in it.
function inItsWord(text, s) {
  const word = [...text.matchAll(/[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*/g)].find(({ index, 0: { length } }) => s >= index && s < index + length);
  const of = word && word[0].length > 1 ? ` of “${word[0]}”` : "";
  return `${named(text[s])}${of} (position ${s})`;
}

const headInWords = (block, head) => `${head < 0 ? "the average of all heads" : `head ${head}`} of block ${block}`;

function sentence({ text, answer, spelled, step, t, block, head }) {
  const row = looked(step, text.length, block, head);
  const [most] = largest(row, 1);
  const place = placeOf(answer, t);
  const who = spelled === STOP ? `The stop, ${place}` : `“${spelled}” at position ${t}${place && `, ${place}`}`;
  const even = text.length > 1 ? ` The entropy of its weights is ${fixed(entropy(row), 2)} nats, of at most ${fixed(Math.log(text.length), 2)}.` : "";
  return `${who}: probability ${percent(step.p[step.id])}. Here, ${headInWords(block, head)} looks most at ${inItsWord(text, most)}, with weight ${fixed(row[most], 2)}.${even}`;
}

// --- the drawing --------------------------------------------------------------------------------------------------------

const ROOM = 128; // between source and answer
const [CELL, ASKING] = [24, 34]; // the largest size of a character
const NARROW = 11; // if there is less room than this, the source runs down the page instead of across

// The places of characters: across the page, or down if it is too narrow. Ribbons use these two directions, along and over.
export function layout(width, S, T) {
  const upright = width / S < NARROW;
  const cell = upright ? 19 : Math.min(CELL, width / S);
  const asking = upright ? Math.min(ASKING, (S * cell) / T) : Math.min(ASKING, width / T);
  const long = upright ? Math.max(S * cell, T * asking) : width;
  const over = upright ? Math.min(width, 300) : 28 + ROOM + 28;
  const placed = (n, size) => (i) => (long - n * size) / 2 + i * size;
  return { upright, cell, asking, long, over, source: placed(S, cell), target: placed(T, asking) };
}

// A ribbon between two stretches, as a path: from (a, b) on one side to (c, d) on the other.
const fixedPoint = (x) => Math.round(10 * x) / 10;
function ribbon({ upright, over }, [a, b], [c, d]) {
  const [near, far] = [30, over - 30];
  const middle = (near + far) / 2;
  const at = (along, across) => (upright ? `${fixedPoint(across)} ${fixedPoint(along)}` : `${fixedPoint(along)} ${fixedPoint(across)}`);
  const curve = (from, to, end) => `C${at(from, middle)} ${at(to, middle)} ${at(to, end)}`;
  return `M${at(a, near)}${curve(a, c, far)}L${at(d, far)}${curve(d, b, near)}Z`;
}

const TRAITS = ["block", "head", "position"];

function render({ model, el }) {
  const view = frame(el, {
    title: "A date in words, translated as you type",
    hint: "Write a date, and then choose a character of the answer: ribbons lead from it to the characters of the source that it looks at. Choose other heads to compare them.",
  });
  const { n_decoder_layers: L, n_heads: H, context_length: context } = model.get("_config");
  const { known, ids: idsOf } = alphabet(model.get("_characters"));
  const marks = model.get("_marks");
  const ways = model.get("_ways");
  const stored = model.get("_stored");
  const send = (changes) => setAll(model, changes);
  const spelled = (id) => (id === marks.stop ? STOP : (known[id] ?? "?"));

  // What is shown: a source, and the steps of its translation so far.
  let shown = { text: stored.text, steps: unstored(stored), isWhole: true, version: 0 };
  const show = (text, steps, isWhole) => {
    shown = { text, steps: [...steps], isWhole, version: shown.version + 1 };
    drawn.ask();
  };

  // --- translating

  let [turn, trouble, timer] = [0, "", null];
  const weights = weightsFor(model, { view, told: () => drawn.ask(), again: () => follow() });
  let busy = false; // until what the reader has typed last is translated
  const working = (is) => {
    busy = is;
    view.busy("translation", is);
  };

  async function translate() {
    const mine = ++turn;
    const isWanted = () => mine === turn;
    const text = model.get("text");
    trouble = "";
    try {
      if (text === stored.text) show(text, unstored(stored), true);
      else {
        const transformer = await weights.model();
        const steps = await inSlices(translated(transformer, idsOf(text), marks, (some) => show(text, some, false)), isWanted);
        if (!steps || !isWanted()) return;
        show(text, steps, true);
      }
    } catch (error) {
      if (!isWanted()) return;
      trouble = reasonOf(error);
      drawn.ask();
    }
    working(false);
  }
  function follow() {
    stop();
    turn++; // cancels what is under way
    clearTimeout(timer);
    working(true);
    timer = setTimeout(translate, CALM);
    drawn.ask();
  }

  // --- controls

  const own = textField(model, {
    label: "A date",
    rows: 1,
    fit: (text) => [...text].slice(0, context).join(""),
    adds: () => (model.get("text").length === context ? `The model reads only the first ${context} characters that it knows.` : ""),
  });
  const last = () => shown.steps.length - 1;
  const place = () => Math.min(model.get("position"), last());
  const position = slider(model, "position", { label: "Character of the answer", min: 0, max: () => Math.max(0, last()) });
  const handle = position.querySelector("input");
  handle.addEventListener("input", () => stop());

  let beat = null;
  const play = button("Watch it write", () => (beat === null ? begin() : stop()));
  function stop() {
    clearInterval(beat);
    beat = null;
    write(play, "Watch it write");
    drawn?.ask();
  }
  function begin() {
    if (place() === last()) send({ position: 0 });
    write(play, "Stop");
    beat = setInterval(() => {
      if (place() >= last()) stop();
      else send({ position: place() + 1 });
    }, BEAT);
    drawn.ask();
  }
  const go = (t) => {
    stop();
    send({ position: Math.max(0, Math.min(last(), t)) });
  };

  view.controls.classList.add("gf-translator-controls");
  view.controls.append(
    own.control,
    h("div", { class: "gf-buttons" }, EXAMPLES.map((text) => button(text, () => send({ text })))),
    choice(model, "block", { label: "Block", options: range(L).map((i) => [i, String(i)]) }),
    choice(model, "head", { label: "Head", options: [[-1, "average of all heads"], ...range(H).map((i) => [i, `head ${i}`])] }),
    position,
    h("div", { class: "gf-translator-play" }, play),
  );

  // --- the drawing

  const mark = h("b", { "aria-hidden": "true" });
  const judged = h("span");
  const judgement = h("p", { class: "gf-translator-verdict" }, mark, judged);
  const picture = svg("svg", { class: "gf-translator-picture" });
  const canvas = h("canvas", { class: "gf-translator-pixels" });
  const frameOfRow = h("div", { class: "gf-translator-row" });
  const down = h("div", { class: "gf-translator-down", "aria-hidden": "true" });
  const across = h("div", { class: "gf-translator-across", "aria-hidden": "true" });
  const map = h("div", { class: "gf-translator-map" }, h("span"), across, down, h("div", { class: "gf-translator-square" }, canvas, frameOfRow));
  const mapTitle = h("p", { class: "gf-panel-title" });
  const barsTitle = h("p", { class: "gf-panel-title" });
  const bars = h("div", { class: "gf-bars" });
  view.drawing.append(
    judgement,
    picture,
    h("div", { class: "gf-translator-panels" }, h("div", {}, mapTitle, map), h("div", {}, barsTitle, bars)),
    legend(cividis, "weight 0", 1, h("span", {}, "Framed: the character that is being written. The stronger the colour of a character in the answer, the likelier it was.")),
  );
  picture.addEventListener("click", (event) => {
    const t = [...picture.querySelectorAll(".gf-translator-target")].indexOf(event.target.closest(".gf-translator-target"));
    if (t >= 0) go(t);
  });
  canvas.addEventListener("click", (event) => {
    const box = canvas.getBoundingClientRect();
    go(Math.floor(((event.clientY - box.y) / box.height) * shown.steps.length));
  });

  let [width, sources, targets, ribbons] = [0, [], [], []];

  // A box for a character: its centre along the text, and across it.
  const box = (style, along, over, size, letter, upright) => {
    const [x, y] = upright ? [over, along + size / 2] : [along + size / 2, over];
    const [w, tall] = upright ? [26, Math.min(size - 1, 26)] : [size - 1, 26];
    const back = svg("rect", { x: x - w / 2, y: y - tall / 2, width: w, height: tall, rx: 3 });
    const text = words(visible(letter), x, y + 5, "middle");
    return { element: svg("g", { class: style }, back, text), back, text };
  };

  // What does not change while the reader moves along the answer: the characters, and the ribbons of a head.
  function build(characters, steps, block, head) {
    const [S, T] = [characters.length, steps.length];
    const form = layout(width, S, T);
    const { upright, long, over, cell, asking } = form;
    const size = upright ? { width: over, height: long } : { width: long, height: over };
    put(picture, { ...size, viewBox: `0 0 ${size.width} ${size.height}` });
    sources = characters.map((c, s) => box("gf-translator-source", form.source(s), 14, cell, c, upright));
    targets = steps.map(({ id }, t) => box("gf-translator-target", form.target(t), over - 14, asking, spelled(id), upright));
    ribbons = steps.map((step, t) => {
      const row = looked(step, S, block, head);
      let from = form.target(t) + 1;
      const paths = characters.flatMap((_, s) => {
        const wide = row[s] * (asking - 2);
        const reached = from;
        from += wide;
        if (row[s] < LEAST) return [];
        const half = Math.max(0.5, (row[s] * (cell - 1)) / 2);
        const middle = form.source(s) + cell / 2;
        return [svg("path", { d: ribbon(form, [middle - half, middle + half], [reached, reached + wide]) })];
      });
      return svg("g", { class: "gf-translator-ribbons" }, paths);
    });
    return [ribbons, sources.map(({ element }) => element), targets.map(({ element }) => element)];
  }

  function draw() {
    const { text, steps, isWhole, version } = shown;
    const [block, head, t] = [model.get("block"), model.get("head"), place()];
    if (steps.length === 0) return;
    width = Math.round(view.drawing.clientWidth) || 700;
    const characters = [...text];
    const [S, T] = [characters.length, steps.length];
    const answer = steps.map(({ id }) => id).filter((id) => id !== marks.stop).map(spelled).join("");
    hold(picture, [version, block, head, width], () => build(characters, steps, block, head));
    const rows = steps.map((step) => looked(step, S, block, head));
    const isHidden = (i) => beat !== null && i > t; // while it writes, hide what is not written yet
    ribbons.forEach((group, i) => put(group, { class: `gf-translator-ribbons${i === t ? " gf-chosen" : ""}${isHidden(i) ? " gf-unwritten" : ""}` }));
    sources.forEach(({ back, text: letter }, s) => {
      const colour = cividis(rows[t][s]);
      put(back, { style: `fill: ${colour}` });
      put(letter, { style: `fill: ${ink(cividis.channels(rows[t][s]))}` });
    });
    targets.forEach(({ element, back }, i) => {
      put(element, { class: `gf-translator-target${i === t ? " gf-chosen" : ""}${isHidden(i) ? " gf-unwritten" : ""}` });
      put(back, { style: `fill: ${shade(steps[i].p[steps[i].id])}` });
    });
    put(handle, { max: T - 1 });
    if (Number(handle.value) !== t) handle.value = t;

    hold(canvas, [version, block, head], () => paint(canvas, T, S, (i, s) => SHADES[Math.round(255 * rows[i][s])]));
    put(frameOfRow, { style: `--from: ${t / T}; --share: ${1 / T}` });
    hold(down, [version], () => steps.map(({ id }) => h("span", {}, visible(spelled(id)))));
    hold(across, [version, width], () => (width / S < NARROW * 1.4 ? [] : characters.map((c) => h("span", {}, visible(c)))));
    put(map, { style: `--rows: ${T}` });
    write(mapTitle, `Alignment of ${headInWords(block, head)}: answer down, source across`);
    const step = steps[t];
    const shownId = spelled(step.id);
    write(barsTitle, `Candidates for position ${t}`);
    hold(bars, [version, t], () => largest(step.p, 5).map((id) => shareBar(visible(spelled(id)), step.p[id])));

    const said = isWhole ? verdict(text, answer, ways, Boolean(model.get("_own"))) : { mark: "", says: "" };
    put(judgement, { class: `gf-translator-verdict${{ "✓": " gf-good", "✗": " gf-bad" }[said.mark] ?? ""}` });
    write(mark, said.mark);
    write(judged, isWhole ? `${answer}. ${said.says}` : "Writing …");

    const stillGoing = busy && model.get("text") !== text;
    const state = { text, answer, spelled: shownId, step, t, block, head };
    view.says(((busy || trouble) && weights.words()) || trouble || (stillGoing ? "Translating …" : sentence(state)));
    view.describe(() => `“${text}” becomes ${answer}. ${said.says} ${sentence(state)}`);
    view.tables(() => tablesOf({ text, characters, answer, steps, rows, t, block, head }));
  }

  function tablesOf({ text, characters, steps, rows, t, block, head }) {
    const S = characters.length;
    const most = (row) => largest(row, 1)[0];
    const step = steps[t];
    return [
      {
        caption: `Where ${spelled(step.id)} at ${t} looks: ${headInWords(block, head)}`,
        headers: ["Position", "Character", "Weight"],
        rows: () => characters.map((c, s) => [s, visible(c), fixed(rows[t][s], 4)]),
      },
      {
        caption: `Candidates for position ${t}`,
        headers: ["Character", "Probability"],
        rows: () => largest(step.p, step.p.length).map((id) => [visible(id > marks.stop || id === marks.start ? "start" : spelled(id)), fixed(step.p[id], 4)]),
      },
      {
        caption: "Every character of the answer",
        headers: ["Position", "Character", "Probability", "Looks most at", "Weight", "Entropy"],
        rows: () =>
          steps.map(({ id, p }, i) => [i, spelled(id), fixed(p[id], 4), `${visible(text[most(rows[i])])} at ${most(rows[i])}`, fixed(rows[i][most(rows[i])], 4), fixed(entropy(rows[i]), 4)]),
      },
      {
        caption: `Every head, writing ${spelled(step.id)} at ${t}`,
        headers: ["Block", "Head", "Looks most at", "Weight", "Entropy"],
        rows: () =>
          range(L).flatMap((b) =>
            [-1, ...range(H)].map((i) => {
              const row = looked(step, S, b, i);
              return [b, i < 0 ? "average" : i, `${visible(text[most(row)])} at ${most(row)}`, fixed(row[most(row)], 4), fixed(entropy(row), 4)];
            }),
          ),
      },
    ];
  }

  const drawn = redrawing(model, TRAITS, draw);
  const stopResizing = onResize(view.drawing, drawn.ask);
  model.on("change:text", follow);
  own.start();
  if (model.get("text") !== stored.text) follow();
  return () => {
    own.stop();
    stop();
    clearTimeout(timer);
    turn++;
    model.off("change:text", follow);
    stopResizing();
    weights.stop();
    drawn.stop();
  };
}

export default { render };
