/* Whether the page is light or dark: as the reader chose, or as the system says. It is settled before anything is seen, and not at
 * the end of the page, where the theme does it, so that a dark page never flashes white. */
(({ dataset }) => {
  dataset.mode = localStorage.getItem("mode") || "auto";
  dataset.theme = localStorage.getItem("theme") || "light";
  if (dataset.mode === "auto") dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
})(document.documentElement);
