// A learning-rate schedule that the reader shapes, and the results of such schedules in the book. See schedule_designer.py.
import { range } from "../../widgets/kit/maths.js";
import { button, choice, fixed, frame, grouped, h, hold, onChange, put, setAll, slider, svg, write } from "../../widgets/kit/kit.js";
import { cividis, ink, legend, line, linear, roundNumbers, xAxis, yAxis } from "../../widgets/kit/plot.js";

const PEAKS = [1, 2, 3, 5, 7]; // the values within every decade
const STEPS = [100, 200, 300, 500, 1000, 2000, 5000];
const DECAYS = [["none", "none"], ["linear", "linear"], ["cosine", "cosine"]];
const GRAIN = 60; // steps of the warm-up's slider
const PROGRESS = range(201).map((i) => i / 200);

// --- maths ----------------------------------------------------------------------------------------------------------

// The fraction of the peak at a step: glassformer.train.schedule.rate_share.
export function rateShare({ warmup, decay, final_share: finalShare, steps }, step) {
  if (step < warmup) return (step + 1) / (warmup + 1);
  const progress = Math.min(1, (step - warmup) / Math.max(1, steps - warmup));
  const falling = { none: 1, linear: 1 - progress, cosine: (1 + Math.cos(Math.PI * progress)) / 2 };
  return finalShare + (1 - finalShare) * falling[decay];
}

export const rates = (state) => range(state.steps).map((step) => state.peak * rateShare(state, step));

// The area between two schedules, each over its own steps and with a peak of 1.
const apart = (a, b) => {
  const share = (state, part) => rateShare(state, part * (state.steps - 1));
  return PROGRESS.reduce((sum, part) => sum + Math.abs(share(a, part) - share(b, part)), 0) / PROGRESS.length;
};

// The nearest of the stored choices, by the ratio of the peaks and then by shape; and whether it is exactly the same schedule.
export function nearest(state, { choices, steps }) {
  const ratio = ({ peak }) => Math.abs(Math.log(peak / state.peak));
  const peak = Math.min(...choices.map(ratio));
  const courses = choices.map((each) => ({ ...each, steps, final_share: 0 }));
  const shapes = courses.map((each) => (ratio(each) > peak + 1e-9 ? Number.POSITIVE_INFINITY : apart(state, each)));
  const index = shapes.indexOf(Math.min(...shapes));
  const same = state.steps === steps && peak < 1e-9 && range(steps).every((step) => Math.abs(rateShare(state, step) - rateShare(courses[index], step)) < 1e-9);
  return { index, same };
}

// For a choice: the median, lowest and highest of the seeds' final losses; null if a run broke off.
export function ends({ runs }) {
  const found = runs.map(({ end }) => end);
  if (found.some((end) => end === null)) return null;
  const order = found.toSorted((a, b) => a - b);
  const middle = (order.length - 1) / 2;
  return { median: (order[Math.floor(middle)] + order[Math.ceil(middle)]) / 2, low: order[0], high: order.at(-1) };
}

// --- words ----------------------------------------------------------------------------------------------------------

const plain = (x) => String(Number(x.toPrecision(3)));
const warming = (warmup) => (warmup ? `warm-up ${warmup}` : "no warm-up");
const decaying = (decay) => (decay === "none" ? "no decay" : decay);
const named = ({ peak, warmup, decay }) => `peak ${plain(peak)}, ${warming(warmup)}, ${decaying(decay)}`;
const spread = ({ median, low, high }) => `${fixed(median, 2)} (${fixed(low, 2)} to ${fixed(high, 2)})`;

function course({ peak, warmup, decay, final_share: finalShare, steps }) {
  if (warmup >= steps) return `Your rate is still rising when the run ends, at step ${grouped(steps)}.`;
  const rising = warmup ? `Your rate rises to ${plain(peak)} at step ${grouped(warmup)}` : `Your rate starts at ${plain(peak)}`;
  if (decay === "none" || finalShare === 1) return `${rising} and stays there.`;
  return `${rising} and falls along ${decay === "linear" ? "a line" : "half a cosine"} to ${plain(peak * finalShare)} at step ${grouped(steps)}.`;
}

// Compared with all other choices only once the table is open.
export function sentence(state, { choices, steps }) {
  const { index, same } = nearest(state, { choices, steps });
  const chosen = choices[index];
  const known = choices.map(ends);
  const own = known[index];
  const stored = same ? `It was measured: ${named(chosen)}.` : `The nearest that was measured: ${named(chosen)}${state.steps === steps ? "" : `, in ${grouped(steps)} steps`}.`;
  const count = chosen.runs.length;
  if (own === null) {
    const broken = chosen.runs.filter(({ end }) => end === null);
    const at = broken.map((run) => grouped(run.steps)).join(" and ");
    return `${course(state)} ${stored} ${broken.length} of its ${count} runs broke off, after ${at} steps: the loss was not a number.`;
  }
  const found = `${course(state)} ${stored} Its ${count} runs end at a validation loss of ${spread(own)}.`;
  if (!state.table) return found;
  const finished = known.filter((each) => each !== null);
  const lower = finished.filter(({ median }) => median < own.median).length;
  const lowest = Math.min(...finished.map(({ median }) => median));
  const best = choices[known.findIndex((each) => each?.median === lowest)];
  const rank = lower
    ? `Judged by the median, ${lower} of the other ${choices.length - 1} choices end${lower === 1 ? "s" : ""} lower, the lowest at ${fixed(lowest, 2)}: ${named(best)}.`
    : `Judged by the median, none of the other ${choices.length - 1} choices ends lower.`;
  return `${found} ${rank}`;
}

// --- drawing --------------------------------------------------------------------------------------------------------

const WIDTH = 340;
const HEIGHT = 236;
const BOX = { left: 52, right: 330, top: 10, bottom: 194 };

const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

// The round rate at or above the peak.
export function ceiling(peak) {
  const decade = 10 ** Math.floor(Math.log10(peak) + 1e-9);
  return Number((decade * [1, 2, 3, 5, 10].find((times) => times * decade >= peak * (1 - 1e-9))).toPrecision(2));
}

function rateChart() {
  const box = { ...BOX, left: 64 }; // for four digits after the point
  const scene = svg("g");
  const [yours, theirs] = ["gf-rate-yours", "gf-rate-stored"].map((style) => svg("path", { class: style }));
  const element = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "gf-panel" }, scene, theirs, yours);
  // Corners, and a number of points between them.
  const places = ({ warmup, steps }) =>
    [...new Set([0, warmup - 1, warmup, steps - 1, ...range(241).map((i) => Math.round((i / 240) * (steps - 1)))])]
      .filter((step) => 0 <= step && step < steps)
      .sort((a, b) => a - b);
  function show(state, other) {
    const last = Math.max(state.steps, other.steps);
    const top = ceiling(Math.max(state.peak, other.peak));
    const x = linear([0, last], [box.left, box.right]);
    const y = linear([0, top], [box.bottom, box.top]);
    hold(scene, [last, top], () => [
      yAxis(box, { values: [0, top / 2, top], place: y, format: plain, lines: true, title: "learning rate" }),
      xAxis(box, { values: roundNumbers(last, 3), place: x, format: grouped, ticks: true, title: "step" }),
    ]);
    for (const [curve, each] of [[yours, state], [theirs, other]])
      put(curve, { d: path(places(each).map((step) => [x(step), y(each.peak * rateShare(each, step))])) });
  }
  return { element, show };
}

function lossChart({ choices, steps }) {
  const runs = choices.flatMap((each) => each.runs);
  const all = [...runs.flatMap(({ loss }) => loss), ...runs.map(({ end }) => end).filter((end) => end !== null)];
  const most = 1.1 * Math.max(...runs.map(({ loss }) => loss[0] ?? 0)); // whatever rises above the initial losses is cut off
  const low = Math.floor(2 * Math.min(...all)) / 2;
  const high = Math.ceil(2 * Math.min(Math.max(...all), most)) / 2;
  const x = linear([0, steps], [BOX.left, BOX.right]);
  const y = (loss) => linear([low, high], [BOX.bottom, BOX.top])(Math.min(loss, high));
  const curve = (run) => path(run.loss.map((loss, i) => [x(((i + 0.5) * run.steps) / run.loss.length), y(loss)]));
  const chosen = svg("g");
  const element = svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "gf-panel" },
    yAxis(BOX, { values: range(Math.round(high - low) + 1).map((i) => Math.ceil(low) + i).filter((loss) => loss <= high), place: y, lines: true, title: "training loss (nats)" }),
    xAxis(BOX, { values: roundNumbers(steps, 3), place: x, ticks: true, title: "step" }),
    svg("path", { d: runs.map(curve).join(""), class: "gf-loss-others" }),
    chosen,
  );
  const show = (index) =>
    hold(chosen, [index], () =>
      choices[index].runs.map((run) => [
        svg("path", { d: curve(run), class: "gf-loss-chosen" }),
        run.end !== null
          ? svg("circle", { cx: x(steps), cy: y(run.end), r: 3.5, class: "gf-loss-end" })
          : svg("path", { d: `M${x(run.steps).toFixed(1)} ${y(run.loss.at(-1) ?? high).toFixed(1)}m-4-4l8 8m0-8l-8 8`, class: "gf-loss-broken" }),
      ]),
    );
  return { element, show };
}

// --- view -----------------------------------------------------------------------------------------------------------

const TRAITS = ["peak", "warmup", "decay", "final_share", "steps", "table"];
const sorted = (values) => [...new Set(values)].sort((a, b) => a - b);

function render({ model, el }) {
  const view = frame(el, {
    title: "Design a learning-rate schedule",
    hint: "Before you move the peak, say where the loss will end. Does a warm-up help, does a decay, and at which peaks? When you have made your guess, open the table of all results.",
  });
  view.drawing.setAttribute("role", "group"); // role="img" must not contain buttons
  const data = model.get("_data");
  const { choices, steps } = data;
  const known = choices.map(ends);
  const peaks = sorted(choices.map(({ peak }) => peak));
  const rows = choices.filter(({ peak }) => peak === peaks[0]);
  const offered = [-4, -3, -2, -1].flatMap((decade) => PEAKS.map((times) => Number(`${times}e${decade}`)));

  view.controls.append(
    slider(model, "peak", { label: "Peak", values: () => sorted([...offered, 1, ...peaks, model.get("peak")]), format: plain }),
    slider(model, "warmup", {
      label: "Warm-up",
      values: () => sorted([...range(GRAIN + 1).map((i) => Math.round((i * model.get("steps")) / GRAIN)), model.get("warmup")]),
      format: (warmup) => `${grouped(warmup)} steps`,
      follows: ["steps"],
    }),
    slider(model, "steps", { label: "Steps", values: () => sorted([...STEPS, steps, model.get("steps")]), format: grouped }),
    slider(model, "final_share", { label: "Final share", min: 0, max: 1, step: 0.05, format: (share) => `${fixed(100 * share, 0)} %` }),
    choice(model, "decay", { label: "Decay", options: DECAYS }),
  );
  view.controls.classList.add("gf-course-controls");

  // --- all measured choices, a button for each

  const finished = known.filter((each) => each !== null).map(({ median }) => median);
  const [least, most] = [Math.min(...finished), Math.max(...finished)];
  const shade = (loss) => (loss - least) / Math.max(1e-9, most - least);
  const choose = (i) => {
    const { peak, warmup, decay } = choices[i];
    setAll(model, { peak, warmup, decay, final_share: 0, steps });
  };
  const move = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -peaks.length, ArrowDown: peaks.length };
  const cells = rows.flatMap(({ warmup, decay }) =>
    peaks.map((peak) => choices.findIndex((each) => each.peak === peak && each.warmup === warmup && each.decay === decay)),
  );
  const buttons = cells.map((i, cell) => {
    const found = known[i];
    const broken = choices[i].runs.filter(({ end }) => end === null).length;
    const rgb = found && cividis.channels(shade(found.median));
    return h(
      "button",
      {
        type: "button",
        class: `gf-course${found ? "" : " gf-course-broken"}`,
        style: found && `background: rgb(${rgb.join(", ")}); color: ${ink(rgb)}`,
        "aria-label": `${named(choices[i])}: ${found ? spread(found) : `${broken} of ${choices[i].runs.length} runs broke off`}`,
        onclick: () => choose(i),
        onkeydown: (event) => {
          const to = cell + (move[event.key] ?? 0);
          if (to === cell || event.altKey || event.ctrlKey || event.metaKey) return;
          event.preventDefault();
          const sideways = Math.abs(move[event.key]) === 1;
          if (to < 0 || to >= cells.length || (sideways && Math.floor(to / peaks.length) !== Math.floor(cell / peaks.length))) return;
          choose(cells[to]);
          buttons[to].focus();
        },
      },
      found ? fixed(found.median, 2) : `${broken} of ${choices[i].runs.length} broke off`,
    );
  });
  const table = h(
    "div",
    {
      class: "gf-courses",
      role: "group",
      "aria-label": "All schedules that were measured; the arrow keys choose one",
      style: `grid-template-columns: minmax(0, auto) repeat(${peaks.length}, minmax(0, 1fr))`,
    },
    h("span", { class: "gf-course-name" }, "peak"),
    peaks.map((peak) => h("span", { class: "gf-course-peak" }, plain(peak))),
    rows.map(({ warmup, decay }, row) => [
      h("span", { class: "gf-course-name" }, `${decaying(decay)}, ${warming(warmup)}`),
      buttons.slice(row * peaks.length, (row + 1) * peaks.length),
    ]),
  );

  const rateOf = rateChart();
  const lossOf = lossChart(data);
  const caption = h("p", { class: "gf-panel-title" });
  const sample = (style) =>
    svg("svg", { viewBox: "0 0 30 12", width: 30, height: 12, "aria-hidden": "true" }, line(1, 6, 29, 6, style));
  const seeds = choices[0].runs.length;
  const reveal = button(`Show the results of all ${choices.length} schedules`, () => {
    setAll(model, { table: true });
    buttons.find((each) => each.tabIndex === 0)?.focus();
  });
  const results = h("div", {});
  view.drawing.append(
    h(
      "div",
      { class: "gf-panels" },
      h(
        "div",
        { class: "gf-panel-cell" },
        h(
          "p",
          { class: "gf-panel-title" },
          h("span", { class: "gf-scale" }, sample("gf-rate-yours"), "yours"),
          " ",
          h("span", { class: "gf-scale gf-rate-key" }, sample("gf-rate-stored"), "the nearest that was measured"),
        ),
        rateOf.element,
      ),
      h("div", { class: "gf-panel-cell" }, caption, lossOf.element),
    ),
    reveal,
    results,
  );
  results.append(
    h("p", { class: "gf-panel-title gf-courses-title" }, `Validation loss at the end of ${grouped(steps)} steps, the median of ${seeds} seeds`),
    table,
    legend(cividis, fixed(least, 2), fixed(most, 2), h("span", {}, `Framed: the nearest to yours; above, the curves of its ${seeds} seeds and, as dots, their validation losses. Grey: all other runs.`)),
  );

  return onChange(model, TRAITS, () => {
    const state = Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]));
    const { index, same } = nearest(state, data);
    results.toggleAttribute("hidden", !state.table);
    reveal.toggleAttribute("hidden", state.table);
    rateOf.show(state, { ...choices[index], steps, final_share: 0 });
    lossOf.show(index);
    write(caption, `Measured: ${named(choices[index])}`);
    cells.forEach((i, cell) => put(buttons[cell], { "aria-pressed": i === index, tabindex: i === index ? 0 : -1 }));
    view.says(sentence(state, data));
    view.describe(() => `A learning rate by step, and the loss of ${seeds} stored runs ${same ? "with this schedule" : "with the nearest schedule"}. ${sentence(state, data)}`);
    view.tables(() => [
      {
        caption: "Your learning rate",
        headers: ["Step", "Part of the peak", "Rate"],
        rows: () => {
          const every = Math.max(1, Math.ceil(state.steps / 60));
          const shown = sorted([...range(state.steps).filter((step) => step % every === 0), Math.min(state.warmup, state.steps - 1), state.steps - 1]);
          return shown.map((step) => [grouped(step), fixed(rateShare(state, step), 4), (state.peak * rateShare(state, step)).toPrecision(4)]);
        },
      },
      ...(state.table ? [{
        caption: `Validation loss after ${grouped(steps)} steps, a column for each seed`,
        headers: ["Decay", "Warm-up", "Peak", ...choices[0].runs.map(({ seed }) => `seed ${seed}`), "median"],
        rows: () =>
          cells.map((i) => {
            const { peak, warmup, decay, runs } = choices[i];
            return [decay, warmup, plain(peak), ...runs.map(({ end }) => (end === null ? "broke off" : fixed(end, 4))), known[i] ? fixed(known[i].median, 4) : "–"];
          }),
      }] : []),
    ]);
  });
}

export default { render };
