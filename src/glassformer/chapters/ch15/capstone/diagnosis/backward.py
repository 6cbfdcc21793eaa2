"""Tells from which gradients are wrong, and which right, in which line of a backward pass the mistake must be.

A backward pass goes from the loss to the table. So the mistake is just before the first gradients that are wrong: in
the last block that has any, and there nearest to its end. What a weight is for is read off its name, if that is one
of the usual ones.
"""

import re
from collections.abc import Collection

ROLES = {
    "q": ("q", "wq", "query", "queries"),
    "k": ("k", "wk", "key", "keys"),
    "v": ("v", "wv", "value", "values"),
    "o": ("o", "wo", "out", "output"),
    "up": ("up", "wup", "wu", "fc", "fc1", "cfc", "w1"),
    "gate": ("gate", "wgate", "wg"),
    "down": ("down", "wdown", "wd", "fc2", "w2"),
}
GAINS = ("norm", "ln", "gain")  # somewhere in the name of what belongs to a norm
NO_ROLE = {"w", "weight", "proj", "c", "linear"}


def _role(name: str) -> str:
    """Returns what a weight of this name is for; "" if its name does not say."""
    if any(part in name.lower() for part in GAINS):
        return "norm"
    if name.lower().endswith(("bias", ".b")):
        return ""
    parts = [part for part in re.split(r"[^a-z0-9]+", name.lower()) if part]
    for part in reversed([one for one in parts if one not in NO_ROLE]):
        for role, names in ROLES.items():
            if part in names or re.sub(r"\d+$", "", part) in names:
                return role
    return ""


def block_of(name: str) -> int:
    """Returns the number of a weight's block; −1 if it belongs to none."""
    found = re.search(r"(?<![a-z0-9])\d+|(?<=[a-z_])\d+(?=[._])", name.lower())
    return int(found[0]) if found else -1


def _without_block(name: str) -> str:
    """Returns a weight's name without the number of its block, the same for all blocks."""
    return re.sub(r"\d+", "i", name, count=1)


def culprit(wrong: Collection[str], right: Collection[str]) -> str:
    """Returns the mistake that explains which gradients are wrong; "gradient", which lists more, if none does."""
    if len(wrong) == 1 and len(right) > 1:
        return "gradient-gain" if _role(next(iter(wrong))) == "norm" else "gradient-of-one"
    if len({_without_block(name) for name in wrong}) == 1 and len(right) > len(wrong):
        return "gradient-of-one"
    if {_role(name) for name in wrong} == {"norm"} and any(_role(name) for name in right):
        return "gradient-gain"
    roles = {_role(name) for name in wrong}
    if len(roles) == 1 and "" not in roles and any(_role(name) not in roles for name in right):
        return "gradient-of-one"
    last = max(map(block_of, wrong))
    if last < 0 or any(block_of(name) < 0 for name in wrong if _role(name) not in ("", "norm")):
        return "gradient"
    bad, good = ({_role(name) for name in some if block_of(name) == last} - {""} for some in (wrong, right))
    mixed = (bad & good) - {"norm"}
    if not mixed and "down" in good and {"up", "gate"} & bad:
        return "gradient-activation"
    if mixed or not {"q", "k", "v", "o"} <= bad | good:
        return "gradient"
    if bad == {"norm"}:
        return "gradient-of-sum"
    network = {"up", "gate", "down"}
    if network & bad:
        return "gradient-into-block" if bad >= {"q", "k", "v", "o", "down"} else "gradient"
    if bad >= {"q", "k", "v", "o"}:
        return "gradient-between" if network & good else "gradient-into-block"
    by_attention: dict[tuple[str, ...], str] = {
        ("q", "k"): "gradient-scores",
        ("q",): "gradient-of-queries",
        ("k",): "gradient-of-keys",
        ("v",): "gradient-values",
        ("q", "k", "v"): "gradient-heads",
    }
    return by_attention.get(tuple(one for one in "qkvo" if one in bad), "gradient")
