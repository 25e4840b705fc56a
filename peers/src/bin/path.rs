//! A path between two TUN devices: a rate, a delay, losses, and a queue that drops from its end.
//!
//! ```text
//! path NAME_A NAME_B RATE DELAY_MS LOSS QUEUE_MS     rate in Mbit/s, delay one way, loss from 0 to 1
//! ```
//!
//! A line of the standard input is another rate from then on. The devices exist as long as it runs. A script gives each to a namespace; what enters one leaves the other. Both
//! directions have the same figures. At the end (SIGTERM) nothing is left.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tun_rs::{DeviceBuilder, SyncDevice};

/// The rate of both directions, in Mbit/s, as bits of a floating-point number.
static RATE: AtomicU64 = AtomicU64::new(0);

#[derive(Debug, Clone, Copy)]
struct Path {
    delay: Duration,
    loss: f64,
    queue: Duration,
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [a, b, rate, delay, loss, queue] = &words[..] else {
        eprintln!("usage: path NAME_A NAME_B RATE_MBIT DELAY_MS LOSS QUEUE_MS");
        std::process::exit(2);
    };
    let number = |text: &str| text.parse::<f64>().expect("a number");
    RATE.store(number(rate).to_bits(), Ordering::Relaxed);
    let path = Path {
        delay: Duration::from_secs_f64(number(delay) / 1e3),
        loss: number(loss),
        queue: Duration::from_secs_f64(number(queue) / 1e3),
    };
    let open = |name: &str| {
        let device = DeviceBuilder::new().name(name).mtu(1500).build_sync().expect("a TUN device");
        device.set_nonblocking(true).expect("a descriptor that need not wait");
        Arc::new(device)
    };
    // Other names lose other packets.
    let seed = a.bytes().fold(1_u64, |seed, byte| seed.wrapping_mul(257) + u64::from(byte));
    let (a, b) = (open(a), open(b));
    println!("ready");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for line in std::io::stdin().lines().map_while(Result::ok) {
                RATE.store(number(line.trim()).to_bits(), Ordering::Relaxed);
            }
        });
        scope.spawn(|| path.carry(&a, &b, seed));
        scope.spawn(|| path.carry(&b, &a, !seed));
    });
}

impl Path {
    /// Moves packets until the process ends.
    fn carry(self, from: &SyncDevice, to: &SyncDevice, seed: u64) {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut waiting: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
        let mut spare: Vec<Vec<u8>> = Vec::new();
        let mut free = Instant::now();
        loop {
            let now = Instant::now();
            while waiting.front().is_some_and(|(due, _)| *due <= now) {
                let Some((_, packet)) = waiting.pop_front() else { break };
                let _lost = to.send(&packet);
                spare.push(packet);
            }
            let mut buffer = spare.pop().unwrap_or_default();
            buffer.resize(2048, 0);
            let Ok(length) = from.recv(&mut buffer) else {
                spare.push(buffer);
                wait(from, waiting.front().map(|(due, _)| due.saturating_duration_since(now)));
                continue;
            };
            buffer.truncate(length);
            let start = free.max(now);
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let drawn = (state >> 11) as f64 / (1_u64 << 53) as f64;
            if start - now > self.queue {
                spare.push(buffer);
                continue;
            }
            let rate = f64::from_bits(RATE.load(Ordering::Relaxed)) * 1e6 / 8.0;
            free = start + Duration::from_secs_f64(length as f64 / rate);
            if drawn < self.loss {
                spare.push(buffer);
            } else {
                waiting.push_back((free + self.delay, buffer));
            }
        }
    }
}

/// Waits for a packet, or for `most`.
fn wait(device: &SyncDevice, most: Option<Duration>) {
    let most = most.unwrap_or(Duration::from_secs(1));
    let time = rustix::event::Timespec {
        tv_sec: most.as_secs() as i64,
        tv_nsec: i64::from(most.subsec_nanos()),
    };
    let mut ready = [rustix::event::PollFd::new(device, rustix::event::PollFlags::IN)];
    let _woken = rustix::event::poll(&mut ready, Some(&time));
}
