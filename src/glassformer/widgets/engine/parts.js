// How a model's parts are drawn: a bar of 100 %, and a list in which one part is chosen. Shared by the views that count.
import { sum } from "./counting.js";
import { h, put, write } from "../kit/kit.js";

const COLOURS = {
  "token embedding": "var(--gf-residual)",
  positions: "var(--gf-position)",
  segments: "var(--gf-position)",
  "embedding norm": "var(--gf-norm)",
  attention: "var(--gf-query)",
  "cross-attention": "var(--gf-key)",
  "feed-forward": "var(--gf-feedforward)",
  norms: "var(--gf-norm)",
  "final norm": "var(--gf-norm)",
  pooler: "var(--gf-value)",
  head: "var(--gf-prediction)",
};

export const NAMES = Object.keys(COLOURS);

const coloured = (part) => `--kind: ${COLOURS[part]}`;

// The meaning of the colours.
export const legend = (names) =>
  h("p", { class: "gf-part-legend" }, names.map((name) => h("span", { "data-part": name }, h("i", { style: coloured(name) }), name)));

// A bar of all parts, each as long as its share. `data-part` is the part under the pointer.
export function stack() {
  const segments = NAMES.map((part) => h("span", { "data-part": part, style: coloured(part) }));
  return {
    element: h("div", { class: "gf-stack" }, segments),
    draw(parts, chosen) {
      const all = sum(parts.map(({ count }) => count));
      segments.forEach((segment, i) => {
        const count = parts.find(({ name }) => name === NAMES[i])?.count ?? 0;
        const share = String(all ? Number((count / all).toFixed(6)) : 0);
        if (segment.style.flexGrow !== share) segment.style.flexGrow = share;
        put(segment, { class: NAMES[i] === chosen ? "gf-chosen" : "" });
      });
    },
  };
}

// Keys that move from one element to the next, skipping hidden ones.
export function walk(elements, event, { next = "ArrowDown", back = "ArrowUp" } = {}) {
  const shown = elements.filter((element) => !element.hidden);
  const at = shown.indexOf(document.activeElement);
  const to = { [back]: at - 1, [next]: at + 1, Home: 0, End: shown.length - 1 }[event.key];
  if (to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  shown[to]?.focus();
}

// A list of the parts, each with its formula, its count, its share and one more number, and the sums below.
// ↑ and ↓ choose a part.
export function partList(choose) {
  const rows = NAMES.map((part) => {
    const cells = ["gf-formula-of", "gf-count-of", "gf-share-of", "gf-change-of"].map((style) => h("span", { class: style }));
    const title = h("span", { class: "gf-part-name" }, h("i", { style: coloured(part) }), part);
    const element = h("button", { type: "button", class: "gf-part-row", "data-part": part }, title, cells);
    element.addEventListener("focus", () => choose(part));
    element.addEventListener("click", () => choose(part));
    return { part, element, cells };
  });
  const sums = ["Total", "", "", ""].map((text) => h("span", {}, text));
  const list = h("div", { class: "gf-parts", role: "group", "aria-label": "The parts; arrow keys choose one" }, rows.map(({ element }) => element));
  list.addEventListener("keydown", (event) => walk(rows.map(({ element }) => element), event));
  return {
    element: h("div", {}, list, h("div", { class: "gf-part-row gf-sums" }, sums)),
    // seen: the parts in the list, [{ name, cells }]; chosen: a name; all: the sums of count, share and change
    draw(seen, chosen, all) {
      for (const { part, element, cells } of rows) {
        const found = seen.find(({ name }) => name === part);
        element.hidden = !found;
        put(element, { class: `gf-part-row${part === chosen ? " gf-here" : ""}`, tabindex: part === chosen ? 0 : -1 });
        cells.forEach((cell, i) => write(cell, found?.cells[i] ?? ""));
      }
      all.forEach((text, i) => write(sums[i + 1], text));
    },
  };
}

// The part under the pointer, anywhere in a drawing.
export function onPart(drawing, choose) {
  drawing.addEventListener("pointerover", ({ target, pointerType }) => {
    const part = target.closest("[data-part]")?.dataset.part;
    if (part && pointerType !== "touch") choose(part);
  });
}
