"""Tests weights.js against all ways in which a kernel or a page can answer: at once, in parts, late, never, badly."""

import itertools

import pytest
from linking import base64_of, fields, link

from glassformer.widgets.engine.model import source_of

PAGE = """([config, text]) => {
  const bytes = bytesOf(text);
  const file = (length) => new DataView(bytes.slice(0, length).buffer);
  // A view's model, and what somebody behind it answers.
  window.viewOf = (digest, changes = {}) => {
    const listeners = new Set();
    const tell = (more, ...buffers) => [...listeners].forEach((hear) => hear({ answer: "weights", ...more }, buffers));
    return {
      asked: [],
      listeners,
      get: (name) => ({ _digest: digest, _config: { ...config, ...changes } })[name],
      on: (event, hear) => event === "msg:custom" && listeners.add(hear),
      off: (event, hear) => event === "msg:custom" && listeners.delete(hear),
      send(message) {
        this.asked.push(message);
      },
      progress: (received, total = 4_000_000) => tell({ received, total }),
      problem: (problem, final) => tell({ problem, final }),
      file: (length) => tell({}, file(length)),
      other: () => tell({ answer: "something else", problem: "none of this" }),
    };
  };
  // What a reader sees of a view that uses it, and a diary of what it was told.
  window.shown = (model) => {
    const el = document.body.appendChild(document.createElement("div"));
    const view = js.frame(el, { title: "A view", hint: "" });
    const diary = [];
    const weights = js.weightsFor(model, {
      view,
      told: () => diary.push([weights.words(), view.line.getAttribute("aria-live")]),
      again: () => diary.push("again"),
    });
    const retry = weights.retry.firstChild;
    return { weights, diary, retry, offers: () => (weights.retry.hidden ? "" : retry.textContent) };
  };
  window.settled = (promise) => promise.then((made) => made.constructor.name, (error) => js.reasonOf(error));
}"""
numbers = itertools.count()
NO_KERNEL = (
    "No kernel responds. Run this cell in JupyterLab to load the model. If the kernel is busy, the model comes as soon "
    "as it is free."
)


@pytest.fixture(scope="module")
def linked(browser):
    source = source_of("dates")
    page = browser.new_page()
    page.clock.install()
    link(page, "kit", "weights").evaluate(PAGE, [fields(source.config), base64_of(source.weights)])
    yield page
    page.close()


@pytest.fixture
def run(linked):
    """Runs an async function on the page with a name of weights that nobody has asked for yet."""
    return lambda function: linked.evaluate(function, f"weights {next(numbers)}")


def test_two_views_load_their_model_once(run):
    result = run(
        """async (digest) => {
          const views = [digest, digest, `another ${digest}`].map((name) => viewOf(name));
          const users = views.map((view) => shown(view).weights);
          const states = [js.stateOf(views[0]).is];
          const loading = users.map((user) => user.model());
          states.push(js.stateOf(views[1]).is, users[1].state().is);
          views.forEach((view) => view.other());
          views.forEach((view) => view.file());
          const results = await Promise.all(loading.map(settled));
          states.push(js.stateOf(views[1]).is, users[1].state().is);
          const same = (await users[0].model()) === (await users[1].model());
          return [results, same, states, views.map(({ asked }) => asked), views.map(({ listeners }) => listeners.size)];
        }"""
    )
    asked = [{"ask": "weights"}]
    states = ["idle", "loading", "loading", "ready", "ready"]
    assert result == [["Transformer"] * 3, True, states, [asked, [], asked], [0, 0, 0]]


def test_progress_is_told_in_tenths_of_a_megabyte_and_aloud_at_every_quarter(run):
    unknown, diary, end = run(
        """async (digest) => {
          const view = viewOf(digest);
          const { weights, diary } = shown(view);
          weights.model();
          const amounts = [0, 50_000, 120_000, 130_000, 900_000, 1_000_000, 1_100_000, 3_999_999];
          for (const received of amounts) view.progress(received);
          view.progress(4_000_000, null);
          const unknown = weights.words();
          view.file();
          await weights.model();
          return [unknown, diary.slice(0, 7), diary.at(-1)];
        }"""
    )
    assert unknown == "Loading the model: 4.0 MB so far."
    assert end == ["", "polite"]
    assert diary == [
        ["Waiting for the model …", "polite"],
        ["Loading the model: 0.0 of 4.0 MB.", "off"],
        ["Loading the model: 0.1 of 4.0 MB.", "off"],
        ["Loading the model: 0.9 of 4.0 MB.", "off"],
        ["Loading the model: 1.0 of 4.0 MB.", "polite"],
        ["Loading the model: 1.1 of 4.0 MB.", "off"],
        ["Loading the model: 4.0 of 4.0 MB.", "polite"],
    ]


def test_failures_are_told_in_words_and_may_be_tried_again(run):
    found = run(
        """async (digest) => {
          const view = viewOf(digest);
          const { weights, diary, offers, retry } = shown(view);
          const told = [];
          const attempt = async (answer) => {
            const coming = weights.model();
            answer();
            told.push([await settled(coming), offers(), js.stateOf(view).is]);
          };
          await attempt(() => view.problem("The connection failed."));
          await attempt(() => view.problem("There is no such model.", true));
          await attempt(() => view.file(4));
          view.send = () => { throw new Error("nobody is there"); };
          await attempt(() => {});
          view.send = () => Promise.reject(new Error("nobody is there"));
          await attempt(() => {});
          view.send = (message) => { view.asked.push(message); view.file(); };
          retry.click();
          told.push([await settled(weights.model()), offers(), js.stateOf(view).is]);
          return [told, view.asked, diary.filter((each) => each === "again").length, view.listeners.size];
        }"""
    )
    told, asked, again, listeners = found
    damaged = told[2].pop(0)
    button = "Load the model again"
    assert damaged.startswith("The model has arrived, but there is a problem: ")
    assert told == [
        ["The model could not be loaded. The connection failed.", button, "failed"],
        ["There is no such model.", "", "failed"],
        [button, "failed"],
        [NO_KERNEL, button, "failed"],
        [NO_KERNEL, button, "failed"],
        ["Transformer", "", "ready"],
    ]
    anew = {"ask": "weights", "anew": True}
    assert asked == [{"ask": "weights"}, anew, anew, anew]
    assert (again, listeners) == (1, 0)


def test_a_model_that_the_page_cannot_run_is_refused(run):
    told = run(
        """(digest) => {
          const view = viewOf(digest, { positions: "t5" });
          const coming = shown(view).weights.model();
          view.file();
          return settled(coming);
        }"""
    )
    assert told == (
        "The model has arrived, but there is a problem: this model cannot be run here: "
        'positions="t5" is not "rope".'
    )


def test_when_nobody_answers_it_says_so_and_a_late_answer_is_still_taken(run, linked):
    run(
        """(digest) => {
          window.late = viewOf(digest);
          window.user = shown(late);
          window.told = settled(user.weights.model());
        }"""
    )
    linked.clock.run_for(9_000)
    assert linked.evaluate("[user.weights.words(), user.offers()]") == ["Waiting for the model …", ""]
    linked.clock.run_for(2_000)
    assert linked.evaluate("told") == NO_KERNEL
    assert linked.evaluate("[user.weights.words(), user.offers()]") == ["", "Load the model again"]
    assert linked.evaluate("() => { late.file(); return settled(user.weights.model()); }") == "Transformer"
    found = linked.evaluate("[js.stateOf(late).is, user.offers(), user.diary.at(-1), late.listeners.size]")
    assert found == ["ready", "", "again", 0]


def test_a_download_that_pauses_is_told_and_goes_on(run, linked):
    run(
        """(digest) => {
          window.late = viewOf(digest);
          window.user = shown(late);
          window.told = settled(user.weights.model());
        }"""
    )
    for received in (1_000_000, 1_200_000):
        linked.clock.run_for(9_000)
        linked.evaluate("received => late.progress(received)", received)
    linked.clock.run_for(11_000)
    assert linked.evaluate("told") == (
        "The model is loading slowly: 1.2 of 4.0 MB have arrived, but nothing in the last 10 seconds. You can wait or "
        "try again."
    )
    # Who asks again while bytes arrive waits for them.
    assert linked.evaluate(
        """async () => {
          late.progress(1_300_000);
          const again = settled(user.weights.model());
          const words = user.weights.words();
          late.file();
          return [words, await again, late.asked.length];
        }"""
    ) == ["Loading the model: 1.3 of 4.0 MB.", "Transformer", 1]


def test_a_view_without_a_kernel_does_not_stand_in_the_way_of_one_that_has_one(run, linked):
    run(
        """(digest) => {
          window.stored = viewOf(digest);
          window.fresh = viewOf(digest);
          window.told = [stored, fresh].map((view) => settled(shown(view).weights.model()));
        }"""
    )
    assert linked.evaluate("[stored, fresh].map(({ asked }) => asked.length)") == [1, 0]
    linked.clock.run_for(10_001)
    assert linked.evaluate("[stored, fresh].map(({ asked }) => asked.length)") == [1, 1]
    linked.evaluate("fresh.file()")
    assert linked.evaluate("Promise.all(told)") == ["Transformer", "Transformer"]


def test_a_view_whose_cell_has_not_been_run_says_so_at_once_until_another_has_loaded_the_model(run):
    said, *rest = run(
        """async (digest) => {
          const stored = Object.assign(viewOf(digest), { hasNoKernel: () => true });
          const fresh = Object.assign(viewOf(digest), { hasNoKernel: () => false });
          const first = shown(stored);
          const said = await settled(first.weights.model());
          const offered = first.offers();
          const second = settled(shown(fresh).weights.model());
          fresh.file();
          return [said, offered, stored.asked.length, await second, first.diary.at(-1)];
        }"""
    )
    assert said == (
        "This cell has not been run since the kernel was started. Select it and press Shift+Enter to load the model."
    )
    assert rest == ["", 0, "Transformer", "again"]


def test_a_view_that_is_gone_is_told_nothing(run):
    assert (
        run(
            """async (digest) => {
          const view = viewOf(digest);
          const { weights, diary } = shown(view);
          weights.model();
          weights.stop();
          diary.length = 0;
          view.progress(1_000_000);
          view.file();
          await weights.model();
          return diary;
        }"""
        )
        == []
    )


def test_online_again_it_loads_by_itself(run):
    assert run(
        """async (digest) => {
          const view = viewOf(digest);
          const { weights, diary } = shown(view);
          const coming = settled(weights.model());
          view.problem("You are offline.");
          await coming;
          dispatchEvent(new Event("online"));
          view.file();
          await weights.model();
          return [view.asked.length, diary.at(-1)];
        }"""
    ) == [2, "again"]
