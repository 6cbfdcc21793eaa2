/* One exercise on a practice page: its field, which becomes an editor when the reader goes there, its buttons, and below
 * them what Python printed and answered. tools/pages/practice.py writes the field and the buttons into the page. */
(() => {
  "use strict";
  const { kept, h, button, Results } = window.glassformerPractice;
  const EDITOR = new URL("../vendor/codemirror/editor.js", document.currentScript.src).href;

  const CHANGED = "This exercise has changed since you began it. Your code is as you left it.";
  const ASIDE = "Your code has been put aside. ";
  const SURE = "The answer ends the puzzle, and your progress will say that you have seen it. Show it now?";
  const SOLVED = "✓ You have solved this exercise.";

  let editorScript = null; // a promise of whether the editor could be loaded
  function loadEditor() {
    editorScript ??= new Promise((resolve) => {
      const script = h("script", { src: EDITOR, onload: () => resolve(true), onerror: () => resolve(false) });
      document.head.append(script);
    });
    return editorScript;
  }

  class Exercise {
    #field; // the field, until the editor has taken its place
    #editor = null;
    #hintsGiven = 0;
    #aside = null; // code that "Start over" put aside
    #from; // the stub that the code began from
    #note = h("p", { class: "practice-note", role: "status" });
    #results;
    /** `before()` returns the exercises before this one on the page. */
    constructor(place, { python, before }) {
      const { exercise, keep, loads } = place.dataset;
      const { hints, answer } = JSON.parse(place.querySelector(".practice-help").textContent);
      Object.assign(this, { name: exercise, keeps: keep !== undefined, models: loads.split(" ").filter(Boolean) });
      Object.assign(this, { before, hints, answer });
      this.#field = place.querySelector("textarea");
      this.stub = this.#field.defaultValue;
      this.#results = new Results(place, python, (what) => this.#request(what));
      place.querySelector(".practice-buttons").before(this.#note);
      const press = {
        check: () => this.#judge(this.keeps ? "yes" : "no"),
        try: () => this.#results.ask({ do: "try" }),
        hint: () => this.#hint(),
        reveal: () => this.#askOnceMore(),
        restart: () => this.#restart(),
      };
      for (const [what, act] of Object.entries(press)) {
        place.querySelector(`[data-do=${what}]`).addEventListener("click", act);
      }
      // Before the editor sees the key, which would begin a new line.
      const isCheck = ({ key, ctrlKey, metaKey, shiftKey }) => key === "Enter" && (ctrlKey || metaKey || shiftKey);
      const check = (event) => {
        if (!isCheck(event) || event.target.closest("button, a")) return;
        event.preventDefault();
        event.stopPropagation();
        press.check();
      };
      place.addEventListener("keydown", check, { capture: true });
      // On a page, plain keys are shortcuts: "/" leads to the search. In the editor they are letters.
      const isPlain = ({ ctrlKey, altKey, metaKey }) => !ctrlKey && !altKey && !metaKey;
      place.addEventListener("keydown", (event) => isPlain(event) && event.stopPropagation());
      this.#recall();
      this.#field.addEventListener("input", () => this.#typed(this.#field.value));
      this.#field.addEventListener("pointerdown", loadEditor);
      this.#field.addEventListener("focus", () => this.#edit());
    }

    get code() {
      return this.#editor ? this.#editor.text() : this.#field.value;
    }
    set code(code) {
      if (this.#editor) this.#editor.replace(code); // tells of the change itself
      else this.#field.value = code;
      this.#typed(code);
    }

    get accepted() {
      return kept.read(`right: ${this.name}`);
    }

    // --- the code ------------------------------------------------------------------------------------------

    #typed(code) {
      kept.type(this.name, { stub: this.#from, code, ...(this.#aside !== null && { aside: this.#aside }) });
    }

    /** Shows what was typed here before. */
    #recall() {
      const { stub, code, aside } = kept.typed(this.name) ?? { stub: this.stub, code: this.stub };
      this.#from = stub;
      this.#aside = aside ?? null;
      if (code !== this.stub) this.#field.value = code;
      if (stub !== this.stub && code !== stub) this.#offerNewStub();
      else if (stub !== this.stub) this.#begin(); // nothing was written
      else this.#offerAside();
      if (this.accepted !== null) this.#results.says(SOLVED);
    }

    #begin() {
      this.#from = this.stub;
      this.code = this.stub;
    }

    #offerNewStub() {
      const keep = button("Keep my code", () => {
        this.#from = this.stub;
        this.#typed(this.code);
        this.#offerAside();
        this.focus();
      });
      const take = button("Start over with the new version", () => {
        this.#restart();
        this.focus();
      });
      this.#note.replaceChildren(CHANGED, " ", keep, " ", take);
    }

    #offerAside() {
      if (this.#aside === null) return this.#note.replaceChildren();
      const back = button("Bring it back", () => {
        const now = this.code;
        const code = this.#aside;
        this.#aside = now === this.stub ? null : now;
        this.code = code;
        this.#offerAside();
        this.focus();
      });
      return this.#note.replaceChildren(ASIDE, back);
    }

    #restart() {
      if (this.code !== this.stub) this.#aside = this.code;
      this.#begin();
      this.#offerAside();
      this.#results.clear();
    }

    focus() {
      (this.#editor ?? this.#field).focus();
    }

    /** Puts the editor in the place of the field, as soon as it is loaded. Without it, the field goes on. */
    async #edit() {
      const isThere = await loadEditor();
      await new Promise(requestAnimationFrame); // a click that gave the focus has now also moved the caret
      if (!isThere || this.#editor) return;
      const field = this.#field;
      const hadFocus = field === document.activeElement;
      const [label, description] = ["aria-label", "aria-describedby"].map((name) => field.getAttribute(name));
      this.#editor = window.glassformerEditor({
        code: field.value,
        selection: { anchor: field.selectionStart, head: field.selectionEnd },
        attributes: { "aria-label": label, "aria-describedby": description },
        changed: (code) => this.#typed(code),
      });
      this.#editor.element.style.minHeight = `${field.offsetHeight}px`;
      field.replaceWith(this.#editor.element);
      if (hadFocus) this.#editor.focus();
    }

    // --- the buttons ---------------------------------------------------------------------------------------

    #request(what) {
      const earlier = this.before().map(({ name, accepted }) => [name, accepted]);
      const request = {
        ...what,
        exercise: this.name,
        code: this.code,
        earlier: Object.fromEntries(earlier.filter(([, code]) => code !== null)),
        files: kept.files,
      };
      return { request, models: this.models };
    }

    async #judge(keep) {
      const code = this.code;
      const answer = await this.#results.ask({ do: "check", keep });
      if (answer?.right) kept.write(`right: ${this.name}`, code);
      if (answer?.kept === "different") {
        this.#results.offer("", button("Replace it in my_transformer.py", () => this.#judge("replace")));
      }
    }

    /** Shows the next hint, and in the end the last one again. */
    #hint() {
      this.#results.clear();
      this.#results.show(this.hints[Math.min(this.#hintsGiven++, this.hints.length - 1)]);
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
        this.focus();
      });
      this.#results.clear();
      this.#results.offer(SURE, show, no);
      show.focus();
    }
  }

  Object.assign(window.glassformerPractice, { Exercise });
})();
