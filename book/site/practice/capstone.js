/* The capstone's page: one field for a whole GPT, and a place for each stage that looks at it.
 * tools/extensions/practice.py writes them into the page. */
(() => {
  "use strict";
  const { kept, acts, Field, Results } = window.glassformerPractice;
  const NAME = "capstone"; // what the GPT in the field is to Python, and to what this browser keeps

  const DONE = "✓ You have done this stage.";

  const help = (place) => JSON.parse(place.querySelector(".practice-help").textContent);

  /** Makes the field work, and the places of the stages. */
  function capstone(place, python) {
    const loads = place.dataset.loads.split(" ");
    const request = (what) => ({
      request: { ...what, exercise: NAME, code: field.code, earlier: {}, files: kept.files },
      loads,
    });
    const resultsIn = (where) => new Results(where, python, request);
    const results = resultsIn(place);
    const tryIt = () => results.ask({ do: "try" });
    const field = new Field(place, NAME, { enter: tryIt, restarted: () => results.clear() });

    /** Begins with the functions that the reader has kept. */
    async function start() {
      const answer = await results.ask({ do: "start" });
      if (answer?.code) field.replace(answer.code);
    }

    function rules() {
      results.clear();
      results.show(help(place).rules);
    }

    acts(place, { try: tryIt, start, rules });
    for (const each of document.querySelectorAll(".practice[data-stage]")) stage(each, resultsIn(each));
    for (const each of document.querySelectorAll(".practice[data-built]")) {
      const built = resultsIn(each);
      acts(each, { built: () => built.ask({ do: "built" }) });
    }
  }

  /** Makes a place work that checks one stage, or all of them if it names none. */
  function stage(place, results) {
    const mark = `${NAME}.${place.dataset.stage}`;
    const { hints } = help(place);
    let hintsGiven = 0;

    async function check() {
      const answer = await results.ask({ do: "stage", stage: place.dataset.stage });
      if (answer?.isLate && place.dataset.stage) kept.mark({ [mark]: { tried: true } });
    }

    function hint() {
      results.suggest(hints[Math.min(hintsGiven++, hints.length - 1)]);
    }

    acts(place, { check, hint });
    if (kept.marks[mark]?.done) results.says(DONE);
  }

  Object.assign(window.glassformerPractice, { capstone });
})();
