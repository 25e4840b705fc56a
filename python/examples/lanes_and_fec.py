# %% [markdown]
# # Lanes and repair against loss
#
# Bulk data goes over eight lanes of 10 Gbit/s, and lanes lose packets. Lost packets are sent again, which takes a round
# trip; or repaired from others, which takes a part of the rate. Which code is better at which loss? Both real ends of a
# transfer run in virtual time: equal seeds give equal tables.

# %%
import linecard

scenario = """
model = "transfer"

[lanes]
count = 8
rate = "10G"
delay = "5ms"

[chunk]
count = 24
bytes = "4M"

[transfer]
mode = "low-latency"
"""

# %% [markdown]
# Lanes 5 ms away: what is sent again comes 10 ms later.

# %%
table = linecard.sweep(
    scenario,
    {"transfer.fec": ["none", "xor:10", "rs:28,4"], "lanes.loss": [0, 0.001, 0.01]},
)
assert all(error is None for error in table["error"])
table

# %%
print("repair     loss   goodput  chunk, median  chunk, longest  sent again")
for number in range(table.rows):
    row = table.row(number)
    print(
        f"{row['transfer.fec']:8} {row['lanes.loss']:6.1%}"
        f"  {row['summary.goodput_bits_per_second'] / 1e9:5.1f} Gbit/s"
        f"  {row['chunk_latency.p50_ns'] / 1e6:8.2f} ms  {row['chunk_latency.max_ns'] / 1e6:9.2f} ms"
        f"  {row['packets.resent']:8}"
    )

# %% [markdown]
# One of these runs as a page, with how long each chunk took.

# %%
linecard.transfer(fec="rs:28,4", loss=0.01, delay="5ms", chunk="4M", chunks=24, mode="low-latency")
