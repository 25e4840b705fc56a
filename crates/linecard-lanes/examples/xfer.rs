use linecard_lanes::control::Access;
use linecard_lanes::file::ChunkBytes;
use linecard_lanes::keys::SharedKey;
use linecard_lanes::receive::{ReceiveOptions, receive};
use linecard_lanes::send::{SendOptions, send};
use linecard_transfer::send::Mode;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let access = Access::Shared(SharedKey::new(&[7; 32]));
    let stop = Arc::new(AtomicBool::new(false));
    let lanes: Vec<_> = a[4].split_whitespace().map(|l| l.parse().unwrap()).collect();
    let patience = Duration::from_secs(20);
    if a[1] == "recv" {
        let l = TcpListener::bind(&a[3]).unwrap();
        let o = ReceiveOptions {
            folder: Some(a[2].clone().into()),
            overwrite: true,
            access,
            lanes,
            memory_bytes: 512 << 20,
            patience,
            stop,
        };
        println!("{:#?}", receive(&o, &l, &mut |_| {}));
    } else {
        let mode = match a[5].as_str() {
            "stable" => Mode::Stable,
            "low" => Mode::LowLatency,
            _ => Mode::Auto,
        };
        let o = SendOptions {
            path: a[2].clone().into(),
            peer: a[3].parse().unwrap(),
            name: "x".into(),
            access,
            lanes,
            rate_bps: None,
            mode,
            fec: a[6].parse().unwrap(),
            chunk_bytes: ChunkBytes::new(a[7].parse().unwrap()).unwrap(),
            payload_bytes: None,
            patience,
            stop,
        };
        let r = send(&o, &mut |_| {});
        match r {
            Err(e) => println!("ERROR {e}"),
            Ok(mut s) => {
                let gbps = s.bytes as f64 * 8e-9 / s.elapsed.as_secs_f64();
                s.latencies_ns.sort();
                let n = s.latencies_ns.len();
                println!(
                    "{:.4} Gbit/s {:?} payload {} chunk p50 {:.3} max {:.3} ms {:?}",
                    gbps,
                    s.elapsed,
                    s.payload_bytes,
                    s.latencies_ns[n / 2] as f64 / 1e6,
                    s.latencies_ns[n - 1] as f64 / 1e6,
                    s.counters
                );
                for l in s.lanes {
                    println!(
                        "  {} {:?} rtt {} us packets {} lost {} late {} deaths {} rejoin {} probes {} acks {}",
                        l.name,
                        l.state,
                        l.rtt_ns / 1000,
                        l.counters.packets,
                        l.counters.lost,
                        l.counters.late,
                        l.counters.deaths,
                        l.counters.rejoins,
                        l.counters.probes,
                        l.counters.acks
                    );
                }
            }
        }
    }
}
