"""Shared settings: one thread, seeded generators, hypothesis without deadlines and without randomness of its own."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, settings

settings.register_profile(
    "repeatable",
    deadline=None,
    derandomize=True,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def repeatable() -> None:
    """Every test starts from the same seed, on one thread."""
    torch.set_num_threads(1)
    torch.manual_seed(20170725)
