// Which experts the router of a small mixture chooses for each character, and a test of what an expert is for. See router_view.py.
import { choice, fixed, frame, grouped, h, percent, put, redrawing, setAll, write } from "../../widgets/kit/kit.js";
import { range } from "../../widgets/kit/maths.js";
import { shareBar } from "../../widgets/kit/shares.js";
import { letters } from "../../widgets/engine/letters.js";
import { named, visible } from "../../widgets/engine/model.js";
import { textReader } from "../../widgets/engine/text_reader.js";
import { expertsOf } from "../../widgets/engine/transformer.js";

// One for each of eight experts; a ninth has the first colour again, but its own number.
const COLOURS = ["e69f00", "56b4e9", "009e73", "f0e442", "0072b2", "d55e00", "cc79a7", "a6a6a6"];
const colourOf = (e) => `#${COLOURS[e % COLOURS.length]}`;
const channels = (e) => [0, 2, 4].map((i) => Number.parseInt(COLOURS[e % COLOURS.length].slice(i, i + 2), 16));
const first = Object.assign(colourOf, { channels });
const second = (e) => `linear-gradient(to top, ${colourOf(e)} 5px, transparent 5px)`;

// --- maths ----------------------------------------------------------------------------------------------------------

// The A experts with the largest of the probabilities, the largest first, and their weights.
export function routed(p, { A, renormalize, scale }) {
  const chosen = range(p.length).sort((i, j) => p[j] - p[i] || i - j).slice(0, A);
  const total = renormalize ? chosen.reduce((sum, e) => sum + p[e], 0) : 1;
  return { chosen, weights: chosen.map((e) => (scale * p[e]) / total) };
}

// How a guess fits: the share of an expert's characters, that of all, how far a random expert of the same size would be from that
// (two standard deviations of drawing without replacement), and the share of all such characters that the expert takes.
export function tested(facts, block, expert, guess) {
  const rule = facts.rules.indexOf(guess);
  if (rule < 0 || expert < 0) return null;
  const [own, all] = [facts.experts[block][expert], facts.all];
  const share = all.fits[rule] / all.n;
  const spread = own.n ? 2 * Math.sqrt(((share * (1 - share)) / own.n) * ((all.n - own.n) / (all.n - 1))) : 0;
  return { own: own.n ? own.fits[rule] / own.n : 0, all: share, spread, taken: all.fits[rule] ? own.fits[rule] / all.fits[rule] : 0 };
}

// --- words ----------------------------------------------------------------------------------------------------------

const tenths = (share) => fixed(100 * share, 1);

function verdictOf({ own, all, spread }) {
  if (own > all + spread) return all > 0 ? `That is ${fixed(own / all, 1)} times as many as chance would give.` : "";
  if (own < all - spread) return "So this expert takes fewer of them than chance would give.";
  return "So this guess is no better than chance.";
}

export function testSentence(found, { block, expert, guess }) {
  const random = `${tenths(found.all)} ± ${tenths(found.spread)} %`;
  return `Of the characters that expert ${expert} of block ${block} takes, ${tenths(found.own)} % are ${guess}; of a random expert’s, ${random} would be. ${verdictOf(found)}`;
}

function routeSentence(character, at, block, { chosen, weights }) {
  const to = chosen.map((e, i) => `expert ${e} (weight ${fixed(weights[i], 2)})`).join(" and ");
  return `Block ${block} sends ${named(character)} at position ${at} to ${to}.`;
}

// --- view -----------------------------------------------------------------------------------------------------------

const TRAITS = ["text", "block", "position", "expert", "guess"];

// Rows of a sign, a bar and a number, which stay while what they show changes.
function bars(n, style) {
  const rows = range(n).map(() => shareBar("", 0));
  const show = (i, { sign, share, number = percent(share), colour, isStrong = false }) => {
    const [name, length, said] = rows[i].children;
    write(name, sign);
    put(length, { style: `--share: ${share.toFixed(4)}; background: ${colour}` });
    write(said, number);
    put(rows[i], { class: `gf-bar${isStrong ? " gf-router-chosen" : ""}` });
  };
  return { element: h("div", { class: `gf-bars ${style}` }, rows), n, show };
}

function render({ model, el }) {
  const view = frame(el, {
    title: "Which expert takes which character?",
    hint:
      "In each block, the router sends every character to two of the experts. Point at a character to see them, or choose an expert to see what it takes. " +
      "Guess what it is for, and test the guess on text that the model has not learned from.",
  });
  view.drawing.setAttribute("role", "group"); // role="img" must not contain buttons
  const config = model.get("_config");
  const { n_layers: L, context_length: context } = config;
  const experts = expertsOf(config);
  const [stored, facts] = [model.get("_stored"), model.get("_facts")]; // no facts: of a reader's own model
  const seen = (text) => [...text].slice(0, context).join("");
  let read = { text: seen(stored.text), positions: stored.probabilities.map((blocks) => blocks.map((p) => p.map((x) => x / 10_000))) };

  const reader = textReader(model, {
    view,
    label: "Your text",
    seen,
    look: (all) => all.filter(({ name }) => name === "probabilities").map(({ array }) => Array.from(array)),
    isStored: () => model.get("text") === stored.text,
    show(reading, characters) {
      read = { text: characters.join(""), positions: [...reading.positions] };
      drawn.ask();
    },
    told: () => drawn.ask(),
  });
  // The initial text needs no weights when the reader comes back to it.
  const initial = read;
  const positionsOf = (text) => [read, initial].find((one) => one.text === seen(text))?.positions ?? [];

  // --- controls and drawing

  view.controls.append(reader.control, choice(model, "block", { label: "Block", options: range(L).map((i) => [i, String(i)]) }));
  const choose = (expert) => setAll(model, { expert, guess: expert === model.get("expert") ? model.get("guess") : "" });
  const chips = [-1, ...range(experts.X)].map((e) => {
    const swatch = h("span", { class: "gf-router-swatch", style: e < 0 ? "" : `background: ${colourOf(e)}` });
    const chip = { type: "button", class: "gf-button gf-router-chip", "aria-label": e < 0 ? "All experts" : `Expert ${e}`, onclick: () => choose(e) };
    return h("button", chip, e < 0 ? "All experts" : [swatch, String(e)]);
  });
  const line = letters({ label: "Your text; arrow keys go along it", ask: (position) => setAll(model, { position }) });
  line.element.classList.add("gf-router-text");
  const [routerTitle, expertTitle, legend, advice] = ["gf-panel-title", "gf-panel-title", "gf-hint gf-router-legend", "gf-hint"].map((style) => h("p", { class: style }));
  const [probabilities, frequent, test] = [bars(experts.X, "gf-router-bars"), bars(facts?.all.frequent.length ?? 0, ""), bars(2, "gf-router-test")];
  const options = [["", "choose a guess …"], ...(facts?.rules ?? []).map((rule) => [rule, rule])];
  const outcome = h("div", {}, test.element);
  const guessing = h("div", { class: "gf-router-guess" }, choice(model, "guess", { label: "My guess: most of its characters are", options }), outcome);
  view.drawing.append(
    h("div", { class: "gf-buttons", role: "group", "aria-label": "Experts" }, chips),
    line.element,
    legend,
    h(
      "div",
      { class: "gf-panels" },
      h("div", { class: "gf-panel-cell" }, routerTitle, probabilities.element),
      h("div", { class: "gf-panel-cell", ...(facts ? {} : { hidden: true }) }, expertTitle, frequent.element, advice, guessing),
    ),
  );

  function draw() {
    const { text, block, position, expert, guess } = Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]));
    const [characters, positions] = [[...seen(text)], positionsOf(text)];
    const routes = positions.map((blocks) => routed(blocks[block], experts));
    const at = Math.min(position, Math.max(routes.length - 1, 0));
    chips.forEach((chip, i) => put(chip, { "aria-pressed": i - 1 === expert }));
    line.show(characters, routes.length, at, (t) => {
      const { chosen } = routes[t];
      const place = expert < 0 ? 0 : chosen.indexOf(expert);
      const shown = expert < 0 ? chosen[0] : expert;
      return { colours: place < 0 ? null : place === 0 ? first : second, value: shown, sign: String(chosen[0]), says: `experts ${chosen.join(" and ")}` };
    });
    const took = range(2).map((place) => routes.filter(({ chosen }) => chosen[place] === expert).length);
    write(
      legend,
      expert < 0
        ? "The colour and the number below a character show its first choice: the expert with the largest weight."
        : `Filled: expert ${expert} is the first choice (${took[0]} of ${routes.length} characters here). Underlined: it is the second choice (${took[1]}).`,
    );

    const route = routes[at];
    write(routerTitle, `Probabilities → weights${route ? ` for ${named(characters[at])} at position ${at}` : ""}`);
    for (const e of range(experts.X)) {
      const place = route?.chosen.indexOf(e) ?? -1;
      const share = positions[at]?.[block][e] ?? 0;
      const weight = place < 0 ? "" : ` → ${fixed(route.weights[place], 2)}`;
      probabilities.show(e, { sign: String(e), share, number: `${percent(share)}${weight}`, colour: colourOf(e), isStrong: place >= 0 });
    }

    const own = expert < 0 ? facts?.all : facts?.experts[block][expert];
    const found = facts && tested(facts, block, expert, guess);
    if (facts) {
      write(expertTitle, expert < 0 ? "Most frequent characters in held-out text" : `What expert ${expert} takes most often, in held-out text`);
      range(frequent.n).forEach((i) => {
        const [character, n] = own.frequent[i] ?? ["", 0];
        frequent.show(i, { sign: visible(character), share: own.n ? n / own.n : 0, colour: expert < 0 ? "var(--gf-muted)" : colourOf(expert) });
      });
      write(advice, expert < 0 ? "Choose an expert above, and guess what it is for." : "");
      guessing.hidden = expert < 0;
      outcome.hidden = !found;
      if (found) {
        test.show(0, { sign: `expert ${expert}`, share: found.own, number: `${tenths(found.own)} %`, colour: colourOf(expert) });
        test.show(1, { sign: "random", share: found.all, number: `${tenths(found.all)} %`, colour: "var(--gf-muted)" });
      }
    }

    const says = reader.words() || [found && testSentence(found, { block, expert, guess }), !found && route && routeSentence(characters[at], at, block, route)].filter(Boolean).join(" ");
    view.says(says);
    view.describe(() => `A text coloured by the experts that block ${block} chooses. ${says}`);
    view.tables(() => tables({ facts, characters, positions, routes, at, block, expert, guess, found, own }));
  }

  const drawn = redrawing(model, TRAITS, draw);
  const forget = () => setAll(model, { guess: "" }); // a guess is about one expert of one block
  model.on("change:block", forget);
  reader.start();
  return () => {
    model.off("change:block", forget);
    reader.stop();
    drawn.stop();
  };
}

function tables({ facts, characters, positions, routes, at, block, expert, guess, found, own }) {
  const each = (t) => routes[t].chosen.flatMap((e, i) => [e, fixed(routes[t].weights[i], 3)]);
  return [
    {
      caption: `The experts that block ${block} chooses for each character`,
      headers: ["Position", "Character", ...(routes[0]?.chosen ?? []).flatMap((_, i) => [`Choice ${i + 1}`, "Weight"])],
      rows: () => routes.map((_, t) => [t, visible(characters[t]), ...each(t)]),
    },
    { caption: `The router’s probabilities at position ${at}`, headers: ["Expert", "Probability"], rows: () => (positions[at]?.[block] ?? []).map((p, e) => [e, fixed(p, 4)]) },
    own && { caption: `The most frequent characters of ${expert < 0 ? "all" : `expert ${expert}, block ${block}`} in held-out text`, headers: ["Character", "Share in %"], rows: () => own.frequent.map(([c, n]) => [visible(c), tenths(n / own.n)]) },
    found && {
      caption: `The guess “${guess}”, in ${grouped(facts.all.n)} characters of held-out text`,
      headers: ["", "In %"],
      rows: Object.entries({ [`Expert ${expert}’s characters that fit`]: found.own, "All characters that fit": found.all, "Two standard deviations for a random expert": found.spread, [`Fitting characters that expert ${expert} takes`]: found.taken }).map(([what, share]) => [what, tenths(share)]),
    },
  ].filter(Boolean);
}

export default { render };
