// Draws the characters of a model where their vectors lie. Point at one, or choose it, to see which others point in a similar
// direction in all dimensions, and how many of those the plane has put next to it.

import { range } from "../../widgets/kit/maths.js";
import { choice, fixed, frame, h, onResize, put, redrawing, svg, write } from "../../widgets/kit/kit.js";
import { line, linear } from "../../widgets/kit/plot.js";
import { NAMES } from "../../widgets/engine/model.js";

const LISTED = 8; // neighbours in the list
const JOINED = 5; // the number of these neighbours that lines connect on the map

// --- what is near what ----------------------------------------------------------------------------------------------

// cosines: those of all pairs i < j, row by row, in ten-thousandths; n: the number of characters.
export function cosine(cosines, n, i, j) {
  if (i === j) return 1;
  const [low, high] = i < j ? [i, j] : [j, i];
  return cosines[low * n - (low * (low + 1)) / 2 + high - low - 1] / 10_000;
}

// All other characters, the nearest first: [{ index, cosine }, …].
export function neighbours(cosines, n, i) {
  const others = range(n).filter((j) => j !== i).map((index) => ({ index, cosine: cosine(cosines, n, i, index) }));
  return others.sort((a, b) => b.cosine - a.cosine || a.index - b.index);
}

export function groupOf(character) {
  if (/[aeiou]/.test(character)) return "vowel";
  if (/[a-z]/.test(character)) return "consonant";
  return /[A-Z]/.test(character) ? "capital" : "sign";
}

// Points in pixels, moved as little as possible until no two are closer than `least`, all inside the box.
export function apart(points, least, { left, right, top, bottom }) {
  const moved = points.map(([x, y]) => [x, y]);
  const inside = (value, low, high) => Math.min(Math.max(value, low), high);
  for (let round = 0; round < 200; round++) {
    let touching = false;
    for (let i = 0; i < moved.length; i++) {
      for (let j = i + 1; j < moved.length; j++) {
        const [dx, dy] = [moved[j][0] - moved[i][0], moved[j][1] - moved[i][1]];
        const distance = Math.hypot(dx, dy);
        if (distance >= least) continue;
        touching = true;
        const push = (least - distance) / 2 + 0.05;
        const [ux, uy] = distance > 0 ? [dx / distance, dy / distance] : [Math.cos(i), Math.sin(i)];
        moved[i] = [moved[i][0] - push * ux, moved[i][1] - push * uy];
        moved[j] = [moved[j][0] + push * ux, moved[j][1] + push * uy];
      }
    }
    for (const point of moved) {
      point[0] = inside(point[0], left, right);
      point[1] = inside(point[1], top, bottom);
    }
    if (!touching) break;
  }
  return moved;
}

// --- words ----------------------------------------------------------------------------------------------------------

const GLYPHS = { "\n": "↵", " ": "␣" };
const glyph = (character) => GLYPHS[character] ?? character;
const named = (character) => NAMES[character] ?? `“${character}”`;
const TABLES = { embedding: "embedding", head: "output head" };

export function sentence({ table, characters, chosen, other, near }) {
  const [first, ...rest] = near.slice(0, JOINED);
  const who = ({ index, cosine: c }) => `${named(characters[index])} (${fixed(c, 2)})`;
  const lead =
    `In the ${TABLES[table]}, the nearest to ${named(characters[chosen])} is ${named(characters[first.index])} ` +
    `(cosine ${fixed(first.cosine, 2)}), followed by ${rest.map(who).join(", ")}.`;
  if (other === null || other === chosen) return lead;
  const rank = near.findIndex(({ index }) => index === other);
  return (
    `${lead} ${named(characters[other])} has a cosine of ${fixed(near[rank].cosine, 2)} ` +
    `and is number ${rank + 1} of ${near.length}.`
  );
}

// --- drawing --------------------------------------------------------------------------------------------------------

const SIZE = 20; // the size of a mark in pixels: no two marks are closer than this

const OUTLINES = {
  vowel: () => svg("circle", { r: 9.5 }),
  consonant: () => svg("rect", { x: -8.5, y: -8.5, width: 17, height: 17, rx: 2 }),
  capital: () => svg("path", { d: "M0-12L12 0L0 12L-12 0Z" }),
  sign: () => svg("path", { d: "M-5.5-9.5H5.5L11 0L5.5 9.5H-5.5L-11 0Z" }),
};
const GROUPS = { vowel: "vowels", consonant: "consonants", capital: "capitals", sign: "signs, space, line break" };

const mark = (character) =>
  svg(
    "g",
    { class: `gf-mark gf-mark-${groupOf(character)}` },
    OUTLINES[groupOf(character)](),
    svg("text", { "text-anchor": "middle", y: 4.5 }, glyph(character)),
  );

const shapes = () =>
  h(
    "p",
    { class: "gf-legend" },
    Object.entries(GROUPS).map(([group, name]) =>
      h(
        "span",
        { class: "gf-scale" },
        svg(
          "svg",
          { viewBox: "-13 -13 26 26", width: 20, height: 20, "aria-hidden": "true" },
          svg("g", { class: `gf-mark gf-mark-${group}` }, OUTLINES[group]()),
        ),
        name,
      ),
    ),
  );

function render({ model, el }) {
  const view = frame(el, {
    title: "A map of characters: which of their vectors are alike?",
    hint: "Click a character, or choose one, to see its neighbours. Point at another one to compare the two.",
  });
  const characters = [...model.get("characters")];
  const n = characters.length;
  const options = characters.map((character) => [character, NAMES[character] ?? character]);
  view.controls.append(
    choice(model, "character", { label: "Character", options }),
    choice(model, "other", { label: "Compare with", options: [["", "none"], ...options] }),
    choice(model, "table", {
      label: "Its row in the",
      options: [["embedding", "embedding (read)"], ["head", "output head (guessed)"]],
    }),
  );

  const lines = range(JOINED).map(() => line(0, 0, 0, 0, "gf-join"));
  const marks = characters.map(mark);
  const drawing = svg("svg", { class: "gf-map gf-over" }, lines, marks);
  const share = h("p", { class: "gf-legend" });
  const heading = h("p", { class: "gf-panel-title" });
  const rows = range(LISTED).map(() => {
    const [name, bar, number] = [h("span", { class: "gf-near-name" }), h("i"), h("span", { class: "gf-value" })];
    return { row: h("li", {}, name, h("span", { class: "gf-near-bar" }, bar), number), name, bar, number };
  });
  const beside = h("div", {}, heading, h("ol", { class: "gf-near" }, rows.map(({ row }) => row)));
  view.drawing.append(h("div", { class: "gf-map-panels" }, h("div", {}, drawing, shapes(), share), beside));

  const send = (name, value) => {
    if (model.get(name) === value) return;
    model.set(name, value);
    model.save_changes();
  };

  let places = []; // the position of each mark in pixels
  let laidOut = "";
  function layOut(table) {
    const width = Math.max(drawing.parentElement.clientWidth, 240);
    if (laidOut === `${table} ${width}`) return;
    laidOut = `${table} ${width}`;
    const height = Math.round(Math.min(Math.max(0.72 * width, 330), 440));
    const { points } = model.get("maps")[table];
    const box = { left: 14, right: width - 14, top: 14, bottom: height - 14 };
    const ends = (d) => [Math.min(...points.map((p) => p[d])), Math.max(...points.map((p) => p[d]))];
    const [x, y] = [linear(ends(0), [box.left, box.right]), linear(ends(1), [box.bottom, box.top])];
    places = apart(points.map((p) => [x(p[0]), y(p[1])]), SIZE, box);
    put(drawing, { viewBox: `0 0 ${width} ${height}`, width, height });
    marks.forEach((element, i) => put(element, { transform: `translate(${places[i].map((v) => v.toFixed(1)).join(" ")})` }));
  }

  function nearest(event) {
    const box = drawing.getBoundingClientRect();
    const away = places.map(([x, y]) => Math.hypot(event.clientX - box.x - x, event.clientY - box.y - y));
    const index = away.indexOf(Math.min(...away));
    return away[index] <= 1.2 * SIZE ? characters[index] : null;
  }
  drawing.addEventListener("pointermove", (event) => {
    const under = nearest(event);
    if (event.pointerType === "mouse" && under !== null && under !== model.get("character")) send("other", under);
  });
  drawing.addEventListener("click", (event) => {
    const under = nearest(event);
    if (under !== null) send("character", under);
  });

  function draw() {
    const table = model.get("table");
    layOut(table);
    const { cosines, lengths, points, share: kept } = model.get("maps")[table];
    const chosen = characters.indexOf(model.get("character"));
    const other = model.get("other") === "" ? null : characters.indexOf(model.get("other"));
    const near = neighbours(cosines, n, chosen);
    const joined = new Set(near.slice(0, JOINED).map(({ index }) => index));
    lines.forEach((element, i) => {
      const [[x1, y1], [x2, y2]] = [places[chosen], places[near[i].index]];
      put(element, { x1, y1, x2, y2 });
    });
    marks.forEach((element, i) => {
      element.classList.toggle("gf-mark-chosen", i === chosen);
      element.classList.toggle("gf-mark-near", joined.has(i));
      element.classList.toggle("gf-mark-other", i === other && i !== chosen);
    });
    write(heading, `Nearest to ${named(characters[chosen])}, by cosine`);
    rows.forEach(({ name, bar, number }, i) => {
      write(name, glyph(characters[near[i].index]));
      bar.style.width = `${Math.max(0, 100 * near[i].cosine)}%`;
      write(number, fixed(near[i].cosine, 2));
    });
    write(
      share,
      `The map keeps ${fixed(100 * kept, 0)} % of the differences between the ${n} directions; no other plane keeps more. The lines ` +
        `lead to the ${JOINED} nearest characters in all dimensions. Marks that would cover each other are moved apart.`,
    );
    view.describe(
      () =>
        `Map of ${n} characters by their rows in the ${TABLES[table]}, ${named(characters[chosen])} joined to ` +
        `${near.slice(0, JOINED).map(({ index }) => named(characters[index])).join(", ")}`,
    );
    view.says(sentence({ table, characters, chosen, other, near }));
    view.tables(() => {
      const away = (i) => Math.hypot(...[0, 1].map((d) => points[i][d] - points[chosen][d]));
      return [
        {
          caption: `All characters, by cosine with ${named(characters[chosen])} in the ${TABLES[table]}`,
          headers: ["Character", "Group", "Cosine", "Distance on the map", "Length of the row"],
          rows: () =>
            [{ index: chosen, cosine: 1 }, ...near].map(({ index, cosine: c }) => [
              NAMES[characters[index]] ?? characters[index],
              groupOf(characters[index]),
              fixed(c, 3),
              fixed(away(index), 3),
              fixed(lengths[index], 2),
            ]),
        },
      ];
    });
  }

  const drawn = redrawing(model, ["table", "character", "other"], draw);
  const observed = onResize(drawing.parentElement, drawn.ask);
  return () => {
    observed();
    drawn.stop();
  };
}

export default { render };
