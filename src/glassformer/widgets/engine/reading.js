// How a model reads and computes a little at a time, so that the page stays responsive.

// Milliseconds of work before the page gets a turn. The last step of a slice begins within them and takes a few more.
export const SLICE = 4;

const channel = new MessageChannel();
const resumed = [];
channel.port1.addEventListener("message", () => resumed.shift()());
channel.port1.start();

// The page's turn, or that of a worker's messages.
export const pause = () =>
  new Promise((resume) => {
    resumed.push(resume);
    channel.port2.postMessage(0);
  });

// Run a generator that pauses, such as the `steps` of a Transformer, in slices. Returns its result, or undefined if it is no
// longer needed when its turn comes.
export async function inSlices(steps, wanted = () => true) {
  let began = performance.now();
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
    if (performance.now() - began < SLICE) continue;
    await pause();
    if (!wanted()) return undefined;
    began = performance.now();
  }
}

// What a decoder has read: ids, and for each position the result of `look` on its trace. If a text begins like the last one,
// only the rest is read, because no position depends on later ones.
export class Reading {
  constructor(transformer, look) {
    this.transformer = transformer;
    this.look = look;
    this.cache = transformer.newCache();
    this.ids = [];
    this.positions = [];
    this.turn = 0;
  }

  // Read ids, one position at a time, and call `progress` after every slice. Returns whether all of them were read: another
  // call may have started meanwhile.
  async read(ids, progress) {
    const turn = ++this.turn;
    const differs = this.ids.findIndex((id, t) => id !== ids[t]);
    this.#forget(differs < 0 ? this.ids.length : differs);
    let began = performance.now();
    while (this.ids.length < ids.length) {
      this.#next(ids[this.ids.length]);
      if (performance.now() - began < SLICE) continue;
      progress?.();
      await pause();
      if (turn !== this.turn) return false;
      began = performance.now();
    }
    return true;
  }

  #forget(from) {
    this.cache.length = from;
    this.ids.length = this.positions.length = from;
  }

  #next(id) {
    const seen = [];
    this.transformer.forward([id], { cache: this.cache, see: (one) => seen.push(one) });
    this.positions.push(this.look(seen, this.transformer));
    this.ids.push(id);
  }
}
