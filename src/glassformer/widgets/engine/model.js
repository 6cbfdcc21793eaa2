// A model that a view uses: its characters, and its stored results.

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

// A character or a token in visible form.
export const visible = (token) => token.replaceAll(" ", "␣").replaceAll("\n", "⏎");

// What a character that cannot be seen is called, everywhere in the book.
export const NAMES = { " ": "space", "\n": "line break", "\t": "tab", "\u00a0": "non-breaking space" };

// A character or a token as it is named in a sentence.
export const named = (token) => (NAMES[token] ? `a ${NAMES[token]}` : `“${visible(token)}”`);

// --- stored results ---------------------------------------------------------------------------------------------------

// An array that `packed` in model.py wrote: { shape, data }.
export function unpacked({ shape, largest, numbers }) {
  const bytes = Int8Array.from(atob(numbers), (character) => character.charCodeAt(0));
  return { shape, data: Float32Array.from(bytes, (number) => (number * largest) / 127) };
}
