"""A problem, contract, device and tree small enough to read, for the author tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kerneltui.authors import Ask, Material
from kerneltui.records import Contract, Device, Idea, Language, Problem, TensorSpec, Variant, VariantKind

REFERENCE = """import torch
N = 1024
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_inputs():
    return [torch.randn(N)]
def get_init_inputs():
    return []
"""
PARENT = """#include "contract.h"
extern "C" int relu(const float* x, float* out, void* workspace) {
    for (long i = 0; i < N; ++i) out[i] = x[i] > 0 ? x[i] : 0;
    return 0;
}
"""


def make_problem(**changes: Any) -> Problem:
    return replace(Problem(name="relu", title="ReLU", source=REFERENCE, path="kernels/relu/reference.py"), **changes)


def make_contract(language: Language = Language.CPP, function: str = "relu") -> Contract:
    tensors = (
        TensorSpec(name="x", role="input", dtype="float32", shape=(1024,), symbols=(None,)),
        TensorSpec(name="out", role="output", dtype="float32", shape=(1024,), symbols=(None,)),
    )
    constants = (("int64_t", "N", "1024"),)
    return Contract(function=function, language=language, tensors=tensors, constants=constants, header="#pragma once\n")


def make_material(**changes: Any) -> Material:
    device = Device(id="cpu:0-1", kind="cpu", name="Test CPU", architecture="x86-64-v3", cores=2, toolkit="g++ 12")
    language = changes.pop("language", Language.CPP)
    contract = make_contract(Language.CUDA if language is Language.CUDA else Language.CPP)
    plain = Material(problem=make_problem(), contract=contract, device=device, language=language, round=1)
    return replace(plain, **changes)


def make_ask(purpose: str = "write", **changes: Any) -> Ask:
    material = changes.pop("material", None) or make_material(**changes.pop("of", {}))
    idea = Idea(id="i001", round=1, title="Vectorise", text="Load four at once.", technique="vector loads")
    ask = Ask(purpose=purpose, material=material, idea=None if purpose == "ideas" else idea)
    if purpose == "repair":
        failed = Variant(id="v00001", idea="i001", round=1, kind=VariantKind.ATTEMPT)
        ask = replace(ask, failed=failed, failed_source=PARENT)
    return replace(ask, **changes)
