// A model that a view uses: its stored results, its weights when they are needed, and the texts that it reads step by step.

import { h, setAll, uniqueId } from "../kit/kit.js";
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

// A tokenizer of characters: the ids of a text, the characters that it does not know, and a sentence about these, or "".
export function alphabet(characters) {
  const known = [...characters];
  const ids = new Map(known.map((character, id) => [character, id]));
  const unknown = (text) => [...new Set([...text].filter((character) => !ids.has(character)))];
  return {
    known,
    ids: (text) => [...text].map((character) => ids.get(character)),
    unknown,
    complaint(text) {
      const strange = unknown(text).map(named).join(", ");
      return strange && `The model has never met ${strange}: it knows ${known.length} characters.`;
    },
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

// --- reading ----------------------------------------------------------------------------------------------------------

const SLICE = 6; // milliseconds of work before the page gets a turn

const channel = new MessageChannel();
const resumed = [];
channel.port1.addEventListener("message", () => resumed.shift()());
channel.port1.start();
const pause = () =>
  new Promise((resume) => {
    resumed.push(resume);
    channel.port2.postMessage(0);
  });

// Run a generator that pauses, such as the `steps` of a Transformer, in slices. Returns its result, or undefined if it is no
// longer needed when its turn comes.
export async function inSlices(steps, wanted = () => true) {
  let began = performance.now();
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
    if (performance.now() - began < SLICE) continue;
    await pause();
    if (!wanted()) return undefined;
    began = performance.now();
  }
}

// What a decoder has read: ids, and for each position the result of `look` on its trace. If a text begins like the last one,
// only the rest is read, because no position depends on later ones.
export class Reading {
  constructor(transformer, look) {
    this.transformer = transformer;
    this.look = look;
    this.cache = transformer.newCache();
    this.ids = [];
    this.positions = [];
    this.turn = 0;
  }

  // Read ids, one position at a time, and call `progress` after every slice. Returns whether all of them were read: another
  // call may have started meanwhile.
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

// --- a text in a view -------------------------------------------------------------------------------------------------

// A field for the reader's text, and the model that reads it. The stored results are enough until the reader wants something
// else. Then the weights are requested, and the text is read from its first character that differs.
//   view                   the frame, which is marked as busy while the text is read
//   label, longest         of the field
//   seen(text)             the part of the text that the model gets, at most its context
//   look                   as in Reading
//   also                   other traits that change what is needed
//   isStored()             whether the stored results are what is needed
//   show(reading, characters)    called when some positions of these characters have been read
//   told()                 called when the result of `words` has changed
// Returns the field's control; words(), which says what the view is waiting for or why it fails, or ""; start() and stop().
export function textReader(model, { view, label, longest, seen, look, also = [], isStored, show, told }) {
  const { ids, complaint } = alphabet(model.get("_characters"));
  const names = ["text", ...also];
  let [reading, busy, trouble, latest] = [null, false, "", null];
  const working = (is) => {
    busy = is;
    view.busy("text", is);
  };

  const field = h("textarea", { rows: 2, maxlength: longest, spellcheck: "false", id: uniqueId() });
  field.addEventListener("input", () => {
    trouble = complaint(field.value);
    if (field.value && !trouble) setAll(model, { text: field.value });
    told();
  });
  const control = h("div", { class: "gf-control gf-text" }, h("label", { class: "gf-label", for: field.id }, label), field);

  async function follow() {
    const text = model.get("text");
    if (field.value !== text) field.value = text;
    const wanted = JSON.stringify(names.map((name) => model.get(name)));
    if (wanted === latest) return told();
    [latest, trouble] = [wanted, ""];
    working(reading !== null || !isStored());
    told();
    if (!busy) return;
    try {
      const transformer = await loadModel(model);
      if (wanted !== latest) return;
      reading ??= new Reading(transformer, look);
      const characters = [...seen(text)];
      const update = () => show(reading, characters);
      if (!(await reading.read(ids(characters.join("")), update))) return;
      busy = false;
      update();
      working(false);
    } catch (error) {
      if (wanted !== latest) return;
      [latest, trouble] = [null, `The model did not come: ${error.message}.`];
      working(false);
      told();
    }
  }

  function words() {
    if (trouble || !busy) return trouble;
    const [read, all] = [reading?.positions.length, [...seen(model.get("text"))].length];
    if (reading === null) return "The model is on its way …";
    return read < all ? `Reading: ${read} of ${all} characters …` : "";
  }

  return {
    control,
    words,
    start() {
      for (const name of names) model.on(`change:${name}`, follow);
      follow();
    },
    stop() {
      for (const name of names) model.off(`change:${name}`, follow);
    },
  };
}
