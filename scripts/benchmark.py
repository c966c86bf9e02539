"""Measure speed and memory: python scripts/benchmark.py VERB [option=value ...]; VERB --help lists its options."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

VERBS = {path.stem.removeprefix("benchmark_"): path for path in sorted(Path(__file__).parent.glob("benchmark_*.py"))}


def main() -> None:
    verb = sys.argv[1] if len(sys.argv) > 1 else ""
    if verb in ("--help", "-h"):
        print(f"{__doc__}\nVERB: {', '.join(VERBS)}")
        return
    if verb not in VERBS:
        print(f"error: say what to measure: python scripts/benchmark.py {'|'.join(VERBS)} ...", file=sys.stderr)
        sys.exit(1)
    sys.argv = [f"{sys.argv[0]} {verb}", *sys.argv[2:]]
    runpy.run_path(str(VERBS[verb]), run_name="__main__")


if __name__ == "__main__":
    main()
