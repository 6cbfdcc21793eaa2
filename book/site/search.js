/* Searches the book as the reader types: on the page of search, and below the field that every page has. page.js brings this file when
 * such a field is first used; it then brings Sphinx's index and stemmer, and the glossary. What is found is a section: the index names
 * it page#section (tools/extensions/search.py, which also writes the texts of excerpts, a script for each page). Words that only ask,
 * as in "how does attention work?", are left out, and a word that is not in the book is replaced by the nearest one that is. Only a
 * word that is not in the book may be the beginning of one. A chapter comes first for its title, a term for each of its names. */
(() => {
  "use strict";
  const ASKING =
    /^(?:about|am|an|any|can|could|do|does|did|explain|for|get|give|happen|happens|has|have|how|i|in|is|it|me|mean|means|my|need|of|on|please|should|so|tell|than|the|there|thing|to|use|used|want|was|we|what|what's|when|where|which|who|why|will|with|work|working|works|would|you|your)$/i;
  const NOTHING = "No place of the book has all of these words. Try fewer of them, or others for the same thing.";
  const [PAGE, TERM, SECTION, OBJECT] = [300, 200, 100, -10]; // what having a name is worth; a term comes before an object of the package
  const [MOST, EXCERPT] = [100, 180]; // places, characters

  const { bring, wholeWords } = glassformer;
  const make = (tag, given) => Object.assign(document.createElement(tag), given);
  const ofPage = document.getElementById("search-results");
  const results = ofPage ?? make("div", { className: "search-results" });
  const field = document.querySelector(ofPage ? "main .bd-search input" : ".bd-search input");
  const count = make("p", { role: "status", className: "mt-3", textContent: "The index is on its way …" });
  const list = make("ol", { className: "found list-unstyled" });
  let index, known, stemmer, aliases;

  /** A question without what only makes it a question, unless nothing else is in it. */
  function topic(query) {
    const words = query.replace(/[?!.]/g, " ").trim().split(/\s+/);
    const left = words.filter((word) => !ASKING.test(word));
    return (left.length ? left : words).join(" ");
  }

  const isWhole = (word) => word in index.terms || word in index.titleterms;
  /** The words of a text as the index has them, which is their stems; but "mas", with which words begin, as it is. */
  const stems = (text) =>
    splitQuery(text.toLowerCase()).flatMap((word) => {
      const stem = stopwords.includes(word) || /^\d+$/.test(word) ? [] : stemmer.stemWord(word);
      return isWhole(stem) || !known.some((one) => one.startsWith(word)) ? stem : word;
    });
  const key = (name) => stems(topic(name.replace(/^\d+ · /, ""))).join(" ");

  /** How many letters must be changed, added, left out or swapped with the next to get from one word to another; or more than `most`. */
  function distance(from, to, most) {
    if (most < 0 || from === to) return 0;
    if (Math.abs(from.length - to.length) > most) return most + 1;
    let same = 0;
    while (from[same] === to[same]) same++;
    const [a, b] = [from.slice(same), to.slice(same)];
    const ways = [[1, 1], [1, 0], [0, 1], ...(a[0] === b[1] && a[1] === b[0] ? [[2, 2]] : [])];
    return 1 + Math.min(...ways.map(([i, j]) => distance(a.slice(i), b.slice(j), most - 1)));
  }

  /** The book's word that is nearest to this one, the more frequent of two; itself if there is none, or a word begins like it. */
  function nearest(word) {
    const most = word.length < 4 ? 0 : word.length < 7 ? 1 : 2;
    if (most === 0 || known.some((one) => one.startsWith(word))) return word;
    const often = (one) => [index.terms[one] ?? []].flat().length;
    const near = known.map((one) => [distance(word, one, most), -often(one), one]).filter(([far]) => far <= most);
    const begun = known.filter((one) => one.length > 3 && word.startsWith(one)).sort((a, b) => b.length - a.length);
    return near.sort((a, b) => a[0] - b[0] || a[1] - b[1])[0]?.[2] ?? begun[0] ?? word;
  }

  /** The places that have all these words, the best first. */
  function places(query, words) {
    const { terms, titleterms } = index;
    const sought = words.map((word) => {
      const meant = isWhole(word) ? [word] : known.filter((one) => one.startsWith(word));
      for (const table of [terms, titleterms]) table[`${word}  `] = meant.flatMap((one) => table[one] ?? []);
      return `${word}  `; // no word of the book, and so long that Sphinx does not make it optional
    });
    const parts = new Set(splitQuery(topic(query).toLowerCase()));
    const named = [...parts].flatMap((part) => (part.length > 2 ? Search.performObjectSearch(part, parts) : []));
    const objects = named.filter(([, , anchor]) => !anchor.startsWith("#module-")); // a module is a section
    const found = objects.map(([page, title, anchor, , score]) => ({ page, section: anchor.slice(1), title, score: score + OBJECT }));
    for (const [at, title, , , score] of Search.performTermsSearch(new Set(sought), new Set())) {
      const [page, section = ""] = at.split("#");
      const isTerm = page === "book/glossary" && section !== "";
      if (isTerm && GLOSSARY.entries[section] in GLOSSARY.entries) continue; // it only leads to another
      const isNamed = key(title) === words.join(" ") || (isTerm && aliases[words.join(" ")] === section);
      found.push({ page, section, title, isNamed, score: score + (isNamed && (isTerm ? TERM : section ? SECTION : PAGE)) });
    }
    const kind = ({ page }) => [/^notebooks\/\d/, /^book\/(?!api|claims|bib)/, /^notebooks\/ex/].findIndex((one) => one.test(page)) >>> 0;
    return found.sort((a, b) => b.score - a.score || kind(a) - kind(b));
  }

  /** Puts into an element what a text says where most of the words are together, or first, with these words marked. */
  function excerpt(element, text, words, isFirst) {
    const hits = [...text.matchAll(wholeWords(words))];
    const together = (at) => new Set(hits.filter((hit) => hit.index >= at && hit.index < at + EXCERPT / 2).map(([word]) => word)).size;
    const best = isFirst ? 0 : hits.reduce((at, hit) => (together(hit.index) > together(at) ? hit.index : at), hits[0]?.index ?? 0);
    const before = ` ${text.slice(0, best)}`.slice(-EXCERPT / 2);
    const said = text.slice(best - before.length + (before.lastIndexOf(". ") + 1 || before.indexOf(" ")) + 1);
    element.textContent = said.length > EXCERPT ? `${said.slice(0, said.lastIndexOf(" ", EXCERPT))} …` : said;
    element.innerHTML = element.innerHTML.replace(wholeWords(words), "<mark>$&</mark>");
  }

  const near = new IntersectionObserver((seen) => seen.forEach(({ isIntersecting, target }) => isIntersecting && target.fill()));

  function item({ page, section, title, isNamed }, words) {
    const above = section && index.titles[index.docnames.indexOf(page)];
    const one = make("li", { className: "my-3", innerHTML: `<a>${title}</a> <span>${above}</span><p></p>` });
    const [link, , said] = one.children;
    link.href = `${document.documentElement.dataset.content_root}${page}.html${section && `#${section}`}`;
    for (const way of ["click", "auxclick"]) link.addEventListener(way, () => (link.search = `?highlight=${words.join("+")}`));
    one.fill = async () => {
      near.unobserve(one);
      await bring(`texts/${page.replaceAll("/", "-")}.js`);
      excerpt(said, Search.texts[page][section] ?? "", words, isNamed);
    };
    near.observe(one);
    return one;
  }

  function search() {
    const query = field.value.trim();
    const asked = [...new Set(stems(topic(query)))];
    const meant = asked.map(nearest);
    const found = places(query, meant);
    const says = `${asked}` === `${meant}` ? "Places found:" : `The book does not have every word of “${query}”. Places with similar ones:`;
    count.textContent = query && (found.length ? `${says} ${found.length}.` : NOTHING);
    const words = meant.map((word) => (word.length < 4 ? word : `${word.replace(/i$/, "")}*`));
    near.disconnect();
    list.replaceChildren(...found.slice(0, MOST).map((one) => item(one, words)));
    if (ofPage) history.replaceState(null, "", `?q=${encodeURIComponent(query)}`);
  }

  async function start() {
    results.append(count, list);
    if (!ofPage) field.form.after(results);
    // The arrows go from the field into the list and back. There, Enter opens what was found, as it opens every link.
    Object.assign(results.parentElement, { role: "search" }).addEventListener("keydown", (event) => {
      const stops = [field, ...list.querySelectorAll("a")];
      const at = stops.indexOf(document.activeElement) + { ArrowDown: 1, ArrowUp: -1, Escape: -Infinity }[event.key];
      const to = stops[Math.max(0, at)];
      if (!to || to === document.activeElement) return;
      event.preventDefault();
      to.focus();
    });
    let typed = (field.value ||= new URLSearchParams(location.search).get("q") ?? "");
    field.addEventListener("input", () => (typed = field.value));
    if (ofPage) history.replaceState(null, "", location.pathname); // Sphinx would search as well
    const glossary = bring("texts/glossary.js").catch(() => {}); // a site may have none
    await Promise.all(["language_data.js", "searchtools.js"].map(bring).concat(glossary));
    field.value = typed; // Sphinx has emptied it
    Search.texts = {};
    await bring("../searchindex.js");
    index = Search._index;
    known = Object.keys({ ...index.titleterms, ...index.terms });
    stemmer = new Stemmer();
    // Sphinx looks words up in these objects, and every object has a "constructor" and a "__proto__". It looks for no parts of words.
    for (const table of [index.terms, index.titleterms]) Object.setPrototypeOf(table, { __proto__: null, hasOwnProperty: () => true });
    aliases = Object.fromEntries(Object.entries(typeof GLOSSARY === "undefined" ? {} : GLOSSARY.aliases).map(([alias, entry]) => [key(alias), entry]));
    field.addEventListener("input", search);
    search();
  }
  start().catch(() => (count.textContent = "The index did not arrive. Please reload the page."));
})();
