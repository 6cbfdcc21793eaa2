// The book's model writes: the distribution behind every character, and the effect of a strategy on it. See sampling_lab.py.
import { largest, range } from "../../widgets/kit/maths.js";
import { button, fixed, frame, h, hold, once, percent, plural, put, redrawing, setAll, slider, toggle, write } from "../../widgets/kit/kit.js";
import { alphabet, named, visible } from "../../widgets/engine/model.js";
import { reasonOf, weightsFor } from "../../widgets/engine/weights.js";
import { legend } from "../../widgets/kit/plot.js";
import { shade } from "../../widgets/kit/shares.js";
import { inSlices } from "../../widgets/engine/reading.js";
import { acrossLines } from "../../widgets/engine/letters.js";
import { takesOwn } from "../../widgets/engine/own_model.js";
import { textField } from "../../widgets/engine/text_field.js";
import { RUN, Writer, leftOf, parting, rankOf, uniformAt } from "../../widgets/engine/writer.js";

const MOST = 400; // characters after the prompt, as in sampling_lab.py
const SHOWN = 15; // characters that have a bar, and the drawn one if it is not among them
const KEPT = 6; // branches
const SCALES = [0.1, 0.2, 0.3, 0.5, 0.7, 1]; // possible ends of the bars' scale
const STRATEGY = ["temperature", "top_k", "top_p", "min_p"];

// --- words ----------------------------------------------------------------------------------------------------------

// What can be drawn, in words.
function leftInWords(step, V) {
  const { count, mass } = leftOf(step);
  if (count === V) return V === 1 ? "Its only character is drawn." : `All ${V} characters can be drawn.`;
  return `${count} of ${V} characters can be drawn; ${count === 1 ? "its probability" : "their probability together"} is ${percent(mass)} in the model.`;
}

function sentence({ step, id, t, known, uniform, isPicked }) {
  const V = known.length;
  if (id === undefined) {
    const [best] = largest(step.p, 1);
    return `The next character, at position ${t}: the likeliest is ${named(known[best])} (${percent(step.p[best])}). ${leftInWords(step, V)}`;
  }
  const rank = rankOf(step.p, id);
  const place = rank === 1 ? "the likeliest character" : `rank ${rank} of ${V}`;
  const how = isPicked
    ? "You chose it by hand."
    : step.after[id] > 1 - 1e-9
      ? "So it is written, whatever the random number is."
      : `The random number ${fixed(uniform, 3)} falls on its stretch of the line, which is ${percent(step.after[id])} long.`;
  return `At position ${t}, the model gives ${named(known[id])} a probability of ${percent(step.p[id])}, ${place}. ${leftInWords(step, V)} ${how}`;
}

// --- view -----------------------------------------------------------------------------------------------------------

function render({ model, el }) {
  const view = frame(el, {
    title: "The sampling lab: how is the next character chosen?",
    hint: "Click a character of the text, or use the arrow keys, to see the distribution that it was drawn from. Click another character in the bars, and the text continues from there. Then move a slider: the same random numbers write another text.",
  });
  const { context_length: context } = model.get("_config");
  const { known, ids: idsOf } = alphabet(model.get("_characters"));
  const V = known.length;
  const stored = model.get("_stored");
  const send = (changes) => setAll(model, changes);
  view.drawing.setAttribute("role", "group");

  const columns = ["", "other_"].map((prefix, place) => columnOf(place ? "B" : "A", prefix));
  const [first] = columns;
  const used = () => (model.get("compared") ? columns : [first]);
  const strategyOf = (prefix) => Object.fromEntries(STRATEGY.map((name) => [name, model.get(prefix + name)]));
  const pickedOf = (prefix) => new Map(model.get(`${prefix}picked`).map(([place, character]) => [place, idsOf(character)[0]]));
  const ownOf = (prefix) => ({ strategy: strategyOf(prefix), picked: pickedOf(prefix) });

  // --- writing

  let turn = 0;
  let isWriting = false;
  let slowly = false; // one character per frame, for readers who watch it write
  let toTheEnd = false; // until the end of the line
  let trouble = "";
  let transformer = null;
  const weights = weightsFor(model, { view, told: () => drawn.ask(), again: () => follow() });

  async function go() {
    const mine = ++turn;
    const isWanted = () => mine === turn;
    const writers = used().map(({ writer }) => writer);
    const [prompt, length, seed] = [idsOf(model.get("text")), model.get("length"), model.get("seed")];
    for (const { writer, prefix } of used()) writer.fit({ prompt, length, seed, ...ownOf(prefix) });
    const isDone = () => writers.every((writer) => writer.isDone);
    function* character() {
      for (const writer of writers) if (!writer.isDone) yield* writer.next(transformer);
      drawn.ask();
      return true;
    }
    function* all() {
      while (!isDone()) yield* character();
      return true;
    }
    isWriting = !isDone();
    trouble = "";
    drawn.ask();
    try {
      if (isWriting) transformer ??= await weights.model();
      while (isWanted() && !isDone()) {
        await inSlices(slowly ? character() : all(), isWanted);
        if (slowly) await new Promise(requestAnimationFrame);
      }
    } catch (error) {
      if (isWanted()) trouble = reasonOf(error);
    }
    if (!isWanted()) return;
    const last = first.writer.ids.at(-1);
    if (toTheEnd && !trouble && known[last] !== "\n" && model.get("length") < MOST) return grow(1);
    isWriting = slowly = toTheEnd = false;
    drawn.ask();
  }

  const follow = once(go);

  function grow(count) {
    slowly = true;
    const length = Math.min(model.get("length") + count, MOST);
    send({ length, position: length });
    if (trouble) follow(); // once more, although nothing may have changed
  }
  function stop() {
    if (!isWriting) return;
    const length = Math.min(...used().map(({ writer }) => writer.ids.length));
    send({ length, position: length });
  }

  // --- branches

  const place = () => {
    const { steps } = first.writer;
    return Math.max(0, Math.min(model.get("position"), steps.length - 1));
  };
  const spelled = (ids) => ids.map((id) => known[id]).join("");
  // The text of a column, as the traits that write it again.
  function asItIs({ name, prefix, writer }, at) {
    const names = ["text", "seed", "length", ...["picked", ...STRATEGY].map((own) => prefix + own)];
    return { column: name, at, written: spelled(writer.ids), traits: Object.fromEntries(names.map((trait) => [trait, model.get(trait)])) };
  }
  const isSame = (a, b) => a.column === b.column && a.traits.text === b.traits.text && a.written === b.written;
  const endOf = ({ column, at, written }) =>
    `${model.get("compared") ? `${column}, ` : ""}${at}: ${written.slice(at, at + 16).replaceAll("\n", "⏎")}…`;

  // Choose another character at a place in the text, or choose the next one by hand.
  function choose(t, id, column) {
    if (column.writer.ids[t] === id || t >= MOST) return;
    [slowly, toTheEnd] = [true, false];
    const picked = `${column.prefix}picked`;
    const before = model.get(picked).filter(([other]) => other < t);
    const isNext = t >= model.get("length");
    const left = asItIs(column, t);
    const others = model.get("branches").filter((branch) => !isSame(branch, left));
    send({
      [picked]: [...before, [t, known[id]]],
      length: Math.max(model.get("length"), t + 1),
      position: isNext ? t + 1 : t,
      branches: isNext ? model.get("branches") : [left, ...others].slice(0, KEPT),
    });
  }

  function goBack(branch) {
    [slowly, toTheEnd] = [false, false];
    const left = asItIs(
      columns.find(({ name }) => name === branch.column),
      branch.at,
    );
    const others = model.get("branches").filter((other) => !isSame(other, branch) && !isSame(other, left));
    send({ ...branch.traits, position: branch.at, branches: [left, ...others] });
  }

  // --- controls

  const own = textField(model, {
    label: "Your prompt",
    changes(text) {
      toTheEnd = false;
      return text === model.get("text") ? {} : { length: 0, position: 0, picked: [], other_picked: [] };
    },
  });
  const act = (label, does) =>
    button(label, () => {
      toTheEnd = false;
      does();
      drawn.ask();
    });
  function sliders({ name, prefix }) {
    const of = name === "A" ? "" : " B";
    return h(
      "div",
      { class: "gf-lab-settings", role: "group", "aria-label": `Strategy${of}` },
      h("p", { class: "gf-panel-title gf-lab-name" }, h("strong", {}, name)),
      h(
        "div",
        { class: "gf-controls gf-compact" },
        slider(model, `${prefix}temperature`, {
          label: `Temperature${of}`,
          min: 0,
          max: 2,
          step: 0.05,
          format: (x) => (x === 1 ? "off" : x === 0 ? "greedy" : fixed(x, 2)),
        }),
        slider(model, `${prefix}top_k`, { label: `Top-k${of}`, min: 1, max: V, format: (k) => (k === V ? "off" : String(k)) }),
        slider(model, `${prefix}top_p`, {
          label: `Top-p${of}`,
          min: 0.01,
          max: 1,
          step: 0.01,
          format: (p) => (p === 1 ? "off" : fixed(p, 2)),
        }),
        slider(model, `${prefix}min_p`, {
          label: `Min-p${of}`,
          min: 0,
          max: 1,
          step: 0.01,
          format: (p) => (p === 0 ? "off" : fixed(p, 2)),
        }),
      ),
    );
  }
  const settings = columns.map(sliders);
  view.controls.classList.add("gf-lab-controls");
  view.controls.append(
    own.control,
    h(
      "div",
      { class: "gf-buttons" },
      act("One character", () => grow(1)),
      act("Twenty", () => grow(20)),
      act("To the end of the line", () => {
        toTheEnd = true;
        grow(1);
      }),
      act("Stop", stop),
      act("Start again", () => send({ length: 0, position: 0, picked: [], other_picked: [] })),
    ),
    h(
      "div",
      { class: "gf-lab-seed" },
      slider(model, "seed", { label: "Seed of the random numbers", min: 0, max: 99 }),
      toggle(model, "compared", { label: "Compare with a second strategy" }),
    ),
    ...settings,
  );

  // --- columns: the text, its statistics, the bars of the chosen character

  function columnOf(name, prefix) {
    const ending = name === "A" ? "" : ", column B";
    const { written, logits } = stored.columns[name === "A" ? 0 : 1] ?? { written: "", logits: stored.columns[0].logits.slice(0, 1) };
    const writer = new Writer(context, { prompt: idsOf(stored.text), ids: idsOf(written), logits });
    const column = { name, prefix, writer };

    // The text as it would be printed.
    const given = h("span", { class: "gf-lab-prompt" });
    const next = h("span", { class: "gf-lab-letter gf-lab-next" }, "?");
    const letters = [];
    const text = h(
      "div",
      { class: "gf-paper gf-lab-text", role: "group", tabindex: 0, "aria-label": `What is written; arrow keys choose a character${ending}` },
      given,
      next,
    );
    const every = () => [...letters.slice(0, writer.ids.length), next];
    text.addEventListener("click", (event) => {
      const t = every().indexOf(event.target);
      if (t >= 0) send({ position: t });
    });
    text.addEventListener("keydown", (event) => {
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      const [t, last] = [place(), writer.steps.length - 1];
      const to = { ArrowLeft: t - 1, ArrowRight: t + 1, Home: 0, End: last }[event.key] ?? acrossLines(every(), t, event.key);
      if (to === undefined) return;
      event.preventDefault();
      send({ position: Math.max(0, Math.min(to, last)) });
    });

    function drawText(t, fork) {
      write(given, model.get("text"));
      const { ids, steps, run } = writer;
      while (letters.length < ids.length) {
        const letter = h("span");
        letters.push(letter);
        next.before(letter);
      }
      letters.forEach((letter, i) => {
        const id = ids[i];
        if (letter.hidden !== (id === undefined)) letter.hidden = id === undefined;
        if (id === undefined) return;
        write(letter, known[id] === "\n" ? "⏎\n" : known[id]);
        const marks = `${i === t ? " gf-lab-chosen" : ""}${run.picked.has(i) ? " gf-lab-picked" : ""}${i === fork ? " gf-lab-fork" : ""}`;
        put(letter, { class: `gf-lab-letter${marks}`, style: `--share: ${steps[i].p[id].toFixed(3)}` });
      });
      put(next, { class: `gf-lab-letter gf-lab-next${t === ids.length ? " gf-lab-chosen" : ""}` });
    }

    // Averages over the written text.
    const facts = range(3).map(() => h("b"));
    const names = ["Entropy, nats per character", "−log p, nats per character", `Ends a repeated run of ${RUN}`];
    const summary = h("div", { class: "gf-lab-facts" }, names.map((word, i) => h("p", {}, h("span", {}, word), facts[i])));
    function drawFacts() {
      const { entropy: before, left, surprise, repeats } = writer.statistics();
      const some = writer.ids.length > 0;
      write(facts[0], some ? `${fixed(before, 2)} → ${fixed(left, 2)}` : "–");
      write(facts[1], some ? fixed(surprise, 2) : "–");
      write(facts[2], some ? percent(repeats) : "–");
    }

    // The bars: the model's probabilities, and those that are drawn from.
    const rows = range(SHOWN + 1).map(() => {
      const parts = {
        letter: h("b"),
        before: h("span", { class: "gf-lab-before" }),
        after: h("span", { class: "gf-lab-after" }),
        said: h("span", { class: "gf-lab-number" }),
        drawn: h("span", { class: "gf-lab-number" }),
      };
      const element = h(
        "button",
        { type: "button", class: "gf-lab-bar", onclick: () => choose(place(), parts.id, column) },
        parts.letter,
        h("span", { class: "gf-lab-track" }, parts.before, parts.after),
        parts.said,
        parts.drawn,
      );
      return Object.assign(parts, { element });
    });
    let focused = 0; // the row that the Tab key reaches
    const bars = h(
      "div",
      { class: "gf-lab-bars", role: "group", "aria-label": `What could be written here; up and down go along${ending}` },
      rows.map(({ element }) => element),
    );
    bars.addEventListener("keydown", (event) => {
      const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      rows[Math.min(Math.max(focused + step, 0), rows.length - 1)].element.focus();
    });
    bars.addEventListener("focusin", (event) => {
      focused = rows.findIndex(({ element }) => element === event.target);
      rows.forEach(({ element }, i) => put(element, { tabindex: i === focused ? 0 : -1 }));
    });

    const caption = h("p", { class: "gf-panel-title" });
    const end = h("span"); // of the bars' scale
    const head = h(
      "div",
      { class: "gf-lab-sum gf-lab-head", "aria-hidden": "true" },
      h("span", { class: "gf-lab-scale" }, h("span", {}, "0"), end),
      h("span", {}, "model"),
      h("span", {}, "drawn from"),
    );
    const sums = ["the others", "entropy, nats", "can be drawn", "probability kept"].map((word) => {
      const [said, drawn] = range(2).map(() => h("span", { class: "gf-lab-number" }));
      return { element: h("div", { class: "gf-lab-sum" }, h("span", {}, word), said, drawn), said, drawn };
    });
    const stretches = range(V).map(() => h("span"));
    const mark = h("span", { class: "gf-lab-mark" });
    const lineTitle = h("p", { class: "gf-panel-title" });
    const line = h("div", { class: "gf-lab-line", "aria-hidden": "true" }, h("div", { class: "gf-lab-stretches" }, stretches), mark);

    function drawBars(t, full) {
      const step = writer.steps[t];
      const id = writer.ids[t];
      if (!step) return;
      const { p, after } = step;
      const order = largest(p, SHOWN + 1);
      if (id !== undefined && !order.includes(id)) order[SHOWN] = id;
      const isPicked = writer.run.picked.has(t);
      rows.forEach((row, i) => {
        const other = order[i];
        row.element.hidden = other === undefined;
        if (other === undefined) return;
        const isCut = after[other] === 0;
        const isDrawn = other === id;
        row.id = other;
        write(row.letter, visible(known[other]));
        put(row.before, { style: `--share: ${(p[other] / full).toFixed(4)}` });
        put(row.after, { style: `--share: ${(after[other] / full).toFixed(4)}` });
        write(row.said, percent(p[other]));
        write(row.drawn, isCut ? "cut" : percent(after[other]));
        const how = isDrawn ? (isPicked ? "; chosen by hand" : "; drawn") : "; choose it instead";
        put(row.element, {
          class: `gf-lab-bar${isCut ? " gf-lab-cut" : ""}${isDrawn ? " gf-lab-drawn" : ""}`,
          "aria-label": `${named(known[other])}: the model says ${percent(p[other])}, ${isCut ? "cut" : `drawn from ${percent(after[other])}`}${id === undefined ? "; choose it" : how}`,
          tabindex: i === focused ? 0 : -1,
        });
      });
      write(end, percent(full));
      const { count, mass } = leftOf(step);
      const shown = (of) => order.reduce((sum, other) => sum - of[other], 1);
      const cells = [
        [percent(Math.max(0, shown(p))), percent(Math.max(0, shown(after) < 1e-9 ? 0 : shown(after)))],
        [fixed(step.entropy, 2), fixed(step.left, 2)],
        [V, count],
        ["", count === V ? "all" : percent(mass)],
      ];
      write(sums[0].element.firstChild, plural(V - order.length, "other"));
      sums.forEach(({ said, drawn }, i) => {
        write(said, cells[i][0]);
        write(drawn, cells[i][1]);
      });
      stretches.forEach((stretch, other) => {
        const share = after[other];
        put(stretch, { class: other === id && !isPicked ? "gf-lab-here" : "", style: `--share: ${share.toFixed(4)}` });
        write(stretch, share > 0.06 ? visible(known[other]) : "");
      });
      const uniform = uniformAt(writer.run.seed, t);
      mark.hidden = id === undefined || isPicked;
      put(mark, { style: `left: ${(100 * uniform).toFixed(2)}%` });
      const falls = mark.hidden ? (isPicked ? "you chose by hand" : "a random number decides") : `the number ${fixed(uniform, 3)} falls here`;
      write(lineTitle, `Laid end to end: ${falls}`);
      const before = `${model.get("text")}${spelled(writer.ids.slice(0, t))}`.slice(-14);
      hold(caption, [t, before, id === undefined], () => [
        id === undefined ? "Next, " : `At ${t}, `,
        "after ",
        h("strong", { class: "gf-lab-after-what" }, `…${[...before].map((c) => (c === "\n" ? "⏎" : c)).join("")}`),
      ]);
    }

    column.writing = h("div", { class: "gf-lab-writing" }, h("p", { class: "gf-panel-title gf-lab-name" }, h("strong", {}, name)), text, summary);
    column.element = h(
      "div",
      { class: "gf-lab-column" },
      column.writing,
      h(
        "div",
        { class: "gf-lab-choice" },
        caption,
        head,
        bars,
        h("div", { class: "gf-lab-sums" }, sums.map(({ element }) => element)),
        lineTitle,
        line,
      ),
    );
    column.draw = (t, fork, full) => {
      drawText(t, fork);
      drawFacts();
      drawBars(t, full);
    };
    return column;
  }

  const left = h("div", { class: "gf-lab-branches" });
  first.writing.append(left);
  const lab = h("div", { class: "gf-lab" }, columns.map(({ element }) => element));
  view.drawing.append(
    lab,
    legend(
      shade,
      "unlikely",
      "likely",
      h("span", {}, "Behind each character: the probability that the model gave it"),
    ),
  );

  // --- drawing

  function draw() {
    const isCompared = model.get("compared");
    const t = place();
    const fork = isCompared ? parting(...columns.map(({ writer }) => writer.ids)) : null;
    put(lab, { class: `gf-lab${isCompared ? " gf-lab-two" : ""}` });
    view.busy("writing", isWriting);
    put(view.controls, { class: `gf-controls gf-lab-controls${isCompared ? " gf-lab-two" : ""}` });
    settings[1].hidden = columns[1].element.hidden = !isCompared;
    // With two columns, each shows this place or, while it is still writing, its last one.
    const places = used().map(({ writer }) => Math.min(t, Math.max(0, writer.steps.length - 1)));
    const most = used().map(({ writer: { steps } }, i) => steps[places[i]] && Math.max(...steps[places[i]].p, ...steps[places[i]].after));
    const full = SCALES.find((scale) => most.every((share = 0) => share <= scale)) ?? 1;
    used().forEach((column, i) => column.draw(places[i], fork, full));
    const branches = model.get("branches");
    left.hidden = branches.length === 0;
    hold(left, [isCompared, ...branches.map(({ column, written }) => column + written)], () => [
      h("p", { class: "gf-panel-title" }, "Go back to an earlier text"),
      h("div", { class: "gf-buttons" }, branches.map((branch) => button(endOf(branch), () => goBack(branch)))),
    ]);
    view.says(((isWriting || trouble) && weights.words()) || trouble || sentenceOf(t, fork));
    view.describe(
      () => `The model continues “${model.get("text")}” with “${spelled(first.writer.ids)}”. The bars show the possible characters at position ${place()}: their probabilities in the model, and after the cuts.`,
    );
    view.tables(tables);
  }

  function sentenceOf(t, fork) {
    const { ids, steps, run } = first.writer;
    if (!steps[t]) return "";
    const one = sentence({ step: steps[t], id: ids[t], t, known, uniform: uniformAt(run.seed, t), isPicked: run.picked.has(t) });
    if (!model.get("compared")) return one;
    if (fork === null) return `${one} So far, the two texts are the same.`;
    const [a, b] = columns.map(({ writer }) => named(known[writer.ids[fork]]));
    return `${one} The two texts differ from position ${fork} on: A writes ${a}, and B writes ${b}.`;
  }

  const tables = () =>
    used().flatMap(({ name, writer: { ids, steps, run }, writer }) => {
      const of = model.get("compared") ? `${name}: ` : "";
      const t = Math.min(place(), steps.length - 1);
      if (t < 0) return [];
      const { p, after } = steps[t];
      const { entropy: before, left: drawnFrom, surprise, repeats } = writer.statistics();
      return [
        {
          caption: `${of}Possible characters at position ${t}`,
          headers: ["Character", "The model", "Drawn from"],
          rows: () => largest(p, V).map((id) => [visible(known[id]), fixed(p[id], 4), after[id] ? fixed(after[id], 4) : "cut"]),
        },
        {
          caption: `${of}The text`,
          headers: ["Position", "Character", "The model", "Drawn from", "Entropy", "Entropy drawn from", "Random number"],
          rows: () =>
            ids.map((id, i) => [
              i,
              visible(known[id]),
              fixed(steps[i].p[id], 4),
              fixed(steps[i].after[id], 4),
              fixed(steps[i].entropy, 3),
              fixed(steps[i].left, 3),
              run.picked.has(i) ? "by hand" : fixed(uniformAt(run.seed, i), 4),
            ]),
        },
        {
          caption: `${of}Per character, of ${ids.length}`,
          headers: ["", "Average"],
          rows: () =>
            ids.length
              ? [
                  ["entropy of the model, nats", fixed(before, 4)],
                  ["entropy of what was drawn from, nats", fixed(drawnFrom, 4)],
                  ["−log p of what was written, nats", fixed(surprise, 4)],
                  [`fraction that ends a run of ${RUN} characters that occurred before`, fixed(repeats, 4)],
                ]
              : [],
        },
      ];
    });

  for (const { writer, prefix } of columns) {
    const run = { prompt: idsOf(stored.text), length: writer.ids.length, seed: model.get("seed") };
    writer.fit({ ...run, ...ownOf(prefix) });
  }
  const drawn = redrawing(model, ["position", "branches"], draw);
  const hurried = () => {
    slowly = false;
    follow();
  };
  const listened = [
    ...["length", "picked", "other_picked"].map((name) => [name, follow]),
    ...["text", "seed", "compared", ...columns.flatMap(({ prefix }) => STRATEGY.map((name) => prefix + name))].map((name) => [name, hurried]),
  ];
  for (const [name, does] of listened) model.on(`change:${name}`, does);
  own.start();
  go();
  return () => {
    own.stop();
    turn++;
    for (const [name, does] of listened) model.off(`change:${name}`, does);
    weights.stop();
    drawn.stop();
  };
}

const AT_FIRST = 60; // characters that a reader's own model writes, as in sampling_lab.py
const ofOwn = ({ config: { vocab_size: V } }) => ({
  _stored: { text: "", columns: [{ written: "", logits: [] }] },
  ...Object.fromEntries(["", "other_"].flatMap((prefix) => [[`${prefix}top_k`, V], [`${prefix}picked`, []]])),
  branches: [],
  length: AT_FIRST,
  position: 0,
});

export default { render: takesOwn(render, ofOwn) };
