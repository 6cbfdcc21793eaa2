/* A field for code, which becomes an editor when the reader goes there. What was typed is kept, and what "Start over" puts
 * aside can be brought back. tools/extensions/practice.py writes the field into the page. */
(() => {
  "use strict";
  const { kept, h, button } = window.glassformerPractice;
  const EDITOR = new URL("../vendor/codemirror/editor.js", document.currentScript.src).href;

  const CHANGED = "This exercise has changed since you began it. Your code is as you left it.";
  const ASIDE = "Your code has been put aside. ";
  const ELSEWHERE = "You changed this exercise in another tab, too, so what you had typed here has been put aside. ";

  let editorScript = null; // a promise of whether the editor could be loaded
  function loadEditor() {
    editorScript ??= new Promise((resolve) => {
      const script = h("script", { src: EDITOR, onload: () => resolve(true), onerror: () => resolve(false) });
      document.head.append(script);
    });
    return editorScript;
  }

  class Field {
    #name;
    #field; // the field, until the editor has taken its place
    #editor = null;
    #aside = null; // code that was put aside
    #from; // the stub that the code began from
    #isMine = false; // whether the reader has typed here what is in the field, and not in another tab
    #isFollowing = false;
    #note = h("p", { class: "practice-note", role: "status" });
    #restarted;
    /** `enter()` is called if the reader presses Control and Enter, and `restarted()` if they have started over. */
    constructor(place, name, { enter, restarted }) {
      this.#name = name;
      this.#restarted = restarted;
      this.#field = place.querySelector("textarea");
      this.stub = this.#field.defaultValue;
      place.querySelector(".practice-buttons").before(this.#note);
      place.querySelector("[data-do=restart]").addEventListener("click", () => this.#restart());
      // Before the editor sees the key, which would begin a new line.
      const isEnter = ({ key, ctrlKey, metaKey, shiftKey }) => key === "Enter" && (ctrlKey || metaKey || shiftKey);
      const entered = (event) => {
        if (!isEnter(event) || event.isComposing || event.target.closest("button, a")) return;
        event.preventDefault();
        event.stopPropagation();
        enter();
      };
      place.addEventListener("keydown", entered, { capture: true });
      // On a page, plain keys are shortcuts: "/" leads to the search. In the editor they are letters.
      const isPlain = ({ ctrlKey, altKey, metaKey }) => !ctrlKey && !altKey && !metaKey;
      place.addEventListener("keydown", (event) => isPlain(event) && event.stopPropagation());
      this.#recall();
      addEventListener("storage", ({ key }) => key === kept.keyOf(`code: ${name}`) && this.#follow());
      addEventListener("pageshow", ({ persisted }) => persisted && this.#follow());
      this.#field.addEventListener("input", () => this.#typed(this.#field.value));
      this.#field.addEventListener("pointerdown", loadEditor);
      this.#field.addEventListener("focus", () => this.#edit());
    }

    get code() {
      return this.#editor ? this.#editor.text() : this.#field.value;
    }

    focus() {
      (this.#editor ?? this.#field).focus();
    }

    /** Puts the reader's code aside, if there is any, and other code in its place. */
    replace(code) {
      const now = this.code;
      if (now !== this.stub && now !== code) this.#aside = now;
      this.#from = this.stub;
      this.#write(code);
      this.#offerAside();
    }

    #write(code) {
      if (this.#editor) this.#editor.replace(code); // tells of the change itself
      else this.#field.value = code;
      this.#typed(code);
    }

    #typed(code) {
      if (this.#isFollowing) return; // the other tab keeps it, and may have gone on
      this.#isMine = true;
      this.#keep(code);
    }

    #keep(code) {
      kept.type(this.#name, { stub: this.#from, code, ...(this.#aside !== null && { aside: this.#aside }) });
    }

    /** Shows what was typed here before. */
    #recall() {
      const { stub, code, aside } = kept.typed(this.#name) ?? { stub: this.stub, code: this.stub };
      this.#from = stub;
      this.#aside = aside ?? null;
      if (code !== this.stub) this.#field.value = code;
      if (stub !== this.stub && code !== stub) this.#offerNewStub();
      else if (stub !== this.stub) this.#begin(); // nothing was written
      else this.#offerAside();
    }

    /** Shows what was typed in another tab, and puts aside what was typed here since: all tabs keep one and the same text. */
    #follow() {
      const typed = kept.typed(this.#name);
      if (!typed) return;
      const { stub, code, aside } = typed;
      const now = this.code;
      const isLost = this.#isMine && code !== now && ![this.stub, aside].includes(now);
      this.#aside = isLost ? now : (aside ?? null);
      this.#from = stub;
      this.#isFollowing = true;
      if (code !== now) this.#write(code);
      this.#isFollowing = this.#isMine = false;
      if (isLost) this.#keep(code);
      this.#offerAside(isLost ? ELSEWHERE : ASIDE);
    }

    #begin() {
      this.#from = this.stub;
      this.#write(this.stub);
    }

    #restart() {
      this.replace(this.stub);
      this.#restarted();
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

    #offerAside(words = ASIDE) {
      if (this.#aside === null) return this.#note.replaceChildren();
      const back = button("Bring it back", () => {
        const now = this.code;
        const code = this.#aside;
        this.#aside = now === this.stub ? null : now;
        this.#write(code);
        this.#offerAside();
        this.focus();
      });
      return this.#note.replaceChildren(words, back);
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
  }

  Object.assign(window.glassformerPractice, { Field });
})();
