# %% [markdown]
# # Which clock carries 400 Gbit/s at 1,500 bytes?
#
# A network interface cuts large sends into packets: a small core writes each header, a DMA moves the payload over
# a local bus. Which clock does the core need, how wide a bus, how many cores?

# %%
import linecard

# %% [markdown]
# With a bus of 64 bits no clock of the core is enough, and the answer says why: the DMA, at its published
# 2,115 MHz, cannot move that much.

# %%
try:
    linecard.solve("400G", mtu=1500)
except linecard.InfeasibleError as no:
    print(no)

# %% [markdown]
# A wider bus moves more in each cycle. `from_mhz` is the clock from which on every clock carries it: between it and
# `smallest_mhz`, how the edges of both clocks lie beside each other decides.

# %%
answers = {}
for bits in (128, 256, 512):
    try:
        answers[bits] = linecard.solve("400G", mtu=1500, bus=bits)
        clock = answers[bits]["core_clock"]
        print(f"{bits} bits: from {clock['from_mhz']:.0f} MHz on; {clock['limit']} limits")
    except linecard.InfeasibleError as no:
        print(f"{bits} bits: {no}")

# %% [markdown]
# All of an answer: what has to be carried, cycles of the firmware, the clocks, and runs of the real firmware one per
# cent below and above.

# %%
answers[256]

# %% [markdown]
# The other way round: what does a design carry? A sweep runs all combinations with real firmware, on the cores of
# this machine; with `client=` on a cluster.

# %%
scenario = """
model = "transmit"
[line]
rate = "unlimited"
[load]
messages = 64
"""
table = linecard.sweep(scenario, {"bus.bits": [128, 256, 512], "core.mhz": range(200, 701, 100)})
table

# %%
carried = table["wire_bits_per_second"].reshape(3, -1) / 1e9
for bits, row in zip((128, 256, 512), carried, strict=True):
    print(f"{bits} bits:", "  ".join(f"{rate:5.0f}" for rate in row), "Gbit/s")

# %%
table.figure("core.mhz", "wire_bits_per_second", by="bus.bits")

# %% [markdown]
# And what limits the design of 256 bits, and what would limit next?

# %%
import tempfile
from pathlib import Path

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "design.toml"
    path.write_text(scenario)
    steps = linecard.bottlenecks(path, set={"bus.bits": 256, "core.mhz": 400}, rate="400G", steps=4)
steps
