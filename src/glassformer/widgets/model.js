// A model in a view's hands: what it is at once, its weights when they are needed, and a text that it reads piece by piece.

import { Transformer, readTensors } from "./transformer.js";

const PATIENCE = 20_000; // milliseconds, after which nobody is taken to answer

// --- weights ----------------------------------------------------------------------------------------------------------

const asked = new Map(); // what has come or is on its way, by its name and the checksum of the weights, for all views

// Ask whoever is behind the view, its kernel or the page, for "weights" or what else lies beside the model.
function askFor(view, what) {
  return new Promise((resolve, reject) => {
    const late = () => finish(reject, new Error("no kernel answers: run the cell again, and the model comes"));
    const timer = setTimeout(late, PATIENCE);
    const finish = (settle, result) => {
      clearTimeout(timer);
      view.off("msg:custom", hear);
      settle(result);
    };
    const hear = (message, buffers) => {
      if (message.answer !== what) return;
      if (message.problem) finish(reject, new Error(message.problem));
      else finish(resolve, buffers[0]);
    };
    view.on("msg:custom", hear);
    view.send({ ask: what });
  });
}

// What is made of such a file. It comes once, and again only if that failed.
function once(view, what, make) {
  const key = `${what} ${view.get("_digest")}`;
  if (!asked.has(key)) {
    const coming = askFor(view, what).then(make);
    coming.catch(() => asked.delete(key));
    asked.set(key, coming);
  }
  return asked.get(key);
}

// The view's model, as a Transformer.
export const loadModel = (view) =>
  once(view, "weights", (file) => new Transformer(view.get("_config"), readTensors(file)));

// What is known of it besides, in JSON: `what` is "neurons".
export const loadBeside = (view, what) => once(view, what, (file) => JSON.parse(new TextDecoder().decode(file)));

// --- characters -------------------------------------------------------------------------------------------------------

// A tokenizer of characters: ids of a text, and which characters it does not know.
export function alphabet(characters) {
  const known = [...characters];
  const ids = new Map(known.map((character, id) => [character, id]));
  return {
    known,
    ids: (text) => [...text].map((character) => ids.get(character)),
    unknown: (text) => [...new Set([...text].filter((character) => !ids.has(character)))],
  };
}

// A character as it can be seen.
export const visible = (character) => ({ " ": "␣", "\n": "⏎" })[character] ?? character;

// As it is said in a sentence.
export const named = (character) => ({ " ": "a blank", "\n": "a new line" })[character] ?? `“${character}”`;

// --- stored results ---------------------------------------------------------------------------------------------------

// An array that `packed` of model.py wrote: { shape, data }.
export function unpacked({ shape, largest, numbers }) {
  const bytes = Int8Array.from(atob(numbers), (character) => character.charCodeAt(0));
  return { shape, data: Float32Array.from(bytes, (number) => (number * largest) / 127) };
}

// --- reading ----------------------------------------------------------------------------------------------------------

const SLICE = 6; // milliseconds of work, after which the page may do what it has to do

const channel = new MessageChannel();
const resumed = [];
channel.port1.addEventListener("message", () => resumed.shift()());
channel.port1.start();
const pause = () =>
  new Promise((resume) => {
    resumed.push(resume);
    channel.port2.postMessage(0);
  });

// What a decoder has read: ids, and for each position what `look` made of its trace. A text that begins as the last one did
// is read on from there, since no position sees those after it.
export class Reading {
  constructor(transformer, look) {
    this.transformer = transformer;
    this.look = look;
    this.cache = transformer.newCache();
    this.ids = [];
    this.positions = [];
    this.turn = 0;
  }

  // Read ids, a position at a time, and tell `progress` after every slice. Whether they were read to the end: another call
  // may have come in between.
  async read(ids, progress) {
    const turn = ++this.turn;
    const differs = this.ids.findIndex((id, t) => id !== ids[t]);
    this.#forget(differs < 0 ? this.ids.length : differs);
    let began = performance.now();
    while (this.ids.length < ids.length) {
      this.#next(ids[this.ids.length]);
      if (performance.now() - began < SLICE) continue;
      progress?.();
      await pause();
      if (turn !== this.turn) return false;
      began = performance.now();
    }
    return true;
  }

  #forget(from) {
    this.cache.length = from;
    this.ids.length = this.positions.length = from;
  }

  #next(id) {
    const seen = [];
    this.transformer.forward([id], { cache: this.cache, see: (one) => seen.push(one) });
    this.positions.push(this.look(seen, this.transformer));
    this.ids.push(id);
  }
}
