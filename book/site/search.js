/* Searches the book as the reader types: on the page of search, and below the field that every page has. page.js brings this file when
 * such a field is first used; it then brings Sphinx's index and stemmer, and the glossary. What is found is a section: the index names
 * it page#section (tools/extensions/search.py, which also writes the texts of excerpts, a script for each page). Words that only ask,
 * as in "how does attention work?", are left out, and a word that is not in the book is replaced by the nearest one that is. Only a
 * word that is not in the book may be the beginning of one. "Fine-tuning", "fine tuning" and "finetuning" are the same. A glossary
 * entry has several names, also those of the entries that only lead to it. If no place has all words, the best have most of them. */
(() => {
  "use strict";
  const ASKING =
    /^(?:about|am|an|any|between|can|could|difference|do|does|did|doesn't|don't|explain|for|get|give|happen|happens|has|have|how|i|in|is|it|me|mean|means|my|need|of|on|please|should|so|tell|than|the|there|thing|things|to|use|used|versus|vs|want|was|we|what|what's|when|where|which|who|why|will|with|work|working|works|would|you|your)$/i;
  const NOTHING = "No place of the book has any of these words. Try others for the same thing.";
  const VERBS = { __proto__: null, forgot: "forget", forgotten: "forget", made: "make", wrote: "write", written: "write" };
  const [MOST, EXCERPT] = [100, 180]; // places, characters
  const KINDS = [/^book\/glossary#/, /^notebooks\/\d/, /^(?!book\/(?:api|bib|claims|parity|reference))/]; // what comes first

  const { bring, wholeWords } = glassformer;
  const make = (tag, given) => Object.assign(document.createElement(tag), given);
  const ofPage = document.getElementById("search-results");
  const results = ofPage ?? make("div", { className: "search-results" });
  const field = document.querySelector(ofPage ? "main .bd-search input" : ".bd-search input");
  const count = make("p", { role: "status", className: "mt-3", textContent: "The index is on its way …" });
  const list = make("ol", { className: "found list-unstyled" });
  let index, known, stemmer; // of Sphinx, the words of its index, and what finds their stems
  let posts, names, joined; // the places of each word, the words of each name, and what a word written together consists of

  /** A question without what only makes it a question, unless nothing else is in it. */
  function topic(query) {
    const words = query.replace(/[?!.]/g, " ").trim().split(/\s+/);
    const left = words.filter((word) => !ASKING.test(word));
    return (left.length ? left : words).join(" ");
  }

  const plain = (text) => text.toLowerCase().normalize("NFKD").replace(/\p{M}|['’]s\b/gu, "");
  const stem = (word) => VERBS[word] ?? stemmer.stemWord(word);
  /** The words of a text as `posts` has them, which is their stems; but "mas", with which words begin, as it is. */
  const stems = (text) =>
    splitQuery(plain(text)).flatMap((word) => {
      if (stopwords.includes(word)) return [];
      const one = stem(word);
      return joined.get(word) ?? joined.get(one) ?? (posts.has(one) || !known.some((each) => each.startsWith(word)) ? one : word);
    });

  /** Prepares all that `places` needs. */
  function prepare() {
    const { entries = {}, aliases = {} } = globalThis.GLOSSARY ?? {}; // a site may have none
    const entry = (name) => index.docnames.indexOf(`book/glossary#${name}`);
    const leads = new Map(Object.keys(entries).flatMap((name) => (entries[name] in entries ? [[entry(name), entry(entries[name])]] : [])));
    [posts, joined] = [new Map(), new Map()];
    for (const [word, found] of [index.terms, index.titleterms].flatMap(Object.entries)) {
      const one = VERBS[word] ?? plain(word);
      posts.set(one, new Set([...(posts.get(one) ?? []), ...[found].flat().map((at) => leads.get(at) ?? at)]));
    }
    const titles = index.titles.map((title, at) => [title.replace(/^\d+ · |&#?\w+;/g, "’"), leads.get(at) ?? at]);
    titles.push(...Object.entries(aliases).map(([alias, name]) => [alias, entry(name)]));
    for (const [title, at] of titles) {
      const letters = stem(splitQuery(plain(title)).map(([first]) => first).join("")); // MTP is multi-token prediction
      if (letters.length < 3 || posts.has(letters) || !index.docnames[at].startsWith("book/glossary#")) continue;
      titles.push([letters.toUpperCase(), at]);
      posts.set(letters, new Set([at]));
    }
    known = [...posts.keys()];
    for (const [title] of titles) {
      if (/[- ]/.test(title)) joined.set(plain(title).replace(/[- ]/g, "_"), stems(title));
      for (const word of plain(title).match(/\p{L}+(?:-\p{L}+)+/gu) ?? []) joined.set(stem(word.replaceAll("-", "")), stems(word));
    }
    names = titles.map(([name, at]) => ({ name, at, words: new Set(stems(topic(name))) })).filter(({ words }) => words.size);
  }

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
    const most = word.length < 4 || /\d/.test(word) ? 0 : word.length < 7 ? 1 : 2;
    if (most === 0 || known.some((one) => one.startsWith(word))) return word;
    const often = (one) => posts.get(one).size;
    const near = known.map((one) => [distance(word, one, most), -often(one), one]).filter(([far]) => far <= most);
    const begun = known.filter((one) => one.length > 3 && word.startsWith(one)).sort((a, b) => b.length - a.length);
    return near.sort((a, b) => a[0] - b[0] || a[1] - b[1])[0]?.[2] ?? begun[0] ?? word;
  }

  /** What is meant by each word: itself, also written together with the one before or after it, or all that begin with it. */
  function meanings(query) {
    const said = splitQuery(plain(topic(query)));
    const pairs = said.slice(1).map((next, i) => [stem(said[i] + next), stem(said[i]), stem(next)]);
    return [...new Set(stems(topic(query)))].map((word) => {
      const whole = pairs.flatMap(([pair, ...parts]) => (parts.includes(word) ? pair : []));
      const ways = [word, word.replaceAll("_", ""), ...whole].filter((way) => posts.has(way));
      if (ways.length) return { ways };
      const other = nearest(word);
      return posts.has(other) ? { ways: [other], isOther: true } : { ways: known.filter((one) => one.startsWith(word)) };
    });
  }

  /** The places that have all words that are meant or are named so, or else most and the rarest of them; the best first. */
  function places(query, meant) {
    const sought = meant.map(({ ways }) => ({ ways, at: new Set(ways.flatMap((way) => [...posts.get(way)])) })).filter(({ at }) => at.size);
    const worth = (words) => words.reduce((sum, { at }) => sum + Math.log(1 + index.docnames.length / at.size), 0);
    const share = (has) => worth(sought.filter(has)) / worth(sought);
    const ways = new Set(sought.flatMap((each) => each.ways));
    const best = new Map(); // of the names of a place, the one that is most like the query
    for (const { name, at, words } of names) {
      const said = [...words].filter((word) => ways.has(word)).length / words.size;
      const like = said && said * share((each) => each.ways.some((way) => words.has(way)));
      if (like > (best.get(at)?.like ?? 0)) best.set(at, { name, like, isNamed: said === 1 });
    }
    const all = [...new Set(sought.flatMap(({ at }) => [...at]))].map((at) => {
      const [page, section = ""] = index.docnames[at].split("#");
      const kind = KINDS.findIndex((one) => one.test(index.docnames[at])) >>> 0;
      const { name, like = 0, isNamed } = best.get(at) ?? {};
      const has = share((each) => each.at.has(at));
      const isChapter = kind === 1 && !section; // which comes first for its title
      const score = (has + 2 * like) / (kind < 3 ? 1 : 2) + (isChapter && like > 0.99) + 0.3 / (1 + kind);
      return { page, section, kind, has, isNamed, name: kind === 0 && isNamed && name, title: index.titles[at], score };
    });
    const most = Math.max(...all.map(({ kind, has }) => (kind < 3 ? has : 0)));
    const isWhole = most > 0.99 && sought.length === meant.length;
    const found = all.filter(({ has, isNamed }) => has >= (isWhole ? 0.99 : most / 2) || isNamed);
    const parts = splitQuery(topic(query).toLowerCase()).sort((a, b) => b.length - a.length);
    for (const [page, title, anchor] of parts[0]?.length > 2 ? Search.performObjectSearch(parts[0], new Set(parts)) : []) {
      const isExact = `.${title}`.toLowerCase().endsWith(`.${query.toLowerCase().replace(/\(.*/, "")}`);
      const score = isExact ? (query.includes("_") ? 5 : 3.1) : 1;
      if (!anchor.startsWith("#module-")) found.push({ page, section: anchor.slice(1), title, score }); // a module is a section
    }
    return { found: found.sort((a, b) => b.score - a.score), isWhole };
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

  function item({ page, section, title, name, isNamed }, words) {
    const above = section && index.titles[index.docnames.indexOf(page)] + (name && name !== title ? ` · ${name}` : "");
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
    const meant = meanings(query);
    const { found, isWhole } = places(query, meant);
    const similar = meant.some(({ isOther }) => isOther) && `The book does not have every word of “${query}”. Places with similar ones:`;
    const says = isWhole ? similar || "Places found:" : `No place of the book has all words of “${query}”. Places with most of them:`;
    count.textContent = query && (found.length ? `${says} ${found.length}.` : NOTHING);
    const words = meant.flatMap(({ ways }) => ways).map((word) => (word.length < 4 ? word : `${word.replace(/i$/, "")}*`));
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
    stemmer = new Stemmer();
    prepare();
    field.addEventListener("input", search);
    search();
  }
  start().catch(() => (count.textContent = "The index did not arrive. Please reload the page."));
})();
