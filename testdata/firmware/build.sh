#!/usr/bin/env bash
# Makes sum.elf anew: the test data of linecard_model::elf. Made with gcc 12.2.0, binutils 2.40.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
riscv64-unknown-elf-gcc -march=rv32i -mabi=ilp32 -nostdlib -ffreestanding -O1 -g \
    -fdebug-prefix-map="$PWD"=. -Wl,-n,--build-id=none -Wl,-Ttext=0x0,-Tdata=0x10000 \
    -o "${1:-sum.elf}" start.S sum.c
riscv64-unknown-elf-objcopy -R .comment -R .debug_frame -R .debug_aranges "${1:-sum.elf}"
