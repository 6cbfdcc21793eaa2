/* Small repairs to the page that the theme makes, so that it can be used by keyboard and read aloud (WCAG 2.2 AA). */
(() => {
  "use strict";
  const each = (selector, change) => document.querySelectorAll(selector).forEach(change);
  const name = (selector, label) => each(selector, (element) => element.setAttribute("aria-label", label));

  function repair() {
    name(".theme-switch-button", "Colours: light, dark or as the system says");
    name(".primary-toggle", "Show or hide the chapters");
    name(".secondary-toggle", "Show or hide the contents of this page");
    name("nav.page-toc", "On this page");
    name(".bd-docs-nav", "Chapters");
    name(".bd-sidenav details > summary", "Show or hide what belongs to this chapter");

    // The label of a folded cell should be the text that is seen.
    each("details.hide > summary[aria-label]", (summary) => summary.removeAttribute("aria-label"));

    // The theme's tooltips hold nothing that the label does not, and stay open on touch screens.
    each("[data-bs-toggle=tooltip]", (element) => element.removeAttribute("data-bs-toggle"));

    // A role that the standard has since withdrawn.
    each("[role=doc-biblioentry]", (entry) => entry.setAttribute("role", "listitem"));

    // Two checkboxes only remember whether the side bars are open; the buttons above are their controls.
    each("input.sidebar-toggle", (box) => {
      box.tabIndex = -1;
      box.setAttribute("aria-hidden", "true");
    });
  }

  /** A formula within a sentence that is wider than the sentence becomes a box of its own. */
  function fold() {
    each("span.math > mjx-container", (formula) => {
      formula.classList.remove("wide");
      const room = formula.closest("p, td, li, dd, div").clientWidth;
      formula.classList.toggle("wide", formula.getBoundingClientRect().width > room + 1);
    });
  }

  /** What is wider than the page scrolls inside itself; then the keyboard must be able to reach it. */
  function reachable() {
    each("div.highlight > pre, .pst-scrollable-table-container, .cell_output, div.math, mjx-container.wide", (box) => {
      if (box.scrollWidth > box.clientWidth + 1 && getComputedStyle(box).overflowX !== "visible") box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    });
  }

  const fit = () => {
    fold();
    reachable();
  };
  const ready = () => {
    repair();
    fit();
    addEventListener("resize", fit);
    addEventListener("load", () => window.MathJax?.startup?.promise?.then(fit));
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", ready);
  else ready();
})();
