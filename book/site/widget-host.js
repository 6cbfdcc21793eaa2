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
 * page: each such file is a script beside this one, models/NAME.js or models/NAME-neurons.js, which is added when the first
 * view asks, because a page opened from disk may add scripts but fetch nothing. A view may ask for another model's, too.
 *
 * It is a classic script, and modules are imported from memory, because a page opened from disk may not import from files.
 * It runs while the page is read, because a place must be kept before the page is first seen.
 */
(() => {
  "use strict";
  const STATE = "application/vnd.jupyter.widget-state+json";
  const VIEW = "application/vnd.jupyter.widget-view+json";
  const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

  const here = document.currentScript.src;
  const FILES = { weights: "", neurons: "-neurons" }; // what a view may ask for, and how its script's name ends
  const OTHER = /^weights of ([a-z]+)$/; // or, of another model
  const files = new Map(); // name of a script -> promise of a DataView of the file
  function fileOf(own, what) {
    const model = OTHER.exec(what)?.[1] ?? own;
    const name = `${model}${FILES[what] ?? ""}`;
    if (!files.has(name)) {
      const coming = fromScript(model, name);
      coming.catch(() => files.delete(name)); // may be tried again
      files.set(name, coming);
    }
    return files.get(name);
  }

  function fromScript(model, name) {
    const known = /^[a-z]+$/.test(model);
    const problem = new Error(`this page has no model called ${model}: open the notebook in JupyterLab, and run it there`);
    return new Promise((resolve, reject) => {
      if (!known) return reject(problem);
      const script = Object.assign(document.createElement("script"), { src: new URL(`models/${name}.js`, here).href });
      script.addEventListener("error", () => reject(problem));
      script.addEventListener("load", () => {
        const text = atob(window.glassformerWeights[name]); // set by the script
        delete window.glassformerWeights[name];
        resolve(new DataView(Uint8Array.from(text, (character) => character.charCodeAt(0)).buffer));
      });
      document.head.append(script);
    });
  }

  /** What a widget may ask of its host. `set` tells listeners at once; there is no kernel to save to. The messages that
   *  are answered here are { ask: "weights" }, { ask: "neurons" } and { ask: "weights of NAME" }. */
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
      if (!Object.hasOwn(FILES, what) && !OTHER.test(what)) return;
      const answer = (more, buffers) => this.#tell("msg:custom", { answer: what, ...more }, buffers);
      await fileOf(this.#state.model, what).then(
        (file) => answer({}, [file]),
        (error) => answer({ problem: error.message }, []),
      );
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

  /** A stored model, and the promise of its module after `initialize`, which runs once however many views there are. */
  function wake(state) {
    const model = new Model(state);
    let started;
    const begin = async () => {
      const exported = await load(state._esm);
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
  const host = { getModel: async (reference) => find(reference.replace("anywidget:", "")).model };

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

  let column = 0; // how wide the last view was; what is folded away has no width of its own

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

    /** Reserve the height that the view will have. */
    reserve() {
      column = this.el.clientWidth || column;
      const model = stored().get(this.#id)?.model;
      if (!model || this.el.dataset.state !== "waiting") return;
      // heights.js calls a view by its class: "ClockHands", "Quiz 04", "Predict 00 hotter".
      const kind = model.get("_anywidget_id")?.split(".").at(-1);
      const name = [kind, model.get("chapter"), model.get("name")].filter(Boolean).join(" ");
      this.el.style.minHeight = `${heightOf(name, column)}px`;
    }

    /** Have the view's code ready, so that drawing it has nothing to wait for. */
    async prepare() {
      const { model, ready } = find(this.#id);
      const widget = await ready();
      await widget.prepare?.({ model, host });
      return { model, widget };
    }

    mount = () => (this.#done ??= this.#mount());
    async #mount() {
      const { el } = this;
      try {
        const { model, widget } = await this.prepare();
        await widget.render?.({ model, el, host });
        el.dataset.state = "mounted";
      } catch (error) {
        console.error(error);
        el.textContent = "This widget did not start in this browser. The notebook of this chapter has it too.";
        el.classList.add("widget-host-failed");
        el.dataset.state = "failed";
      }
      el.style.minHeight = "";
      for (const name of ["role", "aria-label"]) el.removeAttribute(name);
      if (el === document.activeElement) el.tabIndex = -1;
      else el.removeAttribute("tabindex");
    }
  }

  const places = new Map(); // script -> Place
  const near =
    "IntersectionObserver" in window &&
    new IntersectionObserver(
      (entries) => {
        for (const { isIntersecting, target } of entries) {
          if (!isIntersecting) continue;
          near.unobserve(target);
          [...places.values()].find(({ el }) => el === target).mount();
        }
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

  const reading = new MutationObserver(keepPlaces);
  reading.observe(document, { childList: true, subtree: true });

  function start() {
    reading.disconnect();
    keepPlaces();
    const all = [...places.values()];
    const reserveAll = () => all.forEach((place) => place.reserve());
    reserveAll(); // what was read after a view, such as the side bar, may have made its column narrower
    addEventListener("resize", reserveAll);
    addEventListener("beforeprint", () => all.forEach((place) => place.mount()));
    const whenIdle = window.requestIdleCallback ?? setTimeout;
    for (const place of all) whenIdle(() => place.prepare().catch(() => {})); // who mounts it hears of it
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
