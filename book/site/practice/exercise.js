/* One exercise on a practice page: its field, its buttons, and below them what Python printed and answered.
 * tools/extensions/practice.py writes the field and the buttons into the page. */
(() => {
  "use strict";
  const { kept, button, acts, Field, Results } = window.glassformerPractice;

  const SURE = "Once you have seen the answer, there is nothing left to find out. Your progress will say so. Show it now?";
  const SOLVED = "✓ You have solved this exercise.";

  class Exercise {
    #field;
    #hintsGiven = 0;
    #results;
    /** `before()` returns the exercises before this one on the page. */
    constructor(place, { python, before }) {
      const { exercise, keep, loads } = place.dataset;
      const { hints, answer } = JSON.parse(place.querySelector(".practice-help").textContent);
      Object.assign(this, { name: exercise, keeps: keep !== undefined, loads: loads.split(" ").filter(Boolean) });
      Object.assign(this, { before, hints, answer });
      const check = () => this.#judge(this.keeps ? "yes" : "no");
      this.#field = new Field(place, exercise, { enter: check, restarted: () => this.#results.clear() });
      this.#results = new Results(place, python, (what) => this.#request(what));
      acts(place, {
        check,
        try: () => this.#results.ask({ do: "try" }),
        hint: () => this.#hint(),
        reveal: () => this.#askOnceMore(),
      });
      if (this.accepted !== null) this.#results.says(SOLVED);
    }

    get accepted() {
      return kept.read(`right: ${this.name}`);
    }

    #request(what) {
      const earlier = this.before().map(({ name, accepted }) => [name, accepted]);
      const request = {
        ...what,
        exercise: this.name,
        code: this.#field.code,
        earlier: Object.fromEntries(earlier.filter(([, code]) => code !== null)),
        files: kept.files,
      };
      return { request, loads: this.loads };
    }

    async #judge(keep) {
      const { code } = this.#field;
      const answer = await this.#results.ask({ do: "check", keep });
      if (answer?.isLate) kept.mark({ [this.name]: { tried: true } });
      if (answer?.right) kept.write(`right: ${this.name}`, code);
      if (answer?.kept === "different") {
        this.#results.offer("", button("Replace it in my_transformer.py", () => this.#judge("replace")));
      }
    }

    /** Shows the next hint, and in the end the last one again. */
    #hint() {
      this.#results.suggest(this.hints[Math.min(this.#hintsGiven++, this.hints.length - 1)]);
    }

    #reveal() {
      kept.mark({ [this.name]: { revealed: true } });
      this.#results.clear();
      this.#results.show(this.answer);
    }

    #askOnceMore() {
      const show = button("Show it", () => this.#reveal());
      const no = button("Not yet", () => {
        this.#results.clear();
        this.#field.focus();
      });
      this.#results.clear();
      this.#results.offer(SURE, show, no);
      show.focus();
    }
  }

  Object.assign(window.glassformerPractice, { Exercise });
})();
