"""Every noun of the program: frozen, slotted, keyword-only records and enums. No I/O, no clock.

Problem   -> Contract                 what is searched, and its C signature
Settings                              what session.toml holds
Idea      -> Variant -> Candidate     the tree: hypothesis, attempt, source
Verdict   -> Check, ErrorReport, KernelResources, Measurement -> Speedup
Profile   -> KernelProfile -> Figure  what counters say of a candidate, beside its verdict
Device                                where a verdict holds
Call                                  one question to an author and what it cost
Decision, Event                       what people did; what happened
Tree                                  the session as read

`encode` and `decode` turn any of them into JSON text and back. Everything is imported from here.
"""

from __future__ import annotations

from kerneltui.records.closed import (
    Badge,
    CallState,
    CheckResult,
    DecisionKind,
    DecisionState,
    IdeaStatus,
    Language,
    Outcome,
    SessionState,
    Stage,
    VariantKind,
    VariantState,
)
from kerneltui.records.problem import Contract, Problem, TensorSpec
from kerneltui.records.settings import AuthorSettings, Budget, Policy, Settings
from kerneltui.records.text import FrozenDict, decode, encode, sha256
from kerneltui.records.tree import (
    Call,
    Decision,
    EngineStatus,
    Event,
    Idea,
    Tree,
    Variant,
    Worker,
    in_order,
    is_ranked,
    standing,
)
from kerneltui.records.verdict import (
    Candidate,
    Check,
    Device,
    ErrorReport,
    Figure,
    KernelProfile,
    KernelResources,
    Measurement,
    Profile,
    Speedup,
    Verdict,
)

__all__ = [
    "AuthorSettings",
    "Badge",
    "Budget",
    "Call",
    "CallState",
    "Candidate",
    "Check",
    "CheckResult",
    "Contract",
    "Decision",
    "DecisionKind",
    "DecisionState",
    "Device",
    "EngineStatus",
    "ErrorReport",
    "Event",
    "Figure",
    "FrozenDict",
    "Idea",
    "IdeaStatus",
    "KernelProfile",
    "KernelResources",
    "Language",
    "Measurement",
    "Outcome",
    "Policy",
    "Problem",
    "Profile",
    "SessionState",
    "Settings",
    "Speedup",
    "Stage",
    "TensorSpec",
    "Tree",
    "Variant",
    "VariantKind",
    "VariantState",
    "Verdict",
    "Worker",
    "decode",
    "encode",
    "in_order",
    "is_ranked",
    "sha256",
    "standing",
]
