// Questions with instant feedback. The options are native radio buttons (or check boxes) in a fieldset.

import { button, card, h, onChange, risky, uniqueId } from "./kit/kit.js";
import { quoted, rich } from "./kit/rich.js";

const rightOnes = (question) => question.options.flatMap((option, i) => (option.correct ? [i] : []));

export const isRight = (question, choice) =>
  choice.length === rightOnes(question).length && rightOnes(question).every((i) => choice.includes(i));

const unanswered = (answers) => answers.every((tries) => tries.length === 0);

export function score(questions, answers) {
  const first = questions.filter((q, i) => answers[i].length > 0 && isRight(q, answers[i][0])).length;
  const solved = questions.filter((q, i) => answers[i].some((choice) => isRight(q, choice))).length;
  const n = questions.length;
  if (unanswered(answers)) {
    return n === 1 ? "Not answered yet." : `${n} questions, none answered yet.`;
  }
  return `${solved} of ${n} right, ${first === n ? "all" : first} at the first try.`;
}

function verdict(question, choice, model) {
  const mark = (i) =>
    question.options[i].correct
      ? h("strong", { class: "gf-yes" }, "✓ Right. ")
      : h("strong", { class: "gf-no" }, "✗ No. ");
  const explained = choice.map((i) => {
    const { text, why } = question.options[i];
    return h("p", {}, mark(i), question.multiple && [rich(quoted(text)), ": "], rich(why, model));
  });
  const missing = rightOnes(question).filter((i) => !choice.includes(i)).length;
  if (question.multiple && choice.length === 0) return [h("p", {}, "Tick what applies, then check.")];
  if (question.multiple && missing) explained.push(h("p", {}, `${missing} more ${missing === 1 ? "applies" : "apply"}.`));
  return explained;
}

// In a group of radio buttons, browsers let the arrow keys choose. Here, arrow keys only move, and space chooses: an option
// that is passed on the way to another is not an answer.
function moveWithoutChoosing(event) {
  const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
  if (!step || event.target.type !== "radio") return;
  event.preventDefault();
  const radios = [...event.currentTarget.querySelectorAll("input")];
  radios[(radios.indexOf(event.target) + step + radios.length) % radios.length].focus();
}

export function questionElement(question, number, tried, choose, model) {
  const name = uniqueId();
  const inputs = question.options.map((_, i) =>
    h("input", {
      type: question.multiple ? "checkbox" : "radio",
      name,
      onchange: () => !question.multiple && choose([i]),
    }),
  );
  const marks = inputs.map(() => h("span", { class: "gf-mark", "aria-hidden": "true" }));
  const rows = question.options.map((option, i) =>
    h("div", { class: "gf-option" }, h("label", {}, inputs[i], h("span", {}, rich(option.text))), marks[i]),
  );
  const feedback = h("div", { class: "gf-feedback", "aria-live": "polite" });
  const ticked = () => inputs.flatMap((input, i) => (input.checked ? [i] : []));
  const element = h(
    "fieldset",
    { class: "gf-question", onkeydown: moveWithoutChoosing },
    h("legend", {}, h("span", { class: "gf-number" }, `${number}`), h("span", {}, rich(question.text, model))),
    question.multiple && h("p", { class: "gf-hint" }, "Tick all that apply."),
    rows,
    question.multiple && button("Check", () => choose(ticked())),
    feedback,
  );
  let shown = null;
  function show() {
    const tries = tried();
    const now = JSON.stringify(tries);
    if (now === shown) return; // leave alone what the answer to another question did not change
    shown = now;
    const latest = tries.at(-1) ?? [];
    const seen = new Set(tries.flat());
    inputs.forEach((input, i) => (input.checked = latest.includes(i)));
    rows.forEach((row, i) => {
      const state = seen.has(i) ? (question.options[i].correct ? "right" : "wrong") : "";
      row.className = `gf-option ${state && `gf-${state}`} ${latest.includes(i) ? "gf-latest" : ""}`;
      marks[i].textContent = { right: "✓", wrong: "✗" }[state] ?? "";
    });
    feedback.replaceChildren(...(tries.length ? verdict(question, latest, model) : []));
  }
  const forget = () => (shown = null); // what was chosen a moment ago may not have been shown yet
  return { element, show, forget };
}

// The reader's answers, which the browser stores under the first question. If the quiz now asks something else or has other
// options, it starts anew. A browser may forbid this, as some do for pages opened from disk; then nothing is stored.
const shelf = (questions) => `glassformer.quiz: ${questions[0].text}`;
const asked = (questions) => questions.map(({ text, options }) => [text, ...options.map((option) => option.text)]);

// Whether something that was stored lists the tries for each question, and each try lists options that the question has.
const areTries = (questions, answers) =>
  Array.isArray(answers) &&
  answers.length === questions.length &&
  questions.every(({ options }, q) => {
    const isOption = (i) => Number.isInteger(i) && i >= 0 && i < options.length;
    return Array.isArray(answers[q]) && answers[q].every((choice) => Array.isArray(choice) && choice.every(isOption));
  });

export function recall(questions) {
  try {
    const saved = JSON.parse(localStorage.getItem(shelf(questions)));
    const isSame = JSON.stringify(saved.asked) === JSON.stringify(asked(questions));
    return isSame && areTries(questions, saved.answers) ? saved.answers : null;
  } catch {
    return null;
  }
}

// Whether the browser has stored it.
export function save(questions, answers) {
  try {
    if (unanswered(answers)) localStorage.removeItem(shelf(questions));
    else localStorage.setItem(shelf(questions), JSON.stringify({ asked: asked(questions), answers }));
    return true;
  } catch {
    return false;
  }
}

function render({ model, el }) {
  const answer = (answers) => {
    model.set("answers", answers);
    model.save_changes();
  };
  const saved = recall(model.get("questions"));
  if (saved && unanswered(model.get("answers"))) answer(saved);

  const root = card(el, {
    title: "Quiz",
    hint:
      "Choose an answer and read why it is right or wrong; you may choose again. " +
      "With the keyboard: arrows move, space chooses." +
      (save(model.get("questions"), model.get("answers")) ? " Your answers stay in this browser." : ""),
  });
  root.classList.add("gf-quiz");
  const line = h("p", { class: "gf-says" });
  let cards = [];

  function build() {
    cards = model.get("questions").map((question, q) =>
      questionElement(
        question,
        q + 1,
        () => model.get("answers")[q] ?? [],
        (choice) => answer(model.get("answers").map((tries, i) => (i === q ? [...tries, choice] : tries))),
        model,
      ),
    );
    const again = risky(
      "Start again",
      "Forget my answers",
      () => {
        cards.forEach((question) => question.forget());
        answer(model.get("questions").map(() => []));
        show();
      },
      { isLost: () => !unanswered(model.get("answers")) },
    );
    const foot = h("div", { class: "gf-foot" }, line, again);
    root.replaceChildren(...[...root.children].slice(0, 2), ...cards.map(({ element }) => element), foot);
    show();
  }
  function show() {
    if (model.get("answers").length !== model.get("questions").length) return; // the other trait has not arrived yet
    save(model.get("questions"), model.get("answers"));
    cards.forEach((question) => question.show());
    line.textContent = score(model.get("questions"), model.get("answers"));
  }

  const stop = [onChange(model, ["questions"], build), onChange(model, ["answers"], show)];
  return () => stop.forEach((end) => end());
}

export default { render };
