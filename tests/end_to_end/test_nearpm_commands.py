"""Single commands of NearPM's devices, by programs of a few lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure import Machine, toolchain

FEW_BYTES = r"""
#include "nearpm.h"
int main(int count, char **arguments)
{
    const unsigned bytes = (unsigned)atoi(arguments[2]);
    int file = open(arguments[1], O_RDWR);
    char *pool = mmap(0, 327680, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (count < 3 || pool == MAP_FAILED || NearPM_init_device("/dev/module/nearpm-0.device") ||
        NearPM_map_pool(0, 0, pool, 327680))
        return 2;
    for (unsigned place = 0; place < 100; place++)
        pool[place * 64] = (char)place;
    for (unsigned place = 0; place < 100; place++)
        NearPM_copy(0, 0, pool + place * 64, pool + place * 64 + 8192, bytes);
    if (nearpm_error_of(NearPM_wait(0)))
        return 3;
    for (unsigned place = 0; place < 100; place++)
        if (pool[place * 64 + 8192] != (char)place)
            return 4;
    return 0;
}
"""


@pytest.mark.parametrize("count", [1, 8, 63, 64, 65])
def test_commands_on_fewer_bytes_than_a_line(count: int, tmp_path: Path) -> None:
    """Their reads are counted as what they are: the statistics add up, or the run would end."""
    compiler = toolchain.installed()
    assert compiler is not None, "no C compiler for riscv64: `make test` installs one"
    (tmp_path / "few.c").write_text(FEW_BYTES)
    flags = ("-O1", "-std=c11", "-D_GNU_SOURCE", "-include", "stdlib.h")
    program = compiler.build(tmp_path / "few.c", tmp_path / "few", flags)
    (tmp_path / "pools").mkdir()
    (tmp_path / "pools/p").write_bytes(bytes(327680))
    machine = Machine(machine="nearpm", design="nearpm", pmem=tmp_path / "pools")
    run = machine.run([program, "/pmem/p", str(count)])
    assert run.exit_code == 0
