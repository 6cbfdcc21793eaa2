// A small Transformer that writes, one character at a time, with the probability of each next character. See live_writer.py.
import { largest } from "./kit/maths.js";
import { button, fixed, frame, h, once, percent, put, redrawing, setAll, slider, uniqueId, write } from "./kit/kit.js";
import { shareBar } from "./kit/shares.js";
import { NAMES, alphabet, named } from "./engine/model.js";
import { inSlices } from "./engine/reading.js";
import { takesOwn } from "./engine/own_model.js";
import { textField } from "./engine/text_field.js";
import { reasonOf, weightsFor } from "./engine/weights.js";
import { Writer, unpackedLogits } from "./engine/writer.js";

const [FEWEST, MOST, LONGEST] = [80, 100, 800]; // characters, as in live_writer.py
const SHOWN = 8; // characters that have a bar of their own
const SLOWLY = [0.2, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2]; // times the pace: the first character comes almost at once, and the next ones can be followed one by one
const LISTENS = 900; // milliseconds after the last key at which the model takes up the reader’s text
const RESUMES = 800; // milliseconds after the last change of the temperature at which a finished text goes on
const IN_VIEW = 0.4; // of the view, when it starts by itself

// As in live_writer.py.
export const isEnough = (text) => text.length >= MOST || (text.length >= FEWEST && !/[A-Za-z']$/.test(text));

// --- words ------------------------------------------------------------------------------------------------------------

function temperatureInWords(T) {
  if (T === 0) return "At temperature 0, the likeliest character always wins. Try 2.";
  if (T === 1) return "At temperature 1, every character is drawn exactly as often as the model predicts. Try 0, and then 2.";
  if (T < 1) return `At temperature ${fixed(T, 1)}, likely characters win ${T < 0.6 ? "much" : "a little"} more often than at 1. Try 0, and then 2.`;
  return `At temperature ${fixed(T, 1)}, unlikely characters win ${T > 1.4 ? "much" : "a little"} more often than at 1. Try 0.`;
}

// --- view -------------------------------------------------------------------------------------------------------------

function render({ model, el }) {
  const view = frame(el, {
    title: "A small Transformer is writing",
    hint: `${model.get("_own") ? "It is your own" : "It learned from Shakespeare’s plays"} and writes one character at a time.`,
  });
  const { context_length: context } = model.get("_config");
  const { known, ids: idsOf } = alphabet(model.get("_characters"));
  const stored = model.get("_stored");
  const written = () => model.get("written");
  const length = () => [...written()].length;
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;

  // --- what the model predicts

  const recorded = new Writer(context, { prompt: idsOf(stored.text), ids: [], logits: unpackedLogits(stored.logits) }).steps;
  const isRecorded = () => model.get("text") === stored.text && stored.written.startsWith(written());
  const writer = new Writer(context, { prompt: [], ids: [], logits: [] });
  let transformer = null;
  const weights = weightsFor(model, {
    view,
    told: () => drawn.ask(),
    again() {
      load();
      latest = null;
      sync();
    },
  });
  const load = () =>
    weights.model().then(
      (made) => {
        transformer = made;
        drawn.ask();
      },
      () => drawn.ask(),
    );

  // The writer has the text so far, which nothing changes any more, and draws one character beyond it.
  function fit() {
    const done = idsOf(written());
    const run = {
      prompt: idsOf(model.get("text")),
      length: done.length + 1,
      seed: model.get("seed"),
      strategy: { temperature: model.get("temperature") },
      picked: new Map(done.entries()),
    };
    writer.fit(run);
    if (writer.steps.length > done.length || transformer || !isRecorded()) return;
    writer.steps = recorded.map((step) => ({ ...step }));
    writer.fit(run);
  }

  let turn = 0;
  let trouble = "";
  let waiting = false; // for a prediction
  const wait = (is) => {
    waiting = is;
    view.busy("prediction", is);
  };

  // Has the prediction of the next character made. Returns whether it is there; false if something else is wanted meanwhile.
  async function think() {
    const mine = ++turn;
    const isWanted = () => mine === turn;
    const place = length();
    trouble = "";
    fit();
    wait(!writer.steps[place]);
    drawn.ask();
    if (!waiting) return true;
    try {
      transformer ??= await weights.model();
      if (!isWanted()) return false;
      fit(); // from the recording, if this became possible
      while (!writer.steps[place]) {
        await inSlices(writer.next(transformer), isWanted);
        if (!isWanted()) return false;
      }
    } catch (error) {
      if (!isWanted()) return false;
      trouble = reasonOf(error);
    }
    wait(false);
    drawn.ask();
    return trouble === "";
  }

  let latest = null;
  let thinking = Promise.resolve(false);
  function sync() {
    const now = JSON.stringify(["text", "written", "seed", "temperature"].map((name) => model.get(name)));
    if (now === latest) return;
    latest = now;
    thinking = think();
  }
  async function predicted() {
    for (;;) {
      const now = thinking;
      const isThere = await now;
      if (now === thinking) return isThere;
    }
  }

  // --- writing

  let plays = 0;
  let timer = null;
  let isPlaying = false;
  let since = 0; // the text's length when it began to write, or when the temperature was last moved: it writes enough after both
  let hasBegun = length() > 0;
  let isTouched = hasBegun; // whether the reader has paused it or typed: from then on, only a typed text is taken up by itself
  let listening = null;
  let rests = null; // what was there when it had written enough and paused by itself

  function halt() {
    plays++;
    clearTimeout(timer);
    clearTimeout(listening);
    if (isPlaying) announce();
    isPlaying = false;
    drawn.ask();
  }

  function add() {
    setAll(model, { written: written() + known[writer.ids[length()]] });
    sync();
  }

  async function play() {
    halt();
    const mine = plays;
    const from = (since = length());
    [isPlaying, hasBegun] = [true, true];
    if (!transformer) load();
    sync();
    while (length() < LONGEST && !isEnough([...written()].slice(since).join(""))) {
      if (!(await predicted())) break;
      if (mine !== plays) return;
      const pace = model.get("pace") * (SLOWLY[length() - from] ?? 1);
      await new Promise((done) => (timer = setTimeout(done, pace)));
      if (!(await predicted())) break; // the temperature may have been moved
      if (mine !== plays) return;
      add();
    }
    if (mine !== plays) return;
    halt();
    rests = trouble ? null : latest;
  }

  async function addOne() {
    isTouched = hasBegun = true;
    halt();
    const mine = plays;
    if (trouble) latest = null;
    sync();
    if (length() < LONGEST && (await predicted()) && mine === plays) add();
    announce();
  }

  function press() {
    if (isPlaying) {
      isTouched = true;
      return halt();
    }
    if (trouble) latest = null;
    play();
  }

  function startOver() {
    halt();
    latest = null;
    setAll(model, { written: "", seed: (model.get("seed") + 1) % 10_000 });
    play();
  }

  let resuming = null;
  function resume() {
    since = length();
    clearTimeout(resuming);
    if (isPlaying || isTouched || !hasBegun || calm || length() >= LONGEST) return;
    resuming = setTimeout(() => !isPlaying && !isTouched && play(), RESUMES);
  }

  // --- the text

  const own = textField(model, {
    label: "Your text",
    rows: 2,
    changes: () => ({ written: "" }),
    adds: () => (model.get("text") === stored.text && ["", stored.text].includes(model.get("typed")) ? stored.origin : ""),
  });
  own.field.addEventListener("input", () => {
    isTouched = true;
    halt();
    if (!calm) listening = setTimeout(play, LISTENS);
  });
  own.field.addEventListener("compositionstart", halt); // of a character that takes several keys
  own.field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (!isPlaying) press();
  });
  own.field.enterKeyHint = "go";

  const headId = uniqueId();
  const source = h("span", { class: "gf-live-source" });
  const [before, newest] = [h("span"), h("b")];
  const paper = h("div", { class: "gf-paper gf-live-written", role: "group", "aria-labelledby": headId, tabindex: 0 }, before, newest);
  const heard = h("p", { class: "gf-live-heard", role: "status" });
  const announce = () => write(heard, length() ? `The model has written: ${written()}` : "");

  // --- the bars

  // A model that knows no more characters than have a bar leaves none for the others.
  const rows = Array.from({ length: Math.min(SHOWN + 1, known.length) }, () => shareBar("", 0));
  const caption = h("p", { class: "gf-live-caption" });
  const bars = h("div", { class: "gf-live-chances" }, caption, h("div", { class: "gf-bars", role: "img" }, rows));
  const chart = bars.lastChild;

  function drawBars() {
    const last = length() - 1;
    const isPast = isPlaying && last >= 0 && writer.steps[last];
    const step = isPast ? writer.steps[last] : writer.steps[length()];
    put(bars, { class: `gf-live-chances${isPlaying ? " gf-live-past" : ""}${step ? "" : " gf-live-stale"}` });
    write(caption, isPast ? "Chances of the character just written" : "Chances of the next character");
    if (!step) return;
    const id = isPast ? writer.ids[last] : null;
    const shown = largest(step.logits, SHOWN); // the model's order, which no temperature changes
    const share = (ids) => ids.reduce((sum, other) => sum + step.after[other], 0);
    const others = Math.max(0, 1 - share(shown));
    const isAmongOthers = id !== null && !shown.includes(id);
    const all = shown.map((other) => `${NAMES[known[other]] ?? known[other]} ${percent(step.after[other])}`);
    if (known.length > SHOWN) all.push(`all others ${percent(others)}`);
    rows.forEach((row, i) => {
      const [name, bar, number] = row.children;
      const isOthers = i === SHOWN;
      const p = isOthers ? others : step.after[shown[i]];
      const character = known[shown[i]];
      write(name, isOthers ? (isAmongOthers ? `${NAMES[known[id]] ?? known[id]} and others` : "all others") : NAMES[character] ?? character);
      put(bar, { style: `--share: ${p.toFixed(4)}` });
      write(number, percent(p));
      put(row, {
        class: `gf-bar${isOthers || NAMES[character] ? " gf-live-word" : ""}${isOthers ? " gf-live-others" : ""}${(isOthers ? isAmongOthers : shown[i] === id) ? " gf-live-drawn" : ""}`,
      });
    });
    if (isPlaying) put(chart, { "aria-label": "The likeliest characters, which change while the model writes. Pause it to hear them." });
    else put(chart, { "aria-label": `The next character: ${all.join(", ")}.` });
  }

  // --- what is said

  const isRecording = () => !transformer && hasBegun && isRecorded();

  function sentence() {
    const T = model.get("temperature");
    const loads = trouble || weights.words() || weights.state().why || "";
    if (!transformer && hasBegun && model.get("text") === stored.text) {
      if (trouble || (waiting && length() > 0)) return `The recording ends here. ${loads}`;
      if (isPlaying && !waiting) return `You see a recording of this model until it has loaded. ${loads}`;
    }
    if (trouble || (waiting && !transformer)) return loads;
    if (waiting || isPlaying) return temperatureInWords(T);
    if (length() >= LONGEST) return `The model has written ${LONGEST} characters, and this view keeps no more. Start over to see another text.`;
    if (rests === latest) {
      const again = T === 0 ? "and Start over gives the same text, because nothing is left to chance" : "and Start over gives another text";
      return `The model pauses here. Write makes it go on, ${again}. ${T === 0 ? "Try 2." : T === 2 ? "Try 0." : "Try temperatures 0 and 2."}`;
    }
    const step = writer.steps[length()];
    const [best] = step ? largest(step.logits, 1) : [];
    const next = step ? `The likeliest next character is ${named(known[best])} (${percent(step.after[best])}). ` : "";
    const start = calm && !length() ? " Press Write to see how the model goes on." : "";
    return `${next}${temperatureInWords(T)}${start}`;
  }

  const tables = () => {
    const step = writer.steps[length()];
    const after = [...(model.get("text") + written())];
    return [
      {
        caption: `What may come after “${after.length > 20 ? "…" : ""}${after.slice(-20).join("").replaceAll("\n", "⏎")}”`,
        headers: ["Character", "the model’s probability", `at temperature ${fixed(model.get("temperature"), 1)}`],
        rows: () => (step ? largest(step.logits, known.length).map((id) => [NAMES[known[id]] ?? known[id], fixed(step.p[id], 4), fixed(step.after[id], 4)]) : []),
      },
    ];
  };

  let said = null;
  function draw() {
    const text = [...written()];
    write(before, text.slice(0, -1).join(""));
    write(newest, text.at(-1) ?? "");
    put(newest, { class: isPlaying ? "gf-live-newest" : "" });
    if (isPlaying && paper.scrollHeight > paper.clientHeight) paper.scrollTop = paper.scrollHeight;
    drawBars();
    write(source, transformer ? "live, in your browser" : isRecording() ? "a recording" : "");
    write(main, isPlaying ? "Pause" : hasBegun || isTouched ? "Write" : "Start");
    put(one, { "aria-disabled": length() >= LONGEST });
    own.follow();
    // The line is read aloud when it changes, and not for every character.
    const now = sentence();
    if (now !== said || !isPlaying) view.says((said = now));
    if (isPlaying) return;
    view.describe(() => `After “${model.get("text")}”, the model has written “${written()}”`);
    view.tables(tables);
  }

  // --- the pieces in their places

  const main = button("Start", press);
  main.classList.add("gf-live-main");
  const one = button("One more", addOne);
  view.controls.classList.add("gf-live-controls");
  view.controls.append(
    slider(model, "temperature", { label: "Temperature", min: 0, max: 2, step: 0.1, format: (x) => fixed(x, 1) }),
    h("div", { class: "gf-buttons" }, main, one, button("Start over", startOver)),
  );
  put(view.drawing, { role: "group" });
  view.drawing.classList.add("gf-live");
  view.drawing.append(
    h(
      "div",
      { class: "gf-live-text" },
      own.control,
      h("p", { class: "gf-live-head" }, h("span", { class: "gf-label", id: headId }, "The model goes on"), source),
      paper,
    ),
    bars,
  );
  view.drawing.after(view.controls, heard);

  const drawn = redrawing(model, ["temperature", "written", "typed"], draw);
  const follow = once(sync);
  const names = ["text", "written", "seed", "temperature"];
  for (const name of names) model.on(`change:${name}`, follow);
  model.on("change:temperature", resume);
  own.start();
  sync();

  const seen =
    "IntersectionObserver" in globalThis &&
    new IntersectionObserver(
      ([{ isIntersecting }]) => {
        if (!isIntersecting) return;
        seen.disconnect();
        if (!hasBegun && !isTouched) play();
      },
      { threshold: IN_VIEW },
    );
  if (seen && !calm && !hasBegun) seen.observe(view.drawing);

  return () => {
    halt();
    turn++;
    if (seen) seen.disconnect();
    clearTimeout(resuming);
    for (const name of names) model.off(`change:${name}`, follow);
    model.off("change:temperature", resume);
    own.stop();
    weights.stop();
    drawn.stop();
  };
}

const ofOwn = ({ config: { vocab_size: V } }) => ({
  _stored: { text: "", origin: "", written: "", logits: { columns: V, numbers: "" } },
  written: "",
});

export default { render: takesOwn(render, ofOwn) };
