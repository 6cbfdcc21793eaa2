// One position as a row of clocks, one for each pair of dimensions. Hands start at twelve and turn clockwise, so a tip
// lies sin to the right of the middle and cos above it: the pair's two numbers, in their order.

import { frequencies, range } from "./maths.js";
import { fixed, frame, grouped, h, onChange, slider, svg } from "./kit.js";
import { line, words } from "./plot.js";

const R = 70; // the hand's length, in a drawing 200 wide
const MIDDLE = [88, 98];
const HEADERS = [
  "Hand",
  "Dimensions",
  "Radians per position",
  "Wavelength (positions)",
  "Angle (rad)",
  "sin",
  "cos",
  "Turn for k (rad)",
  "sin at p + k",
  "cos at p + k",
];
const degrees = (angle) => (angle * 180) / Math.PI;
const tip = (angle, radius = R) => [MIDDLE[0] + radius * Math.sin(angle), MIDDLE[1] - radius * Math.cos(angle)];
const rounded = (x) => x.toFixed(2);

// The way a hand goes from one angle to another: a spiral, so that full turns can be counted.
function sweep(from, turn) {
  const steps = Math.max(2, Math.ceil(Math.abs(turn) / 0.08));
  const points = range(steps + 1).map((i) => {
    const part = (turn * i) / steps;
    return tip(from + part, 24 + (3.5 * Math.abs(part)) / (2 * Math.PI));
  });
  return `M${points.map(([x, y]) => `${rounded(x)} ${rounded(y)}`).join("L")}`;
}

function arrowHead(from, turn) {
  const angle = from + turn;
  const radius = 24 + (3.5 * Math.abs(turn)) / (2 * Math.PI);
  const [x, y] = tip(angle, radius);
  const heading = degrees(angle) + (turn < 0 ? 180 : 0);
  const transform = `translate(${rounded(x)} ${rounded(y)}) rotate(${rounded(heading)})`;
  return svg("path", { class: "gf-turn-head", d: "M-5 -4L3 0L-5 4Z", transform });
}

function face({ angle, turn }) {
  const [x, y] = tip(angle).map(rounded);
  const [ghostX, ghostY] = tip(angle + turn).map(rounded);
  const [cx, cy] = MIDDLE;
  const onDial = (hour, radius) => tip((hour * Math.PI) / 6, radius).map(rounded);
  return svg(
    "svg",
    { viewBox: "0 0 200 178", class: "gf-clock" },
    svg("circle", { cx, cy, r: R, class: "gf-dial" }),
    range(12).map((hour) => line(...onDial(hour, R - 4), ...onDial(hour, R), "gf-tick")),
    line(cx - R - 8, cy, cx + R + 8, cy, "gf-grid"),
    line(cx, cy - R - 8, cx, cy + R + 8, "gf-grid"),
    line(x, y, x, cy, "gf-drop"),
    line(x, y, cx, y, "gf-drop"),
    line(cx, cy, x, cy, "gf-shadow gf-sin"),
    line(cx, cy, cx, y, "gf-shadow gf-cos"),
    turn !== 0 && [
      line(cx, cy, ghostX, ghostY, "gf-hand gf-ghost"),
      svg("circle", { cx: ghostX, cy: ghostY, r: 4, class: "gf-ghost-tip" }),
      svg("path", { d: sweep(angle, turn), class: "gf-turn" }),
      Math.abs(turn) > 0.12 && arrowHead(angle, turn),
    ],
    line(cx, cy, x, y, "gf-hand"),
    svg("circle", { cx, cy, r: 3, class: "gf-tip" }),
    svg("circle", { cx: x, cy: y, r: 5, class: "gf-tip" }),
    words("sin", cx + R + 10, cy + 5),
    words("cos", cx, cy - R - 13, "middle"),
  );
}

function clocks(model) {
  const [p, k, d, base] = ["position", "step", "d_model", "base"].map((name) => model.get(name));
  return frequencies(d, base).map((omega, i) => {
    const [angle, turn] = [p * omega, k * omega];
    return { i, omega, angle, turn, sin: Math.sin(angle), cos: Math.cos(angle) };
  });
}

// Wavelengths run over orders of magnitude: decimals only where they can be seen.
const period = (omega) => grouped(Number(((2 * Math.PI) / omega).toFixed(omega > 0.0628 ? 2 : 0)));
// At least two significant digits, so that the slowest hands do not seem to stand still.
const digits = (x, least) => (x === 0 ? least : Math.max(least, 1 - Math.floor(Math.log10(Math.abs(x)))));
const radians = (x) => `${fixed(x, digits(x, 2))} rad`;
const turned = (x) => `${radians(x)} (${fixed(degrees(x), digits(degrees(x), 0))}°)`;

function render({ model, el }) {
  const view = frame(el, {
    title: "A row of clocks",
    hint:
      "Each hand is a pair of dimensions, and its two shadows are their numbers. The dashed hand is k positions on. " +
      "Move p: does the turn between the two hands change?",
  });
  view.controls.classList.add("gf-compact");
  view.controls.append(
    slider(model, "position", { label: "Position p", min: 0, max: 200 }),
    slider(model, "step", { label: "Step k", min: -20, max: 20, format: (k) => (k > 0 ? `+${k}` : fixed(k, 0)) }),
    slider(model, "d_model", { label: "Dimensions D", min: 4, max: 16, step: 2 }),
    slider(model, "base", { label: "Base", min: 10, max: 1e6, scale: "log", format: grouped }),
  );
  view.drawing.classList.add("gf-clocks");

  function draw() {
    const [p, k] = [model.get("position"), model.get("step")];
    const hands = clocks(model);
    view.drawing.replaceChildren(
      ...hands.map((hand) =>
        h(
          "div",
          { class: "gf-clock-card" },
          h("div", { class: "gf-clock-name" }, `hand ${hand.i}`),
          h("div", { class: "gf-clock-note" }, `once round in ${period(hand.omega)}`),
          face(hand),
          h("div", {}, h("span", { class: "gf-sin-key" }), `sin ${fixed(hand.sin, 2)}`),
          h("div", {}, h("span", { class: "gf-cos-key" }), `cos ${fixed(hand.cos, 2)}`),
          h("div", { class: "gf-clock-note" }, `turn ${hand.turn > 0 ? "+" : ""}${radians(hand.turn)}`),
        ),
      ),
    );
    const [first, last] = [hands[0], hands.at(-1)];
    const onward = k < 0 ? `Going back ${-k}` : `Moving on by ${k}`;
    const slowest = `hand ${last.i}, the slowest, ${turned(last.angle)}`;
    const turns = `${onward} turns them by ${turned(first.turn)} and ${turned(last.turn)}`;
    view.says(
      `At position ${p}, hand 0 has turned ${turned(first.angle)} and ${slowest}. ` +
        (k === 0 ? "With step 0 there is no turn to compare." : `${turns}, from this position and from any other.`),
    );
    view.describe(
      `${hands.length} clocks for position ${p}. ` +
        hands.map(({ i, sin, cos }) => `Hand ${i}: sine ${fixed(sin, 2)}, cosine ${fixed(cos, 2)}.`).join(" "),
    );
    view.table(
      `Position ${p} and step ${k}, hand by hand`,
      HEADERS,
      hands.map(({ i, omega, angle, turn, sin, cos }) => [
        i,
        `${2 * i}, ${2 * i + 1}`,
        fixed(omega, 6),
        grouped((2 * Math.PI) / omega),
        fixed(angle, 4),
        fixed(sin, 4),
        fixed(cos, 4),
        fixed(turn, 4),
        fixed(Math.sin(angle + turn), 4),
        fixed(Math.cos(angle + turn), 4),
      ]),
    );
  }

  return onChange(model, ["position", "step", "d_model", "base"], draw);
}

export default { render };
