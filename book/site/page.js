/* Small repairs to the page that the theme makes, so that it can be used by keyboard and read aloud (WCAG 2.2 AA);
 * what must scroll, what is folded, and what a page looks like on paper. */
(() => {
  "use strict";
  const each = (selector, change) => document.querySelectorAll(selector).forEach(change);
  const name = (selector, label) => each(selector, (element) => element.setAttribute("aria-label", label));

  const here = document.currentScript.src;
  const coming = {};
  /** Brings a script of the site, once, and from disk as well. */
  const bring = (file) =>
    (coming[file] ??= new Promise((onload, onerror) => {
      document.head.append(Object.assign(document.createElement("script"), { src: new URL(file, here), onload, onerror }));
    }));
  window.glassformer = { bring };

  // The address of a page that was found has the words, and marks.js marks them. Sphinx, which calls these two functions, would mark
  // parts of words as well, and on whichever page is opened next.
  SphinxHighlight.hideSearchWords = () => globalThis.CSS?.highlights?.delete("found");
  SphinxHighlight.highlightSearchWords = () => /[?&]highlight=/.test(location.search) && bring("marks.js").then(() => glassformer.mark());

  /** At a term of the glossary, its definition is shown (definitions.js). A first tap shows it; without it, the link is followed. */
  function define(event) {
    const link = event.target.closest?.("article a.internal[href*='#']");
    if (!link?.pathname.endsWith("/book/glossary.html")) return;
    const isTap = event.type === "click" && event.pointerType === "touch" && !link.hasAttribute("aria-describedby");
    if (isTap) event.preventDefault();
    else if (event.type === "click") return;
    const arrive = bring("texts/glossary.js").then(() => bring("definitions.js"));
    arrive.then(() => glassformer.define(link, event)).catch(() => isTap && location.assign(link.href));
  }

  function repair() {
    name(".theme-switch-button", "Colours: light, dark or as the system says");
    name(".primary-toggle", "Show or hide the chapters");
    name(".secondary-toggle", "Show or hide the contents of this page");
    name("nav.page-toc", "On this page");
    name(".bd-docs-nav", "Chapters");
    each(".bd-sidenav details > summary", (summary) => {
      const chapter = summary.closest("li").querySelector("a").textContent.trim();
      summary.setAttribute("aria-label", `Show or hide what belongs to ${chapter}`);
    });
    each(".bd-sidenav a.current", (link) => link.setAttribute("aria-current", "page"));

    // The label of a folded cell should be the text that is seen.
    each("details.hide > summary[aria-label]", (summary) => summary.removeAttribute("aria-label"));

    each(".btn-download-pdf-button", (button) => button.addEventListener("click", () => print()));

    // The theme's tooltips hold nothing that the label does not, and stay open on touch screens.
    each("[data-bs-toggle=tooltip]", (element) => element.removeAttribute("data-bs-toggle"));

    // To download is to have a file. From disk, browsers open it as they open any other, and only the reader can save it.
    each(".btn-download-notebook-button, .btn-download-source-button", (link) => {
      if (location.protocol !== "file:") {
        link.removeAttribute("target");
        link.setAttribute("download", "");
        return;
      }
      const note = "From disk, your browser shows this file in a new tab. Save it from there: Ctrl + S, or ⌘ + S.";
      link.after(Object.assign(document.createElement("p"), { className: "dropdown-note", textContent: note }));
    });

    // A role that the standard has since withdrawn.
    each("[role=doc-biblioentry]", (entry) => entry.setAttribute("role", "listitem"));

    // Two checkboxes only remember whether the side bars are open; the buttons above are their controls.
    each("input.sidebar-toggle", (box) => {
      box.tabIndex = -1;
      box.setAttribute("aria-hidden", "true");
    });
  }

  /** The menu of what can be downloaded opens below its button, and closes when the reader turns to something else. */
  function menu(button) {
    const box = button.parentElement;
    const list = button.nextElementSibling;
    const isOpen = () => list.classList.contains("show");
    const show = (open) => {
      list.classList.toggle("show", open);
      button.setAttribute("aria-expanded", open);
    };
    button.addEventListener("click", () => show(!isOpen()));
    box.addEventListener("keydown", ({ key }) => {
      if (key !== "Escape" || !isOpen()) return;
      show(false);
      button.focus();
    });
    box.addEventListener("focusout", ({ relatedTarget }) => relatedTarget && !box.contains(relatedTarget) && show(false));
    document.addEventListener("click", ({ target }) => box.contains(target) || show(false));
  }

  /** In the contents of a page, the section that is being read is marked: the last that begins in the upper part of the window. */
  function outline() {
    const links = [...document.querySelectorAll(".bd-toc-nav a.nav-link[href^='#']")];
    const places = links.map((link) => document.getElementById(decodeURIComponent(link.hash.slice(1))));
    const visible = new Set();
    const mark = (changes) => {
      for (const { target, isIntersecting } of changes) visible[isIntersecting ? "add" : "delete"](target);
      const now = links.findLast((_, i) => visible.has(places[i]));
      if (!now) return;
      for (const link of links) {
        const isRead = link.closest("li").contains(now); // its own section, or one within it
        link.classList.toggle("active", isRead);
        if (link === now) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      }
    };
    const observer = new IntersectionObserver(mark, { rootMargin: "0px 0px -60%" });
    for (const place of places) if (place) observer.observe(place);
  }

  /** A formula within a sentence that is wider than the sentence becomes a box of its own. */
  function giveRoom() {
    each("span.math", (formula) => {
      const room = formula.closest("p, td, li, dd, div").clientWidth;
      formula.classList.toggle("wide", formula.firstChild.getBoundingClientRect().width > room + 1);
    });
  }

  /** What is wider than the page scrolls inside itself; then the keyboard must be able to reach it. */
  function reachable() {
    const scrolls = (box) => box.scrollWidth > box.clientWidth + 1 && getComputedStyle(box).overflowX !== "visible";
    each("article pre:not(.gf-widget pre), .pst-scrollable-table-container, .cell_output, div.math, span.math.wide", (box) => {
      if (scrolls(box)) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    });
    // The theme does the same with outputs, but only some time after the window has another width.
    each(".cell_output > .output", (box) => scrolls(box) && (box.tabIndex = 0));
  }

  /** Whoever is led inside a fold, by a link or by the search, finds it open. */
  function follow() {
    const goal = document.getElementById(location.hash.slice(1));
    let fold = goal?.closest("details:not([open])");
    if (!fold) return;
    for (; fold; fold = fold.closest("details:not([open])")) fold.open = true;
    goal.scrollIntoView();
  }

  /** Paper is light, and nothing on it can be opened: so it is now, and after printing all is as it was. */
  function toPaper() {
    const root = document.documentElement;
    const { theme } = root.dataset;
    const folds = [...document.querySelectorAll("article details:not(.hide, .gf-widget details, [open])")];
    root.dataset.theme = "light";
    folds.forEach((fold) => (fold.open = true));
    const back = () => {
      root.dataset.theme = theme;
      folds.forEach((fold) => (fold.open = false));
    };
    addEventListener("afterprint", back, { once: true });
  }

  /** On a page that was opened with ?route=NAME, routes.js leads along that route; no other page needs it. */
  function followRoute() {
    if (!new URLSearchParams(location.search).has("route")) return;
    bring("route-table.js").then(() => bring("routes.js"));
  }

  const fit = () => {
    giveRoom();
    reachable();
  };
  const ready = () => {
    repair();
    followRoute();
    each("[data-bs-toggle=dropdown]", menu);
    for (const type of ["pointerover", "focusin", "click"]) document.addEventListener(type, define);
    document.addEventListener("focusin", ({ target }) => target.matches(".bd-search input") && bring("marks.js").then(() => bring("search.js")));
    if (/[?&]q=/.test(location.search)) document.querySelector("main .bd-search input")?.focus();
    outline();
    fit();
    follow();
    addEventListener("resize", fit);
    // The bars beside the text slide in and out when the window has its new size already.
    let room = null;
    new ResizeObserver(([{ contentRect }]) => {
      if (contentRect.width !== room) requestAnimationFrame(fit);
      room = contentRect.width;
    }).observe(document.querySelector("article") ?? document.body);
    addEventListener("hashchange", follow);
    addEventListener("click", ({ target }) => target.closest("a[href*='#']") && requestAnimationFrame(follow));
    addEventListener("beforeprint", toPaper);
    document.fonts.ready.then(fit);
    // The keyboard goes past the buttons that copy code, up to fifty on a page: code can be selected and copied as anything else.
    addEventListener("load", () => each(".copybtn", (button) => (button.tabIndex = -1)));
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", ready);
  else ready();
})();
