# %% [markdown]
# # Why do my flows not merge?
#
# A receiver with LRO merges consecutive packets of a flow into large ones. How well that works is a matter of the
# traffic: here, what merging would do to captures, and for each packet that did not merge, why.

# %%
import tempfile
from pathlib import Path

import linecard

# Captures of your own. Without any, those of the project: this runs anywhere in a clone of it.
captures: list[Path] = []
if not captures:
    # As a script from any folder; a notebook has no file of its own.
    here = Path(globals().get("__file__", "notebook")).resolve().parent
    for folder in [here, *here.parents]:
        captures = captures or sorted(folder.glob("testdata/captures/tcp4-*.pcap"))
if not captures:
    raise FileNotFoundError(
        f"no testdata/captures/tcp4-*.pcap in {here} or above it: "
        "run this in a clone of linecard, or name captures of your own in `captures`"
    )

# %% [markdown]
# All captures at once: how many packets came and left, and why. The captures in which least is merged stand first.

# %%
study = linecard.study(captures, "merging")
total = study.total.row(0)
print(f"{total['packets_in']} packets become {total['packets_out']}")
each = study.captures
for number in (each["packets_out"] / each["packets_in"]).argsort()[::-1]:
    row = each.row(number)
    print(f"{Path(str(row['file'])).name:28} {row['packets_in']:4} packets become {row['packets_out']:4}")

# %% [markdown] What held merging up: the reasons that occurred, most frequent first. The report of a capture below
# explains each.

# %%
reasons = {name: count for name, count in total.items() if "." in name and count}
for name, count in sorted(reasons.items(), key=lambda item: -int(str(item[1]))):
    print(f"{count:6}  {name}")

# %% [markdown]
# One capture in full, with what each reason means.

# %%
worst = captures[int((each["packets_out"] / each["packets_in"]).argmax())]
with tempfile.TemporaryDirectory() as scratch:
    report = linecard.coalesce_capture(worst, Path(scratch) / "merged.pcapng")
report

# %% [markdown]
# One of its flows, packet by packet.

# %%
with linecard.Capture(worst) as capture:
    flow = max((packet for packet in capture if packet.flow), key=lambda packet: packet.wire_length).flow
assert flow is not None
name = f"{flow.source}:{flow.source_port}-{flow.destination}:{flow.destination_port}"
with tempfile.TemporaryDirectory() as scratch:
    report = linecard.coalesce_capture(worst, Path(scratch) / "merged.pcapng", explain_flow=name)
for line in report["flow"][:12]:
    print(line["label"], line["value"])
