//! Programs that send the stream that is watched.

use crate::lab::placed;
use linecard_io::lab::{Host, Lab};
use linecard_jitter::linux::generator::{Generator, GeneratorConfig};
use linecard_jitter::linux::session::Conditions;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The stream ends when it is over, and at the latest with this many packets, in a minute.
const MAX_PACKETS: u64 = 3_000_000;

/// A program that sends, at the sender's core.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sender {
    /// The lab's generator: packets of the conditions' length and period.
    Own,
    /// ffmpeg: RTP, sound of two channels, 16 bits and 48 kHz in packets of 250 µs.
    Ffmpeg,
    /// `GStreamer`: the same of 24 bits.
    GStreamer,
}

impl Sender {
    /// Whether it is installed; if not, that is said on stderr.
    pub(crate) fn is_there(self, test: &str) -> bool {
        let Some(command) = self.command(SocketAddr::from(([127, 0, 0, 1], 9))) else {
            return true;
        };
        let is_there = Command::new(&command[0])
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok();
        if !is_there {
            linecard_testkit::skip(test, format!("{} is not installed", command[0]));
        }
        is_there
    }

    /// Sends on the peer's side until it is over.
    pub(crate) fn run(self, lab: &Lab, conditions: &Conditions, to: SocketAddr, over: &AtomicBool) {
        let send = || {
            let _placed = placed(conditions.cores.generator);
            match self.command(to) {
                None => generate(conditions, to, over),
                Some(command) => start(&command, over),
            }
        };
        lab.enter(Host::Peer, send).expect("a namespace");
    }

    /// Packets go out one by one, when they are due: `-re` of ffmpeg sends every 10 ms.
    fn command(self, to: SocketAddr) -> Option<Vec<String>> {
        let (host, port) = (to.ip(), to.port());
        let command = match self {
            Self::Own => return None,
            Self::Ffmpeg => format!(
                "ffmpeg -hide_banner -loglevel error -nostdin \
                 -f lavfi -i sine=sample_rate=48000:samples_per_frame=12 -af arealtime \
                 -c:a pcm_s16be -ac 2 -f rtp rtp://{host}:{port}?pkt_size=60"
            ),
            Self::GStreamer => format!(
                "gst-launch-1.0 -q audiotestsrc is-live=true samplesperbuffer=12 \
                 ! audio/x-raw,rate=48000,channels=2 ! audioconvert \
                 ! rtpL24pay min-ptime=250000 max-ptime=250000 ! udpsink host={host} port={port}"
            ),
        };
        Some(command.split_whitespace().map(str::to_owned).collect())
    }
}

fn generate(conditions: &Conditions, to: SocketAddr, over: &AtomicBool) {
    let mut config = GeneratorConfig::new(to);
    (config.period_ps, config.count) = (conditions.period_ps, MAX_PACKETS);
    config.payload_len = conditions.payload_len;
    let generator = Generator::open(config).expect("a sender");
    generator.run(over).expect("a stream");
}

fn start(command: &[String], over: &AtomicBool) {
    let mut program = Command::new(&command[0]);
    let mut program = program.args(&command[1..]).stdout(Stdio::null()).spawn().expect("a program");
    let mut ended = None;
    while !over.load(Ordering::Relaxed) && ended.is_none() {
        std::thread::sleep(Duration::from_millis(10));
        ended = program.try_wait().expect("a child");
    }
    over.store(true, Ordering::Relaxed);
    let _killed = program.kill();
    let _ended = program.wait();
    assert_eq!(ended, None, "{command:?} ended before it should");
}
