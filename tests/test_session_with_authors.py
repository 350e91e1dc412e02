"""A whole session in CI: both SDKs against a local server, real compilers, a real judge, a budget, failures, a killed engine.

Nothing is faked but the models: the server writes the kernels. The engine is the program's own, started as a person
starts it, killed in the middle and started again.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from provider_server import Behaviour, ProviderServer, Request

from kerneltui.records import (
    AuthorSettings,
    Budget,
    Call,
    CallState,
    Event,
    Outcome,
    SessionState,
    Settings,
    Tree,
    VariantKind,
)
from kerneltui.search.spending import spend
from kerneltui.store import Store

ROOT = Path(__file__).parent.parent
KEYS = {"OPENAI_API_KEY": "tvly-no-known-prefix-7f3a", "GEMINI_API_KEY": "plainwords-9c1e"}
PRICES = {"price_in_usd": 2.0, "price_out_usd": 8.0}
BUDGET_USD = 0.17
REFERENCE = '''"""A problem small enough to be judged many times in a minute."""
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, y):
        return torch.relu(x * 2.0 + y)


def get_inputs():
    return [torch.randn(64, 512), torch.randn(64, 512)]


def get_init_inputs():
    return []
'''
KERNEL = """#include "contract.h"
// version {number}
extern "C" int tiny(const float* x, const float* y, float* out, void* workspace) {{
    (void)workspace;
    for (int64_t i = 0; i < N; ++i) {{
        const float sum = x[i] * {factor} + y[i];
        out[i] = sum > 0.0f ? sum : 0.0f;
    }}
    return 0;
}}
"""


def answers() -> Callable[[Request], str]:
    """Ideas that differ; kernels of which every ninth is wrong and every ninth does not compile."""
    kernels = itertools.count()

    def answer(request: Request) -> str:
        n = request.number
        if request.wants_ideas:
            card = {"bottleneck": "memory", "technique": f"technique {n % 3}", "expected": "up to 1.2x", "risk": "none"}
            words = (f"alpha{n} beta{n}", f"gamma{n} delta{n}")
            return json.dumps({"ideas": [{"title": f"{w} {n}", "text": f"{w} for {w} by {w}", **card} for w in words]})
        turn = next(kernels) % 9
        code = KERNEL.format(number=n, factor="2.5f" if turn == 2 else "2.0f")
        if turn == 5:
            code = code.replace("const float sum", "const flaot sum")
        return f"Here is version {n}.\n\n```cpp\n{code}```\n"

    return answer


def choose() -> Callable[[Request], Behaviour | str | None]:
    """Rate limits and failures in between, each met once by the request that comes then."""
    left: dict[int, Behaviour | str] = {
        2: Behaviour(kind="429", retry_after="1", retry_in="1s"),
        4: "503",
        6: "drop",
        9: Behaviour(kind="quote_key"),
        11: Behaviour(kind="slow", wait_s=0.01),
        13: "no_end",
        16: "500",
    }
    return lambda request: left.pop(request.number, None)


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """A new session as `kerneltui new` makes it."""
    (tmp_path / "tiny.py").write_text(REFERENCE)
    return tmp_path / "sessions" / "s"


def create(folder: Path, server: ProviderServer) -> None:
    plain: dict[str, Any] = {"max_tokens": 1500, "timeout_s": 60.0, **PRICES}
    settings = Settings(
        problem=str(folder.parent.parent / "tiny.py"),
        device="cpu",
        rounds=9,
        ideas=2,
        variants=2,
        beam=1,
        wildcard=0.0,
        sweep_points=0,
        authors=(
            AuthorSettings(kind="openai", model="o3", base_url=server.openai_url, **plain),
            AuthorSettings(kind="gemini", model="gemini-2.5-pro", base_url=server.gemini_url, **plain),
        ),
        budget=Budget(usd=BUDGET_USD),
    )
    from kerneltui.problems import load_problem

    Store.create(folder, settings, load_problem(settings.problem)).close()


def environment(folder: Path) -> dict[str, str]:
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("OPENAI", "GEMINI", "GOOGLE"))
    }
    return {
        **inherited,
        **KEYS,
        "KERNELTUI_SESSIONS": str(folder.parent),
        "XDG_CONFIG_HOME": str(folder.parent.parent / "config"),
        "XDG_CACHE_HOME": str(folder.parent.parent / "cache"),
    }


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "kerneltui", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env=environment(folder),
        start_new_session=True,
    )


def read(folder: Path) -> tuple[Tree, list[Call], list[Event]]:
    with Store.open(folder) as store:
        tree = store.read_tree()
        return tree, [store.read_call(number) for number in tree.calls], store.read_events(limit=10_000)


def answered(folder: Path) -> int:
    return sum(call.state is CallState.DONE for call in read(folder)[0].calls.values())


@pytest.mark.slow
def test_three_rounds_with_two_models_failures_and_a_killed_engine_end_at_the_budget(session: Path) -> None:
    with ProviderServer() as server:
        server.answer, server.choose = answers(), choose()
        create(session, server)
        first_run = start(session, "run", "s")
        wait_for(lambda: answered(session) >= 8 or first_run.poll() is not None)
        os.kill(first_run.pid, signal.SIGKILL)
        said = first_run.communicate()[0]
        before, bought_before, _ = read(session)
        asked_before = len(server.requests)
        second_run = start(session, "run", "s")
        said += second_run.communicate(timeout=200)[0]
    tree, calls, events = read(session)
    assert 0 == second_run.returncode, said
    check_end(tree, said)
    check_nothing_was_bought_twice(bought_before, server.requests[asked_before:], before, tree)
    check_money(tree, calls, server.requests)
    check_work(tree, calls, events)
    check_keys(session, said)


def wait_for(holds: Callable[[], Any], seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "never came true"
        time.sleep(0.1)


def check_end(tree: Tree, said: str) -> None:
    assert SessionState.FINISHED is tree.status.state
    assert f"of ${BUDGET_USD:.2f} left, the next call may cost $" in tree.status.reason
    assert tree.status.round >= 3
    assert {1, 2, 3} <= {v.round for v in tree.variants.values() if v.outcome is not None}
    assert "finished" in said


def check_nothing_was_bought_twice(before: list[Call], later: list[Request], old: Tree, tree: Tree) -> None:
    """What was answered and written down before the engine was killed is not asked again."""
    done = [call for call in before if call.state is CallState.DONE]
    assert len(done) >= 8
    assert set() == {call.prompt for call in done} & {request.prompt for request in later if request.tokens_out}
    for call in done:
        assert call.cost_usd == tree.calls[call.id].cost_usd
    ideas = Counter((c.node, c.author, c.round) for c in tree.calls.values() if c.purpose == "ideas" and is_done(c))
    writes = Counter(c.node for c in tree.calls.values() if c.purpose in ("write", "repair") and is_done(c))
    assert {1} == {*ideas.values(), *writes.values()}
    judged = {v.id: v.outcome for v in old.variants.values() if v.outcome is not None}
    assert judged == {id_: tree.variants[id_].outcome for id_ in judged}


def is_done(call: Call) -> bool:
    return call.state is CallState.DONE


def check_money(tree: Tree, calls: list[Call], requests: list[Request]) -> None:
    """Every answered call costs what the server billed; what may be billed beside it is reserved; the cap held."""
    billed = {r.prompt + r.api: r for r in requests if r.tokens_out and r.behaviour.kind not in ("drop", "no_end")}
    total = 0.0
    for call in calls:
        if call.state is CallState.DONE:
            request = billed[call.prompt + ("gemini" if "gemini" in call.author else "responses")]
            usd = (request.tokens_in * PRICES["price_in_usd"] + request.tokens_out * PRICES["price_out_usd"]) / 1e6
            assert call.cost_usd == pytest.approx(usd, abs=1e-9)
            total += usd
        else:
            assert call.cost_usd in (None, 0.0)
    used = spend(tree)
    assert used.usd == pytest.approx(total, abs=1e-9)
    assert f"{used.usd:.2f}" == f"{total:.2f}"
    unknown = [call for call in calls if call.cost_usd is None]
    assert unknown  # the dropped stream at least
    assert used.reserved_usd == pytest.approx(sum(call.reserved_usd or 0.0 for call in unknown))
    assert used.usd + used.reserved_usd <= BUDGET_USD
    assert 0 == used.unknown


def check_work(tree: Tree, calls: list[Call], events: list[Event]) -> None:
    assert {"openai:o3", "gemini:gemini-2.5-pro"} == {call.author for call in calls if is_done(call)}
    found = {variant.outcome for variant in tree.variants.values()}
    assert {Outcome.CORRECT, Outcome.MISMATCH, Outcome.COMPILE_ERROR} == found - {None}
    assert any(variant.kind is VariantKind.REPAIR for variant in tree.variants.values())
    correct = [variant for variant in tree.variants.values() if variant.outcome is Outcome.CORRECT]
    assert all(variant.median_us and variant.median_us > 0 for variant in correct)
    assert sum(call.retries for call in calls) >= 2  # the rate limit and the overload were waited out in the call
    assert tree.status.round == sum(event.kind == "round" for event in events)
    assert tree.status.round <= sum(event.kind == "forecast" for event in events)


def check_keys(folder: Path, said: str) -> None:
    """Neither key is in the session, its log, what was printed, or an export."""
    exported = start(folder, "export", "s", "best", "--to", str(folder.parent / "out"))
    said += exported.communicate(timeout=60)[0]
    assert 0 == exported.returncode, said
    shown = start(folder, "show", "s", "--json")
    said += shown.communicate(timeout=60)[0]
    files = [path for path in folder.parent.parent.rglob("*") if path.is_file()]
    names = {path.name for path in files}
    assert {"session.db", "session.toml", "engine.log"} <= names
    assert [path for path in files if "out" in path.parts]
    for key in KEYS.values():
        assert key not in said
        assert [] == [str(path) for path in files if key.encode() in path.read_bytes()]
