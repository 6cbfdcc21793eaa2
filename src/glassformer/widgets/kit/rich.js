// Renders `code` and *emphasis*; everything else is plain text, including the asterisks of 2*3*4.

import { h } from "./kit.js";

export function rich(text) {
  return text.split(/(`[^`]+`|(?<!\w)\*[^\s*][^*]*\*(?!\w))/).map((part) => {
    if (/^`.+`$/.test(part)) return h("code", {}, part.slice(1, -1));
    if (/^\*.+\*$/.test(part)) return h("em", {}, part.slice(1, -1));
    return part;
  });
}
