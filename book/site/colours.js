/* Whether the page is light or dark: as the reader chose, or as the system says. It is settled before anything is seen, and not at
 * the end of the page, where the theme does it, so that a dark page never flashes white. */
(({ dataset }) => {
  try {
    localStorage.getItem("mode");
  } catch {
    // A browser that gives the page no storage. What the theme keeps lasts as long as the page, so its switch works. What the book
    // keeps is refused as before, so no view promises to keep it.
    const kept = new Map();
    const theirs = (key) => {
      if (key.startsWith("glassformer.")) throw new DOMException("This browser gives the page no storage.", "SecurityError");
      return key;
    };
    const value = {
      getItem: (key) => kept.get(theirs(key)) ?? null,
      setItem: (key, text) => kept.set(theirs(key), text),
      removeItem: (key) => kept.delete(theirs(key)),
    };
    Object.defineProperty(window, "localStorage", { value });
  }
  dataset.mode = localStorage.getItem("mode") || "auto";
  dataset.theme = localStorage.getItem("theme") || "light";
  if (dataset.mode === "auto") dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
})(document.documentElement);
