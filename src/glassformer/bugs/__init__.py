"""The gallery of classic mistakes. Each is a line or two of the right code, and what people write instead.

    with put_in("mask-after-softmax"):
        ...  # here every model, in NumPy and in PyTorch, makes that mistake

What the gallery shows is what runs: `put_in` takes the source of the right function, changes the line, and lets
the function run the changed code until the block ends. Models need not be made anew, and gradients flow.

In PyTorch the gradient is that of the wrong forward. In NumPy `backward` stays as it was, and gives the gradient
of the right one: so finite differences notice most mistakes there. Changed along with it is only what could not
run otherwise, and changed alone where the mistake is one of the way back.

The mistakes themselves are in `gallery.toml`, to be read and added to; `gallery` reads it, `pattern` finds a line
however it is set, and `engine` puts the wrong one in its place.
"""

from glassformer.bugs.engine import put_in
from glassformer.bugs.gallery import BUGS, ROOMS, Bug, Edit, bug

__all__ = ["BUGS", "ROOMS", "Bug", "Edit", "bug", "put_in"]
