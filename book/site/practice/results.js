/* Below a row of buttons: what Python is doing, what it printed, and what it answered. */
(() => {
  "use strict";
  const { kept, h, button, block, draw } = window.glassformerPractice;

  const SOON = 400; // milliseconds: what takes longer can be stopped
  const WAITING = "Python is busy with another exercise. This one is next.";
  const STARTING = "Python is starting …";
  const RUNNING = "Python is running …";
  const DONE = "Your code ran and printed nothing.";
  const megabytes = (bytes) => (bytes / 1e6).toFixed(1);
  const loading = (total) =>
    `Python (${megabytes(total)} MB) is being loaded from this site. This happens once; then your browser keeps it.`;

  class Results {
    #python;
    #request;
    #home; // where the focus goes if what has it is taken away
    #isBusy = false;
    #round = 0; // counts how often this was cleared: what belongs to an earlier round is not shown
    #hint = null;
    #line = h("p", { class: "practice-says", role: "status" });
    #work = h("div", { class: "practice-work", hidden: "" });
    #output = h("div", { class: "practice-output" });
    #answer = h("div", { class: "practice-answer", "aria-live": "polite" });
    /** `request(what)` returns what Python is asked for; it is called when Python is ready for it. */
    constructor(place, python, request) {
      this.#python = python;
      this.#request = request;
      this.#home = place.querySelector("[data-do]");
      place.append(this.#line, this.#work, this.#output, this.#answer);
    }

    says(words) {
      this.#line.textContent = words;
    }

    show(...panels) {
      this.#answer.append(...panels.map(draw));
    }

    /** Shows a hint below what is there, in the place of the hint before. */
    suggest(panel) {
      this.#hint?.remove();
      this.#hint = draw(panel);
      this.#answer.append(this.#hint);
    }

    offer(words, ...buttons) {
      this.#answer.append(h("p", { class: "practice-offer" }, words, buttons.map((each) => [" ", each])));
    }

    clear() {
      this.#round++;
      this.says("");
      for (const box of [this.#output, this.#answer]) this.#empty(box);
    }

    #empty(box) {
      if (box.contains(document.activeElement)) this.#home.focus();
      box.replaceChildren();
    }

    /** Asks Python and shows its answer, which is returned, or null if there is none. */
    async ask(what) {
      if (this.#isBusy) return null;
      this.#isBusy = true;
      this.clear();
      const round = this.#round;
      const isCurrent = () => round === this.#round;
      if (this.#python.isBusy) this.says(WAITING);
      let soon;
      const worksSoon = (words) => {
        clearTimeout(soon);
        soon = setTimeout(() => this.#works(words), SOON);
      };
      const watch = {
        begins: () => worksSoon(STARTING),
        loading: (loaded, total) => {
          clearTimeout(soon);
          this.#loads(loaded, total);
        },
        ready: () => {
          this.says("");
          this.#rests();
          worksSoon(RUNNING);
        },
        told: (message) => isCurrent() && this.#hear(message),
      };
      try {
        let answer, sent;
        const make = () => {
          const made = this.#request(what);
          sent = made.request.files;
          return made;
        };
        do {
          this.#empty(this.#output);
          answer = await this.#python.ask(make, watch);
        } while (!kept.take(answer.files, sent) && !answer.isLate); // the answer to files that another tab has changed is old
        if (isCurrent()) this.#answered(answer, what);
        return answer;
      } catch (error) {
        if (isCurrent()) this.#fail(error);
        return null;
      } finally {
        clearTimeout(soon);
        this.#rests();
        this.#isBusy = false;
      }
    }

    #fail({ message, details, stack }) {
      this.says("");
      this.#answer.append(draw({ headline: [{ text: message }], code: details ?? stack }));
    }

    #answered({ panels }, what) {
      this.says("");
      this.show(...panels);
      if (what.do === "try" && !panels.length && !this.#output.hasChildNodes()) this.says(DONE);
    }

    #hear({ says, text }) {
      if (!["output", "error", "value"].includes(says)) return;
      const last = this.#output.lastElementChild;
      if (says === "output" && last?.dataset.says === "output") {
        last.firstChild.append(text); // print after print is one text
        return;
      }
      const printed = block(text);
      printed.dataset.says = says;
      printed.setAttribute("aria-label", says === "error" ? "The error" : says === "value" ? "The value" : "Printed");
      this.#output.append(printed);
    }

    // --- while it takes long -------------------------------------------------------------------------------

    #works(words, bar = []) {
      if (!this.#work.hasChildNodes()) this.#work.append(h("span"), button("Stop", () => this.#python.stop()));
      this.#work.hidden = false;
      const [said] = this.#work.children;
      if (said.textContent !== words) said.replaceChildren(words, ...bar);
    }

    #loads(loaded, total) {
      if (loaded >= total) return this.#works(STARTING);
      if (this.#line.textContent !== loading(total)) this.says(loading(total));
      const bar = h("progress", { max: total, value: loaded, "aria-label": "How much of Python is loaded" });
      return this.#works(`${megabytes(loaded)} of ${megabytes(total)} MB `, [bar]);
    }

    #rests() {
      this.#empty(this.#work);
      this.#work.hidden = true;
    }
  }

  Object.assign(window.glassformerPractice, { Results });
})();
