// How a text becomes byte pairs, as the tokenizers library and GPT-2 do it. A token is written with one letter for each byte, as
// in the library's files, so that any bytes are a string that can be a key; `spelled` makes it legible again.
import { legible, utf8 } from "../kit/bytes.js";

// --- bytes and words ------------------------------------------------------------------------------------------------

// Printable bytes represent themselves, the others are letters from U+0100 on.
const printing = (byte) => (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
let more = 256;
export const LETTERS = Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(printing(byte) ? byte : more++));
const BYTES = new Map(LETTERS.map((letter, byte) => [letter, byte]));

// Splits a text into words, each with the space before it; merges never cross word boundaries. The pattern is GPT-2's, with
// Unicode's white space, because JavaScript's \s is slightly different.
const WORDS =
  /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+/gu;
const inLetters = (word) => Array.from(utf8(word), (byte) => LETTERS[byte]);
export const wordsOf = (text) => (text.match(WORDS) ?? []).map(inLetters);

const bytesOf = (token) => Uint8Array.from(token, (letter) => BYTES.get(letter));

// A token in readable form, and the text that it is; bytes that make no character become U+FFFD.
export const spelled = (token) => legible(bytesOf(token));
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
const textOf = (token) => decoder.decode(bytesOf(token));

// --- merging ----------------------------------------------------------------------------------------------------------

// The ranks of merges, a list of pairs: of a pair that occurs twice, the first.
export const ranksOf = (pairs) => new Map(pairs.map((pair, rank) => [pair.join(" "), rank]).reverse());

// The tokens of a word: the pair that was learned first is merged first and, of several such pairs, the leftmost.
export function merged(word, ranks) {
  const symbols = [...word];
  for (;;) {
    let [best, at] = [Infinity, -1];
    for (let i = 0; i + 1 < symbols.length; i++) {
      const rank = ranks.get(`${symbols[i]} ${symbols[i + 1]}`);
      if (rank < best) [best, at] = [rank, i];
    }
    if (at < 0) return symbols;
    symbols.splice(at, 2, symbols[at] + symbols[at + 1]);
  }
}

// --- a tokenizer ------------------------------------------------------------------------------------------------------

// A tokenizer from the library's file, parsed: the text of each id, and the ids of a text.
export function bytePairs({ model: { vocab, merges } }) {
  const known = [];
  for (const [token, id] of Object.entries(vocab)) known[id] = textOf(token);
  const ranks = ranksOf(merges);
  const met = new Map(); // word -> its ids: most words of a text occur again when one more letter is typed
  function idsOf(word) {
    const key = word.join("");
    if (!met.has(key)) met.set(key, merged(word, ranks).map((token) => vocab[token]));
    return met.get(key);
  }
  return { known, ids: (text) => wordsOf(text).flatMap(idsOf) };
}
