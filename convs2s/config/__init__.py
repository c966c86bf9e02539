"""Every option once: the tree of dataclasses that is Hydra's schema and the library's only configuration.

Inside the library these are plain objects; ``convs2s.cli`` turns the composed configuration into them at the edge.
Each field carries its meaning, unit and source in ``option(..., help)``; ``--help`` prints exactly these texts.
"original" is the authors' Lua program (fairseq-lua), "paper" is Gehring et al. (2017), arXiv 1705.03122v3.
"""

from __future__ import annotations

from convs2s.config.base import check_minimum, flatten, from_plain, refuse_given, to_plain
from convs2s.config.data import (
    DataConfig,
    Errors,
    ExtraConfig,
    HubConfig,
    LengthUnit,
    Metric,
)
from convs2s.config.model import (
    Architecture,
    AttentionOrder,
    DecoderConfig,
    EncoderConfig,
    EncoderGradient,
    LayerConfig,
    ModelConfig,
    SourcePadding,
    TargetPadding,
)
from convs2s.config.scripts import (
    AverageConfig,
    BenchmarkDataConfig,
    BenchmarkGenerateConfig,
    BenchmarkTrainConfig,
    CompareConfig,
    ConvertConfig,
    Destination,
    EvaluateConfig,
    LexiconConfig,
    Origin,
    PictureFormat,
    PlotAttentionConfig,
    ScoreConfig,
    TrainConfig,
    TranslateConfig,
)
from convs2s.config.search import (
    NO_FIGURES,
    Average,
    LongLines,
    SearchConfig,
    SearchPrecision,
    SelectionConfig,
    Stop,
    UnknownWordsConfig,
)
from convs2s.config.text import (
    TextConfig,
    TokenizerKind,
)
from convs2s.config.training import (
    Annealing,
    BestBy,
    Bucketing,
    ConvolutionForm,
    Nonfinite,
    Normalize,
    OptimizerConfig,
    Precision,
    TrainingConfig,
)

__all__ = [
    "NO_FIGURES",
    "Annealing",
    "Architecture",
    "AttentionOrder",
    "Average",
    "AverageConfig",
    "BenchmarkDataConfig",
    "BenchmarkGenerateConfig",
    "BenchmarkTrainConfig",
    "BestBy",
    "Bucketing",
    "CompareConfig",
    "ConvertConfig",
    "ConvolutionForm",
    "DataConfig",
    "DecoderConfig",
    "Destination",
    "EncoderConfig",
    "EncoderGradient",
    "Errors",
    "EvaluateConfig",
    "ExtraConfig",
    "HubConfig",
    "LayerConfig",
    "LengthUnit",
    "LexiconConfig",
    "LongLines",
    "Metric",
    "ModelConfig",
    "Nonfinite",
    "Normalize",
    "OptimizerConfig",
    "Origin",
    "PictureFormat",
    "PlotAttentionConfig",
    "Precision",
    "ScoreConfig",
    "SearchConfig",
    "SearchPrecision",
    "SelectionConfig",
    "SourcePadding",
    "Stop",
    "TargetPadding",
    "TextConfig",
    "TokenizerKind",
    "TrainConfig",
    "TrainingConfig",
    "TranslateConfig",
    "UnknownWordsConfig",
    "check_minimum",
    "flatten",
    "from_plain",
    "refuse_given",
    "to_plain",
]
