// Matrices in which every number is an element of its own: numbers that the reader changes, and numbers computed from them.
import { fixed, h } from "./kit.js";

const PIXELS = 5; // the distance to drag for one step
const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

// The cells of one view. While one is dragged, pointing at others has no effect.
export function cells({ largest = 9, step = 0.1 } = {}) {
  let drag = null; // { x, value, moving }: where the drag began, with which number, and whether it has moved

  // A number from −largest to largest that can be typed, stepped with ↑ and ↓ or dragged sideways. get() returns it; set(value)
  // changes it, and point() is called when the reader looks at it.
  function given({ label, get, set, point }) {
    const input = h("input", {
      type: "number",
      class: "gf-number",
      min: -largest,
      max: largest,
      step,
      autocomplete: "off",
      "aria-label": label,
      onfocus: point,
      oninput: () => change(input.value === "" ? Number.NaN : Number(input.value)),
      onblur: () => (input.value = get()),
      onpointerenter: () => drag === null && point(),
      onpointerdown: (event) => {
        drag = { x: event.clientX, value: get() };
        input.setPointerCapture(event.pointerId);
      },
      onpointermove: (event) => {
        if (drag === null) return;
        const steps = Math.trunc((event.clientX - drag.x) / PIXELS);
        if (steps || drag.moving) {
          drag.moving = true;
          change(drag.value + step * steps);
        }
      },
      onpointerup: () => (drag = null),
      onpointercancel: () => (drag = null),
    });
    function change(value) {
      if (!Number.isFinite(value)) return;
      const inRange = Math.min(Math.max(Math.round(100 * value) / 100, -largest), largest);
      if (inRange !== get()) set(inRange);
    }
    return input;
  }

  // A computed number. They take the focus one at a time; arrow keys move to the next one, to(down, right), if it exists.
  const result = ({ point, to, ...events }) =>
    h("button", {
      type: "button",
      class: "gf-result",
      onfocus: point,
      onpointerenter: () => drag === null && point(),
      onkeydown: (event) => {
        if (!MOVES[event.key] || event.altKey || event.ctrlKey || event.metaKey) return;
        event.preventDefault();
        to(...MOVES[event.key])?.focus();
      },
      ...events,
    });

  return { given, result };
}

// Show a number in its input, unless the reader has just cleared it.
export function fill(input, value) {
  if (Number(input.value) !== value || (input.value === "" && input !== document.activeElement)) input.value = value;
}

// --- in words -------------------------------------------------------------------------------------------------------

export const number = (x, digits = 2) => (x === -Infinity ? "−∞" : fixed(x, digits));

// With one decimal if that is enough.
export const plain = (x) => number(x, Math.abs(10 * x - Math.round(10 * x)) < 1e-9 ? 1 : 2);

// "2.0·(−0.5) + 1.0·0.3": two rows multiplied, with a function that writes each number.
export const products = (a, b, first, second) =>
  a.map((x, i) => `${first(x)}·${b[i] < 0 ? `(${second(b[i])})` : second(b[i])}`).join(" + ");
