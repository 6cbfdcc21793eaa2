// Starts a training server in a worker of its own, so that the page stays free, or on the page where a browser allows no worker,
// as some do for pages opened from disk. This module is also what the worker runs. What trains is loaded only once it is needed.

const load = () => import("./training_server.js");

const IN_WORKER = 30; // milliseconds that the server may compute before it hears messages again
const ON_PAGE = 4; // the same where it shares the page with the reader
const NAME = "glassformer training";
const PULSE = 10_000; // milliseconds after which the page asks the worker for a sign of life
const SILENT = 3; // such questions in a row without any answer: the browser has probably ended it, of which a page is not told

const { WorkerGlobalScope } = globalThis; // only in a worker
if (WorkerGlobalScope && globalThis instanceof WorkerGlobalScope && globalThis.name === NAME) {
  const begin = ({ TrainingServer }) => {
    const server = new TrainingServer((message) => postMessage(message), IN_WORKER);
    addEventListener("message", ({ data }) => (data.do === "live" ? postMessage({ told: "lives" }) : server.receive(data)));
    postMessage({ told: "ready" });
  };
  load().then(begin, () => postMessage({ told: "unable" }));
}

// hear(message) receives what training_server.js tells, and { told: "silent", is } when a worker has stopped answering or answers
// again. Returns { send(message), stop(), inWorker }: inWorker is a promise of
// whether there is a worker.
export function startTraining(hear) {
  let trains = null; // whoever does, once that is known: { send, stop }
  let isStopped = false;
  const waiting = [];
  let tellWhere;
  const inWorker = new Promise((resolve) => (tellWhere = resolve));
  const begin = (who, isWorker) => {
    trains = who;
    if (isStopped) return trains.stop();
    waiting.forEach((message) => trains.send(message));
    return tellWhere(isWorker);
  };
  let unanswered = 0;
  let pulse;
  const failed = (why) => hear({ told: "failed", step: 0, why });
  const onPage = async () => {
    const loaded = await load().catch(() => null);
    if (!loaded) return failed("The code that trains could not be loaded. Check your connection, and then start again.");
    const server = new loaded.TrainingServer(hear, ON_PAGE);
    return begin({ send: (message) => server.receive(message), stop: () => server.stop() }, false);
  };
  try {
    const worker = new Worker(import.meta.url, { type: "module", name: NAME });
    const stop = () => {
      clearInterval(pulse);
      worker.terminate();
    };
    pulse = setInterval(() => {
      if (unanswered++ === SILENT) hear({ told: "silent", is: true });
      worker.postMessage({ do: "live" });
    }, PULSE);
    worker.addEventListener("message", ({ data }) => {
      if (unanswered > SILENT) hear({ told: "silent", is: false });
      unanswered = 0;
      if (data.told === "lives") return;
      if (data.told === "unable") {
        stop();
        onPage();
      } else if (data.told === "ready") begin({ send: (message) => worker.postMessage(message), stop }, true);
      else hear(data);
    });
    worker.addEventListener("error", (event) => {
      event.preventDefault();
      clearInterval(pulse);
      if (!trains) onPage(); // its code could not be loaded
      else failed(event.message || "the browser has ended the training");
    });
  } catch {
    onPage();
  }
  return {
    inWorker,
    send: (message) => (trains ? trains.send(message) : waiting.push(message)),
    stop() {
      isStopped = true;
      trains?.stop();
    },
  };
}
