// The only code in a view's own state: it loads the rest. The view's modules, each with its stylesheet, are separate models,
// which a notebook stores once, however many views use them (modules.py). This file puts them together. JupyterLab and the page
// are hosts of the same kind (https://anywidget.dev/en/afm/), so the same few lines work in both.

// The same text gives one module and one stylesheet on the page, whoever asks. A notebook with another version has other
// texts, so each version gets its own.
const page = (globalThis[Symbol.for("glassformer.code")] ??= { urls: new Map(), scopes: new Map() });

function remembered(map, text, make) {
  if (!map.has(text)) map.set(text, make(text));
  return map.get(text);
}

const IMPORT = /(from |import\()"\.{1,2}\/(?:[\w.-]+\/)*([\w-]+)\.js"/g;

// By address: a module that was imported once is available at once, within the same task.
const imported = new Map();

// A module in memory. This file was imported from a data: URL only if blob: URLs are impossible, as in some browsers from disk.
const urlOf = (source) =>
  import.meta.url.startsWith("data:")
    ? `data:text/javascript;charset=utf-8,${encodeURIComponent(source)}`
    : URL.createObjectURL(new Blob([source], { type: "text/javascript" }));

// The last of a list of modules, each of which imports from those before it by file: `from "../kit/plot.js"`, or, once it is
// needed, `import("../kit/plot.js")`. No two have the same name, so the folders do not matter here. A notebook of an older
// version has `from "./plot.js"`.
export function link(modules) {
  const urls = {};
  for (const { name, source } of modules) {
    const linked = source.replace(IMPORT, (_, how, dependency) => `${how}"${urls[dependency]}"`);
    urls[name] = remembered(page.urls, linked, urlOf);
  }
  return remembered(imported, urls[modules.at(-1).name], (url) => import(url));
}

// Jupyter's class of a view whose cell has not been run, or not since the kernel was started.
const WITHOUT_KERNEL = "jupyter-widgets-disconnected";

// Put the stylesheets on the page, only for elements inside one with the class that is returned.
export function dress(modules) {
  const css = modules.map(({ style }) => style).join("");
  return remembered(page.scopes, css, () => {
    const scope = `gf-scope-${page.scopes.size + 1}`;
    // Jupyter draws a red broken link next to a view that has no kernel. Most views do not need one.
    const noLink = `.${scope}.${WITHOUT_KERNEL}::before { content: none }`;
    const scoped = css.replaceAll(".gf-widget", `.${scope} .gf-widget`) + noLink;
    document.head.append(Object.assign(document.createElement("style"), { textContent: scoped }));
    return scope;
  });
}

// A view and its stylesheets. A host may prepare them in advance, so that `render` does not have to wait.
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
  el.classList.add(scope);
  model.hasNoKernel = () => el.classList.contains(WITHOUT_KERNEL);
  return view.render({ model, el });
}

export default { prepare, render };
