"""Shared settings: one thread, seeded generators, hypothesis without deadlines and without randomness of its own."""

from __future__ import annotations

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")  # of the scripts that tests start; two processes of tests share the cores

import pytest
import torch
from absl import logging as absl_logging
from hypothesis import HealthCheck, settings

# Hydra closes the streams of all log handlers. absl (tensorboard, rouge-score) has one, opened on what pytest captures:
# pytest itself would break.
absl_logging.get_absl_handler().python_handler.stream = sys.__stderr__

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
