/* What this browser keeps of the reader's work on the practice pages, under keys that begin with "glassformer.":
 *
 *   code: NAME    what was typed for an exercise: JSON, { stub, code, aside }. `stub` is what it began from, and `aside` is the
 *                 text that "Start over" put aside, if there is one
 *   right: NAME   the last code that was right
 *   mine          the file my_transformer.py
 *   progress      the record of what was done, as JupyterLab keeps it
 *
 * If the browser keeps nothing, because the reader forbids it or it is full, the page remembers until it is closed.
 */
(() => {
  "use strict";
  const remembered = new Map(); // what the browser would not keep

  const kept = {
    complain: () => {}, // called when the browser will not keep something
    read(key) {
      if (remembered.has(key)) return remembered.get(key);
      try {
        return localStorage.getItem(`glassformer.${key}`);
      } catch {
        return null;
      }
    },
    write(key, text) {
      try {
        localStorage.setItem(`glassformer.${key}`, text);
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
    /** The reader's files, as Python gets them and returns them. */
    get files() {
      return { mine: kept.read("mine"), progress: kept.read("progress") };
    },
    set files(files) {
      for (const key of ["mine", "progress"]) {
        if (typeof files?.[key] === "string" && files[key] !== kept.read(key)) kept.write(key, files[key]);
      }
    },
  };
  window.glassformerPractice = { kept };
})();
