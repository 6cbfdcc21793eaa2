"""Checks the numbers and inputs of routed experts."""

from typing import Any

from glassformer._checks.numbers import divisible, door, not_negative, positive, whole


def chosen_experts(n_experts: Any, top_k: Any, n_groups: Any, top_groups: Any, group_best: Any) -> None:
    """Checks that as many experts can be chosen, in as many groups."""
    given = {"n_experts": n_experts, "top_k": top_k, "n_groups": n_groups, "top_groups": top_groups}
    for name, value in (given | {"group_best": group_best}).items():
        whole(name, value)
    divisible("n_experts", n_experts, "n_groups", n_groups)
    size = n_experts // n_groups
    for name, value, most, what in (
        ("top_groups", top_groups, n_groups, "n_groups"),
        ("group_best", group_best, size, "n_experts / n_groups"),
        ("top_k", top_k, top_groups * size if n_groups > 1 else n_experts, "the experts to choose from"),
    ):
        if value > most:
            raise ValueError(f"{name}={value} must be at most {what}, {most}")


def limited_gate(limit: Any, offset: Any, sharpness: Any, gate: Any) -> None:
    """Checks what bounds a gate, and that there is one."""
    if limit is not None:
        positive("limit", limit)
    not_negative("offset", offset)
    positive("sharpness", sharpness)
    if gate is None and (limit, offset, sharpness) != (None, 0.0, 1.0):
        raise ValueError(
            f"limit={limit}, offset={offset} and sharpness={sharpness} need a gate, which this activation lacks"
        )


def ids_for_table(ids: Any) -> None:
    """Checks that there are ids, by which a table chooses experts."""
    if ids is None and not door.closed:
        raise ValueError("ids are missing: the table of this router chooses experts by them")
