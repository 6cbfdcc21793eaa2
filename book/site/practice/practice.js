/* Makes a practice page work: its exercises (exercise.js) or the capstone (capstone.js), and the buttons at its top. */
(() => {
  "use strict";
  const { kept, h, button, acts, opens, download, Python, Results, Exercise, capstone } = window.glassformerPractice;
  const FILE = "my_transformer.py";
  const OLD = "my_transformer_old/"; // the folder of its earlier versions
  const LIMIT = 1_000_000; // bytes of a file that is opened: more is no file of ours

  const UNKEPT =
    "Your browser does not keep anything for this page: it may be a private window, or its storage may be full. Everything works," +
    " but what you write is lost when you close the page. Copy what you want to keep.";
  const NO_FILE =
    `There is no ${FILE} in this browser yet. It begins with the first right answer that later chapters use,` +
    " or with a file that you open here.";
  const OTHER = `This browser already has another ${FILE}, and opening this one replaces it. You can download the old one first.`;
  const OPENED = `${FILE} was opened. The exercises now use its functions.`;
  const SAME = `This is the ${FILE} that this browser already has.`;
  const BEFORE = `You have replaced functions in ${FILE}. Its earlier versions can be downloaded, too:`;
  const others = (many) =>
    `Code that you ran on a practice page has left ${many === 1 ? "a file" : `${many} files`} in this browser. Every exercise finds` +
    ` ${many === 1 ? "it" : "them"} in its folder.`;
  const GONE = "Once removed, they cannot be brought back. Remove all of them?";
  const SHOWN = 10; // files, each with a button
  const NOT_OURS = "This is not a Python file with a function that an exercise could have written, so nothing was changed.";

  /** The text of a file in UTF-8, or nothing if it is in another encoding. */
  function textOf(bytes) {
    try {
      return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    } catch {
      return "";
    }
  }

  /** Whether a text may be such a file: it defines something, and does not begin as HTML does. */
  const isPython = (text) => /^(def|class|async def)\s+\w+/m.test(text) && !/^\s*</.test(text) && !text.includes("\0");

  function start() {
    const top = document.querySelector(".practice-page");
    const { chapter, setup, python: has } = top.dataset;
    const hasPython = has !== undefined;
    if (hasPython && location.protocol === "file:") top.querySelector(".practice-here").textContent = Python.FROM_DISK;
    const python = new Python({ chapter, setup, has: hasPython });
    const results = new Results(top);
    const warning = h("p", { class: "practice-note", role: "status" });
    top.append(warning);
    kept.complain = () => (warning.textContent = UNKEPT);
    kept.write("kept", "yes"); // complains at once if nothing is kept

    for (const design of document.querySelectorAll(".practice-design")) capstone(design, python);
    const exercises = [];
    for (const place of document.querySelectorAll(".practice[data-exercise]")) {
      const number = exercises.length;
      exercises.push(new Exercise(place, { python, before: () => exercises.slice(0, number) }));
    }

    function save() {
      results.clear();
      const mine = kept.file(FILE);
      if (mine === null) return results.says(NO_FILE);
      download(FILE, mine);
      const before = Object.entries(kept.files).filter(([name]) => name.startsWith(OLD));
      if (before.length) results.offer(BEFORE, ...before.map(([name]) => saves(name, name.slice(OLD.length))));
    }

    const saves = (name, label) => button(label, () => download(name.replaceAll("/", "_"), kept.file(name)));

    function offerOthers() {
      const names = kept.others;
      const remove = () => {
        for (const name of names) kept.remove(name);
        results.clear();
      };
      const ask = button("Remove from this browser", () => {
        results.clear();
        const keep = button("Keep them", () => {
          results.clear();
          offerOthers();
        });
        results.offer(GONE, button("Remove them", remove), keep);
        keep.focus();
      });
      const shown = names.slice(0, SHOWN).map((name) => saves(name, `Download ${name.slice(-40)}`));
      if (names.length) results.offer(others(names.length), ...shown, ask);
    }

    async function open(file) {
      results.clear();
      const text = file.size > LIMIT ? "" : textOf(await file.arrayBuffer());
      const mine = kept.file(FILE);
      const take = () => {
        kept.files = { [FILE]: text };
        results.clear();
        results.says(OPENED);
      };
      if (!isPython(text)) results.says(NOT_OURS);
      else if (mine === text) results.says(SAME);
      else if (mine === null) take();
      else results.offer(OTHER, button("Replace it", take), button("Keep the old one", () => results.clear()));
    }

    opens(top.querySelector("[data-do=open]"), FILE, ".py,text/x-python", open);
    acts(top, { download: save });
    offerOthers();
  }

  start(); // all of this is deferred, so the page has been read
})();
