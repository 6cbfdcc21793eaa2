/* Finds whole words, and marks those for which a page was found, until Escape or until the reader goes on. page.js brings this. */
(() => {
  "use strict";

  /** Finds these words, each as a whole word, or "cach*" as the beginning of one. */
  const wholeWords = (words) =>
    new RegExp(`(?<![\\p{L}\\d_])(?:${words.join("|").replaceAll("*", "[\\p{L}\\d_]*")})(?![\\p{L}\\d_])`, "giu");

  function mark() {
    const address = new URL(location);
    const words = address.searchParams.get("highlight")?.match(/[\p{L}\d_]+\*?/gu);
    if (!words || !globalThis.CSS?.highlights) return;
    address.searchParams.delete("highlight");
    history.replaceState(null, "", address); // so that a reload marks nothing
    const found = new Highlight();
    const texts = document.createTreeWalker(document.querySelector("article"), NodeFilter.SHOW_TEXT);
    for (let node = texts.nextNode(); node; node = texts.nextNode()) {
      for (const { index, 0: word } of node.data.matchAll(wholeWords(words))) {
        found.add(new StaticRange({ startContainer: node, startOffset: index, endContainer: node, endOffset: index + word.length }));
      }
    }
    CSS.highlights.set("found", found);
    for (const goingOn of ["hashchange", "pagehide"]) addEventListener(goingOn, SphinxHighlight.hideSearchWords);
  }

  Object.assign(window.glassformer, { wholeWords, mark });
})();
