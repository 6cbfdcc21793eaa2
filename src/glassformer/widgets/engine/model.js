// A model in a view's hands: what it is at once, its weights when they are needed, and a text that it reads piece by piece.

import { h, setAll, uniqueId } from "../kit/kit.js";
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

// Another of the book's models beside it, by its name: its configuration is a trait of the view.
export const loadOther = (view, name, config) =>
  once(view, `weights of ${name}`, (file) => new Transformer(config, readTensors(file)));

// What is known of it besides, in JSON: `what` is "neurons".
export const loadBeside = (view, what) => once(view, what, (file) => JSON.parse(new TextDecoder().decode(file)));

// --- characters -------------------------------------------------------------------------------------------------------

// The states of a decoder's stream in a trace: before the first block, and after each.
export const streamsOf = (seen) =>
  seen.filter(({ name }) => name === "stream").flatMap(({ array }, i) => (i % 2 ? [] : [array]));

// A tokenizer of characters: ids of a text, which characters it does not know, and these in words, or "".
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

// Have done what pauses, such as the `steps` of a Transformer, in slices: its result, or undefined where it is not wanted any
// more when its turn comes.
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

// --- a text in a view's hands -----------------------------------------------------------------------------------------

// A field for the reader's text, and the model that reads it. What came with the view is enough until something else is
// wanted: then the weights are asked for, and the text is read, from its first character that differs.
//   label, longest         of the field
//   seen(text)             what of the text the model is given, at most its context
//   look                   as in Reading
//   also                   traits that, beside the text, change what is wanted
//   isStored()             what came with the view is what is wanted
//   show(reading, characters)    so many positions of these characters are read
//   told()                 what `words` says has changed
// Gives the field's control; words(), what hinders the view or is under way, or ""; start() and stop().
export function textReader(model, { label, longest, seen, look, also = [], isStored, show, told }) {
  const { ids, complaint } = alphabet(model.get("_characters"));
  const names = ["text", ...also];
  let [reading, busy, trouble, latest] = [null, false, "", null];

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
    [latest, trouble, busy] = [wanted, "", reading !== null || !isStored()];
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
    } catch (error) {
      if (wanted !== latest) return;
      [busy, latest, trouble] = [false, null, `The model did not come: ${error.message}.`];
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
