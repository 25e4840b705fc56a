//! Firmware of one's own: files that try to take too much memory, paths, mistakes.

use crate::around::root;
use crate::folder::Folder;
use std::fs;
use std::process::Stdio;

/// The most that a file of some hundred kilobytes may add to a run's memory.
const MOST: u64 = 48 << 20;

#[path = "../../../linecard-host/src/firmware/bombs.rs"]
mod bombs;
#[path = "../../../linecard-host/src/firmware/build.rs"]
#[expect(dead_code, reason = "the tests of linecard-host use the rest")]
mod build;

/// Runs firmware from a file; gives the most memory that the process had.
fn peak(folder: &Folder, image: &str) -> u64 {
    let image = format!("firmware.image={image}");
    let mut command = folder.command(&["model", "run", "s.toml", "--set", &image]);
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    // The kernel keeps the peak, and the run goes on for some hundred milliseconds after the file
    // has been read.
    loop {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
        peak = peak.max(kib.unwrap_or(0) * 1024);
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success(), "{image}: {status}");
            return peak;
        }
        std::thread::yield_now();
    }
}

#[test]
fn debug_information_that_repeats_itself_takes_little_memory() {
    let folder = Folder::new();
    let scenario = "model = \"transmit\"\n[load]\nmessages = 2000\nsize = 14600\n";
    folder.write("s.toml", scenario.as_bytes());
    let code = fs::read(root().join("firmware/images/best.bin")).unwrap();
    let plain = build::Build::executable().segment(0, &code, code.len(), build::EXECUTE).bytes();
    folder.write("plain.elf", &plain);
    let plain = peak(&folder, "plain.elf");
    for (name, bytes) in bombs::all(&code) {
        folder.write("bomb.elf", &bytes);
        let more = peak(&folder, "bomb.elf").saturating_sub(plain);
        assert!(more < MOST, "{name}: a file of {} bytes takes {more} more", bytes.len());
    }
}
