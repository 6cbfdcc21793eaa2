/* The page that shows what was done: a table for each chapter, as `progress()` shows it in a notebook, and what was answered while
 * reading. Another record, such as JupyterLab's, can be added to the browser's. tools/extensions/progress_page.py writes the page. */
(() => {
  "use strict";
  const { kept, h, button, draw, opens, download } = window.glassformerPractice;
  const FILE = "progress.json";
  const LIMIT = 1_000_000; // bytes: a record of ours is far smaller
  const FLAGS = ["tried", "revealed", "done"];
  const HEADS = ["exercise", "what it asks", "difficulty", "time", "state"];

  const NOTHING = "There is nothing to download yet.";
  const NOT_OURS = `This is not a ${FILE} that Glassformer has written, so nothing was changed.`;
  const ADDED = "It was added to what this browser had.";
  const unknown = (count) => ` ${count} of its names ${count === 1 ? "is" : "are"} no exercise of this book, and left out.`;
  const DAMAGED = "This browser's record of your progress was damaged, so a new one was begun. ";

  const place = document.querySelector(".practice-progress");
  const { chapters, stages } = JSON.parse(place.querySelector("script").textContent);
  const names = new Set([...chapters.flatMap(({ exercises }) => exercises.map(({ name }) => name)), ...stages]);
  const line = h("p", { class: "practice-says", role: "status" });
  const tables = h("div");
  place.append(line, tables);

  function state({ done, tried, revealed } = {}) {
    const first = done ? "done" : tried ? "tried" : "left";
    return revealed ? `${first}, revealed` : first;
  }

  /** How many predictions of a chapter were answered, and whether its quiz was begun. */
  function read({ number, predictions, quiz }) {
    const answered = predictions.filter((name) => kept.read(`predict: ${number}/${name}`) !== null).length;
    const said = [];
    if (predictions.length) said.push(`${answered} of ${predictions.length} predictions answered`);
    if (quiz) said.push(kept.read(`quiz: ${quiz}`) === null ? "quiz not begun" : "quiz begun");
    return said.join(", ");
  }

  function table(chapter, marks) {
    const { number, title, page, practice, exercises } = chapter;
    const left = exercises.filter(({ name }) => !marks[name]?.done);
    const minutes = left.reduce((sum, one) => sum + one.minutes, 0);
    const done = `${exercises.length - left.length} of ${exercises.length} done`;
    const exercised = left.length ? `${done}; about ${minutes} minutes left.` : `${done}. You have finished the chapter.`;
    const reading = read(chapter);
    return {
      kind: "table",
      caption: `Chapter ${number}, ${title}`,
      heads: HEADS,
      rows: exercises.map((one) => [one.name, one.title, one.stars, `${one.minutes} min`, state(marks[one.name])]),
      closing: [
        { text: `${exercised} ` },
        { text: "The exercises", link: practice },
        { text: ` · ${reading ? `${reading}. ` : ""}` },
        { text: "The chapter", link: page },
      ],
    };
  }

  function show() {
    const { marks } = kept;
    const withExercises = chapters.filter(({ exercises }) => exercises.length);
    tables.replaceChildren(...withExercises.map((chapter) => draw(table(chapter, marks))));
  }

  /** The marks in a file's text, or null if it is no record. */
  function marksIn(text) {
    try {
      const { exercises } = JSON.parse(text);
      if (!kept.isRecord(exercises)) return null;
      const flags = (found) => Object.fromEntries(FLAGS.filter((flag) => found[flag] === true).map((flag) => [flag, true]));
      return Object.fromEntries(Object.entries(exercises).map(([name, found]) => [name, flags(found)]));
    } catch {
      return null;
    }
  }

  async function open(file) {
    const marks = file.size > LIMIT ? null : marksIn(await file.text());
    const ours = Object.entries(marks ?? {}).filter(([name]) => names.has(name));
    if (ours.length) kept.mark(Object.fromEntries(ours));
    const others = Object.keys(marks ?? {}).length - ours.length;
    line.textContent = !marks || (others && !ours.length) ? NOT_OURS : ADDED + (others ? unknown(others) : "");
    show();
  }

  function save() {
    const text = kept.file(FILE);
    line.textContent = text === null ? NOTHING : "";
    if (text !== null) download(FILE, text);
  }

  opens(place.querySelector("[data-do=open]"), FILE, ".json,application/json", open);
  place.querySelector("[data-do=download]").addEventListener("click", save);
  addEventListener("storage", show); // another tab has gone on
  const damaged = kept.read(kept.DAMAGED);
  if (damaged !== null) place.prepend(h("p", {}, DAMAGED, button("Download the old one", () => download("progress-damaged.txt", damaged))));
  show();
})();
