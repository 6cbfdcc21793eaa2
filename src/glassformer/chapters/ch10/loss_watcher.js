// A loss curve that grows while a model trains, and that can be replayed afterwards. See loss_watcher.py.
import { range } from "../../widgets/kit/maths.js";
import { button, choice, fixed, frame, grouped, h, hold, put, redrawing, setAll, slider, svg, toggle, uniqueId, write } from "../../widgets/kit/kit.js";
import { BOX, HEIGHT, WIDTH } from "../../widgets/kit/curve.js";
import { line, linear, roundNumbers, words, xAxis, yAxis } from "../../widgets/kit/plot.js";

const SMOOTH = [1, 5, 10, 20, 50, 100, 200];
const PACES = [60, 30, 15, 10, 5];
const CALM = 1500; // milliseconds between samples, for readers who prefer reduced motion
const NEAR = 0.1; // distance in nats from the highest landmark
const FRAME = 100; // milliseconds by which one frame advances the run at most: a hidden tab continues where it was

// --- maths ----------------------------------------------------------------------------------------------------------

// points: [step, mean, lowest, highest], as loss_watcher.py stores them. For each, the average over the last `over` steps,
// never over later ones; a point counts as many times as it has steps. null if a loss is not a number.
export const smoothed = (points, over) =>
  points.map(([now], i) => {
    let [sum, weight] = [0, 0];
    for (let j = i; j >= 0 && points[j][0] > now - over; j--) {
      const [step, mean] = points[j];
      if (mean === null) return null;
      const steps = j ? step - points[j - 1][0] : 1;
      sum += mean * steps;
      weight += steps;
    }
    return sum / weight;
  });

// The first step at which the line is below a landmark, up to the point `at`; null: none so far.
export function below(points, smooth, value, at) {
  const i = smooth.findIndex((loss) => loss !== null && loss < value);
  return i < 0 || i > at ? null : points[i][0];
}

// The last sample written up to a step; −1: none.
export const written = (samples, step) => samples.findLastIndex(([when]) => when <= step);

const descending = (landmarks) => Object.entries(landmarks).sort(([, a], [, b]) => b - a);

// --- words ----------------------------------------------------------------------------------------------------------

// What it means if the loss is below a landmark.
const MEANS = {
  "ln V": "lower than for a model that gives every character the same chance",
  unigram: "lower than for a model that knows only how often each character occurs",
  bigram: "lower than for a model that knows only which character follows which",
  trigram: "lower than for a model that knows only which character follows each pair",
};
const called = (name, value) => (name === "ln V" ? `ln V = ${fixed(value, 2)}` : `${name}’s ${fixed(value, 2)}`);
const the = (name, value) => (name === "ln V" ? called(name, value) : `the ${called(name, value)}`);
const stepsOf = (step) => (step === 1 ? "1 step" : `${grouped(step)} steps`);

// loss: the smoothed loss, or null if it is not a number.
export function sentence({ step, loss, landmarks, per_step: perStep, steps, newest }) {
  if (step === null) return `No loss yet${steps ? ` of ${stepsOf(steps)}` : ""}: the curve grows while the training runs.`;
  const read = perStep && step ? `, ${grouped(step * perStep)} characters read` : "";
  // A loss after all steps but one may be the last: the loss of a step is that of the weights before it.
  const going = newest && steps > step + 1 ? ` ${stepsOf(steps - step)} to go.` : "";
  const when = `After ${stepsOf(step)}${read}`;
  if (loss === null) return `${when}: the loss is not a number. Training has diverged.`;
  const marks = descending(landmarks);
  const passed = marks.filter(([, value]) => loss < value).at(-1);
  const at = `${when}: loss ${fixed(loss, 2)}`;
  if (!marks.length) return `${at}.${going}`;
  const [name, value] = passed ?? marks[0];
  if (name === "ln V" && Math.abs(loss - value) < NEAR)
    return `${at}, near ${called(name, value)}: what it costs to give every character the same chance.${going}`;
  if (!passed) return `${at}, above ${the(name, value)}${name === "ln V" ? ": worse than giving every character the same chance" : ""}.${going}`;
  return `${at}, below ${the(name, value)}${name in MEANS ? `: ${MEANS[name]}` : ""}.${going}`;
}

// --- drawing --------------------------------------------------------------------------------------------------------

const log = (step) => Math.log10(1 + step);

// The range of losses in the drawing: half numbers around landmarks and curve. What is far above is cut off.
export function limits(points, landmarks) {
  const values = Object.values(landmarks);
  const [lows, highs] = [2, 3].map((i) => points.map((point) => point[i]).filter((loss) => loss !== null));
  const most = values.length ? 1.25 * Math.max(...values) : Number.POSITIVE_INFINITY;
  const low = Math.min(...values, ...lows, ...(values.length + lows.length ? [] : [0]));
  const high = Math.max(...values, ...highs.map((loss) => Math.min(loss, most)), low + 0.5);
  return [Math.floor(2 * low) / 2, Math.ceil(2 * high) / 2];
}

function ticks(axis, last) {
  if (axis === "linear") return roundNumbers(last, 4);
  return [0, ...range(Math.floor(Math.log10(last)) + 1).map((i) => 10 ** i)];
}

// The curve, and a function that brings it to another state.
function chart() {
  const id = uniqueId();
  const revealed = svg("rect", { x: 0, y: 0, height: HEIGHT });
  const scene = svg("g");
  const raw = svg("polygon", { class: "gf-curve-raw" });
  const smooth = svg("path", { class: "gf-curve-line" });
  const names = svg("g");
  const guide = line(0, BOX.top, 0, BOX.bottom, "gf-loss-now");
  const spot = svg("circle", { r: 5, class: "gf-curve-spot" });
  const said = svg("g");
  const element = svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "gf-panel gf-loss-chart" },
    svg("clipPath", { id }, revealed),
    scene,
    guide,
    svg("g", { "clip-path": `url(#${id})` }, raw, smooth),
    names,
    said,
    spot,
  );
  let place = {};

  // What does not change while the run plays.
  function build({ points, line: values, landmarks, samples, axis, last, version }) {
    const [low, high] = limits(points, landmarks);
    const along = axis === "log" ? log : Number;
    const across = linear([0, along(last)], [BOX.left, BOX.right]);
    const x = (step) => across(along(step));
    const y = linear([low, high], [BOX.bottom, BOX.top]);
    const at = (step, loss) => `${x(step).toFixed(1)},${y(Math.min(loss, high)).toFixed(1)}`;
    place = { x, y: (loss) => y(Math.min(loss, high)) };
    const marks = descending(landmarks);
    hold(scene, [axis, last, low, high, ...marks.flat()], () => [
      yAxis(BOX, { values: range(Math.round(high - low) + 1).map((i) => Math.ceil(low) + i).filter((loss) => loss <= high), place: y, lines: true, title: "loss (nats)" }),
      xAxis(BOX, { values: ticks(axis, last), place: x, format: grouped, ticks: true, title: axis === "log" ? "step (logarithmic)" : "step", inside: axis === "linear" && ticks(axis, last).at(-1) > 0.93 * last }),
      marks.map(([, value]) => line(BOX.left, y(value), BOX.right, y(value), "gf-curve-mark")),
    ]);
    hold(said, [version, axis, last], () =>
      samples.map(([step]) => svg("path", { d: `M${x(step).toFixed(1)} ${BOX.bottom}l-4 -7h8z`, class: "gf-loss-sample" })),
    );
    const real = points.filter(([, mean]) => mean !== null);
    put(raw, { points: [...real.map(([step, , lowest]) => at(step, lowest)), ...real.map(([step, , , highest]) => at(step, highest)).reverse()].join(" ") });
    let drawing = false;
    const d = values.map((loss, i) => {
      if (loss === null) {
        drawing = false;
        return "";
      }
      const to = `${drawing ? "L" : "M"}${at(points[i][0], loss)}`;
      drawing = true;
      return to;
    });
    put(smooth, { d: d.join("") });
  }

  function show({ step, loss, line: values, landmarks, since, axis, version, raw: isRaw }) {
    // Next to its line is a landmark's name, and where the curve first went below it: on a linear axis at the top right, on a
    // logarithmic one at the bottom left, where they do not cover the curve.
    hold(names, [version, ...since], () =>
      descending(landmarks).map(([name, value], i) => {
        const left = axis === "log" && value < values[0] - 0.5;
        return words(
          `${name} ${fixed(value, 2)}${since[i] === null ? "" : ` · first below at step ${grouped(since[i])}`}`,
          left ? BOX.left + 6 : BOX.right - 6,
          place.y(value) + (left ? 14 : -5),
          left ? "start" : "end",
          "gf-curve-name",
        );
      }),
    );
    const there = step !== null;
    for (const each of [guide, spot]) each.toggleAttribute("hidden", !there || (each === spot && loss === null));
    raw.toggleAttribute("hidden", !isRaw);
    put(revealed, { width: there ? (place.x(step) + 0.5).toFixed(1) : 0 });
    if (!there) return;
    const x = place.x(step).toFixed(1);
    put(guide, { x1: x, x2: x });
    if (loss !== null) put(spot, { cx: x, cy: place.y(loss).toFixed(1) });
  }

  // The horizontal position of a point on the page, in the drawing's own pixels.
  const across = (clientX) => {
    const { left, width } = element.getBoundingClientRect();
    return ((clientX - left) * WIDTH) / width;
  };
  return { element, build, show, across, x: (step) => place.x(step) };
}

// --- view -----------------------------------------------------------------------------------------------------------

const TRAITS = ["points", "samples", "landmarks", "steps", "per_step", "at", "axis", "smooth", "raw"];

function render({ model, el }) {
  const view = frame(el, {
    title: "Watch it learn",
    hint: "Play the run, or walk along it with the slider. Which line does it cross first, and what does it write by then?",
  });
  view.drawing.setAttribute("role", "group"); // role="img" must not contain what scrolls

  const points = () => model.get("points");
  const newest = () => points().length - 1;
  const place = () => (model.get("at") < 0 ? newest() : Math.min(model.get("at"), newest()));
  const told = (i) => (i >= newest() ? -1 : Math.max(0, i)); // the last one is always the newest

  // --- playing

  let timer = null;
  let calm = null;
  const playing = () => timer !== null || calm !== null;
  function pause() {
    if (!playing()) return;
    cancelAnimationFrame(timer);
    clearTimeout(calm);
    [timer, calm] = [null, null];
    write(play, "Play");
    model.save_changes();
  }
  const nextSample = () => {
    const step = points()[place()][0];
    const [when] = model.get("samples").find(([each]) => each > step) ?? [null];
    return when === null ? -1 : points().findIndex(([each]) => each >= when);
  };
  function begin() {
    if (newest() < 1) return;
    write(play, "Pause");
    if (place() === newest()) model.set("at", 0);
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
      const jump = () => {
        model.set("at", told(nextSample() < 0 ? newest() : nextSample()));
        if (model.get("at") < 0) pause();
        else calm = setTimeout(jump, CALM);
      };
      calm = setTimeout(jump, CALM);
      return;
    }
    let [exact, before] = [place(), null];
    const tick = (now) => {
      exact += (Math.min(now - (before ?? now), FRAME) / 1000 / model.get("pace")) * newest();
      before = now;
      model.set("at", told(Math.floor(exact)));
      if (model.get("at") < 0) pause();
      else timer = requestAnimationFrame(tick);
    };
    timer = requestAnimationFrame(tick);
  }
  const go = (i) => {
    pause();
    setAll(model, { at: told(i) });
  };

  // --- controls

  const play = button("Play", () => (playing() ? pause() : begin()));
  const next = button("Next sample", () => {
    const there = nextSample();
    const [[first]] = model.get("samples");
    go(there < 0 ? points().findIndex(([each]) => each >= first) : there);
  });
  const steps = slider(model, "at", {
    label: "Step",
    values: () => [...range(Math.max(0, newest())), -1],
    format: (at) => grouped(points().at(at)?.[0] ?? 0),
    follows: ["points"],
  });
  steps.classList.add("gf-loss-steps");
  steps.addEventListener("input", pause);
  view.controls.classList.add("gf-loss-controls");
  view.controls.append(
    h("div", { class: "gf-loss-player" }, play, next, steps),
    slider(model, "smooth", { label: "Average over", values: SMOOTH, format: stepsOf }),
    slider(model, "pace", { label: "Plays in", values: PACES, format: (seconds) => `${seconds} s` }),
    choice(model, "axis", { label: "Axis of steps", options: [["linear", "linear"], ["log", "log"]] }),
    toggle(model, "raw", { label: "Raw losses as well" }),
  );

  // --- the curve, and what is written

  const curve = chart();
  const point = (event) => {
    if (event.buttons === 0 || newest() < 0) return;
    const x = curve.across(event.clientX);
    const apart = points().map(([step]) => Math.abs(curve.x(step) - x));
    go(apart.indexOf(Math.min(...apart)));
  };
  for (const name of ["pointerdown", "pointermove"]) curve.element.addEventListener(name, point);
  const [key, caption] = [1, 2].map(() => h("p", { class: "gf-panel-title" }));
  const paper = h("div", { class: "gf-paper gf-loss-paper", tabindex: 0, role: "group", "aria-label": "What the model writes" });
  view.drawing.append(
    h(
      "div",
      { class: "gf-loss-panels" },
      h("div", {}, key, curve.element),
      h("div", { class: "gf-loss-written" }, caption, paper),
    ),
  );

  let known = {}; // the data that the curve was built from
  let version = 0;

  function draw() {
    const state = Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]));
    if (TRAITS.some((name) => !["at", "raw"].includes(name) && known[name] !== state[name])) {
      known = { ...state, line: smoothed(state.points, state.smooth), version: ++version };
      known.last = Math.max(1, state.points.at(-1)?.[0] ?? 0, state.steps);
      curve.build(known);
    }
    const i = place();
    const [step, loss] = i < 0 ? [null, null] : [state.points[i][0], known.line[i]];
    const marks = descending(state.landmarks);
    const since = marks.map(([, value]) => below(state.points, known.line, value, i));
    curve.show({ ...known, raw: state.raw, step, loss, since });
    play.disabled = newest() < 1;
    next.disabled = newest() < 1 || state.samples.length === 0;

    write(key, `Grey: the loss of each step. Line: the average over the last ${stepsOf(state.smooth)}`);

    const sample = step === null ? -1 : written(state.samples, step);
    const [when, text] = state.samples[sample] ?? [null, ""];
    write(caption, when === null ? "What it writes" : `What it writes after ${stepsOf(when)}`);
    write(paper, when === null ? "Nothing yet." : text);
    put(paper, { class: `gf-paper gf-loss-paper${when === null ? " gf-loss-blank" : ""}` });

    const said = sentence({ ...state, step, loss, newest: i === newest() });
    view.says(said);
    view.describe(() => `Loss by step, up to step ${step ?? 0} of ${known.last}, with ${marks.length} landmarks. ${said}`);
    view.tables(() => [
      {
        caption: "Landmarks, and where the line was first below",
        headers: ["Landmark", "Loss", "First below at step"],
        rows: () => marks.map(([name, value], j) => [name, fixed(value, 4), since[j] === null ? "not yet" : grouped(since[j])]),
      },
      {
        caption: `The loss, and its average over the last ${stepsOf(state.smooth)}`,
        headers: ["Step", "Loss", "Average"],
        rows: () =>
          state.points.slice(0, i + 1).map(([each, mean], j) => [grouped(each), ...[mean, known.line[j]].map((x) => (x === null ? "not a number" : fixed(x, 4)))]),
      },
    ]);
  }

  const drawn = redrawing(model, TRAITS, draw);
  return () => {
    pause();
    drawn.stop();
  };
}

export default { render };
