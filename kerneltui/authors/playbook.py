"""Built-in ideas with real kernels, from kernels/<problem>/playbook.toml. No network, no key, no cost.

Cards are dealt in the order of the file to parents that they fit. When none is left, it proposes to refine the
tunables around the parent, one or two at a time, by settings that nobody tried yet.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kerneltui.authors import Answer, Ask, IdeaDraft, Material, Reply
from kerneltui.authors.sweep import Setting, Tunables, declared, default_point, is_legal, to_setting
from kerneltui.errors import SettingsError, nearest
from kerneltui.records import AuthorSettings, Language, Problem, sha256

REFINEMENT = "refine"
SETTINGS_PER_REFINEMENT = 6

CARD_KEYS = ("key", "title", "text", "bottleneck", "technique", "expected", "risk", "builds_on")
VARIANT_KEYS = ("language", "file", "name", "defines")


@dataclass(frozen=True, slots=True, kw_only=True)
class CardVariant:
    """One kernel of a card."""

    language: Language
    source: str
    name: str
    defines: Setting = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One idea of a playbook."""

    draft: IdeaDraft
    builds_on: str = ""
    variants: tuple[CardVariant, ...] = ()

    @property
    def key(self) -> str:
        """The card's own name."""
        return self.draft.key

    def written_in(self, language: Language) -> list[CardVariant]:
        """Its kernels in one language."""
        return [variant for variant in self.variants if variant.language is language]


class PlaybookAuthor:
    """Deals the cards of one problem."""

    def __init__(self, settings: AuthorSettings, problem: Problem) -> None:
        """Read the playbook.

        Raises:
            SettingsError: playbook.toml, or a kernel it names, cannot be read.
        """
        self.settings = settings
        self.name = settings.label
        self.problem = problem
        self.cards = read_playbook(problem)

    def prepare(self, ask: Ask) -> Ask:
        """Nothing is sent and nothing is paid; the prompt says what is looked up."""
        parent = ask.material.parent
        place = f"for {parent.id}" if parent else "for the reference"
        prompt = f"playbook of {self.problem.name}: next {ask.count} ideas {place}"
        if ask.idea is not None:
            prompt = f"playbook of {self.problem.name}: kernel {ask.index + 1} of `{ask.idea.key}`"
        return replace(ask, prompt=prompt, worst_usd=0.0, worst_tokens=0)

    async def answer(self, ask: Ask, on_text: Callable[[str], None] | None = None) -> Answer:
        """Deal ideas, or write a kernel of one."""
        made = self._answer(ask)
        return replace(made, reply=Reply(text=_say(made), tokens_in=0, tokens_out=0, cost_usd=0.0, latency_s=0.0))

    def waits_s(self) -> float:
        """No provider holds it up."""
        return 0.0

    async def aclose(self) -> None:
        """There is nothing to let go of."""

    def _answer(self, ask: Ask) -> Answer:
        if ask.purpose == "ideas":
            return self.propose(ask.material, ask.count)
        if ask.purpose == "write" and ask.idea is not None:
            return self.write(ask.idea.key, ask.material, ask.index)
        return Answer(problem="a playbook cannot repair a kernel; add a language model as an author for that")

    def propose(self, material: Material, count: int) -> Answer:
        """The next cards for a parent, then refinements of its tunables."""
        drafts = [card.draft for card in self.fitting(material)][:count]
        if len(drafts) < count:
            drafts += itertools.islice(refinements(material), count - len(drafts))
        if len(drafts) < count:
            drafts += [card.draft for card in self.orphans(material)][: count - len(drafts)]
        if drafts:
            return Answer(ideas=tuple(drafts))
        if not self.cards:
            return Answer(problem=f"{self.problem.name} has no playbook; only its starters can be measured without it")
        return Answer(problem="every card is dealt, and no tunable of this parent has an untried setting")

    def unused(self, material: Material) -> list[Card]:
        """Cards with a kernel in this language that are not in the tree, in order."""
        return [
            card for card in self.cards if card.key not in material.used_keys and card.written_in(material.language)
        ]

    def fitting(self, material: Material) -> list[Card]:
        """Unused cards for this parent: what builds on it first, then what starts from the reference."""
        unused = self.unused(material)
        further = [card for card in unused if card.builds_on and card.builds_on in material.lineage]
        return further + [card for card in unused if not card.builds_on]

    def orphans(self, material: Material) -> list[Card]:
        """Unused cards whose ground did not survive into this round: worth a try on another.

        A ground that is still to be dealt or judged may yet bear them itself.
        """
        if material.round < 2:
            return []
        alive = material.round_keys.union(material.lineage)
        coming = {card.key for card in self.unused(material)} | material.new_keys
        return [card for card in self.unused(material) if card.builds_on and card.builds_on not in alive | coming]

    def write(self, key: str, material: Material, index: int) -> Answer:
        """The `index`-th kernel of a card, or the `index`-th setting of a refinement."""
        if key.startswith(REFINEMENT + ":"):
            return _refined(key, material, index)
        card = next((card for card in self.cards if card.key == key), None)
        if card is None:
            return Answer(problem=f"there is no card `{key}` in the playbook of {self.problem.name}")
        kernels = card.written_in(material.language)
        if index >= len(kernels):
            return Answer(problem="no further variant on this card")
        kernel = kernels[index]
        return Answer(source=kernel.source, language=kernel.language, defines=kernel.defines, name=kernel.name)


def _say(answer: Answer) -> str:
    if answer.ideas:
        return "\n".join(f"{draft.key}: {draft.title}" for draft in answer.ideas)
    return answer.source or answer.problem


# --------------------------------------------------------------------------- refinements


def refinements(material: Material) -> Iterator[IdeaDraft]:
    """Ideas that change one tunable of the parent, then two at a time, to settings nobody tried."""
    tunables = declared(material.parent_source)
    parent = material.parent
    if parent is None or not tunables:
        return
    here = default_point(tunables, material.parent_source, parent.defines)
    family = sha256(material.parent_source)[:8]
    taken = set(material.tried_settings) | _planned(material.used_keys, family) | {here}
    for width in (1, 2):
        for names in itertools.combinations(tunables.names, width):
            fresh = [point for point in _around(tunables, here, names) if point not in taken]
            chosen = fresh[:SETTINGS_PER_REFINEMENT]
            if chosen:
                taken.update(chosen)
                yield _refinement(names, here, chosen, family)


def _around(tunables: Tunables, here: Setting, names: Sequence[str]) -> list[Setting]:
    """Legal settings that differ from `here` in exactly these tunables, nearest first."""
    point = {name: int(value) for name, value in here}
    ranges = [values for name, values in tunables.values if name in names]
    if any(name not in point for name in tunables.names):
        return []
    found: list[tuple[int, Setting]] = []
    for combination in itertools.islice(itertools.product(*ranges), 4096):
        if any(value == point[name] for name, value in zip(names, combination, strict=True)):
            continue
        setting = to_setting({**point, **dict(zip(names, combination, strict=True))})
        far = sum(_steps(values, point[n], v) for n, values, v in zip(names, ranges, combination, strict=True))
        if is_legal(tunables, setting):
            found.append((far, setting))
    return [setting for _, setting in sorted(found)]


def _steps(values: Sequence[int], one: int, other: int) -> int:
    return abs(values.index(one) - values.index(other)) if one in values else 1


def _refinement(names: Sequence[str], here: Setting, settings: Sequence[Setting], family: str) -> IdeaDraft:
    point = dict(here)
    around = ", ".join(f"{name} {point[name]}" for name in names)
    listed = "; ".join(" ".join(f"{name}={dict(s)[name]}" for name in names) for s in settings)
    return IdeaDraft(
        key=f"{REFINEMENT}:{family}:" + "|".join(_spell(setting) for setting in settings),
        title=f"refine {' and '.join(names)} around {' and '.join(point[name] for name in names)}",
        text=f"Keep the kernel as it is and move its tunables away from {around}, to settings not tried yet: {listed}.",
        bottleneck="a setting that suited another shape or device",
        technique="tuning of declared parameters",
        expected="a few percent, seldom more",
        risk="none for correctness: the kernel declares these settings as legal",
    )


def _spell(setting: Setting) -> str:
    return ",".join(f"{name}={value}" for name, value in setting)


def _unspell(text: str) -> Setting:
    return tuple((name, value) for name, _, value in (pair.partition("=") for pair in text.split(",")))


def _planned(used: frozenset[str], family: str) -> set[Setting]:
    """Settings of the same source that refinements in the tree name already."""
    prefix = f"{REFINEMENT}:{family}:"
    spelled = [key.removeprefix(prefix) for key in used if key.startswith(prefix)]
    return {_unspell(text) for key in spelled for text in key.split("|")}


def _refined(key: str, material: Material, index: int) -> Answer:
    settings = [_unspell(text) for text in key.split(":", 2)[2].split("|")]
    if index >= len(settings):
        return Answer(problem="no further setting in this refinement")
    parent_defines = material.parent.defines if material.parent else ()
    defines = tuple(sorted((dict(parent_defines) | dict(settings[index])).items()))
    name = " ".join(f"{name}={value}" for name, value in settings[index])
    return Answer(source=material.parent_source, language=material.language, defines=defines, name=name)


# --------------------------------------------------------------------------- playbook.toml


def read_playbook(problem: Problem) -> tuple[Card, ...]:
    """The cards of a problem; none where it has no playbook.

    Raises:
        SettingsError: naming file, card and key.
    """
    if problem.folder is None:
        return ()
    path = Path(problem.folder) / "playbook.toml"
    if not path.exists():
        return ()
    try:
        table = tomllib.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: not UTF-8; save the file as UTF-8.") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: not valid TOML: {error}.") from error
    _check_keys(table, ("idea",), f"{path}")
    cards = [_card(entry, number, path) for number, entry in enumerate(_tables(table, "idea", f"{path}"), start=1)]
    _check_names(cards, path)
    return tuple(cards)


def _check_names(cards: Sequence[Card], path: Path) -> None:
    keys = [card.key for card in cards]
    for card in cards:
        if keys.count(card.key) > 1:
            raise SettingsError(f"{path}: two ideas have the key `{card.key}`; give each its own.")
        if card.builds_on and (card.builds_on not in keys or card.builds_on == card.key):
            others = [key for key in keys if key != card.key]
            raise SettingsError(
                f"{path}: idea `{card.key}`: builds_on names `{card.builds_on}`, which is no other idea"
                f"{nearest(card.builds_on, others)}"
            )


def _card(entry: dict[str, Any], number: int, path: Path) -> Card:
    where = f"{path}: idea {entry.get('key') or number}"
    _check_keys(entry, (*CARD_KEYS, "variant"), where)
    words = {key: _text(entry, key, where).strip() for key in CARD_KEYS}
    for key in ("key", "title"):
        if not words[key]:
            raise SettingsError(f"{where}: `{key}` is missing.")
    if words["key"].startswith(REFINEMENT + ":"):
        raise SettingsError(f"{where}: a key cannot begin with `{REFINEMENT}:`.")
    builds_on = words.pop("builds_on")
    variants = tuple(
        _variant(table, f"{where}, variant {n}", path.parent)
        for n, table in enumerate(_tables(entry, "variant", where), start=1)
    )
    return Card(draft=IdeaDraft(**words), builds_on=builds_on, variants=variants)


def _variant(entry: dict[str, Any], where: str, folder: Path) -> CardVariant:
    _check_keys(entry, VARIANT_KEYS, where)
    languages = [str(language) for language in Language]
    language = _text(entry, "language", where)
    if language not in languages:
        raise SettingsError(f"{where}: language is `{language}`{nearest(language, languages)}")
    file = _text(entry, "file", where)
    defines = _defines(entry.get("defines", {}), where)
    return CardVariant(
        language=Language(language),
        source=_read_kernel(folder, file, where),
        name=_text(entry, "name", where) or " ".join(f"{name}={value}" for name, value in defines) or Path(file).stem,
        defines=defines,
    )


def _defines(table: Any, where: str) -> Setting:
    if not isinstance(table, dict):
        raise SettingsError(f"{where}: defines is {table!r}; a table such as {{ BLOCK = 256 }} is expected.")
    for name, value in table.items():
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            raise SettingsError(f"{where}: defines: `{name}` is not a C name.")
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise SettingsError(f"{where}: defines: {name} is {value!r}; a whole number is expected.")
    return tuple(sorted((name, str(value)) for name, value in table.items()))


def _read_kernel(folder: Path, file: str, where: str) -> str:
    path = (folder / file).resolve()
    if not file or not path.is_relative_to(folder.resolve()):
        raise SettingsError(f"{where}: `file` is `{file}`; a kernel inside {folder} is expected.")
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise SettingsError(f"{where}: {folder / file}: cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{where}: {folder / file}: not UTF-8; save the file as UTF-8.") from error
    if not text.strip():
        raise SettingsError(f"{where}: {folder / file}: the file is empty.")
    return text


def _check_keys(table: dict[str, Any], known: Sequence[str], where: str) -> None:
    for key in table:
        if key not in known:
            raise SettingsError(f"{where}: `{key}` is not known{nearest(key, known)}")


def _tables(table: dict[str, Any], key: str, where: str) -> list[dict[str, Any]]:
    found = table.get(key, [])
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise SettingsError(f"{where}: `{key}` is written as tables: [[idea]] and [[idea.variant]].")
    return found


def _text(table: dict[str, Any], key: str, where: str) -> str:
    value = table.get(key, "")
    if not isinstance(value, str):
        raise SettingsError(f"{where}: `{key}` is {value!r}; a text is expected.")
    return value
