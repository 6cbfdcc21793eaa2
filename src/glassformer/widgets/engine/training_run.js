// A training as a view sees it: what the server has told so far, and what it may be asked for.
//
//   const run = new TrainingRun(settings, told)   begins; told(what, message) is called for every message
//   run.is            "preparing", "running", "paused", "done", "diverged" or "failed"
//   run.begun         { parameters, characters, config, isFast, shapes, steps, landmarks }, null until then
//   run.step, run.losses, run.held, run.checkpoints, run.speed (steps a second), run.samples [[step, text], …]
//   run.followed      { weight, points: [[step, value, gradient], …] }, or null
//   run.numbers       { name, numbers } of the matrix or vector that the followed weight is in, or null
//   run.slopes, run.attention    the latest answers about a weight and a head
//   run.isSilent      whether its worker has stopped answering
//   run.judged        the loss of the whole held-out text, null until then
//   run.why           a sentence, if it has failed

import { startTraining } from "./training_worker.js";

const OLD = 0.8; // how much of the speed so far counts with each report

export class TrainingRun {
  is = "preparing";
  begun = null;
  step = 0;
  losses = [];
  held = [];
  checkpoints = [];
  samples = [];
  speed = 0;
  followed = null;
  numbers = null;
  slopes = null;
  attention = null;
  judged = null;
  why = "";
  isSilent = false;
  wentBack = false; // to a checkpoint, and nothing has happened since
  inWorker = null; // not known yet
  #worker;
  #told;

  constructor(settings, told) {
    this.settings = settings;
    this.#told = told;
    this.#worker = startTraining((message) => this.#hear(message));
    this.#worker.inWorker.then((inWorker) => {
      this.inWorker = inWorker;
      told("where");
    });
    this.#worker.send({ do: "begin", settings });
  }

  // Trains on to the end.
  go() {
    if (this.is !== "paused") return;
    [this.is, this.wentBack] = ["running", false];
    this.#worker.send({ do: "run" });
  }

  oneStep() {
    if (this.is !== "paused") return;
    this.wentBack = false;
    this.#worker.send({ do: "run", to: this.step + 1 });
  }

  pause() {
    if (this.is !== "running") return;
    this.is = "paused";
    this.#worker.send({ do: "pause" });
  }

  back(step) {
    Object.assign(this, { is: "paused", judged: null, wentBack: true });
    this.#worker.send({ do: "back", step });
  }

  follow(weight) {
    this.followed = { weight, points: [] };
    this.slopes = null;
    this.#worker.send({ do: "follow", weight });
  }

  nudge() {
    this.#worker.send({ do: "nudge", weight: this.followed.weight });
  }

  look(block, head) {
    this.#worker.send({ do: "look", block, head });
  }

  // The model as it is now comes with the message "model".
  askForModel() {
    this.#worker.send({ do: "fetch" });
  }

  stop() {
    this.#worker.stop();
  }

  get isOver() {
    return this.begun !== null && this.step === this.begun.steps;
  }

  // The mean of the last losses before step `at`: of the last quarter, at most 50.
  mean(at = this.losses.length) {
    return meanBefore(this.losses, at);
  }

  #hear({ told, ...message }) {
    if (told === "silent") {
      this.isSilent = message.is;
      return this.#told(told, message);
    }
    this.step = message.step;
    switch (told) {
      case "begun":
        this.begun = message;
        this.is = "paused";
        break;
      case "progress":
        this.#advance(message);
        break;
      case "sample":
        if (this.samples.at(-1)?.[0] === message.step) this.samples.pop();
        this.samples.push([message.step, message.text]);
        break;
      case "numbers":
        this.numbers = message;
        break;
      case "head":
        this.attention = message;
        break;
      case "slopes":
        this.slopes = message;
        break;
      case "judged":
        [this.judged, this.is] = [message.loss, "done"];
        break;
      case "diverged":
        this.is = "diverged";
        break;
      case "failed":
        [this.is, this.why] = ["failed", message.why];
        this.stop();
        break;
    }
    return this.#told(told, message);
  }

  #advance({ step, from, losses, speed, followed, weight, checkpoints, held }) {
    this.losses.length = Math.min(this.losses.length, from);
    this.losses.push(...losses);
    this.samples = this.samples.filter(([when]) => when <= step);
    Object.assign(this, { checkpoints, held });
    if (losses.length) this.speed = this.speed ? OLD * this.speed + (1 - OLD) * speed : speed;
    // What was on its way when the reader chose another weight is of the one before.
    const isOfThis = this.followed && ["name", "i", "j"].every((each) => this.followed.weight[each] === weight?.[each]);
    if (isOfThis) this.followed.points = [...this.followed.points.filter(([when]) => when <= from), ...followed];
  }
}

export function meanBefore(losses, at) {
  const count = Math.min(50, Math.max(1, Math.floor(at / 4)));
  const last = losses.slice(Math.max(0, at - count), at);
  return last.reduce((sum, loss) => sum + loss, 0) / last.length;
}
