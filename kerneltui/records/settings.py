"""What session.toml holds."""

from __future__ import annotations

from dataclasses import dataclass, field

from kerneltui.records.text import FrozenDict


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorSettings:
    """One `[[author]]` table of session.toml."""

    kind: str  # openai, gemini, command, playbook
    model: str = ""
    name: str = ""  # shown; "" is kind or kind:model
    share: float = 1.0
    effort: str = ""  # reasoning effort; "" is not sent
    temperature: float | None = None  # None is not sent
    max_tokens: int | None = None  # cap on one answer; None is not sent
    base_url: str = ""
    api: str = "responses"  # or "chat"
    api_key_env: str = ""
    command: tuple[str, ...] = ()
    timeout_s: float = 900.0  # for one whole call, retries included
    thinking_budget: int | None = None
    price_in_usd: float | None = None  # per million tokens
    price_out_usd: float | None = None
    price_cached_usd: float | None = None

    @property
    def label(self) -> str:
        """The name that screen and tree know it by."""
        return self.name or (f"{self.kind}:{self.model}" if self.model else self.kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Caps. None is no cap. Whichever is hit first ends the search."""

    usd: float | None = None
    tokens: int | None = None
    evaluations: int | None = None
    wall_s: float | None = None
    target_speedup: float | None = None  # against eager
    plateau_rounds: int | None = None  # end after so many rounds with no gain above noise


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What candidates may do."""

    library_calls: bool = False  # cuBLAS, cuDNN
    lower_precision: bool = False  # may a lower measured class win
    fast_math: bool = True  # --use_fast_math / -ffast-math in a candidate's flags


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What session.toml holds."""

    problem: str  # a name under kernels/ or a path
    rounds: int = 5
    ideas: int = 4  # per parent
    variants: int = 3  # per idea
    beam: int = 4  # survivors a round
    repairs: int = 1
    per_idea: int = 2  # survivors from one idea
    per_lineage: int = 3  # survivors from one ancestor
    wildcard: float = 0.1  # chance that an older kernel joins a round
    close_at: float = 0.9  # share of a round's variants that closes it
    sweep_points: int = 12  # evaluations for one sweep; 0 is no sweep
    review: bool = False
    seed: int = 0
    shares: str = "fixed"  # or "bandit": each round, by what an author's variants achieved for their cost
    authors: tuple[AuthorSettings, ...] = (AuthorSettings(kind="playbook"),)
    budget: Budget = Budget()
    policy: Policy = Policy()
    device: str = "auto"  # auto, cuda, cpu, or a device id
    devices: tuple[str, ...] = ()  # more than one of the same kind
    sizes: FrozenDict[str, int] = field(default_factory=dict)  # module constants of the reference
    tolerance: str = ""  # "" is the problem's own profile
    deadline_s: float = 20.0  # for one run on a device
    notes: str = ""  # a person's, given to every author
