// What drawings are made of: colours for numbers, marks and text, axes, and the bars that explain colours.

import { range } from "./maths.js";
import { h, svg, uniqueId } from "./kit.js";

// --- colours ---------------------------------------------------------------------------------------------------------

// Colours for the numbers from low to high, in CSS notation; .channels(value) returns red, green and blue.
function scale(low, high, hexes) {
  const stops = hexes.split(" ").map((hex) => [0, 2, 4].map((c) => Number.parseInt(hex.slice(c, c + 2), 16)));
  const channels = (value) => {
    const x = Math.min(Math.max((value - low) / (high - low), 0), 1) * (stops.length - 1);
    const i = Math.min(Math.floor(x), stops.length - 2);
    return stops[i].map((from, c) => Math.round(from + (stops[i + 1][c] - from) * (x - i)));
  };
  return Object.assign((value) => `rgb(${channels(value).join(", ")})`, { channels });
}

// Weights and probabilities, 0 … 1: matplotlib's cividis at 33 points.
export const cividis = scale(
  0,
  1,
  "00224e 00285b 002e6a 053371 1a386f 273e6e 32436d 3b496c 434e6c 4b546c 535a6d " +
    "5a5f6e 61656f 686a71 6f7073 767676 7d7c78 848279 8c8878 938e78 9b9476 a39a74 " +
    "aba072 b4a76f bcae6c c4b468 cdbb63 d5c25e dec958 e7d150 f0d846 f9e03a fee838",
);

// Signed values, −1 … 1: blue, the page's own colour, orange, so that 0 does not glare on a dark page. On a light one the ends are
// those of glassformer.figures.SIGNED. Pixels are the more transparent the nearer to 0.
const signed = (most) => {
  const share = (x) => most * Math.min(Math.abs(x), 1);
  const css = (x) => `color-mix(in srgb, ${x < 0 ? "#0072b2" : "#d55e00"} ${(100 * share(x)).toFixed(1)}%, var(--gf-surface))`;
  return Object.assign(css, { channels: (x) => [...(x < 0 ? [0, 114, 178] : [213, 94, 0]), Math.round(255 * share(x))] });
};
export const diverging = signed(1);
// As a background of text: the page's text colour is readable on all of it.
export const tint = signed(0.6);

// Black or white, whichever has more contrast with a colour given by its channels.
export function ink(rgb) {
  const [r, g, b] = rgb.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
}

// One colour for each value, in the format of a picture of pixels.
export const palette = (colours, values) =>
  Uint32Array.from(values, (value) => {
    const [red, green, blue, opacity = 255] = colours.channels(value);
    return ((opacity << 24) | (blue << 16) | (green << 8) | red) >>> 0;
  });

// Paint a picture with one pixel for each cell: colour(row, column), from a palette, or 0 for none.
export function paint(canvas, rows, columns, colour) {
  const image = new ImageData(columns, rows);
  const pixels = new Uint32Array(image.data.buffer);
  for (let row = 0, i = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++, i++) pixels[i] = colour(row, column);
  }
  if (canvas.width !== columns) canvas.width = columns;
  if (canvas.height !== rows) canvas.height = rows;
  canvas.getContext("2d").putImageData(image, 0, 0);
}

// --- marks and words -------------------------------------------------------------------------------------------------

export const line = (x1, y1, x2, y2, style) => svg("line", { x1, y1, x2, y2, class: style });

// anchor: which part of the text is at x, "start", "middle" or "end".
export const words = (text, x, y, anchor = "start", style = null) =>
  svg("text", { x, y, "text-anchor": anchor, class: style }, text);

// --- axes ------------------------------------------------------------------------------------------------------------

// From values to pixels: linear([−1, 1], [left, right])(0) is the middle.
export const linear =
  ([low, high], [start, end]) =>
  (value) =>
    start + ((value - low) / (high - low)) * (end - start);

// Round numbers from 0 up to, and not beyond, max; about `count` of them.
export function roundNumbers(max, count) {
  const rough = max / count;
  const decade = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(1, [1, 2, 5, 10].map((m) => m * decade).find((s) => s >= rough));
  return range(Math.floor(max / step) + 1).map((i) => i * step);
}

// An axis writes numbers next to a box { left, right, top, bottom }, each at its place, and a title.
//   lines    a line through the box at each number, a stronger one at zero
//   ticks    instead, a short line at each number
//   inside   the first and the last number do not stick out
//   above    above the box, not below it
const lineStyle = (value) => (value === 0 ? "gf-axis" : "gf-grid");

export function xAxis(box, { values, place, format = String, title, lines, ticks, inside, above }) {
  const { left, right, top, bottom } = box;
  const y = above ? top - 8 : bottom + 17;
  const anchor = (i) => (inside && i === 0 ? "start" : inside && i === values.length - 1 ? "end" : "middle");
  return svg(
    "g",
    {},
    values.map((value, i) => [
      lines && line(place(value), top, place(value), bottom, lineStyle(value)),
      ticks && line(place(value), bottom, place(value), bottom + 4, "gf-axis"),
      words(format(value), place(value), y, anchor(i)),
    ]),
    title && words(title, (left + right) / 2, y + 19, "middle", "gf-axis-title"),
  );
}

export function yAxis(box, { values, place, format = String, title, lines, inside }) {
  const { left, right, top, bottom } = box;
  const down = (value) => (inside ? linear([top, bottom], [9, 0])(place(value)) : 4);
  const turned = `translate(11 ${(top + bottom) / 2}) rotate(-90)`;
  return svg(
    "g",
    {},
    values.map((value) => [
      lines && line(left, place(value), right, place(value), lineStyle(value)),
      words(format(value), left - 6, place(value) + down(value), "end"),
    ]),
    title && svg("text", { transform: turned, "text-anchor": "middle", class: "gf-axis-title" }, title),
  );
}

// --- what a colour means ---------------------------------------------------------------------------------------------

// All colours from one end, 0, to the other, 1, as a bar in any drawing.
export function colourBar(colours, { x = 0, y = 0, width, height }) {
  const id = uniqueId();
  const stops = range(9).map((i) => svg("stop", { offset: i / 8, "stop-color": colours(i / 8) }));
  return [svg("linearGradient", { id }, stops), svg("rect", { x, y, width, height, fill: `url(#${id})` })];
}

// The same next to a drawing, between the words for its two ends.
export function legend(colours, from, to, ...more) {
  const size = { width: 80, height: 10 };
  const bar = svg("svg", { viewBox: "0 0 80 10", ...size, "aria-hidden": "true" }, colourBar(colours, size));
  return legendOf(more, h("span", { class: "gf-scale" }, from, bar, to));
}

// What marks mean, beside a drawing.
export const legendOf = (...marks) => h("p", { class: "gf-legend" }, marks);
