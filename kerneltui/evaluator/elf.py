"""Just enough of ELF to judge a built library: symbols, sections, code. No objdump needed.

Source: System V gABI, "Object Files"; 64-bit little-endian only.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

SHT_SYMTAB, SHT_NOBITS, SHT_DYNSYM = 2, 8, 11
SHF_WRITE, SHF_EXECINSTR = 1, 4
STT_FUNC = 2
STV_DEFAULT = 0
UNDEFINED = 0


class NotElf(Exception):
    """The file is no 64-bit little-endian ELF file, or is cut short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One section; `data` is empty where the file holds none."""

    name: str
    kind: int
    flags: int
    address: int
    size: int
    link: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbol:
    """One entry of a symbol table."""

    name: str
    kind: int
    binding: int  # 0 local, 1 global, 2 weak
    visibility: int
    section: int  # 0: undefined here, so imported
    value: int
    size: int

    @property
    def is_exported(self) -> bool:
        return self.section != UNDEFINED and self.binding != 0 and self.visibility == STV_DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class Elf:
    """A file, read."""

    sections: tuple[Section, ...]
    dynamic: tuple[Symbol, ...]  # what the loader sees
    symbols: tuple[Symbol, ...]  # all, unless stripped

    def section(self, name: str) -> Section | None:
        return next((section for section in self.sections if section.name == name), None)


def read_elf(data: bytes) -> Elf:
    """Read a file's bytes.

    Raises:
        NotElf: they are no such file.
    """
    if data[:6] != b"\x7fELF\x02\x01":
        raise NotElf("not a 64-bit ELF file")
    try:
        sections = _read_sections(data)
        return Elf(
            sections=sections,
            dynamic=_read_symbols(sections, SHT_DYNSYM),
            symbols=_read_symbols(sections, SHT_SYMTAB),
        )
    except (struct.error, IndexError, ValueError) as error:
        raise NotElf(f"damaged ELF file: {error}") from error


def _read_sections(data: bytes) -> tuple[Section, ...]:
    (offset,) = struct.unpack_from("<Q", data, 0x28)
    entry_size, count, names_index = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, offset + index * entry_size) for index in range(count)]
    if not headers:
        return ()
    names = _contents(data, headers[names_index])
    return tuple(
        Section(
            name=_string(names, header[0]),
            kind=header[1],
            flags=header[2],
            address=header[3],
            size=header[5],
            link=header[6],
            data=_contents(data, header),
        )
        for header in headers
    )


def _contents(data: bytes, header: tuple[int, ...]) -> bytes:
    return b"" if header[1] == SHT_NOBITS else data[header[4] : header[4] + header[5]]


def _read_symbols(sections: tuple[Section, ...], kind: int) -> tuple[Symbol, ...]:
    found: list[Symbol] = []
    for table in (section for section in sections if section.kind == kind):
        names = sections[table.link].data
        for offset in range(0, len(table.data) - 23, 24):
            name, info, other, section, value, size = struct.unpack_from("<IBBHQQ", table.data, offset)
            found.append(
                Symbol(
                    name=_string(names, name),
                    kind=info & 15,
                    binding=info >> 4,
                    visibility=other & 3,
                    section=section,
                    value=value,
                    size=size,
                )
            )
    return tuple(found)


def _string(table: bytes, offset: int) -> str:
    end = table.index(b"\0", offset)
    return table[offset:end].decode("utf-8", "replace")
