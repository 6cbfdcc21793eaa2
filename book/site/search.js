/* What is found is a section: the index names it page#section (tools/pages/search.py). Sphinx's list of results gets the two apart,
 * and beside a section the page that it is on. */
(() => {
  "use strict";
  Documentation.TRANSLATIONS["Search finished, found ${resultCount} page(s) matching the search query."] =
    "Found in ${resultCount} places.";
  const found = Search._performSearch;
  Search._performSearch = (...query) => {
    const { docnames, titles } = Search._index;
    return found(...query).map(([name, title, anchor, description, ...rest]) => {
      const [page, section] = name.split("#");
      if (!section) return [page, title, anchor, description, ...rest];
      return [page, title, anchor || `#${section}`, titles[docnames.indexOf(page)], ...rest];
    });
  };

  const field = document.querySelector("form.bd-search input");
  field?.focus();
  field?.select();
})();
