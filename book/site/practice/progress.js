/* The page that shows what was done: the sums, what to do next, a row of bars for each chapter, and in folds a table of its exercises,
 * as `progress()` shows it in a notebook. Another record, such as JupyterLab's, can be added to the browser's.
 * tools/extensions/progress_page.py writes the page, and route-table.js has the routes. */
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
  const whole = h("div");
  place.append(line);
  place.prepend(whole);
  const LEGEND =
    "The strong part of a bar shows what you got at the first try, or without looking at the book's answer. The pale part shows what" +
    " took more than that. Predictions are never called right or wrong, so they have no pale part.";

  function state({ done, tried, revealed } = {}) {
    const first = done ? "done" : tried ? "tried" : "left";
    return revealed ? `${first}, revealed` : first;
  }

  // Of each kind: how many there are, how many are done, and of these how many at the first try, or without the book's answer.
  const KINDS = { predictions: "Predictions", quiz: "Quizzes", exercises: "Exercises" };
  const SURELY = { quiz: "at the first try", exercises: "without the answer" };
  const heading = ({ number, title }) => `${number} · ${title}`;
  const answered = ({ number, predictions }) => predictions.filter((name) => kept.read(`predict: ${number}/${name}`) !== null).length;

  function quizzed({ first, right }) {
    let tries;
    try {
      tries = JSON.parse(kept.read(`quiz: ${first}`)).answers.map((one) => one.map((choice) => [...choice].sort().join()));
    } catch {
      tries = []; // there is no record, or it is none of ours
    }
    const sure = right.filter((options, q) => tries[q]?.[0] === options.join()).length;
    return { sure, done: right.filter((options, q) => tries[q]?.includes(options.join())).length, all: right.length };
  }

  function counted(chapter, marks) {
    const predicted = answered(chapter);
    const done = chapter.exercises.filter(({ name }) => marks[name]?.done);
    const sure = done.filter(({ name }) => !marks[name].revealed).length;
    return {
      predictions: { sure: predicted, done: predicted, all: chapter.predictions.length },
      quiz: quizzed(chapter.quiz ?? { right: [] }),
      exercises: { sure, done: done.length, all: chapter.exercises.length },
    };
  }

  /** A bar; the numbers are beside it, in words. */
  function bar({ sure, done, all }) {
    const element = h("div", { class: "bar", "aria-hidden": "true" });
    for (const [name, part] of Object.entries({ sure, done })) element.style.setProperty(`--${name}`, `${(100 * part) / all}%`);
    return element;
  }

  function amount(kind, part) {
    if (part.all === 0) return [];
    const surely = part.sure < part.done ? h("small", {}, `${part.sure} ${SURELY[kind]}`) : "";
    return [`${part.done} of ${part.all}`, bar(part), surely];
  }

  /** How many predictions of a chapter were answered, and whether its quiz was begun. */
  function read(chapter) {
    const { predictions, quiz } = chapter;
    const said = [];
    if (predictions.length) said.push(`${answered(chapter)} of ${predictions.length} predictions answered`);
    if (quiz) said.push(kept.read(`quiz: ${quiz.first}`) === null ? "quiz not begun" : "quiz begun");
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

  const pageLink = (page, text) => h("a", { href: page.replace(".ipynb", ".html") }, text);

  /** The routes that were begun, each with the page that was opened last and the minutes that are left. */
  function begunRoutes() {
    return Object.entries(window.glassformerRoutes ?? {}).flatMap(([name, { title, stops }]) => {
      const at = Number(kept.read(`route: ${name}`) ?? -1);
      if (!stops[at]) return [];
      const minutes = (some) => some.reduce((total, one) => total + one.minutes, 0);
      const [passed, all] = [minutes(stops.slice(0, at)), minutes(stops)];
      const page = h("a", { href: `../${stops[at].page}.html?route=${name}` }, stops[at].title);
      const ahead = `. About ${all - passed} of ${all} minutes lie ahead.`;
      return [[h("strong", {}, title), `: you are on page ${at + 1} of ${stops.length}, `, page, ahead, bar({ sure: passed, done: passed, all })]];
    });
  }

  /** What a reader could do next: sentences. */
  function ideas(all, marks) {
    const begun = all.filter(({ counts }) => Object.values(counts).some(({ done }) => done));
    if (!begun.length) return [["Choose ", pageLink("../notebooks/index.html#ways-through-the-book", "a way through the book"), "."]];
    const left = ({ counts }, kind) => counts[kind].all - counts[kind].done;
    const where = (one, kind, noun) => `, where ${left(one, kind)} ${noun}${left(one, kind) === 1 ? " waits" : "s wait"} for you.`;
    const reading = begun.find((one) => one.counts.predictions.done && left(one, "predictions"));
    const following = all[all.indexOf(begun.at(-1)) + 1];
    const asked = begun.find((one) => left(one, "quiz"));
    const tried = begun.find((one) => left(one, "exercises"));
    const task = tried?.exercises.find(({ name }) => !marks[name]?.done);
    return [
      reading && ["Read on in ", pageLink(reading.page, heading(reading)), where(reading, "predictions", "prediction")],
      !reading && following && ["Go on with ", pageLink(following.page, heading(following)), `. It takes about ${following.minutes} minutes.`],
      asked && ["Take the quiz of ", pageLink(`${asked.page}#quiz`, heading(asked)), where(asked, "quiz", "question")],
      task && ["Try the exercise ", pageLink(tried.practice, task.title), ` of ${heading(tried)}. It takes about ${task.minutes} minutes.`],
    ].filter(Boolean);
  }

  function show() {
    const { marks } = kept;
    const all = chapters.map((chapter) => ({ ...chapter, counts: counted(chapter, marks) }));
    const kinds = Object.entries(KINDS);
    const sums = kinds.map(([kind, label]) => {
      const add = (a, b) => ({ sure: a.sure + b.sure, done: a.done + b.done, all: a.all + b.all });
      return h("div", {}, h("strong", {}, label), amount(kind, all.map(({ counts }) => counts[kind]).reduce(add)));
    });
    const row = (one) => [
      h("th", { scope: "row" }, pageLink(one.page, heading(one))),
      kinds.map(([kind, label]) => h("td", { "data-label": label }, amount(kind, one.counts[kind]))),
    ];
    const heads = ["Chapter", ...Object.values(KINDS)].map((label) => h("th", { scope: "col" }, h("span", {}, label))); // the style hides empty heads
    const opened = [...whole.querySelectorAll("details[open]")].map(({ dataset }) => dataset.chapter);
    const folds = all.map((one) => {
      const { done, all: many } = one.counts.exercises;
      const folded = opened.includes(one.number) ? { open: "" } : {};
      const summary = h("summary", {}, `${heading(one)}: ${done} of ${many} done`);
      return many ? h("details", { "data-chapter": one.number, ...folded }, summary, draw(table(one, marks))) : "";
    });
    whole.replaceChildren(
      h("div", { class: "progress-sums" }, sums),
      h("h2", {}, "What to do next"),
      h("ul", { class: "progress-next" }, [...begunRoutes(), ...ideas(all, marks)].map((words) => h("li", {}, words))),
      h("h2", {}, "Chapter by chapter"),
      h("p", {}, LEGEND),
      h("table", { class: "table progress-chapters" }, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, all.map((one) => h("tr", {}, row(one))))),
      h("h2", {}, "Exercise by exercise"),
      ...folds,
      h("h2", {}, "The record"),
    );
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
