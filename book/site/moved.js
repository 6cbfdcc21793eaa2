// On a page that only leads to another: goes there, with what follows a question mark or a hash in the address.
location.replace(document.querySelector("a").href + location.search + location.hash);
