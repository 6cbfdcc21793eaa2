// The tokens that two real vocabularies make of the reader's text. See real_tokens.py.
import { legible, utf8 } from "../../widgets/kit/bytes.js";
import { button, frame, grouped, h, hold, put, redrawing, setAll, toggle, uniqueId } from "../../widgets/kit/kit.js";
import { tokenizerFrom } from "../../widgets/engine/tokenizers.js";
import { reasonOf, weightsFor } from "../../widgets/engine/weights.js";

export { tokenizerFrom };

const LONGEST = 1000; // characters, as in real_tokens.py

// --- tokens ---------------------------------------------------------------------------------------------------------

// A text as tokens { id, bytes, isSpecial } of a vocabulary of gpt-tokenizer. With isRecognised, strings such as
// <|endoftext|> become the special tokens that they name, if the vocabulary has them; otherwise they are text.
// (The library's own option for this recognises only the first special token of a vocabulary with several.)
export function cut({ encode, specialTokensEncoder: special, bytePairEncodingCoreProcessor: core }, text, isRecognised) {
  const plain = (part) =>
    encode(part, { disallowedSpecial: new Set() }).map((id) => {
      const piece = core.bytePairRankDecoder[id]; // a string, or the bytes of what is not a string
      return { id, bytes: typeof piece === "string" ? utf8(piece) : Uint8Array.from(piece), isSpecial: false };
    });
  if (!isRecognised) return plain(text);
  return text.split(/(<\|[a-z_]+\|>)/).flatMap((part) => {
    const id = special.get(part);
    return id === undefined ? plain(part) : [{ id, bytes: utf8(part), isSpecial: true }];
  });
}

// The same tokens from what is stored of an example: [[id, number of bytes, whether it is special], …].
export function stored(text, rows) {
  const bytes = utf8(text);
  let end = 0;
  return rows.map(([id, length, isSpecial]) => ({ id, bytes: bytes.slice(end, (end += length)), isSpecial: Boolean(isSpecial) }));
}

// --- words ----------------------------------------------------------------------------------------------------------

const many = (count, what) => `${grouped(count)} ${what}${count === 1 ? "" : "s"}`;
const quoted = ({ bytes }) => `“${legible(bytes)}”`;

const isCharacters = ({ bytes }) => {
  try {
    return Boolean(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    return false;
  }
};

// What there is to say about one token.
export function about(token, name) {
  const { id, bytes, isSpecial } = token;
  if (isSpecial) return `In ${name}, ${quoted(token)} is a single special token with the id ${grouped(id)}. Only a program inserts it; without recognition, the same characters are cut like any other text.`;
  const what = isCharacters(token)
    ? many([...new TextDecoder().decode(bytes)].length, "character")
    : `${many(bytes.length, "byte")}, which are only a part of a character`;
  return `${name} sees ${quoted(token)} as the single number ${grouped(id)}. The token holds ${what}.`;
}

// How long a text is, as each vocabulary cuts it.
export function lengths(text, cuts) {
  if (!text) return "Type a text, or choose one of the examples.";
  const counts = cuts.map(({ name, tokens }) => `${many(tokens.length, "token")} for ${name}`);
  return `Your text has ${many([...text].length, "character")}. That makes ${counts.join(" and ")}.`;
}

// --- the view -------------------------------------------------------------------------------------------------------

function render({ model, el }) {
  const view = frame(el, {
    title: "How real models cut your text",
    hint:
      "Type anything: a name, a long number, another language, an emoji. Each box is one token. A number such as ‹f0› is a single " +
      "byte: the token holds only a part of a character, so there is no letter to show.",
  });
  const vocabularies = model.get("_vocabularies");
  const examples = model.get("_examples");
  const loaded = new Map(); // name of a vocabulary -> its tokenizer
  let trouble = "";
  let loading = false;
  const files = weightsFor(model, { view, told: () => ask(), again: () => load() });
  let pointed = null; // { vocabulary, place } of the token that is pointed at
  let pointer = {}; // where the pointer last was over a box

  // --- controls ---

  const field = h("textarea", { rows: 2, maxlength: LONGEST, spellcheck: "false", autocomplete: "off", id: uniqueId() });
  field.addEventListener("input", () => setAll(model, { text: field.value }));
  view.controls.append(
    h("div", { class: "gf-control gf-text" }, h("label", { class: "gf-label", for: field.id }, "Your text"), field),
    toggle(model, "special", { label: "Recognise special tokens, such as <|endoftext|>" }),
    h(
      "div",
      { class: "gf-buttons gf-examples", role: "group", "aria-label": "Examples" },
      examples.map(({ label, text, special }) => button(label, () => setAll(model, { text, special }))),
    ),
  );

  // --- the drawing ---

  put(view.drawing, { role: "group" });
  const rows = vocabularies.map(({ name, title, size }, vocabulary) => {
    const count = h("strong", {});
    const pieces = h("div", { class: "gf-pieces", role: "group", "aria-label": `The tokens of ${name}` });
    const all = pieces.children;
    const point = (place) => {
      if (place < 0 || place >= all.length || (pointed?.vocabulary === vocabulary && pointed.place === place)) return;
      pointed = { vocabulary, place };
      ask();
    };
    // Boxes that are drawn anew under a resting pointer are not pointed at; browsers tell of them, but the pointer has not moved.
    pieces.addEventListener("pointermove", ({ target, clientX, clientY }) => {
      const hasMoved = clientX !== pointer.x || clientY !== pointer.y;
      pointer = { x: clientX, y: clientY };
      if (hasMoved) point([...all].indexOf(target));
    });
    for (const event of ["click", "focusin"]) pieces.addEventListener(event, ({ target }) => point([...all].indexOf(target)));
    pieces.addEventListener("keydown", (event) => {
      const at = [...all].indexOf(document.activeElement);
      const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: all.length - 1 }[event.key];
      if (to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      all[to]?.focus();
    });
    const heading = h("p", { class: "gf-panel-title" }, `${title}, ${size}: `, count);
    view.drawing.append(h("section", { class: "gf-vocabulary" }, heading, pieces));
    return { count, pieces };
  });

  // --- what is known ---

  const example = () => examples.find(({ text, special }) => text === model.get("text") && special === model.get("special"));

  // The tokens in each vocabulary; null while there is no tokenizer for them.
  function tokensOf(name) {
    const kept = example()?.cuts[name];
    if (kept) return stored(model.get("text"), kept);
    if (model.get("text") === "") return [];
    return loaded.has(name) ? cut(loaded.get(name), model.get("text"), model.get("special")) : null;
  }

  async function load() {
    loading = true;
    trouble = "";
    view.busy("tokenizers", true);
    try {
      for (const { name, file } of vocabularies) {
        const make = (bytes) => tokenizerFrom(new TextDecoder().decode(bytes), file);
        loaded.set(name, await files.file(`tokenizer ${file}`, `the vocabulary of ${name}`, make));
      }
    } catch (error) {
      trouble = `${reasonOf(error)} The examples work without it.`;
    }
    loading = false;
    view.busy("tokenizers", false);
    ask();
  }

  function draw() {
    const text = model.get("text");
    if (field.value !== text) field.value = text;
    const cuts = vocabularies.map(({ name }) => ({ name, tokens: tokensOf(name) }));
    const isKnown = cuts.every(({ tokens }) => tokens);
    if (!isKnown && !loading && !trouble) load();
    cuts.forEach(({ tokens }, i) => {
      const { count, pieces } = rows[i];
      hold(count, [tokens?.length], () => (tokens ? many(tokens.length, "token") : "…"));
      const key = tokens?.map(({ id }) => id) ?? [];
      hold(pieces, [text, ...key], () => (tokens ?? []).map((token) => box(token)));
      [...pieces.children].forEach((piece, place) => {
        const isPointed = pointed?.vocabulary === i && pointed.place === place;
        put(piece, { tabindex: place === (pointed?.vocabulary === i ? pointed.place : 0) ? 0 : -1 });
        piece.classList.toggle("gf-chosen", isPointed);
      });
    });
    const chosen = pointed && cuts[pointed.vocabulary].tokens?.[pointed.place];
    view.says(
      trouble ||
        (!isKnown ? files.words() || "The two vocabularies are being loaded …" : chosen ? about(chosen, cuts[pointed.vocabulary].name) : lengths(text, cuts)),
    );
    view.describe(() => (isKnown ? lengths(text, cuts) : "The two vocabularies are being loaded."));
    view.tables(() =>
      cuts.map(({ name, tokens }) => ({
        caption: `The tokens of ${name}`,
        headers: ["Place", "Token", "Id", "Bytes"],
        rows: () => (tokens ?? []).map((token, place) => [place, legible(token.bytes), token.id, token.bytes.length]),
      })),
    );
  }

  const { ask, stop } = redrawing(model, ["text", "special"], draw);
  const changed = () => {
    pointed = null;
    if (trouble && !example()) trouble = ""; // try again
  };
  for (const name of ["text", "special"]) model.on(`change:${name}`, changed);
  return () => {
    for (const name of ["text", "special"]) model.off(`change:${name}`, changed);
    files.stop();
    stop();
  };
}

function box(token) {
  const kind = token.isSpecial ? " gf-special" : isCharacters(token) ? "" : " gf-fragment";
  return h("button", { type: "button", class: `gf-piece gf-token${kind}`, "aria-label": `${legible(token.bytes)}, id ${token.id}` }, legible(token.bytes));
}

export default { render };
