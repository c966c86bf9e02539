"""Score a checkpoint: python scripts/evaluate.py checkpoint=runs/quickstart/checkpoints/best.pt split=test

Writes translations/ and evaluation/ in the run's directory, or in output=. checkpoint=[FILE,FILE] scores several models
that vote, hypotheses=FILE reference=FILE translations that exist already, whoever made them, and
systems=[FILE,FILE] reference=FILE tells whether several such files differ by more than chance.
"""

from __future__ import annotations

from convs2s.cli import files, run
from convs2s.config import DataConfig, EvaluateConfig, Metric, refuse_given
from convs2s.errors import UserError
from convs2s.evaluation.evaluate import evaluate_file, evaluate_split, show
from convs2s.evaluation.systems import compare_systems, markdown, systems_option

EXISTING = ("hypotheses", "systems")  # text that exists already: no model is at hand


def main(config: EvaluateConfig) -> None:
    given = [name for name in ("checkpoint", *EXISTING) if getattr(config, name) is not None]
    if not given:
        raise UserError("checkpoint must be given: add checkpoint=VALUE to the command (or hypotheses=, or systems=)")
    if len(given) > 1:
        raise UserError(f"{given[0]}= and {given[1]}= do not go together: give what to score once")
    refuse_what_does_not_fit(config, given[0])
    references = [] if config.reference is None else files("reference", config.reference)
    if config.metrics == []:
        raise UserError(f"metrics=[] is empty: name one or more of {', '.join(metric.value for metric in Metric)}")
    metrics = DataConfig().metrics if config.metrics is None else config.metrics
    if config.systems is not None:
        report = compare_systems(
            systems_option(config.systems),
            references,
            metrics=metrics,
            samples=config.samples,
            trials=config.trials,
            seed=config.seed,
            language=config.language,
            segmented=config.segmented,
            output=config.output,
        )
        print(markdown(report), end="")
        if "report" in report:
            print(f"\n{report['report']}")
    elif config.hypotheses is not None:
        report = evaluate_file(
            config.hypotheses,
            references,
            metrics=metrics,
            source=config.source,
            output=config.output,
            language=config.language,
            segmented=config.segmented,
        )
        show(report)
    else:
        report = evaluate_split(
            files("checkpoint", config.checkpoint),
            config.split,
            config.search,
            metrics=config.metrics,
            output=config.output,
            device=config.device,
            root=config.root,
            files=None if config.source is None else [config.source, *references],
            language=config.language,
        )
        show(report)


def refuse_what_does_not_fit(config: EvaluateConfig, what: str) -> None:
    """Options that would be ignored: the user means something that this command does not do."""
    only = {"samples": "systems", "trials": "systems", "seed": "systems", "segmented": "hypotheses"}
    only |= dict.fromkeys(("split", "root", "device", "search"), "checkpoint")
    for name, owner in only.items():
        fits = what == owner or (name == "segmented" and what == "systems")
        if not fits:
            refuse_given(config, [name], f"is for {owner}=, not for {what}=")
    if what == "systems":
        refuse_given(config, ["source"], "is for checkpoint= and hypotheses=, not for systems=")
    if what in EXISTING and config.reference is None:
        raise UserError(f"{what}= needs reference=: add reference=FILE to the command")
    if what == "checkpoint" and (config.source is None) != (config.reference is None):
        raise UserError("source= and reference= belong together: give both, or neither to score split=")


if __name__ == "__main__":
    run(main, EvaluateConfig, "evaluate")
