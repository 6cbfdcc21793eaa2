// Renders `code` and *emphasis*; everything else is plain text, including the asterisks of 2*3*4.

import { h } from "./kit.js";

// A text that a sentence quotes, without the full stop that would end the sentence in its middle.
export const quoted = (text) => `“${text.replace(/(?<!\.)\.$/, "")}”`;

export function rich(text) {
  return text.split(/(`[^`]+`|(?<!\w)\*[^\s*][^*]*\*(?!\w))/).map((part) => {
    if (/^`.+`$/.test(part)) return h("code", {}, part.slice(1, -1));
    if (/^\*.+\*$/.test(part)) return h("em", {}, part.slice(1, -1));
    return part;
  });
}
