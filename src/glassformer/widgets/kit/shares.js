// Shares: how much of a whole each letter has, such as the chance that it comes next. Colours behind letters, bars beside them.

import { h, percent } from "./kit.js";

// How sure a guess is: the colour behind its letter, which stays in ink.
export const shade = (share) => `color-mix(in srgb, var(--gf-prediction) calc(${share} * var(--gf-most)), var(--gf-sunken))`;

// A letter, a bar as long as its share, and the share.
export const shareBar = (letter, share) =>
  h(
    "span",
    { class: "gf-bar" },
    h("b", {}, letter),
    h("span", { class: "gf-bar-length", style: `--share: ${share.toFixed(4)}` }),
    h("span", { class: "gf-bar-number" }, percent(share)),
  );
