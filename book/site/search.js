/* Searches the book as the reader types: on the page of search, and below the field that every page has. page.js brings this file when
 * such a field is first used; it then brings Sphinx's index and stemmer, and the glossary. What is found is a section: the index names
 * it page#section (tools/extensions/search.py, which also writes the texts of excerpts, a script for each page). Words that only ask,
 * as in "how does attention work?", are left out, and a word that is not in the book is replaced by the nearest one that is. Whole
 * words come before beginnings of words, a chapter comes first for its title, and a term of the glossary for each of its names. */
(() => {
  "use strict";
  const ASKING = new Set(
    "about am any can could do does did explain for get give happen happens has have how i in is it me mean means my need of on please should so tell than the there thing to use used want was we what what's when where which who why will with work working works would you your".split(
      " ",
    ),
  );
  const NOTHING = "The book has none of these words. Try fewer of them, or others for the same thing.";
  // What finding a word is worth, or only one that begins with it, and what being called by all the words is worth
  const WORTH = { titleterms: [15, 7], terms: [5, 2] };
  const [PAGE, TERM, SECTION] = [300, 200, 100];
  const OBJECT = -10; // of the package: "softmax" is first what the glossary says it is
  const KINDS = [/^notebooks\/\d/, /^book\/(?!api|claims|bib)/, /^notebooks\/ex/]; // places worth the same are in this order
  const MOST = 100; // places in the list
  const EXCERPT = 180; // characters

  const { bring, wholeWords } = glassformer;
  const ofPage = document.getElementById("search-results");
  const field = document.querySelector(ofPage ? "main .bd-search input" : ".bd-search input");
  const make = (tag, given) => Object.assign(document.createElement(tag), given);
  const results = ofPage ?? make("div", { className: "search-results" });
  const count = make("p", { role: "status", textContent: "The index is on its way …" });
  const list = make("ol", { className: "found" });
  let index, stemmer, keys, aliases; // keys: of each title

  /** A question without what only makes it a question, unless nothing else is in it. */
  function topic(query) {
    const words = query.replace(/[?!.]/g, " ").trim().split(/\s+/);
    const left = words.filter((word) => !ASKING.has(word.toLowerCase()));
    return (left.length ? left : words).join(" ");
  }

  /** The words of a text as the index has them: their stems. */
  const stems = (text) =>
    splitQuery(text.toLowerCase()).flatMap((word) => (stopwords.includes(word) || /^\d+$/.test(word) ? [] : stemmer.stemWord(word)));
  const key = (name) => stems(name.replace(/^\d+ · /, "")).join(" ");

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
    const { terms, titleterms } = index;
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

  /** What each place is worth that has a word, or one that begins with it. */
  function having(word) {
    const worth = new Map();
    for (const [name, [whole, begins]] of Object.entries(WORTH)) {
      for (const one of Object.keys(index[name]).filter((other) => other === word || (word.length > 2 && other.startsWith(word)))) {
        for (const at of [index[name][one]].flat()) worth.set(at, Math.max(worth.get(at) ?? 0, one === word ? whole : begins));
      }
    }
    return worth;
  }

  /** The places that have most of these words, the best first, and how many words that is. */
  function places(query, words) {
    const totals = new Map();
    for (const worth of words.map(having)) {
      for (const [at, more] of worth) totals.set(at, [(totals.get(at)?.[0] ?? 0) + 1, (totals.get(at)?.[1] ?? 0) + more]);
    }
    const most = Math.max(0, ...[...totals.values()].map(([n]) => n));
    const name = words.join(" ");
    const found = [];
    for (const [at, [n, score]] of totals) {
      const [page, section = ""] = index.docnames[at].split("#");
      const isTerm = page === "book/glossary" && section !== "";
      const isNamed = keys[at] === name || (isTerm && aliases[name] === section);
      if (isTerm && GLOSSARY.entries[section] in GLOSSARY.entries) continue; // it only leads to another
      const more = isNamed && (isTerm ? TERM : section ? SECTION : PAGE);
      if (n === most || more) found.push({ page, section, title: index.titles[at], score: score + more, isNamed });
    }
    const parts = new Set(splitQuery(query.toLowerCase()));
    const objects = [...parts].flatMap((part) => Search.performObjectSearch(part, parts));
    for (const [page, title, anchor, , score] of objects) found.push({ page, section: anchor.slice(1), title, score: score + OBJECT });
    const kind = ({ page }) => KINDS.findIndex((one) => one.test(page)) >>> 0;
    return [found.sort((a, b) => b.score - a.score || kind(a) - kind(b)), most];
  }

  /** Puts into an element what a text says where most of the words are together, or first, with these words marked. */
  function excerpt(element, text, words, isFirst) {
    const hits = [...text.matchAll(wholeWords(words))];
    const together = (at) => new Set(hits.filter((hit) => hit.index >= at && hit.index < at + EXCERPT / 2).map(([word]) => word)).size;
    const best = isFirst ? 0 : hits.reduce((at, hit) => (together(hit.index) > together(at) ? hit.index : at), hits[0]?.index ?? 0);
    const before = text.slice(0, best).slice(-EXCERPT / 2);
    const skipped = before.length === best ? 0 : Math.max(before.lastIndexOf(". ") + 2, before.indexOf(" ") + 1);
    const said = text.slice(best - before.length + skipped);
    element.textContent = said.length > EXCERPT ? `${said.slice(0, said.lastIndexOf(" ", EXCERPT))} …` : said;
    element.innerHTML = element.innerHTML.replace(wholeWords(words), "<mark>$&</mark>");
  }

  const texts = {};
  const near = new IntersectionObserver((seen) => {
    for (const { isIntersecting, target } of seen) if (isIntersecting) target.fill();
  });

  function item({ page, section, title, isNamed }, words) {
    const one = make("li", { innerHTML: `<a>${title}</a> <span></span><p></p>` });
    const [link, place, said] = one.children;
    link.href = `${document.documentElement.dataset.content_root}${page}.html${section && `#${section}`}`;
    for (const way of ["click", "auxclick"]) link.addEventListener(way, () => (link.search = `?highlight=${words.join("+")}`));
    place.textContent = section && new DOMParser().parseFromString(index.titles[index.docnames.indexOf(page)], "text/html").body.textContent;
    one.fill = async () => {
      near.unobserve(one);
      await bring(`texts/${page.replaceAll("/", "-")}.js`);
      excerpt(said, texts[page][section] ?? "", words, isNamed);
    };
    near.observe(one);
    return one;
  }

  function search() {
    const query = field.value.trim();
    const asked = [...new Set(stems(topic(query)))];
    const meant = asked.map(nearest);
    const [found, most] = places(query, meant);
    let says = "Places found:";
    if (most < meant.length) says = "No place has all of these words. Places with most of them:";
    if (`${asked}` !== `${meant}`) says = `The book does not have every word of “${query}”. Places with similar ones:`;
    count.textContent = query && (found.length ? `${says} ${found.length}.` : NOTHING);
    const words = meant.map((word) => (word.length < 4 ? word : `${word.replace(/i$/, "")}*`));
    near.disconnect();
    list.replaceChildren(...found.slice(0, MOST).map((one) => item(one, words)));
    if (ofPage) history.replaceState(null, "", `?q=${encodeURIComponent(query)}`);
  }

  /** The arrows go from the field into the list and back; there, Enter opens what is found, as it opens every link. */
  function go(event) {
    const stops = [field, ...list.querySelectorAll("a")];
    const step = { ArrowDown: 1, ArrowUp: -1, Escape: -Infinity }[event.key];
    const to = stops[Math.max(0, stops.indexOf(document.activeElement) + step)];
    if (!to || to === document.activeElement) return;
    to.focus();
    event.preventDefault();
  }

  async function start() {
    results.append(count, list);
    if (!ofPage) field.form.after(results);
    results.parentElement.addEventListener("keydown", go);
    let typed = field.value;
    field.addEventListener("input", () => (typed = field.value));
    await Promise.all(["language_data.js", "searchtools.js", "texts/glossary.js"].map(bring));
    // Sphinx begins as on its own page of search: it empties the field, or waits for the index to show what it finds.
    field.value = typed;
    Search._queued_query = null;
    Search.setTexts = ([page, of]) => (texts[page] = of);
    results.replaceChildren(count, list);
    await bring("../searchindex.js");
    index = Search._index;
    stemmer = new Stemmer();
    // Words are looked up in these objects, and every object has a "constructor" and a "__proto__".
    for (const name of Object.keys(WORTH)) Object.setPrototypeOf(index[name], null);
    keys = index.titles.map(key);
    aliases = Object.fromEntries(Object.entries(GLOSSARY.aliases).map(([alias, entry]) => [key(alias), entry]));
    field.addEventListener("input", search);
    search();
  }
  start().catch(() => (count.textContent = "The index did not arrive. Please reload the page."));
})();
