// A text as a row of coloured characters, for the pointer and for the arrow keys.
import { h, put } from "../kit/kit.js";
import { named, visible } from "./model.js";
import { ink } from "../kit/plot.js";

// Where the arrow keys up and down lead among elements that lie in lines, as the characters of a text do: from element i to the
// nearest one on the line above or below; undefined for another key, and where there is no such line.
export function acrossLines(elements, i, key) {
  const way = { ArrowUp: -1, ArrowDown: 1 }[key];
  if (!way) return undefined;
  const here = elements[i];
  const others = [...elements.keys()].filter((j) => way * (elements[j].offsetTop - here.offsetTop) > 4);
  if (others.length === 0) return undefined;
  const top = elements[way > 0 ? others[0] : others.at(-1)].offsetTop;
  const line = others.filter((j) => Math.abs(elements[j].offsetTop - top) <= 4);
  const away = (j) => Math.abs(elements[j].offsetLeft - here.offsetLeft);
  return line.reduce((best, j) => (away(j) < away(best) ? j : best));
}

// ask(t) is called for the character that is pointed at, pressed, or has the focus.
// show(characters, T, at, of): T of them were read, `at` is the chosen one, and of(t) returns how to show one that was read,
// { colours, value, hidden, sign, says }: its value on a scale of plot.js, or of any colours that ink is readable on; whether it is
// hatched instead; a sign for the stylesheet to show; and a description.
export function letters({ label, ask }) {
  const element = h("div", { class: "gf-characters", role: "group", "aria-label": label });
  const all = element.children;
  let [T, at] = [0, 0];
  function choose(t) {
    if (t < 0 || t >= T) return;
    at = t;
    ask(t);
  }
  element.addEventListener("pointerover", (event) => choose([...all].indexOf(event.target)));
  element.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || T === 0) return;
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: T - 1 }[event.key] ?? acrossLines([...all].slice(0, T), at, event.key);
    if (to === undefined) return;
    event.preventDefault();
    if (to >= 0 && to < T) all[to].focus();
  });

  function spell(characters) {
    if (all.length === characters.length && characters.every((c, t) => all[t].dataset.is === c)) return;
    element.replaceChildren(
      ...characters.map((character, t) =>
        h(
          "button",
          { type: "button", class: "gf-character", "data-is": character, onfocus: () => choose(t), onclick: () => choose(t) },
          visible(character),
        ),
      ),
    );
  }

  function show(characters, read, chosen, of) {
    [T, at] = [read, chosen];
    spell(characters);
    [...all].forEach((letter, t) => {
      const { colours, value, hidden = false, sign = "", says = "" } = t < T ? of(t) : {};
      const seen = colours && !hidden;
      const background = seen ? colours(value) : "";
      if (letter.style.background !== background) letter.style.background = background;
      const color = seen && colours.channels ? ink(colours.channels(value)) : "";
      if (letter.style.color !== color) letter.style.color = color;
      put(letter, {
        class: `gf-character${hidden ? " gf-hidden" : ""}${t === at ? " gf-asks" : ""}`,
        tabindex: t === at ? 0 : -1,
        ...(sign === "" ? {} : { "data-sign": sign }),
        "aria-label": `${named(characters[t])} at ${t}${says && ", "}${says}`,
      });
    });
  }
  return { element, show };
}
