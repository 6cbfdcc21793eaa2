"""The gallery of classic mistakes. Each consists of a line or two of correct code and what people write instead.

    with put_in("mask-after-softmax"):
        ...  # here every model, in NumPy and in PyTorch, makes that mistake

The code that the gallery shows is the code that runs: `put_in` takes the source of the correct function,
changes the line, and makes the function run the changed code until the block ends. Existing models are
affected too, and gradients flow.

In PyTorch the gradient is that of the wrong forward pass. In NumPy `backward` is unchanged and returns the
gradient of the correct forward pass, so finite differences catch most mistakes there. The backward pass is
also changed, but only where the code could not run otherwise. If the mistake is in the backward pass itself,
nothing else is changed.

The mistakes themselves are in `gallery.toml`, where you can read them and add more. `gallery` reads that
file, `pattern` finds a line however it is formatted, and `engine` replaces it by the wrong one.
"""

from glassformer.bugs.engine import changed, lines, put_in
from glassformer.bugs.gallery import BUGS, ROOMS, Bug, Edit, before, bug

__all__ = ["BUGS", "ROOMS", "Bug", "Edit", "before", "bug", "changed", "lines", "put_in"]
