/* Draws what Python answers: the same panels and tables as in JupyterLab (src/glassformer/exercises/panel.py), from data.
 * All words go into the page as text, never as HTML. */
(() => {
  "use strict";
  const TO_NOTEBOOK = /^((?:\.\.?\/)*\w[\w.-]*(?:\/\w[\w.-]*)*)\.ipynb$/; // the only kind of link that a sentence may have
  const MOODS = ["good", "bad", "plain"];

  /** h("button", { class: "small", onclick: go }, "Go"): text children are text, never markup. */
  function h(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else element.setAttribute(name, value);
    }
    element.append(...children.flat(Infinity));
    return element;
  }

  const button = (label, onclick) => h("button", { type: "button", onclick }, label);

  /** Makes the buttons of a place work: acts(place, { check: () => … }) for those that the page has. */
  function acts(place, what) {
    for (const [name, act] of Object.entries(what)) {
      place.querySelector(`[data-do=${name}]`)?.addEventListener("click", act);
    }
  }

  function inline(pieces) {
    return (pieces ?? []).map(({ text, code, link }) => {
      const page = TO_NOTEBOOK.exec(link ?? "")?.[1];
      if (page) return h("a", { href: `${page}.html` }, text);
      return code ? h("code", {}, text) : text;
    });
  }

  // The keyboard can scroll long lines.
  const block = (code) => h("pre", { tabindex: 0 }, h("code", {}, typeof code === "string" ? code : code.map(piece)));
  // Of Python in colours: practice.css has those of the editor.
  const piece = ([kind, text]) => (kind ? h("span", { class: `tok-${kind === "def" ? "definition" : kind}` }, text) : text);

  function panel({ mood, headline, lines = [], code, more }) {
    const box = h("div", { class: `practice-panel practice-${MOODS.includes(mood) ? mood : "plain"}` });
    box.append(h("strong", {}, inline(headline)));
    for (const [mark, line] of lines) box.append(h("div", {}, mark ? `${mark}\u00a0` : "", inline(line)));
    if (code) box.append(block(typeof code === "string" ? code.trimEnd() : code));
    if (more) box.append(h("details", {}, h("summary", {}, inline(more.title)), block(more.code)));
    return box;
  }

  function table({ caption, heads, rows, closing }) {
    const head = h("tr", {}, heads.map((cell) => (cell ? h("th", { scope: "col" }, cell) : h("td"))));
    const body = rows.map((row) => h("tr", {}, row.map((cell) => h("td", {}, cell))));
    return h(
      "div",
      { class: "practice-panel practice-plain practice-table", role: "group", "aria-label": caption, tabindex: 0 },
      h("table", {}, h("caption", {}, caption), h("thead", {}, head), h("tbody", {}, body)),
      h("div", {}, inline(closing)),
    );
  }

  const draw = (one) => (one.kind === "table" ? table(one) : panel(one));

  /** Lets the reader choose a file when a button is pressed; `opened` gets it. */
  function opens(pressed, name, accept, opened) {
    const chooser = h("input", { type: "file", accept, hidden: "", "aria-label": `Open a ${name}` });
    chooser.addEventListener("change", () => {
      const [file] = chooser.files;
      if (file) opened(file);
      chooser.value = ""; // so that the same file can be chosen again
    });
    pressed.after(chooser);
    pressed.addEventListener("click", () => chooser.click());
  }

  /** Lets the reader save a text as a file. */
  function download(name, text) {
    const url = URL.createObjectURL(new Blob([text]));
    h("a", { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
  }

  Object.assign(window.glassformerPractice, { h, button, acts, block, draw, opens, download });
})();
