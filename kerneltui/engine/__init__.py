"""The loop: decisions -> steps -> authors and evaluator -> store. One process per session."""

from __future__ import annotations

from kerneltui.engine.loop import run_session

__all__ = ["run_session"]
