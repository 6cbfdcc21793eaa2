/* What this browser keeps of the reader's work on the practice pages, under keys that begin with "glassformer.":
 *
 *   code: NAME    what was typed for an exercise: JSON, { stub, code, aside }. `stub` is what it began from, and `aside` is the
 *                 text that "Start over" put aside, if there is one
 *   right: NAME   the last code that was right
 *   damaged: progress.json   a record of progress that could not be read, and was put aside
 *   file: NAME    a file of the reader, as JupyterLab keeps it: my_transformer.py, its earlier versions, progress.json; or one
 *                 that the reader's code has written, with any name
 *   route: NAME   how far the reader has come on a route through the book: the place of its page, counted from 0 (routes.js)
 *   begin         the answers on the page that says where to begin (where-to-begin.js), which count for nothing else
 *
 * If the browser keeps nothing, because the reader forbids it or it is full, the page remembers until it is closed.
 */
(() => {
  "use strict";
  const OURS = "glassformer.";
  const [FILE, RECORD] = ["file: ", "progress.json"];
  const OWN = /^(my_transformer\.py|my_transformer_old\/\d+\.py|progress\.json)$/;
  const remembered = new Map(); // what the browser would not keep

  const kept = {
    complain: () => {}, // called when the browser will not keep something
    keyOf: (key) => OURS + key, // under which the browser keeps it
    read(key) {
      if (remembered.has(key)) return remembered.get(key);
      try {
        return localStorage.getItem(OURS + key);
      } catch {
        return null;
      }
    },
    /** The keys of everything that is kept. */
    names() {
      const names = new Set(remembered.keys());
      try {
        for (const key of Object.keys(localStorage)) if (key.startsWith(OURS)) names.add(key.slice(OURS.length));
      } catch {
        // nothing is kept
      }
      return [...names];
    },
    write(key, text) {
      try {
        localStorage.setItem(OURS + key, text);
        remembered.delete(key);
      } catch {
        remembered.set(key, text);
        kept.complain();
      }
    },
    /** What was typed for an exercise, or null. */
    typed(name) {
      try {
        const { stub, code, aside } = JSON.parse(kept.read(`code: ${name}`));
        return typeof stub === "string" && typeof code === "string" ? { stub, code, aside } : null;
      } catch {
        return null; // nothing, or nothing of ours
      }
    },
    type: (name, typed) => kept.write(`code: ${name}`, JSON.stringify(typed)),
    /** The reader's files by name, as Python gets them and returns them. */
    get files() {
      const names = kept.names().filter((key) => key.startsWith(FILE));
      return Object.fromEntries(names.map((key) => [key.slice(FILE.length), kept.read(key)]));
    },
    set files(files) {
      for (const [name, text] of Object.entries(files)) {
        if (text !== kept.read(FILE + name)) kept.write(FILE + name, text);
      }
    },
    /** Keeps files that Python returns; `sent` are those that it was given. Returns false, and keeps none, if another tab has
     *  meanwhile written one that Python has changed. */
    take(files, sent) {
      const changed = Object.entries(files).filter(([name, text]) => text !== sent[name]);
      const isFree = ([name, text]) => name === RECORD || [sent[name] ?? null, text].includes(kept.file(name));
      if (!changed.every(isFree)) return false;
      const before = Object.entries(kept.marks);
      kept.files = Object.fromEntries(changed);
      const { marks } = kept;
      const isThere = ([name, flags]) => Object.keys(flags).every((flag) => marks[name]?.[flag]);
      if (!before.every(isThere)) kept.mark(Object.fromEntries(before));
      return true;
    },
    /** The names of the files that are not Glassformer's: the reader's code wrote them. */
    get others() {
      return Object.keys(kept.files).filter((name) => !OWN.test(name));
    },
    remove(name) {
      remembered.delete(FILE + name);
      try {
        localStorage.removeItem(OURS + FILE + name);
      } catch {
        // it was not kept
      }
    },
    file: (name) => kept.read(FILE + name),
    /** The marks of each exercise: { NAME: { tried, revealed, done } }. */
    get marks() {
      try {
        return JSON.parse(kept.file(RECORD)).exercises ?? {};
      } catch {
        return {};
      }
    },
    /** Adds marks to those that are kept; none is ever taken away, as in JupyterLab. */
    mark(more) {
      const { marks } = kept;
      for (const [name, flags] of Object.entries(more)) marks[name] = { ...marks[name], ...flags };
      kept.files = { [RECORD]: JSON.stringify({ version: 1, exercises: marks }) };
    },
  };
  /** Whether something is the marks of a record: an object of objects. */
  const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
  kept.isRecord = (exercises) => isObject(exercises) && Object.values(exercises).every(isObject);
  kept.DAMAGED = `damaged: ${RECORD}`;

  // As in JupyterLab, a record that cannot be read is put aside before a new one is begun.
  function putAside() {
    const text = kept.file(RECORD);
    try {
      if (text === null || kept.isRecord(JSON.parse(text).exercises)) return;
    } catch {
      // it is not even JSON
    }
    kept.write(kept.DAMAGED, text);
    kept.write(FILE + RECORD, JSON.stringify({ version: 1, exercises: {} }));
  }
  putAside();
  window.glassformerPractice = { kept };
})();
