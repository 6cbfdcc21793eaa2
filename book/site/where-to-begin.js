/* Says what the answers to the questions mean: with which chapter to begin, and why. Nothing is counted, and the answers are
 * kept apart from those of quizzes. tools/extensions/where_to_begin.py writes the form. */
(() => {
  "use strict";
  const { kept, h } = window.glassformerPractice;
  const KEY = "begin";
  const form = document.querySelector("form.begin");
  const questions = JSON.parse(form.querySelector("script").textContent);
  const [result, becauses] = [form.querySelector(".begin-result"), [...form.querySelectorAll(".practice-panel")]];
  const answers = () => questions.map((_, i) => form.elements[`q${i + 1}`].value);
  const withCode = (text) => text.split("`").map((piece, i) => (i % 2 ? h("code", {}, piece) : piece));
  const linkTo = ({ chapter, page }, query = location.search) => h("a", { href: page + query }, chapter);
  const chapterOf = (number) => questions.find(({ chapter }) => chapter.startsWith(number));

  /** What the reader can do now: paragraphs. */
  function advice(missing) {
    if (missing.length === 0) {
      const known = h("p", {}, h("strong", {}, "You know all of this already."), " Read the configurations of newer models in ");
      known.append(linkTo(chapterOf("13"), "?route=2023"), ", or write a GPT from an empty file in ", linkTo(chapterOf("15")), ".");
      return [known];
    }
    const [first, ...others] = missing.filter((one, i) => missing.findIndex(({ chapter }) => chapter === one.chapter) === i);
    const begin = h("p", {}, h("strong", {}, "Begin with ", linkTo(first), "."), ` This chapter ${first.teaches}.`);
    if (others.length === 0) return [begin];
    const list = others.map((one) => h("li", {}, linkTo(one), ` ${one.teaches}.`));
    return [begin, h("p", {}, "These chapters also have something new for you:"), h("ul", {}, list)];
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const isRight = answers().map((answer, i) => answer === String(questions[i].right));
    questions.forEach(({ right, because, options }, i) => {
      const verdict = isRight[i] ? "✓ Right. " : `The answer is: ${options[right].replace(/\.$/, "")}. `;
      becauses[i].replaceChildren(verdict, ...withCode(because));
      becauses[i].hidden = false;
    });
    result.replaceChildren(...advice(questions.filter((_, i) => !isRight[i])));
    result.focus();
  });
  form.addEventListener("change", () => kept.write(KEY, JSON.stringify(answers())));
  form.addEventListener("reset", () => {
    kept.write(KEY, "[]");
    for (const line of becauses) line.hidden = true;
    result.replaceChildren();
  });
  try {
    JSON.parse(kept.read(KEY)).forEach((value, i) => (form.elements[`q${i + 1}`].value = value));
  } catch {
    // Nothing was kept, or no answers, so the form is empty.
  }
})();
