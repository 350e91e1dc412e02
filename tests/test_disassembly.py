"""Machine code taken apart: recorded texts of the tools, and the tools themselves where they are here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from building import CPP_CONTRACT, CUDA_CONTRACT, CUDA_RELU, HAS_NVCC, RELU, cpp, cuda

from kerneltui.errors import ToolchainMissing, UsageError
from kerneltui.evaluator import disassembly
from kerneltui.evaluator.assembly import (
    CodeLine,
    Disassembly,
    Function,
    opcode_of,
    reachable,
    read_host,
    read_ptx,
    read_sass,
    select,
    vector_widths,
)
from kerneltui.evaluator.devices import find_device, offline_cuda_device
from kerneltui.evaluator.disassembly import compiling_device, disassemble, find_tool
from kerneltui.records import Candidate, Device, Language, Policy

HAS_DISASSEMBLER = HAS_NVCC and any(find_tool(name, "") for name in ("nvdisasm", "cuobjdump"))

NVDISASM = """\t.target\tsm_90a
//--------------------- .text._Z1kPf --------------------------
\t.section\t.text._Z1kPf,"ax",@progbits
.text._Z1kPf:
        .type           _Z1kPf,@function
_Z1kPf:
\t//## File "/tmp/kerneltui-build-5muddrfh/kernel.cu", line 71
        /*0000*/                   LDC R1, c[0x0][0x28] ;
\t//## File "/usr/include/crt/sm_90_rt.hpp", line 177 inlined at "/tmp/kerneltui-build-5muddrfh/kernel.cu", line 80
        /*0010*/               @P1 BRA `(.L_x_1) ;
\t//## File "/usr/include/crt/sm_90_rt.hpp", line 178
        /*0020*/                   S2UR UR15, SR_CgaCtaId ;
.L_x_1:
        /*0030*/                   EXIT ;
.L_x_2:
        /*0040*/                   BRA `(.L_x_2);
        /*0050*/                   NOP;
        /*0060*/                   NOP;
.L_x_3:
"""
CUOBJDUMP = """
\tcode for sm_90a
\t\tFunction : _Z1kPf
\t.headerflags\t@"EF_CUDA_SM90"
        /*0000*/                   LDC R1, c[0x0][0x28] ;                  /* 0x00000a00ff017b82 */
                                                                           /* 0x000fe20000000800 */
        /*0010*/               @P1 BRA 0x520 ;                             /* 0x0000000400241947 */
                                                                           /* 0x008fea0003800000 */
"""
PTX = """.version 9.0
.target sm_90a
.address_size 64
\t// .globl\t_Z1kPf
.visible .entry _Z1kPf(
\t.param .u64 _Z1kPf_param_0
)
{
\t.reg .pred \t%p<2>;
\t.loc\t1 12 0
\tld.param.u64 \t%rd1, [_Z1kPf_param_0];
\t// begin inline asm
{
\t.reg .pred p;
}
\t// end inline asm
\t.loc\t2 300 9, function_name $L__info_string0, inlined_at 1 14 3
\t@%p1 bra \t$L__BB0_2;
$L__BB0_2:
\tret;
}
\t.file\t1 "/tmp/kerneltui-build-1/kernel.cu"
\t.file\t2 "/usr/include/cuda_fp16.hpp"
\t.section\t.debug_str
\t{
$L__info_string0:
.b8 95
\t}
"""
OBJDUMP = """
library.so:     file format elf64-x86-64

Disassembly of section .text:

0000000000001190 <unrelated()>:
    1190:\tret

00000000000011a0 <relu._omp_fn.0>:
    11a0:\tvmovups 0x10(%rax),%zmm0
    11a6:\tvmaxss %xmm1,%xmm2,%xmm3
    11aa:\tcall   11c0 <void inner<float>(float const*)>
    11af:\tjne    11a0 <relu._omp_fn.0+0x10>

00000000000011c0 <void inner<float>(float const*)>:
    11c0:\tvzeroupper
    11c3:\tret

00000000000011d0 <relu>:
    11d0:\tlea    -0x30(%rip),%rdi        # 11a0 <relu._omp_fn.0>
    11d7:\tcall   1030 <GOMP_parallel@plt>
    11dc:\tret
"""


def code(text: str, source: int | None = None, address: str = "") -> CodeLine:
    return CodeLine(text=text, source=source, address=address)


def test_sass_has_the_lines_of_the_candidate_itself() -> None:
    (kernel,) = read_sass(NVDISASM)
    assert "_Z1kPf" == kernel.symbol
    assert (
        code("LDC R1, c[0x0][0x28]", 71, "0000"),
        code("@P1 BRA .L_x_1", 80, "0010"),
        code("S2UR UR15, SR_CgaCtaId", 80, "0020"),
        code(".L_x_1:"),
        code("EXIT", 80, "0030"),
        code(".L_x_2:"),
        code("BRA .L_x_2", 80, "0040"),
    ) == kernel.lines
    assert {"LDC": 1, "BRA": 2, "S2UR": 1, "EXIT": 1} == dict(kernel.opcodes)


def test_sass_of_cuobjdump() -> None:
    (kernel,) = read_sass(CUOBJDUMP)
    assert (code("LDC R1, c[0x0][0x28]", None, "0000"), code("@P1 BRA 0x520", None, "0010")) == kernel.lines


def test_ptx_keeps_inline_assembly_and_leaves_debug_sections() -> None:
    (kernel,) = read_ptx(PTX)
    assert "}" == kernel.lines[-1].text
    assert [("ld", 12), ("bra", 14), ("ret", 14)] == [
        (opcode_of(line.text), line.source) for line in kernel.lines if opcode_of(line.text)
    ]


def test_host_code_is_the_launcher_and_what_it_leads_to() -> None:
    functions = reachable(read_host(OBJDUMP), "relu")
    assert ["relu", "relu._omp_fn.0", "void inner<float>(float const*)"] == [each.name for each in functions]
    assert {512: 1, 0: 1} == vector_widths(functions)
    assert ["relu._omp_fn.0"] == [each.name for each in select(functions, "omp_fn")]


@pytest.mark.parametrize(
    ("text", "opcode"),
    [("@!P0 LDG.E.128 R4, desc[UR4]", "LDG"), (".L_x_1:", ""), ("$L__BB0_2:", ""), ("lock xadd %eax,(%rdi)", "xadd"),
     (".reg .pred %p<2>;", ""), ("{", ""), ("ret;", "ret"), ("", "")],
)  # fmt: skip
def test_opcodes(text: str, opcode: str) -> None:
    assert opcode == opcode_of(text)


# --------------------------------------------------------------------------- the tools themselves


async def made(candidate: Candidate, device: Device, cache: Path, *, ptx: bool = False) -> Disassembly:
    contract = CPP_CONTRACT if candidate.language is Language.CPP else CUDA_CONTRACT
    return await disassemble(candidate, contract, device, ptx=ptx, policy=Policy(), cache=cache)


async def test_a_host_library_is_made_again_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = find_device("cpu")
    found = await made(cpp(RELU), cpu, tmp_path)
    assert "relu" == found.functions[0].name
    assert any("omp_fn" in each.name for each in found.functions)
    monkeypatch.setattr(disassembly, "_run", None)  # a second time no tool is asked
    assert found == await made(cpp(RELU), cpu, tmp_path)


async def test_what_has_no_machine_code_says_so(tmp_path: Path) -> None:
    cpu = find_device("cpu")
    with pytest.raises(UsageError, match="does not build: line 1"):
        await made(cpp("int relu(\n"), cpu, tmp_path)
    with pytest.raises(UsageError, match="no PTX"):
        await made(cpp(RELU), cpu, tmp_path, ptx=True)
    with pytest.raises(UsageError, match="a module"):
        await made(Candidate(source="class ModelNew: ...", language=Language.PYTHON), cpu, tmp_path)
    with pytest.raises(UsageError, match="contract is for cuda"):
        await disassemble(cpp(RELU), CUDA_CONTRACT, cpu, policy=Policy(), cache=tmp_path)


async def test_a_missing_disassembler_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = find_device("cpu")
    monkeypatch.setattr(disassembly.shutil, "which", lambda name: None)
    with pytest.raises(ToolchainMissing, match="apt install binutils"):
        await made(cpp(RELU), cpu, tmp_path)


@pytest.mark.skipif(not HAS_NVCC, reason="no nvcc here")
async def test_ptx_is_compiled_on_request(tmp_path: Path) -> None:
    found = await made(cuda(CUDA_RELU), offline_cuda_device(), tmp_path, ptx=True)
    assert ["positive<float>"] == [each.name for each in found.functions]
    sources = {line.source for line in found.functions[0].lines if opcode_of(line.text) == "st"}
    assert {5, 7} == sources, "st.shared and st.global"


@pytest.mark.skipif(not HAS_DISASSEMBLER, reason="no nvdisasm or cuobjdump here")
async def test_sass_of_a_real_build(tmp_path: Path) -> None:
    found = await made(cuda(CUDA_RELU), offline_cuda_device(), tmp_path)
    assert ["positive<float>"] == [each.name for each in found.functions]
    assert {"LDG", "STG", "STS", "EXIT"} <= set(found.functions[0].opcodes)


def test_a_sessions_device_is_used_as_long_as_its_compiler_is_there() -> None:
    cpu = find_device("cpu")
    elsewhere = replace(cpu, name="another machine")
    assert elsewhere == compiling_device(elsewhere, Language.CPP)
    assert cpu == compiling_device(replace(elsewhere, compiler="/gone/c++"), Language.CPP)
    assert Function(name="k", symbol="k", lines=()).opcodes == {}
