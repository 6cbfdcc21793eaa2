// Where the parameters are in every model of the book, from 512 to 175 billion. See parameter_bars.py.
import { KEPT, formulaOf, inBytes, much, partOf, percent, sentence, total } from "../../widgets/engine/counting.js";
import { choice, fixed, frame, grouped, h, hold, put, redrawing, setAll, slider, write } from "../../widgets/kit/kit.js";
import { NAMES, legend, onPart, partList, stack, walk } from "../../widgets/engine/parts.js";

// --- numbers --------------------------------------------------------------------------------------------------------

// A stored model with its parts counted.
export function counted({ parts, ...model }) {
  const made = parts.map(([name, times, terms, note]) => partOf(name, times, terms, note, model.sizes));
  return { ...model, parts: made, total: total(made) };
}

const shareOf = ({ parts, total: all }, name) => (parts.find((part) => part.name === name)?.count ?? 0) / all;

// Embeddings: everything outside the blocks that depends on tokens or positions.
const OUTSIDE = ["token embedding", "positions", "segments", "head"];
export const outside = (model) => OUTSIDE.reduce((share, name) => share + shareOf(model, name), 0);

// The models of a family, in order. All lists begin with the smallest, the oldest, or the smallest feed-forward share.
export function arranged(models, family, sort) {
  const by = { size: (model) => model.total, year: (model) => model.year ?? 0, "feed-forward": (model) => shareOf(model, "feed-forward") }[sort];
  return models
    .filter((model) => family === "all" || model.family === family)
    .sort((a, b) => by(a) - by(b) || a.total - b.total);
}

// The width of a model relative to the frame that another model fills, so that areas are true to scale.
export const side = (model, scale) => Math.sqrt(model.total / scale.total);

const HEIGHT = 340; // pixels of the frame
const DOT = 4; // pixels below which a model is only a dot
const OWN = "teaching-736"; // the model that chapter 08 counts by hand, which is always shown

// --- words ----------------------------------------------------------------------------------------------------------

const times = (x) => (x < 10 ? fixed(x, 1) : x < 1e6 ? grouped(Math.round(x)) : much(x));
const roughly = (n) => (n < 1e4 ? grouped(n) : much(n));

// What is visible of a model if the other one fills the frame.
export function onScale(model, scale) {
  if (model.name === scale.name) return `${model.name} fills the frame.`;
  if (model.total > scale.total) return `${model.name} is ${times(model.total / scale.total)} times the frame.`;
  const high = HEIGHT * side(model, scale);
  const fit = `${times(scale.total / model.total)} of it would fill the frame.`;
  if (high >= DOT) return `${model.name}: ${fit}`;
  const pixels = high < 1 ? `${Number(high.toPrecision(2))} of a pixel` : `${fixed(high, 1)} pixels`;
  return `${model.name} is a dot, ${pixels} high: ${fit}`;
}

// The memory of the weights, and their cost: each is used in one multiplication and one addition per token.
const COSTS = [
  ...KEPT.map(([kind, bytes]) => [`All weights in ${kind}`, ({ total: n }) => inBytes(n * bytes)]),
  ["Operations for each token, about 2N", ({ total: n }) => much(2 * n)],
];

const costsOf = (models) => [
  h("thead", {}, h("tr", {}, h("td"), models.map(({ name }) => h("th", { scope: "col" }, name)))),
  h("tbody", {}, COSTS.map(([what, of]) => h("tr", {}, h("th", { scope: "row" }, what), models.map((each) => h("td", {}, of(each)))))),
];

// --- view -----------------------------------------------------------------------------------------------------------

const LINE = 19; // pixels between two lines of names
const TRAITS = ["view", "family", "sort", "model", "other", "scale", "part"];

function render({ model, el }) {
  const view = frame(el, {
    title: "Where the parameters of every model are",
    hint: "Each model is a bar of 100 %, or an area true to scale. Choose one with a click or with ↑ and ↓, and its parts are counted below. Point at a part to read about it.",
  });
  const letters = model.get("_letters");
  const models = model.get("_models").map(counted);
  const named = (name) => models.find((each) => each.name === name);
  const send = (changes) => setAll(model, changes);
  const chooseModel = (name) => send({ model: name });
  const choosePart = (part) => send({ part });

  // --- controls

  const everyone = models.map(({ name }) => [name, name]);
  const scale = slider(model, "scale", {
    label: "Model that fills the frame",
    values: models.map(({ name }) => name),
    format: (name) => `${name}, ${roughly(named(name).total)}`,
  });
  const sort = choice(model, "sort", { label: "Sort by", options: [["size", "size"], ["year", "year"], ["feed-forward", "feed-forward"]] });
  const family = choice(model, "family", {
    label: "Family",
    options: [["all", "all"], ["decoder", "decoders"], ["encoder", "encoders"], ["encoder-decoder", "encoder–decoders"]],
  });
  family.classList.add("gf-wide-choice");
  view.controls.append(
    choice(model, "view", { label: "See", options: [["share", "shares"], ["size", "sizes"]] }),
    family,
    sort,
    choice(model, "model", { label: "Model", options: everyone }),
    choice(model, "other", { label: "Compare with", options: [["none", "none"], ...everyone] }),
    scale,
  );
  scale.classList.add("gf-filling");

  // --- drawing

  const bars = new Map(
    models.map(({ name, total: all, year }) => {
      const bar = stack();
      const when = h("span", { class: "gf-when" }, year ?? "");
      const element = h(
        "button",
        { type: "button", class: "gf-one-model", onclick: () => chooseModel(name), onfocus: () => chooseModel(name) },
        h("span", { class: "gf-model-name" }, name, when),
        bar.element,
        h("span", { class: "gf-much" }, roughly(all)),
      );
      return [name, { element, bar }];
    }),
  );
  const list = h("div", { class: "gf-models", role: "group", "aria-label": "The models; arrow keys choose one" });
  list.addEventListener("keydown", (event) => walk([...list.children], event));

  // The smallest is on top. A chosen one shows its parts, the others only their outlines.
  const boxes = new Map(
    models
      .toReversed()
      .map(({ name }) => {
        const label = h("span", { class: "gf-box-name" }, name);
        return [name, { element: h("div", { class: "gf-box", onclick: () => chooseModel(name) }, label), label }];
      }),
  );
  const fillings = [stack(), stack()]; // for the chosen model, and for the one it is compared with
  const dotName = h("span", { class: "gf-box-name" });
  const dot = h("div", { class: "gf-dot" }, dotName);
  const areas = h("div", { class: "gf-areas", "aria-hidden": "true", style: `height: ${HEIGHT}px` }, [...boxes.values()].map(({ element }) => element), dot);

  const about = h("p", { class: "gf-which-model" });
  const parts = partList(choosePart);
  const costs = h("table", { class: "gf-readout" });
  view.drawing.setAttribute("role", "group"); // role="img" must not contain buttons
  const used = NAMES.filter((name) => models.some((each) => shareOf(each, name)));
  view.drawing.append(legend(used), list, areas, about, h("div", { class: "gf-counted" }, parts.element), costs);
  onPart(view.drawing, choosePart);

  function drawBars(seen, chosen, other, part) {
    hold(list, ["models", ...seen.map(({ name }) => name)], () => seen.map(({ name }) => bars.get(name).element));
    const tabbed = seen.some(({ name }) => name === chosen.name) ? chosen.name : seen[0].name;
    for (const { name, parts: all } of seen) {
      const { element, bar } = bars.get(name);
      bar.draw(all, part);
      put(element, {
        class: `gf-one-model${name === chosen.name ? " gf-here" : name === other?.name ? " gf-beside" : ""}`,
        tabindex: name === tabbed ? 0 : -1,
        "aria-pressed": name === chosen.name,
        "aria-label": `${name}, ${roughly(named(name).total)}: feed-forward ${percent(shareOf(named(name), "feed-forward"))}`,
      });
    }
  }

  function drawAreas(seen, chosen, other, full, part) {
    let lowest = Number.NEGATIVE_INFINITY; // the height of the last name
    const first = [chosen.name, other?.name];
    const small = [...new Set([...first, OWN])].filter((name) => seen.some((each) => each.name === name) && HEIGHT * side(named(name), full) < LINE);
    const floor = HEIGHT - (small.length ? 2.5 * LINE : LINE); // the dot has its name there
    const tops = seen.map((each) => [each.name, HEIGHT * (1 - side(each, full))]);
    const taken = tops.filter(([name]) => first.includes(name)).map(([, top]) => top);
    for (const { name } of models) {
      const { element } = boxes.get(name);
      const here = named(name);
      element.hidden = !seen.includes(here) || here.total > full.total;
    }
    [chosen, other].forEach((each, i) => {
      fillings[i].element.hidden = !each;
      if (!each) return;
      const { element } = boxes.get(each.name);
      if (fillings[i].element.parentNode !== element) element.prepend(fillings[i].element);
      fillings[i].draw(each.parts, part);
    });
    for (const each of seen.toReversed()) {
      const { element, label } = boxes.get(each.name);
      if (element.hidden) continue;
      const share = `${(100 * side(each, full)).toFixed(4)}%`;
      if (element.style.width !== share) Object.assign(element.style, { width: share, height: share });
      const special = first.includes(each.name);
      put(element, { class: `gf-box${each === chosen ? " gf-here" : special ? " gf-beside" : ""}` });
      const top = HEIGHT * (1 - side(each, full));
      const room = top - lowest >= LINE && top <= floor && (special || taken.every((y) => Math.abs(y - top) >= LINE));
      label.hidden = !room;
      if (room) lowest = top;
    }
    dot.hidden = small.length === 0;
    write(dotName, small.join(", "));
  }

  function draw() {
    const state = Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]));
    const [chosen, other, full] = [named(state.model), state.other === state.model ? undefined : named(state.other), named(state.scale)];
    const seen = arranged(models, state.family, state.sort);
    const sized = state.view === "size";
    list.hidden = sized;
    areas.hidden = scale.hidden = !sized;
    sort.hidden = sized;
    if (sized) drawAreas(arranged(models, state.family, "size"), chosen, other, full, state.part);
    else drawBars(seen, chosen, other, state.part);

    const part = chosen.parts.find(({ name }) => name === state.part) ?? chosen.parts[0];
    const filled = (letter) => grouped(chosen.sizes[letter]);
    write(about, `${chosen.name}: ${grouped(chosen.total)} parameters${other ? `, and in the last column the shares of ${other.name}` : ""}`);
    parts.draw(
      NAMES.flatMap((name) => {
        const [found, there] = [chosen, other].map((each) => each?.parts.find((one) => one.name === name));
        if (!found && !there?.count) return [];
        const share = other ? percent((there?.count ?? 0) / other.total) : "";
        return [{ name, cells: [found ? formulaOf(found, filled) : "not in this model", grouped(found?.count ?? 0), percent((found?.count ?? 0) / chosen.total), share] }];
      }),
      part.name,
      [grouped(chosen.total), percent(1), other ? percent(1) : ""],
    );
    const both = [chosen, other].filter(Boolean);
    hold(costs, ["costs", ...both.map(({ name }) => name)], () => costsOf(both));

    const said = sentence(part, chosen.parts, chosen.sizes, chosen.parts, "");
    const beside = other ? ` In ${other.name} it is ${percent(shareOf(other, part.name))}.` : "";
    const measured = new Set([...both, ...seen.filter(({ name }) => name === OWN)]);
    const scaled = [...measured].map((each) => onScale(each, full)).join(" ");
    view.says(sized ? scaled : `${chosen.name}. ${said}${beside}`);
    view.describe(() =>
      sized
        ? `Areas true to scale, ${full.name} filling the frame. ${scaled}`
        : `${seen.length} models as bars of 100 %, by ${state.sort}: embeddings, positions and head are ${percent(outside(seen[0]))} of ` +
          `${seen[0].name} and ${percent(outside(seen.at(-1)))} of ${seen.at(-1).name}.`,
    );
    view.tables(() => [
      {
        caption: `${chosen.name}, part by part`,
        headers: ["Part", "Formula", "With its numbers", "Parameters", "Share", ...(other ? [other.name, "Share"] : [])],
        rows: () => [
          ...NAMES.flatMap((name) => {
            const [found, there] = [chosen, other].map((each) => each?.parts.find((one) => one.name === name));
            if (!found && !there) return [];
            const counts = [[chosen, found], ...(other ? [[other, there]] : [])];
            return [[
              name,
              found ? formulaOf(found) : "–",
              found ? formulaOf(found, filled) : "–",
              ...counts.flatMap(([each, one]) => [grouped(one?.count ?? 0), percent((one?.count ?? 0) / each.total)]),
            ]];
          }),
          ["total", "", "", ...both.flatMap((each) => [grouped(each.total), percent(1)])],
        ],
      },
      {
        caption: "All models: parameters, and the share of each part",
        headers: ["Model", "Family", "Year", "Parameters", ...NAMES],
        rows: () => seen.map((each) => [each.name, each.family, each.year ?? "–", grouped(each.total), ...NAMES.map((name) => percent(shareOf(each, name)))]),
      },
      {
        caption: "What the letters stand for",
        headers: ["Letter", "Field", ...both.map(({ name }) => name)],
        rows: () => Object.entries(letters).map(([letter, name]) => [letter, name, ...both.map(({ sizes }) => grouped(sizes[letter]))]),
      },
    ]);
  }

  return redrawing(model, TRAITS, draw).stop;
}

export default { render };
