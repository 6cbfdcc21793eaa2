// One head of a model that is being trained: its attention weights for the beginning of the held-out text, as they form.

import { h, percent, plural, put, setAll, uniqueId, write } from "../kit/kit.js";
import { cividis, legend, paint, palette } from "../kit/plot.js";
import { largest, range } from "../kit/maths.js";
import { named } from "./model.js";
import { letters } from "./letters.js";

const COLOURS = palette(cividis, range(256).map((i) => i / 255));
// The square root, so that small weights can be seen.
const colourOf = (share) => COLOURS[Math.round(255 * Math.sqrt(share))];

// What the head does at position t, in a sentence.
export function sentence({ shares, size, read }, t) {
  const row = shares.slice(t * size, (t + 1) * size);
  const apart = (s) => (s === t ? "itself" : `${Math.abs(t - s)} ${s < t ? "back" : "ahead"}`);
  const looks = largest(row, 2).filter((s) => row[s] > 0).map((s) => `${percent(row[s])} to ${named(read[s])} (${apart(s)})`);
  return `At ${named(read[t])}, position ${t}: ${looks.join(", ")}.`;
}

// `run()` is the training, or null.
export function attentionPanel(model, run) {
  const selects = ["Block", "Head"].map((label, i) => {
    const select = h("select", { id: uniqueId() });
    select.addEventListener("change", () => {
      setAll(model, { head: model.get("head").with(i, Number(select.value)) });
      look();
    });
    return { select, element: h("div", { class: "gf-control" }, h("label", { class: "gf-label", for: select.id }, label), select) };
  });
  const canvas = h("canvas", { class: "gf-head-picture", role: "img" });
  const mark = h("div", { class: "gf-head-row" });
  const said = h("p", { class: "gf-head-said" });
  const text = letters({ label: "The characters that the head reads", ask: (t) => ask(t) });
  let at = 20; // the position whose row is told
  const ask = (t) => {
    at = t;
    draw();
  };
  const point = ({ clientY }) => {
    const { top, height } = canvas.getBoundingClientRect();
    const { attention } = run();
    if (attention) ask(Math.min(attention.size - 1, Math.max(0, Math.floor(((clientY - top) * attention.size) / height))));
  };
  for (const name of ["pointermove", "click"]) canvas.addEventListener(name, point); // a tap is only a click
  const element = h(
    "section",
    { class: "gf-lab-panel", "aria-label": "One head" },
    h("p", { class: "gf-lab-heading" }, "One head"),
    h("div", { class: "gf-head-place" }, selects.map((each) => each.element)),
    h("p", { class: "gf-panel-title" }, "Each row is a character of the held-out text, and shows which characters it attends to. Point at one."),
    h("div", { class: "gf-head-square" }, canvas, mark),
    legend(cividis, "no attention", "all of it"),
    text.element,
    said,
  );

  const chosen = () => {
    const { n_layers, n_heads } = run().begun.config;
    return [n_layers, n_heads].map((count, i) => Math.min(model.get("head")[i], count - 1));
  };
  function look() {
    const [block, head] = chosen();
    selects.forEach(({ select }, i) => (select.value = [block, head][i]));
    run().look(block, head);
  }
  // To be called once a training has begun.
  function begin() {
    const { n_layers, n_heads } = run().begun.config;
    [n_layers, n_heads].forEach((count, i) => selects[i].select.replaceChildren(...range(count).map((each) => h("option", { value: each }, each))));
    look();
  }

  let painted = null;
  function draw() {
    const { attention } = run();
    if (!attention) return;
    const { shares, size, read, block, head, step } = attention;
    at = Math.min(at, size - 1);
    if (painted !== shares) {
      painted = shares;
      paint(canvas, size, size, (t, s) => (shares[t * size + s] > 0 ? colourOf(shares[t * size + s]) : 0));
      put(canvas, { "aria-label": `Attention of head ${head} in block ${block} after ${plural(step, "step")}, ${size} by ${size}` });
    }
    put(mark, { style: `top: ${(100 * at) / size}%; height: ${100 / size}%` });
    text.show(read, size, at, (s) => ({ colours: cividis, value: Math.sqrt(shares[at * size + s]), hidden: shares[at * size + s] === 0 }));
    put(said, { "aria-live": run().is === "running" ? "off" : "polite" });
    write(said, sentence(attention, at));
  }
  return { element, begin, draw };
}
