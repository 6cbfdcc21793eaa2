// The reader's own model, which every view of the page can show instead of the book's.
//
//   offer({ name, config, characters, tensors, facts })   makes a model available to all views of the page
//   download(bytes, name)     lets the reader save a file
//   takesOwn(render, traits)  the `render` of a view that can show it. Under the view is a line in which the reader opens a
//                             model and chooses between the two. The view is then drawn anew. It sees other traits, those
//                             which `traits({ config, characters, text, stored })` gives, among them `_stored`: what is there
//                             before the model has read anything. `stored` is that of the book's model. A Refusal says why the
//                             view cannot show a model. The notebook's own traits stay as they are for the book's model.
//
// The model is a file (model_file.js). This page keeps it in memory and, where the browser allows it, in IndexedDB, so that it is
// there on the other pages of the book. It never leaves the reader's machine.

import { button, h, uniqueId, write } from "../kit/kit.js";
import { ENDING, Refusal, opened, written } from "./model_file.js";
import { readOf } from "./text_field.js";

// --- the model of the page --------------------------------------------------------------------------------------------

// All copies of this module share it: { model: { name, blob, key } or null; listeners; count; recalled }.
const page = (globalThis[Symbol.for("glassformer.own")] ??= { model: null, listeners: new Set(), count: 0, recalled: null });

function become(given) {
  page.count += 1;
  page.model = given && { ...given, key: `own ${page.count}` };
  for (const listener of new Set(page.listeners)) listener();
}

function take(given) {
  become(given);
  kept("readwrite", (shelf) => shelf.put({ name: given.name, blob: given.blob }, KEY)).catch(() => {}); // then it lives as long as the page
}

export function offer({ name, config, characters, tensors, facts }) {
  take({ name, blob: new Blob([written({ config, tokenizer: { characters }, tensors, facts })]) });
}

// From the files that the reader has chosen.
async function open(files) {
  offer(await opened(files));
}

function forget() {
  become(null);
  kept("readwrite", (shelf) => shelf.delete(KEY)).catch(() => {});
}

// Its configuration and characters, the bytes of its file, and how many numbers it has. They are made once for all views.
function partsOf(model) {
  model.parts ??= (async () => {
    const bytes = await model.blob.arrayBuffer();
    const file = { name: `${model.name}${ENDING}`, size: bytes.byteLength, arrayBuffer: async () => bytes };
    const { config, characters, tensors } = await opened([file]);
    return { config, characters, bytes, size: Object.values(tensors).reduce((sum, { data }) => sum + data.length, 0) };
  })();
  return model.parts;
}

// --- what the browser keeps ---------------------------------------------------------------------------------------------

const [DATABASE, SHELF, KEY] = ["glassformer", "own model", "model"];

function promised(request, prepare) {
  return new Promise((resolve, reject) => {
    request.addEventListener("upgradeneeded", () => prepare(request.result));
    request.addEventListener("success", () => resolve(request.result));
    for (const kind of ["error", "blocked"]) request.addEventListener(kind, () => reject(request.error));
  });
}

async function kept(mode, act) {
  const database = await promised(indexedDB.open(DATABASE, 1), (made) => made.createObjectStore(SHELF));
  try {
    return await promised(act(database.transaction(SHELF, mode).objectStore(SHELF)));
  } finally {
    database.close();
  }
}

// What the reader opened on another page, or before this one was loaded again.
function recall() {
  page.recalled ??= kept("readonly", (shelf) => shelf.get(KEY)).then(
    (found) => found?.blob instanceof Blob && !page.model && become({ name: String(found.name), blob: found.blob }),
    () => {}, // a browser that keeps nothing
  );
}

// --- files ------------------------------------------------------------------------------------------------------------

export function download(bytes, name) {
  const url = URL.createObjectURL(new Blob([bytes], { type: "application/octet-stream" }));
  const link = h("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 60_000); // some browsers begin to read it late
}

const MOST_FILES = 500; // of a folder

// The files that were dropped, those in folders included.
async function droppedIn(data) {
  const entries = [...data.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.some(({ isDirectory }) => isDirectory)) return [...data.files];
  const files = [];
  const visit = async (entry) => {
    if (files.length >= MOST_FILES) return;
    if (entry.isFile) {
      const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
      Object.defineProperty(file, "webkitRelativePath", { value: entry.fullPath.slice(1) });
      files.push(file);
      return;
    }
    const reader = entry.createReader();
    for (;;) {
      const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject)); // a hundred at a time
      if (!some.length) return;
      for (const one of some) await visit(one);
    }
  };
  for (const entry of entries) await visit(entry);
  return files;
}

// --- a view's traits while it shows the reader's model ------------------------------------------------------------------

class OwnTraits {
  #notebook;
  #own;
  #bytes;
  #listeners = new Map(); // event -> Set of callbacks
  constructor(notebook, own, bytes) {
    [this.#notebook, this.#own, this.#bytes] = [notebook, new Map(Object.entries(own)), bytes];
  }
  get(name) {
    return this.#own.has(name) ? this.#own.get(name) : this.#notebook.get(name);
  }
  set(name, value) {
    if (this.get(name) === value) return;
    this.#own.set(name, value);
    this.#tell(`change:${name}`);
  }
  save_changes() {}
  on(event, callback) {
    if (!this.#listeners.has(event)) this.#listeners.set(event, new Set());
    this.#listeners.get(event).add(callback);
  }
  off(event, callback) {
    this.#listeners.get(event)?.delete(callback);
  }
  // As a kernel or the page answers for the book's models (weights.js).
  async send({ ask }) {
    if (ask === "weights") this.#tell("msg:custom", { answer: ask }, [new DataView(this.#bytes)]);
    else this.#tell("msg:custom", { answer: ask, problem: "This is known of the book’s model only.", final: true });
  }
  #tell(event, ...what) {
    for (const callback of new Set(this.#listeners.get(event))) callback(...what);
  }
}

function traitsOf(notebook, { name, key }, { config, characters, bytes }, traits) {
  const text = readOf(notebook.get("text"), characters);
  const own = { model: name, text, typed: "", _own: name, _config: config, _characters: characters, _digest: key };
  return new OwnTraits(notebook, { ...own, ...traits({ config, characters, text, stored: notebook.get("_stored") }) }, bytes);
}

// --- the line under a view --------------------------------------------------------------------------------------------

const PRIVATE = "The file stays on your machine; nothing is sent.";
const HOW = `Open a .safetensors file that this book has saved, or all files of a folder made by glassformer train. ${PRIVATE}`;
const hasFolders = () => "webkitdirectory" in HTMLInputElement.prototype && !matchMedia("(pointer: coarse)").matches;

const counted = (n, one) => `${n.toLocaleString("en-US")} ${one}${n === 1 ? "" : "s"}`;
function described(name, { config, size }) {
  const { n_layers, n_heads, vocab_size } = config;
  return `This view shows ${name}: ${counted(n_layers, "block")} of ${counted(n_heads, "head")}, ${counted(vocab_size, "character")}, ${counted(size, "parameter")}.`;
}

// The line, and the panel that it opens. `choose(isOwn)` changes the view, `tryFiles(files)` opens files.
function lineOf({ choose, tryFiles }) {
  const name = uniqueId();
  const radio = () => h("input", { type: "radio", name, onchange: ({ target }) => choose(target === own) });
  const [book, own] = [radio(), radio()];
  const ownName = h("span");
  const both = h(
    "fieldset",
    { class: "gf-control gf-choice" },
    h("legend", { class: "gf-label" }, "This view shows"),
    h("div", { class: "gf-options" }, h("label", {}, book, h("span", {}, "the book’s model")), h("label", {}, own, ownName)),
  );
  const said = h("p", { class: "gf-own-said", role: "status" });
  const input = (attrs) =>
    h("input", {
      type: "file",
      hidden: true,
      ...attrs,
      onchange: ({ target }) => {
        const files = [...target.files];
        target.value = ""; // the same files may be chosen again
        if (files.length) tryFiles(files);
      },
    });
  const [files, folder] = [input({ multiple: true, "aria-label": "Files of a model" }), input({ webkitdirectory: true, "aria-label": "The folder of a model" })];
  const saved = button("Save a copy of my model", () => page.model && download(page.model.blob, `${page.model.name}${ENDING}`));
  const forgotten = button("Forget my model", () => {
    forget();
    opener.focus();
    write(said, "This browser no longer keeps your model.");
  });
  const opener = button("Open your own model …", () => files.click());
  const panel = h(
    "div",
    { class: "gf-own-panel" },
    both,
    h("div", { class: "gf-buttons" }, opener, hasFolders() && button("Open a folder …", () => folder.click()), saved, forgotten, files, folder),
    said,
    h("p", { class: "gf-own-how" }, HOW),
  );
  const summary = h("summary", {}, "");
  const element = h("details", { class: "gf-own" }, summary, panel);
  return {
    element,
    says: (text) => write(said, text),
    show(isOwn) {
      const { model } = page;
      write(summary, isOwn && model ? `Model: ${model.name}` : "Model: the book’s");
      both.hidden = saved.hidden = forgotten.hidden = !model;
      write(ownName, model?.name ?? "");
      [book.checked, own.checked] = [!isOwn, isOwn];
    },
  };
}

export function takesOwn(render, traits) {
  return ({ model, el }) => {
    let stop = () => {};
    let shown = null; // the reader's model that the view shows
    let turn = 0;
    const line = lineOf({ choose: (isOwn) => show(isOwn ? page.model : null), tryFiles });

    // Draws the view, with the line next to "Show the numbers".
    function draw(given) {
      const focused = line.element.contains(document.activeElement) ? document.activeElement : null;
      if (line.element.isConnected) el.style.minHeight = `${el.offsetHeight}px`; // until the view is drawn anew, the page below stays
      stop();
      stop = render({ model: given, el });
      const details = el.querySelector(".gf-details");
      const foot = h("div", { class: "gf-foot" });
      details.replaceWith(foot);
      foot.append(details, line.element);
      focused?.focus({ preventScroll: true });
      const release = () => (el.querySelector(".gf-drawing[aria-busy]") ? setTimeout(release, 100) : el.style.removeProperty("min-height"));
      requestAnimationFrame(release);
      line.show(shown !== null);
    }

    async function show(wanted) {
      const mine = ++turn;
      if (!wanted) {
        shown = null;
        line.says("");
        return draw(model);
      }
      line.says("Opening …");
      try {
        const parts = await partsOf(wanted);
        if (mine !== turn) return;
        shown = wanted;
        draw(traitsOf(model, wanted, parts, traits));
        line.says(described(wanted.name, parts));
      } catch (error) {
        if (mine !== turn) return;
        shown = null;
        draw(model);
        line.says(sentenceOf(error));
      }
    }

    async function tryFiles(files) {
      line.element.open = true;
      line.says("Opening …");
      try {
        await open(files);
        await show(page.model);
      } catch (error) {
        line.says(sentenceOf(error));
      }
    }

    // The page has another model, or none.
    function follow() {
      if (shown && shown !== page.model) show(page.model);
      else line.show(shown !== null);
    }

    const drags = (event) => {
      if (![...event.dataTransfer.types].includes("Files")) return;
      event.preventDefault();
      el.firstChild.classList.toggle("gf-own-over", event.type === "dragover");
      if (event.type === "drop") droppedIn(event.dataTransfer).then(tryFiles, (error) => line.says(sentenceOf(error)));
    };
    const kinds = ["dragover", "dragleave", "drop"];
    for (const kind of kinds) el.addEventListener(kind, drags);
    page.listeners.add(follow);
    draw(model);
    recall();
    return () => {
      turn++;
      page.listeners.delete(follow);
      for (const kind of kinds) el.removeEventListener(kind, drags);
      stop();
    };
  };
}

const sentenceOf = (error) =>
  error instanceof Refusal ? `${error.message.replace(/[.]$/, "")}.` : `This file could not be opened: ${error.message}.`;
