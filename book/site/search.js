/* Makes Sphinx's search find what readers mean. What is found is a section: the index names it page#section (tools/extensions/search.py),
 * and the list of results shows the page that it is on beside it. Words that only ask, as in "how does attention work?", are
 * left out, a word that is not in the book is replaced by the nearest one that is, and a chapter comes first for its own title. */
(() => {
  "use strict";
  const ASKING = new Set(
    "about am any can could do does did explain for get give happen happens has have how i in is it me mean means my need of on please should so tell than the there thing to use used want was we what what's when where which who why will with work working works would you your".split(
      " ",
    ),
  );
  const FOUND = "Search finished, found ${resultCount} page(s) matching the search query.";
  const NOTHING =
    "Your search did not match any documents. Please make sure that all words are spelled correctly and that you've selected enough categories.";
  const OWN_TITLE = 100; // more than any score of Sphinx's
  const NAME = -10; // of the package: "softmax" is first what the glossary says it is

  // Sphinx looks words up in these objects, and every object has a "constructor" and a "__proto__".
  const { terms, titleterms } = Search._index;
  const bare = { __proto__: null, hasOwnProperty: Object.prototype.hasOwnProperty };
  for (const index of [terms, titleterms]) Object.setPrototypeOf(index, bare);

  /** A question without what only makes it a question, unless nothing else is in it. */
  function topic(query) {
    const words = query.replace(/[?!.]/g, " ").trim().split(/\s+/);
    const left = words.filter((word) => !ASKING.has(word.toLowerCase()));
    return (left.length ? left : words).join(" ");
  }

  /** How many letters must be changed, added, left out or swapped with the next to get from one word to another; or more than `most`. */
  function distance(from, to, most) {
    if (Math.abs(from.length - to.length) > most) return most + 1;
    const rows = [Array.from({ length: to.length + 1 }, (_, j) => j)];
    for (let i = 1; i <= from.length; i++) {
      rows.push([i]);
      for (let j = 1; j <= to.length; j++) {
        const changed = rows[i - 1][j - 1] + (from[i - 1] !== to[j - 1]);
        rows[i][j] = Math.min(changed, rows[i - 1][j] + 1, rows[i][j - 1] + 1);
        const isSwapped = i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1];
        if (isSwapped) rows[i][j] = Math.min(rows[i][j], rows[i - 2][j - 2] + 1);
      }
      if (Math.min(...rows[i]) > most) return most + 1;
    }
    return rows.at(-1).at(-1);
  }

  /** The book's word that is nearest to this one, the more frequent of two; itself if there is none, or the book has it. */
  function nearest(word) {
    const known = [...Object.keys(titleterms), ...Object.keys(terms)];
    const most = word.length < 4 ? 0 : word.length < 7 ? 1 : 2;
    if (most === 0 || known.some((one) => one.startsWith(word))) return word;
    const often = (one) => [terms[one] ?? []].flat().length;
    let [best, bestDistance] = [word, most + 1];
    for (const one of known) {
      const far = distance(word, one, most);
      if (far < bestDistance || (far === bestDistance && far <= most && often(one) > often(best))) [best, bestDistance] = [one, far];
    }
    return best;
  }

  // Sphinx marks the words on whichever page is opened next. Only a page that was found shows them.
  const MARKS = "sphinx_highlight_terms";
  let marks = "";
  document.addEventListener("click", ({ target }) => {
    if (target.closest("#search-results a")) localStorage.setItem(MARKS, marks);
  });

  const parse = Search._parseQuery;
  Search._parseQuery = (query) => {
    const [words, required, excluded, highlighted, objects] = parse(topic(query));
    marks = localStorage.getItem(MARKS) ?? "";
    localStorage.removeItem(MARKS);
    const meant = new Set([...required].map(nearest));
    const unknown = [...required].filter((word) => !meant.has(word));
    Documentation.TRANSLATIONS[FOUND] =
      unknown.length > 0
        ? `The book does not have every word of “${query.trim()}”. Places with similar ones: \${resultCount}.`
        : "Places found: ${resultCount}.";
    Documentation.TRANSLATIONS[NOTHING] = "The book has none of these words. Try fewer of them, or others for the same thing.";
    for (const word of meant) if (!required.has(word)) highlighted.add(word);
    return [words, meant, excluded, highlighted, objects];
  };

  const perform = Search._performSearch;
  Search._performSearch = (query, ...sought) => {
    const { docnames, titles } = Search._index;
    const isOwn = (name, title) => !name.includes("#") && title.replace(/^\d+ · /, "").toLowerCase() === query.toLowerCase();
    const found = perform(query, ...sought).map(([name, title, anchor, description, score, ...rest]) => {
      const [page, section] = name.split("#");
      const more = isOwn(name, title) ? OWN_TITLE : anchor?.startsWith("#glassformer.") ? NAME : 0;
      if (!section) return [page, title, anchor, description, score + more, ...rest];
      return [page, title, anchor || `#${section}`, titles[docnames.indexOf(page)], score, ...rest];
    });
    return found.sort((a, b) => a[4] - b[4]); // the last one is shown first
  };

  const field = document.querySelector("form.bd-search input");
  field?.focus();
  field?.select();
})();
