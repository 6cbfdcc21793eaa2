// The tour through the glass machine: what it points at, and what it says there. Every number and every token comes from
// the drawing, so the sentences are true of any text and any model.
import { percent } from "../kit/kit.js";

const listed = (words) => (words.length > 1 ? `${words.slice(0, -1).join(", ")} and ${words.at(-1)}` : words[0]);

// Facts at one position:
//   L, D, F     blocks, numbers in a vector, neurons
//   one         what a token is called: UNITS has the words
//   here        the token, as it is named in a sentence
//   head        [block, head] of the head that looks one back most
//   looks       what this head attends to most: { at, back, share }
//   guesses     the likeliest next token before the first block and after each
// Returns the steps, [{ part, says }, …].
export function tour({ L, D, F, one, here, head, looks, guesses }) {
  const place = looks.back === 0 ? "itself" : `${looks.at}, ${looks.back === 1 ? "one" : looks.back} back`;
  const found = guesses.slice(1);
  const isSame = found.every((next) => next === found[0]);
  const next = guesses[L];
  return [
    {
      part: "stream 0",
      says: `This stripe is one ${one}’s vector: ${D} numbers, made from those the model has learned for ${here}.`,
    },
    {
      part: "stream 1",
      says: "Each block adds something to the stripe and never replaces it; this running sum is called the stream.",
    },
    {
      part: `head ${head.join(" ")}`,
      says: `This is a head: it looks back at the text, and at ${here} it gives ${percent(looks.share)} of its attention to ${place}.`,
    },
    {
      part: `feedforward ${head[0]}`,
      says: `The feed-forward network works on each ${one} alone: its ${F} neurons read the stripe of ${here} and add to it.`,
    },
    {
      part: `guess ${L - 1}`,
      says: isSame
        ? `The guess at the next ${one} can change on its way down; here it is ${next} after every block.`
        : `The guess at the next ${one} changes on its way down: block by block it is ${listed(found)}.`,
    },
    {
      part: `guess ${L}`,
      says: `After the last block the guess is ${next}; the temperature decides how often the model writes something else.`,
    },
  ];
}
