// Runs a Training and answers a view's messages, in a worker (training_worker.js) or, in short slices, on the page.
//
//   { do: "begin", settings, kind }   start anew; settings and kind as in training.js
//   { do: "run", to }                 train until that step, or to the end if it is missing
//   { do: "pause" }
//   { do: "back", step }              to a checkpoint
//   { do: "follow", weight }          { name, i, j }: report its value and gradient at every step, and all numbers of the matrix or
//                                     vector `name` now and then; null: no longer
//   { do: "look", block, head }       report that head's attention weights from now on; block null: no longer
//   { do: "nudge", weight }           measure the slope along one weight in two ways
//   { do: "judge" }                   the loss of the whole held-out text
//   { do: "fetch" }                   the model as it is now
//
// What it tells (`told`), always with the `step` that it belongs to:
//   "begun"     { parameters, characters, config, landmarks, isFast, shapes, steps }
//   "progress"  { from, losses, gradients, speed, isRunning, followed, checkpoints, held }: the losses of steps from, …; `speed`
//               in steps a second; followed [[step, value, gradient], …] of `weight` since the last time; held [[step, loss], …], all so far
//   "sample"    { text }
//   "numbers"   { name, numbers }: all of the matrix or vector of the followed weight, row by row
//   "head"      { block, head, shares, size, read }: attention weights (size, size) for the characters that were read
//   "slopes"    { weight, value, loss, gradient, nudge, losses, difference }
//   "judged"    { loss }
//   "model"     { config, characters, tensors }
//   "diverged"  { loss }: it is not a number any more, and training has stopped
//   "failed"    { why }: a sentence

import { pause } from "./reading.js";
import { Training } from "./training.js";
import { NotFinite, weightsOf } from "./transformer.js";

const [REPORT, SAMPLE, LOOK] = [150, 4000, 600]; // milliseconds between two reports, samples, and looks at a head, at least
const EVERY = 250; // steps between two checkpoints, when a part of the held-out text is judged
const PART = 20; // batches of it
const STOPPED = new Error("stopped");

export class TrainingServer {
  #tell;
  #slice;
  #training = null;
  #asked = []; // messages that wait for their turn, between two steps
  #isBusy = false;
  #isStopped = false;
  #end = 0; // the step to train to
  #wasRunning = false; // and what was found has not been shown since
  #followed = null;
  #looked = null;
  #seen = []; // of the followed weight, since the last report
  #held = []; // [step, loss] of a part of the held-out text
  #reported = { at: 0, step: 0 };
  #sampled = 0; // when
  #lookedAt = 0;
  #began = 0; // when this slice did

  // tell(message) receives every answer; `slice` is how many milliseconds it may compute before others get a turn.
  constructor(tell, slice) {
    this.#tell = (told, message = {}) => tell({ told, step: this.#training?.step ?? 0, ...message });
    this.#slice = slice;
  }

  receive(message) {
    if (message.do === "pause") this.#end = 0; // after the step that is under way
    else this.#asked.push(message);
    this.#work();
  }

  // Ends everything, within a slice.
  stop() {
    this.#isStopped = true;
  }

  async #work() {
    if (this.#isBusy) return;
    this.#isBusy = true;
    while (!this.#isStopped) {
      try {
        if (this.#asked.length) await this.#answer(this.#asked.shift());
        else if (this.#training && this.#training.step < this.#end) await this.#step();
        else if (this.#wasRunning) await this.#rest();
        else break;
      } catch (error) {
        if (error === STOPPED) break;
        [this.#end, this.#wasRunning] = [0, false];
        this.#tell("failed", { why: error.message });
      }
    }
    this.#isBusy = false;
  }

  async #answer(message) {
    const training = this.#training;
    if (!training && message.do !== "begin") return undefined; // it could not begin, which has been told
    switch (message.do) {
      case "begin":
        return this.#begin(message);
      case "run":
        this.#end = Math.min(message.to ?? Infinity, training.recipe.steps);
        this.#reported.at = performance.now();
        return this.#report();
      case "back":
        [this.#end, this.#wasRunning] = [0, false];
        training.goBack(message.step);
        this.#held = this.#held.filter(([step]) => step <= message.step);
        this.#seen = [];
        this.#reported.step = message.step;
        this.#report();
        await this.#look();
        return this.#sample();
      case "follow":
        [this.#followed, this.#seen] = [message.weight, []];
        return this.#lookAtNumbers();
      case "look":
        this.#looked = message.block === null ? null : message;
        return this.#lookAtHead();
      case "nudge":
        return this.#tell("slopes", { weight: message.weight, ...(await this.#finished(training.slopes(message.weight))) });
      case "judge":
        return this.#tell("judged", { loss: await this.#finished(training.heldOut()) });
      case "fetch":
        return this.#tell("model", { config: training.config, characters: training.text.known.join(""), tensors: training.tensors() });
      default:
        throw new Error(`nobody knows what ${JSON.stringify(message.do)} means`);
    }
  }

  async #begin({ settings, kind }) {
    [this.#end, this.#wasRunning, this.#training] = [0, false, null];
    const training = await this.#finished(Training.of(settings, kind));
    [this.#training, this.#seen, this.#held, this.#followed, this.#looked] = [training, [], [], null, null];
    this.#reported = { at: performance.now(), step: 0 };
    const { parameters, config, isFast, text, recipe } = training;
    const landmarks = await this.#finished(text.landmarks());
    const characters = text.known.join("");
    this.#tell("begun", { parameters, config, isFast, landmarks, characters, shapes: Object.fromEntries(weightsOf(config)), steps: recipe.steps });
    await this.#judgePart();
    this.#report();
    await this.#sample();
  }

  async #step() {
    const training = this.#training;
    this.#wasRunning = true;
    const loss = await this.#finished(training.train());
    if (!Number.isFinite(loss)) {
      [this.#end, this.#wasRunning] = [0, false];
      this.#report();
      return this.#tell("diverged", { loss });
    }
    if (this.#followed) this.#seen.push([training.step, ...training.weight(this.#followed)]);
    if (training.step % EVERY === 0 || training.step === training.recipe.steps) {
      training.keep();
      await this.#judgePart();
    }
    const now = performance.now();
    if (now - this.#reported.at > REPORT) this.#report();
    if (now - this.#lookedAt > LOOK) await this.#look();
    if (now - this.#sampled > SAMPLE) await this.#sample();
    return undefined;
  }

  // When training stops, everything is shown as it is then; at the end, the whole held-out text is judged.
  async #rest() {
    this.#wasRunning = false;
    this.#report();
    await this.#look();
    await this.#sample();
    if (this.#training.step === this.#training.recipe.steps) await this.#answer({ do: "judge" });
  }

  async #judgePart() {
    const training = this.#training;
    const loss = await this.#finished(training.heldOut(PART));
    this.#held = [...this.#held.filter(([step]) => step < training.step), [training.step, loss]];
  }

  #report() {
    const training = this.#training;
    const now = performance.now();
    const { at, step: from } = this.#reported;
    this.#tell("progress", {
      from,
      losses: training.losses.slice(from),
      gradients: training.gradients.slice(from),
      speed: now > at ? (1000 * (training.step - from)) / (now - at) : 0,
      isRunning: training.step < this.#end,
      followed: this.#seen,
      weight: this.#followed,
      checkpoints: training.checkpoints.map(({ step }) => step),
      held: this.#held,
    });
    this.#seen = [];
    this.#reported = { at: now, step: training.step };
  }

  async #sample() {
    try {
      this.#tell("sample", { text: await this.#finished(this.#training.write()) });
    } catch (error) {
      if (!(error instanceof NotFinite)) throw error; // it writes nothing, and the next step tells that training has diverged
    }
    this.#sampled = performance.now();
  }

  async #look() {
    this.#lookAtNumbers();
    await this.#lookAtHead();
    this.#lookedAt = performance.now();
  }

  #lookAtNumbers() {
    if (!this.#followed) return;
    const { name } = this.#followed;
    this.#tell("numbers", { name, numbers: this.#training.numbersOf(name) });
  }

  async #lookAtHead() {
    if (!this.#looked) return;
    const { block, head } = this.#looked;
    const { text } = this.#training;
    const shares = await this.#finished(this.#training.head(block, head));
    const read = [...text.heldOut.subarray(0, text.length)].map((id) => text.known[id]);
    this.#tell("head", { block, head, shares, size: text.length, read });
  }

  // A generator's result, in slices. A slice may hold the end of one generator and the beginning of the next: small steps, too,
  // must let messages in.
  async #finished(steps) {
    for (;;) {
      const { done, value } = steps.next();
      if (done) return value;
      if (performance.now() - this.#began < this.#slice) continue;
      await pause();
      if (this.#isStopped) throw STOPPED;
      this.#began = performance.now();
    }
  }
}
