// How a view gets a model's weights, tells the reader how far they are, and lets the reader try again.
//
//   const weights = weightsFor(model, { view, told, again });
//       model            the view's model, as given to `render`
//       view             its frame from kit.js. A button "Load the model again" appears under its line after a failure. A view
//                        without a frame puts `weights.retry` where it belongs.
//       told()           called whenever the result of `words` has changed: draw the line again
//       again()          called when something that had failed has arrived after all: do again what needed it
//   await weights.model()              the view's model, as a Transformer
//   await weights.other(name, config, title)  another of the book's models, called `title` in sentences
//   await weights.beside(what)         other facts about the model, from JSON: `what` is "neurons"
//   await weights.file(what, title, make)   what `make` makes of another file (a DataView), called `title` in sentences
//   weights.words()      what this view is waiting for ("Loading the model: 0.6 of 1.6 MB."), or ""
//   weights.state()      the first of these that this view has asked for and does not have yet, as below
//   weights.stop()       when the view is removed
//   reasonOf(error)       a sentence for the line, if one of the three rejects, or if the model fails later on
//
// The three may be called as often as one likes: all views of a page share what has arrived, and nothing is loaded twice.
// They start loading if nothing has started yet, and start anew after a failure. While bytes may still arrive, only the reader
// gives up what is under way, by pressing the button.
//
//   stateOf(model, what = "weights")   where the file stands, for any view:
//       { is: "idle" }                        nobody has asked for it
//       { is: "loading", received, total }    in bytes; received is null until there is an answer, total null if unknown
//       { is: "ready" }
//       { is: "failed", why, retry }          a sentence, and a function that starts anew, or null if that cannot help. It
//                                             becomes "loading" or "ready" by itself if an answer comes late.
//
// Whoever is behind the view answers its message { ask: what }: a kernel (model.py) or the page (book/site/widget-host.js).
// { ask: what, anew: true } means: start again, even if it is under way. The answers, as "msg:custom":
//   { answer: what, received, total }    so much has arrived at the page; also a sign that somebody is there
//   { answer: what, problem, final }     a sentence; final: there is no use in trying again
//   { answer: what } and one buffer      the file

import { button, h, write } from "../kit/kit.js";
import { inSlices } from "./reading.js";
import { NotFinite, Transformer, tensorSteps } from "./transformer.js";

const PATIENCE = 10_000; // milliseconds without a sign of life after which the reader is told so; we go on waiting

// --- loading ----------------------------------------------------------------------------------------------------------

class Failure extends Error {} // whose message is a sentence for the reader

// A sentence about anything that was thrown.
export const reasonOf = (error) =>
  error instanceof Failure || error instanceof NotFinite ? error.message : `The model stopped because of an error in this view: ${error.message}.`;

const capital = (words) => words[0].toUpperCase() + words.slice(1);

const TITLES = { weights: "the model", neurons: "the table of neurons" };

// One file, and what is made from it. All views that need it share it.
class Load {
  state = { is: "idle" };
  listeners = new Set();
  #make;
  #what;
  #title;
  #isOver = false; // the latest has failed for good: nothing of it is under way
  #attempt = null; // the latest: { views, asked: the function that hears the answer of each, arrives, resolve, reject }
  constructor(what, make, title) {
    this.#what = what;
    this.#make = make;
    this.#title = title;
  }

  get title() {
    return this.#title ?? TITLES[this.#what] ?? "the second model";
  }

  // What is made from the file.
  get(view) {
    if (this.state.is === "idle" || this.state.is === "failed") this.begin(view, this.#isOver);
    else if (this.state.is === "loading") this.#attempt.views.add(view);
    return this.#attempt.arrives;
  }

  begin(view, anew) {
    this.#end();
    this.#isOver = false;
    this.#attempt = { views: new Set([view]), asked: new Map(), ...promised() };
    this.#become({ is: "loading", received: null, total: null });
    this.#ask(view, anew);
  }

  #become(state) {
    this.state = state;
    for (const listener of new Set(this.listeners)) listener(this);
  }

  #end() {
    clearTimeout(this.timer);
    for (const [view, hear] of this.#attempt?.asked ?? []) view.off("msg:custom", hear);
  }

  #ask(view, anew) {
    if (view.hasNoKernel?.()) return this.#fail(this.#notRun, { final: true });
    const hear = (message, buffers) => message.answer === this.#what && this.#hear(message, buffers);
    this.#attempt.asked.set(view, hear);
    view.on("msg:custom", hear);
    this.#wait();
    this.#send(view, anew ? { ask: this.#what, anew } : { ask: this.#what });
  }

  async #send(view, message) {
    const attempt = this.#attempt;
    try {
      await view.send(message);
    } catch {
      if (attempt === this.#attempt) this.#fail(this.#silence); // of JupyterLab, when its kernel is gone
    }
  }

  get #notRun() {
    return `This cell has not been run since the kernel was started. Select it and press Shift+Enter to load ${this.title}.`;
  }

  get #silence() {
    const wait = `If the kernel is busy, ${this.title} comes as soon as it is free.`;
    return `No kernel responds. Run this cell in JupyterLab to load ${this.title}. ${wait}`;
  }

  #wait() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#late(), PATIENCE);
  }

  // A view from a file may have no kernel without knowing it, but one that was displayed since may have one.
  #late() {
    const { views, asked } = this.#attempt;
    const { received } = this.state;
    const other = [...views].find((view) => !asked.has(view) && !view.hasNoKernel?.());
    if (received === null && other) return this.#ask(other, false);
    const arrived = received ? `${amountOf(this.state)} have arrived, but nothing in the last` : "nothing has arrived for";
    const stalled = `${capital(this.title)} is loading slowly: ${arrived} ${PATIENCE / 1000} seconds. You can wait or try again.`;
    this.#fail(received === null ? this.#silence : stalled, { isOver: false });
  }

  async #hear({ received, total, problem, final }, buffers) {
    if (problem) return this.#fail(final ? problem : `${capital(this.title)} could not be loaded. ${problem}`, { final });
    const isLate = this.state.is === "failed";
    if (isLate) Object.assign(this.#attempt, promised());
    if (received !== undefined) {
      this.#wait();
      return this.#become({ is: "loading", received, total: total ?? null });
    }
    if (isLate) this.#become({ is: "loading", received: buffers[0].byteLength, total: buffers[0].byteLength });
    const attempt = this.#attempt;
    this.#end();
    try {
      const made = await this.#make(buffers[0]);
      if (attempt !== this.#attempt) return;
      attempt.resolve(made);
      this.#become({ is: "ready" });
    } catch (error) {
      if (attempt === this.#attempt) this.#fail(`${capital(this.title)} has arrived, but there is a problem: ${error.message}.`);
    }
  }

  #fail(why, { final = false, isOver = true } = {}) {
    if (isOver) this.#end();
    this.#isOver = isOver;
    this.#attempt.reject(new Failure(why));
    const [view] = [...this.#attempt.views].slice(-1);
    this.#become({ is: "failed", why, retry: final ? null : () => this.begin(view, true) });
  }
}

function promised() {
  const found = {};
  found.arrives = new Promise((resolve, reject) => Object.assign(found, { resolve, reject }));
  found.arrives.catch(() => {}); // the state tells of it, too
  return found;
}

const loads = new Map(); // by name and checksum of the weights, for all views

function loadOf(view, what, make, title) {
  const key = `${what} ${view.get("_digest")}`;
  if (!loads.has(key)) loads.set(key, new Load(what, make, title));
  return loads.get(key);
}

const transformerOf = (config) => async (file) => new Transformer(config, await inSlices(tensorSteps(file)));
const modelOf = (view) => loadOf(view, "weights", transformerOf(view.get("_config")));
const otherOf = (view, name, config, title) => loadOf(view, `weights of ${name}`, transformerOf(config), title);
const besideOf = (view, what) => loadOf(view, what, (file) => JSON.parse(new TextDecoder().decode(file)));

export const stateOf = (view, what = "weights") => loads.get(`${what} ${view.get("_digest")}`)?.state ?? { is: "idle" };

globalThis.addEventListener?.("online", () => {
  for (const { state } of loads.values()) state.retry?.();
});

// --- words ------------------------------------------------------------------------------------------------------------

const megabytes = (bytes) => (bytes / 1e6).toFixed(1);
const amountOf = ({ received, total }) => `${megabytes(received)}${total === null ? "" : ` of ${megabytes(total)}`} MB`;

function progressOf({ title, state }) {
  if (state.received === null) return `Waiting for ${title} …`;
  if (state.received === 0 && state.total === null) return `Loading ${title} …`;
  return `Loading ${title}: ${amountOf(state)}${state.total === null ? " so far" : ""}.`;
}

// --- in a view --------------------------------------------------------------------------------------------------------

const QUARTERS = 4; // of the file: as often is the progress read aloud

export function weightsFor(model, { view, told = () => {}, again = () => {} }) {
  const wanted = new Set();
  const missed = new Set(); // those that have failed since this view got something
  const missing = () => [...wanted].find(({ state }) => state.is !== "ready");
  const words = () => {
    const load = missing();
    return load?.state.is === "loading" ? progressOf(load) : "";
  };

  const press = () => {
    for (const load of wanted) if (load.state.retry) load.begin(model, true);
  };
  const retry = h("p", { class: "gf-retry", hidden: true }, button("", press));
  view?.line.after(retry);

  let [said, heard] = ["", ""];
  function hear(load) {
    const { is, received, total } = load.state;
    if (is === "failed") missed.add(load);
    const failed = [...wanted].find(({ state }) => state.is === "failed" && state.retry);
    const trying = [...missed].some(({ state }) => state.is === "loading");
    if (failed) write(retry.firstChild, `Load ${failed.title} again`);
    const had = retry.contains(document.activeElement);
    retry.hidden = !failed && !trying; // while it is being tried, the button stays, and with it the focus
    retry.firstChild.setAttribute("aria-disabled", String(!failed));
    if (had && retry.hidden && view) {
      view.root.tabIndex = -1;
      view.root.focus({ preventScroll: true });
    }
    if (words() !== said || is !== "loading") {
      said = words();
      // The line shows every tenth of a megabyte, but it is read aloud a few times only.
      const quarter = Math.floor((QUARTERS * received) / total) || 0;
      const part = is === "loading" ? `${load.title} ${quarter}` : "";
      view?.hush(part !== "" && part === heard);
      heard = part;
      told();
    }
    if (is === "ready" && missed.delete(load)) again();
  }
  function want(load) {
    if (!wanted.has(load)) {
      wanted.add(load);
      load.listeners.add(hear);
    }
    return load.get(model);
  }

  return {
    model: () => want(modelOf(model)),
    other: (name, config, title) => want(otherOf(model, name, config, title)),
    beside: (what) => want(besideOf(model, what)),
    file: (what, title, make) => want(loadOf(model, what, make, title)),
    words,
    state: () => missing()?.state ?? { is: wanted.size ? "ready" : "idle" },
    retry,
    stop() {
      for (const { listeners } of wanted) listeners.delete(hear);
    },
  };
}
