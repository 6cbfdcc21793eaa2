/* Python for a practice page: one worker (worker.mjs), started by the first request, which answers one request at a time.
 *
 * While Python judges an answer, there is a time limit. If it passes, the worker is ended, because nothing else can stop an
 * endless loop, and another one is started at once.
 */
(() => {
  "use strict";
  const SITE = new URL("..", document.currentScript.src); // the folder _static/
  const PYTHON = new URL("python/", SITE);
  const PACKAGE = new URL("practice/glassformer.tgz", SITE);
  const WORKER = new URL("practice/worker.mjs", SITE);

  const FROM_DISK =
    "Your browser cannot start Python on a page that was opened from disk. Open the published book instead, or start a local" +
    " server in the folder of these pages with “python -m http.server”. In JupyterLab (“make lab”), all exercises work as well.";
  const NO_PYTHON =
    "This copy of the book has no Python for its pages. Your code is safe, and the top of this page says where you can run it.";
  const NO_NETWORK =
    "Python could not be loaded, because the connection failed. Check your connection, then try again. Your code is safe.";
  const TOO_OLD = "This browser cannot run Python in a page. Try a newer browser, or JupyterLab (“make lab”).";
  const NOT_STARTED = "Python could not be started. Your code is safe.";
  const BROKEN = "Python stopped unexpectedly. Your code is safe, and Python starts again with your next try.";
  const STOPPED = "Stopped. Your code is safe.";

  const problem = (words, details = "") => Object.assign(new Error(words), { details });

  /** Throws a problem that a reader can do something about, if Python cannot be loaded here. */
  async function mustBeThere(has) {
    if (!has) throw problem(NO_PYTHON); // without asking for files that are not there
    if (location.protocol === "file:") throw problem(FROM_DISK);
    let answer;
    try {
      answer = await fetch(new URL("files.json", PYTHON));
    } catch {
      throw problem(NO_NETWORK);
    }
    if (answer.status === 404) throw problem(NO_PYTHON);
    if (!answer.ok) throw problem(NO_NETWORK, `${answer.url}: ${answer.status}`);
  }

  class Python {
    static FROM_DISK = FROM_DISK;
    #about; // { chapter, setup } of the page, and whether the site `has` Python for it
    #worker = null;
    #started = null; // a promise, as long as there is a worker or one is being started
    #isReady = false;
    #life = 0; // counts the workers
    #turn = Promise.resolve(); // when all requests so far are answered
    #waiting = 0; // requests that have no answer yet
    #asked = null; // the request that is being answered
    #count = 0;
    #clock;
    constructor(about) {
      this.#about = about;
    }

    get isBusy() {
      return this.#waiting > 0;
    }

    /** Asks for something, and returns the answer. `make` returns { request, loads }, the request and
     *  the archives of data that it needs, when its turn has come. Meanwhile, `watch` is
     *  told: begins(), loading(loaded, total) in bytes, ready(), told(message). */
    ask(make, watch) {
      this.#waiting++;
      const answer = this.#turn.then(() => this.#answer(make, watch)).finally(() => this.#waiting--);
      this.#turn = answer.catch(() => {}); // whoever asked is told
      return answer;
    }

    #answer(make, watch) {
      return new Promise((resolve, reject) => {
        const asked = { id: ++this.#count, watch, resolve, reject, late: null, files: {} };
        this.#asked = asked;
        watch.begins();
        const send = () => {
          if (this.#asked !== asked) return; // it was stopped
          watch.ready();
          this.#worker.postMessage({ id: asked.id, ...make() });
        };
        this.#start().then(send, (error) => this.#asked === asked && this.#finish("reject", error));
      });
    }

    #finish(how, what) {
      clearTimeout(this.#clock);
      const asked = this.#asked;
      this.#asked = null;
      asked?.[how](what);
    }

    #start() {
      this.#started ??= this.#boot(++this.#life);
      return this.#started;
    }

    async #boot(life) {
      try {
        await mustBeThere(this.#about.has);
        if (life !== this.#life) throw problem(STOPPED);
        await new Promise((resolve, reject) => this.#employ(resolve, reject));
        this.#isReady = true;
      } catch (error) {
        if (life === this.#life) this.#end();
        throw error;
      }
    }

    #employ(ready, failed) {
      const worker = new Worker(WORKER, { type: "module" });
      this.#worker = worker;
      const broken = (details) => {
        if (worker !== this.#worker) return;
        const error = problem(this.#isReady ? BROKEN : NOT_STARTED, details);
        this.#end();
        failed(error);
        this.#finish("reject", error);
      };
      worker.addEventListener("error", (event) => broken(event.message ?? TOO_OLD));
      worker.addEventListener("message", ({ data }) => {
        if (worker !== this.#worker) return;
        if (data.says === "loading") this.#asked?.watch.loading(data.loaded, data.total);
        else if (data.says === "ready") ready();
        else if (data.says === "broken") broken(data.text);
        else if (data.id === this.#asked?.id) this.#hear(data);
      });
      const { chapter, setup } = this.#about;
      worker.postMessage({ do: "start", python: PYTHON.href, package: PACKAGE.href, chapter, setup });
    }

    #hear({ told, answer }) {
      if (answer) this.#finish("resolve", answer);
      else if (told.says === "late") this.#asked.late = told;
      else if (told.says === "files") this.#asked.files = told.files;
      else if (told.says === "begin") this.#limit(told.seconds);
      else if (told.says === "end") clearTimeout(this.#clock);
      else this.#asked.watch.told(told);
    }

    #limit(seconds) {
      clearTimeout(this.#clock);
      this.#clock = setTimeout(() => this.#late(), seconds * 1000);
    }

    #late() {
      const { late, files } = this.#asked;
      const { panel, right = false, before = [] } = late;
      this.#end();
      this.#finish("resolve", { panels: [...before, panel], right, files, isLate: true });
      this.#start().catch(() => {}); // so that the next request finds it ready
    }

    #end() {
      this.#worker?.terminate();
      this.#worker = this.#started = null;
      this.#isReady = false;
      this.#life++;
    }

    /** Stops what is being loaded or run. */
    stop() {
      const wasReady = this.#isReady;
      this.#end();
      this.#finish("reject", problem(STOPPED));
      if (wasReady) this.#start().catch(() => {});
    }
  }

  Object.assign(window.glassformerPractice, { Python });
})();
