// Renders `code`, *emphasis* and, for a view that knows the chapters' names, links to the chapters that it mentions. Everything
// else is plain text, including the asterisks of 2*3*4.

import { h } from "./kit.js";

// A text that a sentence quotes, without the full stop that would end the sentence in its middle.
export const quoted = (text) => `“${text.replace(/(?<!\.)\.$/, "")}”`;

// As in glassformer/chapter_links.py: all of "chapter 11" is a link; of "chapters 03 and 05", each number is.
const MENTION = /(\b[Cc]hapter \d\d\b|(?<=\b[Cc]hapters (?:\d\d(?:,? (?:and|or|to) |, |[–-]))*)\d\d\b)/;

// `words` as a link to the chapter that they end with: to its page on the site, or to its notebook, which JupyterLab opens as a tab.
// Elsewhere, and in the chapter itself, they stay words.
export function chapterLink(words, model) {
  const name = model.get("_chapters")?.[words.slice(-2)];
  const root = document.documentElement.dataset.content_root; // on the site
  const { context, rendermime } = model.widget_manager ?? {};
  const path = root === undefined ? context?.path.replace(/((exercises|experiments)\/)?[^/]*$/, `${name}.ipynb`) : `${root}notebooks/${name}.html`;
  if (!name || !path || path === context?.path || location.pathname.endsWith(`/notebooks/${name}.html`)) return words;
  if (root !== undefined) return h("a", { href: path }, words);
  if (!rendermime?.linkHandler) return words;
  const link = h("a", { href: `${name}.ipynb` }, words);
  rendermime.linkHandler.handleLink(link, path, "");
  return link;
}

export function rich(text, model) {
  return text.split(/(`[^`]+`|(?<!\w)\*[^\s*][^*]*\*(?!\w))/).map((part) => {
    if (/^`.+`$/.test(part)) return h("code", {}, part.slice(1, -1));
    if (/^\*.+\*$/.test(part)) return h("em", {}, part.slice(1, -1));
    return model ? part.split(MENTION).map((words, i) => (i % 2 ? chapterLink(words, model) : words)) : part;
  });
}
