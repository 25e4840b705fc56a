use super::*;
use crate::fec::Scheme;

fn published(lanes: usize, mode: Mode, fec: Scheme) -> Settings {
    let lane = LaneSettings {
        rate_bps: 10_000_000_000,
        framing_bytes: 38,
        datagram_bytes: 4_136,
        quantum_ns: 0,
        slack_ns: 2_000_000,
        ..LaneSettings::default()
    };
    Settings {
        lanes: vec![(lane, LinkSettings::default()); lanes],
        send: SendSettings { payload_bytes: 4_096, mode, fec, ..SendSettings::default() },
        chunks: 32,
        chunk_bytes: 16 << 20,
        last_bytes: 16 << 20,
        begin_ns: 26_000,
        ..Settings::default()
    }
}

#[test]
fn published_figures() {
    for mode in [Mode::Stable, Mode::LowLatency] {
        for lanes in [1, 2, 4, 8] {
            let out = run(&published(lanes, mode, Scheme::NONE)).unwrap();
            std::println!(
                "{mode:?} {lanes} {:.3} Gbit/s {:.3} ms {:?}",
                out.goodput_bps() / 1e9,
                out.median_latency_ns() as f64 / 1e6,
                out.send
            );
        }
    }
}
