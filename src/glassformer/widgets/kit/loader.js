// All that a view's own state holds of its code: how to fetch the rest. Its modules, each with its stylesheet, are models of
// their own, which a notebook stores once however many views run them (modules.py). Here they are put together. JupyterLab
// and the page are hosts of the same kind (https://anywidget.dev/en/afm/), so the same few lines serve both.

// One text, one module and one stylesheet on the page, whoever asks. A notebook that stores another version beside this
// one has other texts, so each gets its own.
const page = (globalThis[Symbol.for("glassformer.code")] ??= { urls: new Map(), scopes: new Map() });

function remembered(map, text, make) {
  if (!map.has(text)) map.set(text, make(text));
  return map.get(text);
}

// By address: what was imported once is there at once when it is asked for again, within the same task.
const imported = new Map();

// A module in memory. This one was imported from a data: URL only where blob: URLs cannot be, as in some browsers from disk.
const urlOf = (source) =>
  import.meta.url.startsWith("data:")
    ? `data:text/javascript;charset=utf-8,${encodeURIComponent(source)}`
    : URL.createObjectURL(new Blob([source], { type: "text/javascript" }));

// The last of some modules, each of which imports from those before it by their files: `from "../kit/plot.js"`. No two
// have the same name, so the folders do not matter here. A notebook of an older version says `from "./plot.js"`.
export function link(modules) {
  const urls = {};
  for (const { name, source } of modules) {
    const linked = source.replace(/from "\.{1,2}\/(?:[\w.-]+\/)*([\w-]+)\.js"/g, (_, dependency) => `from "${urls[dependency]}"`);
    urls[name] = remembered(page.urls, linked, urlOf);
  }
  return remembered(imported, urls[modules.at(-1).name], (url) => import(url));
}

// Put the stylesheets on the page, for what lies inside an element of the class that is returned and for nothing else.
export function dress(modules) {
  const css = modules.map(({ style }) => style).join("");
  return remembered(page.scopes, css, () => {
    const scope = `gf-scope-${page.scopes.size + 1}`;
    const scoped = css.replaceAll(".gf-widget", `.${scope} .gf-widget`);
    document.head.append(Object.assign(document.createElement("style"), { textContent: scoped }));
    return scope;
  });
}

// A view and what it is dressed in. A host may ask ahead of time, so that `render` has nothing to wait for.
async function prepare({ model, host }) {
  const stored = await Promise.all(model.get("_modules").map((reference) => host.getModel(reference)));
  const modules = stored.map((module) => ({
    name: module.get("name"),
    source: module.get("source"),
    style: module.get("style"),
  }));
  const { default: view } = await link(modules);
  return { view, scope: dress(modules) };
}

async function render({ model, el, host }) {
  const { view, scope } = await prepare({ model, host });
  // Jupyter puts a red broken link beside a view that has no kernel. This one does not miss it.
  el.classList.remove("jupyter-widgets-disconnected");
  el.classList.add(scope);
  return view.render({ model, el });
}

export default { prepare, render };
