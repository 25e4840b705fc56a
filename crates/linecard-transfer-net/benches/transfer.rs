//! Whole transfers over loopback: Gbit per second of processor time, both ends together, with all seals.
//! Beside it, the rate. From memory to nowhere, as in the test of a path, and from file to file with
//! hashes.
//!
//! Files are in memory where `/dev/shm` is. `cargo bench -p linecard-transfer-net --bench transfer [-- --rounds N]`;
//! with `--smoke` it runs once, small.
#![expect(clippy::print_stdout, reason = "the figures are the output")]

mod support;

use linecard::rng::Rng;
use linecard_transfer::control::Mode;
use linecard_transfer_net::control::Access;
use linecard_transfer_net::end::{Cores, processor_time};
use linecard_transfer_net::file::{Choice, ChunkBytes, Input};
use linecard_transfer_net::keys::SharedKey;
use linecard_transfer_net::receive::{ReceiveOptions, receive};
use linecard_transfer_net::send::{SendOptions, send};
use std::error::Error;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::{median, rounds};

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// Bytes of a transfer.
const BYTES: usize = 1 << 30;
const SMALL_BYTES: usize = 8 << 20;

struct Case {
    name: &'static str,
    lanes: usize,
    kind: &'static str,
    payload: u32,
    fec: &'static str,
    from_file: bool,
}

const fn case(name: &'static str, kind: &'static str, lanes: usize, payload: u32) -> Case {
    Case { name, lanes, kind, payload, fec: "none", from_file: false }
}

fn main() -> Result<()> {
    let (rounds, bytes) = rounds(3).map_or((1, SMALL_BYTES), |rounds| (rounds, BYTES));
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory)? } else { tempfile::tempdir()? };
    let file = folder.path().join("from");
    let mut content = vec![0; bytes];
    Rng::new(1).fill(&mut content);
    fs::write(&file, &content)?;
    let filed = |name, kind, payload| Case { from_file: true, ..case(name, kind, 1, payload) };
    let cases = [
        case("udp, 8896 bytes", "udp", 1, 8_896),
        case("udp, 4096 bytes", "udp", 1, 4_096),
        case("udp, 1408 bytes", "udp", 1, 1_408),
        case("udp, 4 lanes, 8896 bytes", "udp", 4, 8_896),
        case("tcp, 8896 bytes", "tcp", 1, 8_896),
        Case { fec: "rs:28,4", ..case("udp, 8896 bytes, rs:28,4", "udp", 1, 8_896) },
        filed("udp, 8896 bytes, from file to file", "udp", 8_896),
        filed("udp, 1408 bytes, from file to file", "udp", 1_408),
        filed("tcp, 8896 bytes, from file to file", "tcp", 8_896),
    ];
    let mut figures = vec![(Vec::new(), Vec::new()); cases.len()];
    for round in 0..rounds {
        for (case, (cpu, rate)) in cases.iter().zip(&mut figures) {
            let to = folder.path().join(format!("to{round}"));
            let input = match case.from_file {
                true => Input::Paths(vec![file.clone()]),
                false => Input::Test(bytes as u64),
            };
            let (per_cpu, per_second) = transfer(case, input, &to)?;
            fs::remove_dir_all(&to)?;
            cpu.push(per_cpu);
            rate.push(per_second);
        }
    }
    println!("whole transfers over loopback, median of {rounds} rounds in turns");
    println!("Gbit per processor second   Gbit/s");
    for (case, (cpu, rate)) in cases.iter().zip(figures) {
        println!("{:27.2}   {:6.2}   {}", median(cpu), median(rate), case.name);
    }
    Ok(())
}

fn transfer(case: &Case, input: Input, to: &Path) -> Result<(f64, f64)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let access = Access::Shared(SharedKey::new(&[7; 32]));
    let lane = format!("{}:127.0.0.1", case.kind).parse()?;
    let stop = Arc::default();
    let options = SendOptions {
        dry_run: false,
        delete: false,
        max_delete: None,
        input,
        choice: Choice::default(),
        peer: listener.local_addr()?,
        name: "bench".into(),
        access: access.clone(),
        lanes: vec![lane; case.lanes],
        rate_bits_per_second: None,
        mode: Mode::Stable,
        fec: case.fec.parse()?,
        chunk_bytes: ChunkBytes::new(1 << 22)?,
        payload_bytes: Some(case.payload),
        cores: Cores::default(),
        patience: Duration::from_secs(20),
        stop: Arc::clone(&stop),
    };
    let receiving = ReceiveOptions {
        folder: Some(to.into()),
        bucket: None,
        overwrite: false,
        allow_delete: false,
        allow_links_out: false,
        access,
        lanes: Vec::new(),
        at_once: None,
        memory_bytes: 128 << 20,
        cores: Cores::default(),
        patience: Duration::from_secs(20),
        stop,
    };
    let (start, cpu) = (Instant::now(), processor_time());
    let sent = std::thread::scope(|scope| {
        let other = scope.spawn(|| receive(&receiving, &listener, &mut |_| {}));
        let sent = send(&options, &mut |_| {});
        let _got = other.join();
        sent
    })?;
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), (processor_time() - cpu).as_secs_f64());
    let gbit = sent.bytes as f64 * 8e-9;
    if std::env::var_os("LINECARD_BENCH_VERBOSE").is_some() {
        println!("{sent:#?}");
    }
    Ok((gbit / cpu, gbit / seconds))
}
