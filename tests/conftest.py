"""Shared settings: one thread, seeded generators, hypothesis without deadlines and without randomness of its own.

``pytest -n 0 --differences FILE...`` also says how far the largest difference that a test met lay below its bound.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # of the scripts that tests start; two processes of tests share the cores

import pytest
import torch
import torch.testing
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


# --- how close: what the tests of parity found ------------------------------------------------------------------------

LARGEST: dict[tuple[str, float], float] = {}  # by test function and bound: the largest difference
running = ""
compare = torch.testing.assert_close


def noted(actual: Any, expected: Any, **options: Any) -> None:
    """torch.testing.assert_close, which also notes the largest difference where a bound on it was given."""
    compare(actual, expected, **options)
    if options.get("atol") and isinstance(actual, torch.Tensor) and actual.numel():
        key = running, options["atol"]
        difference = float((actual.detach().double() - expected.detach().double()).abs().max())
        LARGEST[key] = max(LARGEST.get(key, 0.0), difference)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--differences", action="store_true", help="print the largest difference that each test found")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--differences"):
        torch.testing.assert_close = noted  # before the tests import it


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    global running
    running = item.nodeid.partition("[")[0]
    yield


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for (test, bound), difference in LARGEST.items():
        terminalreporter.write_line(f"{test}: largest difference {difference:.1e}, bound {bound:g}")
