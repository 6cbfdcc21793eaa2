// Learns byte pairs, merge by merge. A token is written with one letter for each byte, as in engine/byte_pairs.js.

import { utf8 } from "../../widgets/kit/bytes.js";
import { button, choice, fixed, frame, grouped, h, hold, put, redrawing, slider, svg, textField } from "../../widgets/kit/kit.js";
import { line, linear, xAxis, yAxis } from "../../widgets/kit/plot.js";
import { LETTERS, merged, ranksOf, spelled, wordsOf } from "../../widgets/engine/byte_pairs.js";

const MOST_MERGES = 150;
const LONGEST = 200;
const LISTED = 6; // most frequent pairs
const IDS = 65_536; // more than there are tokens

// --- learning -------------------------------------------------------------------------------------------------------

// The merges that a text teaches, the most frequent pair first; of equally frequent pairs, the one with the lower ids.
//   merges   [{ pair: [a, b], count, made }, …]
//   states   after 0, 1, 2 … merges: the number of tokens in the text, the size of the vocabulary, and the leading pairs
export function learn(text, most = MOST_MERGES) {
  const tokens = [...LETTERS].sort((a, b) => a.codePointAt(0) - b.codePointAt(0)); // by id
  const ids = new Map(tokens.map((token, id) => [token, id]));
  const times = new Map(); // how often each word occurs
  for (const row of text.split(/(?<=\n)/)) {
    for (const word of wordsOf(row)) times.set(word.join(""), (times.get(word.join("")) ?? 0) + 1);
  }
  const words = Array.from(times, ([word, count]) => ({ ids: Array.from(word, (letter) => ids.get(letter)), count }));
  const counts = new Map(); // how often each pair occurs, with a pair as one number
  const where = new Map(); // the words that have, or once had, a pair
  const add = (word, sign) => {
    for (let i = 0; i + 1 < word.ids.length; i++) {
      const key = word.ids[i] * IDS + word.ids[i + 1];
      const count = (counts.get(key) ?? 0) + sign * word.count;
      if (count) counts.set(key, count);
      else counts.delete(key);
      if (sign > 0) where.set(key, (where.get(key) ?? new Set()).add(word));
    }
  };
  for (const word of words) add(word, 1);

  const leading = () => {
    const best = []; // [key, count], in order
    counts.forEach((count, key) => {
      const last = best.length === LISTED ? best[LISTED - 1] : [Infinity, 0];
      if (count < last[1] || (count === last[1] && key > last[0])) return; // true for nearly all pairs
      const place = best.findIndex(([k, c]) => c < count || (c === count && k > key));
      best.splice(place < 0 ? best.length : place, 0, [key, count]);
      best.length = Math.min(best.length, LISTED);
    });
    return best.map(([key, count]) => ({ key, pair: [tokens[Math.floor(key / IDS)], tokens[key % IDS]], count }));
  };
  let left = words.reduce((sum, word) => sum + word.ids.length * word.count, 0);
  const state = () => ({ tokens: left, vocabulary: tokens.length, leading: leading() });

  const merges = [];
  const states = [state()];
  while (merges.length < most && states.at(-1).leading.length) {
    const { key, pair, count } = states.at(-1).leading[0];
    const made = pair.join("");
    if (!ids.has(made)) ids.set(made, tokens.push(made) - 1);
    const [a, b, id] = [Math.floor(key / IDS), key % IDS, ids.get(made)];
    for (const word of where.get(key)) {
      const shorter = joined(word.ids, (x, y) => x === a && y === b, id);
      if (shorter.length === word.ids.length) continue; // the word had the pair only once
      left -= (word.ids.length - shorter.length) * word.count;
      add(word, -1);
      word.ids = shorter;
      add(word, 1);
    }
    merges.push({ pair, count, made });
    states.push(state());
  }
  return { merges, states };
}

// Merges every two neighbours that match, from left to right.
function joined(symbols, fit, made) {
  const result = [];
  for (let i = 0; i < symbols.length; i++) {
    if (i + 1 < symbols.length && fit(symbols[i], symbols[i + 1])) {
      result.push(made);
      i++;
    } else {
      result.push(symbols[i]);
    }
  }
  return result;
}

// The tokens of a text with these merges.
export function encode(text, merges) {
  const ranks = ranksOf(merges.map(({ pair }) => pair));
  return wordsOf(text).flatMap((word) => merged(word, ranks));
}

// --- words ----------------------------------------------------------------------------------------------------------

const quoted = (token) => `“${spelled(token)}”`;
const plus = (pair) => pair.map(quoted).join(" + ");
const times = (count) => (count === 1 ? "once" : count === 2 ? "twice" : `${grouped(count)} times`);
const many = (count, what) => `${grouped(count)} ${what}${count === 1 ? "" : "s"}`;

export function sentence({ n, learned, tokens, bytes, source }) {
  const { merges, states } = learned;
  const { vocabulary, leading } = states[n];
  const there = source === "text" ? "your text" : "the excerpt";
  const done = n
    ? `Merge ${n}: ${plus(merges[n - 1].pair)} became ${quoted(merges[n - 1].made)}, ${times(merges[n - 1].count)} in ${there}.`
    : "No merge yet: each byte is a token.";
  const shorter = bytes
    ? ` Your text: ${many(bytes, "byte")} in ${many(tokens, "token")}, ${fixed(bytes / tokens, 2)} bytes a token.`
    : " Your text is empty.";
  if (!leading.length) return `${done}${shorter} Vocabulary: ${vocabulary}. No pair is left: each word is one token.`;
  const [next, second] = leading;
  const tie = second?.count === next.count ? `, as often as ${plus(second.pair)}; the lower ids go first` : "";
  return `${done}${shorter} Vocabulary: ${vocabulary}. Next: ${plus(next.pair)}, ${times(next.count)} in ${there}${tie}.`;
}

// --- drawing --------------------------------------------------------------------------------------------------------

const WIDTH = 340;
const BOX = { left: 46, right: 330, top: 10, bottom: 130 };

function curve() {
  const scene = svg("g");
  const path = svg("path", { class: "gf-wave" });
  const spot = svg("circle", { r: 5.5, class: "gf-spot" });
  const guide = line(0, 0, 0, BOX.bottom, "gf-guide");
  const y = linear([0, 100], [BOX.bottom, BOX.top]);
  const element = svg("svg", { viewBox: `0 0 ${WIDTH} 172`, class: "gf-panel" }, scene, path, guide, spot);
  function follow(states, n) {
    const last = Math.max(states.length - 1, 1);
    const x = linear([0, last], [BOX.left, BOX.right]);
    const share = ({ tokens }) => (100 * tokens) / Math.max(states[0].tokens, 1);
    hold(scene, [last], () => [
      yAxis(BOX, { values: [0, 50, 100], place: y, format: (value) => `${value} %`, lines: true }),
      xAxis(BOX, { values: [0, last], place: x, title: "merges", ticks: true, inside: true }),
    ]);
    put(path, { d: `M${states.map((state, i) => `${x(i).toFixed(1)} ${y(share(state)).toFixed(1)}`).join("L")}` });
    put(spot, { cx: x(n), cy: y(share(states[n])) });
    put(guide, { x1: x(n), x2: x(n), y1: y(share(states[n])) });
  }
  return { element, follow };
}

function render({ model, el }) {
  const view = frame(el, {
    title: "Byte pairs: the most frequent pair becomes one token",
    hint: "Press Merge several times, or move the slider. You can also type a text of your own.",
  });
  let learned = { merges: [], states: [{ tokens: 0, vocabulary: 256, leading: [] }] };
  let taught; // the text that was learned from
  const learnAgain = () => {
    const text = model.get(model.get("learn_from"));
    if (text !== taught) [taught, learned] = [text, learn(text)];
  };
  const available = () => {
    learnAgain();
    return learned.merges.length;
  };
  const now = () => Math.min(model.get("merges"), available());
  const go = (n) => {
    model.set("merges", Math.min(Math.max(n, 0), available()));
    model.save_changes();
  };

  view.controls.append(
    textField(model, "text", { label: `Your text (up to ${LONGEST} characters)`, maxLength: LONGEST }),
    choice(model, "learn_from", {
      label: "Pairs are counted in",
      options: [["excerpt", "some Shakespeare"], ["text", "your text"]],
    }),
    slider(model, "merges", { label: "Merges", min: 0, max: available, follows: ["learn_from", "text"] }),
    h("div", { class: "gf-buttons" }, button("Merge", () => go(now() + 1)), button("Back", () => go(now() - 1))),
  );
  const [above, pieces, list] = [h("p", { class: "gf-panel-title" }), h("div", { class: "gf-pieces" }), h("ol", { class: "gf-pairs" })];
  const chart = curve();
  view.drawing.append(
    above,
    pieces,
    h(
      "div",
      { class: "gf-panels gf-below" },
      h("div", { class: "gf-panel-cell" }, h("p", { class: "gf-panel-title" }, "The most frequent pairs now"), list),
      h(
        "div",
        { class: "gf-panel-cell" },
        h("p", { class: "gf-panel-title" }, "Number of tokens in the text where pairs are counted, as a share of its bytes"),
        chart.element,
      ),
    ),
  );

  function draw() {
    const n = now();
    const [text, source] = [model.get("text"), model.get("learn_from")];
    const tokens = encode(text, learned.merges.slice(0, n));
    const bytes = utf8(text).length;
    const state = learned.states[n];
    const made = n ? learned.merges[n - 1].made : null;
    hold(above, [tokens.length, bytes], () => [
      "Your text: ",
      h("strong", {}, grouped(tokens.length)),
      ` ${tokens.length === 1 ? "token" : "tokens"} for ${many(bytes, "byte")}`,
    ]);
    hold(pieces, [made, ...tokens], () =>
      tokens.map((token) => h("span", { class: token === made ? "gf-piece gf-piece-new" : "gf-piece" }, spelled(token))),
    );
    const most = state.leading[0]?.count ?? 1;
    hold(list, state.leading.flatMap(({ pair, count }) => [...pair, count]), () =>
      state.leading.map(({ pair, count }) =>
        h(
          "li",
          {},
          h("span", { class: "gf-pair" }, pair.map((token) => h("span", { class: "gf-piece" }, spelled(token)))),
          h("span", { class: "gf-pair-bar" }, h("i", { style: `width: ${(100 * count) / most}%` })),
          h("span", { class: "gf-value" }, grouped(count)),
        ),
      ),
    );
    chart.follow(learned.states, n);
    view.describe(
      () => `${many(tokens.length, "token")} after ${many(n, "merge")}: ${tokens.map(spelled).join(" ").slice(0, 300)}`,
    );
    view.says(sentence({ n, learned, tokens: tokens.length, bytes, source }));
    view.tables(() => [
      {
        caption: "The merges made",
        headers: ["Merge", "Pair", "Becomes", "Times", "Tokens left", "Vocabulary"],
        rows: () =>
          learned.merges.slice(0, n).map(({ pair, count, made: token }, i) => [
            i + 1,
            pair.map(spelled).join(" + "),
            spelled(token),
            grouped(count),
            grouped(learned.states[i + 1].tokens),
            learned.states[i + 1].vocabulary,
          ]),
      },
      {
        caption: "The tokens of your text",
        headers: ["Position", "Token", "Bytes"],
        rows: () => tokens.map((token, place) => [place, spelled(token), token.length]),
      },
    ]);
  }

  return redrawing(model, ["text", "learn_from", "merges"], draw).stop;
}

export default { render };
