// The reader's own model, which the views of a page can show instead of the book's: all of them, or none.
//
//   offer({ name, config, characters, tensors, facts })   makes a model that of the page, and its views show it. Returns
//                             { views, kept, isKept }: how many views that is; a promise of whether the browser keeps the model,
//                             "" or the reason why not; and a function that says whether it still does
//   download(bytes, name)     lets the reader save a file
//   takesOwn(render, traits)  the `render` of a view that can show it. Under the view is a line in which the reader opens a
//                             model and chooses between the two. The view is then drawn anew. It sees other traits, those
//                             which `traits({ config, characters, text, stored })` gives, among them `_stored`: what is there
//                             before the model has read anything. `stored` is that of the book's model. A Refusal says why the
//                             view cannot show a model. The notebook's own traits stay as they are for the book's model.
//
// The model is a file (model_file.js). This page keeps it in memory and, where the browser allows it, in IndexedDB, so that it is
// there on the other pages of the book. It never leaves the reader's machine.

import { button, h, plural, risky, uniqueId, write } from "../kit/kit.js";
import { ENDING, Refusal, opened, shown as spelled, written } from "./model_file.js";
import { readOf } from "./text_field.js";

// --- the model of the page --------------------------------------------------------------------------------------------

// All copies of this module share it: the model, { name, blob, id, key } or null, whether the views show it, and the id of the
// model that the browser keeps, as far as this page knows.
const page = (globalThis[Symbol.for("glassformer.own")] ??= { model: null, isShown: false, keeps: null, tabs: null, listeners: new Set(), count: 0, recalled: null });

function showAll(isShown) {
  page.isShown = isShown;
  for (const listener of new Set(page.listeners)) listener();
}

function become(given, isShown) {
  page.count += 1;
  page.model = given && { ...given, name: spelled(given.name) || YOURS, key: `own ${page.count}` };
  showAll(isShown);
}

const YOURS = "your model"; // without a name

export function offer({ name, config, characters, tensors, facts }) {
  const blob = new Blob([written({ config, tokenizer: { characters }, tensors, facts })]);
  const id = crypto.getRandomValues(new Uint32Array(4)).join(" ");
  become({ name, blob, id }, true);
  const { model } = page;
  const kept = stored("readwrite", (shelf) => shelf.put({ name: model.name, blob, id }, KEY)).then(() => keeps(id), reasonOf);
  return { views: page.listeners.size, kept, isKept: () => page.keeps === id };
}

// From the files that the reader has chosen.
const open = async (files) => offer(await opened(files)).kept;

const FORGOTTEN = ["This browser no longer keeps your model."];

// Another tab may have opened a model since, which the browser keeps instead: that one stays. Returns what to tell the reader.
async function forget() {
  const { id } = page.model;
  become(null, false);
  try {
    const found = await stored("readwrite", (shelf) => {
      const asked = shelf.get(KEY);
      asked.addEventListener("success", () => asked.result?.id === id && shelf.delete(KEY));
      return asked;
    });
    if (found && found.id !== id) return ["This page has forgotten it. Your browser still keeps ", nameOf(spelled(found.name)), ", which you have opened in another tab."];
    keeps(null);
    return FORGOTTEN;
  } catch (error) {
    if (page.keeps === id) return [`This page has forgotten it, but your browser may still keep it: ${reasonOf(error)}.`];
    return FORGOTTEN;
  }
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
const PATIENCE = 10_000; // milliseconds in which the browser must answer

function promised(request, prepare) {
  return new Promise((resolve, reject) => {
    request.addEventListener("upgradeneeded", () => prepare(request.result));
    request.addEventListener("success", () => resolve(request.result));
    request.addEventListener("error", () => reject(request.error));
    request.addEventListener("blocked", reject);
  });
}

async function database() {
  const opening = (version) =>
    promised(indexedDB.open(DATABASE, version), (made) => made.objectStoreNames.contains(SHELF) || made.createObjectStore(SHELF));
  const found = await opening();
  if (found.objectStoreNames.contains(SHELF)) return found;
  found.close();
  return opening(found.version + 1);
}

// What `act` asks of the shelf, once the browser has carried it out.
async function carriedOut(mode, act) {
  const found = await database();
  try {
    const transaction = found.transaction(SHELF, mode);
    const request = act(transaction.objectStore(SHELF));
    await new Promise((resolve, reject) => {
      transaction.addEventListener("complete", resolve);
      transaction.addEventListener("abort", () => reject(transaction.error));
    });
    return request.result;
  } finally {
    found.close();
  }
}

function stored(mode, act) {
  let timer;
  const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new DOMException("", "TimeoutError")), PATIENCE)));
  return Promise.race([carriedOut(mode, act), late]).finally(() => clearTimeout(timer));
}

const reasonOf = (error) =>
  ({ QuotaExceededError: "its storage is full", TimeoutError: "its storage does not answer" })[error?.name] ??
  "it gives this page no storage";

// The tabs that have changed what the browser keeps tell each other.
function keeps(id) {
  page.keeps = id;
  try {
    page.tabs ??= Object.assign(new BroadcastChannel("glassformer own model"), { onmessage: ({ data }) => (page.keeps = data) });
    page.tabs.postMessage(id);
  } catch {
    // a browser whose tabs cannot
  }
  return "";
}

// What the reader opened on another page, or before this one was loaded again.
function recall() {
  page.recalled ??= stored("readonly", (shelf) => shelf.get(KEY)).then(
    (found) => {
      if (page.model || !(found?.blob instanceof Blob) || typeof found.name !== "string") return;
      page.keeps = found.id;
      become(found, false);
    },
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
const SURE = "It cannot be brought back. Save a copy first if you have none, or press “Forget it for good”.";
const hasFolders = () => "webkitdirectory" in HTMLInputElement.prototype && !matchMedia("(pointer: coarse)").matches;

const nameOf = (name) => h("bdi", {}, name); // which may be in another script
function described(name, { config, size }) {
  const { n_layers, n_heads, vocab_size } = config;
  return ["This view shows ", nameOf(name), `: ${plural(n_layers, "block")} of ${plural(n_heads, "head")}, ${plural(vocab_size, "character")}, ${plural(size, "parameter")}.`];
}

const yours = (name) => (name === YOURS ? ["Model: yours"] : ["Model: yours, ", nameOf(name)]);

// The line, and the panel that it opens. `tryFiles(files)` opens files. `base` is the name of the reader's model that Python has
// given to the view instead of the book's, or "".
function lineOf({ tryFiles, base }) {
  const name = uniqueId();
  const radio = () => h("input", { type: "radio", name, onchange: ({ target }) => showAll(target === own) });
  const [book, own] = [radio(), radio()];
  const ownName = h("bdi");
  const both = h(
    "fieldset",
    { class: "gf-control gf-choice" },
    h("legend", { class: "gf-label" }, "The views of this page show"),
    h("div", { class: "gf-options" }, h("label", {}, book, h("span", {}, base ? nameOf(base) : "the book’s model")), h("label", {}, own, ownName)),
  );
  const said = h("p", { class: "gf-own-said", role: "status" });
  const lost = h("p", { role: "status" }); // why the browser does not keep it
  const says = (...parts) => {
    said.replaceChildren(...parts);
    write(lost, "");
  };
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
  let warning = ""; // what `lost` said before
  const forgotten = risky(
    "Forget my model",
    "Forget it for good",
    async () => {
      const told = forget();
      opener.focus();
      says(...(await told));
    },
    {
      asks(is) {
        if (is) warning = lost.textContent;
        write(lost, is ? SURE : warning);
      },
    },
  );
  const opener = button("Open your own model …", () => files.click());
  const panel = h(
    "div",
    { class: "gf-own-panel" },
    both,
    h("div", { class: "gf-buttons" }, opener, hasFolders() && button("Open a folder …", () => folder.click()), saved, forgotten, files, folder),
    said,
    lost,
    h("p", { class: "gf-own-how" }, HOW),
  );
  const summary = h("summary", {}, "");
  const element = h("details", { class: "gf-own" }, summary, panel);
  return {
    element,
    says,
    warns: (text) => write(lost, text),
    show(isOwn) {
      const { model } = page;
      if (isOwn && model) summary.replaceChildren(...yours(model.name));
      else if (base) summary.replaceChildren(...yours(base), model ? "; the one that you opened is here, too" : "");
      else write(summary, model ? "Model: the book’s; yours is here, too" : "Model: the book’s");
      element.classList.toggle("gf-own-there", Boolean(model));
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
    let wanted = null; // the one that it should show
    let turn = 0;
    const line = lineOf({ tryFiles, base: spelled(model.get("_own") ?? "") });

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

    // What the page shows, if the view can: otherwise it shows the book's model and says why. Returns whether it can.
    async function show() {
      const mine = ++turn;
      const had = shown;
      line.says();
      try {
        if (wanted) line.says("Opening …");
        const parts = wanted && (await partsOf(wanted));
        if (mine !== turn) return false;
        const given = wanted ? traitsOf(model, wanted, parts, traits) : model;
        shown = wanted;
        draw(given);
        line.says(...(wanted ? described(wanted.name, parts) : []));
        return true;
      } catch (error) {
        if (mine !== turn) return false;
        shown = null;
        if (had) draw(model);
        line.show(false);
        line.says(sentenceOf(error));
        return false;
      }
    }

    let drawing = Promise.resolve(true); // of what is wanted now
    async function tryFiles(files) {
      line.element.open = true;
      line.says("Opening …");
      try {
        const why = await open(files);
        if ((await drawing) && why) line.warns(`Your browser does not keep it for other pages: ${why}.`);
      } catch (error) {
        line.says(sentenceOf(error));
      }
    }

    // The page has another model or none, or shows it or not.
    function follow() {
      const now = page.isShown ? page.model : null;
      if (now === wanted) return line.show(shown !== null);
      wanted = now;
      drawing = show();
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
    follow();
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
