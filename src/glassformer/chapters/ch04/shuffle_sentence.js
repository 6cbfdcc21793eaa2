// Words on cards that can be put in any order, and what attention computes for each order. See shuffle_sentence.py.
import { attention, causalMask, matmul, mulberry32, range, sinusoidal } from "../../widgets/kit/maths.js";
import { button, choice, fixed, frame, h, hold, put, redrawing, svg, toggle, write } from "../../widgets/kit/kit.js";
import { diverging, legend } from "../../widgets/kit/plot.js";

const D_MODEL = 8;
const MAX_WORDS = 12;
const STRIP_RANGE = 1.5; // colours run from −1.5 to 1.5
const SAME = 1e-9; // a smaller change is rounding

// --- maths ----------------------------------------------------------------------------------------------------------

// The 32-bit FNV-1a hash of the text's UTF-8 bytes.
export function fnv1a(text) {
  return new TextEncoder().encode(text).reduce((value, byte) => Math.imul(value ^ byte, 0x01000193), 0x811c9dc5) >>> 0;
}

export function embedWord(word) {
  const uniform = mulberry32(fnv1a(word));
  return range(D_MODEL).map(() => (2 * uniform() - 1) * Math.sqrt(3));
}

// The vector that attention gives to the card at each place, for this order of the cards: (T, D).
export function attend(words, order, { positions, causal, layers, weights }) {
  const add = (A, B) => A.map((row, t) => row.map((x, i) => x + B[t][i]));
  let x = order.map((card) => embedWord(words[card]));
  if (positions) x = add(x, sinusoidal(range(order.length), D_MODEL));
  const mask = causal ? causalMask(order.length) : undefined;
  let given;
  for (const { W_q, W_k, W_v } of weights.slice(0, layers)) {
    given = attention(matmul(x, W_q), matmul(x, W_k), matmul(x, W_v), { mask }).output;
    x = add(x, given);
  }
  return given;
}

// By place: the current vectors, those of the same cards in the order as typed, and the largest change in each.
export function compare(words, order, settings) {
  const now = attend(words, order, settings);
  const asTyped = attend(words, range(words.length), settings);
  const before = order.map((card) => asTyped[card]);
  const change = now.map((row, place) => Math.max(...row.map((x, i) => Math.abs(x - before[place][i]))));
  return { now, before, change };
}

export function moved(order, from, to) {
  const rest = order.filter((_, place) => place !== from);
  return [...rest.slice(0, to), order[from], ...rest.slice(to)];
}

// A random order that differs from the current one and, if there are more than two cards, from the one as typed.
export function shuffled(order, uniform) {
  const typed = (candidate) => candidate.every((card, place) => card === place);
  const present = (candidate) => candidate.every((card, place) => card === order[place]);
  if (order.length < 2) return order;
  for (;;) {
    const result = range(order.length);
    for (let i = result.length - 1; i > 0; i--) {
      const j = Math.floor(uniform() * (i + 1));
      [result[i], result[j]] = [result[j], result[i]];
    }
    if (!present(result) && (order.length === 2 || !typed(result))) return result;
  }
}

// --- words ----------------------------------------------------------------------------------------------------------

const isTyped = (order) => order.every((card, place) => card === place);

const amount = (x) => (x === 0 ? "0" : x < 1e-3 ? x.toExponential(1).replace("-", "−") : fixed(x, 2));

const quoted = (words) => `“${words.join(" ")}”`;

// What is true in each of the eight settings, and how the changes in this order show it.
export function sentence(words, order, change, { positions, causal, layers }) {
  const shown = order.map((card) => words[card]);
  const sameText = shown.every((word, place) => word === words[place]);
  const setting =
    `${positions ? "Positions" : "No positions"}, ${causal ? "causal mask" : "no mask"}` +
    `${layers === 2 ? ", two layers" : ""}: `;
  if (isTyped(order)) return `${setting}the cards are in their original order, so there is nothing to compare yet. Move a card.`;

  const largest = Math.max(...change);
  const lead =
    `${setting}order ${quoted(shown)}${sameText ? ", which reads as before, because equal words have changed places" : ""}; `;
  if (largest < SAME) {
    const why = positions || causal ? "Nothing that attention can see has moved" : "Attention cannot see the order";
    const stacked = layers === 2 && !positions && !causal ? ", and stacking layers does not help" : "";
    return `${lead}the largest change of any word’s vector is ${amount(largest)}. ${why}${stacked}.`;
  }

  const most = `${lead}${quoted([shown[change.indexOf(largest)]])} changed most, by ${amount(largest)}. `;
  const still = shown.filter((_, place) => change[place] < SAME).map((word) => quoted([word]));
  const unchanged = `${still.join(", ")} did not change: `;
  if (positions && !causal) return `${most}Each word carries its position with it, so attention sees the order.`;
  if (positions) {
    return still.length
      ? `${most}${unchanged}up to that point, the text is as it was, and the mask hides the rest.`
      : `${most}Each word carries its position with it, and sees only itself and the words before it.`;
  }
  const last = order.length - 1;
  const lastWord = quoted([shown[last]]);
  const stillLast = order[last] === last;
  if (layers === 1) {
    if (stillLast) {
      return (
        `${most}But ${lastWord}, still last, changed by ${amount(change[last])}: ` +
        "it still sees all the words, and one layer cannot tell their order."
      );
    }
    return still.length
      ? `${most}${unchanged}up to that point, the set of words is the same. Each of the others now has different words before it.`
      : `${most}Each word sees only itself and the words before it, and those are different now.`;
  }
  return stillLast && change[last] >= SAME
    ? `${most}Even ${lastWord}, still last, changed by ${amount(change[last])}: ` +
        "in the second layer, the words it reads already carry traces of what came before them."
    : `${most}The mask lets order in: in the second layer, the words already carry traces of what came before them.`;
}

// --- view -----------------------------------------------------------------------------------------------------------

// A vector as a row of colours: above for the original order, below for the current one.
function strips(before, now) {
  const cell = (x, i, y) =>
    svg("rect", { x: i * 10, y, width: 10.2, height: 10, fill: diverging(x / STRIP_RANGE) });
  return svg(
    "svg",
    { viewBox: "0 0 80 23", class: "gf-strips", preserveAspectRatio: "none", "aria-hidden": "true" },
    before.map((x, i) => cell(x, i, 0)),
    now.map((x, i) => cell(x, i, 13)),
  );
}

const explanation = () =>
  legend(
    (t) => diverging(2 * t - 1),
    `−${STRIP_RANGE}`,
    STRIP_RANGE,
    h("span", {}, "Upper strip: the word’s vector in the original order. Lower strip: its vector now. Δ: the largest change of any of its numbers."),
  );

function render({ model, el }) {
  const view = frame(el, {
    title: "Shuffle the sentence: does attention notice?",
    hint: "Drag a card, or select one with Tab and press ← or →. You can also click a card and then the place where it should go.",
  });
  const uniform = mulberry32(1);
  const words = () => model.get("words").split(/\s+/).filter(Boolean);
  const order = () => model.get("order");
  const send = (changes) => {
    for (const [name, value] of Object.entries(changes)) model.set(name, value);
    model.save_changes();
  };

  const field = h("input", { type: "text", maxlength: 120, spellcheck: "false", autocomplete: "off" });
  field.addEventListener("input", () => {
    const typed = field.value.split(/\s+/).filter(Boolean);
    if (typed.length >= 1 && typed.length <= MAX_WORDS) {
      send({ words: typed.join(" "), order: range(typed.length) });
    } else {
      view.says(`Your sentence has ${typed.length || "no"} words. Type 1 to ${MAX_WORDS} words.`);
    }
  });

  view.controls.append(
    h(
      "label",
      { class: "gf-control gf-text" },
      h("span", { class: "gf-label" }, `Your sentence (up to ${MAX_WORDS} words)`),
      field,
    ),
    h(
      "div",
      {},
      toggle(model, "positions", { label: "Add sinusoidal positions" }),
      toggle(model, "causal", { label: "Causal mask" }),
    ),
    choice(model, "layers", { label: "Layers of attention", options: [[1, "one"], [2, "two"]] }),
    h(
      "div",
      { class: "gf-buttons" },
      button("Shuffle", () => send({ order: shuffled(order(), uniform) })),
      button("Reverse", () => send({ order: [...order()].reverse() })),
      button("Restore", () => send({ order: range(order().length) })),
    ),
  );

  // The places stay; what is on them changes. So the focus and a captured pointer survive every move.
  const list = h("ol", { class: "gf-cards" });
  view.drawing.setAttribute("role", "group"); // role="img" must not contain buttons
  view.drawing.append(list, explanation());
  const places = () => [...list.querySelectorAll("button")];

  let chosen = null; // the place of a card that is to be moved
  let drag = null; // { place, dx, dy: the offset of the pointer on the card; x, y: the pointer; moving }

  const move = (from, to) => {
    if (to < 0 || to >= order().length || to === from) return;
    send({ order: moved(order(), from, to) });
    chosen = null;
    draw();
    places()[to].focus();
  };

  function keydown(place, event) {
    const to = { ArrowLeft: place - 1, ArrowRight: place + 1, Home: 0, End: order().length - 1 }[event.key];
    if (event.key === "Escape") chosen = null;
    else if (to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    else move(place, to);
    event.preventDefault();
    draw();
  }

  function click(place) {
    if (chosen === null || chosen === place) {
      chosen = chosen === place ? null : place;
      draw();
    } else {
      move(chosen, place);
    }
  }

  const middle = (place) => {
    const box = list.children[place].getBoundingClientRect();
    return [box.x + box.width / 2, box.y + box.height / 2];
  };

  function pointerdown(place, event) {
    if (event.button !== 0 || drag) return;
    const [x, y] = middle(place);
    drag = { place, dx: event.clientX - x, dy: event.clientY - y, x: event.clientX, y: event.clientY, moving: false };
    event.currentTarget.setPointerCapture(event.pointerId);
  }

  function pointermove(event) {
    if (!drag) return;
    if (!drag.moving && Math.hypot(event.clientX - drag.x, event.clientY - drag.y) < 6) return;
    Object.assign(drag, { x: event.clientX, y: event.clientY, moving: true });
    const distances = range(order().length).map((place) => {
      const [x, y] = middle(place);
      return Math.hypot(drag.x - drag.dx - x, drag.y - drag.dy - y);
    });
    const nearest = distances.indexOf(Math.min(...distances));
    if (nearest !== drag.place) {
      send({ order: moved(order(), drag.place, nearest) });
      drag.place = nearest;
    }
    chosen = null;
    drawn.ask();
  }

  function pointerup(event) {
    if (!drag) return;
    const { place, moving } = drag;
    drag = null;
    draw();
    if (event.type !== "pointerup") return;
    if (moving) places()[place].focus();
    else click(place);
  }

  function placeElement(index) {
    return h(
      "li",
      {},
      h(
        "button",
        {
          class: "gf-card",
          type: "button",
          onkeydown: (event) => keydown(index, event),
          // A pointer's click is handled when it is lifted; this handles the keyboard's, or a screen reader's.
          onclick: (event) => event.detail === 0 && click(index),
          onpointerdown: (event) => pointerdown(index, event),
          onpointermove: pointermove,
          onpointerup: pointerup,
          onpointercancel: pointerup,
          onlostpointercapture: pointerup,
        },
        h("span", { class: "gf-card-word" }),
        h("span", { class: "gf-card-strips" }),
        h("span", { class: "gf-card-change" }),
      ),
    );
  }

  let result; // the result of attention for the words and settings that `computed` names
  let computed;

  function draw() {
    const [now, cards] = [words(), order()];
    if (cards.length !== now.length) return; // one of the two has not arrived yet
    if (list.children.length !== now.length) {
      list.replaceChildren(...now.map((_, index) => placeElement(index)));
      chosen = drag = null;
    }
    const settings = Object.fromEntries(["positions", "causal", "layers", "weights"].map((n) => [n, model.get(n)]));
    const asked = JSON.stringify([now, cards, settings]);
    if (asked !== computed) [computed, result] = [asked, compare(now, cards, settings)];
    const [left, top] = drag?.moving ? middle(drag.place) : [0, 0]; // read before anything is written
    places().forEach((card, index) => {
      const word = now[cards[index]];
      const change = amount(result.change[index]);
      const held = drag?.moving && drag.place === index;
      const [before, after] = [result.before[index], result.now[index]];
      write(card.children[0], word);
      card.children[0].classList.toggle("gf-card-long", word.length > 7);
      hold(card.children[1], [...before, ...after], () => strips(before, after));
      write(card.children[2], `Δ ${change}`);
      put(card, {
        "aria-label": `${word}, place ${index + 1} of ${cards.length}, changed by ${change}`,
        "aria-pressed": chosen === index,
      });
      card.classList.toggle("gf-card-held", Boolean(held));
      card.classList.toggle("gf-card-changed", result.change[index] >= SAME);
      card.style.transform = held ? `translate(${drag.x - drag.dx - left}px, ${drag.y - drag.dy - top}px)` : "";
    });
    if (field.value.split(/\s+/).filter(Boolean).join(" ") !== now.join(" ")) field.value = now.join(" ");
    view.describe(() => `Words in the order ${cards.map((card) => now[card]).join(" ")}`);
    view.says(sentence(now, cards, result.change, settings));
    const headers = ["Word", ...range(D_MODEL).map(String)];
    const numbers = (vectors) => cards.map((card, i) => [now[card], ...vectors[i].map((x) => fixed(x, 3))]);
    view.tables(() => [
      {
        caption: "The vector of each word now, and its largest change from the original order",
        headers: [...headers, "Change"],
        rows: () => numbers(result.now).map((row, i) => [...row, amount(result.change[i])]),
      },
      {
        caption: "The vectors of the same words in the original order",
        headers,
        rows: () => numbers(result.before),
      },
    ]);
  }

  const drawn = redrawing(model, ["words", "order", "positions", "causal", "layers", "weights"], draw);
  return drawn.stop;
}

export default { render };
