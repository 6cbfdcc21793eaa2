/* Brings the widgets of a static page to life: no kernel, no network, no library.
 *
 * Each is drawn when it comes near: within a screen of what is seen, when the fold around it is opened, when the keyboard
 * arrives at it, or when the page is printed. Until then its place is kept, an element as high as the view will be
 * (heights.js), so that nothing moves: .widget-host[data-state="waiting"], later "mounted", or "failed".
 *
 * A notebook stores the state of its widgets, and the site puts it on the page as JSON: one <script> that holds the
 * state of every model, and one <script> wherever a cell displayed one. Ours are anywidgets, whose state includes an ES
 * module of their own (`_esm`), so a page can run them itself. This file is a host for them in the sense of anywidget's
 * front-end module specification (https://anywidget.dev/en/afm/): it gives each module its `model`, an element to draw
 * in, and a `host` to ask for the other models that it refers to. A model that is shown twice is one model, as in
 * JupyterLab.
 *
 * A view of a running model asks whoever is behind it for the weights, or for what is known of its neurons. Here it is this
 * page. From a server it fetches models/NAME.bin and reports the bytes as they arrive. A page opened from disk may fetch
 * nothing, but it may add scripts, so the same bytes are in models/NAME-0.js and so on (tools/extensions/model_weights.py describes
 * both). A view may ask for another model's, too. From a server, the weights are fetched ahead when a view of a model comes
 * near, because most readers who see one use it; not for readers who save data.
 *
 * The code of the book's own views is in files, code/NAME.js and so on (tools/extensions/view_code.py), of which their state has only the
 * names. A server sends modules, which the page imports. From disk, a page cannot import files, so scripts bring their texts, and
 * they are imported from memory, like those of a widget whose state includes its module. This file is a classic script, so that it
 * works from disk, and runs while the page is read: places are kept, and answered predictions opened, before the page is first seen.
 */
(() => {
  "use strict";
  const STATE = "application/vnd.jupyter.widget-state+json";
  const VIEW = "application/vnd.jupyter.widget-view+json";
  const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

  const here = document.currentScript.src;
  const isOnDisk = location.protocol === "file:";
  // What a view may ask for, and how its file's name ends
  const FILES = { weights: "", neurons: "-neurons", vocabulary: "-vocabulary" };
  const OTHER = /^(weights|vocabulary) of ([a-z]+)$/; // or, of another model
  const TOKENIZER = /^tokenizer ([a-z0-9_]+)$/; // or a vocabulary, which belongs to no model of the book
  const CORPUS = "corpus"; // or the text that a model can learn from
  const isAnswered = (what) => Object.hasOwn(FILES, what) || OTHER.test(what) || TOKENIZER.test(what) || what === CORPUS;
  const problem = (words, { final = false } = {}) => Object.assign(new Error(words), { final });

  /** A file on its way to the page: how much has arrived, and the promise of a DataView of it. All views share it. */
  class Delivery {
    received = 0; // bytes, packed as they are sent
    total = null; // or not known
    watchers = new Set(); // called when more has arrived
    #started = new AbortController();
    constructor(model, name) {
      this.arrives = this.#bring(model, name);
      this.arrives.catch(() => {}); // those who ask are told
    }
    async #bring(model, name) {
      if (!/^[a-z]+$/.test(model)) throw lacking(model);
      const bring = isOnDisk ? fromScripts : fromServer;
      for (let isAnew = false; ; isAnew = true) {
        const { signal } = this.#started;
        this.#tell(0, null);
        try {
          return await unpacked(await bring(name, { model, signal, isAnew, tell: (...news) => this.#tell(...news) }));
        } catch (error) {
          if (!signal.aborted) throw error; // otherwise somebody wants to start anew
        }
      }
    }
    #tell(received, total) {
      [this.received, this.total] = [received, total];
      for (const watcher of this.watchers) watcher();
    }
    /** Give up what is under way, and start anew. */
    startAnew() {
      this.#started.abort();
      this.#started = new AbortController();
    }
  }

  const lacking = (model) =>
    problem(`This page has no model called ${model}. Open the notebook in JupyterLab, and run it there.`, { final: true });

  async function fromServer(name, { model, signal, isAnew, tell }) {
    const lost = () =>
      navigator.onLine === false
        ? problem("You are offline. The download will start by itself when you are online again.")
        : problem("The connection failed. Check it, then try again; everything that this page already shows still works.");
    const chunks = [];
    try {
      const answer = await fetch(new URL(`models/${name}.bin`, here), { signal, cache: isAnew ? "reload" : "default" });
      if (answer.status === 404) throw lacking(model);
      if (!answer.ok) throw problem(`The server answered with error ${answer.status}. Try again in a moment.`);
      // If the server packs the file once more, its length is not that of what we read.
      const total = answer.headers.has("Content-Encoding") ? null : Number(answer.headers.get("Content-Length")) || null;
      const reader = answer.body.getReader();
      for (let received = 0; ; ) {
        tell(received, total);
        const { done, value } = await reader.read();
        if (done) return chunks;
        chunks.push(value);
        received += value.length;
      }
    } catch (error) {
      throw "final" in error ? error : lost();
    }
  }

  /** Run a script, which may set variables of the window. */
  const run = (src) =>
    new Promise((resolve, reject) => {
      const script = Object.assign(document.createElement("script"), { src });
      script.addEventListener("load", () => resolve(script.remove()));
      script.addEventListener("error", () => reject(new Error(`${src} is missing`)));
      document.head.append(script);
    });

  // One script after another, each small enough to be decoded at once.
  async function fromScripts(name, { model, tell }) {
    const chunks = [];
    let received = 0;
    for (let i = 0, count = 1; i < count; i++) {
      await run(new URL(`models/${name}-${i}.js`, here).href).catch(() => {
        throw i === 0 ? lacking(model) : problem(`The file ${name}-${i}.js is missing from this copy of the book.`);
      });
      const part = window.glassformerModels[`${name}-${i}`]; // set by the script
      delete window.glassformerModels[`${name}-${i}`];
      count = part.count;
      const text = atob(part.text);
      const bytes = new Uint8Array(text.length);
      for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
      chunks.push(bytes);
      received += bytes.length;
      tell(received, part.total);
    }
    return chunks;
  }

  // Undo what tools/extensions/model_weights.py did: it packed the file and, of weights, put all first bytes of the numbers before all
  // second ones.
  const AT_ONCE = 300_000; // numbers: a few milliseconds
  async function unpacked(chunks) {
    const packed = new Blob(chunks.slice()).stream().pipeThrough(new DecompressionStream("gzip"));
    let bytes;
    try {
      bytes = new Uint8Array(await new Response(packed).arrayBuffer());
    } catch {
      throw problem("The file arrived damaged, so try again.");
    }
    const begins = new DataView(bytes.buffer).getUint32(0, true); // where the numbers begin
    const file = new Uint8Array(bytes.length - 4);
    file.set(bytes.subarray(4, 4 + begins));
    const half = (file.length - begins) / 2;
    const [first, second] = [bytes.subarray(4 + begins, 4 + begins + half), bytes.subarray(4 + begins + half)];
    for (let done = 0; done < half; done += AT_ONCE) {
      const end = Math.min(half, done + AT_ONCE);
      for (let i = done; i < end; i++) {
        file[begins + 2 * i] = first[i];
        file[begins + 2 * i + 1] = second[i];
      }
      await turn();
    }
    return new DataView(file.buffer);
  }

  const deliveries = new Map(); // name of a file -> its Delivery
  function deliver(own, what, anew = false) {
    const vocabulary = TOKENIZER.exec(what)?.[1];
    const [, kind, other] = OTHER.exec(what) ?? [what, what, own];
    const model = what === CORPUS ? CORPUS : vocabulary ? "tokenizer" : other;
    const name = what === CORPUS ? CORPUS : vocabulary ? `tokenizer-${vocabulary}` : `${model}${FILES[kind]}`;
    const known = deliveries.get(name);
    if (known && anew) known.startAnew();
    if (known) return known;
    const delivery = new Delivery(model, name);
    deliveries.set(name, delivery);
    delivery.arrives.catch(() => deliveries.delete(name)); // may be tried again
    return delivery;
  }

  const whenIdle = window.requestIdleCallback ?? setTimeout;
  const turn = () => new Promise((resume) => setTimeout(resume)); // of the page: what follows is a task of its own
  const isLoaded = new Promise((resolve) => {
    if (document.readyState === "complete") resolve();
    else addEventListener("load", resolve);
  });

  /** Fetch the weights of a view's model ahead, once the page itself is there. */
  async function fetchAhead(model) {
    const { saveData, effectiveType = "" } = navigator.connection ?? {};
    if (isOnDisk || saveData || effectiveType.includes("2g") || !model.get("_digest")) return;
    await isLoaded;
    const inWords = model.get("reads") === "words";
    whenIdle(() => deliver(model.get("model"), inWords ? "weights of words" : "weights"));
  }

  /** What a widget may ask of its host. `set` tells listeners at once; there is no kernel to save to. The messages that
   *  are answered here are { ask: "weights" }, { ask: "neurons" }, { ask: "weights of NAME" }, { ask: "tokenizer NAME" } and
   *  { ask: "corpus" }; widgets/engine/weights.js describes the answers. */
  class Model {
    #state;
    #listeners = new Map(); // event name -> Set of callbacks
    constructor(state) {
      this.#state = { ...state };
    }
    get = (name) => this.#state[name];
    set = (name, value) => {
      if (same(this.#state[name], value)) return;
      this.#state[name] = value;
      for (const event of [`change:${name}`, "change"]) this.#tell(event, this, value);
    };
    #tell(event, ...what) {
      for (const callback of new Set(this.#listeners.get(event))) callback(...what);
    }
    on = (event, callback) => {
      if (!this.#listeners.has(event)) this.#listeners.set(event, new Set());
      this.#listeners.get(event).add(callback);
    };
    off = (event, callback) => {
      if (event === undefined || event === null) this.#listeners.clear();
      else if (callback) this.#listeners.get(event)?.delete(callback);
      else this.#listeners.delete(event);
    };
    save_changes = () => {};
    send = async (message) => {
      const what = message?.ask;
      if (!isAnswered(what)) return;
      const answer = (more, buffers = []) => this.#tell("msg:custom", { answer: what, ...more }, buffers);
      const delivery = deliver(this.#state.model, what, message.anew);
      const watch = () => answer({ received: delivery.received, total: delivery.total });
      delivery.watchers.add(watch);
      watch();
      await delivery.arrives.then(
        (file) => answer({}, [file]),
        (error) => answer({ problem: error.message, final: error.final ?? false }),
      );
      delivery.watchers.delete(watch);
    };
  }

  const modules = new Map(); // source -> promise of its default export: one class of widgets, one module
  function load(source) {
    if (!modules.has(source)) modules.set(source, importFromMemory(source).then(({ default: widget }) => widget));
    return modules.get(source);
  }

  async function importFromMemory(source) {
    const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    try {
      return await import(url);
    } catch {
      return await import(`data:text/javascript;charset=utf-8,${encodeURIComponent(source)}`); // some browsers, from file://
    } finally {
      URL.revokeObjectURL(url);
    }
  }

  const brought = new Map(); // address of a file with code -> the promise of what is in it
  function broughtOnce(name, ending, how) {
    const url = new URL(`code/${name}${ending}`, here).href;
    if (!brought.has(url)) brought.set(url, how(url));
    return brought.get(url);
  }

  const text = (url) => fetch(url).then((answer) => (answer.ok ? answer.text() : Promise.reject(new Error(`${url}: ${answer.status}`))));
  /** A view whose code a server has in files. Those that it needs at once are all asked for together. */
  function fromModules({ _loader, _modules, _styles, _later }) {
    const ahead = (href) => document.head.append(Object.assign(document.createElement("link"), { rel: "modulepreload", href }));
    const imported = (name) => import(new URL(`code/${name}.js`, here));
    let prepared; // once: even to import again what is there takes a turn of the page, and paper does not wait for one
    const begin = async () => {
      for (const name of [_loader, ..._modules.filter((one) => !_later.includes(one))]) broughtOnce(name, ".js", ahead);
      const coming = [imported(_loader), imported(_modules.at(-1)), ..._styles.map((name) => broughtOnce(name, ".css", text))];
      const [{ dress }, { default: view }, ...styles] = await Promise.all(coming);
      return { view, scope: dress(styles.map((style) => ({ style }))) };
    };
    const prepare = () => (prepared ??= begin());
    const render = async ({ model, el }) => {
      const { view, scope } = await prepare();
      el.classList.add(scope);
      return view.render({ model, el });
    };
    return { prepare, render };
  }

  /** The text of a module, its name and its stylesheet, from a script. */
  const fromScript = (name) =>
    broughtOnce(name, ".disk.js", async (src) => {
      await run(src);
      return window.glassformerCode[name];
    });

  async function widgetOf(state) {
    if (!state._loader) return load(state._esm);
    if (!isOnDisk) return fromModules(state);
    return load((await fromScript(state._loader)).source);
  }

  /** A stored model, and the promise of its module after `initialize`, which runs once however many views there are. */
  function wake(state) {
    const model = new Model(state);
    let started;
    const begin = async () => {
      const exported = await widgetOf(state);
      const widget = typeof exported === "function" ? await exported() : exported;
      await widget.initialize?.({ model });
      return widget;
    };
    return { model, ready: () => (started ??= begin()) };
  }

  const models = new Map();
  function stored() {
    if (models.size > 0) return models;
    for (const script of document.querySelectorAll(`script[type="${STATE}"]`)) {
      for (const [id, { state }] of Object.entries(JSON.parse(script.textContent).state)) models.set(id, wake(state));
    }
    return models;
  }
  function find(id) {
    if (!stored().has(id)) throw new Error(`no stored state for widget ${id}`);
    return models.get(id);
  }
  const host = {
    async getModel(reference) {
      if (reference.startsWith("anywidget:")) return find(reference.replace("anywidget:", "")).model;
      const module = await fromScript(reference);
      return { get: (name) => module[name] };
    },
  };

  /** How high a view is in a column of this width: what was measured (heights.js), or between what was measured in the
   *  columns next to it. Of an unknown view, 0. */
  function heightOf(view, width) {
    const { columns, views } = window.glassformerHeights ?? { columns: {}, views: {} };
    const size = parseFloat(getComputedStyle(document.documentElement).fontSize);
    const [nearest] = Object.keys(columns).sort((a, b) => Math.abs(a - size) - Math.abs(b - size));
    const heights = views[view]?.[nearest];
    if (!heights) return 0;
    const known = columns[nearest];
    const next = known.findIndex((column) => column >= width);
    if (next < 1) return heights.at(next);
    const part = (width - known[next - 1]) / (known[next] - known[next - 1]);
    return heights[next - 1] + part * (heights[next] - heights[next - 1]);
  }

  // What heights.js calls a view, by its class: "ClockHands", "Quiz 04", "Predict 00 hotter", "TrainingLab short".
  const nameOf = (model) =>
    [model.get("_anywidget_id")?.split(".").at(-1), model.get("chapter"), model.get("name")].filter(Boolean).join(" ");

  // What this browser keeps, which a reader may forbid.
  const shelf = (name) => `glassformer.height: ${name}`;
  function recalled(key) {
    try {
      return JSON.parse(localStorage.getItem(key));
    } catch {
      return null;
    }
  }

  let column = 0; // how wide the last view was: what is folded away has no width of its own, and to ask for one takes a layout

  /** A place on the page where a widget was displayed. */
  class Place {
    #id;
    #done; // a promise, as soon as the widget has been asked for
    constructor(id, script) {
      this.#id = id;
      // The keyboard stops here, and so comes near: it would go past what is not there yet.
      this.el = Object.assign(document.createElement("div"), { className: "widget-host", tabIndex: 0 });
      this.el.dataset.state = "waiting";
      this.el.setAttribute("role", "group");
      this.el.setAttribute("aria-label", "An interactive view");
      script.after(this.el);
      this.reserve();
    }

    /** Reserve the height that the view will have. While the page is still read, all columns count as equally wide. */
    reserve() {
      if (!column || document.readyState !== "loading") column = this.el.clientWidth || column;
      const model = stored().get(this.#id)?.model;
      if (!model || this.el.dataset.state !== "waiting") return;
      const name = nameOf(model);
      const left = recalled(shelf(name));
      this.el.style.minHeight = `${left?.column === column ? left.height : heightOf(name, column)}px`;
    }

    /** Keep the height of a view whose answers are kept, for when its reader comes back. */
    #keepHeight(model) {
      const { el } = this;
      const keep = () => {
        try {
          localStorage.setItem(shelf(nameOf(model)), JSON.stringify({ column: el.clientWidth, height: el.clientHeight }));
        } catch {
          // then the height of an unanswered question is reserved
        }
      };
      const later = () => requestAnimationFrame(keep);
      model.on("change", later);
      later();
    }

    /** Have the view's code ready, so that drawing it has nothing to wait for. */
    async prepare() {
      const { model, ready } = find(this.#id);
      const widget = await ready();
      await widget.prepare?.({ model, host });
      return { model, widget };
    }

    /** Draw the view: `atOnce` for paper, which does not wait for a turn of the page. */
    mount = ({ atOnce = false } = {}) => (this.#done ??= this.#mount(atOnce));
    async #mount(atOnce) {
      const { el } = this;
      try {
        const { model, widget } = await this.prepare();
        if (!atOnce) await turn();
        await widget.render?.({ model, el, host });
        el.dataset.state = "mounted";
        if (model.get("chapter")) this.#keepHeight(model); // predictions and quizzes belong to one
        fetchAhead(model);
      } catch (error) {
        console.error(error);
        el.textContent = "This view did not start. Reload the page to try again; the notebook of this chapter has it, too.";
        el.classList.add("widget-host-failed");
        el.dataset.state = "failed";
      }
      el.style.minHeight = "";
      for (const name of ["role", "aria-label"]) el.removeAttribute(name);
      if (el === document.activeElement) el.tabIndex = -1;
      else el.removeAttribute("tabindex");
    }
  }

  const AFTERWARDS = 300; // milliseconds
  const places = new Map(); // script -> Place
  let seen = Promise.resolve(); // once all that can be seen so far is drawn
  const near =
    "IntersectionObserver" in window &&
    new IntersectionObserver(
      (entries) => {
        const soon = [];
        for (const { isIntersecting, boundingClientRect, target } of entries) {
          if (!isIntersecting) continue;
          near.unobserve(target);
          const place = [...places.values()].find(({ el }) => el === target);
          const { top, bottom } = boundingClientRect;
          if (bottom > 0 && top < innerHeight) seen = Promise.all([seen, place.mount()]);
          else soon.push(place);
        }
        // What can be seen already goes before what may soon be seen, and gets a moment of its own to begin.
        seen.then(() => soon.forEach(({ mount }) => setTimeout(mount, AFTERWARDS)));
      },
      { rootMargin: "100% 0px" },
    );

  /** Keep a place for every widget that has been read so far. */
  function keepPlaces() {
    for (const script of document.querySelectorAll(`script[type="${VIEW}"]`)) {
      if (places.has(script) || !script.textContent.trimEnd().endsWith("}")) continue;
      const id = JSON.parse(script.textContent).model_id;
      const place = new Place(id, script);
      places.set(script, place);
      if (near) near.observe(place.el);
      else place.mount();
    }
  }

  // Many pages open with a view. Its code is asked for before there is a place for it: the first state is that of the first view.
  const [first] = stored().values();
  if (first?.model.get("_loader")) first.ready().then((widget) => widget.prepare({ model: first.model, host })).catch(() => {});

  const opened = new Set();

  /** Open again what a reader has been shown after a prediction. Its view stores this (widgets/predict.js). */
  function openShown() {
    for (const fold of document.querySelectorAll("details.fold[data-predict]")) {
      if (opened.has(fold)) continue;
      opened.add(fold);
      fold.open ||= recalled(`glassformer.predict: ${fold.dataset.predict}`)?.shown ?? false;
    }
  }

  const read = () => {
    openShown(); // first: what is folded away has no width
    keepPlaces();
  };
  const reading = new MutationObserver(read);
  reading.observe(document, { childList: true, subtree: true });

  function start() {
    reading.disconnect();
    read();
    const all = [...places.values()];
    const reserveAll = () => all.forEach((place) => place.reserve());
    reserveAll(); // what was read after a view, such as the side bar, may have made its column narrower
    addEventListener("resize", reserveAll);
    addEventListener("beforeprint", () => all.forEach((place) => place.mount({ atOnce: true })));
    const prepareAll = () => all.forEach((place) => whenIdle(() => place.prepare().catch(() => {}))); // who mounts it hears of it
    isLoaded.then(() => seen).then(prepareAll);
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
