// The curve of a training that is under way: all losses, their mean, the held-out text, and the landmarks.

import { range } from "../kit/maths.js";
import { fixed, grouped, hold, put, svg } from "../kit/kit.js";
import { BOX, HEIGHT, WIDTH } from "../kit/curve.js";
import { line, linear, roundNumbers, words, xAxis, yAxis } from "../kit/plot.js";
import { meanBefore } from "./training_run.js";

const BINS = 155; // the losses of several steps make a band from the lowest to the highest

// What knowing so much and no more is called.
export const LANDMARKS = { "ln V": "knowing nothing", unigram: "character frequencies", bigram: "pairs of characters" };

// The lowest and the highest loss of the drawing.
export function limits({ losses, landmarks, guess, isBroken }) {
  const low = isBroken || (guess ?? 1) < 1 || losses.some((loss) => loss < 1) ? 0 : 1;
  return [low, Math.max(5, Math.ceil(Math.max(...Object.values(landmarks)) + 0.5))];
}

// For each bin of steps that has losses: [its middle, the lowest, the highest].
export function bands(losses, steps) {
  const size = Math.max(1, Math.ceil(steps / BINS));
  return range(Math.ceil(losses.length / size)).map((i) => {
    const own = losses.slice(i * size, (i + 1) * size).filter(Number.isFinite);
    return [i * size + (Math.min(size, losses.length - i * size) - 1) / 2, Math.min(...own), Math.max(...own)];
  });
}

// Points of the line: about as many as there are bins, and the last.
export function means(losses, steps) {
  const size = Math.max(1, Math.ceil(steps / BINS));
  const ends = [...range(Math.floor(losses.length / size)).map((i) => (i + 1) * size), losses.length];
  return [...new Set(ends)].filter(Boolean).map((at) => [at - 1, meanBefore(losses, at)]);
}

// `choose(loss)` is called if the reader points at a height, before training begins.
export function learningCurve({ choose }) {
  const scene = svg("g");
  const before = svg("polyline", { class: "gf-curve-before" });
  const raw = svg("polygon", { class: "gf-curve-raw" });
  const smooth = svg("polyline", { class: "gf-curve-line" });
  const held = svg("g");
  const names = svg("g");
  const spot = svg("circle", { r: 5, class: "gf-curve-spot" });
  const guessed = svg("g");
  const parts = [scene, names, raw, before, smooth, held, guessed, spot];
  const element = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "gf-panel gf-curve" }, parts);
  let toLoss = null; // from a height in the drawing, while the reader may choose one

  element.addEventListener("click", (event) => {
    if (!toLoss) return;
    const { top, height } = element.getBoundingClientRect();
    choose(toLoss(((event.clientY - top) * HEIGHT) / height));
  });

  // state: { steps, losses, held, landmarks, guess, reference, isBroken, isAsking }; `reference` are points of another run.
  function draw({ steps, losses, held: judged, landmarks, guess, reference, isBroken, isAsking }) {
    const [low, high] = limits({ losses, landmarks, guess, isBroken });
    const x = linear([0, steps], [BOX.left, BOX.right]);
    const y = linear([low, high], [BOX.bottom, BOX.top]);
    const at = ([step, loss]) => `${x(step).toFixed(1)},${y(Math.min(loss, high)).toFixed(1)}`;
    const marks = Object.entries(landmarks);
    toLoss = isAsking ? linear([BOX.bottom, BOX.top], [low, high]) : null;
    element.classList.toggle("gf-curve-asks", isAsking);
    hold(scene, [steps, low, high, ...marks.flat()], () => [
      yAxis(BOX, { values: range(high - low + 1).map((i) => low + i), place: y, lines: true, title: "loss (nats)" }),
      xAxis(BOX, { values: roundNumbers(steps, 4), place: x, format: grouped, ticks: true, title: "step", inside: roundNumbers(steps, 4).at(-1) > 0.93 * steps }),
      marks.map(([, loss]) => line(BOX.left, y(loss), BOX.right, y(loss), "gf-curve-mark")),
    ]);
    hold(names, [low, high, ...marks.flat()], () =>
      marks.map(([name, loss]) => words(`${LANDMARKS[name]} ${fixed(loss, 2)}`, BOX.right - 4, y(loss) - 5, "end", "gf-curve-name")),
    );
    hold(guessed, [guess, low, high], () => guess === null ? [] : [
      line(BOX.left, y(guess), BOX.right, y(guess), "gf-curve-guess"),
      words(`your guess ${fixed(guess, 2)}`, BOX.left + 6, y(guess) + (guess < low + 0.3 ? -5 : 14), "start", "gf-curve-name"),
    ]);
    put(before, { points: reference ? reference.map(at).join(" ") : "" });
    const found = bands(losses, steps);
    put(raw, { points: [...found.map(([step, least]) => at([step, least])), ...found.map(([step, , most]) => at([step, most])).reverse()].join(" ") });
    const smoothed = means(losses, steps).filter(([, loss]) => Number.isFinite(loss));
    put(smooth, { points: smoothed.map(at).join(" ") });
    hold(held, [steps, low, high, judged.flat()], () => judged.map(([step, loss]) => {
      const [cx, cy] = at([step, loss]).split(",");
      return svg("circle", { cx, cy, r: 4, class: "gf-curve-held" });
    }));
    spot.toggleAttribute("hidden", smoothed.length === 0);
    if (smoothed.length) {
      const [cx, cy] = at(smoothed.at(-1)).split(",");
      put(spot, { cx, cy });
    }
  }
  return { element, draw };
}
