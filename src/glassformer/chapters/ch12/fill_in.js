// Masked characters of a line, predicted by an encoder from both sides and by a decoder from the left. See fill_in.py.
import { largest, mulberry32, range } from "../../widgets/kit/maths.js";
import { button, fixed, frame, h, hold, onResize, once, percent, plural, put, redrawing, setAll, slider, toggle, write } from "../../widgets/kit/kit.js";
import { alphabet, named, visible } from "../../widgets/engine/model.js";
import { Reading, inSlices } from "../../widgets/engine/reading.js";
import { textField } from "../../widgets/engine/text_field.js";
import { reasonOf, weightsFor } from "../../widgets/engine/weights.js";
import { legend } from "../../widgets/kit/plot.js";
import { shade, shareBar } from "../../widgets/kit/shares.js";
import { softmax } from "../../widgets/engine/transformer.js";
import { entropy, rankOf } from "../../widgets/engine/writer.js";

const SHOWN = 5; // characters that have a bar, as in fill_in.py
const ONE_IN = 7; // one in this many characters is masked at random, as there
const BEFORE = "\n"; // what the decoder reads before the text, as there
const [NAME, CELL] = [66, 24]; // pixels, as in fill_in.css

// --- maths ----------------------------------------------------------------------------------------------------------

// One of seven positions of a text, at least one: those with the smallest random numbers.
export function atRandom(length, seed) {
  const next = mulberry32(seed);
  const numbers = range(length).map(() => next());
  const count = Math.max(1, Math.floor(length / ONE_IN + 0.5));
  return largest(numbers.map((x) => -x), count).sort((a, b) => a - b);
}

// The positions of the first word that ends at or after a position and is not completely masked, or of any such word.
export function wordAt(text, position, covered) {
  const words = [...text.matchAll(/[^\s.,;:!?]+/g)].map((match) => range(match[0].length).map((i) => match.index + i));
  const open = words.filter((word) => word.some((t) => !covered.includes(t)));
  return open.find((word) => word.at(-1) >= position) ?? open[0] ?? [];
}

// What is shown of a prediction: the likeliest characters, the entropy, and the loss and rank of the true one.
const lookAt = (p, id, V) => ({
  best: largest(p.slice(0, V), SHOWN).map((other) => [other, p[other]]),
  entropy: entropy(p),
  loss: -Math.log(p[id]),
  rank: rankOf(p, id),
});

// From predictions by position: the position with the most certain prediction, the first one if several are equal.
export function surest(looks, left) {
  const [place] = largest(left.map((t) => looks.get(t).best[0][1]), 1);
  return left[place];
}

// An encoder's predictions for a text with masked positions, and then again after filling in one position after the other.
class Filling {
  constructor(transformer, { ids, covered, mask, V }) {
    Object.assign(this, { transformer, ids, covered, V });
    this.reads = ids.map((id, t) => (covered.includes(t) ? mask : id));
    this.passes = []; // predictions by position, one Map for each time that it read the text
    this.filled = []; // [position, id], in order
  }

  // A generator that pauses after every sublayer.
  *upTo(steps) {
    while (this.passes.length <= steps) {
      const left = this.covered.filter((t) => !this.filled.some(([other]) => other === t));
      if (this.passes.length > 0) {
        const looks = this.passes.at(-1);
        const t = surest(looks, left);
        this.filled.push([t, looks.get(t).best[0][0]]);
        this.reads[t] = looks.get(t).best[0][0];
        left.splice(left.indexOf(t), 1);
      }
      this.passes.push(left.length ? yield* this.#read(left) : new Map());
    }
    return true;
  }

  *#read(left) {
    const logits = yield* this.transformer.steps(this.reads);
    const width = logits.length / this.ids.length;
    return new Map(left.map((t) => [t, lookAt(softmax(logits.subarray(t * width, (t + 1) * width)), this.ids[t], this.V)]));
  }

  // After a number of steps: what was filled in, and every prediction; for a filled position, the one that decided it.
  after(steps) {
    const looks = new Map(this.passes.slice(0, steps + 1).flatMap((pass) => [...pass]));
    return { steps, filled: this.filled.slice(0, steps), looks };
  }
}

// How many predictions are right, and their average loss.
export function score(looks) {
  const right = looks.filter(({ rank }) => rank === 1).length;
  return { right, of: looks.length, loss: looks.reduce((sum, { loss }) => sum + loss, 0) / looks.length };
}

// --- words ----------------------------------------------------------------------------------------------------------

function guessInWords({ best, rank }, known, true_) {
  const [id, p] = best[0];
  const says = `${named(known[id])} (${percent(p)})`;
  return rank === 1 ? `${says}, which is right` : `${says}; ${named(true_)} has rank ${rank}`;
}

function sentence({ scene, known, text, t, both, left, share }) {
  if (!both.of) return "Nothing is covered. Click a character, or move to one with the arrow keys and press Space, and the encoder guesses it.";
  const few = left ? `, and the decoder, which sees only the left side, ${left.right}` : "";
  const found = `Of ${both.of} covered ${both.of === 1 ? "character" : "characters"}, the encoder guesses ${both.right} correctly${few}.`;
  const now = Math.round((100 * both.of) / text.length);
  const far = both.of / text.length > 2 * share ? ` ${now} % are covered; in training, ${Math.round(100 * share)} % had to be guessed.` : "";
  const look = scene.looks.get(t);
  if (!look) return `Position ${t} is ${named(text[t])} and not covered, so the model reads it. ${found}${far}`;
  const place = scene.filled.findIndex(([other]) => other === t);
  const how = place < 0 ? "From both sides, the guess is" : `It was filled in as number ${place + 1} of ${both.of}, with`;
  const other = left && ` From the left side only, the guess is ${guessInWords(scene.left.get(t), known, text[t])}.`;
  return `Position ${t} was ${named(text[t])}. ${how} ${guessInWords(look, known, text[t])}.${other || ""} ${found}${far}`;
}

// --- view -----------------------------------------------------------------------------------------------------------

const TRAITS = ["text", "covered", "position", "steps", "seed", "compared"];

function render({ model, el }) {
  const view = frame(el, {
    title: "Fill in the gaps",
    hint: "Click a character to cover it, and click it again to uncover it, or use the arrow keys and Space. The encoder reads what is left on both sides; the decoder knows only the left side. Then type a line of your own.",
  });
  const { context_length: context } = model.get("_config");
  const { known, ids: idsOf } = alphabet(model.get("_characters"));
  const { mask, share } = model.get("_task");
  const other = model.get("_other");
  const stored = model.get("_stored");
  view.drawing.setAttribute("role", "group");

  const characters = () => [...model.get("text")];
  const covered = () => model.get("covered").filter((t) => t < model.get("text").length);
  const steps = () => Math.min(model.get("steps"), covered().length);
  const place = () => Math.min(model.get("position"), model.get("text").length - 1);
  const isCompared = () => Boolean(other.name) && model.get("compared");
  const keyOf = (text, where) => JSON.stringify([text, where]);

  // --- what has been computed: predictions for one text, masked in one way, filled in so far

  let scene = {
    key: keyOf(stored.text, stored.covered.filter((t) => t < stored.text.length)),
    text: stored.text,
    steps: Math.min(stored.steps, stored.looks.length),
    filled: stored.filled,
    looks: new Map(stored.looks),
    left: new Map(stored.left),
  };
  let version = 0;
  let [busy, trouble, turn] = [false, "", 0];
  const working = (is) => {
    busy = is;
    view.busy("guesses", is);
  };
  let [filling, reading] = [null, null];

  const weights = weightsFor(model, { view, told: () => drawn.ask(), again: () => ask() });

  const isWhole = () =>
    scene.key === keyOf(model.get("text"), covered()) &&
    scene.steps === steps() &&
    (!isCompared() || covered().every((t) => scene.left.has(t)));

  async function follow() {
    const mine = ++turn;
    const isWanted = () => mine === turn;
    trouble = "";
    working(!isWhole());
    drawn.ask();
    if (!busy) return;
    const [text, where, count] = [model.get("text"), covered(), steps()];
    const [key, ids] = [keyOf(text, where), idsOf(text)];
    try {
      const transformer = await weights.model();
      if (!isWanted()) return;
      if (filling?.key !== key) filling = Object.assign(new Filling(transformer, { ids, covered: where, mask, V: known.length }), { key });
      if (!(await inSlices(filling.upTo(count), isWanted))) return;
      const left = text === scene.text ? scene.left : new Map();
      [scene, version] = [{ key, text, left, ...filling.after(count) }, version + 1];
      drawn.ask();
      if (isCompared() && where.some((t) => !left.has(t))) {
        const decoder = await weights.other(other.name, other.config);
        if (!isWanted()) return;
        reading ??= new Reading(decoder, (seen) => softmax(seen.at(-1).array));
        const before = [...idsOf(BEFORE), ...ids].slice(0, -1);
        if (!(await reading.read(before)) || !isWanted()) return;
        scene.left = new Map(ids.map((id, t) => [t, lookAt(reading.positions[t], id, known.length)]));
        version++;
      }
    } catch (error) {
      if (!isWanted()) return;
      trouble = reasonOf(error);
    }
    working(false);
    drawn.ask();
  }
  const ask = once(follow);

  // --- what the reader does

  function cover(where, changes = {}) {
    setAll(model, { covered: where.toSorted((a, b) => a - b), steps: 0, ...changes });
    if (trouble) ask(); // once more, although nothing may have changed
  }
  function toggleAt(t) {
    const now = covered();
    cover(now.includes(t) ? now.filter((at) => at !== t) : [...now, t], { position: t });
  }
  function randomly() {
    const seed = model.get("seed") + 1;
    const where = atRandom(model.get("text").length, seed);
    cover(where, { seed, position: where[0] });
  }
  function coverWord() {
    const now = covered();
    const word = wordAt(model.get("text"), place(), now);
    if (word.length) cover([...new Set([...now, ...word])], { position: word[0] });
  }
  function fillNext() {
    const left = covered().filter((t) => !scene.filled.some(([at]) => at === t));
    if (!isWhole() || !left.length) return;
    setAll(model, { steps: steps() + 1, position: surest(scene.looks, left) });
  }

  // --- controls

  const own = textField(model, {
    label: "Your line",
    fit: (text) => [...text].slice(0, context).join(""),
    changes(text) {
      if (text === model.get("text")) return {};
      const left = model.get("covered").filter((t) => t < text.length);
      return { covered: left, steps: 0, position: Math.min(model.get("position"), text.length - 1) };
    },
    adds: () => (model.get("text").length === context ? `The encoder reads only the first ${context} characters that it knows.` : ""),
  });
  view.controls.append(
    own.control,
    h(
      "div",
      { class: "gf-buttons" },
      button("Cover one in seven", randomly),
      button("Cover a word", coverWord),
      button("Uncover all", () => cover([])),
      button("Fill in the surest guess", fillNext),
    ),
    slider(model, "steps", {
      label: "Filled in, surest first",
      min: 0,
      max: () => covered().length,
      format: () => `${steps()} of ${covered().length}`,
      follows: ["covered", "text"],
    }),
    ...(other.name ? [toggle(model, "compared", { label: "Compare with a decoder" })] : []),
  );

  // --- the line, and the guesses under it

  const names = ["your line", "it reads", "both sides", "left only"];
  const letters = [];
  let asked = null; // the character that was chosen when the pointer was pressed
  function letter(t) {
    const rows = names.map((_, row) => h("span", { class: `gf-fill-cell gf-fill-${["true", "reads", "guess", "guess"][row]}` }));
    const element = h(
      "button",
      {
        type: "button",
        class: "gf-fill-letter",
        onpointerdown: () => (asked = place()),
        onfocus: () => setAll(model, { position: t }),
        onclick(event) {
          const onlyLooks = event.detail > 0 && asked !== t && covered().includes(t);
          if (!onlyLooks) toggleAt(t);
          else setAll(model, { position: t });
        },
      },
      rows,
    );
    return { element, rows };
  }
  const table = h("div", { class: "gf-fill", role: "group", "aria-label": "Your line; arrow keys move, Space covers and uncovers" });
  let columns = 1;
  table.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const [t, T] = [place(), model.get("text").length];
    const to = { ArrowLeft: t - 1, ArrowRight: t + 1, ArrowUp: t - columns, ArrowDown: t + columns, Home: 0, End: T - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    if (to >= 0 && to < T) letters[to].element.focus();
  });

  function layout() {
    columns = Math.max(6, Math.floor((table.clientWidth - NAME) / CELL));
    const T = model.get("text").length;
    while (letters.length < T) letters.push(letter(letters.length));
    const focused = letters.findIndex(({ element }) => element === document.activeElement);
    hold(table, [columns, T, isCompared()], () =>
      range(Math.ceil(T / columns)).map((line) =>
        h(
          "div",
          { class: "gf-fill-line" },
          h("span", { class: "gf-fill-names", "aria-hidden": "true" }, names.slice(0, isCompared() ? 4 : 3).map((name) => h("span", {}, name))),
          letters.slice(line * columns, Math.min(T, (line + 1) * columns)).map(({ element }) => element),
        ),
      ),
    );
    if (focused >= 0 && focused < T && letters[focused].element !== document.activeElement) letters[focused].element.focus();
  }

  const panels = range(2).map(() => h("div", { class: "gf-panel-cell" }));
  const scores = h("div", { class: "gf-panel-cell gf-fill-score" });
  view.drawing.append(
    table,
    legend(shade, "unsure", "sure", h("span", { class: "gf-fill-key" }, "underlined: the right character")),
    h("div", { class: "gf-panels gf-fill-panels" }, panels, scores),
  );

  // --- drawing

  function drawLine(text) {
    const [now, at, isLeft] = [covered(), place(), isCompared()];
    const fresh = scene.text === model.get("text");
    const looks = fresh ? scene.looks : new Map();
    const filled = new Map(fresh && scene.steps === steps() ? scene.filled : []);
    text.forEach((character, t) => {
      const { element, rows } = letters[t];
      const isCovered = now.includes(t);
      const both = isCovered ? looks.get(t) : undefined;
      const left = isCovered && fresh && isLeft ? scene.left.get(t) : undefined;
      write(rows[0], visible(character));
      write(rows[1], filled.has(t) ? visible(known[filled.get(t)]) : isCovered ? "" : visible(character));
      put(rows[1], { class: `gf-fill-cell gf-fill-reads${!isCovered ? "" : filled.has(t) ? " gf-fill-written" : " gf-fill-hole"}` });
      for (const [row, look] of [[2, both], [3, left]]) {
        write(rows[row], look ? visible(known[look.best[0][0]]) : "");
        put(rows[row], {
          class: `gf-fill-cell gf-fill-guess${look?.rank === 1 ? " gf-fill-right" : ""}`,
          style: `--share: ${(look?.best[0][1] ?? 0).toFixed(3)}`,
        });
      }
      if (rows[3].hidden === isLeft) rows[3].hidden = !isLeft;
      const says = both ? `, covered, guessed ${named(known[both.best[0][0]])}${both.rank === 1 ? ", which is right" : ""}` : isCovered ? ", covered" : "";
      put(element, {
        class: `gf-fill-letter${t === at ? " gf-fill-asks" : ""}`,
        tabindex: t === at ? 0 : -1,
        "aria-pressed": isCovered,
        "aria-label": `${named(character)} at ${t}${says}`,
      });
    });
  }

  function drawPanel(panel, title, look, true_, missing) {
    hold(panel, [version, place(), title, Boolean(look), missing, true_], () => [
      h("p", { class: "gf-panel-title" }, title),
      look
        ? h(
            "div",
            { class: "gf-bars" },
            look.best.map(([id, p]) => {
              const bar = shareBar(visible(known[id]), p);
              if (known[id] === true_) bar.classList.add("gf-fill-true-bar");
              return bar;
            }),
          )
        : h("p", { class: "gf-fill-none" }, missing),
      look &&
        h(
          "p",
          { class: "gf-fill-fact" },
          "The right character, ",
          h("b", {}, visible(true_)),
          `, has rank ${look.rank}: ${percent(Math.exp(-look.loss))}, loss ${fixed(look.loss, 2)}. Entropy ${fixed(look.entropy, 2)} nats.`,
        ),
    ]);
  }

  function scoresOf() {
    const now = covered();
    const all = (looks) => (now.every((t) => looks.has(t)) ? score(now.map((t) => looks.get(t))) : null);
    const fresh = scene.text === model.get("text");
    const none = { right: 0, of: now.length, loss: Number.NaN };
    return { both: (fresh && all(scene.looks)) || none, left: fresh && isCompared() ? all(scene.left) : null };
  }

  function drawScores({ both, left }) {
    const some = both.of > 0;
    const row = (name, result) =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, name),
        h("td", {}, some && result ? `${result.right} of ${result.of}` : "–"),
        h("td", {}, some && result && !Number.isNaN(result.loss) ? fixed(result.loss, 2) : "–"),
      );
    const T = model.get("text").length;
    hold(scores, [version, both.of, both.loss, left?.loss, isCompared(), T], () => [
      h("p", { class: "gf-panel-title" }, "All covered characters, average loss in nats"),
      h(
        "table",
        { class: "gf-fill-scores" },
        h("thead", {}, h("tr", {}, ["sees", "right", "loss"].map((word) => h("th", { scope: "col" }, word)))),
        h("tbody", {}, row("both sides", both), isCompared() && row("left only", left)),
      ),
      h("p", { class: "gf-fill-fact" }, `Covered: ${both.of} of ${T} (${percent(both.of / T)}). In training, ${percent(share)} had to be guessed, and most of these were covered.${isCompared() ? " The decoder reads everything on the left uncovered." : ""}`),
    ]);
  }

  const tables = () => {
    const [text, now] = [characters(), covered()];
    const order = scene.filled.map(([t]) => t);
    const sides = [["both sides", scene.looks], ...(isCompared() ? [["left only", scene.left]] : [])];
    return [
      {
        caption: "Every covered character: the likeliest guess and its probability, and those of the right character",
        headers: ["At", "stood", "filled", ...sides.flatMap(([name]) => [name, "share", "rank", "loss", "entropy"])],
        rows: () =>
          now.map((t) => [
            t,
            visible(text[t]),
            order.includes(t) ? `${order.indexOf(t) + 1}.` : "",
            ...sides.flatMap(([, looks]) => {
              const look = looks.get(t);
              if (!look) return ["", "", "", "", ""];
              const [id, p] = look.best[0];
              return [visible(known[id]), fixed(p, 4), look.rank, fixed(look.loss, 4), fixed(look.entropy, 4)];
            }),
          ]),
      },
      {
        caption: `The likeliest characters at position ${place()}`,
        headers: sides.flatMap(([name]) => [name, "share"]),
        rows: () =>
          range(scene.looks.has(place()) && now.includes(place()) ? SHOWN : 0).map((i) =>
            sides.flatMap(([, looks]) => {
              const [id, p] = looks.get(place())?.best[i] ?? [];
              return id === undefined ? ["", ""] : [visible(known[id]), fixed(p, 4)];
            }),
          ),
      },
    ];
  };

  function draw() {
    const text = characters();
    layout();
    drawLine(text);
    const [t, now, fresh] = [place(), covered(), scene.text === model.get("text")];
    const isHole = now.includes(t);
    const missing = isHole ? "…" : "This character is not covered.";
    drawPanel(panels[0], ["Position ", h("strong", {}, String(t)), ", both sides"], isHole && fresh ? scene.looks.get(t) : undefined, text[t], missing);
    panels[1].hidden = !isCompared();
    drawPanel(panels[1], ["Position ", h("strong", {}, String(t)), ", left side only"], isHole && fresh ? scene.left.get(t) : undefined, text[t], missing);
    const found = scoresOf();
    drawScores(found);
    const waits = (busy || trouble) && weights.words();
    view.says(waits || trouble || (busy && "Reading …") || sentence({ scene, known, text, t, share, ...found }));
    view.describe(() => `“${text.map((character, at) => (now.includes(at) ? "▁" : character)).join("")}”, ${plural(now.length, "character")} covered; position ${t} is chosen`);
    view.tables(tables);
  }

  const drawn = redrawing(model, TRAITS, draw);
  for (const name of ["text", "covered", "steps", "compared"]) model.on(`change:${name}`, ask);
  const stopResizing = onResize(table, drawn.ask);
  own.start();
  follow();
  return () => {
    own.stop();
    turn++;
    for (const name of ["text", "covered", "steps", "compared"]) model.off(`change:${name}`, ask);
    stopResizing();
    weights.stop();
    drawn.stop();
  };
}

export default { render };
