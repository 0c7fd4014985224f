"""Names of the coordinates of vectors, for pictures and the live view."""

from __future__ import annotations

from matrixrl.envs import CONTROL

__all__ = ["coordinate_names", "length_scale_names"]


def coordinate_names(n_coordinates: int, env: str | None = None) -> list[str]:
    """Return x0, x1, … with the label of each coordinate where the environment is one of `CONTROL`.

    >>> coordinate_names(2), coordinate_names(2, "mountain-car")
    (['x0', 'x1'], ['x0, position', 'x1, speed'])
    """
    labels = CONTROL[env].axes if env in CONTROL else ()
    if len(labels) != n_coordinates:
        return [f"x{i}" for i in range(n_coordinates)]
    return [f"x{i}, {label}" for i, label in enumerate(labels)]


def length_scale_names(n_coordinates: int, n_scales: int, *, is_box: bool, env: str | None = None) -> list[str]:
    """Return the names of the length scales of KernelControl: those of the state, then those of the action.

    Args:
        n_coordinates: Length p of an observation.
        n_scales: Number of length scales; discrete actions share one.
        is_box: Whether actions are continuous.
        env: Name of the environment.

    >>> length_scale_names(1, 3, is_box=True), length_scale_names(2, 3, is_box=False)
    (['x0', 'u0', 'u1'], ['x0', 'x1', 'action'])
    """
    n_actions = n_scales - n_coordinates
    alone = not is_box and n_actions == 1
    return coordinate_names(n_coordinates, env) + (["action"] if alone else [f"u{i}" for i in range(n_actions)])
