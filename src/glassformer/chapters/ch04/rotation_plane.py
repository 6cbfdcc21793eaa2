"""One plane of RoPE: a query and a key, rotated by their positions."""

from traitlets import Int

from glassformer.widgets.kit.view import Number, View


class RotationPlane(View, module="rotation_plane"):
    """Rotate a query and a key by their positions and watch the score: it depends only on their distance.

    The two vectors lie in one of the d_head/2 planes that rotary positions turn (`rotate` with d_head = 2).
    Position p turns a vector by p·θ; the score is the dot product q·k after both turns. A head adds up the
    scores of its planes and divides by √d_head, which this view leaves out.

    Source: Su et al. 2021, "RoFormer", section 3.4. Derived in chapter 04.

    Traits:
        query_angle, key_angle: where the vectors point before they are turned, −180 to 180 degrees.
        query_length, key_length: 0.1 to 1.5.
        query_position, key_position: 0 to 50.
        theta: the plane's frequency θ, 0.001 to 1 radian per position.

    Raises:
        TraitError: a value outside its range.
    """

    query_angle = Number(40.0, min=-180, max=180).tag(sync=True)
    query_length = Number(1.0, min=0.1, max=1.5).tag(sync=True)
    key_angle = Number(100.0, min=-180, max=180).tag(sync=True)
    key_length = Number(1.2, min=0.1, max=1.5).tag(sync=True)
    query_position = Int(7, min=0, max=50).tag(sync=True)
    key_position = Int(3, min=0, max=50).tag(sync=True)
    theta = Number(0.2, min=0.001, max=1).tag(sync=True)
