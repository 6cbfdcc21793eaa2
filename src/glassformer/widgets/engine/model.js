// A model that a view uses: its characters, its stored results, and the text that it reads.

import { h, setAll, uniqueId } from "../kit/kit.js";
import { Reading } from "./reading.js";
import { reasonOf, weightsFor } from "./weights.js";

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
  const weights = weightsFor(model, { view, told, again: () => follow() });
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
      const transformer = await weights.model();
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
      [latest, trouble] = [null, reasonOf(error)];
      working(false);
      told();
    }
  }

  function words() {
    const waits = (busy || trouble) && weights.words();
    if (waits || trouble || !busy) return waits || trouble;
    const [read, all] = [reading?.positions.length, [...seen(model.get("text"))].length];
    if (reading === null) return "";
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
      weights.stop();
    },
  };
}
