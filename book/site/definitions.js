/* Shows a term's definition on a card at a link to it: for the mouse, for the keyboard, or for a first tap. The card stays while the
 * mouse is on it, and goes with Escape or when the reader turns to something else. page.js brings this file when it is needed. */
(() => {
  "use strict";
  const REST = 150; // milliseconds that the mouse must stay on a link, and may take from there to the card
  const page = document.querySelector("article");
  const card = page.appendChild(Object.assign(document.createElement("div"), { id: "definition", role: "note", hidden: true }));
  let shown, waiting;
  const soon = (link) => {
    clearTimeout(waiting);
    waiting = setTimeout(show, REST, link);
  };

  function show(link, isTap) {
    clearTimeout(waiting);
    shown?.removeAttribute("aria-describedby");
    shown = link;
    card.hidden = !link;
    if (!link) return;
    const entry = GLOSSARY.entries[link.hash.slice(1)]; // or the name of another, for a term that only leads to it
    card.innerHTML = (GLOSSARY.entries[entry] ?? entry) + (isTap ? `<p><a href="${link.href}">Open the glossary</a></p>` : "");
    const [first, last, around] = [link.getClientRects()[0], [...link.getClientRects()].at(-1), page.getBoundingClientRect()];
    const isBelow = last.bottom + card.offsetHeight < innerHeight || first.top < card.offsetHeight;
    card.style.top = `${(isBelow ? last.bottom : first.top - card.offsetHeight) - around.top}px`;
    card.style.left = `${Math.max(8, Math.min(last.left - around.left, around.width - card.offsetWidth - 8))}px`;
    link.setAttribute("aria-describedby", card.id);
  }

  glassformer.define = (link, { type, pointerType }) => {
    if (type === "click") show(link, true);
    else if (pointerType !== "touch" && link !== shown && link.matches(":hover, :focus-visible")) soon(link); // a tap has more to come
  };
  const isHere = (target) => card.contains(target) || shown?.contains(target);
  const turn = ({ target }) => (isHere(target) ? clearTimeout(waiting) : shown?.matches(":focus-visible") || soon(null));
  document.addEventListener("pointerover", turn, true); // before page.js hears of it and asks for the next card
  document.addEventListener("focusout", ({ relatedTarget }) => card.contains(relatedTarget) || show(null));
  document.addEventListener("keydown", ({ key }) => key === "Escape" && show(null));
})();
