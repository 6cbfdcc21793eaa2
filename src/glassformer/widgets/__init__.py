"""Interactive views: each answers to the hand in JupyterLab and on a page with no Python behind it."""

from .ablation import AblationBoard
from .activations import ActivationExplorer
from .beamtree import BeamTree
from .bias import DistanceBias
from .bytepairs import BytePairStepper
from .cachemovie import CacheMovie
from .calculator import AttentionCalculator
from .characters import CharacterMap
from .clock import ClockHands
from .configreader import ConfigReader
from .diagnose import DiagnoseIt
from .explorer import AttentionExplorer
from .fillin import FillIn
from .glass import GlassMachine
from .headgradients import HeadGradients
from .heatmap import PositionHeatmap
from .layers import DepthExplorer
from .lens import LogitLens
from .losswatcher import LossWatcher
from .neurons import NeuronExplorer
from .norms import NormComparer
from .nudge import NudgeExplorer
from .parameters import ParameterExplorer
from .placement import NormPlacementExplorer
from .quiz import Quiz
from .rotation import RotationPlane
from .sampling import SamplingLab
from .schedules import ScheduleDesigner
from .shapes import ShapeTracer
from .shuffle import ShuffleSentence
from .sizes import ParameterBars
from .translator import DateTranslator
from .wiring import WiringSwitcher

__all__ = [
    "AblationBoard",
    "ActivationExplorer",
    "AttentionCalculator",
    "AttentionExplorer",
    "BeamTree",
    "BytePairStepper",
    "CacheMovie",
    "CharacterMap",
    "ClockHands",
    "ConfigReader",
    "DateTranslator",
    "DepthExplorer",
    "DiagnoseIt",
    "DistanceBias",
    "FillIn",
    "GlassMachine",
    "HeadGradients",
    "LogitLens",
    "LossWatcher",
    "NeuronExplorer",
    "NormComparer",
    "NormPlacementExplorer",
    "NudgeExplorer",
    "ParameterBars",
    "ParameterExplorer",
    "PositionHeatmap",
    "Quiz",
    "RotationPlane",
    "SamplingLab",
    "ScheduleDesigner",
    "ShapeTracer",
    "ShuffleSentence",
    "WiringSwitcher",
]
