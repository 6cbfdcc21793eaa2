// A field for the reader's own text, which is never changed, cut or deleted. What the model does not know is marked where it
// is, and the model skips it. What the model has written is shaded.
//
// Two traits hold the state: `typed` is what the reader wrote, and `text` is what the model reads of it, at least one
// character. So a position in a drawing is a position in `text`.
import { h, once, put, setAll, uniqueId, whole } from "../kit/kit.js";
import { NAMES, named } from "./model.js";

const NAMED = 5; // unknown characters that the sentence names

// --- what the model knows of a text -----------------------------------------------------------------------------------

// What the reader sees as one character, for example a letter with its accent or an emoji made of several parts.
const asSeen = globalThis.Intl?.Segmenter && new Intl.Segmenter("en", { granularity: "grapheme" });
const seenIn = (text) => (asSeen ? Array.from(asSeen.segment(text), ({ segment }) => segment) : [...text]);

// A text as runs that the model knows entirely or not at all: [{ text, known }, …]. A letter with an accent that the model does
// not know counts as unknown as a whole.
export function runs(text, characters) {
  const all = new Set(characters);
  const isKnown = (part) => [...part].every((character) => all.has(character));
  if (text === "" || isKnown(text)) return text ? [{ text, known: true }] : [];
  const found = [];
  for (const part of seenIn(text)) {
    const known = isKnown(part);
    if (found.at(-1)?.known === known) found.at(-1).text += part;
    else found.push({ text: part, known });
  }
  return found;
}

// What the model begins with if there is nothing to read: a line break, as at the beginning of a play.
export const startOf = (characters) => (characters.includes("\n") ? "\n" : [...characters][0]);

export const knownIn = (text, characters) =>
  runs(text, characters)
    .filter(({ known }) => known)
    .map((run) => run.text)
    .join("");

// What the model reads of a text: the characters that it knows or, if there are none, the one that it begins with.
export const readOf = (text, characters) => knownIn(text, characters) || startOf(characters);

// The text in the field when the model has written `more`: the reader's own text is kept.
export const continued = (text, more, characters) =>
  text + (knownIn(text, characters) ? "" : startOf(characters)) + more;

// --- whose text it is ---------------------------------------------------------------------------------------------------

// Where the model's parts of a text, [[from, to], …], are when the reader has changed `before` to `after` in one place.
export function kept(parts, before, after) {
  let from = 0;
  while (from < Math.min(before.length, after.length) && before[from] === after[from]) from++;
  let end = 0;
  const most = Math.min(before.length, after.length) - from;
  while (end < most && before.at(-1 - end) === after.at(-1 - end)) end++;
  const [to, moved] = [before.length - end, after.length - before.length];
  return parts
    .flatMap(([a, b]) => [[a, Math.min(b, from)], [Math.max(a, to) + moved, b + moved]])
    .filter(([a, b]) => a < b);
}

// A text as runs that differ in whether they are known or in who wrote them: [{ text, known, written }, …].
function marksOf(text, characters, written) {
  const ends = [];
  let at = 0;
  const all = runs(text, characters).map((run) => ({ ...run, to: (at += run.text.length) }));
  ends.push(...all.map(({ to }) => to), ...written.flat());
  const cuts = [...new Set(ends)].filter((end) => end > 0 && end <= text.length).sort((a, b) => a - b);
  return cuts.map((to, i) => {
    const from = i ? cuts[i - 1] : 0;
    return {
      text: text.slice(from, to),
      known: all.find((run) => to <= run.to).known,
      written: written.some(([a, b]) => a <= from && to <= b),
    };
  });
}

// --- words ------------------------------------------------------------------------------------------------------------

const PLAIN = /^[\p{L}\p{N}\p{Extended_Pictographic}\p{Regional_Indicator}]/u;

// An unknown character in a sentence. What cannot be seen is named by its number.
function spelled(character) {
  if (NAMES[character]) return named(character);
  if (/^[\p{C}\p{Z}]+$/u.test(character)) return `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
  return PLAIN.test(character) ? character : `“${character}”`;
}

// What the sentence under the field says of a text, as a list of strings; every second one is a character.
export function remark(text, characters) {
  const start = startOf(characters);
  const begins = start === "\n" ? "starts from a line break, as at the beginning of a play" : `starts from ${spelled(start)}`;
  if (text === "") return [`Your text is empty, so the model ${begins}.`];
  const unknown = runs(text, characters).filter(({ known }) => !known);
  if (!unknown.length) return [];
  const strange = [...new Set(unknown.flatMap((run) => seenIn(run.text)).map((character) => character.normalize()))];
  const end = knownIn(text, characters) ? "" : ` With nothing left to read, it ${begins}.`;
  const shown = strange.slice(0, strange.length > NAMED + 1 ? NAMED : NAMED + 1).map(spelled);
  const others = strange.length - shown.length;
  const said = ["The model has never seen "];
  shown.forEach((character, i) => {
    const isLast = i === shown.length - 1;
    said.push(character, isLast ? "" : !others && i === shown.length - 2 ? " or " : ", ");
  });
  if (others) said[said.length - 1] = ` or ${others} other characters in your text`;
  said[said.length - 1] += `, so it skips ${strange.length === 1 ? "it" : "them"}.${end}`;
  return said;
}

// --- the field --------------------------------------------------------------------------------------------------------

// Options:
//   label, rows        of the field
//   fit(text)          the part of the known characters that the view can use, if not all: the field keeps the rest
//   changes(text)      other traits that change with the reader's text
//   adds()             a sentence that the view adds to the one under the field, or ""
// Returns the control; the field itself; shown(), the text in the field; append(more), when the model has written; and
// takeBack(count), which removes the last characters, as many as the model knows; follow(), which shows what the traits say now;
// start() and stop().
export function textField(model, { label, rows = 2, fit = (text) => text, changes = () => ({}), adds = () => "" }) {
  const characters = model.get("_characters");
  const reads = (typed) => fit(readOf(typed, characters));
  const shown = () => (reads(model.get("typed")) === model.get("text") ? model.get("typed") : model.get("text"));

  const [fieldId, noteId] = [uniqueId(), uniqueId()];
  const field = h("textarea", {
    rows,
    id: fieldId,
    class: "gf-own-field",
    style: `--rows: ${rows}`,
    dir: "auto",
    spellcheck: "false",
    autocomplete: "off",
    autocapitalize: "off",
    "aria-describedby": noteId,
  });
  const marks = h("div", { class: "gf-own-marks", dir: "auto" }); // the same text, of which only the marks can be seen
  const glass = h("div", { class: "gf-own-glass", "aria-hidden": "true" }, marks);
  const note = h("p", { class: "gf-own-note", id: noteId, "aria-live": "polite" });
  const box = h("div", { class: "gf-own-box" }, field, glass);
  const control = h("div", { class: "gf-control gf-text" }, h("label", { class: "gf-label", for: fieldId }, label), box, note);

  // The glass lies exactly on the part of the field that shows text, whatever takes room in it.
  function align() {
    const { offsetLeft, offsetTop, clientLeft, clientTop, clientWidth, clientHeight } = field;
    put(glass, {
      style: `left: ${offsetLeft + clientLeft}px; top: ${offsetTop + clientTop}px; width: ${clientWidth}px; height: ${clientHeight}px`,
    });
    put(marks, { style: `transform: translateY(${-field.scrollTop}px)` });
  }

  let written = []; // the parts of the text that the model wrote: [from, to] each
  let marked = ""; // the text that has its marks
  let isMarked = false;
  function mark() {
    const text = field.value;
    if (marked !== text || !isMarked) {
      if (marked !== text) written = kept(written, marked, text);
      [marked, isMarked] = [text, true];
      const parts = marksOf(text, characters, written);
      const isPlain = parts.every(({ known, written: isWritten }) => known && !isWritten);
      const style = (run) => [run.known ? "" : "gf-unknown", run.written ? "gf-by-model" : ""].join(" ").trim();
      marks.replaceChildren(...(isPlain ? [] : parts.map((run) => h("span", { class: style(run) }, run.text))));
    }
    const said = remark(text, characters);
    const added = [written.length ? "The model wrote the shaded part." : "", adds()].filter(Boolean).join(" ");
    const words = said.join("") + (said.length && added ? " " : "") + added;
    if (note.textContent !== words) {
      note.replaceChildren(...said.map((part, i) => (i % 2 ? h("bdi", {}, part) : part)), said.length && added ? " " : "", added);
    }
    align();
  }

  function type(typed) {
    const text = reads(typed);
    setAll(model, { typed, ...changes(text), text });
  }
  function follow() {
    if (whole(field.value) !== shown()) field.value = shown();
    mark();
  }
  const soon = once(follow); // the two traits change one after the other
  field.addEventListener("input", () => {
    type(whole(field.value));
    mark();
  });
  field.addEventListener("scroll", align);
  const resizes = new ResizeObserver(align);
  follow();

  return {
    control,
    field,
    shown,
    follow,
    append(more) {
      const before = shown();
      type(continued(before, more, characters));
      follow();
      // If nobody has written in between, the model's last part becomes longer.
      const part = written.at(-1)?.[1] === before.length ? written.pop() : [before.length];
      written.push([part[0], field.value.length]);
      isMarked = false;
      mark();
      field.scrollTop = field.scrollHeight; // the end is where it writes
    },
    takeBack(count = 1) {
      const all = [...shown()];
      const known = () => [...knownIn(all.join(""), characters)].length;
      const [had, last] = [known(), all.pop()];
      if (last === undefined) return;
      if (known() < had) while (all.length && known() > had - count) all.pop();
      type(all.join(""));
    },
    start() {
      for (const name of ["typed", "text"]) model.on(`change:${name}`, soon);
      resizes.observe(field);
    },
    stop() {
      for (const name of ["typed", "text"]) model.off(`change:${name}`, soon);
      resizes.disconnect();
    },
  };
}
