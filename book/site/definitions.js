/* Shows a term's definition on a card at a link to it: for the mouse, for the keyboard, or for a first tap. The card stays while the
 * mouse is on it, and goes with Escape or when the reader turns to something else. page.js brings this file when it is needed. */
(() => {
  "use strict";
  const REST = 150; // milliseconds that the mouse must stay on a link, and may take from there to the card
  const card = Object.assign(document.createElement("div"), { id: "definition", role: "note", hidden: true });
  const page = document.querySelector("article");
  page.append(card);
  let shown = null;
  let waiting;
  const soon = (act) => {
    clearTimeout(waiting);
    waiting = setTimeout(act, REST);
  };

  function hide() {
    shown?.removeAttribute("aria-describedby");
    shown = null;
    card.hidden = true;
  }

  function show(link, isTap) {
    const { entries } = GLOSSARY;
    const entry = entries[link.hash.slice(1)]; // or the name of another, for a term that only leads to it
    hide();
    card.innerHTML = (entries[entry] ?? entry) + (isTap ? `<p><a href="${link.href}">Open the glossary</a></p>` : "");
    card.hidden = false;
    const [first, last, around] = [link.getClientRects()[0], [...link.getClientRects()].at(-1), page.getBoundingClientRect()];
    const isBelow = last.bottom + card.offsetHeight < innerHeight || first.top < card.offsetHeight;
    card.style.top = `${(isBelow ? last.bottom : first.top - card.offsetHeight) - around.top}px`;
    card.style.left = `${Math.max(8, Math.min(last.left - around.left, around.width - card.offsetWidth - 8))}px`;
    link.setAttribute("aria-describedby", card.id);
    shown = link;
  }

  glassformer.define = (link, { type, pointerType }) => {
    if (type === "click") show(link, true);
    if (type === "focusin" && link.matches(":focus-visible")) show(link);
    if (type === "pointerover" && pointerType !== "touch" && link !== shown && link.matches(":hover")) soon(() => show(link));
  };

  document.addEventListener("pointerover", ({ target }) => {
    if (card.contains(target) || shown?.contains(target)) clearTimeout(waiting);
    else if (!shown?.matches(":focus-visible")) soon(hide);
  });
  document.addEventListener("focusout", ({ relatedTarget }) => card.contains(relatedTarget) || hide());
  document.addEventListener("keydown", ({ key }) => key === "Escape" && hide());
})();
