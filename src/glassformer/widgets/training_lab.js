// A GPT that learns in the page. See training_lab.py. What trains is in engine/training.js.
import { button, fixed, frame, grouped, h, hold, plural, put, redrawing, risky, setAll, uniqueId, write } from "./kit/kit.js";
import { rich } from "./kit/rich.js";
import { reasonOf, weightsFor } from "./engine/weights.js";
import { BREAKS, isOwn, nearestGuess, settingsOf, setup, sizeOf } from "./engine/training_setup.js";
import { visible } from "./engine/model.js";
import { LANDMARKS, learningCurve } from "./engine/learning_curve.js";
import { TrainingRun } from "./engine/training_run.js";
import { attentionPanel } from "./engine/attention_panel.js";
import { ENDING, written } from "./engine/model_file.js";
import { download, offer } from "./engine/own_model.js";
import { weightPanel } from "./engine/weight_panel.js";

const CALM = 1500; // milliseconds between drawings, for readers who prefer reduced motion
const BY_HEART = 0.3; // nats by which the held-out text is harder than the other
const CLOSE = 0.05; // nats: a guess that is as good as right

// --- words ----------------------------------------------------------------------------------------------------------

const stepsOf = (steps) => plural(steps, "step");
const list = (names) => (names.length < 2 ? names.join() : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`);

// Where views run a GPT.
const ELSEWHERE = "the first page and of chapters 00, 01, 03, 05, 06, 07, 11 and 15";

// What the landmarks stand for.
const ONLY = { "ln V": "knowing nothing", unigram: "knowing only how often each character occurs", bigram: "knowing only which character follows which" };
const KNOWS = {
  "ln V": "the model has noticed that some characters are more frequent",
  unigram: "the model has begun to use the character before",
  bigram: "the model uses more than one character of context",
};

// How long it will take, in words that do not change every second.
export function duration(seconds) {
  if (seconds < 10) return "a few seconds";
  if (seconds < 55) return `about ${10 * Math.round(seconds / 10)} seconds`;
  const minutes = Math.round(seconds / 60);
  return minutes <= 1 ? "about a minute" : `about ${minutes} minutes`;
}

// The landmark that the mean loss has fallen below last, or null.
export const passed = (landmarks, loss) =>
  Object.entries(landmarks).sort(([, a], [, b]) => b - a).filter(([, value]) => loss < value).at(-1)?.[0] ?? null;

// What a guess was worth.
export function verdictOf(guess, loss) {
  if (guess === null) return "";
  const off = loss - guess;
  if (Math.abs(off) <= CLOSE) return ` You guessed ${fixed(guess, 2)}, which is almost exactly right.`;
  return ` You guessed ${fixed(guess, 2)}: the model did ${off < 0 ? "better" : "worse"} than you thought, by ${fixed(Math.abs(off), 2)}.`;
}

// Which curve came out, from the loss at the end, those of runs without the break, and the loss of knowing only frequencies.
export function outcome(loss, usual, unigram) {
  if (!Number.isFinite(loss) || loss > unigram - 0.1) return "stuck";
  if (loss < 0.5) return "zero";
  return loss > Math.max(...usual) + (Math.max(...usual) - Math.min(...usual)) ? "worse" : "same";
}

// The same curves, as what happened and as what was expected.
const CAME = {
  zero: "The loss fell to nearly 0.",
  same: "So it ended as without the break.",
  worse: "It learned, but less.",
  stuck: "It did not learn.",
};
const EXPECTED = {
  zero: "the loss would fall to nearly 0",
  same: "it would end as without the break",
  worse: "it would learn, but less",
  stuck: "it would not learn",
};

// Why a break changes what it changes, as far as we know.
const WHY = {
  rate:
    "Muon gives each update of a matrix about the same size, whatever the gradient, and multiplies it by the learning rate, which is now ten times as large. But the rate falls to 0 by the end of both runs, so their last steps are small. That is probably why so little is lost.",
  mask:
    "Each position sees the next character, which is the one that it has to predict, so the model learns to copy it. When it writes, there is no next character to copy: read what it has written.",
  warmup:
    "A warm-up protects a model from steps that are too large at the beginning. Muon limits the size of its updates, and sublayers that start at 0 add nothing at first. That is probably why this recipe hardly needs one.",
};

// --- view -----------------------------------------------------------------------------------------------------------

const TRAITS = ["name", "size", "d_model", "n_layers", "steps", "rate", "seed", "source", "text", "broken", "guess", "expected", "weight", "head"];

function render({ model, el }) {
  const get = (name) => model.get(name);
  const isWhole = get("name") !== "short";
  const view = frame(el, {
    title: "Train a GPT in this page",
    hint: "Your own device does the work. Nothing leaves it: neither the text nor the model.",
  });
  put(view.drawing, { role: "group" });

  let run = null;
  let begun = {}; // the traits when it began
  const chosen = (name) => (run ? begun[name] : get(name));
  let isLoading = false;
  let trouble = "";
  const own = {}; // the reader's text
  const files = weightsFor(model, { view, told: () => drawn?.ask(), again: () => start() });

  // --- before, and while it trains ---

  const forget = () => (trouble = "");
  for (const name of TRAITS) model.on(`change:${name}`, forget);
  const choices = setup(model, own, () => {
    forget();
    drawn.ask();
  });
  const startButton = button("Start training", () => start());
  startButton.classList.add("gf-lab-start");
  const about = h("p", { class: "gf-lab-about" });
  let warning = ""; // that this model would be lost
  const then = (act) => () => {
    act();
    drawn.ask();
  };
  const discards = (label, sure, act, words, isLost = () => true) =>
    risky(label, sure, act, {
      asks(is) {
        warning = is ? words() : "";
        if (is) run.pause();
        drawn.ask();
      },
      isLost: () => run.step > 0 && !isKept() && run.is !== "diverged" && isLost(),
    });
  const goOn = button("Pause", then(() => (run.is === "running" ? run.pause() : run.go())));
  const one = button("One step", then(() => run.oneStep()));
  const checkpoints = h("select", { id: uniqueId() });
  const back = discards(
    "Go back",
    "Discard the later steps",
    then(() => checkpoints.value !== "" && run.back(Number(checkpoints.value))),
    () => `You have not saved this model of ${stepsOf(run.step)}, and going back discards it. Save it below, or press “Discard the later steps” to go back.`,
    () => checkpoints.value !== "" && Number(checkpoints.value) < run.step,
  );
  const anew = discards(
    "New training",
    "Discard the model",
    () => {
      run.stop();
      run = null;
      trouble = "";
      draw();
      startButton.focus();
    },
    () => `You have not saved this model of ${stepsOf(run.step)}, and a new training discards it. Save it below, or press “Discard the model” to begin anew.`,
  );
  const player = h(
    "div",
    { class: "gf-lab-player" },
    goOn,
    one,
    h("div", { class: "gf-lab-back" }, h("label", { class: "gf-label", for: checkpoints.id }, "Checkpoint of step"), checkpoints, back),
    anew,
  );
  view.controls.classList.add("gf-lab-controls");
  view.controls.append(choices.element, h("div", { class: "gf-buttons" }, startButton), about, player);

  // --- the curve, and what is written ---

  const curve = learningCurve({ choose: (loss) => setAll(model, { guess: nearestGuess(loss) }) });
  const key = h("p", { class: "gf-panel-title" });
  const caption = h("p", { class: "gf-panel-title" });
  const paper = h("div", { class: "gf-paper gf-lab-paper", tabindex: 0, role: "group", "aria-label": "What the model writes" });
  const facts = h("dl", { class: "gf-lab-facts" });
  view.drawing.append(
    h(
      "div",
      { class: "gf-lab-main" },
      h("div", {}, key, h("div", { class: "gf-lab-chart", role: "img" }, curve.element), facts),
      h("div", { class: "gf-lab-written" }, caption, paper),
    ),
  );

  // --- afterwards ---

  const result = h("div", { class: "gf-lab-result" });
  const panels = [weightPanel(model, () => run), ...(isWhole ? [attentionPanel(model, () => run)] : [])];
  const details = h("div", { class: "gf-lab-panels", hidden: true }, panels.map((panel) => panel.element));
  view.line.after(result, details);

  async function start() {
    if (isLoading) return;
    const wanting = choices.wanting();
    if (wanting) return wanting.focus(); // what it needs is said next to it
    [trouble, isLoading] = ["", true];
    draw();
    try {
      const text = isOwn(get) ? own.text : await files.file("corpus", "the text", (file) => new TextDecoder().decode(file));
      begin(settingsOf(get, text));
    } catch (error) {
      trouble = reasonOf(error);
    }
    isLoading = false;
    draw();
    if (!run) return;
    goOn.focus({ preventScroll: true });
    curve.element.scrollIntoView({ block: "nearest" });
  }

  function begin(settings) {
    run?.stop();
    wanted.length = 0; // what was asked of the run before
    const mine = new TrainingRun(settings, (...news) => mine === run && hear(...news));
    [run, begun] = [mine, Object.fromEntries(TRAITS.map((name) => [name, get(name)]))];
  }

  function hear(told, message) {
    if (told === "progress" && message.losses.length) isKept = nowhere;
    if (told === "model") return keep(message);
    if (told === "begun") {
      for (const panel of panels) panel.begin();
      run.go();
    }
    if (told === "failed") {
      const isSentence = run.begun === null; // what is wrong with the text or the settings
      trouble = isSentence ? run.why : `The training has stopped because of an error: ${run.why}. You can start again.`;
      const had = player.contains(document.activeElement);
      run = null;
      draw();
      if (had) startButton.focus();
    }
    later();
  }

  // A reader who leaves the page loses what is not saved.
  const nowhere = () => false;
  let isKept = nowhere;
  const leaving = (event) => run?.step > 0 && !isKept() && event.preventDefault();
  addEventListener("beforeunload", leaving);

  // --- keeping the model ---

  const wanted = []; // what is to be done with the model when it comes
  const ask = (act) => () => {
    write(kept, "Waiting for the model …");
    wanted.push(act);
    run.askForModel();
  };
  const kept = h("p", { class: "gf-lab-kept", role: "status" });
  const keeping = h(
    "div",
    { class: "gf-lab-keeping" },
    h(
      "div",
      { class: "gf-buttons" },
      button("Save my model", ask((given, name) => {
        download(written({ ...given, tokenizer: { characters: given.characters } }), `${name}${ENDING}`);
        isKept = () => true;
        write(kept, `Your browser has saved ${name}${ENDING}. You can open it in Python, and under any view that has the line “Model”.`);
      })),
      button("Use it in this book’s views", ask(async (given, name) => {
        const mine = run;
        const offered = offer({ ...given, name });
        write(kept, "Your browser is storing the model …");
        const why = await offered.kept;
        if (mine !== run) return;
        if (run.step === Number(given.facts.steps)) isKept = offered.isKept;
        const here = offered.views ? `${offered.views === 1 ? "The view on this page that runs a GPT now shows" : "The views on this page that run a GPT now show"} it. ` : "";
        const there = `It is ready. ${here}You can ${here && "also "}choose it under the views of ${ELSEWHERE}: open “Model” there.`;
        const lost = `It is ready. ${here}But your browser does not keep it for other pages: ${why}. Save it as a file, and open the file there: open “Model” under a view.`;
        const masked = begun.broken === "mask" ? " The views run it with a mask, so there it writes something else." : "";
        kept.replaceChildren(...rich((why ? lost : there) + masked, model).flat());
        drawn.ask();
      })),
    ),
    kept,
  );
  result.after(keeping);
  function keep({ config, characters, tensors, step }) {
    const name = `my-gpt-${step}-steps${isBroken() ? `-${begun.broken}` : ""}`;
    const act = wanted.shift();
    const areFinite = Object.values(tensors).every(({ data }) => data.every(Number.isFinite));
    if (areFinite) act?.({ config, characters, tensors, facts: { steps: String(step) } }, name);
    else write(kept, "Some numbers of this model are not finite any more, so nothing can run it. Go back to a checkpoint first.");
    drawn.ask();
  }

  let timer = null;
  function later() {
    if (!matchMedia("(prefers-reduced-motion: reduce)").matches) return drawn.ask();
    timer ??= setTimeout(() => {
      timer = null;
      drawn.ask();
    }, CALM);
  }

  // --- drawing ---

  const isBroken = () => isWhole && chosen("broken") !== "nothing";
  const landmarksNow = () => run?.begun?.landmarks ?? (isOwn(chosen) ? {} : get("_landmarks"));
  const usual = () => get("_measured").nothing.map(({ loss }) => loss);
  const reference = () => (isBroken() ? get("_measured").nothing[0].course : null);

  function sentence() {
    if (trouble) return trouble;
    if (isLoading) return files.words() || "Loading the text …";
    if (!run) {
      const { training, length } = get("_recipe");
      const task = `At each step it will read ${training.batch_size} pieces of ${length} characters.`;
      if (isBroken()) return `The small model, with one change: ${BREAKS[chosen("broken")].toLowerCase()}. Choose the curve that you expect, and start.`;
      const lines = isOwn(chosen) ? "" : " The dashed lines show the loss of three ways to guess without a model.";
      return `This GPT begins with random weights. ${task}${lines} Where will the loss end? Give your guess, and start.`;
    }
    const { step } = run;
    if (warning) return warning;
    if (run.isSilent) return "The training has not answered for a while. Perhaps your browser has ended it, and then its model is lost. If it does not go on soon, begin a new training.";
    if (run.is === "preparing") return "Drawing random weights …";
    if (run.wentBack) return `Back at step ${grouped(step)}: everything later is discarded. Go on from here.`;
    if (run.is === "diverged") return `After ${stepsOf(step)}, the loss is not a number any more: training has diverged. Go back to a checkpoint, or begin a new training.`;
    if (run.is === "done") return judgement();
    if (run.isOver) return "All steps are done. Now the model reads the whole held-out text, which it has never learned from.";
    const below = run.losses.length ? passed(run.begun.landmarks, run.mean()) : null;
    const sees = isBroken() && chosen("broken") === "mask" ? "but each position can see the character that it has to predict" : null;
    const found = below ? `The loss is below that of ${ONLY[below]}${sees ? `, ${sees}` : `: ${KNOWS[below]}`}.` : "The model still guesses blindly.";
    if (run.is === "paused") return `Paused after ${stepsOf(step)}${run.losses.length ? `, at a loss of ${fixed(run.losses.at(-1), 2)}` : ""}. ${found}`;
    const quarters = Math.floor((4 * step) / run.begun.steps);
    return `${["Training", "A quarter of the steps is done", "Half of the steps are done", "Three quarters of the steps are done"][quarters]}. ${found}`;
  }

  function judgement() {
    const loss = run.judged;
    const whole = `The loss over the whole held-out text is ${fixed(loss, 2)}.`;
    if (!isBroken()) {
      const below = passed(run.begun.landmarks, loss);
      const mean = run.mean();
      const byHeart = loss - mean > BY_HEART ? ` In the text that it learns from, it is ${fixed(mean, 2)}: the model has begun to learn that text by heart.` : "";
      return `${whole}${verdictOf(chosen("guess"), loss)}${byHeart} ${below ? `That is below ${fixed(run.begun.landmarks[below], 2)}, the loss of ${ONLY[below]}.` : "That is no better than knowing nothing."}`;
    }
    const came = outcome(loss, usual(), run.begun.landmarks.unigram);
    const expected = chosen("expected");
    const right = expected && (expected === came ? " You saw that coming." : ` You expected that ${EXPECTED[expected]}.`);
    const [least, most] = [Math.min(...usual()), Math.max(...usual())].map((each) => fixed(each, 2));
    return `${whole} Without the break, three runs ended between ${least} and ${most}. ${CAME[came]}${right} ${WHY[chosen("broken")]}`;
  }

  function drawFacts() {
    const { step, speed } = run;
    const { batch_size, length, steps } = run.settings;
    const left = (steps - step) / speed;
    const pairs = [
      ["Step", `${grouped(step)} of ${grouped(steps)}`],
      ["Mean loss", run.losses.length ? fixed(run.mean(), 3) : "–"],
      ["Characters read", grouped(step * batch_size * length)],
      ["Steps a second", speed ? fixed(speed, speed < 10 ? 1 : 0) : "–"],
      ["Still to go", run.isOver ? "nothing" : run.is === "running" && speed ? duration(left) : "–"],
    ];
    if (facts.children.length !== pairs.length) facts.replaceChildren(...pairs.map(([term]) => h("div", {}, h("dt", {}, term), h("dd", {}))));
    pairs.forEach(([, value], i) => write(facts.children[i].lastChild, value));
  }

  // The loss at the end, among others.
  function results() {
    const { landmarks } = run.begun;
    const rows = Object.entries(landmarks).map(([name, loss]) => [LANDMARKS[name], fixed(loss, 3)]);
    if (chosen("guess") !== null && !isBroken()) rows.push(["your guess", fixed(chosen("guess"), 2)]);
    rows.push(["your model", fixed(run.judged, 3)]);
    const isBooks = isWhole && !isBroken() && !isOwn(chosen) && chosen("size") === "book";
    if (isBooks) rows.push([`the same recipe in PyTorch, ${get("_pytorch").length} seeds`, `${[Math.min, Math.max].map((end) => fixed(end(...get("_pytorch")), 3)).join(" to ")}`]);
    rows.sort(([, a], [, b]) => Number.parseFloat(b) - Number.parseFloat(a));
    return h("table", { class: "gf-readout" }, h("tbody", {}, rows.map(([label, loss]) => h("tr", { class: label === "your model" ? "gf-lab-mine" : null }, h("th", { scope: "row" }, label), h("td", {}, loss)))));
  }

  const tables = () => [
    {
      caption: "Losses of guessing, in nats per character",
      headers: ["What is known", "Loss"],
      rows: Object.entries(landmarksNow()).map(([name, loss]) => [LANDMARKS[name], fixed(loss, 4)]),
    },
    ...(run?.begun
      ? [
          {
            caption: "The loss during training",
            headers: ["Step", "Mean of the last losses", "Part of the held-out text"],
            rows: () => run.held.map(([step, loss]) => [grouped(step), step ? fixed(run.mean(step), 4) : "–", fixed(loss, 4)]),
          },
          { caption: "What the model wrote", headers: ["Step", "Text"], rows: () => run.samples.map(([step, text]) => [grouped(step), text]) },
        ]
      : []),
  ];

  let [said, listed] = [null, null]; // the line, and what the tables have
  function draw() {
    choices.draw();
    const isReady = run !== null && run.begun !== null;
    choices.element.hidden = run !== null;
    startButton.hidden = run !== null;
    put(startButton, { "aria-disabled": isLoading });
    player.hidden = run === null;
    about.hidden = run === null;
    details.hidden = !isReady;
    keeping.hidden = !isReady || run.step === 0;
    if (keeping.hidden) write(kept, "");
    facts.hidden = !isReady;
    view.busy("text", isLoading);

    const { steps, d_model, n_layers } = run?.settings ?? sizeOf(get);
    curve.draw({
      steps,
      losses: run?.losses ?? [],
      held: run?.judged ? [...run.held.slice(0, -1), [run.step, run.judged]] : (run?.held ?? []),
      landmarks: landmarksNow(),
      guess: isBroken() ? null : chosen("guess"),
      reference: reference(),
      isBroken: isBroken(),
      isAsking: run === null && !isBroken(),
    });
    const [step, text] = run?.samples.at(-1) ?? [null, ""];
    write(caption, step === null ? "What it writes" : `What it writes after ${stepsOf(step)}`);
    write(paper, step === null ? "Nothing yet." : text.trim() ? text : visible(text)); // of nothing but line breaks, the signs
    paper.classList.toggle("gf-lab-blank", step === null);
    const dotted = isBroken() ? " Dotted: the loss of the steps without the break." : "";
    write(key, run ? `Grey: the loss of each step. Line: the mean of the last steps. Circles: the loss on a part of the held-out text.${dotted}` : isBroken() ? dotted.trim() : "Tap or click the chart, or use the slider, to say where the loss will end.");

    if (run) {
      const where = run.inWorker === false ? " This browser has no worker for it, so the page trains by itself, in slices of a few milliseconds." : "";
      const slow = run.begun && !run.begun.isFast ? " This browser lacks WebAssembly with SIMD, so training will be very slow." : "";
      const change = isBroken() ? ` The break: ${BREAKS[chosen("broken")].toLowerCase()}.` : "";
      const count = isReady ? `, ${grouped(run.begun.parameters)} weights` : "";
      const end = run.judged === null ? "" : ` Done: a loss of ${fixed(run.judged, 2)} on the held-out text; more below.`;
      write(about, `${plural(n_layers, "block")}, ${d_model} wide${count}; ${isOwn(chosen) ? "your text" : "Shakespeare"}.${change}${where}${slow}${end}`);
      write(goOn, run.is === "running" ? "Pause" : "Go on");
      put(goOn, { "aria-disabled": run.isOver || !["running", "paused"].includes(run.is) });
      put(one, { "aria-disabled": run.isOver || run.is !== "paused" });
      const there = run.checkpoints.filter((each) => each <= run.step || run.is === "diverged");
      const chosenBefore = checkpoints.value;
      hold(checkpoints, ["", ...there], () => there.map((each) => h("option", { value: each }, grouped(each))));
      const isThere = chosenBefore !== "" && there.includes(Number(chosenBefore));
      if (there.length) checkpoints.value = isThere ? chosenBefore : there.at(-1);
      put(back, { "aria-disabled": there.length === 0 });
    }
    if (isReady) {
      drawFacts();
      for (const panel of panels) panel.draw();
    }
    hold(result, [run?.judged ?? "none", chosen("guess")], () => (run?.judged ? results() : []));

    const now = sentence();
    const news = [run?.samples.length, run?.held.length, run?.samples.at(-1)?.[0]].join();
    if (said !== now || listed !== news) {
      view.hush(said === now); // while only the tables change, nothing is read aloud
      [said, listed] = [now, news];
      view.says(now);
      view.describe(() => `The loss by step, with ${list(Object.values(LANDMARKS))} as landmarks. ${now}`);
      view.tables(tables);
      put(curve.element.parentElement, { "aria-label": `Chart of the loss by step. ${now}` });
    }
  }

  const drawn = redrawing(model, TRAITS, draw);
  return () => {
    run?.stop();
    clearTimeout(timer);
    for (const name of TRAITS) model.off(`change:${name}`, forget);
    removeEventListener("beforeunload", leaving);
    files.stop();
    choices.stop();
    drawn.stop();
  };
}

export default { render };
