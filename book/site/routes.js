/* On a page that was opened with ?route=NAME, a line under the title says where on that route it is, and *next*, *previous* and the
 * links to other pages of the route lead along it. route-table.js has the routes (tools/extensions/routes.py). The browser keeps how
 * far the reader has come, for the page that shows progress, under "glassformer.route: NAME". */
(() => {
  "use strict";
  const root = new URL("../", document.currentScript.src);
  const name = new URLSearchParams(location.search).get("route") ?? "";
  if (!Object.hasOwn(window.glassformerRoutes, name)) return;
  const { title, stops } = window.glassformerRoutes[name];
  const pathOf = ({ page }) => new URL(`${page}.html`, root).pathname;
  const place = stops.findIndex((stop) => pathOf(stop) === location.pathname);
  if (place < 0) return;
  const { minutes, sections } = stops[place];

  /** An element with these properties and children. */
  const h = (tag, properties, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };
  const along = (path) => `${path}?route=${name}`;
  const ways = new URL("notebooks/index.html#ways-through-the-book", root).href;

  function remember(reached) {
    try {
      localStorage[reached === null ? "removeItem" : "setItem"](`glassformer.route: ${name}`, reached);
    } catch {
      // Nothing is kept, and the route works as well.
    }
  }

  function line() {
    const where = h("strong", {}, `${title} · ${place + 1} of ${stops.length} · ${minutes} min`);
    const out = h("a", { href: location.pathname + location.hash, onclick: () => remember(null) }, "Leave this route");
    const box = h("nav", { className: "route", ariaLabel: `Your route: ${title}` }, where, " · ", out);
    const links = sections.map(([heading, id]) => h("li", {}, h("a", { href: `#${id}` }, heading)));
    if (links.length) box.append(h("p", {}, "On this route, you read only these sections:"), h("ul", {}, ...links));
    document.querySelector("article h1").after(box);
  }

  function lead(side, rel, href, words) {
    const link = document.querySelector(`.prev-next-area .${side}`);
    if (!link) return;
    link.href = href;
    link.querySelector(".prev-next-title").textContent = words;
    document.querySelector(`link[rel=${rel}]`).href = href;
  }

  const paths = new Set(stops.map(pathOf));
  for (const link of document.querySelectorAll("article a[href], .bd-sidebar-primary a[href]")) {
    const { pathname, search, hash } = new URL(link.href);
    if (paths.has(pathname) && !search) link.href = along(pathname) + hash;
  }
  remember(place);
  line();
  const [before, after] = [stops[place - 1], stops[place + 1]];
  const next = after ? [along(pathOf(after)), after.title] : [ways, "more ways through the book"];
  if (before) lead("left-prev", "prev", along(pathOf(before)), before.title);
  lead("right-next", "next", ...next);
  // At the end of each section that is read, a link leads to the next one, or to the next page.
  sections.forEach(([, id], i) => {
    const [heading, following] = sections[i + 1] ?? [];
    const link = following ? h("a", { href: `#${following}` }, heading) : h("a", { href: next[0] }, next[1]);
    document.getElementById(id).append(h("p", { className: "route" }, `${title}: go on with `, link, "."));
  });
})();
