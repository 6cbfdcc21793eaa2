// Shows one position as a row of clocks, one for each pair of dimensions. Hands start at twelve and turn clockwise, so a tip
// is sin to the right of the centre and cos above it: the two numbers of the pair, in their order.

import { frequencies, range } from "../../widgets/kit/maths.js";
import { fixed, frame, grouped, h, hold, onChange, put, slider, svg, write } from "../../widgets/kit/kit.js";
import { line, words } from "../../widgets/kit/plot.js";

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
  "Turn in n steps (rad)",
  "sin at p + n",
  "cos at p + n",
];
const degrees = (angle) => (angle * 180) / Math.PI;
const tip = (angle, radius = R) => [MIDDLE[0] + radius * Math.sin(angle), MIDDLE[1] - radius * Math.cos(angle)];
const rounded = (x) => x.toFixed(2);

// The path of a hand that starts at twelve: a spiral, so that full turns can be counted.
const radius = (turn) => 24 + (3.5 * Math.abs(turn)) / (2 * Math.PI);

function sweep(turn) {
  const steps = Math.max(2, Math.ceil(Math.abs(turn) / 0.12));
  const points = range(steps + 1).map((i) => tip((turn * i) / steps, radius((turn * i) / steps)));
  return `M${points.map(([x, y]) => `${rounded(x)} ${rounded(y)}`).join("L")}`;
}

function arrowHead(turn) {
  const [x, y] = tip(turn, radius(turn));
  const heading = degrees(turn) + (turn < 0 ? 180 : 0);
  const transform = `translate(${rounded(x)} ${rounded(y)}) rotate(${rounded(heading)})`;
  return svg("path", { class: "gf-turn-head", d: "M-5 -4L3 0L-5 4Z", transform });
}

const [cx, cy] = MIDDLE;

function dial() {
  const onDial = (hour, length) => tip((hour * Math.PI) / 6, length).map(rounded);
  return [
    svg("circle", { cx, cy, r: R, class: "gf-dial" }),
    range(12).map((hour) => line(...onDial(hour, R - 4), ...onDial(hour, R), "gf-tick")),
    line(cx - R - 8, cy, cx + R + 8, cy, "gf-grid"),
    line(cx, cy - R - 8, cx, cy + R + 8, "gf-grid"),
    words("sin", cx + R + 10, cy + 5),
    words("cos", cx, cy - R - 13, "middle"),
  ];
}

// A clock: its element, and a function that sets it to another time.
function clock() {
  const ray = (style) => line(cx, cy, cx, cy, style);
  const [hand, across, up, sin, cos] = ["gf-hand", "gf-drop", "gf-drop", "gf-shadow gf-sin", "gf-shadow gf-cos"].map(ray);
  const end = svg("circle", { r: 5, class: "gf-tip" });
  const [turned, ghost] = [svg("g"), svg("g")];
  const face = svg(
    "svg",
    { viewBox: "0 0 200 178", class: "gf-clock" },
    [dial(), across, up, sin, cos, ghost, turned, hand, svg("circle", { cx, cy, r: 3, class: "gf-tip" }), end],
  );
  const [name, period, sine, cosine, onward] = range(5).map(() => document.createTextNode(""));
  const element = h(
    "div",
    { class: "gf-clock-card" },
    h("div", { class: "gf-clock-name" }, name),
    h("div", { class: "gf-clock-note" }, period),
    face,
    h("div", {}, h("span", { class: "gf-sin-key" }), sine),
    h("div", {}, h("span", { class: "gf-cos-key" }), cosine),
    h("div", { class: "gf-clock-note" }, onward),
  );

  function show(now) {
    const [x, y] = tip(now.angle).map(rounded);
    for (const mark of [hand, across, up]) put(mark, { x2: x, y2: y });
    put(across, { x1: x });
    put(up, { y1: y });
    put(sin, { x2: x });
    put(cos, { y2: y });
    put(end, { cx: x, cy: y });
    hold(turned, [now.turn], () => now.turn !== 0 && [
      svg("path", { d: sweep(now.turn), class: "gf-turn" }),
      Math.abs(now.turn) > 0.12 && arrowHead(now.turn),
    ]);
    put(turned, { transform: `rotate(${rounded(degrees(now.angle))} ${cx} ${cy})` });
    const [ghostX, ghostY] = tip(now.angle + now.turn).map(rounded);
    hold(ghost, now.turn === 0 ? [] : [ghostX, ghostY], () => now.turn !== 0 && [
      line(cx, cy, ghostX, ghostY, "gf-hand gf-ghost"),
      svg("circle", { cx: ghostX, cy: ghostY, r: 4, class: "gf-ghost-tip" }),
    ]);
    write(name, `hand ${now.i}`);
    write(period, `full turn in ${once(now.omega)} positions`);
    write(sine, `sin ${fixed(now.sin, 2)}`);
    write(cosine, `cos ${fixed(now.cos, 2)}`);
    write(onward, `turn ${now.turn > 0 ? "+" : ""}${radians(now.turn)}`);
  }
  return { element, show };
}

function clocks(model) {
  const [p, n, d, base] = ["position", "step", "d_model", "base"].map((name) => model.get(name));
  return frequencies(d, base).map((omega, i) => {
    const [angle, turn] = [p * omega, n * omega];
    return { i, omega, angle, turn, sin: Math.sin(angle), cos: Math.cos(angle) };
  });
}

// Wavelengths span orders of magnitude, so decimals are shown only where they matter.
const once = (omega) => grouped(Number(((2 * Math.PI) / omega).toFixed(omega > 0.0628 ? 2 : 0)));
// At least two significant digits, so that the slowest hands do not seem to stand still.
const digits = (x, least) => (x === 0 ? least : Math.max(least, 1 - Math.floor(Math.log10(Math.abs(x)))));
const radians = (x) => `${fixed(x, digits(x, 2))} rad`;
const turned = (x) => `${radians(x)} (${fixed(degrees(x), digits(degrees(x), 0))}°)`;

const positions = (n) => `${n} position${n === 1 ? "" : "s"}`;

function render({ model, el }) {
  const view = frame(el, {
    title: "A row of clocks",
    hint:
      "Each hand stands for a pair of dimensions, and its two shadows are their numbers: the one to the side is the sine, the one up or down the cosine. The dashed hand shows the position n steps later. " +
      "Move p: does the turn between the two hands change?",
  });
  view.controls.classList.add("gf-compact");
  view.controls.append(
    slider(model, "position", { label: "Position p", min: 0, max: 200 }),
    slider(model, "step", { label: "Step n", min: -20, max: 20, format: (n) => (n > 0 ? `+${n}` : fixed(n, 0)) }),
    slider(model, "d_model", { label: "Dimensions D", min: 4, max: 16, step: 2 }),
    slider(model, "base", { label: "Base", min: 10, max: 1e6, scale: "log", format: grouped }),
  );
  view.drawing.classList.add("gf-clocks");

  let shown = []; // a clock for each pair of dimensions

  function draw() {
    const [p, n] = [model.get("position"), model.get("step")];
    const hands = clocks(model);
    if (shown.length !== hands.length) {
      shown = hands.map(() => clock());
      view.drawing.replaceChildren(...shown.map(({ element }) => element));
    }
    hands.forEach((hand, i) => shown[i].show(hand));
    const [first, last] = [hands[0], hands.at(-1)];
    const onward = n < 0 ? `Going back by ${positions(-n)}` : `Moving on by ${positions(n)}`;
    const slowest = `hand ${last.i}, the slowest, by ${turned(last.angle)}`;
    const turns = `${onward} turns them by ${turned(first.turn)} and ${turned(last.turn)}`;
    view.says(
      `At position ${p}, hand 0 has turned by ${turned(first.angle)} and ${slowest}. ` +
        (n === 0 ? "With step 0 there is no turn to compare." : `${turns}, from here or from anywhere else.`),
    );
    view.describe(() => {
      const each = hands.map(({ i, sin, cos }) => `Hand ${i}: sine ${fixed(sin, 2)}, cosine ${fixed(cos, 2)}.`);
      return `${hands.length} clocks for position ${p}. ${each.join(" ")}`;
    });
    view.tables(() => [
      {
        caption: `Position ${p} and step ${n}, hand by hand`,
        headers: HEADERS,
        rows: hands.map(({ i, omega, angle, turn, sin, cos }) => [
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
      },
    ]);
  }

  return onChange(model, ["position", "step", "d_model", "base"], draw);
}

export default { render };
