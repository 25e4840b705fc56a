//! Either end of a folder's transfer is killed at any moment: only whole files have their names, and little is sent
//! again.

use super::ends::{
    Ends, HEADER_BYTES, RECORD_BYTES, Receiver, Sender, Survivor, account, kill_one, number, runs,
};
use linecard::rng::Rng;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

const PAYLOAD_BYTES: u64 = 1_408;
const LANES: usize = 3;
/// The counter of packets does not distinguish probes from data.
const SLACK_PACKETS: u64 = 46;
/// No wait for progress is longer.
const LONGEST: Duration = Duration::from_secs(60);

/// Lengths of a folder and of its transfers.
struct Scale {
    files: usize,
    chunk_bytes: u64,
    /// Of the receiver's window.
    memory_bytes: u64,
    /// What the receiver and the sender are told of that, and a rate that lasts.
    receiver: &'static [&'static str],
    sender: &'static [&'static str],
}

/// The shortest chunks that may be, in a window that is not much longer.
const SHORT: Scale = Scale {
    files: 300,
    chunk_bytes: 64 << 10,
    memory_bytes: 1 << 20,
    receiver: &["--memory", "1M"],
    sender: &["--chunk", "64K", "--rate", "50M"],
};

/// Chunks and a window as they are without options.
const USUAL: Scale = Scale {
    files: 100,
    chunk_bytes: 2 << 20,
    memory_bytes: 512 << 20,
    receiver: &[],
    sender: &["--rate", "200M"],
};

/// A folder to be sent.
struct Tree {
    scale: &'static Scale,
    ends: Ends,
    /// By their names below `tree`.
    files: BTreeMap<String, Vec<u8>>,
}

/// What the receiver has stored for the next run: whole files, and chunks in journals.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd)]
struct Kept {
    packets: u64,
    bytes: u64,
}

impl Kept {
    fn add(&mut self, bytes: u64, scale: &Scale) {
        self.bytes += bytes;
        self.packets += scale.packets(bytes);
    }
}

impl Scale {
    /// Packets of data of stored bytes, in chunks.
    fn packets(&self, bytes: u64) -> u64 {
        let chunk = |bytes: u64| bytes.div_ceil(PAYLOAD_BYTES);
        bytes / self.chunk_bytes * chunk(self.chunk_bytes) + chunk(bytes % self.chunk_bytes)
    }

    /// What may be sent again: full packets of the receiver's memory, and the last one of each of its chunks.
    fn most_again(&self) -> u64 {
        self.memory_bytes / PAYLOAD_BYTES + 256 + SLACK_PACKETS
    }

    /// Most files have a packet or some; others are empty, or have up to six chunks.
    fn length(&self, rng: &mut Rng) -> u64 {
        match rng.below(8) {
            0 => 0,
            1..=4 => rng.below(8 << 10),
            5 => rng.below(self.chunk_bytes),
            6 => self.chunk_bytes * (1 + rng.below(4)),
            _ => self.chunk_bytes + rng.below(5 * self.chunk_bytes),
        }
    }
}

/// Sets mode and time as the number says.
fn dress(path: &Path, modes: [u32; 3], number: u64) {
    fs::set_permissions(path, fs::Permissions::from_mode(modes[number as usize % 3])).unwrap();
    let modified = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000 + number, 123_456_789);
    fs::File::open(path).unwrap().set_modified(modified).unwrap();
}

/// Mode and time, and the contents of a file.
fn seen(path: &Path) -> (u32, SystemTime, Option<Vec<u8>>) {
    let about = fs::metadata(path).unwrap();
    let bytes = about.is_file().then(|| fs::read(path).unwrap());
    (about.permissions().mode(), about.modified().unwrap(), bytes)
}

impl Tree {
    fn new(scale: &'static Scale, rng: &mut Rng) -> Self {
        let (ends, mut files) = (Ends::new(), BTreeMap::new());
        for number in 0..scale.files {
            let mut bytes = vec![0; scale.length(rng) as usize];
            rng.fill(&mut bytes);
            let name = format!("tree/d{}/f{number}", number / 40);
            let path = ends.folder.path(&name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &bytes).unwrap();
            // The umask leaves these.
            dress(&path, [0o600, 0o700, 0o400], number as u64);
            files.insert(name, bytes);
        }
        for number in 0..scale.files.div_ceil(40) {
            dress(&ends.folder.path(&format!("tree/d{number}")), [0o700; 3], 7);
        }
        Self { scale, ends, files }
    }

    fn all(&self) -> Kept {
        let mut all = Kept::default();
        self.files.values().for_each(|bytes| all.add(bytes.len() as u64, self.scale));
        all
    }

    fn kept(&self) -> Kept {
        let (mut kept, chunk_bytes) = (Kept::default(), self.scale.chunk_bytes);
        for (name, bytes) in &self.files {
            let length = bytes.len() as u64;
            let path = self.ends.folder.path(&format!("to/{name}"));
            let file = path.file_name().unwrap().to_str().unwrap();
            // It is looked for after the journal, which goes when the file gets its name.
            let beside =
                |kind: &str| fs::read(path.with_file_name(format!(".{file}.linecard-{kind}")));
            let (journal, part) = (beside("journal"), beside("part"));
            let is_whole = length <= chunk_bytes && part.is_ok_and(|part| part == *bytes);
            if is_whole || path.exists() {
                kept.add(length, self.scale);
            } else if let Some(records) = journal.unwrap_or_default().get(HEADER_BYTES as usize..) {
                for record in records.chunks_exact(RECORD_BYTES as usize) {
                    let chunk = u64::from(u32::from_be_bytes(record[..4].try_into().unwrap()));
                    kept.add(chunk_bytes.min(length - chunk * chunk_bytes), self.scale);
                }
            }
        }
        kept
    }

    fn start(&self) -> (Receiver, Sender) {
        let receiver = self.ends.receiver(&[&["--json"], self.scale.receiver].concat());
        let lanes = ["--lane", "127.0.0.1"].repeat(LANES);
        let more = ["--payload", "1408", "--mode", "stable", "--json"];
        let more = [&more[..], self.scale.sender, &lanes].concat();
        let sender = Sender::start(self.ends.sender("tree", &receiver, &more));
        (receiver, sender)
    }

    /// Kills one end when so much is stored, and gives the packets that were sent again, or will be. None if all was
    /// transferred before.
    fn kill(&self, is_receiver: bool, goal_packets: u64) -> Option<u64> {
        let before = self.kept();
        let (receiver, sender) = self.start();
        let begun = Instant::now();
        while self.kept().packets < before.packets + goal_packets
            && runs(receiver.id())
            && runs(sender.id())
        {
            assert!(begun.elapsed() < LONGEST, "it stands still");
            std::thread::sleep(Duration::from_millis(2));
        }
        let moved = match kill_one(receiver, sender, is_receiver) {
            Survivor::Complete => return None,
            Survivor::Nothing => 0,
            Survivor::Account(account) => moved_packets(&account),
        };
        let after = self.kept();
        assert!(after >= before, "{before:?} {after:?}");
        self.assert_names();
        Some(moved.saturating_sub(after.packets - before.packets))
    }

    /// Whatever has a file's name is that file.
    fn assert_names(&self) {
        let partial = |name: &str| name.contains("/.f") && name.contains(".linecard-");
        for name in self.ends.folder.names() {
            let Some(below) = name.strip_prefix("to/").filter(|name| !partial(name)) else {
                continue;
            };
            if self.ends.folder.path(&name).is_file() {
                let bytes = self.files.get(below).unwrap_or_else(|| panic!("{name}"));
                assert!(self.ends.folder.read(&name) == *bytes, "{name}");
            }
        }
    }

    /// Contents, modes and times are those of the sender, and nothing else is there.
    fn assert_equal(&self) {
        let names = self.ends.folder.names().into_iter();
        let of = |folder: &str| -> Vec<String> {
            let below = |name: String| name.strip_prefix(folder).map(str::to_owned);
            names.clone().filter_map(below).filter(|name| name.starts_with("tree")).collect()
        };
        let (from, to) = (of(""), of("to/"));
        let other: Vec<_> = to.iter().filter(|name| !from.contains(name)).collect();
        assert!(
            other.is_empty() && from.len() == to.len(),
            "{other:?}, {} of {}",
            to.len(),
            from.len()
        );
        for name in from {
            let path = |folder: &str| self.ends.folder.path(&format!("{folder}{name}"));
            assert!(seen(&path("")) == seen(&path("to/")), "{name}");
        }
    }
}

/// Packets of data that left, or came, as the end says that was not killed: each once.
fn moved_packets(account: &Value) -> u64 {
    let transfer = &account["transfer"];
    if let Some(taken) = transfer["packets"].as_u64() {
        return taken;
    }
    let lanes = account["lanes"].as_array().unwrap().iter();
    let left: u64 = lanes.map(|lane| lane["value"]["packets"].as_u64().unwrap()).sum();
    left.saturating_sub(transfer["resent"].as_u64().unwrap())
}

/// Kills an end so many times, lets the rest come, and prints how many packets were sent again after a kill.
fn kill_many(scale: &'static Scale, kills: u64) {
    let seed = number("LINECARD_SEED").unwrap_or(1);
    let mut rng = Rng::new(seed);
    let tree = Tree::new(scale, &mut rng);
    let (bound, chunk) = (scale.most_again(), scale.packets(scale.chunk_bytes));
    let (mut all_again, mut completed, mut round) = (Vec::new(), 0, 0);
    while round < kills {
        let goal_packets = rng.below(tree.all().packets / 5);
        let Some(again) = tree.kill(round % 2 == seed % 2, goal_packets) else {
            // There was less to come than that. The next one begins anew.
            tree.assert_equal();
            fs::remove_dir_all(tree.ends.folder.path("to")).unwrap();
            completed += 1;
            assert!(completed <= kills, "nothing is there to be killed");
            continue;
        };
        assert!(again <= bound, "round {round} of seed {seed}: {again} packets again, of {bound}");
        all_again.push(again);
        round += 1;
    }
    let before = tree.kept();
    let (receiver, sender) = tree.start();
    let (sent, got) = (sender.end(), receiver.end());
    assert_eq!((sent.code, got.code), (Some(0), Some(0)), "{sent:?} {got:?}");
    tree.assert_equal();
    let had_bytes = account(&sent)["transfer"]["had_bytes"].as_u64().unwrap_or(0);
    assert_eq!(had_bytes, before.bytes, "seed {seed}");
    all_again.sort_unstable();
    let [median, most] = [all_again.len() / 2, all_again.len() - 1].map(|at| all_again[at]);
    let of_lanes = |packets: u64| packets as f64 / (chunk * LANES as u64) as f64;
    eprintln!(
        "{kills} kills of seed {seed}, {completed} folders complete: again {median} packets in the median \
         ({:.2} chunks of {} bytes a lane), at most {most} ({:.2}), of {bound}",
        of_lanes(median),
        scale.chunk_bytes,
        of_lanes(most),
    );
}

/// As many kills as the environment says; if it says nothing, this many, or 200 with `LINECARD_LONG=1`.
fn kills(usual: u64) -> u64 {
    let usual = if linecard_testkit::is_long() { 200 } else { usual };
    number("LINECARD_ROUNDS").unwrap_or(usual)
}

/// Promise (Transfer): When an end of a folder's transfer is killed at random moments, only whole files have their names, a
/// run sends no more again than the receiver's window, and contents, modes and times arrive: 300 files of up to six chunks,
/// 10 kills, or 200 with `LINECARD_LONG=1`.
#[test]
fn a_folder_whose_ends_are_killed_at_any_moment() {
    kill_many(&SHORT, kills(10));
}

/// The same with chunks and a window as they are without options. The window is longer than the folder: packets that are
/// sent again are counted, and not bounded.
#[test]
fn a_folder_of_usual_chunks_whose_ends_are_killed_at_any_moment() {
    kill_many(&USUAL, kills(2));
}
