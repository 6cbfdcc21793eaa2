"""Tests the cost of a drag by counting, not timing: one redraw per frame, and no more new elements than needed."""

import pytest

from glassformer import widgets

DRAG = """async (input) => {
  const drawing = input.closest(".gf-widget").querySelector(".gf-drawing");
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const redraws = [];
  const elements = (records) =>
    records.flatMap((record) => [...record.addedNodes].filter((node) => node.nodeType === Node.ELEMENT_NODE))
      .reduce((n, element) => n + 1 + element.querySelectorAll("*").length, 0);
  const watch = new MutationObserver((records) => redraws.push(elements(records)));
  watch.observe(drawing, { subtree: true, childList: true, attributes: true, characterData: true });
  await frame();
  for (let event = 1; event <= 30; event++) {
    input.stepUp(Number(input.value) < Number(input.max) ? 1 : -1);
    input.dispatchEvent(new Event("input", { bubbles: true }));
    if (event % 3 === 0) await frame();
  }
  await frame();
  watch.disconnect();
  return redraws;
}"""

# The most elements that one redraw may make. Lines, letters and shapes that stay are not made again.
MADE = {
    "ActivationExplorer": {"x": 0},
    "PositionHeatmap": {"Row": 0, "Base": 0, "Positions": 60, "Dimensions D": 60},  # the axes
    # Where the dashed hands point
    "ClockHands": {"Position p": 2 * 4, "Step n": 4 * 4, "Base": 4 * 4},
    "DepthExplorer": {"Gain of the matrices": 60},  # the axes
    # Arrows, arcs and their names
    "RotationPlane": {"Query’s position m": 30, "Key’s position n": 30, "Frequency θ (rad/position)": 30},
    # The plots beside the matrix: a bar for each of 32 keys, three shapes a head
    "DistanceBias": {"Query": 0, "Key": 0, "Head": 110},
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", MADE)
def test_a_drag_redraws_once_a_frame_and_makes_little(mount, name):
    view = mount(getattr(widgets, name)())
    for label, most in MADE[name].items():
        view.rest()
        redraws = view.control(label).evaluate(DRAG)
        assert 1 <= len(redraws) <= 11, label  # thirty events in ten frames, and the label at rest
        assert max(redraws) <= most, label


def test_a_dragged_card_is_moved_once_a_frame_and_its_colours_are_left_alone(mount):
    view = mount(widgets.ShuffleSentence())
    view.rest()
    card = view.root.locator(".gf-card").nth(2)
    box = card.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + 10
    view.page.mouse.move(x, y)
    view.page.mouse.down()
    view.page.mouse.move(x + 8, y)
    view.settle()
    moves, made = card.evaluate(
        """async (card) => {
          const frame = () => new Promise((done) => requestAnimationFrame(done));
          const records = [];
          let redraws = 0;
          const watch = new MutationObserver((list) => records.push(...list) && redraws++);
          watch.observe(card.closest("ol"), { subtree: true, childList: true, attributes: true });
          const { x, y } = card.getBoundingClientRect();
          await frame();
          for (let i = 1; i <= 30; i++) {
            const at = { clientX: x + 60 + (i % 3), clientY: y + 10, bubbles: true };
            card.dispatchEvent(new PointerEvent("pointermove", at));
            if (i % 3 === 0) await frame();
          }
          await frame();
          return [redraws, records.filter((record) => record.addedNodes.length).length];
        }"""
    )
    assert 1 <= moves <= 10
    assert made == 0
    view.page.mouse.up()
