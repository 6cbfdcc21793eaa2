// Compares pre-norm with post-norm in the book's own runs. See norm_placement_explorer.py.
import { range } from "../../widgets/kit/maths.js";
import { choice, fixed, frame, h, hold, onChange, setAll, slider, svg, toggle } from "../../widgets/kit/kit.js";
import { line, linear, roundNumbers, words, xAxis, yAxis } from "../../widgets/kit/plot.js";

const PLACEMENTS = ["pre", "post"];
const STUCK = 0.1; // a model less than this below the plateau is stuck on it
const INITS = [
  ["ours", "the book’s own", "the book’s own initial weights"],
  ["gpt2", "GPT-2’s", "GPT-2’s initial weights, which are smaller in deeper models"],
  ["xavier", "Xiong et al.’s", "the initial weights of Xiong et al. (Xavier, with ReLU)"],
];

// --- maths ----------------------------------------------------------------------------------------------------------

const sorted = (values) => [...new Set(values)].sort((a, b) => a - b);

// The median, the lowest and the highest of several seeds; null if any of them is missing.
export function spread(values) {
  if (values.length === 0 || values.includes(null)) return null;
  const order = values.toSorted((a, b) => a - b);
  const middle = (order.length - 1) / 2;
  return { median: (order[Math.floor(middle)] + order[Math.ceil(middle)]) / 2, low: order[0], high: order.at(-1) };
}

// --- words ----------------------------------------------------------------------------------------------------------

const between = ({ median, low, high }, digits) =>
  `${fixed(median, digits)} (${fixed(low, digits)} to ${fixed(high, digits)})`;

// ends: { pre, post }, the validation losses of all seeds.
export function trainingSentence({ depth, rate, warmup, ends, unigram }) {
  const where = `${depth} blocks, learning rate ${rate}, ${warmup ? "with" : "without"} a warm-up: `;
  const stuck = (name) => ends[name].filter((end) => end === null || end > unigram - STUCK).length;
  const told = PLACEMENTS.map((name) => {
    const found = spread(ends[name]);
    return found ? `${name}-norm ends at ${between(found, 2)}` : `at least one ${name}-norm run has no final loss`;
  });
  const all = ends.pre.length;
  const verdicts = PLACEMENTS.filter(stuck).map((name) =>
    stuck(name) === all
      ? `In all ${all} runs, ${name}-norm is stuck at ${fixed(unigram, 2)}: it has learned little more than how often each character occurs.`
      : `In ${stuck(name)} of ${all} runs, ${name}-norm is stuck at ${fixed(unigram, 2)}: it has learned little more than how often each character occurs.`,
  );
  const [pre, post] = PLACEMENTS.map((name) => spread(ends[name]));
  if (verdicts.length === 0) {
    if (post.high < pre.low) verdicts.push("Every run of post-norm ends below every run of pre-norm.");
    else if (pre.high < post.low) verdicts.push("Every run of pre-norm ends below every run of post-norm.");
    else verdicts.push("The results of the two overlap.");
  }
  return `${where}${told.join("; ")}. ${verdicts.join(" ")}`;
}

// ratios: { pre, post } for all seeds, the first block's gradient divided by the last's.
export function gradientsSentence({ depth, init, ratios }) {
  const [pre, post] = PLACEMENTS.map((name) => between(spread(ratios[name]), 2));
  const weights = INITS.find(([name]) => name === init)[2];
  return `${depth} blocks before any training, with ${weights}: the first block’s gradient is ${pre} times as long as the last block’s with pre-norm, and ${post} times with post-norm.`;
}

// --- drawing --------------------------------------------------------------------------------------------------------

const WIDTH = 340;
const BOX = { left: 46, right: 330, top: 10, bottom: 226 };
const HEIGHT = 270;

const plot = (...inside) => svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "gf-panel" }, inside);

const curve = (points, style) =>
  svg("path", { d: points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join(""), class: style });

// One run: a circle for pre-norm, a square for post-norm.
const mark = (name, x, y) =>
  name === "pre"
    ? svg("circle", { cx: x, cy: y, r: 4, class: "gf-norms-mark gf-norms-pre" })
    : svg("rect", { x: x - 3.5, y: y - 3.5, width: 7, height: 7, class: "gf-norms-mark gf-norms-post" });

// Runs with several seeds around x, side by side so that all are visible: pre-norm on the left, post-norm on the right.
const marks = (name, x, heights) =>
  heights.map((y, seed) => y !== null && mark(name, name === "pre" ? x - 5 - 6 * (heights.length - 1 - seed) : x + 5 + 6 * seed, y));

// Highlights the chosen one of several things that are next to each other.
const band = (x, width) =>
  svg("rect", { x: x - width / 2, y: BOX.top, width, height: BOX.bottom - BOX.top, class: "gf-norms-chosen" });

// A logarithmic scale, and round numbers on it.
function logarithmic([low, high]) {
  const place = linear([Math.log(low), Math.log(high)], [BOX.bottom, BOX.top]);
  const round = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100];
  return { place: (value) => place(Math.log(value)), values: round.filter((value) => low <= value && value <= high) };
}

const ends = (values) => [Math.min(...values), Math.max(...values)];
const tenths = (low, high, step) => range(Math.round((high - low) / step) + 1).map((i) => Number((low + i * step).toFixed(2)));

// --- view -----------------------------------------------------------------------------------------------------------

const TRAITS = ["view", "trained_depth", "learning_rate", "warmup", "untrained_depth", "init"];

function render({ model, el }) {
  const view = frame(el, {
    title: "Which one trains: pre-norm or post-norm?",
    hint: "Every line and every mark is one of the book’s own runs. Choose a depth, a learning rate and a warm-up, and compare.",
  });
  const { runs, gradients, unigram, warmup: warmupSteps } = model.get("_data");
  const depths = sorted(runs.map(({ depth }) => depth));
  const ratesOf = (depth) => sorted(runs.filter((run) => run.depth === depth).map(({ rate }) => rate));
  const untrained = Object.keys(gradients.ours.pre).map(Number);
  const found = (placement, depth, rate, warmup) =>
    runs.filter((run) => run.placement === placement && run.depth === depth && run.rate === rate && run.warmup === warmup);

  const training = [
    slider(model, "trained_depth", { label: "Blocks", values: depths }),
    slider(model, "learning_rate", {
      label: "Learning rate",
      values: () => ratesOf(model.get("trained_depth")),
      follows: ["trained_depth"],
    }),
    toggle(model, "warmup", { label: `Warm-up (${warmupSteps} steps)` }),
  ];
  const before = [
    slider(model, "untrained_depth", { label: "Blocks, untrained", values: untrained }),
    choice(model, "init", { label: "Initial weights", options: INITS }),
  ];
  view.controls.append(
    choice(model, "view", { label: "Show", options: [["training", "Training"], ["gradients", "Gradients before training"]] }),
    ...training,
    ...before,
  );
  // If a learning rate was not measured at the new depth, it becomes the nearest one that was: here, and in Python.
  const fit = () => {
    const [rate, rates] = [model.get("learning_rate"), ratesOf(model.get("trained_depth"))];
    const apart = (other) => Math.abs(Math.log(other / rate));
    if (!rates.includes(rate)) setAll(model, { learning_rate: rates.toSorted((a, b) => apart(a) - apart(b))[0] });
  };
  model.on("change:trained_depth", fit);

  const [left, right] = [h("div", { class: "gf-panel-cell" }), h("div", { class: "gf-panel-cell" })];
  const key = h(
    "p",
    { class: "gf-legend" },
    PLACEMENTS.map((name) =>
      h(
        "span",
        { class: "gf-scale" },
        svg("svg", { viewBox: "0 0 34 12", width: 34, height: 12, "aria-hidden": "true" }, line(0, 6, 34, 6, `gf-norms-line gf-norms-${name}`), mark(name, 17, 6)),
        `${name}-norm`,
      ),
    ),
    h("span", {}, "three seeds each"),
  );
  view.drawing.append(h("div", { class: "gf-panels" }, left, right), key);

  // --- training

  const everyLoss = runs.flatMap(({ loss }) => loss);
  const everyEnd = runs.map(({ end }) => end).filter(Number.isFinite);
  const [lowest, highest] = ends([...everyLoss, unigram]);
  const lossRange = [Math.floor(2 * lowest) / 2, Math.ceil(2 * highest) / 2];
  const [least, most] = ends([...everyEnd, unigram]);
  const endRange = [Math.floor(5 * (least - 0.02)) / 5, Math.ceil(5 * (most + 0.06)) / 5];
  const steps = Math.max(...runs.map((run) => run.steps));

  const plateau = (y, x, anchor) => [
    line(BOX.left, y, BOX.right, y, "gf-guide"),
    words("character frequencies alone", x, y - 8, anchor, "gf-norms-words"),
  ];

  function drawTraining({ trained_depth: depth, learning_rate: rate, warmup }) {
    const of = Object.fromEntries(PLACEMENTS.map((name) => [name, found(name, depth, rate, warmup)]));
    hold(left, ["training", depth, rate, warmup], () => {
      const x = linear([0, steps], [BOX.left, BOX.right]);
      const y = linear(lossRange, [BOX.bottom, BOX.top]);
      const at = (run, i) => x(((i + 0.5) * run.steps) / run.loss.length);
      return [
        h("p", { class: "gf-panel-title" }, "Loss during training, ", h("strong", {}, depth, " blocks")),
        plot(
          yAxis(BOX, { values: tenths(...lossRange, 0.5), place: y, format: (value) => fixed(value, 1), lines: true, title: "training loss" }),
          xAxis(BOX, { values: roundNumbers(steps, 4), place: x, title: "step", inside: true }),
          PLACEMENTS.flatMap((name) =>
            of[name].map((run) => curve(run.loss.map((loss, i) => [at(run, i), y(loss)]), `gf-norms-line gf-norms-${name}`)),
          ),
          plateau(y(unigram), BOX.right, "end"),
        ),
      ];
    });
    hold(right, ["training", depth, rate, warmup], () => {
      const x = linear([-0.5, depths.length - 0.5], [BOX.left, BOX.right]);
      const y = linear(endRange, [BOX.bottom, BOX.top]);
      const column = x(1) - x(0);
      return [
        h("p", { class: "gf-panel-title" }, "Final loss at every depth, ", h("strong", {}, `rate ${rate}`)),
        plot(
          band(x(depths.indexOf(depth)), column),
          yAxis(BOX, { values: tenths(...endRange, 0.2), place: y, format: (value) => fixed(value, 1), lines: true, title: "validation loss" }),
          xAxis(BOX, { values: range(depths.length), place: x, format: (i) => depths[i], title: "blocks" }),
          plateau(y(unigram), BOX.left + 4, "start"),
          depths.map((each, i) => {
            const all = PLACEMENTS.flatMap((name) =>
              marks(name, x(i), found(name, each, rate, warmup).map(({ end }) => (end === null ? null : y(end)))),
            );
            return all.length ? all : words("not run", x(i), (BOX.top + BOX.bottom) / 2, "middle");
          }),
        ),
      ];
    });
    const endsOf = Object.fromEntries(PLACEMENTS.map((name) => [name, of[name].map(({ end }) => end)]));
    view.says(trainingSentence({ depth, rate, warmup, ends: endsOf, unigram }));
    view.describe(() => `Loss of pre-norm and post-norm models with ${depth} blocks during training, and final loss at ${depths.join(", ")} blocks`);
    view.tables(() => [
      {
        caption: `Final validation loss ${warmup ? "with" : "without"} a warm-up, one number for each seed; character frequencies alone give ${fixed(unigram, 3)}`,
        headers: ["Blocks", "Rate", ...PLACEMENTS.flatMap((name) => range(of[name].length).map(() => name))],
        rows: () =>
          depths.flatMap((each) =>
            ratesOf(each).map((other) => [
              each,
              other,
              ...PLACEMENTS.flatMap((name) => found(name, each, other, warmup).map(({ end }) => (end === null ? "none" : fixed(end, 3)))),
            ]),
          ),
      },
    ]);
  }

  // --- gradients

  const lengths = Object.values(gradients).flatMap((one) => Object.values(one).flatMap((two) => Object.values(two).flat(2)));
  const ratiosOf = (init, name, depth) => gradients[init][name][depth].map((blocks) => blocks[0] / blocks.at(-1));
  const everyRatio = INITS.flatMap(([init]) => PLACEMENTS.flatMap((name) => untrained.flatMap((depth) => ratiosOf(init, name, depth))));
  const around = ([low, high]) => [low / 1.2, high * 1.2];
  const lengthAxis = logarithmic(around(ends(lengths)));
  const ratioAxis = logarithmic(around(ends(everyRatio)));

  function drawGradients({ untrained_depth: depth, init }) {
    const last = depth - 1;
    hold(left, ["gradients", depth, init], () => {
      const x = linear([0, last], [BOX.left + 8, BOX.right - 8]);
      const values = last < 4 ? range(depth) : [0, Math.round(last / 3), Math.round((2 * last) / 3), last];
      return [
        h("p", { class: "gf-panel-title" }, "Block by block, ", h("strong", {}, depth, " blocks")),
        plot(
          yAxis(BOX, { values: lengthAxis.values, place: lengthAxis.place, lines: true, title: "length of the gradient" }),
          xAxis(BOX, { values, place: x, title: "block", ticks: true }),
          PLACEMENTS.flatMap((name) =>
            gradients[init][name][depth].map((blocks) => curve(blocks.map((length, i) => [x(i), lengthAxis.place(length)]), `gf-norms-line gf-norms-${name}`)),
          ),
        ),
      ];
    });
    hold(right, ["gradients", depth, init], () => {
      const x = linear([-0.5, untrained.length - 0.5], [BOX.left, BOX.right]);
      const { place, values } = ratioAxis;
      return [
        h("p", { class: "gf-panel-title" }, "First block ÷ last block, at every depth"),
        plot(
          band(x(untrained.indexOf(depth)), x(1) - x(0)),
          yAxis(BOX, { values, place, lines: true, title: "first ÷ last" }),
          line(BOX.left, place(1), BOX.right, place(1), "gf-guide"),
          xAxis(BOX, { values: range(untrained.length), place: x, format: (i) => untrained[i], title: "blocks" }),
          untrained.map((each, i) =>
            PLACEMENTS.flatMap((name) => marks(name, x(i), ratiosOf(init, name, each).map(place))),
          ),
        ),
      ];
    });
    const ratios = Object.fromEntries(PLACEMENTS.map((name) => [name, ratiosOf(init, name, depth)]));
    view.says(gradientsSentence({ depth, init, ratios }));
    view.describe(() => `The length of the gradient in each of ${depth} blocks before training, and the first block’s divided by the last block’s at ${untrained.join(", ")} blocks`);
    view.tables(() => [
      {
        caption: "Length of each block’s gradient, one column for each seed",
        headers: ["Block", ...PLACEMENTS.flatMap((name) => gradients[init][name][depth].map(() => name))],
        rows: () => range(depth).map((block) => [block, ...PLACEMENTS.flatMap((name) => gradients[init][name][depth].map((blocks) => blocks[block].toPrecision(3)))]),
      },
      {
        caption: "The first block’s gradient divided by the last block’s",
        headers: ["Blocks", ...PLACEMENTS.flatMap((name) => gradients[init][name][depth].map(() => name))],
        rows: () => untrained.map((each) => [each, ...PLACEMENTS.flatMap((name) => ratiosOf(init, name, each).map((ratio) => fixed(ratio, 2)))]),
      },
    ]);
  }

  const stop = onChange(model, TRAITS, () => {
    const state = Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]));
    if (!ratesOf(state.trained_depth).includes(state.learning_rate)) return; // about to be corrected
    for (const control of training) control.hidden = state.view !== "training";
    for (const control of before) control.hidden = state.view !== "gradients";
    (state.view === "training" ? drawTraining : drawGradients)(state);
  });
  return () => {
    model.off("change:trained_depth", fit);
    stop();
  };
}

export default { render };
