# %% [markdown]
# # A week of ST 2110 captures
#
# Audio and video over IP come in packets on a schedule. Rotated captures of such streams are asked the same
# question, each by itself: how late are packets, and what does that ask of a receiver's buffer?

# %%
import random
import struct
import tempfile
from pathlib import Path

import linecard

# %% [markdown]
# Captures of your own are better. Without any, some are made up: an ST 2110-30 stream (48 kHz, two channels of 24
# bits, a packet each millisecond) that gets more jittery from hour to hour.


# %%
def made_up(path: Path, jitter_us: float, seconds: float = 2.0) -> None:
    """A capture of an audio stream whose packets come up to `jitter_us` late."""
    chance = random.Random(jitter_us)
    with path.open("wb") as file:
        # pcap with nanoseconds, Ethernet.
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1))
        for number in range(int(seconds * 1000)):
            samples = bytes(48 * 2 * 3)
            rtp = struct.pack(">BBHII", 0x80, 97, number & 0xFFFF, 48 * number, 7) + samples
            udp = struct.pack(">HHHH", 5004, 5004, 8 + len(rtp), 0) + rtp
            head = struct.pack(
                ">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), number & 0xFFFF, 0x4000, 64, 17, 0,
                bytes([10, 0, 0, 1]), bytes([239, 1, 2, 3]),
            )  # fmt: skip
            total = sum(struct.unpack(">10H", head))
            while total >> 16:
                total = (total & 0xFFFF) + (total >> 16)
            head = head[:10] + struct.pack(">H", total ^ 0xFFFF) + head[12:]
            frame = bytes.fromhex("01005e010203 020000000001 0800") + head + udp
            at = 1_700_000_000_000_000_000 + number * 1_000_000 + int(chance.random() * jitter_us * 1000)
            file.write(struct.pack("<IIII", at // 10**9, at % 10**9, len(frame), len(frame)) + frame)


folder = tempfile.TemporaryDirectory()
captures: list[Path] = []
if not captures:
    for hour, jitter_us in enumerate([5, 20, 100, 400, 900]):
        captures.append(Path(folder.name) / f"hour-{hour}.pcap")
        made_up(captures[-1], jitter_us)

# %% [markdown]
# One call for all of them; on a shared store, the same call with `client=` reads them on a cluster.

# %%
study = linecard.study(captures, "media")
study.captures

# %%
for number in range(study.captures.rows):
    row = study.captures.row(number)
    median, longest = (row[name] for name in ("lateness.p50.ns", "lateness.range.max_ns"))
    print(f"{Path(str(row['file'])).name}: late by {median / 1e3:.0f} us in the median, {longest / 1e3:.0f} us at most")

# %% [markdown]
# One capture in full.

# %%
report = linecard.analyze(captures[-1])
report
