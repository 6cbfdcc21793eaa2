/* Brings the widgets of a static page to life: no kernel, no network, no library.
 *
 * A notebook stores the state of its widgets, and the site puts it on the page as JSON: one <script> that holds the
 * state of every model, and one <script> wherever a cell displayed one. Ours are anywidgets, whose state includes an ES
 * module of their own (`_esm`), so a page can run them itself. This file is a host for them in the sense of anywidget's
 * front-end module specification (https://anywidget.dev/en/afm/): it gives each module its `model`, an element to draw
 * in, and a `host` to ask for the other models that it refers to. A model that is shown twice is one model, as in
 * JupyterLab.
 *
 * It is a classic script, and modules are imported from memory, because a page opened from disk may not import from files.
 */
(() => {
  "use strict";
  const STATE = "application/vnd.jupyter.widget-state+json";
  const VIEW = "application/vnd.jupyter.widget-view+json";
  const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

  /** What a widget may ask of its host. `set` tells listeners at once; there is no kernel to save to or to message. */
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
      for (const event of [`change:${name}`, "change"]) {
        for (const callback of new Set(this.#listeners.get(event))) callback(this, value);
      }
    };
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
    send = () => {};
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

  async function mount(place, find) {
    const el = Object.assign(document.createElement("div"), { className: "widget-host" });
    place.after(el);
    try {
      const { model, ready } = find(JSON.parse(place.textContent).model_id);
      const host = { getModel: async (reference) => find(reference.replace("anywidget:", "")).model };
      await (await ready()).render?.({ model, el, host });
    } catch (error) {
      console.error(error);
      el.textContent = "This widget did not start in this browser. The notebook of this chapter has it too.";
      el.classList.add("widget-host-failed");
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

  function start() {
    const models = new Map();
    for (const script of document.querySelectorAll(`script[type="${STATE}"]`)) {
      for (const [id, { state }] of Object.entries(JSON.parse(script.textContent).state)) models.set(id, wake(state));
    }
    const find = (id) => {
      if (!models.has(id)) throw new Error(`no stored state for widget ${id}`);
      return models.get(id);
    };
    for (const place of document.querySelectorAll(`script[type="${VIEW}"]`)) mount(place, find);
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
