"""Made-up sessions of any size, written through the store's own methods. Figures are invented, and named so."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from pathlib import Path

import psutil

from kerneltui.records import (
    AuthorSettings,
    Badge,
    Budget,
    Call,
    CallState,
    Candidate,
    Check,
    CheckResult,
    Contract,
    Device,
    EngineStatus,
    ErrorReport,
    Idea,
    IdeaStatus,
    KernelResources,
    Language,
    Measurement,
    Outcome,
    Problem,
    SessionState,
    Settings,
    Speedup,
    Stage,
    TensorSpec,
    Variant,
    VariantKind,
    VariantState,
    Verdict,
    Worker,
)
from kerneltui.store import Store

EAGER_US = 2890.0
FLOOR_US = 1790.0
DEVICE = Device(id="cuda:GPU-made-up", kind="cuda", name="Example GPU", architecture="sm_90a", driver="580.1",
                toolkit="13.0", compiler="/usr/local/cuda/bin/nvcc")  # fmt: skip

TITLES = (
    ("One block per row, online maximum", "memory traffic", "online softmax"),
    ("float4 loads and stores", "memory traffic", "vectorised access"),
    ("Keep the row in registers, one pass", "memory traffic", "register tiling"),
    ("Warp shuffles in place of shared-memory trees", "synchronisation", "warp reduction"),
    ("cp.async double buffering", "latency", "asynchronous copy"),
    ("Cluster of four blocks per row, distributed shared memory", "occupancy", "thread block clusters"),
    ("exp2 with the scale folded in", "instruction throughput", "fast exponent"),
    ("Streaming stores that bypass L2", "cache pollution", "cache hints"),
    ("Persistent blocks, grid of SM count", "tail effect", "persistent kernel"),
    ("Split rows over two blocks with atomics", "occupancy", "split reduction"),
)
TEXT = (
    "Every row is read three times today: for the maximum, for the sum and for the result. Keeping a running maximum "
    "and rescaling the running sum needs one read less. With 65,536 columns a row is 256 KiB, so the second read comes "
    "from L2 at best."
)
SOURCE = """// {title}
// tune: BLOCK = 128, 256, 512, 1024
#include "contract.h"
#include <cuda_runtime.h>
#include <math.h>

#ifndef BLOCK
#define BLOCK {block}
#endif

__device__ __forceinline__ float warp_max(float value) {{
    for (int offset = 16; offset > 0; offset >>= 1)
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, offset));
    return value;
}}

__global__ void __launch_bounds__(BLOCK) softmax_rows(const float* __restrict__ x, float* __restrict__ out) {{
    const float4* row = reinterpret_cast<const float4*>(x + (int64_t)blockIdx.x * x_dim1);
    float4* result = reinterpret_cast<float4*>(out + (int64_t)blockIdx.x * x_dim1);
    float maximum = -INFINITY, sum = 0.0f;
    for (int column = threadIdx.x; column < x_dim1 / 4; column += BLOCK) {{
        const float4 four = row[column];  // step {number}
        const float local = fmaxf(fmaxf(four.x, four.y), fmaxf(four.z, four.w));
        if (local > maximum) {{
            sum *= __expf(maximum - local);
            maximum = local;
        }}
        sum += __expf(four.x - maximum) + __expf(four.y - maximum) + __expf(four.z - maximum) + __expf(four.w - maximum);
    }}
    __shared__ float parts[BLOCK / 32];
    const float scale = 1.0f / block_sum(sum, parts);
    for (int column = threadIdx.x; column < x_dim1 / 4; column += BLOCK) {{
        float4 four = row[column];
        four.x = __expf(four.x - maximum) * scale;
        four.y = __expf(four.y - maximum) * scale;
        __stcs(result + column, four);
    }}
}}

extern "C" int softmax(const float* x, float* out, void* workspace, cudaStream_t stream) {{
    softmax_rows<<<x_dim0, BLOCK, 0, stream>>>(x, out);
    return (int)cudaGetLastError();
}}
"""
FAILURES = (
    (Outcome.COMPILE_ERROR, Stage.COMPILE, 'kernel.cu(27): error: identifier "block_sum" is undefined',
     'kernel.cu(12): warning #177-D: variable "tail" was declared but never referenced\n\n'
     'kernel.cu(27): error: identifier "block_sum" is undefined\n      const float scale = 1.0f / block_sum(sum, parts);\n'
     "                                 ^\n\n1 error detected in the compilation of \"kernel.cu\"."),
    (Outcome.COMPILE_ERROR, Stage.COMPILE, "ptxas error: Entry function 'softmax_rows' uses too much shared data (0x1c000 bytes, 0x18c00 max)",
     "ptxas info    : Compiling entry function 'softmax_rows' for 'sm_90a'\n"
     "ptxas error   : Entry function 'softmax_rows' uses too much shared data (0x1c000 bytes, 0x18c00 max)"),
    (Outcome.MISMATCH, Stage.CHECK, "out: 8,192 of 268,435,456 elements wrong, every 32nd column",
     ""),
    (Outcome.LAUNCH_ERROR, Stage.LAUNCH, "CUDA error 700 (an illegal memory access was encountered)", "CUDA error 700"),
    (Outcome.TIMEOUT, Stage.LAUNCH, "no answer after 20 s", ""),
)  # fmt: skip


def settings(**changes: object) -> Settings:
    """A search with two authors."""
    authors = (AuthorSettings(kind="playbook"), AuthorSettings(kind="openai", model="example-model"))
    made = Settings(
        problem="softmax", rounds=6, ideas=4, variants=3, authors=authors, budget=Budget(usd=25.0, wall_s=28800.0)
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def problem() -> Problem:
    """Softmax over 65,536 columns."""
    return Problem(
        name="softmax",
        title="Softmax over 65,536 columns",
        source="class Model: ...",
        path="kernels/softmax/reference.py",
    )


def contract() -> Contract:
    """Its signature."""
    tensors = (TensorSpec(name="x", role="input", dtype="float32", shape=(4096, 65536), origin="x", symbols=(None, None)),
               TensorSpec(name="out", role="output", dtype="float32", shape=(4096, 65536), symbols=(None, None)))  # fmt: skip
    header = 'extern "C" int softmax(const float* x, float* out, void* workspace, cudaStream_t stream);\n'
    return Contract(function="softmax", language=Language.CUDA, tensors=tensors, header=header)


def measurement(median_us: float, chance: random.Random) -> Measurement:
    """Times that look like times."""
    samples = tuple(median_us * (1 + abs(chance.gauss(0, 0.006))) for _ in range(128))
    ratio = EAGER_US / median_us
    speedup = Speedup(ratio=ratio, low=ratio * 0.994, high=ratio * 1.006, tie=abs(ratio - 1) < 0.006, pairs=128)
    return Measurement(
        method="graph", median_us=median_us, low_us=median_us * 0.997, high_us=median_us * 1.003, samples_us=samples,
        call_us=median_us + 3.1, warm_us=median_us * 0.9, baselines_us={"eager": EAGER_US, "compile": EAGER_US * 0.82},
        speedup={"eager": speedup, "compile": replace(speedup, ratio=ratio * 0.82, low=ratio * 0.815, high=ratio * 0.825)},
        launches=512, warmup=16, dropped=2, ring=3, flush="256 MiB written between launches",
        clocks={"sm": "1755 MHz", "memory": "2619 MHz"}, precision="fp32", baseline_precision="fp32",
        floor_us=FLOOR_US, noise=0.004,
    )  # fmt: skip


CHECKS = (
    Check(name="static policy", result=CheckResult.PASS, detail="no forbidden call, no inline file access"),
    Check(name="outputs written", result=CheckResult.PASS, detail="no poison left in 268,435,456 elements"),
    Check(name="guards intact", result=CheckResult.PASS, detail="4 KiB before and after every buffer"),
    Check(name="inputs unchanged", result=CheckResult.PASS),
    Check(name="fresh inputs", result=CheckResult.PASS, detail="5 sets from seeds chosen after the build"),
    Check(name="wall clock", result=CheckResult.NOTE, detail="device time and wall time differ by 4 %"),
    Check(name="compute-sanitizer", result=CheckResult.SKIPPED, detail="only when certifying"),
)


def judged(
    variant: Variant, median_us: float | None, chance: random.Random, failure: int = 0
) -> tuple[Variant, Verdict]:
    """The variant with its verdict: a time, or one of the failures."""
    if median_us is None:
        outcome, stage, message, log = FAILURES[failure % len(FAILURES)]
        errors = ()
        if outcome is Outcome.MISMATCH:
            errors = (ErrorReport(output="out", wrong=8192, total=268435456, max_abs=0.31, max_rel=2.4, worst=(17, 32),
                                  expected="1.52e-05", found="0.31", pattern="every 32nd column", input_set="random 2",
                                  histogram=(("1e-1..1", 6100), ("1e-2..1e-1", 2092))),)  # fmt: skip
        verdict = Verdict(outcome=outcome, stage=stage, message=message, log=log, errors=errors, device=DEVICE,
                          checks=CHECKS[:2] if outcome is Outcome.MISMATCH else (), tolerance="kernelbench", world=DEVICE.world)  # fmt: skip
        row = replace(variant, state=VariantState.DONE, outcome=outcome, stage=stage, message=message, device=DEVICE.id)
        return row, verdict
    made = measurement(median_us, chance)
    resources = (
        KernelResources(
            name="softmax_rows",
            registers=chance.choice((32, 40, 56, 64)),
            spill_bytes=0,
            stack_bytes=0,
            shared_bytes=chance.choice((128, 1024, 98304)),
        ),
    )
    verdict = Verdict(outcome=Outcome.CORRECT, stage=Stage.DONE, message="correct on 5 input sets", log="ptxas info    : Used 40 registers, 128 bytes smem",
                      measurement=made, device=DEVICE, checks=CHECKS, resources=resources, tolerance="kernelbench",
                      world=DEVICE.world, compile_s=1.4, run_s=0.9)  # fmt: skip
    row = replace(
        variant, state=VariantState.DONE, outcome=Outcome.CORRECT, stage=Stage.DONE, message=verdict.message,
        median_us=median_us, speedup=made.speedup["eager"], badge=Badge.MEASURED, device=DEVICE.id,
        registers=resources[0].registers, shared_bytes=resources[0].shared_bytes,
    )  # fmt: skip
    return row, verdict


def status(
    state: SessionState = SessionState.RUNNING, *, round: int, best: str | None, alive: bool = True, **more: object
) -> EngineStatus:
    """This very process plays the engine."""
    now = time.time()
    me = psutil.Process()
    pid, born = (me.pid, me.create_time()) if alive else (2**22 - 3, 1.0)
    made = EngineStatus(state=state, pid=pid, pid_started=born, heartbeat=now if alive else now - 60, round=round, best=best,
                        started=now - 1200, active_s=1173.0, device=DEVICE)  # fmt: skip
    return replace(made, **more)  # type: ignore[arg-type]


def small_session(
    folder: Path, *, state: SessionState = SessionState.RUNNING, alive: bool = True, notices: tuple[str, ...] = ()
) -> Path:
    """Four rounds with everything in them that a screen can show: about forty variants."""
    chance = random.Random(7)
    store = Store.create(folder, settings(), problem())
    store.put_contract(contract())
    store.put_prepared(
        {
            "baselines_us": {"eager": EAGER_US, "compile": EAGER_US * 0.82},
            "floor_us": FLOOR_US,
            "notes": [],
            "facts": {},
        }
    )
    best: tuple[float, str] = (9e9, "")
    now = time.time()
    starter, verdict = judged(_written(store, "starter", 0, VariantKind.STARTER, None, chance), 5210.0, chance)
    store.add_verdict(starter, verdict)
    best = (5210.0, starter.id)
    store.add_event("engine", "round", "round 1 of 6 begins from the reference")
    level = 3300.0
    failure = 0
    for number in range(1, 5):
        for index in range(4):
            title, bottleneck, technique = TITLES[(number * 3 + index) % len(TITLES)]
            author = "playbook" if index < 2 else "openai:example-model"
            call = _call(store, title, author, now) if index >= 2 else None
            id = store.next_idea_id()
            idea = Idea(id=id, round=number, parent=best[1] if number > 1 else None, author=author, title=title, text=TEXT,
                        bottleneck=bottleneck, technique=technique, expected="1.1 to 1.3 times faster", risk="registers may spill",
                        call=call, key=f"card-{number}-{index}", human=number == 2 and index == 1, created=now)  # fmt: skip
            if number == 3 and index == 3:
                idea = replace(idea, status=IdeaStatus.PRUNED)
            store.put_ideas([idea])
            for attempt in range(3):
                row = _written(
                    store, title, number, VariantKind.ATTEMPT, id, chance, call=call, author=author, parent=idea.parent
                )
                if number == 4 and index >= 2:
                    waiting = (
                        VariantState.RUNNING,
                        VariantState.COMPILING,
                        VariantState.QUEUED,
                        VariantState.WRITING,
                        VariantState.WAITING,
                        VariantState.WAITING,
                    )
                    here = waiting[(index - 2) * 3 + attempt]
                    candidate = (
                        row.candidate
                        if here in (VariantState.RUNNING, VariantState.COMPILING, VariantState.QUEUED)
                        else None
                    )
                    store.put_variants([replace(row, state=here, candidate=candidate)])
                    continue
                if (index + attempt + number) % 3 == 0:
                    failed, verdict = judged(row, None, chance, failure)
                    failure += 1
                    store.add_verdict(failed, verdict)
                    if failure % 2:
                        repair = _written(
                            store, title, number, VariantKind.REPAIR, id, chance, parent=row.id, author=author
                        )
                        store.add_verdict(*judged(repair, level * chance.uniform(1.0, 1.2), chance))
                    continue
                time_us = level * chance.uniform(0.93, 1.25)
                good, verdict = judged(replace(row, human=idea.human), time_us, chance)
                if time_us < best[0]:
                    best = (time_us, good.id)
                    good = replace(good, pinned=number == 2)
                    store.add_event("engine", "best", f"new best {EAGER_US / time_us:.2f}x, {title}", good.id)
                store.add_verdict(good, verdict)
        level = best[0]
        if number < 4:
            store.add_event("engine", "round", f"round {number} closed; {number + 1} of 6 begins from {best[1]}")
    store.add_event("you", "decision", "pruned i012, with all below it", "i012")
    workers = (Worker(name="gpu0", doing="timing", node="v00045", since=now - 12),
               Worker(name="compile 1", doing="nvcc", node="v00046", since=now - 3), Worker(name="compile 2"),
               Worker(name="author openai", doing="writing", node="v00048", since=now - 21))  # fmt: skip
    store.put_status(status(state, round=4, best=best[1], alive=alive, workers=workers, notices=notices))
    store.close()
    return folder


def _call(store: Store, title: str, author: str, now: float) -> int:
    call = Call(id=0, purpose="ideas", node="", author=author, model="example-model", created=now,
                prompt=f"You know GPUs.\n\nPropose ideas for softmax.\nTried before: {title}\n")  # fmt: skip
    call = store.reserve_call(call)
    store.finish_call(replace(call, state=CallState.DONE, answer=f"1. {title}\n\n{TEXT}", tokens_in=4200, tokens_out=1900,
                              tokens_reasoning=800, cost_usd=0.0213, latency_s=18.4, finish_reason="stop"))  # fmt: skip
    return call.id


def _written(store: Store, title: str, number: int, kind: VariantKind, idea: str | None, chance: random.Random,
             parent: str | None = None, author: str = "playbook", call: int | None = None) -> Variant:  # fmt: skip
    block = chance.choice((128, 256, 512))
    id = store.next_variant_id()
    candidate = Candidate(
        source=SOURCE.format(title=title, block=block, number=id),
        language=Language.CUDA,
        defines=(("BLOCK", str(block)),),
    )
    digest = store.add_candidate(candidate)
    return Variant(id=id, idea=idea, round=number, parent=parent, kind=kind, author=author, name=f"BLOCK={block}",
                   language=Language.CUDA, candidate=digest, defines=candidate.defines, tunables=True, call=call,
                   created=time.time(), finished=time.time())  # fmt: skip


def large_session(folder: Path, variants: int, *, running: int = 8) -> Path:
    """Sixteen variants an idea, sixteen ideas a round, as many rounds as it takes."""
    chance = random.Random(11)
    store = Store.create(folder, settings(rounds=2 + variants // 256), problem())
    store.put_contract(contract())
    store.put_prepared({"baselines_us": {"eager": EAGER_US}, "floor_us": FLOOR_US})
    digest = store.add_candidate(
        Candidate(source=SOURCE.format(title="large", block=128, number=0), language=Language.CUDA)
    )
    ideas: list[Idea] = []
    rows: list[Variant] = []
    best: tuple[float, str] = (9e9, "")
    now = time.time()
    for number in range(variants):
        if number % 16 == 0:
            title, bottleneck, technique = TITLES[len(ideas) % len(TITLES)]
            ideas.append(Idea(id=f"i{len(ideas) + 1:03d}", round=1 + number // 256, author="playbook", title=f"{title} {len(ideas) + 1}",
                              text=TEXT, bottleneck=bottleneck, technique=technique, created=now))  # fmt: skip
        row = Variant(id=f"v{number + 1:05d}", idea=ideas[-1].id, round=ideas[-1].round, author="playbook", name="BLOCK=128",
                      language=Language.CUDA, candidate=digest, created=now, finished=now)  # fmt: skip
        if number >= variants - running:
            rows.append(replace(row, state=VariantState.RUNNING))
            continue
        if chance.random() < 0.4:
            outcome, stage, message, _ = FAILURES[chance.randrange(len(FAILURES))]
            rows.append(replace(row, state=VariantState.DONE, outcome=outcome, stage=stage, message=message))
            continue
        time_us = 3300 - 1200 * number / variants + 900 * chance.random()
        ratio = EAGER_US / time_us
        if time_us < best[0]:
            best = (time_us, row.id)
        rows.append(replace(row, state=VariantState.DONE, outcome=Outcome.CORRECT, stage=Stage.DONE, median_us=time_us,
                            speedup=Speedup(ratio=ratio, low=ratio * 0.99, high=ratio * 1.01, tie=False), badge=Badge.MEASURED,
                            registers=40, shared_bytes=1024))  # fmt: skip
    store.put_ideas(ideas)
    store.put_variants(rows)
    for _ in range(40):
        store.add_event("engine", "verdict", "a variant was judged", "v00001")
    names = [Worker(name=f"gpu{n}", doing="timing", node=rows[-1 - n].id, since=now) for n in range(min(running, 4))]
    store.put_status(status(round=ideas[-1].round, best=best[1], workers=tuple(names)))
    store.close()
    return folder


def touch_running(store: Store, count: int) -> None:
    """What an engine does while it works: states of running variants change."""
    tree = store.read_tree()
    running = [v for v in tree.variants.values() if v.state in (VariantState.RUNNING, VariantState.QUEUED)][:count]
    flipped = {VariantState.RUNNING: VariantState.QUEUED, VariantState.QUEUED: VariantState.RUNNING}
    store.put_variants([replace(v, state=flipped[v.state]) for v in running])
