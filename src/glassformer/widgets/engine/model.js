// A model that a view uses: its weights when they are needed, its characters, and its stored results.

import { Transformer, readTensors } from "./transformer.js";

const PATIENCE = 20_000; // milliseconds without a reply after which we assume that there is no kernel

// --- weights ----------------------------------------------------------------------------------------------------------

const asked = new Map(); // what has arrived or is on its way, by name and checksum of the weights, for all views

// Ask the kernel or the page for "weights" or another file of the model.
function askFor(view, what) {
  return new Promise((resolve, reject) => {
    const late = () => finish(reject, new Error("no kernel responds: run the cell again to load the model"));
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

// What is made from such a file. It is loaded once, and again only after a failure.
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

// Another of the book's models, by name; its configuration is a trait of the view.
export const loadOther = (view, name, config) =>
  once(view, `weights of ${name}`, (file) => new Transformer(config, readTensors(file)));

// Other facts about the model, in JSON: `what` is "neurons".
export const loadBeside = (view, what) => once(view, what, (file) => JSON.parse(new TextDecoder().decode(file)));

// --- characters -------------------------------------------------------------------------------------------------------

// The states of a decoder's stream in a trace: before the first block, and after each.
export const streamsOf = (seen) =>
  seen.filter(({ name }) => name === "stream").flatMap(({ array }, i) => (i % 2 ? [] : [array]));

// A tokenizer of characters: all that it knows, and the ids of a text.
export function alphabet(characters) {
  const known = [...characters];
  const ids = new Map(known.map((character, id) => [character, id]));
  return {
    known,
    ids: (text) => [...text].map((character) => ids.get(character)),
  };
}

// A character in visible form.
export const visible = (character) => ({ " ": "␣", "\n": "⏎" })[character] ?? character;

// A character as it is named in a sentence.
export const named = (character) => ({ " ": "a blank", "\n": "a new line" })[character] ?? `“${character}”`;

// --- stored results ---------------------------------------------------------------------------------------------------

// An array that `packed` in model.py wrote: { shape, data }.
export function unpacked({ shape, largest, numbers }) {
  const bytes = Int8Array.from(atob(numbers), (character) => character.charCodeAt(0));
  return { shape, data: Float32Array.from(bytes, (number) => (number * largest) / 127) };
}
