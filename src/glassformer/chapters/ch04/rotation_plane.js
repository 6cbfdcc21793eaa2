// One plane of RoPE: a query and a key, rotated by their positions. See rotation_plane.py.
import { dot, range, rotate } from "../../widgets/kit/maths.js";
import { button, fixed, frame, h, hold, onChange, put, slider, svg, write } from "../../widgets/kit/kit.js";
import { line, linear, xAxis, yAxis } from "../../widgets/kit/plot.js";

const LAST = 50; // positions run from 0 to 50
const LONGEST = 1.5;
const SHORTEST = 0.1;

// --- maths ----------------------------------------------------------------------------------------------------------

const radians = (x) => (x * Math.PI) / 180;

const degrees = (x) => (x * 180) / Math.PI;

// To −180 … 180.
const wrapped = (x) => x - 360 * Math.ceil((x - 180) / 360);

// A vector of this length pointing this many degrees from the x axis, counter-clockwise.
export const polar = (length, angle) => [length * Math.cos(radians(angle)), length * Math.sin(radians(angle))];

// A vector as position p rotates it, in a plane of frequency theta.
export const turned = (vector, position, theta) => rotate([vector], [[position * theta]])[0];

// The score of a query at position m and a key at position n.
export const rotaryScore = (q, k, m, n, theta) => dot(turned(q, m, theta), turned(k, n, theta));

// The angle between two vectors, 0 to 180 degrees.
export function angleBetween(a, b) {
  return degrees(Math.atan2(Math.abs(a[0] * b[1] - a[1] * b[0]), dot(a, b)));
}

// --- drawing --------------------------------------------------------------------------------------------------------

const SIDE = 340;
const UNIT = 104; // pixels for a vector of length 1
const CENTRE = SIDE / 2;
const at = ([x, y]) => [CENTRE + x * UNIT, CENTRE - y * UNIT];

function arrow(vector, role, strong) {
  const [x, y] = at(vector);
  const angle = Math.atan2(CENTRE - y, x - CENTRE);
  const [head, width] = strong ? [13, 5] : [9, 3.5];
  const back = [x - head * Math.cos(angle), y + head * Math.sin(angle)];
  const side = [width * Math.sin(angle), width * Math.cos(angle)];
  return svg(
    "g",
    { class: `gf-arrow gf-arrow-${role}${strong ? "" : " gf-arrow-faint"}` },
    svg("line", { x1: CENTRE, y1: CENTRE, x2: back[0], y2: back[1], "stroke-width": strong ? 3 : 1.5 }),
    svg("path", {
      d: `M${x} ${y}L${back[0] - side[0]} ${back[1] - side[1]}L${back[0] + side[0]} ${back[1] + side[1]}Z`,
    }),
  );
}

// Beyond the tip and slightly away from the other vector, so that two labels never overlap.
function label(vector, other, text, strong) {
  const [x0, y0] = vector.map((c) => c / Math.hypot(...vector));
  const away = x0 * other[1] - y0 * other[0] > 0 ? -1 : 1;
  const [x, y] = at([vector[0] + 0.1 * x0 - 0.07 * away * y0, vector[1] + 0.1 * y0 + 0.07 * away * x0]);
  const anchor = x0 > 0.4 ? "start" : x0 < -0.4 ? "end" : "middle";
  return svg(
    "text",
    { x, y, "text-anchor": anchor, "dominant-baseline": "central", class: strong ? "gf-strong" : "" },
    text,
  );
}

// A circular arc about the origin, counter-clockwise from one angle to another (radians), less than a full turn.
function arc(radius, from, to) {
  const end = (angle) => at([(radius / UNIT) * Math.cos(angle), (radius / UNIT) * Math.sin(angle)]).join(" ");
  return `M${end(from)}A${radius} ${radius} 0 ${to - from > Math.PI ? 1 : 0} 0 ${end(to)}`;
}

const mod = (x, m) => ((x % m) + m) % m;

// The path from the vector at position 0 to its current direction, without full turns.
function swing(angle, by, radius, role) {
  const from = radians(angle);
  return svg("path", { d: arc(radius, from, from + mod(by, 2 * Math.PI)), class: `gf-swing gf-swing-${role}` });
}

// The angle between the two rotated vectors, the shorter way round.
function wedge(q, k) {
  const [a, b] = [q, k].map(([x, y]) => Math.atan2(y, x));
  const [from, sweep] = mod(b - a, 2 * Math.PI) <= Math.PI ? [a, mod(b - a, 2 * Math.PI)] : [b, mod(a - b, 2 * Math.PI)];
  return svg("path", { d: `${arc(76, from, from + sweep)}L${CENTRE} ${CENTRE}Z`, class: "gf-wedge" });
}

// The background below the arrows.
const floor = () => [
  svg("circle", { cx: CENTRE, cy: CENTRE, r: 0.5 * UNIT, class: "gf-grid gf-orbit" }),
  svg("circle", { cx: CENTRE, cy: CENTRE, r: 1 * UNIT, class: "gf-grid gf-orbit" }),
  line(10, CENTRE, SIDE - 10, CENTRE, "gf-grid"),
  line(CENTRE, 10, CENTRE, SIDE - 10, "gf-grid"),
];

const CURVE = { left: 40, right: 330, top: 14, bottom: 290 };

// The score at every distance: its element, and a function that brings it to another state.
function curve() {
  const { top, bottom, left, right } = CURVE;
  const x = linear([-LAST, LAST], [left, right]);
  const [scene, guide] = [svg("g"), line(0, top, 0, bottom, "gf-guide")];
  const [wave, spot] = [svg("polyline", { class: "gf-wave" }), svg("circle", { r: 5.5, class: "gf-spot" })];
  const distances = range(8 * LAST + 1).map((i) => i / 4 - LAST);
  const element = svg("svg", { viewBox: "0 0 340 330", class: "gf-panel" }, scene, guide, wave, spot);

  function follow(q, k, theta, distance) {
    const reach = Math.hypot(...q) * Math.hypot(...k);
    const y = linear([-reach, reach], [bottom, top]);
    const score = (d) => y(dot(turned(q, d, theta), k));
    hold(scene, [reach], () => [
      yAxis(CURVE, { values: [-reach, 0, reach], place: y, format: (value) => fixed(value, 2), lines: true }),
      xAxis(CURVE, {
        values: [-50, -25, 0, 25, 50],
        place: x,
        format: (d) => fixed(d, 0),
        title: "distance m − n (positions)",
        ticks: true,
      }),
    ]);
    put(guide, { x1: x(distance), x2: x(distance) });
    put(wave, { points: distances.map((d) => `${x(d)},${score(d)}`).join(" ") });
    put(spot, { cx: x(distance), cy: score(distance) });
  }
  return { element, follow };
}

// --- view -----------------------------------------------------------------------------------------------------------

const TRAITS = [
  "query_angle",
  "query_length",
  "key_angle",
  "key_length",
  "query_position",
  "key_position",
  "theta",
];

function render({ model, el }) {
  const view = frame(el, {
    title: "The rotation plane: what does the score know about positions?",
    hint: "Rotate the query and the key by their positions, then move both by the same number of positions. Drag an arrow to start from another vector.",
  });
  const send = (changes) => {
    for (const [name, value] of Object.entries(changes)) model.set(name, value);
    model.save_changes();
  };
  // Both by the same step, as far as both can go.
  const moveBoth = (step) => {
    const [m, n] = [model.get("query_position"), model.get("key_position")];
    const room = step > 0 ? LAST - Math.max(m, n) : Math.min(m, n);
    const by = Math.sign(step) * Math.min(Math.abs(step), room);
    send({ query_position: m + by, key_position: n + by });
  };
  const positions = { min: 0, max: LAST };
  const angles = { min: -180, max: 180, format: (x) => `${fixed(x, 0)}°` };
  const lengths = { min: SHORTEST, max: LONGEST, step: 0.05, format: (x) => fixed(x, 2) };
  view.controls.append(
    slider(model, "query_position", { label: "Query’s position m", ...positions }),
    slider(model, "key_position", { label: "Key’s position n", ...positions }),
    slider(model, "theta", {
      label: "Frequency θ (rad/position)",
      min: 0.001,
      max: 1,
      scale: "log",
    }),
    h(
      "div",
      { class: "gf-buttons" },
      button("Move both −1", () => moveBoth(-1)),
      button("Move both +1", () => moveBoth(1)),
      button("Move both +10", () => moveBoth(10)),
    ),
    h(
      "details",
      { class: "gf-more" },
      h("summary", {}, "The vectors before rotation"),
      h(
        "div",
        { class: "gf-controls" },
        slider(model, "query_angle", { label: "Query’s angle", ...angles }),
        slider(model, "query_length", { label: "Query’s length", ...lengths }),
        slider(model, "key_angle", { label: "Key’s angle", ...angles }),
        slider(model, "key_length", { label: "Key’s length", ...lengths }),
      ),
    ),
  );
  const panels = h("div", { class: "gf-panels" });
  view.drawing.append(panels);
  const vectors = svg("g");
  const plane = svg("svg", { viewBox: `0 0 ${SIDE} ${SIDE}`, class: "gf-panel gf-plane" }, floor(), vectors);
  const wave = curve();
  const [score, apart] = [h("strong"), document.createTextNode("")];
  panels.append(
    h("div", { class: "gf-panel-cell" }, h("p", { class: "gf-panel-title" }, "Thin arrows: at position 0. Bold arrows: rotated by position × θ."), plane),
    h("div", { class: "gf-panel-cell" }, h("p", { class: "gf-panel-title" }, "Score q·k = ", score, apart), wave.element),
  );

  const state = () => {
    const [query_angle, query_length, key_angle, key_length, m, n, theta] = TRAITS.map((name) => model.get(name));
    const [q0, k0] = [polar(query_length, query_angle), polar(key_length, key_angle)];
    const [q, k] = [turned(q0, m, theta), turned(k0, n, theta)];
    return { query_angle, query_length, key_angle, key_length, m, n, theta, q0, k0, q, k };
  };

  // The pointer takes the arrow with the nearest tip, thin or bold; a bold one is rotated back by its position.
  let held = null;
  const pointer = (event) => {
    const box = plane.getBoundingClientRect();
    const scale = SIDE / box.width;
    return [((event.clientX - box.x) * scale - CENTRE) / UNIT, (CENTRE - (event.clientY - box.y) * scale) / UNIT];
  };
  const nearestTip = (event) => {
    const { q0, k0, q, k, m, n } = state();
    const [x, y] = pointer(event);
    const tips = [
      { tip: q, role: "query", position: m },
      { tip: k, role: "key", position: n },
      { tip: q0, role: "query", position: 0 },
      { tip: k0, role: "key", position: 0 },
    ].map((each) => ({ ...each, away: Math.hypot(each.tip[0] - x, each.tip[1] - y) * UNIT }));
    const nearest = tips.reduce((a, b) => (b.away < a.away ? b : a));
    return nearest.away <= 24 ? nearest : null;
  };
  plane.addEventListener("pointerdown", (event) => {
    held = event.button === 0 ? nearestTip(event) : null;
    if (held) plane.setPointerCapture(event.pointerId);
  });
  plane.addEventListener("pointermove", (event) => {
    plane.style.cursor = held ? "grabbing" : nearestTip(event) ? "grab" : "";
    if (!held) return;
    const [x, y] = pointer(event);
    const by = degrees(held.position * model.get("theta"));
    const long = Math.min(Math.max(Math.round(Math.hypot(x, y) * 20) / 20, SHORTEST), LONGEST);
    send({
      [`${held.role}_angle`]: wrapped(Math.round(degrees(Math.atan2(y, x)) - by)),
      [`${held.role}_length`]: long,
    });
  });
  for (const type of ["pointerup", "pointercancel", "lostpointercapture"]) {
    plane.addEventListener(type, () => (held = null));
  }
  // A finger on an arrow rotates it; a finger next to it scrolls the page.
  plane.addEventListener(
    "touchstart",
    (event) => nearestTip(event.touches[0]) && event.preventDefault(),
    { passive: false },
  );

  function draw() {
    const { query_angle, key_angle, m, n, theta, q0, k0, q, k } = state();
    const s = dot(q, k);
    const between = fixed(angleBetween(q, k), 1);
    const distance = m - n;
    vectors.replaceChildren(
      wedge(q, k),
      swing(query_angle, m * theta, 40, "query"),
      swing(key_angle, n * theta, 50, "key"),
      arrow(q0, "query", false),
      arrow(k0, "key", false),
      arrow(q, "query", true),
      arrow(k, "key", true),
      m ? label(q0, k0, "q at 0", false) : "",
      n ? label(k0, q0, "k at 0", false) : "",
      label(q, k, "q", true),
      label(k, q, "k", true),
    );
    wave.follow(q0, k0, theta, distance);
    write(score, fixed(s, 6));
    write(apart, `, angle ${between}°`);
    const side = distance < 0 ? " (the key lies ahead)" : "";
    view.describe(
      () =>
        `Query at position ${m} and key at position ${n}, ${between} degrees apart; score ${fixed(s, 3)}. ` +
        `Beside them, the score against distance: a wave, marked at distance ${fixed(distance, 0)}.`,
    );
    view.says(
      `Query at ${m}, key at ${n}: distance ${fixed(distance, 0)}${side}. Score ${fixed(s, 3)}. ` +
        "Move both together, and it stays the same.",
    );
    const row = (name, angle, position, vector) => [
      name,
      `${fixed(angle, 0)}°`,
      position,
      fixed(position * theta, 3),
      `${fixed(wrapped(angle + degrees(position * theta)), 1)}°`,
      ...vector.map((c) => fixed(c, 6)),
    ];
    view.tables(() => [
      {
        caption: `The two vectors, rotated by position × θ = ${theta} rad; their score is ${fixed(s, 6)}`,
        headers: ["Vector", "Angle at 0", "Position", "Rotated by (rad)", "Angle now", "x", "y"],
        rows: [row("query", query_angle, m, q), row("key", key_angle, n, k)],
      },
      {
        caption: "Score at every distance",
        headers: ["Distance m − n", "Score"],
        rows: () =>
          range(2 * LAST + 1).map((i) => [
            fixed(i - LAST, 0),
            fixed(rotaryScore(q0, k0, Math.max(i - LAST, 0), Math.max(LAST - i, 0), theta), 6),
          ]),
      },
    ]);
  }

  return onChange(model, TRAITS, draw);
}

export default { render };
